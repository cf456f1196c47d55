//! The arithmetic an oracle runs in.

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A floating-point type that a graph's f32 values are computed in: `f64` for the reference, `f32` for the
/// literal meaning of the exact contract. Functions are the standard library's.
pub trait Real:
    Copy
    + Debug
    + Default
    + PartialOrd
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Sum
    + 'static
{
    /// Positive infinity.
    const INFINITY: Self;
    /// One.
    const ONE: Self;
    /// The value of an f32, exactly.
    fn from_f32(value: f32) -> Self;
    /// The nearest value to an f64.
    fn from_f64(value: f64) -> Self;
    /// The nearest value to an integer.
    fn from_int(value: i64) -> Self;
    /// The value as an f64, exactly.
    fn to_f64(self) -> f64;
    /// Towards zero, saturating; NaN gives zero.
    fn to_i32(self) -> i32;
    /// e^x.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// `ln(1 + x)`, precise near zero.
    fn ln_1p(self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// Sine.
    fn sin(self) -> Self;
    /// Cosine.
    fn cos(self) -> Self;
    /// Hyperbolic tangent.
    fn tanh(self) -> Self;
    /// The greatest whole number not above.
    fn floor(self) -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
    /// The lesser; with one NaN, the other.
    fn min(self, other: Self) -> Self;
    /// The greater; with one NaN, the other.
    fn max(self, other: Self) -> Self;

    /// Whether the value is no number.
    fn is_nan(self) -> bool {
        self.partial_cmp(&self).is_none()
    }

    /// Whether the value ranks before `other`, greatest first: a NaN ranks behind every number.
    fn outranks(self, other: Self) -> bool {
        self > other || (other.is_nan() && !self.is_nan())
    }
}

macro_rules! real {
    ($($name:ident),*) => {$(
        impl Real for $name {
            const INFINITY: Self = $name::INFINITY;
            const ONE: Self = 1.0;
            fn from_f32(value: f32) -> Self { value as $name }
            fn from_f64(value: f64) -> Self { value as $name }
            fn from_int(value: i64) -> Self { value as $name }
            fn to_f64(self) -> f64 { self as f64 }
            fn to_i32(self) -> i32 { self as i32 }
            fn exp(self) -> Self { $name::exp(self) }
            fn ln(self) -> Self { $name::ln(self) }
            fn ln_1p(self) -> Self { $name::ln_1p(self) }
            fn sqrt(self) -> Self { $name::sqrt(self) }
            fn sin(self) -> Self { $name::sin(self) }
            fn cos(self) -> Self { $name::cos(self) }
            fn tanh(self) -> Self { $name::tanh(self) }
            fn floor(self) -> Self { $name::floor(self) }
            fn abs(self) -> Self { $name::abs(self) }
            fn min(self, other: Self) -> Self { $name::min(self, other) }
            fn max(self, other: Self) -> Self { $name::max(self, other) }
        }
    )*};
}
real!(f32, f64);
