//! Loads and stores: the only instructions that touch what is not the thread's own.

use super::code::*;
use super::frame::TrapKind;
use super::frame::{Memory, Slot as FrameSlot};
use super::lanes;
use super::layout::{Format, Strides};
use super::machine::Machine;
use super::scratch::{Found, ZEROS};

/// A step known to the compiler becomes shuffles of whole vectors.
///
/// # Safety
/// `from` reaches `STEP * (to.len() - 1) + 1` words.
#[inline(always)]
unsafe fn strided<const STEP: usize>(from: *const u32, to: &mut [u32]) {
    let Some((last, to)) = to.split_last_mut() else { return };
    // SAFETY: the caller's; the last element stands apart, since words after it may not exist.
    unsafe {
        let groups = std::slice::from_raw_parts(from, STEP * to.len());
        for (to, group) in to.iter_mut().zip(groups.chunks_exact(STEP)) {
            *to = group[0];
        }
        *last = *from.add(STEP * to.len());
    }
}

impl Machine<'_> {
    /// # Safety
    /// The machine is set up; indices are in range, as the compiler proved or a check saw to.
    #[inline(always)]
    pub(super) unsafe fn load(&mut self, place: usize) -> Result<(), TrapKind> {
        let code = self.code;
        let load = &code.loads[place];
        let source = &code.sources[load.source];
        let to = self.pointers[load.to as usize];
        // SAFETY: the caller's.
        unsafe {
            let mut offset = self.offset(&load.offset);
            let (words, limit) = match load.depth {
                Some(depth) if depth.vector => return self.load_depths(place, depth, offset),
                Some(depth) => {
                    let at = *self.pointers[depth.slot as usize] as i32;
                    if at < 0 {
                        match load.pattern {
                            Pattern::One => *to = 0,
                            Pattern::Contiguous => {
                                self.pointers[load.to as usize] = ZEROS.0.as_ptr().cast_mut()
                            }
                            _ => lanes::write::<u32>(to, self.lanes).fill(0),
                        }
                        return Ok(());
                    }
                    (self.history(place, depth, at)?, usize::MAX)
                }
                None => {
                    let base = self.bases[load.source];
                    offset += base.shift;
                    if source.layout.format != Format::Words {
                        return self.load_weights(load, source.layout.format, offset);
                    }
                    (base.data.cast::<u32>(), base.elements)
                }
            };
            let local = source.layout.strides == Strides::Local;
            let n = self.lanes;
            let step = load.step.map_or(0, |step| self.coefficients[step as usize]);
            if local && load.pattern != Pattern::Gathered {
                // A local tensor's box is the executor's word; a wrong one must not become a wild read.
                let span = if load.pattern == Pattern::One { 0 } else { step * (n as i64 - 1) };
                let (first, last) = (offset.min(offset + span), offset.max(offset + span));
                if first < 0 || last >= limit as i64 {
                    if load.pattern == Pattern::One {
                        // An index that a false mask made harmless, in an empty box.
                        *to = 0;
                        return Ok(());
                    }
                    return Err(TrapKind::Slot(source.layout.slot));
                }
            }
            match load.pattern {
                Pattern::One => *to = *words.offset(offset as isize),
                Pattern::Contiguous => {
                    self.pointers[load.to as usize] = words.offset(offset as isize).cast_mut();
                }
                Pattern::Strided => {
                    let (from, to) = (words.offset(offset as isize), lanes::write::<u32>(to, n));
                    match step {
                        2 => strided::<2>(from, to),
                        3 => strided::<3>(from, to),
                        4 => strided::<4>(from, to),
                        8 => strided::<8>(from, to),
                        _ => {
                            for (lane, to) in to.iter_mut().enumerate() {
                                *to = *from.offset(step as isize * lane as isize);
                            }
                        }
                    }
                }
                Pattern::Gathered => {
                    let mut offsets = [0i64; BLOCK];
                    self.offsets(load, offset, &mut offsets);
                    let to = lanes::write::<u32>(to, n);
                    if local {
                        for (to, &offset) in to.iter_mut().zip(&offsets) {
                            *to = if (offset as u64) < limit as u64 {
                                *words.offset(offset as isize)
                            } else {
                                0
                            };
                        }
                    } else {
                        for (to, &offset) in to.iter_mut().zip(&offsets) {
                            *to = *words.offset(offset as isize);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Each lane's offset.
    #[inline(always)]
    unsafe fn offsets(&self, load: &Load, first: i64, offsets: &mut [i64; BLOCK]) {
        let step = load.step.map_or(0, |step| self.coefficients[step as usize]);
        for (lane, offset) in offsets[..self.lanes].iter_mut().enumerate() {
            *offset = first + step * lane as i64;
        }
        for &(coefficient, slot) in &load.vectors {
            let by = self.coefficients[coefficient as usize];
            // SAFETY: vector indices are vectors.
            let indices = unsafe { lanes::read::<i32>(self.pointers[slot as usize], self.lanes) };
            for (offset, &index) in offsets.iter_mut().zip(indices) {
                *offset += by * index as i64;
            }
        }
    }

    /// The row of a history at a depth from zero to here.
    #[inline(always)]
    unsafe fn history(&mut self, place: usize, depth: Depth, at: i32) -> Result<*const u32, TrapKind> {
        let found = self.found[place];
        let row = at as i64 - found.first;
        if row >= 0 && row < found.count {
            // SAFETY: `find` saw that `count` rows lie there.
            return Ok(unsafe { found.rows.add(row as usize * found.stride) });
        }
        self.find(place, depth, at)
    }

    #[cold]
    fn find(&mut self, place: usize, depth: Depth, at: i32) -> Result<*const u32, TrapKind> {
        let missing = TrapKind::NoHistory { history: depth.history, depth: at };
        let span = self.frame.histories.span(depth.history, self.row, at).ok_or(missing)?;
        let row = at as i64 - span.first as i64;
        let reach = self.code.sources[self.code.loads[place].source].reach();
        let last = (span.count.max(1) as usize - 1) * span.stride + reach;
        if row < 0 || row >= span.count as i64 || last > span.values.len() {
            return Err(missing);
        }
        let rows = span.values.as_ptr().cast::<u32>();
        self.found[place] =
            Found { first: span.first as i64, count: span.count as i64, stride: span.stride, rows };
        // SAFETY: `row` is one of the span's rows, all of which lie within `values`.
        Ok(unsafe { rows.add(row as usize * span.stride) })
    }

    /// A history read at another depth in each lane.
    unsafe fn load_depths(&mut self, place: usize, depth: Depth, offset: i64) -> Result<(), TrapKind> {
        let code = self.code;
        let load = &code.loads[place];
        let mut offsets = [0i64; BLOCK];
        // SAFETY: the caller's.
        unsafe {
            self.offsets(load, offset, &mut offsets);
            let to = self.pointers[load.to as usize];
            for (lane, &offset) in offsets[..self.lanes].iter().enumerate() {
                let at = *self.pointers[depth.slot as usize].add(lane) as i32;
                *to.add(lane) = match at {
                    ..0 => 0,
                    _ => *self.history(place, depth, at)?.offset(offset as isize),
                };
            }
        }
        Ok(())
    }

    /// Stored weights, widened to f32.
    unsafe fn load_weights(&mut self, load: &Load, format: Format, offset: i64) -> Result<(), TrapKind> {
        let n = if load.pattern == Pattern::One { 1 } else { self.lanes };
        // SAFETY: the caller's; bytes lie behind the base as the run's start checked.
        unsafe {
            let to = lanes::write::<f32>(self.pointers[load.to as usize], n);
            if format == Format::Blocks {
                return self.load_blocks(load, offset, to);
            }
            let bytes = self.bases[load.source].data;
            let bits = |offset: i64| bytes.offset(offset as isize * 2).cast::<u16>().read_unaligned();
            let widen = |bits: u16| match format {
                Format::F16 => half::f16::from_bits(bits).to_f32(),
                _ => f32::from_bits((bits as u32) << 16),
            };
            match load.pattern {
                Pattern::One => to[0] = widen(bits(offset)),
                Pattern::Contiguous => match format {
                    Format::F16 => {
                        for (lane, to) in to.iter_mut().enumerate() {
                            *to = widen(bits(offset + lane as i64));
                        }
                    }
                    _ => {
                        for (lane, to) in to.iter_mut().enumerate() {
                            *to = f32::from_bits((bits(offset + lane as i64) as u32) << 16);
                        }
                    }
                },
                Pattern::Strided | Pattern::Gathered => {
                    let mut offsets = [0i64; BLOCK];
                    self.offsets(load, offset, &mut offsets);
                    for (to, &offset) in to.iter_mut().zip(&offsets) {
                        *to = widen(bits(offset));
                    }
                }
            }
        }
        Ok(())
    }

    unsafe fn load_blocks(&self, load: &Load, offset: i64, to: &mut [f32]) -> Result<(), TrapKind> {
        let slot = self.code.sources[load.source].layout.slot;
        let Some(FrameSlot(Memory::Blocks { decode })) = self.frame.slots.get(slot) else {
            return Err(TrapKind::Slot(slot));
        };
        if matches!(load.pattern, Pattern::One | Pattern::Contiguous) {
            decode.decode(offset as usize, to);
            return Ok(());
        }
        let mut offsets = [0i64; BLOCK];
        // SAFETY: the caller's.
        unsafe { self.offsets(load, offset, &mut offsets) };
        for (to, &offset) in to.iter_mut().zip(&offsets) {
            decode.decode(offset as usize, std::slice::from_mut(to));
        }
        Ok(())
    }

    /// # Safety
    /// The machine is set up, and the output's row holds every point of the loops.
    #[inline(always)]
    pub(super) unsafe fn store(&mut self, store: &Store) -> Result<(), TrapKind> {
        let from = self.pointers[store.from as usize].cast_const();
        let output = self.bases[self.code.sources.len()];
        // SAFETY: the caller's.
        unsafe {
            let offset = self.offset(&store.offset) + output.shift;
            let n = if store.vector { self.lanes } else { 1 };
            let step = if store.contiguous {
                1
            } else {
                store.step.map_or(0, |step| self.coefficients[step as usize])
            };
            let span = step * (n as i64 - 1);
            let (first, last) = (offset.min(offset + span), offset.max(offset + span));
            if first < 0 || last >= output.elements as i64 {
                return Err(TrapKind::Slot(usize::MAX));
            }
            let to = output.data.cast::<u32>().cast_mut().offset(offset as isize);
            match (store.contiguous || !store.vector, store.spread) {
                (true, false) => std::ptr::copy_nonoverlapping(from, to, n),
                (true, true) => lanes::write::<u32>(to, n).fill(*from),
                (false, spread) => {
                    for lane in 0..n {
                        let word = *from.add(if spread { 0 } else { lane });
                        *to.offset(step as isize * lane as isize) = word;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes zeros wherever the run would write, when that is one stretch; false when it is not.
    pub(super) unsafe fn zero_output(&mut self) -> bool {
        let output = self.bases[self.code.sources.len()];
        let Some((stride, extent)) = self.code.dense else { return false };
        let (first, end) = self.outer.unwrap_or((0, extent));
        let (first, end) = (first * stride, end.min(extent) * stride);
        if first > end || end > output.elements {
            return false;
        }
        // SAFETY: within the output's row, which the caller vouches for.
        unsafe { std::ptr::write_bytes(output.data.cast::<u32>().cast_mut().add(first), 0, end - first) };
        true
    }
}
