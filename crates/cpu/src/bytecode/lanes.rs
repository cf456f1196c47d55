//! One instruction over the lanes of a block. Everything here is inlined into the interpreter, which is compiled once
//! for each family of instructions, so plain loops become vector instructions.
//!
//! Exact operations give the same bits in every family: nothing here fuses a product with a sum.

use super::code::{Combine, FoldCode, Form, Lane, Op, PARTIALS};
use super::functions;
use crate::features::Isa;

/// The words behind a slot, as `T`.
///
/// # Safety
/// `n` words behind `pointer` are readable for as long as the slice is used, and nobody writes them meanwhile.
#[inline(always)]
pub(super) unsafe fn read<'a, T>(pointer: *const u32, n: usize) -> &'a [T] {
    // SAFETY: words are four bytes, as are f32, i32 and u32, and any bits are valid for those.
    unsafe { std::slice::from_raw_parts(pointer.cast(), n) }
}

/// As [`read`], to write.
///
/// # Safety
/// `n` words behind `pointer` are writable for as long as the slice is used, and nobody else touches them.
#[inline(always)]
pub(super) unsafe fn write<'a, T>(pointer: *mut u32, n: usize) -> &'a mut [T] {
    // SAFETY: as in `read`.
    unsafe { std::slice::from_raw_parts_mut(pointer.cast(), n) }
}

#[inline(always)]
fn map<A: Copy, T>(to: &mut [T], a: &[A], f: impl Fn(A) -> T) {
    for (to, &a) in to.iter_mut().zip(a) {
        *to = f(a);
    }
}

#[inline(always)]
fn zip<A: Copy, T>(to: &mut [T], a: &[A], b: &[A], f: impl Fn(A, A) -> T) {
    for ((to, &a), &b) in to.iter_mut().zip(a).zip(b) {
        *to = f(a, b);
    }
}

/// The lesser; with one NaN, the other.
#[inline(always)]
fn lesser(a: f32, b: f32) -> f32 {
    if a < b || b.is_nan() { a } else { b }
}

/// The greater; with one NaN, the other.
#[inline(always)]
fn greater(a: f32, b: f32) -> f32 {
    if a > b || b.is_nan() { a } else { b }
}

/// Exact: the quotient of two i32 is at least 2^-31 of itself away from a whole number that it is not.
#[inline(always)]
fn divide(a: i32, b: i32) -> i32 {
    (a as f64 / b as f64).floor() as i64 as i32
}

/// Runs one lane instruction.
///
/// # Safety
/// The slots of `lane` point at `n` words (one for scalars); `to` overlaps no operand, except for a copy.
#[inline(always)]
pub(super) unsafe fn execute(lane: &Lane, pointers: &[*mut u32], n: usize, isa: Isa) {
    let n = if lane.vector { n } else { 1 };
    let (to, a) = (pointers[lane.to as usize], pointers[lane.a as usize]);
    let (b, c) = (pointers[lane.b as usize], pointers[lane.c as usize]);
    // SAFETY: the caller vouches for the slots; each arm reads its operands with the length their form gives.
    unsafe {
        macro_rules! unary {
            ($from:ty => $to:ty, $f:expr) => {
                map(write::<$to>(to, n), read::<$from>(a, n), $f)
            };
        }
        macro_rules! binary {
            ($from:ty => $to:ty, $f:expr) => {
                zip(write::<$to>(to, n), read::<$from>(a, n), read::<$from>(b, n), $f)
            };
        }
        macro_rules! forms {
            ($f:expr) => {{
                let to = write::<f32>(to, n);
                match lane.form {
                    Form::Both => zip(to, read::<f32>(a, n), read::<f32>(b, n), $f),
                    Form::Left => {
                        let b = read::<f32>(b, 1)[0];
                        map(to, read::<f32>(a, n), |a| $f(a, b))
                    }
                    Form::Right => {
                        let a = read::<f32>(a, 1)[0];
                        map(to, read::<f32>(b, n), |b| $f(a, b))
                    }
                }
            }};
        }
        match lane.op {
            Op::NegateFloat => unary!(f32 => f32, |a| -a),
            Op::AbsoluteFloat => unary!(f32 => f32, f32::abs),
            Op::Floor => unary!(f32 => f32, f32::floor),
            Op::Sqrt => unary!(f32 => f32, f32::sqrt),
            Op::Rsqrt => unary!(f32 => f32, |a: f32| 1.0 / a.sqrt()),
            Op::Exp
            | Op::Log
            | Op::Sin
            | Op::Cos
            | Op::Tanh
            | Op::Sigmoid
            | Op::Silu
            | Op::Gelu
            | Op::Softplus => functions::apply(lane.op, isa, read::<f32>(a, n), write::<f32>(to, n)),
            Op::ToFloat => unary!(i32 => f32, |a| a as f32),
            Op::ToInt => unary!(f32 => i32, |a| a as i32),
            Op::NegateInteger => unary!(i32 => i32, i32::wrapping_neg),
            Op::AbsoluteInteger => unary!(i32 => i32, i32::wrapping_abs),
            Op::Not => unary!(u32 => u32, |a| a ^ 1),
            Op::AddFloat => forms!(|a, b| a + b),
            Op::SubtractFloat => forms!(|a, b| a - b),
            Op::MultiplyFloat => forms!(|a, b| a * b),
            Op::DivideFloat => forms!(|a, b| a / b),
            Op::MinFloat => forms!(lesser),
            Op::MaxFloat => forms!(greater),
            Op::EqualFloat => binary!(f32 => u32, |a, b| u32::from(a == b)),
            Op::NotEqualFloat => binary!(f32 => u32, |a, b| u32::from(a != b)),
            Op::LessFloat => binary!(f32 => u32, |a, b| u32::from(a < b)),
            Op::LessEqualFloat => binary!(f32 => u32, |a, b| u32::from(a <= b)),
            Op::AddInteger => binary!(i32 => i32, i32::wrapping_add),
            Op::SubtractInteger => binary!(i32 => i32, i32::wrapping_sub),
            Op::MultiplyInteger => binary!(i32 => i32, i32::wrapping_mul),
            Op::DivideInteger => binary!(i32 => i32, divide),
            Op::RemainderInteger => {
                binary!(i32 => i32, |a: i32, b: i32| a.wrapping_sub(b.wrapping_mul(divide(a, b))))
            }
            Op::MinInteger => binary!(i32 => i32, |a, b| if a < b { a } else { b }),
            Op::MaxInteger => binary!(i32 => i32, |a, b| if a > b { a } else { b }),
            Op::EqualWord => binary!(u32 => u32, |a, b| u32::from(a == b)),
            Op::NotEqualWord => binary!(u32 => u32, |a, b| u32::from(a != b)),
            Op::LessInteger => binary!(i32 => u32, |a, b| u32::from(a < b)),
            Op::LessEqualInteger => binary!(i32 => u32, |a, b| u32::from(a <= b)),
            Op::And => binary!(u32 => u32, |a, b| a & b),
            Op::Or => binary!(u32 => u32, |a, b| a | b),
            Op::Select => {
                let (yes, no) = (read::<u32>(b, n), read::<u32>(c, n));
                let arms = yes.iter().zip(no);
                for ((to, &chosen), (&yes, &no)) in
                    write::<u32>(to, n).iter_mut().zip(read::<u32>(a, n)).zip(arms)
                {
                    *to = if chosen != 0 { yes } else { no };
                }
            }
            Op::Fill => write::<u32>(to, n).fill(*a),
            Op::Count => {
                let first = *a;
                for (lane, to) in write::<u32>(to, n).iter_mut().enumerate() {
                    *to = first.wrapping_add(lane as u32);
                }
            }
            Op::Copy => std::ptr::copy(a, to, n),
        }
    }
}

/// The word that a fold starts from.
fn empty(combine: Combine) -> u32 {
    match combine {
        Combine::SumFloat | Combine::SumOfProducts => 0f32.to_bits(),
        Combine::ProductFloat => 1f32.to_bits(),
        Combine::MaxFloat | Combine::ArgMaxFloat => f32::NEG_INFINITY.to_bits(),
        Combine::MinFloat => f32::INFINITY.to_bits(),
        Combine::SumInteger | Combine::Any => 0,
        Combine::ProductInteger | Combine::All => 1,
        Combine::MaxInteger | Combine::ArgMaxInteger => i32::MIN as u32,
        Combine::MinInteger => i32::MAX as u32,
    }
}

/// Starts a fold's partials, or its accumulators in `n` lanes.
///
/// # Safety
/// The accumulators' slots hold their sizes.
#[inline(always)]
pub(super) unsafe fn begin(fold: &FoldCode, pointers: &[*mut u32], n: usize) {
    let n = if fold.along_lanes { PARTIALS } else { n };
    // SAFETY: the caller vouches for the slots.
    unsafe {
        write::<u32>(pointers[fold.accumulator as usize], n).fill(empty(fold.combine));
        if matches!(fold.combine, Combine::ArgMaxFloat | Combine::ArgMaxInteger) {
            write::<i32>(pointers[fold.indices as usize], n).fill(-1);
        }
    }
}

/// Into partials: element `i` goes to partial `i % PARTIALS`.
#[inline(always)]
fn along<T: Copy>(partials: &mut [T; PARTIALS], a: &[T], f: impl Fn(T, T) -> T) {
    let mut chunks = a.chunks_exact(PARTIALS);
    for chunk in &mut chunks {
        for (partial, &a) in partials.iter_mut().zip(chunk) {
            *partial = f(*partial, a);
        }
    }
    for (partial, &a) in partials.iter_mut().zip(chunks.remainder()) {
        *partial = f(*partial, a);
    }
}

#[inline(always)]
fn along_products(partials: &mut [f32; PARTIALS], a: &[f32], b: &[f32]) {
    let mut chunks = a.chunks_exact(PARTIALS);
    let mut others = b.chunks_exact(PARTIALS);
    for (chunk, other) in (&mut chunks).zip(&mut others) {
        for ((partial, &a), &b) in partials.iter_mut().zip(chunk).zip(other) {
            *partial += a * b;
        }
    }
    for ((partial, &a), &b) in partials.iter_mut().zip(chunks.remainder()).zip(others.remainder()) {
        *partial += a * b;
    }
}

#[inline(always)]
fn into<T: Copy>(accumulators: &mut [T], a: &[T], f: impl Fn(T, T) -> T) {
    for (accumulator, &a) in accumulators.iter_mut().zip(a) {
        *accumulator = f(*accumulator, a);
    }
}

/// What may be the greatest.
pub(super) trait Ordered: Copy {
    /// Whether `self` comes before `other` whatever the indices: it is greater, or the other is NaN and it is not.
    fn beats(self, other: Self) -> bool;
}
impl Ordered for f32 {
    #[inline(always)]
    fn beats(self, other: f32) -> bool {
        self > other || (other.is_nan() && !self.is_nan())
    }
}
impl Ordered for i32 {
    #[inline(always)]
    fn beats(self, other: i32) -> bool {
        self > other
    }
}

#[inline(always)]
fn arg_max<T: Ordered>(best: &mut [T], indices: &mut [i32], a: &[T], index: impl Fn(usize) -> i32) {
    for (lane, ((best, at), &a)) in best.iter_mut().zip(indices).zip(a).enumerate() {
        let better = *at < 0 || a.beats(*best);
        *best = if better { a } else { *best };
        *at = if better { index(lane) } else { *at };
    }
}

/// Folds one block in.
///
/// # Safety
/// The fold's slots hold their sizes, `n` words behind vectors; accumulators overlap nothing else.
#[inline(always)]
pub(super) unsafe fn step(fold: &FoldCode, pointers: &[*mut u32], n: usize) {
    let (a, b) = (pointers[fold.a as usize], pointers[fold.b as usize]);
    let (accumulator, indices) = (pointers[fold.accumulator as usize], pointers[fold.indices as usize]);
    // SAFETY: the caller vouches for the slots; partials are PARTIALS words.
    unsafe {
        let first = *pointers[fold.axis as usize] as i32;
        macro_rules! combine {
            ($ty:ty, $f:expr) => {
                if fold.along_lanes {
                    along(&mut *accumulator.cast::<[$ty; PARTIALS]>(), read::<$ty>(a, n), $f)
                } else {
                    into(write::<$ty>(accumulator, n), read::<$ty>(a, n), $f)
                }
            };
        }
        macro_rules! arg {
            ($ty:ty) => {
                if fold.along_lanes {
                    let (best, at) = (write::<$ty>(accumulator, PARTIALS), write::<i32>(indices, PARTIALS));
                    for (block, a) in read::<$ty>(a, n).chunks(PARTIALS).enumerate() {
                        let first = first + (block * PARTIALS) as i32;
                        arg_max(best, at, a, |lane| first + lane as i32);
                    }
                } else {
                    let (best, at) = (write::<$ty>(accumulator, n), write::<i32>(indices, n));
                    arg_max(best, at, read::<$ty>(a, n), |_| first);
                }
            };
        }
        match fold.combine {
            Combine::SumFloat => combine!(f32, |sum, a| sum + a),
            Combine::SumOfProducts => match (fold.along_lanes, fold.form) {
                (true, Form::Both) => {
                    let partials = &mut *accumulator.cast::<[f32; PARTIALS]>();
                    along_products(partials, read::<f32>(a, n), read::<f32>(b, n));
                }
                (true, _) => {
                    let b = *b.cast::<f32>();
                    along(&mut *accumulator.cast(), read::<f32>(a, n), |sum: f32, a| sum + a * b);
                }
                (false, Form::Both) => {
                    let factors = read::<f32>(a, n).iter().zip(read::<f32>(b, n));
                    for (sum, (&a, &b)) in write::<f32>(accumulator, n).iter_mut().zip(factors) {
                        *sum += a * b;
                    }
                }
                (false, _) => {
                    let b = *b.cast::<f32>();
                    into(write::<f32>(accumulator, n), read::<f32>(a, n), |sum, a| sum + a * b);
                }
            },
            Combine::ProductFloat => combine!(f32, |product, a| product * a),
            Combine::MaxFloat => combine!(f32, greater),
            Combine::MinFloat => combine!(f32, lesser),
            Combine::SumInteger => combine!(i32, i32::wrapping_add),
            Combine::ProductInteger => combine!(i32, i32::wrapping_mul),
            Combine::MaxInteger => combine!(i32, |a, b| if a > b { a } else { b }),
            Combine::MinInteger => combine!(i32, |a, b| if a < b { a } else { b }),
            Combine::Any => combine!(u32, |a, b| a | b),
            Combine::All => combine!(u32, |a, b| a & b),
            Combine::ArgMaxFloat => arg!(f32),
            Combine::ArgMaxInteger => arg!(i32),
        }
    }
}

#[inline(always)]
fn reduce<T: Copy>(partials: &mut [T], f: impl Fn(T, T) -> T) -> T {
    const { assert!(PARTIALS == 64) };
    // Each halving by itself, so that its width is known to the compiler.
    halve::<T, 32>(partials, &f);
    halve::<T, 16>(partials, &f);
    halve::<T, 8>(partials, &f);
    halve::<T, 4>(partials, &f);
    halve::<T, 2>(partials, &f);
    halve::<T, 1>(partials, &f);
    partials[0]
}

#[inline(always)]
fn halve<T: Copy, const WIDTH: usize>(partials: &mut [T], f: &impl Fn(T, T) -> T) {
    let (low, high) = partials.split_at_mut(WIDTH);
    for (low, &high) in low[..WIDTH].iter_mut().zip(&high[..WIDTH]) {
        *low = f(*low, high);
    }
}

fn reduce_arg<T: Ordered>(best: &[T], indices: &[i32]) -> i32 {
    let mut winner: Option<(T, i32)> = None;
    for (&value, &index) in best.iter().zip(indices).filter(|pair| *pair.1 >= 0) {
        winner = match winner {
            Some((held, at)) if !(value.beats(held) || (!held.beats(value) && index < at)) => {
                Some((held, at))
            }
            _ => Some((value, index)),
        };
    }
    winner.map_or(0, |winner| winner.1)
}

/// Ends a fold: partials to the scalar result; an arg-max of nothing becomes zero.
///
/// # Safety
/// As for [`begin`].
#[inline(always)]
pub(super) unsafe fn end(fold: &FoldCode, pointers: &[*mut u32], n: usize) {
    let (accumulator, indices) = (pointers[fold.accumulator as usize], pointers[fold.indices as usize]);
    // SAFETY: the caller vouches for the slots.
    unsafe {
        if !fold.along_lanes {
            if matches!(fold.combine, Combine::ArgMaxFloat | Combine::ArgMaxInteger) {
                for index in write::<i32>(indices, n) {
                    *index = if *index < 0 { 0 } else { *index };
                }
            }
            return;
        }
        macro_rules! reduced {
            ($ty:ty, $f:expr) => {
                *pointers[fold.to as usize].cast::<$ty>() = reduce(write::<$ty>(accumulator, PARTIALS), $f)
            };
        }
        macro_rules! arg {
            ($ty:ty) => {
                *pointers[fold.to as usize].cast::<i32>() =
                    reduce_arg(read::<$ty>(accumulator, PARTIALS), read::<i32>(indices, PARTIALS))
            };
        }
        match fold.combine {
            Combine::SumFloat | Combine::SumOfProducts => reduced!(f32, |a, b| a + b),
            Combine::ProductFloat => reduced!(f32, |a, b| a * b),
            Combine::MaxFloat => reduced!(f32, greater),
            Combine::MinFloat => reduced!(f32, lesser),
            Combine::SumInteger => reduced!(i32, i32::wrapping_add),
            Combine::ProductInteger => reduced!(i32, i32::wrapping_mul),
            Combine::MaxInteger => reduced!(i32, i32::max),
            Combine::MinInteger => reduced!(i32, i32::min),
            Combine::Any => reduced!(u32, |a, b| a | b),
            Combine::All => reduced!(u32, |a, b| a & b),
            Combine::ArgMaxFloat => arg!(f32),
            Combine::ArgMaxInteger => arg!(i32),
        }
    }
}
