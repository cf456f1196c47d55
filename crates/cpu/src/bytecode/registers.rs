//! Where slots lie: blocks that live only between two instructions of one list share storage, so that the registers of
//! a long expression stay in the first-level cache.

use super::code::*;
use super::emit::Size;
use super::merge::{for_each_read, written};

/// Places every slot in storage.
pub(super) fn allocate(code: &mut Code, sizes: &[Size]) {
    let mut lifetimes = vec![Lifetime::default(); sizes.len()];
    let lists = || code.levels.iter().flat_map(|level| [&level.before, &level.after]);
    for (list, instructions) in lists().enumerate() {
        for (at, instruction) in instructions.iter().enumerate() {
            if let Some(slot) = written(code, instruction) {
                lifetimes[slot as usize].touch(list, at);
            }
            for_each_read(code, instruction, &mut |slot| lifetimes[slot as usize].touch(list, at));
        }
    }
    let mut slots = vec![None; sizes.len()];
    let mut storage = 0;
    for (slot, size) in sizes.iter().enumerate() {
        if *size == Size::Scalar {
            slots[slot] = Some(storage);
            storage += 1;
        }
    }
    let mut storage = (storage as usize).next_multiple_of(16);
    let mut block = || {
        storage += BLOCK;
        (storage - BLOCK) as u32
    };
    let brief = |slot: usize| sizes[slot] == Size::Vector && lifetimes[slot].list.is_some();
    for (slot, size) in sizes.iter().enumerate() {
        if matches!(size, Size::Vector | Size::Kept) && !brief(slot) {
            slots[slot] = Some(block());
        }
    }
    let mut free: Vec<u32> = Vec::new();
    for (list, instructions) in lists().enumerate() {
        for (at, instruction) in instructions.iter().enumerate() {
            // The result is placed before the operands are let go: no instruction writes over what it reads.
            if let Some(slot) = written(code, instruction).map(|slot| slot as usize)
                && brief(slot)
                && slots[slot].is_none()
            {
                slots[slot] = Some(free.pop().unwrap_or_else(&mut block));
            }
            let mut release = |slot: usize| {
                if brief(slot) && lifetimes[slot].list == Some(list) && lifetimes[slot].last == at {
                    let place = slots[slot];
                    if let Some(place) = place.filter(|place| !free.contains(place)) {
                        free.push(place);
                    }
                }
            };
            for_each_read(code, instruction, &mut |slot| release(slot as usize));
            if let Some(slot) = written(code, instruction) {
                release(slot as usize);
            }
        }
    }
    code.slots = slots;
    code.storage = storage;
}

/// The one list that touches a slot, and its last place there.
#[derive(Clone, Copy, Default)]
struct Lifetime {
    list: Option<usize>,
    several: bool,
    last: usize,
}

impl Lifetime {
    fn touch(&mut self, list: usize, at: usize) {
        self.several |= self.list.is_some_and(|known| known != list);
        self.list = if self.several { None } else { Some(list) };
        self.last = at;
    }
}
