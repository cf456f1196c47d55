//! Messages about a source text: what is wrong, where, by which rule, and what to do.

use std::fmt;

use ariadne::{Color, Config, IndexType, Label, Report, ReportKind};

use crate::source::{Source, Span};

/// A rule of the language, as `docs/language.md` states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// The text is not made of the language's words and signs.
    Token,
    /// The text does not follow the grammar.
    Syntax,
    /// The text is nested too deeply.
    Depth,
    /// A name stands for nothing here.
    UnknownName,
    /// A name is declared twice, or is taken by the language.
    DuplicateName,
    /// Types differ.
    TypeMismatch,
    /// Shapes differ.
    ShapeMismatch,
    /// A size cannot be solved, or is not a size expression.
    Size,
    /// A call has the wrong number of arguments.
    ArgumentCount,
    /// An index is outside its range for certain, or of the wrong type or number.
    Index,
    /// A ragged array is used other than by indexing.
    Ragged,
    /// A step's parts stand where they cannot live.
    Step,
    /// A state or a history is misused.
    State,
    /// A `scan` is malformed or stands where it cannot.
    Scan,
    /// A model's declaration is wrong.
    Model,
    /// A layer or its kind is misused.
    Layer,
    /// A value must be known before planning.
    Static,
    /// A function calls itself.
    Recursion,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 18] = [
        Rule::Token,
        Rule::Syntax,
        Rule::Depth,
        Rule::UnknownName,
        Rule::DuplicateName,
        Rule::TypeMismatch,
        Rule::ShapeMismatch,
        Rule::Size,
        Rule::ArgumentCount,
        Rule::Index,
        Rule::Ragged,
        Rule::Step,
        Rule::State,
        Rule::Scan,
        Rule::Model,
        Rule::Layer,
        Rule::Static,
        Rule::Recursion,
    ];

    /// A short name, for tests and searches.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Token => "token",
            Rule::Syntax => "syntax",
            Rule::Depth => "depth",
            Rule::UnknownName => "unknown-name",
            Rule::DuplicateName => "duplicate-name",
            Rule::TypeMismatch => "type-mismatch",
            Rule::ShapeMismatch => "shape-mismatch",
            Rule::Size => "size",
            Rule::ArgumentCount => "argument-count",
            Rule::Index => "index",
            Rule::Ragged => "ragged",
            Rule::Step => "step",
            Rule::State => "state",
            Rule::Scan => "scan",
            Rule::Model => "model",
            Rule::Layer => "layer",
            Rule::Static => "static",
            Rule::Recursion => "recursion",
        }
    }

    /// The rule in one sentence.
    pub fn statement(self) -> &'static str {
        match self {
            Rule::Token => "a program is made of names, numbers, signs and `//` comments",
            Rule::Syntax => "a program follows the grammar",
            Rule::Depth => "expressions and blocks nest at most 128 deep",
            Rule::UnknownName => "a name is declared before it is used, in a scope around its use",
            Rule::DuplicateName => {
                "a name is declared once in its scope and is not one of the language's own"
            }
            Rule::TypeMismatch => {
                "nothing converts by itself, except sizes and integer literals to f32; write f32(x), i32(x) or id(x)"
            }
            Rule::ShapeMismatch => "sizes are equal when they are equal for all values of their symbols",
            Rule::Size => {
                "sizes are integers, size symbols, and + - * / of them; all are bound before a plan is made"
            }
            Rule::ArgumentCount => "a call gives one argument for each parameter",
            Rule::Index => {
                "indices are i32 or id, at most one for each dimension, and inside the dimension's range"
            }
            Rule::Ragged => {
                "an array with a dependent range is local: it is indexed with all its indices, and not passed, returned or stored"
            }
            Rule::Step => {
                "state belongs to a call site that runs exactly once at every node: in a step, outside run-time `if`, `each` and folds"
            }
            Rule::State => {
                "a state is assigned at most once a node; a history is read at depths up to `here`"
            }
            Rule::Scan => "a scan runs a number of turns known from sizes, and emits at most once a turn",
            Rule::Model => "a model declares dims, statics, params, consts, layers, functions and steps",
            Rule::Layer => "a layer's own fields are reached where its kind is known",
            Rule::Static => "this value must be known before planning",
            Rule::Recursion => "functions are inlined, so none may call itself",
        }
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The rule that is broken.
    pub rule: Rule,
    /// Where.
    pub span: Span,
    /// What is wrong, with the names and types at hand.
    pub message: String,
    /// What to do, where something can be said.
    pub hint: Option<String>,
    /// Another place that matters, with what it is.
    pub related: Option<(Span, String)>,
}

impl Diagnostic {
    /// A message without hint.
    pub fn new(rule: Rule, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { rule, span, message: message.into(), hint: None, related: None }
    }

    /// The same with a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// The same with another place.
    pub fn related(mut self, span: Span, what: impl Into<String>) -> Diagnostic {
        self.related = Some((span, what.into()));
        self
    }
}

/// Everything that is wrong with one source text, in the order of the text; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    /// The text.
    pub source: Source,
    /// The messages.
    pub items: Vec<Diagnostic>,
}

/// No more messages than this are kept from one run.
pub const MOST_DIAGNOSTICS: usize = 100;

/// Lines with more bytes than this are not drawn.
const LONGEST_LINE: usize = 1000;

impl Diagnostics {
    /// Sorts, drops repetitions and bounds the number.
    pub(crate) fn new(source: Source, mut items: Vec<Diagnostic>) -> Diagnostics {
        items.sort_by(|a, b| {
            (a.span.start, a.span.end, a.rule, &a.message).cmp(&(
                b.span.start,
                b.span.end,
                b.rule,
                &b.message,
            ))
        });
        items.dedup();
        items.truncate(MOST_DIAGNOSTICS);
        Diagnostics { source, items }
    }

    /// The messages drawn with the source's lines; with colours for a terminal. A message about a line too long to be
    /// looked at stands without it.
    pub fn render(&self, colour: bool) -> String {
        let mut output = Vec::new();
        let drawn = ariadne::Source::from(self.source.text.as_str());
        let config = Config::new().with_index_type(IndexType::Byte).with_color(colour);
        let name = self.source.name.as_str();
        for item in &self.items {
            let places = [Some(item.span), item.related.as_ref().map(|(span, _)| *span)];
            if places.into_iter().flatten().any(|span| self.source.is_on_a_long_line(span, LONGEST_LINE)) {
                output.extend_from_slice(format!("Error: {}\n", self.line(item)).as_bytes());
                continue;
            }
            let range =
                |span: Span| (name, span.start as usize..(span.end as usize).max(span.start as usize));
            let mut report = Report::build(ReportKind::Error, range(item.span))
                .with_config(config)
                .with_message(&item.message)
                .with_label(Label::new(range(item.span)).with_message("here").with_color(Color::Red))
                .with_note(format!("rule {}: {}", item.rule.name(), item.rule.statement()));
            if let Some((span, what)) = &item.related {
                report =
                    report.with_label(Label::new(range(*span)).with_message(what).with_color(Color::Blue));
            }
            if let Some(hint) = &item.hint {
                report = report.with_help(hint);
            }
            if report.finish().write((name, &drawn), &mut output).is_err() {
                output.extend_from_slice(self.line(item).as_bytes());
            }
        }
        String::from_utf8_lossy(&output).into_owned()
    }

    fn line(&self, item: &Diagnostic) -> String {
        let (line, column) = self.source.line_and_column(item.span.start);
        let hint = item.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{}:{line}:{column}: {}{hint} [{}]", self.source.name, item.message, item.rule.name())
    }
}

impl fmt::Display for Diagnostics {
    /// One line a message: `file:line:column: message; hint [rule]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, item) in self.items.iter().enumerate() {
            if place > 0 {
                writeln!(f)?;
            }
            write!(f, "{}", self.line(item))?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}
