//! Elementary functions and reductions over slices.
//!
//! An element's result depends on its value alone: a partial last vector runs through the same instructions, masked. The
//! accuracy contract is at most 2 ulp for `exp`, `log`, `sin`, `cos` and `tanh`; `sigmoid`, `silu`, `softplus` and `rsqrt` stay
//! within 4 (measured: `tests/elementary.rs`).

use super::elementary;
use super::vector::{Kernel, Vector};
use crate::features::Isa;

struct Map<'a, F> {
    input: &'a [f32],
    output: &'a mut [f32],
    function: F,
}

/// A function of one lane, over any vector.
trait LaneFunction {
    fn apply<V: Vector>(&self, x: V) -> V;
}

impl<F: LaneFunction> Kernel for Map<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let count = self.input.len();
        assert_eq!(count, self.output.len(), "input and output differ in length");
        let (from, to) = (self.input.as_ptr(), self.output.as_mut_ptr());
        let mut index = 0;
        // SAFETY: both slices hold `count` values; the last vector is masked.
        unsafe {
            while index + V::LANES <= count {
                self.function.apply(V::load(from.add(index))).store(to.add(index));
                index += V::LANES;
            }
            if index < count {
                let rest = count - index;
                self.function.apply(V::load_first(from.add(index), rest)).store_first(to.add(index), rest);
            }
        }
    }
}

struct MapInPlace<'a, F> {
    values: &'a mut [f32],
    function: F,
}

impl<F: LaneFunction> Kernel for MapInPlace<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let count = self.values.len();
        let at = self.values.as_mut_ptr();
        let mut index = 0;
        // SAFETY: the slice holds `count` values; the last vector is masked.
        unsafe {
            while index + V::LANES <= count {
                self.function.apply(V::load(at.add(index))).store(at.add(index));
                index += V::LANES;
            }
            if index < count {
                let rest = count - index;
                self.function.apply(V::load_first(at.add(index), rest)).store_first(at.add(index), rest);
            }
        }
    }
}

macro_rules! lane_functions {
    ($($(#[$doc:meta])* $slice:ident $in_place:ident $name:ident $marker:ident = $function:expr;)*) => {$(
        struct $marker;
        impl LaneFunction for $marker {
            #[inline(always)]
            fn apply<V: Vector>(&self, x: V) -> V {
                $function(x)
            }
        }
        $(#[$doc])*
        ///
        /// # Panics
        /// When the slices differ in length.
        pub fn $slice(isa: Isa, input: &[f32], output: &mut [f32]) {
            isa.run(Map { input, output, function: $marker });
        }
        $(#[$doc])*
        ///
        /// In place.
        pub fn $in_place(isa: Isa, values: &mut [f32]) {
            isa.run(MapInPlace { values, function: $marker });
        }
        $(#[$doc])*
        ///
        /// For one value, with the bits of the slice form.
        pub fn $name(isa: Isa, value: f32) -> f32 {
            let mut values = [value];
            $in_place(isa, &mut values);
            values[0]
        }
    )*};
}

lane_functions! {
    /// e^x.
    exp_slice exp_in_place exp Exp = elementary::exp;
    /// The natural logarithm: -∞ at zero, NaN below.
    log_slice log_in_place log Log = elementary::log;
    /// The sine, for angles of any size.
    sin_slice sin_in_place sin Sin = |x| elementary::sin_cos(x).0;
    /// The cosine, for angles of any size.
    cos_slice cos_in_place cos Cos = |x| elementary::sin_cos(x).1;
    /// The hyperbolic tangent.
    tanh_slice tanh_in_place tanh Tanh = elementary::tanh;
    /// 1 / (1 + e^-x).
    sigmoid_slice sigmoid_in_place sigmoid Sigmoid = elementary::sigmoid;
    /// x / (1 + e^-x).
    silu_slice silu_in_place silu Silu = elementary::silu;
    /// ln(1 + e^x).
    softplus_slice softplus_in_place softplus Softplus = elementary::softplus;
    /// 1 / √x.
    rsqrt_slice rsqrt_in_place rsqrt Rsqrt = elementary::rsqrt;
}

/// Σ x², along the pattern of a dot product of the row with itself.
pub fn sum_of_squares(isa: Isa, values: &[f32]) -> f32 {
    isa.run(Dot { a: values, b: values })
}

/// Σ a·b, along the pattern of a contraction's dot product.
///
/// # Panics
/// When the slices differ in length.
pub fn dot(isa: Isa, a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "the operands differ in length");
    isa.run(Dot { a, b })
}

struct Dot<'a> {
    a: &'a [f32],
    b: &'a [f32],
}

impl Kernel for Dot<'_> {
    type Output = f32;
    #[inline(always)]
    fn run<V: Vector>(self) -> f32 {
        let (a, b) = (self.a.as_ptr(), self.b.as_ptr());
        // SAFETY: both slices hold `a.len()` values.
        let sums = unsafe { super::dot::accumulate::<V, f32, 1, 1>([a], [b.cast()], self.a.len(), 0) };
        sums[0][0].sum()
    }
}
