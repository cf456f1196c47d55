//! Running one compiled window: the loops, and the interpreter of their instructions.

use super::code::*;
use super::frame::{Frame, TrapKind};
use super::lanes;
use super::scratch::{Base, Found};
use crate::features::Isa;

/// The state of a run over one row.
pub(super) struct Machine<'r> {
    pub code: &'r Code,
    pub frame: &'r Frame<'r>,
    pub pointers: &'r mut [*mut u32],
    pub coefficients: &'r mut [i64],
    /// The sources' rows, then the output's.
    pub bases: &'r mut [Base],
    pub found: &'r mut [Found],
    pub isa: Isa,
    pub interpret: Interpret,
    pub row: usize,
    pub here: i32,
    /// Lanes of the current block.
    pub lanes: usize,
    /// The current lane of a tail.
    pub lane: usize,
    /// The part of the node's outermost axis that is wanted.
    pub outer: Option<(usize, usize)>,
}

/// Interprets a list of instructions with one family of vector instructions.
///
/// # Safety
/// The family is enabled, and the machine's pointers are set up for its code and frame.
pub(super) type Interpret = unsafe fn(&mut Machine<'_>, &[Instruction]) -> Result<(), TrapKind>;

/// The interpreter compiled for `isa`, or for the widest family below it that the system enables.
pub(super) fn interpreter(isa: Isa) -> Interpret {
    match isa.allowed() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => interpret_avx512,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => interpret_avx2,
        _ => interpret_plain,
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn interpret_avx512(machine: &mut Machine<'_>, list: &[Instruction]) -> Result<(), TrapKind> {
    // SAFETY: the caller's.
    unsafe { interpret(machine, list) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn interpret_avx2(machine: &mut Machine<'_>, list: &[Instruction]) -> Result<(), TrapKind> {
    // SAFETY: the caller's.
    unsafe { interpret(machine, list) }
}

unsafe fn interpret_plain(machine: &mut Machine<'_>, list: &[Instruction]) -> Result<(), TrapKind> {
    // SAFETY: the caller's.
    unsafe { interpret(machine, list) }
}

#[inline(always)]
unsafe fn interpret(machine: &mut Machine<'_>, list: &[Instruction]) -> Result<(), TrapKind> {
    let code = machine.code;
    for instruction in list {
        // SAFETY: the caller vouches for the machine; `registers` places results apart from operands.
        unsafe {
            match *instruction {
                Instruction::Lane(ref lane) => {
                    lanes::execute(lane, machine.pointers, machine.lanes, machine.isa);
                }
                Instruction::Load(place) => machine.load(place as usize)?,
                Instruction::Check(place) => machine.check(&code.checks[place as usize])?,
                Instruction::Store(place) => machine.store(&code.stores[place as usize])?,
                Instruction::FoldBegin(place) => {
                    lanes::begin(&code.folds[place as usize], machine.pointers, machine.lanes);
                }
                Instruction::FoldStep(place) => {
                    lanes::step(&code.folds[place as usize], machine.pointers, machine.lanes);
                }
                Instruction::FoldEnd(place) => {
                    lanes::end(&code.folds[place as usize], machine.pointers, machine.lanes);
                }
                Instruction::Tail(place) => machine.tail(&code.tails[place as usize])?,
                Instruction::Extract { to, from } => {
                    *machine.pointers[to as usize] = *machine.pointers[from as usize].add(machine.lane);
                }
            }
        }
    }
    Ok(())
}

impl Machine<'_> {
    /// Runs everything inside the first `level` loops.
    ///
    /// # Safety
    /// As for [`Interpret`].
    pub unsafe fn run(&mut self, level: usize) -> Result<(), TrapKind> {
        let code = self.code;
        let here = &code.levels[level];
        // SAFETY: the caller's, here and below.
        unsafe {
            if !here.before.is_empty() {
                (self.interpret)(self, &here.before)?;
            }
            if level == 0
                && let Some(guard) = code.guard
                && *self.pointers[guard as usize] == 0
                && self.zero_output()
            {
                return Ok(());
            }
            if let Some(next) = &here.next
                && here.unless.is_none_or(|guard| *self.pointers[guard as usize] != 0)
            {
                self.turns(next, level + 1)?;
            }
            if !here.after.is_empty() {
                (self.interpret)(self, &here.after)?;
            }
        }
        Ok(())
    }

    unsafe fn turns(&mut self, next: &Loop, level: usize) -> Result<(), TrapKind> {
        // SAFETY: the caller's.
        unsafe {
            let (mut low, mut high) = (self.bound(next.low), self.bound(next.high));
            if let (Some((times, by)), Some((first, end))) = (next.outermost, self.outer) {
                low = low.max((first * times / by) as i64);
                high = high.min((end * times / by) as i64);
            }
            let axis = self.pointers[next.axis as usize];
            if !next.vector {
                for value in low..high {
                    *axis = value as u32;
                    self.run(level)?;
                }
                return Ok(());
            }
            let mut first = low;
            while first < high {
                self.lanes = (high - first).min(BLOCK as i64) as usize;
                *axis = first as u32;
                self.run(level)?;
                first += BLOCK as i64;
            }
        }
        Ok(())
    }

    unsafe fn bound(&self, bound: Bound) -> i64 {
        match bound {
            Bound::Known(value) => value,
            // SAFETY: a bound's slot is a scalar.
            Bound::Slot(slot) => unsafe { *self.pointers[slot as usize] as i32 as i64 },
            // SAFETY: as above.
            Bound::Past(slot) => unsafe { *self.pointers[slot as usize] as i32 as i64 + 1 },
        }
    }

    /// An ordered fold along the block.
    #[inline(always)]
    unsafe fn tail(&mut self, tail: &TailCode) -> Result<(), TrapKind> {
        let lanes = self.lanes;
        // SAFETY: the caller vouches for the slots.
        unsafe {
            if tail.instructions.is_empty() {
                let accumulator = self.pointers[tail.accumulator as usize].cast::<f32>();
                let addends = lanes::read::<f32>(self.pointers[tail.addend as usize], lanes);
                *accumulator = addends.iter().fold(*accumulator, |sum, addend| sum + addend);
                return Ok(());
            }
            let axis = self.pointers[tail.axis as usize];
            let first = *axis;
            for lane in 0..lanes {
                self.lane = lane;
                *axis = first.wrapping_add(lane as u32);
                (self.interpret)(self, &tail.instructions)?;
            }
            *axis = first;
        }
        Ok(())
    }

    #[inline(always)]
    unsafe fn check(&mut self, check: &Check) -> Result<(), TrapKind> {
        let n = if check.vector { self.lanes } else { 1 };
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let word = |slot: Slot, lane: usize| *self.pointers[slot as usize].add(lane) as i32;
            let to = self.pointers[check.to as usize];
            for lane in 0..n {
                let value = word(check.value, lane);
                let (fits, harmless) = match check.rule {
                    CheckRule::Index { low, high, inclusive, .. } => {
                        let (low, high) = (word(low, lane), word(high, lane));
                        (value >= low && (value < high || (inclusive && value == high)), low)
                    }
                    CheckRule::Depth { .. } => (value <= self.here, -1),
                    CheckRule::NonZero => (value != 0, 1),
                    CheckRule::NonNegative => (value >= 0, 0),
                };
                if !fits && check.mask.is_none_or(|mask| word(mask, lane) != 0) {
                    return Err(self.failed(check, lane, value));
                }
                *to.add(lane) = if fits { value } else { harmless } as u32;
            }
        }
        Ok(())
    }

    #[cold]
    unsafe fn failed(&self, check: &Check, lane: usize, value: i32) -> TrapKind {
        // SAFETY: the caller vouches for the slots.
        let word = |slot: Slot| unsafe { *self.pointers[slot as usize].add(lane) as i32 as i64 };
        match check.rule {
            CheckRule::Index { read, axis, low, high, inclusive, id } => TrapKind::Index {
                what: read,
                axis,
                index: if id { i64::from(value as u32) } else { i64::from(value) },
                low: word(low),
                high: word(high) + i64::from(inclusive),
            },
            CheckRule::Depth { history } => {
                TrapKind::AboveHere { history, depth: value.into(), here: self.here }
            }
            CheckRule::NonZero => TrapKind::DivisionByZero,
            CheckRule::NonNegative => TrapKind::NegativeId(value),
        }
    }

    /// The scalar part of an address.
    #[inline(always)]
    pub(super) unsafe fn offset(&self, offset: &Offset) -> i64 {
        let mut sum = self.coefficients[offset.constant as usize];
        for &(coefficient, slot) in &offset.terms {
            // SAFETY: the terms of an address are scalars.
            let value = unsafe { *self.pointers[slot as usize] as i32 as i64 };
            sum += self.coefficients[coefficient as usize] * value;
        }
        sum
    }
}
