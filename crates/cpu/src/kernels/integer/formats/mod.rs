//! How the blocks of each format become groups of unsigned numbers with a scale and an offset: a value is
//! `scale × number + offset`, so a format with negative numbers moves them up and pays with its offset.

mod simple;
mod super_blocks;

use super::interleave::Rows;
use crate::kernels::blocks::Decoder;
use std::arch::x86_64::*;

/// 32 numbers of each of sixteen rows.
#[derive(Clone, Copy)]
pub(super) struct Group {
    /// Register `j` holds in each row's lane the numbers `4j .. 4j + 4`, unsigned bytes.
    pub numbers: [__m512i; 8],
    /// For each sixteen numbers; both alike where [`Unpack::HALVES`] is 1.
    pub scales: [__m512; 2],
    /// As the scales.
    pub offsets: [__m512; 2],
}

/// Takes the groups of a block.
pub(super) trait Groups {
    /// Group `index` of the block.
    /// # Safety
    /// AVX-512 VNNI is enabled.
    unsafe fn put(&mut self, index: usize, group: Group);
}

/// A format with an integer kernel.
pub(super) trait Unpack: Decoder {
    /// Scales in a group of 32: 1 or 2.
    const HALVES: usize;
    /// Gives every group of the block of sixteen rows to `to`, in order.
    /// # Safety
    /// AVX-512 VNNI is enabled and a block is readable at every row.
    unsafe fn unpack(rows: &Rows, to: &mut impl Groups);
}

/// A loop written out, so that shifts and register choices are constants. Left to the compiler some tiles kept the loop, which
/// doubled their time (`q4_k`, one row: 27 µs against 14).
macro_rules! each {
    ($name:ident in $($value:literal)* => $body:block) => {
        $({
            let $name: usize = $value;
            $body
        })*
    };
}
use each;
