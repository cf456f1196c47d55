//! Sizes as people read and write them.

use std::fmt;
use std::str::FromStr;

const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];

/// Bytes, shown as `1.5 GiB`; read from `1.5GiB`, `1.5G`, `2048 MiB` or a plain number. Units are powers of 1024.
///
/// ```
/// use fiddlehead_engine::ByteSize;
/// assert_eq!(ByteSize(3 << 29).to_string(), "1.5 GiB");
/// assert_eq!("1.5g".parse(), Ok(ByteSize(3 << 29)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(
    /// How many.
    pub u64,
);

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        let mut size = self.0 as f64;
        let mut unit = "";
        for next in UNITS {
            if size < 1024.0 {
                break;
            }
            size /= 1024.0;
            unit = next;
        }
        f.pad(&format!("{size:.1} {unit}"))
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteSize, String> {
        let wanted =
            || format!("`{text}` is no size: a number of bytes, or one with KiB, MiB, GiB or TiB, is wanted");
        let lower = text.trim().to_ascii_lowercase();
        let digits = lower.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let power = match &lower[digits.len()..] {
            "" | "b" => 0,
            "k" | "kib" => 1,
            "m" | "mib" => 2,
            "g" | "gib" => 3,
            "t" | "tib" => 4,
            _ => return Err(wanted()),
        };
        let number: f64 = digits.trim_end().parse().map_err(|_| wanted())?;
        let bytes = number * 1024f64.powi(power);
        // Above 2^63 nothing is meant.
        if (1.0..9.2e18).contains(&bytes) { Ok(ByteSize(bytes as u64)) } else { Err(wanted()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_and_read() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536 << 20, "1.5 GiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(ByteSize(count).to_string(), text);
        }
        for (text, count) in
            [("1", 1), ("1.5GiB", 3 << 29), ("2 kib", 2048), ("3M", 3 << 20), ("1t", 1 << 40)]
        {
            assert_eq!(text.parse(), Ok(ByteSize(count)), "{text}");
        }
        for text in ["", "GiB", "-1", "0", "x", "1 GB", "1e30", "nan", "inf", "1ggib"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
