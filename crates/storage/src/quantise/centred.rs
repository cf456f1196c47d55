//! One scale for a block: `value ≈ scale × level`.
//!
//! The largest value is tried at several places around the outermost levels, on both sides when they differ. Each place
//! makes a scale, the scale makes levels, and the levels have a best scale of their own by least squares; what that would
//! leave of the squared error decides. The winner is refined by turns: levels from the scale, scale from the levels.

use half::f16;

use super::levels::Levels;
use super::sums::sums;
use super::{NOTHING, half, halves, peak};

/// Places that are tried on each side.
const PLACES: usize = 16;
/// Turns of levels and scale at the end; nearly always fewer are needed.
const TURNS: usize = 4;

/// The block's scale and levels of least squared error.
pub(crate) fn centred<L: Levels, const N: usize>(values: &[f32; N]) -> (f16, [f32; N]) {
    let peak = peak(values);
    if peak.abs() <= NOTHING {
        return (f16::ZERO, [L::nearest(0.0); N]);
    }
    let mut best = (f32::INFINITY, f16::ZERO);
    // The plain choice too, since rounding the scale may turn the order around.
    for start in [best_scale::<L, N>(values), peak / L::LOW, peak / L::HIGH] {
        let mut scale = start;
        for _ in 0..TURNS {
            let before = best.0;
            for stored in halves(scale) {
                let error = squared_error::<L, N>(values, stored.to_f32());
                if error < best.0 {
                    best = (error, stored);
                }
            }
            if best.0 >= before {
                break;
            }
            scale = refit::<L, N>(values, best.1.to_f32());
        }
    }
    (best.1, levels::<L, N>(values, best.1.to_f32()))
}

/// The scale of least squared error, not rounded; zero for values that are all nothing.
pub(super) fn best_scale<L: Levels, const N: usize>(values: &[f32; N]) -> f32 {
    let peak = peak(values);
    if peak.abs() <= NOTHING {
        return 0.0;
    }
    // What a scale explains of the squares: with products and squares of its levels, products² / squares.
    let mut best = (f32::NEG_INFINITY, 0.0);
    let mut attempt = |scale: f32| {
        let [products, squares] = products_and_squares::<L, N>(values, scale);
        if squares > 0.0 {
            let explained = products * products / squares;
            if explained > best.0 {
                best = (explained, products / squares);
            }
        }
    };
    for edge in [L::LOW, L::HIGH] {
        if L::LOW == -L::HIGH && edge < 0.0 {
            continue;
        }
        for place in 0..PLACES {
            let offset = L::REACH * (2.0 * place as f32 / (PLACES - 1) as f32 - 1.0);
            attempt(peak / (edge + offset));
        }
        attempt(peak / edge);
    }
    for _ in 0..TURNS {
        let [products, squares] = products_and_squares::<L, N>(values, best.1);
        if squares <= 0.0 || products * products / squares <= best.0 {
            break;
        }
        best = (products * products / squares, products / squares);
    }
    best.1
}

/// The levels at a scale.
pub(super) fn levels<L: Levels, const N: usize>(values: &[f32; N], scale: f32) -> [f32; N] {
    let inverse = inverse(scale);
    values.map(|value| L::nearest(value * inverse))
}

/// What is left of the values at a scale, as a sum of squares.
#[inline(always)]
pub(super) fn squared_error<L: Levels, const N: usize>(values: &[f32; N], scale: f32) -> f32 {
    let inverse = inverse(scale);
    let [error] = sums(values, |value| {
        let left = value - scale * L::nearest(value * inverse);
        [left * left]
    });
    error
}

/// With the levels at a scale: the sums of value × level, and of level².
#[inline(always)]
pub(super) fn products_and_squares<L: Levels, const N: usize>(values: &[f32; N], scale: f32) -> [f32; 2] {
    let inverse = inverse(scale);
    sums(values, |value| {
        let level = L::nearest(value * inverse);
        [value * level, level * level]
    })
}

/// The best scale for the levels at a scale.
fn refit<L: Levels, const N: usize>(values: &[f32; N], scale: f32) -> f32 {
    let [products, squares] = products_and_squares::<L, N>(values, scale);
    if squares > 0.0 { products / squares } else { scale }
}

/// Of zero it is zero: every value has the level nearest to nothing then.
#[inline(always)]
pub(super) fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// A scale as it is stored, of which half the unit in the last place is the error.
pub(super) fn stored(scale: f32) -> f32 {
    half(scale).to_f32()
}
