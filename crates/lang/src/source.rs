//! Places in source text.

/// A range of bytes of one source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The range `start .. end`.
    pub fn new(start: u32, end: u32) -> Span {
        Span { start, end }
    }

    /// The least span that covers both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A source text with its name, for messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The file's name, or another name that a user recognises.
    pub name: String,
    /// The whole text.
    pub text: String,
}

impl Source {
    /// The line and the column, both from 1, of a byte; the column counts characters.
    pub fn line_and_column(&self, byte: u32) -> (usize, usize) {
        let mut at = (byte as usize).min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// Whether a line that a place touches has more than `most` bytes.
    pub(crate) fn is_on_a_long_line(&self, span: Span, most: usize) -> bool {
        let bytes = self.text.as_bytes();
        let first = (span.start as usize).min(bytes.len());
        let last = (span.end as usize).clamp(first, bytes.len());
        let start = bytes[..first].iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        let end =
            bytes[last..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |ahead| last + ahead);
        bytes[start..end].split(|&byte| byte == b'\n').any(|line| line.len() > most)
    }
}
