//! Which roundings a user allows.

use std::fmt;
use std::str::FromStr;

/// The numerics contract of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Numerics {
    /// f32 products and accumulation everywhere, `compute` lists ignored: what golden tests run.
    F32,
    /// What the program's `compute` lists allow, where a checkpoint gate lets it through ([`crate::gates`]).
    #[default]
    Auto,
    /// No operand is rounded, and there is one class for prompts and generated tokens, so that a cached prefix never
    /// differs from a cold one.
    Strict,
}

impl fmt::Display for Numerics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Numerics::F32 => "f32",
            Numerics::Auto => "auto",
            Numerics::Strict => "strict",
        })
    }
}

impl FromStr for Numerics {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "f32" => Ok(Numerics::F32),
            "auto" => Ok(Numerics::Auto),
            "strict" => Ok(Numerics::Strict),
            other => Err(format!("`{other}` is no numerics contract: f32, auto or strict")),
        }
    }
}
