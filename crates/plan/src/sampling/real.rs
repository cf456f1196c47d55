//! The elementary functions of sampling, of sums, products and quotients in f64 alone: the same bits wherever these are
//! rounded as IEEE 754 says and no product is joined with a sum. Libraries' functions differ in the last bits from
//! system to system.
//!
//! `kernels/sampling.cu` of the crate `cuda` states the same operations in the same order; its tests compare the bits.

use std::f64::consts::{LOG2_E, SQRT_2};

/// ln 2 in two parts: the first has so few bits that a product with any exponent is exact.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// From 13! to 0!.
const FACTORIALS: [f64; 14] = [
    6_227_020_800.0,
    479_001_600.0,
    39_916_800.0,
    3_628_800.0,
    362_880.0,
    40_320.0,
    5_040.0,
    720.0,
    120.0,
    24.0,
    6.0,
    2.0,
    1.0,
    1.0,
];

/// The natural logarithm of a positive, normal, finite number, within 2 ulp.
///
/// With `x = 2^e · m`, `m` around 1 and `s = (m - 1) / (m + 1)`, it is `e ln 2 + 2 artanh s`, whose series in `s²` ends
/// where its terms vanish beside the first (`|s| < 0.172`).
pub fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) as i32 - 1023) as f64;
    let mut mantissa = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    if mantissa > SQRT_2 {
        mantissa *= 0.5;
        exponent += 1.0;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut tail = 1.0 / 23.0;
    for odd in [21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0] {
        tail = tail * square + 1.0 / odd;
    }
    let twice = 2.0 * s;
    exponent * LN_2_HIGH + (twice + (twice * square * tail + exponent * LN_2_LOW))
}

/// e^x for x from -700 to 0, within 2 ulp: `2^n · e^r` with `|r| ≤ ln 2 / 2`, of which Taylor's series to the 13th power
/// leaves nothing.
pub fn exp(x: f64) -> f64 {
    let whole = (x * LOG2_E - 0.5) as i32;
    let n = whole as f64;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let mut sum = 1.0 / FACTORIALS[0];
    for factorial in &FACTORIALS[1..] {
        sum = sum * r + 1.0 / factorial;
    }
    sum * f64::from_bits(((1023 + whole) as u64) << 52)
}

/// The share of a candidate among the others, beside the most likely one's, whose share is 2^40: the whole part of
/// `2^40 e^scaled` for a logit over the temperature of at most 0, relative to the greatest. Whole numbers add up to the
/// same sum in any order. What is less than 2^-40 as likely as the most likely candidate has none.
pub fn weight(scaled: f64) -> u64 {
    if scaled < -28.0 { 0 } else { (exp(scaled) * (1u64 << 40) as f64) as u64 }
}

/// The least sum of weights that is a share of all of them, 1 or more.
pub fn share_of(share: f64, total: u64) -> u64 {
    ((share * total as f64).ceil() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fiddlehead_forest::shapes::SplitMix;

    /// The distance in units of the last place of `wanted`.
    fn ulps(found: f64, wanted: f64) -> f64 {
        let unit = f64::from_bits(wanted.abs().to_bits() + 1) - wanted.abs();
        (found - wanted).abs() / unit
    }

    #[test]
    fn they_are_what_libraries_say() {
        let mut random = SplitMix::new(3);
        let mut unit = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut worst = [0.0f64; 2];
        for round in 0..200_000 {
            let x = if round % 2 == 0 { unit() } else { 2f64.powf(200.0 * unit() - 100.0) };
            if x > 0.0 {
                worst[0] = worst[0].max(ulps(ln(x), x.ln()));
            }
            let x = -700.0 * unit() * if round % 2 == 0 { 1.0 } else { 0.01 };
            worst[1] = worst[1].max(ulps(exp(x), x.exp()));
        }
        assert!(worst.iter().all(|&worst| worst <= 2.0), "{worst:?} ulp");
        assert_eq!((ln(1.0), exp(0.0)), (0.0, 1.0));
        assert!(ulps(ln(1.0 - f64::EPSILON / 2.0), -f64::EPSILON / 2.0) <= 1.0);
    }

    #[test]
    fn weights_by_example() {
        assert_eq!(weight(0.0), 1 << 40);
        assert_eq!(weight(-2f64.ln() * 10.0).abs_diff(1 << 30), 0);
        assert_eq!((weight(-28.0), weight(-28.1), weight(f64::NEG_INFINITY)), (0, 0, 0));
        assert!(weight(-27.7) == 1);
        assert_eq!(
            (share_of(0.5, 10), share_of(0.51, 10), share_of(1e-9, 10), share_of(1.0, 7)),
            (5, 6, 1, 7)
        );
    }
}
