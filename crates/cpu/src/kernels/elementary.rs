//! Elementary functions on vectors: range reduction, a polynomial, and the exact repair of the range.
//!
//! The polynomials are Chebyshev fits made for these intervals (40-digit arithmetic). Errors over dense samples are in
//! `tests/elementary.rs`. A lane's result depends on that lane alone.

use super::vector::Vector;
use std::f32::consts::{FRAC_2_PI, LN_2, LOG2_E, SQRT_2};

/// ln 2 in two parts: the first has so few bits that a product with any exponent is exact.
const LN_2_HIGH: f32 = 0.693_145_75;
const LN_2_LOW: f32 = 1.428_606_8e-6;
/// π/2 in three parts.
const HALF_PI: [f32; 3] = [1.570_796_4, -4.371_139e-8, -1.715_124_5e-15];
/// Beyond this the three parts of π/2 are no longer enough, and the f64 functions take over.
const REDUCIBLE: f32 = 524_288.0;

/// Σ coefficients[i] · x^i.
#[inline(always)]
fn polynomial<V: Vector, const N: usize>(x: V, coefficients: [f32; N]) -> V {
    let mut sum = V::splat(coefficients[N - 1]);
    for i in (0..N - 1).rev() {
        sum = sum.fused(x, V::splat(coefficients[i]));
    }
    sum
}

/// `(n, r, e^r - 1)` with `x = n ln 2 + r`.
#[inline(always)]
fn reduced_exp<V: Vector>(x: V) -> (V, V) {
    let n = x.mul(V::splat(LOG2_E)).round();
    let r = n.fused(V::splat(-LN_2_HIGH), x);
    let r = n.fused(V::splat(-LN_2_LOW), r);
    let tail =
        polynomial(r, [0.5, 0.166_666_67, 0.041_666_457, 0.008_333_31, 0.001_393_442, 0.000_198_918_46]);
    (n, r.mul(r).fused(tail, r))
}

/// e^x.
#[inline(always)]
pub(crate) fn exp<V: Vector>(x: V) -> V {
    // The bounds are beyond overflow and underflow; NaN passes, since `min` and `max` return their second operand then.
    let x = V::splat(100.0).min(V::splat(-110.0).max(x));
    let (n, less_one) = reduced_exp(x);
    less_one.add(V::splat(1.0)).scale_by_power(n)
}

/// The natural logarithm: -∞ at zero, NaN below.
#[inline(always)]
pub(crate) fn log<V: Vector>(x: V) -> V {
    let (mantissa, exponent) = x.split();
    let upper = V::splat(SQRT_2).less(mantissa);
    let mantissa = V::select(upper, mantissa.mul(V::splat(0.5)), mantissa);
    let exponent = V::select(upper, exponent.add(V::splat(1.0)), exponent);
    let f = mantissa.sub(V::splat(1.0));
    let square = f.mul(f);
    let tail = polynomial(
        f,
        [
            0.333_333_33,
            -0.249_999_9,
            0.200_000_1,
            -0.166_680_02,
            0.142_865_25,
            -0.124_507_43,
            0.110_377_83,
            -0.106_461_91,
            0.105_308_65,
            -0.062_015,
        ],
    );
    // f - f²/2 + f³·tail, with the low part of exponent·ln 2 joined where it is still small.
    let small = square.mul(f).fused(tail, exponent.mul(V::splat(LN_2_LOW)));
    let small = square.fused(V::splat(-0.5), small);
    let result = exponent.fused(V::splat(LN_2_HIGH), f.add(small));
    let result = V::select(V::splat(f32::INFINITY).equal(x), x, result);
    let result = V::select(x.equal(V::splat(0.0)), V::splat(f32::NEG_INFINITY), result);
    let valid = V::select(x.less(V::splat(0.0)), V::splat(f32::NAN), result);
    V::select(x.equal(x), valid, x)
}

/// ln(1 + x) for x in [0, 1].
#[inline(always)]
fn log_one_plus<V: Vector>(x: V) -> V {
    let sum = x.add(V::splat(1.0));
    // What the sum lost, as a first-order term.
    let lost = x.sub(sum.sub(V::splat(1.0)));
    log(sum).add(lost.div(sum))
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub(crate) fn sigmoid<V: Vector>(x: V) -> V {
    // e^-|x| never overflows, and both sides keep their relative error.
    let small = exp(negative_magnitude(x));
    let above = V::select(x.less(V::splat(0.0)), small, V::splat(1.0));
    above.div(small.add(V::splat(1.0)))
}

/// x · sigmoid(x).
#[inline(always)]
pub(crate) fn silu<V: Vector>(x: V) -> V {
    let small = exp(negative_magnitude(x));
    let above = V::select(x.less(V::splat(0.0)), small, V::splat(1.0));
    let result = x.mul(above).div(small.add(V::splat(1.0)));
    // -∞ · 0 would be NaN; the limit is 0.
    V::select(x.equal(V::splat(f32::NEG_INFINITY)), V::splat(-0.0), result)
}

/// ln(1 + e^x).
#[inline(always)]
pub(crate) fn softplus<V: Vector>(x: V) -> V {
    let tail = log_one_plus(exp(negative_magnitude(x)));
    // NaN: `max` returns its second operand.
    V::splat(0.0).max(x).add(tail)
}

/// -|x|.
#[inline(always)]
fn negative_magnitude<V: Vector>(x: V) -> V {
    V::splat(-0.0).sub(x.abs())
}

/// The hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh<V: Vector>(x: V) -> V {
    let magnitude = x.abs();
    let square = x.mul(x);
    let tail = polynomial(
        square,
        [-0.333_333_34, 0.133_333_04, -0.053_959_26, 0.021_768_919, -0.008_343_945, 0.002_292_744_8],
    );
    let near = x.mul(square).fused(tail, x);
    // 1 - 2 / (e^{2|x|} + 1); from 10 on it rounds to one, and the bound keeps the exponential finite.
    let doubled = exp(V::splat(20.0).min(magnitude.add(magnitude)));
    let far = V::splat(1.0).sub(V::splat(2.0).div(doubled.add(V::splat(1.0))));
    let far = V::select(x.less(V::splat(0.0)), V::splat(0.0).sub(far), far);
    let result = V::select(magnitude.less(V::splat(0.625)), near, far);
    // The polynomial loses the sign of zero.
    V::select(x.equal(V::splat(0.0)), x, result)
}

/// 1 / √x, by a division and a root: both correctly rounded.
#[inline(always)]
pub(crate) fn rsqrt<V: Vector>(x: V) -> V {
    V::splat(1.0).div(x.sqrt())
}

/// `(sin x, cos x)`.
#[inline(always)]
pub(crate) fn sin_cos<V: Vector>(x: V) -> (V, V) {
    let n = x.mul(V::splat(FRAC_2_PI)).round();
    let mut r = x;
    for part in HALF_PI {
        r = n.fused(V::splat(-part), r);
    }
    let square = r.mul(r);
    let sin_tail = polynomial(square, [-0.166_666_67, 0.008_333_331, -0.000_198_396_49, 2.719_761_2e-6]);
    let sin = r.mul(square).fused(sin_tail, r);
    // The reduction loses the sign of zero.
    let sin = V::select(x.equal(V::splat(0.0)), x, sin);
    let cos_tail = polynomial(square, [0.041_666_668, -0.001_388_888_7, 2.480_023_5e-5, -2.725_729e-7]);
    let cos = square.mul(square).fused(cos_tail, square.fused(V::splat(-0.5), V::splat(1.0)));
    // The quadrant n mod 4 in whole numbers: its low bit swaps, its high bit negates.
    let half = n.mul(V::splat(0.5)).floor();
    let swapped = n.sub(half.add(half)).equal(V::splat(1.0));
    let quarter = half.mul(V::splat(0.5)).floor();
    let high = half.sub(quarter.add(quarter));
    let sign = V::splat(1.0).sub(high.add(high));
    let sin_result = V::select(swapped, cos, sin).mul(sign);
    let cos_result = V::select(swapped, V::splat(0.0).sub(sin), cos).mul(sign);
    let reducible = x.abs().less(V::splat(REDUCIBLE));
    if !V::any(V::splat(REDUCIBLE).less(x.abs())) && !V::any(V::splat(REDUCIBLE).equal(x.abs())) {
        let sin_result = V::select(reducible, sin_result, V::splat(f32::NAN));
        return (sin_result, V::select(reducible, cos_result, V::splat(f32::NAN)));
    }
    (far::<V>(x, reducible, sin_result, f64::sin), far::<V>(x, reducible, cos_result, f64::cos))
}

/// `near` where reducible, the f64 function of the lane elsewhere.
#[inline(always)]
fn far<V: Vector>(x: V, reducible: V::Mask, near: V, function: fn(f64) -> f64) -> V {
    let mut lanes = [0.0f32; 16];
    // SAFETY: no family has more than sixteen lanes.
    unsafe {
        x.store(lanes.as_mut_ptr());
        for lane in &mut lanes[..V::LANES] {
            *lane = function(*lane as f64) as f32;
        }
        V::select(reducible, near, V::load(lanes.as_ptr()))
    }
}

/// A check that the two parts of ln 2 add up; a typing error in either would otherwise cost a few ulp silently.
const _: () =
    assert!((LN_2_HIGH as f64 + LN_2_LOW as f64 - std::f64::consts::LN_2).abs() < 1e-12 && LN_2 > 0.6);
