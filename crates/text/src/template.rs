//! Chat templates: Jinja as Hugging Face's models write it.
//!
//! `minijinja` reads a template's text; `render` and `expression` go through what it read, with `operators`, `filters`,
//! `sequences`, `tests`, `methods` and `functions` for what a template can call. `python` and `json` write values as Python
//! writes them, `date` tells the time. A template comes with a model, from anywhere: `meter` bounds what it may do.

mod arguments;
mod compare;
mod date;
mod expression;
mod filters;
mod format;
mod functions;
mod json;
mod meter;
mod methods;
mod operators;
mod python;
mod render;
mod sequences;
mod tests;
mod value;

use std::borrow::Cow;
use std::collections::HashMap;
use std::error::Error as _;
use std::time::SystemTime;

use minijinja::machinery::{ast::Stmt, parse};
use minijinja::syntax::SyntaxConfig;
use serde_json::Value as Json;

use self::meter::{Fault, Meter, Outcome};
use self::render::{Given, Renderer};
use self::value::Value;
use crate::ends::token_text;
use crate::{ChatRequest, TextError};

/// The longest template, in bytes; those of public models have at most a tenth of it.
const LONGEST: usize = 256 << 10;

/// The stack of a rendering, in bytes of address space. What the longest template can nest is read and freed recursively.
const STACK: usize = 256 << 20;

/// The name of the only template, or of the one to take when nothing else is said.
const DEFAULT: &str = "default";
/// The name of the template to take when the request brings tools.
const WITH_TOOLS: &str = "tool_use";

/// A model's chat template, or several by name.
///
/// A template may do anything that Jinja allows, for as long and with as much memory as a conversation can need; one made to
/// do harm ends with [`TextError::TemplateExhausted`].
pub struct ChatTemplate {
    /// Names and sources, in the order of the file.
    sources: Vec<(String, String)>,
    /// `bos_token` and the like, by the names that templates use.
    tokens: Vec<(&'static str, String)>,
}

impl ChatTemplate {
    /// A single template, with the tokens that it may write (`bos_token`, `eos_token`, each if there is one).
    ///
    /// # Errors
    /// [`TextError::TemplateSyntax`].
    pub fn new(source: &str, bos: Option<&str>, eos: Option<&str>) -> Result<ChatTemplate, TextError> {
        let tokens = [("bos_token", bos), ("eos_token", eos)];
        let tokens = tokens.into_iter().filter_map(|(name, token)| Some((name, token?.to_owned()))).collect();
        ChatTemplate::build(vec![(DEFAULT.to_owned(), source.to_owned())], tokens)
    }

    /// The templates of a model: `chat_template` of its `tokenizer_config.json`, a string or a list of named ones, and
    /// the text of `chat_template.jinja`, which wins over the default where a model has both. `None` when there is none.
    ///
    /// # Errors
    /// [`TextError::TemplateSyntax`].
    pub fn from_config(
        tokenizer_config: &Json,
        file: Option<&str>,
    ) -> Result<Option<ChatTemplate>, TextError> {
        let mut sources = match &tokenizer_config["chat_template"] {
            Json::String(source) => vec![(DEFAULT.to_owned(), source.clone())],
            Json::Array(list) => list
                .iter()
                .filter_map(|named| {
                    Some((named["name"].as_str()?.to_owned(), named["template"].as_str()?.to_owned()))
                })
                .collect(),
            _ => Vec::new(),
        };
        if let Some(file) = file {
            sources.retain(|(name, _)| name != DEFAULT);
            sources.push((DEFAULT.to_owned(), file.to_owned()));
        }
        if sources.is_empty() {
            return Ok(None);
        }
        let names =
            ["bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token"];
        let token = |name: &'static str| Some((name, token_text(&tokenizer_config[name])?.to_owned()));
        ChatTemplate::build(sources, names.into_iter().filter_map(token).collect()).map(Some)
    }

    fn build(
        sources: Vec<(String, String)>,
        tokens: Vec<(&'static str, String)>,
    ) -> Result<ChatTemplate, TextError> {
        for (name, source) in &sources {
            if source.len() > LONGEST {
                let reason = format!("it has {} bytes; up to {LONGEST} are supported", source.len());
                return Err(TextError::TemplateSyntax { name: name.clone(), reason });
            }
        }
        let sources: Vec<(String, String)> = sources
            .into_iter()
            .map(|(name, source)| (name, functions::without_generation_tags(&source)))
            .collect();
        for (name, source) in &sources {
            on_a_large_stack(|| read(name, source).map(drop))?;
        }
        Ok(ChatTemplate { sources, tokens })
    }

    /// The names of the templates, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(|(name, _)| name.as_str())
    }

    /// The rendered text. To make tokens of it use [`crate::Tokenizer::encode_chat`], which keeps the request's own
    /// text literal.
    ///
    /// # Errors
    /// When a message has no role, the template raises ([`TextError::TemplateRaised`] with its message), fails, or does
    /// not come to an end.
    pub fn render(&self, request: &ChatRequest) -> Result<String, TextError> {
        self.render_with(request, None, &|text| Cow::Borrowed(text))
    }

    /// As [`ChatTemplate::render`], with `marked` applied to every text of the request; `mark` is what it puts in.
    pub(crate) fn render_marked(
        &self,
        request: &ChatRequest,
        mark: char,
        marked: &(dyn Fn(&str) -> Cow<'_, str> + Sync),
    ) -> Result<String, TextError> {
        self.render_with(request, Some(mark), marked)
    }

    /// All characters that the template may write of its own.
    pub(crate) fn characters(&self) -> impl Iterator<Item = char> {
        let sources = self.sources.iter().map(|(_, source)| source);
        sources.chain(self.tokens.iter().map(|(_, token)| token)).flat_map(|text| text.chars())
    }

    fn render_with(
        &self,
        request: &ChatRequest,
        mark: Option<char>,
        marked: &(dyn Fn(&str) -> Cow<'_, str> + Sync),
    ) -> Result<String, TextError> {
        request.check()?;
        let (name, source) = self.choose(request)?;
        on_a_large_stack(|| {
            let template = read(name, source)?;
            let given = self.given(request, mark, marked).map_err(|fault| error_of(name, fault))?;
            let mut size = 0usize;
            request.each_text(&mut |text| size = size.saturating_add(text.len()));
            Renderer::new(Meter::new(size), given).render(&template).map_err(|fault| error_of(name, fault))
        })
    }

    /// What the template is given: a request's variables replace no message and no token.
    fn given(
        &self,
        request: &ChatRequest,
        mark: Option<char>,
        marked: &(dyn Fn(&str) -> Cow<'_, str> + Sync),
    ) -> Outcome<Given> {
        let unmetered = Meter::new(usize::MAX);
        let list = |values: &mut dyn Iterator<Item = Outcome<Value>>| {
            Value::list(&unmetered, values.collect::<Outcome<_>>()?)
        };
        let optional = |values: &Option<Vec<Json>>| match values {
            Some(values) => list(&mut values.iter().map(|value| Value::from_json(value, marked))),
            None => Ok(Value::None),
        };
        let mut messages = request
            .messages
            .iter()
            .map(|message| Value::from_json(&functions::with_parsed_arguments(message), marked));
        let mut variables = HashMap::new();
        for (name, value) in &request.variables {
            variables.insert(name.clone(), Value::from_json(value, marked)?);
        }
        for (name, token) in &self.tokens {
            variables.insert((*name).to_owned(), Value::text(token.as_str()));
        }
        let own = [
            ("messages", list(&mut messages)?),
            ("tools", optional(&request.tools)?),
            ("documents", optional(&request.documents)?),
            ("add_generation_prompt", Value::Bool(request.add_generation_prompt)),
        ];
        variables.extend(own.map(|(name, value)| (name.to_owned(), value)));
        let now = date::seconds(request.now.unwrap_or_else(SystemTime::now));
        Ok(Given { variables, mark, now })
    }

    /// The name and the source of the template to take.
    fn choose(&self, request: &ChatRequest) -> Result<(&str, &str), TextError> {
        let find = |name: &str| self.sources.iter().find(|(known, _)| known == name);
        let name = match &request.template {
            Some(name) => name,
            None if request.tools.is_some() && find(WITH_TOOLS).is_some() => WITH_TOOLS,
            None => DEFAULT,
        };
        match find(name) {
            Some((name, source)) => Ok((name, source)),
            None => {
                let known = self.names().collect::<Vec<_>>().join(", ");
                Err(TextError::NoSuchTemplate { name: name.to_owned(), known })
            }
        }
    }
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.names()).finish()
    }
}

/// What `minijinja` reads of a source.
fn read<'a>(name: &'a str, source: &'a str) -> Result<Stmt<'a>, TextError> {
    let syntax_error = |error: minijinja::Error| {
        let mut reason = error.to_string();
        if let Some(cause) = error.source() {
            reason += &format!(": {cause}");
        }
        TextError::TemplateSyntax { name: name.to_owned(), reason }
    };
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    parse(source, name, syntax.map_err(syntax_error)?).map_err(syntax_error)
}

fn error_of(name: &str, fault: Fault) -> TextError {
    match fault {
        Fault::Exhausted => TextError::TemplateExhausted,
        Fault::Raised(message) => TextError::TemplateRaised { message },
        Fault::Failed { reason, line: Some(line) } => {
            TextError::TemplateFailed { reason: format!("{reason} (in {name}:{line})") }
        }
        Fault::Failed { reason, line: None } => TextError::TemplateFailed { reason },
    }
}

fn on_a_large_stack<T: Send>(work: impl FnOnce() -> Result<T, TextError> + Send) -> Result<T, TextError> {
    let failed = |reason: &str| TextError::TemplateFailed { reason: reason.to_owned() };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("chat template".to_owned()).stack_size(STACK);
        let thread = thread.spawn_scoped(scope, work).map_err(|error| failed(&error.to_string()))?;
        thread.join().unwrap_or_else(|_| Err(failed("the template engine gave up")))
    })
}
