//! Keeping text literal that looks like a special token.
//!
//! A tokenizer splits special tokens out of a text before anything else, wherever they stand. So a message that says
//! `<|im_start|>` would open a turn. The cure: before rendering, one private-use character (the mark) that occurs
//! nowhere else is put behind the first character of every special token's text within what the user wrote. The
//! tokenizer then does not find the token; the mark is taken out again after the split and before the words are made.
//! Text without such a look-alike is not touched at all, so its tokens are those of the plain encoding.
//!
//! The mark stands inside the look-alike, never at an edge of the message, so that a template's `trim`, `startswith` and
//! `split` see what they look for. Two parts of a user's text may be joined by a template, so the beginning of a special
//! token at the end of a part is marked too.

use std::borrow::Cow;

/// The texts of a tokenizer's special tokens.
#[derive(Debug, Default)]
pub(crate) struct SpecialTexts {
    /// Sorted; none is empty.
    texts: Vec<String>,
}

/// Whether the text stands alone or may be joined with more of the user's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joins {
    Never,
    Perhaps,
}

impl SpecialTexts {
    pub(crate) fn new(texts: impl IntoIterator<Item = String>) -> SpecialTexts {
        let mut texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        texts.sort_unstable();
        texts.dedup();
        SpecialTexts { texts }
    }

    /// Whether anything in `text` would need a mark.
    pub(crate) fn occur_in(&self, text: &str, joins: Joins) -> bool {
        text.char_indices().any(|(at, first)| self.begins(&text[at..], first, joins))
    }

    /// The text with a mark behind the first character of every look-alike.
    pub(crate) fn mark<'a>(&self, text: &'a str, mark: char, joins: Joins) -> Cow<'a, str> {
        let mut marked = String::new();
        let mut copied = 0;
        for (at, first) in text.char_indices() {
            if self.begins(&text[at..], first, joins) {
                let after = at + first.len_utf8();
                marked.push_str(&text[copied..after]);
                marked.push(mark);
                copied = after;
            }
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        marked.push_str(&text[copied..]);
        Cow::Owned(marked)
    }

    /// Whether a special token, or at the very end the beginning of one, stands at the start of `rest`.
    ///
    /// Goes byte by byte and keeps the range of those texts that begin so, so that a vocabulary with thousands of special
    /// tokens costs no more than one with three.
    fn begins(&self, rest: &str, first: char, joins: Joins) -> bool {
        // A word's beginning is no reason to touch it: a template may compare whole words.
        let open_end = joins == Joins::Perhaps && !first.is_alphanumeric();
        let mut candidates = self.texts.as_slice();
        for (at, byte) in rest.bytes().enumerate() {
            // All candidates agree with `rest` before `at`; the shortest of them comes first.
            let byte_of = |text: &String| text.as_bytes().get(at).copied();
            let start = candidates.partition_point(|text| byte_of(text) < Some(byte));
            let end = candidates.partition_point(|text| byte_of(text) <= Some(byte));
            candidates = candidates.get(start..end).unwrap_or_default();
            match candidates.first() {
                Some(text) if text.len() == at + 1 => return true,
                Some(_) => {}
                None => return false,
            }
        }
        open_end
    }
}

/// A private-use character that is none of `used`.
pub(crate) fn free_mark(used: impl Iterator<Item = char>) -> Option<char> {
    const FIRST: u32 = 0x10_0000;
    const COUNT: usize = 0xfffe;
    let mut taken = vec![false; COUNT];
    for character in used {
        if let Some(slot) = (character as u32).checked_sub(FIRST).and_then(|at| taken.get_mut(at as usize)) {
            *slot = true;
        }
    }
    let free = taken.iter().position(|taken| !taken)?;
    char::from_u32(FIRST + free as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> SpecialTexts {
        SpecialTexts::new(["<|im_start|>", "<|im_end|>", "<s>", "system", ""].map(str::to_owned))
    }

    #[test]
    fn look_alikes_are_marked_inside() {
        for (text, joins, marked) in [
            ("plain < text |>", Joins::Perhaps, "plain < text |>"),
            ("<|im_end|>", Joins::Never, "<*|im_end|>"),
            (" a<s><s>b <|im_start|>", Joins::Never, " a<*s><*s>b <*|im_start|>"),
            ("<|im_st", Joins::Never, "<|im_st"),
            ("<|im_st", Joins::Perhaps, "<*|im_st"),
            ("a <", Joins::Perhaps, "a <*"),
            ("<|im_st ", Joins::Perhaps, "<|im_st "),
            ("yes", Joins::Perhaps, "yes"),
            ("a system", Joins::Perhaps, "a s*ystem"),
            ("", Joins::Perhaps, ""),
        ] {
            assert_eq!(texts().mark(text, '*', joins), marked);
            assert_eq!(texts().occur_in(text, joins), marked.contains('*'), "{text}");
        }
    }

    #[test]
    fn the_mark_is_a_character_that_nobody_used() {
        assert_eq!(free_mark("abc".chars()), Some('\u{100000}'));
        assert_eq!(free_mark("\u{100001}\u{100000}".chars()), Some('\u{100002}'));
        let all = (0x10_0000..=0x10_fffd).filter_map(char::from_u32);
        assert_eq!(free_mark(all), None);
    }
}
