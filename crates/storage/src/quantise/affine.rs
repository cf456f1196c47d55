//! A scale and an offset for a block: `value ≈ scale × number + offset`, numbers from 0 to `HIGHEST`.
//!
//! As in `centred.rs`: several ranges make numbers, the numbers have a best scale and offset by least squares, what is
//! left decides.

use half::f16;

use super::centred::inverse;
use super::levels::{clamp, round};
use super::sums::sums;
use super::{half, halves};

/// How many widths of the range are tried, and how many places of its beginning.
const WIDTHS: usize = 13;
const PLACES: usize = 3;
const TURNS: usize = 4;

/// A block's scale, offset and numbers.
pub(crate) struct Affine<const N: usize> {
    pub scale: f16,
    pub offset: f16,
    pub numbers: [f32; N],
}

/// A line that is not rounded yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub scale: f32,
    pub offset: f32,
}

/// The block's scale, offset and numbers of least squared error.
pub(crate) fn affine<const HIGHEST: u8, const N: usize>(values: &[f32; N]) -> Affine<N> {
    let (low, high) = range(values);
    let found = best_line::<HIGHEST, N>(values, false);
    let plain = Line { scale: (high - low) / f32::from(HIGHEST), offset: low };
    let mut best = (f32::INFINITY, f16::ZERO, f16::ZERO);
    for start in [found, plain] {
        let mut line = start;
        for _ in 0..TURNS {
            let before = best.0;
            // Zero too: values may be nearer to it than to the smallest offset.
            for offset in halves(line.offset).into_iter().chain([f16::ZERO]) {
                let scales = if line.scale > 0.0 { halves(line.scale) } else { [f16::ZERO; 3] };
                for scale in scales {
                    let error = squared_error::<HIGHEST, N>(values, scale.to_f32(), offset.to_f32());
                    if error < best.0 {
                        best = (error, scale, offset);
                    }
                }
            }
            if best.0 >= before {
                break;
            }
            // The offset's rounding is made up for by the scale.
            let offset = best.2.to_f32();
            let numbers = numbers::<HIGHEST, N>(values, best.1.to_f32(), offset);
            let (mut products, mut squares) = (0.0, 0.0);
            for (&value, number) in values.iter().zip(numbers) {
                products += (value - offset) * number;
                squares += number * number;
            }
            line = Line { scale: if squares > 0.0 { products / squares } else { 0.0 }, offset };
        }
    }
    let numbers = numbers::<HIGHEST, N>(values, best.1.to_f32(), best.2.to_f32());
    Affine { scale: best.1, offset: best.2, numbers }
}

/// The line of least squared error; with `below`, among those whose offset is not above zero.
pub(super) fn best_line<const HIGHEST: u8, const N: usize>(values: &[f32; N], below: bool) -> Line {
    let (mut low, high) = range(values);
    if below {
        low = low.min(0.0);
    }
    let width = high - low;
    if width <= 0.0 || (below && high.max(-low) <= super::NOTHING) {
        return Line { scale: 0.0, offset: if below { low.min(0.0) } else { half(low).to_f32() } };
    }
    let highest = f32::from(HIGHEST);
    let mut best = (f32::INFINITY, Line { scale: width / highest, offset: low });
    let mut attempt = |line: Line| {
        let (error, line) = fitted::<HIGHEST, N>(values, line, low, below);
        if error < best.0 {
            best = (error, line);
        }
    };
    for step in 0..WIDTHS {
        // From a range that reaches past the values to one that cuts off most of a number at each end.
        let numbers = highest - 0.4 + (0.7 + 0.04 * highest) * step as f32 / 5.0;
        for place in 0..PLACES {
            let cut = (numbers - highest) * place as f32 / (PLACES - 1) as f32;
            let scale = width / numbers;
            attempt(Line { scale, offset: low + cut * scale });
        }
    }
    attempt(Line { scale: width / highest, offset: low });
    for _ in 0..TURNS {
        let before = best.0;
        let (error, line) = fitted::<HIGHEST, N>(values, best.1, low, below);
        if error >= before {
            break;
        }
        best = (error, line);
    }
    best.1
}

/// The best line for the numbers that a line makes, and the squared error that is left with those numbers.
#[inline(always)]
fn fitted<const HIGHEST: u8, const N: usize>(
    values: &[f32; N],
    line: Line,
    low: f32,
    below: bool,
) -> (f32, Line) {
    let (inverse, highest) = (inverse(line.scale), f32::from(HIGHEST));
    // Values are counted from their lowest, so that little cancels.
    let [sum, square, number, numbers, product] = sums(values, |value| {
        let number = round(clamp((value - line.offset) * inverse, 0.0, highest));
        let value = value - low;
        [value, value * value, number, number * number, value * number]
    });
    let count = N as f32;
    let spread = count * numbers - number * number;
    if spread > 0.0 {
        let scale = (count * product - sum * number) / spread;
        let offset = (sum - scale * number) / count;
        if scale > 0.0 && !(below && offset + low > 0.0) {
            return (square - scale * product - offset * sum, Line { scale, offset: offset + low });
        }
    }
    if !below || numbers <= 0.0 {
        return (f32::INFINITY, line);
    }
    // The offset is zero: values from zero again.
    let product = product + low * number;
    let square = square + low * (2.0 * sum + low * count);
    let scale = product / numbers;
    if scale > 0.0 {
        return (square - scale * product, Line { scale, offset: 0.0 });
    }
    (f32::INFINITY, line)
}

/// What is left of the values, as a sum of squares.
#[inline(always)]
pub(super) fn squared_error<const HIGHEST: u8, const N: usize>(
    values: &[f32; N],
    scale: f32,
    offset: f32,
) -> f32 {
    let inverse = inverse(scale);
    let [error] = sums(values, |value| {
        let number = round(clamp((value - offset) * inverse, 0.0, f32::from(HIGHEST)));
        let left = value - (scale * number + offset);
        [left * left]
    });
    error
}

/// The numbers of a line.
pub(super) fn numbers<const HIGHEST: u8, const N: usize>(
    values: &[f32; N],
    scale: f32,
    offset: f32,
) -> [f32; N] {
    let inverse = inverse(scale);
    values.map(|value| round(clamp((value - offset) * inverse, 0.0, f32::from(HIGHEST))))
}

fn range<const N: usize>(values: &[f32; N]) -> (f32, f32) {
    values
        .iter()
        .fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &value| (low.min(value), high.max(value)))
}
