//! The elementary functions over blocks: [`crate::kernels::rows`] under the names of instructions.

use super::code::Op;
use crate::features::Isa;
use crate::kernels::rows;

/// Applies the function `op`; both slices are of one length. Other operations leave `to` alone.
#[inline]
pub(super) fn apply(op: Op, isa: Isa, from: &[f32], to: &mut [f32]) {
    match op {
        Op::Exp => rows::exp_slice(isa, from, to),
        Op::Log => rows::log_slice(isa, from, to),
        Op::Sin => rows::sin_slice(isa, from, to),
        Op::Cos => rows::cos_slice(isa, from, to),
        Op::Tanh => rows::tanh_slice(isa, from, to),
        Op::Sigmoid => rows::sigmoid_slice(isa, from, to),
        Op::Silu => rows::silu_slice(isa, from, to),
        Op::Softplus => rows::softplus_slice(isa, from, to),
        Op::Gelu => gelu(isa, from, to),
        _ => {}
    }
}

/// `0.5 x (1 + tanh(u)) = x / (1 + e^(-2u))` for `u = sqrt(2/pi) (x + 0.044715 x^3)`, without the cancellation of the
/// first form. The exponent is computed in f64, since the exponential magnifies its error, and joined to the
/// exponential in two parts.
fn gelu(isa: Isa, from: &[f32], to: &mut [f32]) {
    const FACTOR: f64 = -1.595_769_121_605_730_7;
    let exponent = |x: f32| {
        let x = f64::from(x);
        FACTOR * (x + 0.044715 * (x * x * x))
    };
    for (to, &x) in to.iter_mut().zip(from) {
        *to = exponent(x) as f32;
    }
    let high = |x: f32| exponent(x) as f32;
    rows::exp_in_place(isa, to);
    for (to, &x) in to.iter_mut().zip(from) {
        let low = (exponent(x) - f64::from(high(x))) as f32;
        // Past overflow the low part means nothing.
        let power = if *to < f32::MAX { *to + *to * low } else { *to };
        // -∞ / ∞ would be NaN; the limit is 0.
        *to = if x == f32::NEG_INFINITY { -0.0 } else { x / (1.0 + power) };
    }
}
