//! A scale and a minimum for a block, small whole ones for each sub-block: `value ≈ scale × s × number − minimum × m`.
//!
//! As in `nested.rs`, with two whole numbers for each sub-block, which go to the best of their neighbours until none is
//! better; then scale and minimum are fitted again to all sub-blocks together.

use half::f16;

use super::affine::{Line, best_line, numbers, squared_error};
use super::centred::stored;
use super::half;
use super::levels::{clamp, round};
use super::sums::sums;

/// Where the largest s and m are tried, as a part of the highest.
const PLACES: [[f32; 2]; 4] = [[1.0, 1.0], [0.93, 0.93], [1.0, 0.87], [0.87, 1.0]];
const TURNS: usize = 3;
const MOVES: usize = 4;

/// A block's scale and minimum; its sub-blocks' scales, minima and numbers.
pub(crate) struct NestedAffine<const SUBS: usize, const N: usize> {
    pub scale: f16,
    pub minimum: f16,
    pub sub_scales: [u8; SUBS],
    pub sub_minima: [u8; SUBS],
    pub numbers: [[f32; N]; SUBS],
}

/// The whole numbers of a sub-block.
#[derive(Clone, Copy)]
struct Pair {
    scale: f32,
    minimum: f32,
}

/// Scale and minimum of a block, as stored.
#[derive(Clone, Copy)]
struct Block {
    scale: f32,
    minimum: f32,
}

impl Block {
    fn line(self, pair: Pair) -> Line {
        Line { scale: self.scale * pair.scale, offset: -(self.minimum * pair.minimum) }
    }
}

/// The block of least squared error that is found: numbers up to `HIGHEST`, s and m up to `most`.
pub(crate) fn nested_affine<const HIGHEST: u8, const SUBS: usize, const N: usize>(
    values: &[[f32; N]; SUBS],
    most: u8,
) -> NestedAffine<SUBS, N> {
    let wanted: [Line; SUBS] = std::array::from_fn(|sub| best_line::<HIGHEST, N>(&values[sub], true));
    let most = f32::from(most);
    let largest = wanted.iter().fold(0.0f32, |largest, line| largest.max(line.scale));
    let deepest = wanted.iter().fold(0.0f32, |deepest, line| deepest.max(-line.offset));
    let mut best =
        (f32::INFINITY, Block { scale: 0.0, minimum: 0.0 }, [Pair { scale: 0.0, minimum: 0.0 }; SUBS]);
    for [scales, minima] in PLACES {
        let mut block = Block {
            scale: stored(largest / (most * scales).trunc()),
            minimum: stored(deepest / (most * minima).trunc()),
        };
        for _ in 0..TURNS {
            let (error, pairs) = choose::<HIGHEST, SUBS, N>(values, &wanted, block, most);
            if error >= best.0 {
                break;
            }
            best = (error, block, pairs);
            block = refit::<HIGHEST, SUBS, N>(values, block, &pairs);
        }
    }
    let (_, block, pairs) = best;
    let each = |sub: usize| {
        let line = block.line(pairs[sub]);
        numbers::<HIGHEST, N>(&values[sub], line.scale, line.offset)
    };
    NestedAffine {
        scale: half(block.scale),
        minimum: half(block.minimum),
        sub_scales: pairs.map(|pair| pair.scale as u8),
        sub_minima: pairs.map(|pair| pair.minimum as u8),
        numbers: std::array::from_fn(each),
    }
}

/// Every sub-block's s and m at a block's scale and minimum, and the squared error of all.
fn choose<const HIGHEST: u8, const SUBS: usize, const N: usize>(
    values: &[[f32; N]; SUBS],
    wanted: &[Line; SUBS],
    block: Block,
    most: f32,
) -> (f32, [Pair; SUBS]) {
    let mut sum = 0.0;
    let nearest =
        |part: f32, whole: f32| if whole > 0.0 { round((part / whole).clamp(0.0, most)) } else { 0.0 };
    let pairs = std::array::from_fn(|sub| {
        let error = |pair: Pair| {
            let line = block.line(pair);
            squared_error::<HIGHEST, N>(&values[sub], line.scale, line.offset)
        };
        let line = wanted[sub];
        let mut at =
            Pair { scale: nearest(line.scale, block.scale), minimum: nearest(-line.offset, block.minimum) };
        let mut least = error(at);
        for _ in 0..MOVES {
            let middle = at;
            for (scale, minimum) in NEIGHBOURS {
                let pair = Pair {
                    scale: clamp(middle.scale + scale, 0.0, most),
                    minimum: clamp(middle.minimum + minimum, 0.0, most),
                };
                let found = error(pair);
                if found < least {
                    (least, at) = (found, pair);
                }
            }
            if (at.scale, at.minimum) == (middle.scale, middle.minimum) {
                break;
            }
        }
        sum += least;
        at
    });
    (sum, pairs)
}

const NEIGHBOURS: [(f32, f32); 8] =
    [(0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0), (1.0, 1.0), (-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0)];

/// The best scale and minimum of the block for all numbers that it makes now.
fn refit<const HIGHEST: u8, const SUBS: usize, const N: usize>(
    values: &[[f32; N]; SUBS],
    block: Block,
    pairs: &[Pair; SUBS],
) -> Block {
    // With u = s × number and v = −m the values are scale × u + minimum × v: two equations.
    let (mut uu, mut uv, mut vv, mut ux, mut vx) = (0.0f64, 0.0f64, 0.0f64, 0.0f64, 0.0f64);
    for (values, &pair) in values.iter().zip(pairs) {
        let Line { scale, offset } = block.line(pair);
        let inverse = super::centred::inverse(scale);
        let [value, number, square, product] = sums(values, |value| {
            let number = round(clamp((value - offset) * inverse, 0.0, f32::from(HIGHEST)));
            [value, number, number * number, value * number]
        })
        .map(f64::from);
        let (s, m) = (f64::from(pair.scale), f64::from(pair.minimum));
        uu += s * s * square;
        uv -= s * m * number;
        vv += m * m * N as f64;
        ux += s * product;
        vx -= m * value;
    }
    let spread = uu * vv - uv * uv;
    let (mut scale, mut minimum) = (block.scale, block.minimum);
    if spread > 1e-9 * uu * vv {
        scale = ((ux * vv - vx * uv) / spread) as f32;
        minimum = ((vx * uu - ux * uv) / spread) as f32;
    } else if uu > 0.0 && vv == 0.0 {
        scale = (ux / uu) as f32;
    } else if vv > 0.0 && uu == 0.0 {
        minimum = (vx / vv) as f32;
    }
    if scale < 0.0 || minimum < 0.0 {
        return block;
    }
    Block { scale: stored(scale), minimum: stored(minimum) }
}
