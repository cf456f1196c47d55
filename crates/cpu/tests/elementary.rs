//! Elementary functions against f64, in units of the last place, and the independence of position.

mod support;

use fiddlehead_cpu::features::Isa;
use fiddlehead_cpu::kernels::rows::*;
use support::{Random, bits, families};

type Slice = fn(Isa, &[f32], &mut [f32]);

/// |got - expected| in units of the last place of the expected value (subnormal spacing at the bottom).
fn ulp(got: f32, expected: f64) -> f64 {
    let rounded = expected as f32;
    if got.is_nan() || expected.is_nan() {
        return if got.is_nan() && expected.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got == rounded {
        return 0.0;
    }
    if got.is_infinite() || rounded.is_infinite() {
        return f64::INFINITY;
    }
    let exponent = (expected.abs().log2().floor() as i32).max(-126);
    (got as f64 - expected).abs() / 2f64.powi(exponent - 23)
}

/// Every `step`th float from `from` to `to` (of one sign), and its mirror image if `mirrored`.
fn dense(from: f32, to: f32, step: u32, mirrored: bool) -> Vec<f32> {
    let mut values = Vec::new();
    let mut at = from.to_bits();
    while at <= to.to_bits() {
        values.push(f32::from_bits(at));
        if mirrored {
            values.push(-f32::from_bits(at));
        }
        at = at.saturating_add(step);
    }
    values
}

fn check(name: &str, slice: Slice, exact: fn(f64) -> f64, input: &[f32], allowed: f64) {
    for isa in families() {
        let mut output = vec![f32::NAN; input.len()];
        slice(isa, input, &mut output);
        let (mut worst, mut at) = (0.0, 0.0);
        for (x, y) in input.iter().zip(&output) {
            let error = ulp(*y, exact(*x as f64));
            if error > worst {
                (worst, at) = (error, *x);
            }
        }
        println!("{name} {isa:?}: {worst:.3} ulp at {at:e} over {} values", input.len());
        assert!(worst <= allowed, "{name} {isa:?}: {worst} ulp at {at:e}");
    }
}

#[test]
fn within_the_contract() {
    let everything = dense(0.0, f32::INFINITY, 9973, true);
    check("exp", exp_slice, f64::exp, &everything, 1.5);
    check("exp", exp_slice, f64::exp, &dense(0.001, 105.0, 307, true), 1.5);
    check("log", log_slice, f64::ln, &dense(0.0, f32::INFINITY, 4001, false), 1.5);
    check("log", log_slice, f64::ln, &dense(0.5, 2.0, 41, false), 1.5);
    check("sin", sin_slice, f64::sin, &dense(0.0, f32::MAX, 9973, true), 2.0);
    check("cos", cos_slice, f64::cos, &dense(0.0, f32::MAX, 9973, true), 2.0);
    check("sin", sin_slice, f64::sin, &dense(0.01, 530_000.0, 907, true), 2.0);
    check("cos", cos_slice, f64::cos, &dense(0.01, 530_000.0, 907, true), 2.0);
    check("tanh", tanh_slice, f64::tanh, &everything, 2.0);
    check("tanh", tanh_slice, f64::tanh, &dense(0.01, 11.0, 211, true), 2.0);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    check("sigmoid", sigmoid_slice, sigmoid, &everything, 3.0);
    check("sigmoid", sigmoid_slice, sigmoid, &dense(0.01, 90.0, 307, true), 3.0);
    let silu = |x: f64| if x == f64::NEG_INFINITY { -0.0 } else { x / (1.0 + (-x).exp()) };
    check("silu", silu_slice, silu, &dense(0.0, 85.0, 2003, true), 4.0);
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    check("softplus", softplus_slice, softplus, &dense(0.0, 85.0, 2003, true), 4.0);
    check("rsqrt", rsqrt_slice, |x| 1.0 / x.sqrt(), &dense(0.0, f32::INFINITY, 9973, false), 1.5);
}

#[test]
fn special_values() {
    for isa in families() {
        let infinity = f32::INFINITY;
        assert_eq!(exp(isa, infinity), infinity);
        assert_eq!(exp(isa, -infinity), 0.0);
        assert_eq!(exp(isa, 0.0), 1.0);
        assert!(log(isa, -1.0).is_nan());
        assert_eq!(log(isa, 1.0), 0.0);
        assert_eq!(tanh(isa, infinity), 1.0);
        assert_eq!(tanh(isa, -infinity), -1.0);
        assert_eq!(tanh(isa, -0.0).to_bits(), (-0.0f32).to_bits());
        assert_eq!(sigmoid(isa, -infinity), 0.0);
        assert_eq!(sigmoid(isa, infinity), 1.0);
        assert_eq!(silu(isa, -infinity), 0.0);
        assert_eq!(silu(isa, infinity), infinity);
        assert_eq!(softplus(isa, infinity), infinity);
        assert_eq!(softplus(isa, -infinity), 0.0);
        assert!(sin(isa, infinity).is_nan() && cos(isa, -infinity).is_nan());
        assert_eq!(cos(isa, 0.0), 1.0);
        for function in [exp, log, sin, cos, tanh, sigmoid, silu, softplus, rsqrt] {
            assert!(function(isa, f32::NAN).is_nan());
        }
    }
}

#[test]
fn an_element_does_not_depend_on_its_position() {
    let mut random = Random::new(5);
    let mut values = random.normals(100, 5.0);
    values[50] = 1e7;
    let slices: [Slice; 9] = [
        exp_slice,
        log_slice,
        sin_slice,
        cos_slice,
        tanh_slice,
        sigmoid_slice,
        silu_slice,
        softplus_slice,
        rsqrt_slice,
    ];
    for isa in families() {
        for slice in slices {
            let mut whole = vec![0.0; 100];
            slice(isa, &values, &mut whole);
            for start in 0..100 {
                for length in [1, 3, 15, 17] {
                    let end = (start + length).min(100);
                    let mut part = vec![0.0; end - start];
                    slice(isa, &values[start..end], &mut part);
                    assert_eq!(bits(&part), bits(&whole[start..end]));
                }
            }
        }
    }
}

#[test]
fn dot_products_have_a_contractions_bits() {
    let mut random = Random::new(6);
    for isa in families() {
        for length in [1, 15, 16, 33, 256] {
            let (a, b) = (random.normals(length, 1.0), random.normals(length, 1.0));
            let exact: f64 = a.iter().zip(&b).map(|(a, b)| *a as f64 * *b as f64).sum();
            assert!((dot(isa, &a, &b) as f64 - exact).abs() < 1e-4);
            assert_eq!(sum_of_squares(isa, &a).to_bits(), dot(isa, &a, &a).to_bits());
        }
    }
}
