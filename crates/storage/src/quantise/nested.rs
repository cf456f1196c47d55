//! A scale for a block and a small whole one for each sub-block: `value ≈ scale × s × level`.
//!
//! Every sub-block gets its own best scale first. Several scales of the block are tried; at each, a sub-block takes the
//! s of least error near its best scale, and the block's scale is fitted again to all levels together.

use half::f16;

use super::centred::{best_scale, levels, products_and_squares, squared_error, stored};
use super::levels::{Levels, round};
use super::{half, peak};

/// Where the largest sub-block's s is tried, as a part of the outermost s.
const PLACES: [f32; 4] = [1.0, 0.95, 0.9, 0.83];
const TURNS: usize = 3;

/// A block's scale, its sub-blocks' scales and levels.
pub(crate) struct Nested<const SUBS: usize, const N: usize> {
    pub scale: f16,
    pub sub_scales: [i8; SUBS],
    pub levels: [[f32; N]; SUBS],
}

/// The block of least squared error that is found; s lies from `low` to `high`.
pub(crate) fn nested<L: Levels, const SUBS: usize, const N: usize>(
    values: &[[f32; N]; SUBS],
    [low, high]: [i8; 2],
) -> Nested<SUBS, N> {
    let wanted: [f32; SUBS] = std::array::from_fn(|sub| best_scale::<L, N>(&values[sub]));
    let largest = peak(&wanted);
    if largest == 0.0 {
        return Nested { scale: f16::ZERO, sub_scales: [0; SUBS], levels: [[L::nearest(0.0); N]; SUBS] };
    }
    let bounds = [f32::from(low), f32::from(high)];
    let mut best = (f32::INFINITY, f16::ZERO, [0.0; SUBS]);
    for edge in bounds {
        for place in PLACES {
            let mut scale = stored(largest / (edge * place).trunc());
            for _ in 0..TURNS {
                let (error, sub_scales) = choose::<L, SUBS, N>(values, &wanted, scale, bounds);
                if error >= best.0 {
                    break;
                }
                best = (error, half(scale), sub_scales);
                scale = stored(refit::<L, SUBS, N>(values, scale, &sub_scales));
            }
        }
    }
    let (_, scale, sub_scales) = best;
    let each = |sub: usize| levels::<L, N>(&values[sub], scale.to_f32() * sub_scales[sub]);
    Nested {
        scale,
        sub_scales: sub_scales.map(|sub_scale| sub_scale as i8),
        levels: std::array::from_fn(each),
    }
}

/// Every sub-block's s at a block's scale, and the squared error of all.
fn choose<L: Levels, const SUBS: usize, const N: usize>(
    values: &[[f32; N]; SUBS],
    wanted: &[f32; SUBS],
    scale: f32,
    [low, high]: [f32; 2],
) -> (f32, [f32; SUBS]) {
    let mut sum = 0.0;
    let sub_scales = std::array::from_fn(|sub| {
        let middle = round((wanted[sub] / scale).clamp(low, high));
        let mut best = (f32::INFINITY, middle);
        for step in [0.0, -1.0, 1.0] {
            let sub_scale = (middle + step).clamp(low, high);
            let error = squared_error::<L, N>(&values[sub], scale * sub_scale);
            if error < best.0 {
                best = (error, sub_scale);
            }
        }
        sum += best.0;
        best.1
    });
    (sum, sub_scales)
}

/// The best scale of the block for all levels at a scale.
fn refit<L: Levels, const SUBS: usize, const N: usize>(
    values: &[[f32; N]; SUBS],
    scale: f32,
    sub_scales: &[f32; SUBS],
) -> f32 {
    let (mut products, mut squares) = (0.0, 0.0);
    for (values, sub_scale) in values.iter().zip(sub_scales) {
        let [product, square] = products_and_squares::<L, N>(values, scale * sub_scale);
        products += sub_scale * product;
        squares += sub_scale * sub_scale * square;
    }
    if squares > 0.0 && products != 0.0 { products / squares } else { scale }
}
