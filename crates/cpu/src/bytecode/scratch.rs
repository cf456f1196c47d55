//! The memory that a thread runs programs with.

use super::code::{BLOCK, Code};
use crate::features::{Features, Isa};

/// A cache line of words.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
pub(super) struct Line(pub [u32; 16]);

/// Where a source's row begins, and how many of its elements may be touched.
#[derive(Clone, Copy)]
pub(super) struct Base {
    pub data: *const u8,
    pub elements: usize,
    /// Added to every offset: minus the origin of a local tensor's box.
    pub shift: i64,
}

impl Base {
    pub const NOTHING: Base = Base { data: std::ptr::null(), elements: 0, shift: 0 };
}

/// The rows of a history found last by one load.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub first: i64,
    pub count: i64,
    pub stride: usize,
    pub rows: *const u32,
}

impl Found {
    pub const NOTHING: Found = Found { first: 0, count: 0, stride: 0, rows: std::ptr::null() };
}

/// A thread's registers, reused from run to run. It grows to what the largest program takes and then stays.
pub struct Scratch {
    pub(super) isa: Isa,
    pub(super) storage: Vec<Line>,
    pub(super) pointers: Vec<*mut u32>,
    pub(super) coefficients: Vec<i64>,
    pub(super) bases: Vec<Base>,
    pub(super) found: Vec<Found>,
    pub(super) best: Vec<(f32, u32)>,
}

// SAFETY: the pointers are only meaningful within one run, which sets each before it reads it.
unsafe impl Send for Scratch {}

impl Default for Scratch {
    fn default() -> Self {
        Scratch::new()
    }
}

impl Scratch {
    /// An empty one, for the widest vector instructions that the system enables.
    pub fn new() -> Scratch {
        Scratch::with_isa(Features::detect().isa)
    }

    /// An empty one, for `isa` or what the system enables of it.
    pub fn with_isa(isa: Isa) -> Scratch {
        Scratch {
            isa,
            storage: Vec::new(),
            pointers: Vec::new(),
            coefficients: Vec::new(),
            bases: Vec::new(),
            found: Vec::new(),
            best: Vec::new(),
        }
    }

    /// Makes room for a program and points its slots at their storage.
    pub(super) fn prepare(&mut self, code: &Code) {
        let lines = code.storage.div_ceil(16);
        if self.storage.len() < lines {
            self.storage.resize(lines, Line::default());
        }
        let storage = self.storage.as_mut_ptr().cast::<u32>();
        let zeros = ZEROS.0.as_ptr().cast_mut();
        self.pointers.clear();
        self.pointers.extend(code.slots.iter().map(|slot| match slot {
            // SAFETY: `registers` places every slot within `code.storage` words.
            Some(place) => unsafe { storage.add(*place as usize) },
            // Until a load points it elsewhere.
            None => zeros,
        }));
        for &(slot, word, vector) in &code.constants {
            let length = if vector { BLOCK } else { 1 };
            // SAFETY: a constant's slot is placed in storage, a vector's with BLOCK words.
            unsafe { std::slice::from_raw_parts_mut(self.pointers[slot as usize], length) }.fill(word);
        }
        self.coefficients.clear();
        self.coefficients.resize(code.coefficients.len(), 0);
        self.found.clear();
        self.found.resize(code.loads.len(), Found::NOTHING);
        self.bases.clear();
        self.bases.resize(code.sources.len() + 1, Base::NOTHING);
    }
}

/// A block of zeros: a history's row below depth zero.
#[repr(C, align(64))]
pub(super) struct Zeros(pub [u32; BLOCK]);
pub(super) static ZEROS: Zeros = Zeros([0; BLOCK]);
