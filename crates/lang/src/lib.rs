//! Source text to typed program: lexer, parser, types and diagnostics of the Fiddlehead language.
//!
//! Here live the text's grammar, its rules and its messages, and the typed program ([`hir`]) that they yield. Devices,
//! checkpoints and the graph never appear here. Start reading at [`compile`] and [`hir`]; the language itself is
//! described in `docs/language.md`.
//!
//! ```
//! let text = "fn main[N](x: f32[N]) -> f32 = sum[i in N] x[i] * x[i];";
//! let program = fiddlehead_lang::compile("square.fh", text).expect("a right program");
//! assert!(program.function("main").is_some());
//!
//! let wrong = fiddlehead_lang::compile("wrong.fh", "fn main[N](x: f32[N]) -> f32 = summ(x);");
//! let messages = wrong.expect_err("`summ` is not declared");
//! assert_eq!(messages.items[0].rule.name(), "unknown-name");
//! ```

mod ast;
mod check;
pub mod diagnostic;
pub mod dump;
pub mod examples;
pub mod hir;
mod lexer;
pub mod outline;
mod parser;
pub mod size;
pub mod source;
pub mod visit;

pub use diagnostic::{Diagnostic, Diagnostics, Rule};
pub use size::{Size, SizeError, SizeSymbol};
pub use source::{Source, Span};

/// Texts longer than this are refused: places in them are 32-bit.
const LONGEST_TEXT: usize = 1 << 20;

/// Checks a source text. `name` is what messages call it, a path as a rule.
///
/// # Errors
/// Everything that is wrong with the text, up to [`diagnostic::MOST_DIAGNOSTICS`] messages.
pub fn compile(name: &str, text: &str) -> Result<hir::Program, Diagnostics> {
    if text.len() > LONGEST_TEXT {
        let message = format!("the text has {} bytes, at most {LONGEST_TEXT} are read", text.len());
        let source = Source { name: name.to_string(), text: String::new() };
        return Err(Diagnostics::new(source, vec![Diagnostic::new(Rule::Syntax, Span::default(), message)]));
    }
    let source = Source { name: name.to_string(), text: text.to_string() };
    let (file, mut diagnostics) = parser::parse(text);
    let (program, more) = check::check(source, &file);
    diagnostics.extend(more);
    if diagnostics.is_empty() { Ok(program) } else { Err(Diagnostics::new(program.source, diagnostics)) }
}
