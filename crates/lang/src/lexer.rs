//! Text to tokens. Never fails: what is no token is reported and left out.

use crate::diagnostic::{Diagnostic, Rule};
use crate::source::Span;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// A name or a word of the language; which one, the parser decides from the text.
    Word,
    /// An integer that fits i32.
    Int(i64),
    /// A number with a point or an exponent.
    Float(f64),
    /// A sign, by its text.
    Sign(&'static str),
    /// The end of the text, once.
    End,
}

/// A token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Token {
    pub kind: TokenKind,
    pub span: Span,
}

/// Longer signs first, so that the first match is the longest.
const SIGNS: &[&str] = &[
    "..=", "..", "->", "=>", "==", "!=", "<=", ">=", "&&", "||", "+", "-", "*", "/", "%", "=", "<", ">", "!",
    "(", ")", "[", "]", "{", "}", ",", ";", ":", ".", "'", "|",
];

/// All tokens of a text, [`TokenKind::End`] last, and what was wrong.
pub(crate) fn tokens(text: &str) -> (Vec<Token>, Vec<Diagnostic>) {
    // Some editors mark a UTF-8 file with a byte order mark, which nobody sees.
    let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at, diagnostics: Vec::new() };
    let mut tokens = Vec::with_capacity(text.len() / 3 + 1);
    loop {
        lexer.skip_blank();
        let start = lexer.at;
        let Some(kind) = lexer.token() else { continue };
        tokens.push(Token { kind, span: Span::new(start as u32, lexer.at as u32) });
        if kind == TokenKind::End {
            return (tokens, lexer.diagnostics);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    diagnostics: Vec<Diagnostic>,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip_while(&mut self, test: impl Fn(u8) -> bool) {
        while self.at < self.bytes.len() && test(self.bytes[self.at]) {
            self.at += 1;
        }
    }

    fn skip_blank(&mut self) {
        loop {
            self.skip_while(|byte| byte.is_ascii_whitespace());
            if self.peek(0) == b'/' && self.peek(1) == b'/' {
                self.skip_while(|byte| byte != b'\n');
            } else {
                return;
            }
        }
    }

    fn token(&mut self) -> Option<TokenKind> {
        if self.at >= self.bytes.len() {
            return Some(TokenKind::End);
        }
        let byte = self.peek(0);
        if byte.is_ascii_alphabetic() || byte == b'_' {
            self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            return Some(TokenKind::Word);
        }
        if byte.is_ascii_digit() {
            return Some(self.number());
        }
        let rest = &self.bytes[self.at..];
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(sign.as_bytes())) {
            self.at += sign.len();
            return Some(TokenKind::Sign(sign));
        }
        self.unknown();
        None
    }

    fn number(&mut self) -> TokenKind {
        let start = self.at;
        let digit = |byte: u8| byte.is_ascii_digit() || byte == b'_';
        self.skip_while(digit);
        let mut is_float = false;
        if self.peek(0) == b'.' && self.peek(1).is_ascii_digit() {
            is_float = true;
            self.at += 1;
            self.skip_while(digit);
        }
        if matches!(self.peek(0), b'e' | b'E') {
            let signed = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if self.peek(1 + signed).is_ascii_digit() {
                is_float = true;
                self.at += 1 + signed;
                self.skip_while(digit);
            }
        }
        let digits: String = self.text[start..self.at].chars().filter(|c| *c != '_').collect();
        let stop = self.at;
        // Letters that touch a number (`1.0f`, `12abc`) are one mistake, not two tokens.
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let span = Span::new(start as u32, self.at as u32);
        if self.at > stop {
            let message = format!("`{}` is not a number", &self.text[start..self.at]);
            let hint = "numbers are written `3`, `0.5` or `1e-6`, with no suffix";
            self.diagnostics.push(Diagnostic::new(Rule::Token, span, message).hint(hint));
        }
        if is_float {
            let value = digits.parse::<f64>().unwrap_or(f64::INFINITY);
            if !(value as f32).is_finite() {
                let message = "the number is beyond the range of f32";
                self.diagnostics.push(Diagnostic::new(Rule::Token, span, message));
                return TokenKind::Float(0.0);
            }
            TokenKind::Float(value)
        } else {
            match digits.parse::<i32>() {
                Ok(value) => TokenKind::Int(i64::from(value)),
                Err(_) => {
                    let message = "the integer is beyond the range of i32";
                    let hint = "write it with a point to make it an f32";
                    self.diagnostics.push(Diagnostic::new(Rule::Token, span, message).hint(hint));
                    TokenKind::Int(1)
                }
            }
        }
    }

    /// One message for a run of characters that no token starts with.
    fn unknown(&mut self) {
        let start = self.at;
        let known = |byte: u8| {
            byte.is_ascii_alphanumeric()
                || byte.is_ascii_whitespace()
                || byte == b'_'
                || SIGNS.iter().any(|sign| sign.as_bytes()[0] == byte)
        };
        self.skip_while(|byte| !known(byte));
        // `&` alone starts a sign but is none.
        self.at = self.at.max(start + 1);
        let text: String = self.text.get(start..self.at).unwrap_or("").chars().take(20).collect();
        let mut diagnostic = Diagnostic::new(
            Rule::Token,
            Span::new(start as u32, self.at as u32),
            format!("`{}` is not part of the language", text.escape_debug()),
        );
        if text.starts_with('&') {
            diagnostic = diagnostic.hint("and is written `&&`");
        } else if text.starts_with('"') {
            diagnostic = diagnostic.hint("there are no strings; tokens come in as `id` inputs");
        } else if text.starts_with('#') {
            diagnostic = diagnostic.hint("comments start with `//`");
        }
        self.diagnostics.push(diagnostic);
    }
}
