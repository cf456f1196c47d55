//! How much longer a tokenizer's normaliser can make a text.
//!
//! A file may ask for replacements one after the other, each of which makes the text longer by a factor; sixty doublings
//! take no room in a file and all of a machine's memory.

use serde_json::Value;

use crate::TextError;

/// The most bytes that one byte of a text may become. Real files have a factor below 40.
const MOST: f64 = 256.0;

/// Refuses a normaliser, as a `tokenizer.json` describes it, that could make a text longer without bound.
pub(crate) fn check(normaliser: &Value) -> Result<(), TextError> {
    let factor = factor(normaliser);
    if factor <= MOST {
        return Ok(());
    }
    let reason = format!(
        "its normaliser makes texts up to {factor:.0} times as long; up to {MOST} times is supported"
    );
    Err(TextError::BadTokenizer { reason })
}

/// The most bytes that one byte may become.
fn factor(step: &Value) -> f64 {
    let length = |text: &Value| text.as_str().map_or(0, str::len) as f64;
    match step["type"].as_str() {
        Some("Sequence") => step["normalizers"].as_array().into_iter().flatten().map(factor).product(),
        Some("Replace") => match length(&step["pattern"]["String"]) {
            // An expression, or an empty text: it may be found between any two bytes.
            0.0 => 1.0 + length(&step["content"]),
            pattern => (length(&step["content"]) / pattern).max(1.0),
        },
        // It is put before every part between special tokens, and a part may be one byte.
        Some("Prepend") => 1.0 + length(&step["prepend"]),
        // Three bytes of U+FDFA become 33.
        Some("NFKC" | "NFKD") => 11.0,
        Some("NFC" | "NFD" | "Lowercase" | "ByteLevel") => 3.0,
        Some("BertNormalizer") => 12.0,
        Some("Precompiled") => longest_replacement(step["precompiled_charsmap"].as_str().unwrap_or_default()),
        _ => 1.0,
    }
}

/// The longest text that a compiled table (in base 64) puts in the place of another: texts end with a zero byte, behind a
/// search tree whose own bytes are counted along.
fn longest_replacement(table: &str) -> f64 {
    let bytes = decoded(table);
    let tree = bytes.first_chunk().map_or(0, |size| u32::from_le_bytes(*size) as usize);
    let texts = bytes.get(tree.saturating_add(4)..).unwrap_or(&bytes);
    texts.split(|&byte| byte == 0).map(<[u8]>::len).max().unwrap_or(0).max(1) as f64
}

fn decoded(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u32> = text.bytes().filter_map(digit).collect();
    let bytes = digits.chunks(4).flat_map(|digits| {
        let bits = digits.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - digits.len()));
        bits.to_be_bytes().into_iter().skip(1).take(digits.len().saturating_sub(1))
    });
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn factors() {
        let replace = |pattern: &str, content: &str| json!({"type": "Replace", "pattern": {"String": pattern}, "content": content});
        for (normaliser, expected) in [
            (Value::Null, 1.0),
            (replace(" ", "▁"), 3.0),
            (replace("``", "\""), 1.0),
            (replace("", "ab"), 3.0),
            (
                json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")]}),
                12.0,
            ),
            (json!({"type": "Sequence", "normalizers": vec![replace("a", "aa"); 60]}), 2f64.powi(60)),
            (json!({"type": "NFC"}), 3.0),
            // A tree of no bytes, then `ab`, a zero and `c`.
            (json!({"type": "Precompiled", "precompiled_charsmap": "AAAAAGFiAGM="}), 2.0),
        ] {
            assert_eq!(factor(&normaliser), expected, "{normaliser}");
        }
        assert_eq!(decoded("YWJjZA=="), b"abcd");
    }
}
