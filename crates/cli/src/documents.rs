//! A file of texts, cut into documents.

use std::borrow::Cow;

use anyhow::{Result, anyhow};
use serde_json::Value;

/// How a file holds documents.
#[derive(Clone, Copy, Debug)]
pub enum Layout<'a> {
    /// It is one.
    Whole,
    /// Several, with this text between them. A line end on either side of it belongs to it.
    Separated(&'a str),
    /// One a line, each a JSON object that holds the text under this key.
    JsonLines(&'a str),
}

/// The documents of a text; empty ones are left out.
///
/// # Errors
/// A line that is no JSON object with a text under the key.
pub fn documents<'a>(text: &'a str, layout: Layout<'_>) -> Result<Vec<Cow<'a, str>>> {
    let mut documents = match layout {
        Layout::Whole => vec![Cow::Borrowed(text)],
        Layout::Separated(separator) => separated(text, separator).map(Cow::Borrowed).collect(),
        Layout::JsonLines(key) => json_lines(text, key)?,
    };
    documents.retain(|document| !document.is_empty());
    Ok(documents)
}

fn separated<'a>(text: &'a str, separator: &str) -> impl Iterator<Item = &'a str> {
    text.split(separator).map(|piece| {
        let piece = piece.strip_prefix("\r\n").or(piece.strip_prefix('\n')).unwrap_or(piece);
        piece.strip_suffix("\r\n").or(piece.strip_suffix('\n')).unwrap_or(piece)
    })
}

fn json_lines<'a>(text: &str, key: &str) -> Result<Vec<Cow<'a, str>>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(place, line)| {
            let line_number = place + 1;
            let value: Value = serde_json::from_str(line)
                .map_err(|error| anyhow!("line {line_number} is no JSON: {error}"))?;
            match value.get(key) {
                Some(Value::String(text)) => Ok(Cow::Owned(text.clone())),
                _ => Err(anyhow!("line {line_number} holds no text under the key `{key}`")),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, layout: Layout<'_>) -> Vec<String> {
        documents(text, layout).expect("documents").into_iter().map(Cow::into_owned).collect()
    }

    #[test]
    fn documents_by_example() {
        let nothing: [&str; 0] = [];
        assert_eq!(cut("a\n\nb\n", Layout::Whole), ["a\n\nb\n"]);
        assert_eq!(cut("", Layout::Whole), nothing);
        let separated = Layout::Separated("<|end|>");
        assert_eq!(cut("a\n\nb\n<|end|>\nc\n<|end|>\n", separated), ["a\n\nb", "c"]);
        assert_eq!(cut("a\r\n<|end|>\r\n\nc<|end|>d", separated), ["a", "\nc", "d"]);
        assert_eq!(cut("<|end|><|end|>\n\n", separated), nothing);
        assert_eq!(cut("no end", separated), ["no end"]);
        assert_eq!(cut("a\n\nb\n\nc\n", Layout::Separated("\n\n")), ["a", "b", "c"]);
        let lines = "{\"text\": \"a\\nb\"}\n\n{\"id\": 2, \"text\": \"\"}\n{\"text\": \"c\"}\n";
        assert_eq!(cut(lines, Layout::JsonLines("text")), ["a\nb", "c"]);
    }

    #[test]
    fn lines_that_are_no_objects_with_texts() {
        for (text, words) in [
            ("{\"text\": \"a\"}\nstory", "line 2 is no JSON"),
            ("\n{\"text\": 5}", "line 2 holds no text under the key `text`"),
            ("[\"text\"]", "line 1 holds no text"),
            ("{\"story\": \"a\"}", "line 1 holds no text"),
        ] {
            let error = documents(text, Layout::JsonLines("text")).expect_err("refused").to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
