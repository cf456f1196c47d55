//! Tokenizers, chat templates and incremental detokenizing.
//!
//! What lives here: text to tokens ([`Tokenizer`]), a conversation to a prompt ([`ChatTemplate`]), and tokens back to
//! text as they come ([`Detokenizer`]). Text that merely looks like a special token stays text: only the template's own
//! words open and close turns.
//!
//! What must never live here: files (`checkpoint` reads them), devices, sampling, HTTP.
//!
//! Start reading at [`Tokenizer`], then `specials.rs`, which explains how literal text is kept literal.
//!
//! ```
//! use fiddlehead_text::{ChatRequest, ChatTemplate};
//!
//! let source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<answer>{% endif %}";
//! let template = ChatTemplate::new(source, None, None)?;
//! let request = ChatRequest::new(vec![ChatRequest::message("user", "Hello")]);
//! assert_eq!(template.render(&request)?, "<user>Hello<answer>");
//! # Ok::<(), fiddlehead_text::TextError>(())
//! ```

mod decoder;
mod detokenizer;
mod ends;
mod error;
mod growth;
mod parts;
mod post_processor;
mod pre_tokenizers;
mod request;
mod specials;
mod stops;
mod template;
mod tokenizer;
mod vocabulary;

pub use detokenizer::{Detokenizer, DetokenizerOptions, Piece};
pub use ends::end_tokens;
pub use error::TextError;
pub use parts::{TokenKind, TokenizerParts};
pub use request::ChatRequest;
pub use template::ChatTemplate;
pub use tokenizer::{Specials, Tokenizer};
