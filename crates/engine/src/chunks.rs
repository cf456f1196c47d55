//! Where a prompt is cut.

use std::ops::Range;

/// Prompts are cut only at multiples of this many tokens, counted from the beginning of the session, so that no
/// choice of chunks changes a bit of the result.
pub const CUT: usize = 64;

/// The ranges in which the tokens `from .. to` of a path are run: each ends at an absolute multiple of `length`
/// (rounded down to a multiple of [`CUT`], at least one), or at `to`.
pub fn prompt_chunks(from: usize, to: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    let length = (length / CUT).max(1) * CUT;
    let mut at = from;
    std::iter::from_fn(move || {
        if at >= to {
            return None;
        }
        let end = (at / length).saturating_add(1).saturating_mul(length).min(to);
        let chunk = at..end;
        at = end;
        Some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_absolute_multiples() {
        let cases: [(usize, usize, usize, &[usize]); 7] = [
            (0, 10, 512, &[10]),
            (0, 64, 64, &[64]),
            (0, 130, 64, &[64, 128, 130]),
            (70, 200, 128, &[128, 200]),
            (70, 71, 100, &[71]),
            (0, 100, 1, &[64, 100]),
            (5, 5, 64, &[]),
        ];
        for (from, to, length, ends) in cases {
            let mut start = from;
            let chunks: Vec<_> = prompt_chunks(from, to, length).collect();
            assert_eq!(
                chunks.iter().map(|chunk| chunk.end).collect::<Vec<_>>(),
                ends,
                "{from}..{to} by {length}"
            );
            for chunk in chunks {
                assert_eq!(std::mem::replace(&mut start, chunk.end), chunk.start);
            }
        }
    }
}
