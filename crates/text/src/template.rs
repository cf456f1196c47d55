//! Chat templates: Jinja as Hugging Face's models write it.
//!
//! The engine is `minijinja`; `functions` adds what templates expect beyond it, `python` and `json` make values look
//! as Python writes them, `date` tells the time.

mod date;
mod functions;
mod json;
mod python;

use std::borrow::Cow;
use std::error::Error as _;
use std::time::SystemTime;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value};
use serde_json::Value as Json;

use crate::ends::token_text;
use crate::request::is_keyword;
use crate::{ChatRequest, TextError};

/// The most work a rendering may take: instructions, plus one for each 64 bytes made. Long conversations take tens of
/// thousands; a template that does not end is stopped after half a second or so and about a hundred megabytes.
const FUEL: u64 = 2_000_000;

/// The stack of a rendering, in bytes of address space. The engine frees nested values recursively, and this much fuel can
/// nest some hundred thousand: the stack holds them all.
const STACK: usize = 256 << 20;

/// The name of the only template, or of the one to take when nothing else is said.
const DEFAULT: &str = "default";
/// The name of the template to take when the request brings tools.
const WITH_TOOLS: &str = "tool_use";
/// The variable that holds the mark for `tojson`; no template can spell it.
const MARK: &str = "\u{0}mark";
/// The variable that holds the time for `strftime_now`, in seconds.
const NOW: &str = "\u{0}now";

/// A model's chat template, or several by name.
///
/// A template comes with the model, so it is bounded but not distrusted: one made to do harm can still have the engine
/// join lists without end. Do not build one from what a request says.
pub struct ChatTemplate {
    environment: Environment<'static>,
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
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| syntax_error(DEFAULT, &error))?);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(python::format);
        functions::add(&mut environment);
        for (name, source) in &sources {
            environment
                .add_template_owned(name.clone(), functions::without_generation_tags(source))
                .map_err(|error| syntax_error(name, &error))?;
        }
        Ok(ChatTemplate { environment, sources, tokens })
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
        marked: &dyn Fn(&str) -> Cow<'_, str>,
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
        marked: &dyn Fn(&str) -> Cow<'_, str>,
    ) -> Result<String, TextError> {
        request.check()?;
        let name = self.choose(request)?;
        let template = self.environment.get_template(name).map_err(render_error)?;
        let list = |values: &Option<Vec<Json>>| match values {
            Some(values) => values.iter().map(|value| value_of(value, marked)).collect(),
            None => Value::from(()),
        };
        let messages = request
            .messages
            .iter()
            .map(|message| value_of(&functions::with_parsed_arguments(message), marked));
        let now = request.now.unwrap_or_else(SystemTime::now);
        let variables = request.variables.iter().map(|(name, value)| (name.clone(), value_of(value, marked)));
        let own = [
            ("messages", messages.collect()),
            ("tools", list(&request.tools)),
            ("documents", list(&request.documents)),
            ("add_generation_prompt", Value::from(request.add_generation_prompt)),
            (NOW, Value::from(date::seconds(now))),
            (MARK, mark.map_or(Value::from(()), |mark| Value::from(mark.to_string()))),
        ];
        let tokens = self.tokens.iter().map(|(name, token)| (name.to_string(), Value::from(token.as_str())));
        // The later of two equal names wins: a request's variables replace no message and no token.
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        let context = Value::from_pairs(variables.chain(tokens).chain(own));
        on_a_large_stack(|| template.render(context).map_err(render_error))
    }

    fn choose<'a>(&'a self, request: &'a ChatRequest) -> Result<&'a str, TextError> {
        let has = |name: &str| self.sources.iter().any(|(known, _)| known == name);
        let name = match &request.template {
            Some(name) => name,
            None if request.tools.is_some() && has(WITH_TOOLS) => WITH_TOOLS,
            None => DEFAULT,
        };
        if !has(name) {
            let known = self.names().collect::<Vec<_>>().join(", ");
            return Err(TextError::NoSuchTemplate { name: name.to_owned(), known });
        }
        Ok(name)
    }
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.names()).finish()
    }
}

fn on_a_large_stack(render: impl FnOnce() -> Result<String, TextError> + Send) -> Result<String, TextError> {
    let failed = |reason: &str| TextError::TemplateFailed { reason: reason.to_owned() };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("chat template".to_owned()).stack_size(STACK);
        let thread = thread.spawn_scoped(scope, render).map_err(|error| failed(&error.to_string()))?;
        thread.join().unwrap_or_else(|_| Err(failed("the template engine gave up")))
    })
}

/// JSON as the template sees it, with `marked` applied to every text and every field's name.
fn value_of(json: &Json, marked: &dyn Fn(&str) -> Cow<'_, str>) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(value), ..) => Value::from(value),
            (_, Some(value), _) => Value::from(value),
            (.., value) => Value::from(value.unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(marked(text).as_ref()),
        Json::Array(list) => list.iter().map(|value| value_of(value, marked)).collect(),
        Json::Object(object) => Value::from_pairs(object.iter().map(|(name, value)| {
            let keyword = is_keyword(name, value);
            let value =
                if keyword { value_of(value, &|text| Cow::Borrowed(text)) } else { value_of(value, marked) };
            (marked(name).into_owned(), value)
        })),
    }
}

fn syntax_error(name: &str, error: &minijinja::Error) -> TextError {
    TextError::TemplateSyntax { name: name.to_owned(), reason: describe(error) }
}

fn render_error(error: minijinja::Error) -> TextError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(current) = cause {
        if let Some(raised) = current.downcast_ref::<functions::Raised>() {
            return TextError::TemplateRaised { message: raised.0.clone() };
        }
        if current
            .downcast_ref::<minijinja::Error>()
            .is_some_and(|error| error.kind() == ErrorKind::OutOfFuel)
        {
            return TextError::TemplateOutOfFuel;
        }
        cause = current.source();
    }
    TextError::TemplateFailed { reason: describe(&error) }
}

/// The engine's message, line and cause.
fn describe(error: &minijinja::Error) -> String {
    let mut text = error.to_string();
    if let Some(source) = error.source() {
        text += &format!(": {source}");
    }
    text
}
