//! The device's memory, kept and handed out again: a run takes and gives back without asking the driver.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::error::CudaError;
use crate::runtime::Runtime;

/// Blocks of at most so many bytes are cut from larger ones: a path that begins a new page in each of its histories would
/// ask the driver as often otherwise.
const SMALL: usize = 1 << 20;
/// The most bytes that are taken at once to be cut.
const MOST_AT_ONCE: usize = 16 << 20;

/// Memory of a runtime.
pub(crate) struct Pool {
    pub runtime: Arc<dyn Runtime>,
    kept: Mutex<HashMap<usize, Kept>>,
}

/// Blocks of one size.
#[derive(Default)]
struct Kept {
    free: Vec<u64>,
    /// What the driver gave: where it begins and how many blocks it holds.
    taken: Vec<(u64, usize)>,
}

impl Kept {
    /// How many blocks are worth taking at once: as many as there are, so that the driver is asked ever more rarely.
    fn more(&self, bytes: usize) -> usize {
        let there: usize = self.taken.iter().map(|(_, blocks)| blocks).sum();
        if bytes <= SMALL { there.clamp(1, (MOST_AT_ONCE / bytes).max(1)) } else { 1 }
    }

    fn add(&mut self, address: u64, blocks: usize, bytes: usize) {
        self.taken.push((address, blocks));
        self.free.extend((0..blocks).rev().map(|block| address + (block * bytes) as u64));
    }

    /// Takes out what is free as a whole.
    fn unused(&mut self, bytes: usize) -> Vec<u64> {
        let (free, mut unused) = (&mut self.free, Vec::new());
        self.taken.retain(|&(address, blocks)| {
            let within = |block: &u64| (address..address + (blocks * bytes) as u64).contains(block);
            if free.iter().filter(|block| within(block)).count() < blocks {
                return true;
            }
            free.retain(|block| !within(block));
            unused.push(address);
            false
        });
        unused
    }
}

/// Memory that goes back to its pool when dropped.
pub(crate) struct Block {
    pool: Arc<Pool>,
    pub address: u64,
    pub bytes: usize,
}

impl Pool {
    pub fn new(runtime: Arc<dyn Runtime>) -> Arc<Pool> {
        Arc::new(Pool { runtime, kept: Mutex::new(HashMap::new()) })
    }

    /// Memory for at least so many bytes.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Result<Block, CudaError> {
        let bytes = match bytes {
            0..=256 => 256,
            small if small <= SMALL => small.next_power_of_two(),
            large => large.next_multiple_of(1 << 20),
        };
        let more = {
            let mut kept = self.lock();
            let kept = kept.entry(bytes).or_default();
            if let Some(address) = kept.free.pop() {
                return Ok(Block { pool: Arc::clone(self), address, bytes });
            }
            kept.more(bytes)
        };
        let (address, blocks) = self.ask(bytes, more)?;
        let mut kept = self.lock();
        let kept = kept.entry(bytes).or_default();
        kept.add(address, blocks, bytes);
        let address = kept.free.pop().unwrap_or(address);
        Ok(Block { pool: Arc::clone(self), address, bytes })
    }

    /// The address of a block of at least so many bytes in `place`: the one that is there, or another.
    pub fn reserve(self: &Arc<Self>, place: &mut Option<Block>, bytes: usize) -> Result<u64, CudaError> {
        if let Some(block) = place.as_ref().filter(|block| block.bytes >= bytes) {
            return Ok(block.address);
        }
        // Given back first, so that it may be part of what is taken.
        *place = None;
        Ok(place.insert(self.take(bytes)?).address)
    }

    /// Memory of the driver for so many blocks, or for one where there is no room for all of them, also after what is free
    /// was given back.
    fn ask(&self, bytes: usize, more: usize) -> Result<(u64, usize), CudaError> {
        let full = |taken: &Result<u64, CudaError>| matches!(taken, Err(CudaError::OutOfMemory { .. }));
        let (mut taken, mut blocks) = (self.runtime.allocate(more * bytes), more);
        if full(&taken) && more > 1 {
            (taken, blocks) = (self.runtime.allocate(bytes), 1);
        }
        if full(&taken) && self.release() {
            (taken, blocks) = (self.runtime.allocate(bytes), 1);
        }
        Ok((taken?, blocks))
    }

    /// Gives what is free back to the driver; whether there was anything.
    fn release(&self) -> bool {
        let unused: Vec<u64> = self.lock().iter_mut().flat_map(|(&bytes, kept)| kept.unused(bytes)).collect();
        unused.iter().for_each(|&address| self.runtime.free(address));
        !unused.is_empty()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<usize, Kept>> {
        self.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.release();
    }
}

impl Block {
    /// Another block with the same bytes.
    pub fn duplicate(&self) -> Result<Block, CudaError> {
        let copy = self.pool.take(self.bytes)?;
        self.pool.runtime.copy(copy.address, self.address, self.bytes)?;
        Ok(copy)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.pool.lock().entry(self.bytes).or_default().free.push(self.address);
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes at {:#x}", self.bytes, self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::Emulator;

    #[test]
    fn blocks_are_cut_from_ever_larger_pieces_and_given_back_whole() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let Some(emulator) = Emulator::new(folder.path()) else { return };
        let pool = Pool::new(Arc::new(emulator));
        let blocks: Vec<Block> = (0..20).map(|_| pool.take(1000).expect("memory")).collect();
        let addresses = |blocks: &[Block]| {
            let mut addresses: Vec<u64> = blocks.iter().map(|block| block.address).collect();
            addresses.sort_unstable();
            addresses
        };
        let places = addresses(&blocks);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 1024), "they do not overlap");
        let asked = |pool: &Pool| pool.lock()[&1024].taken.clone();
        assert_eq!(asked(&pool).iter().map(|(_, blocks)| *blocks).collect::<Vec<_>>(), [1, 1, 2, 4, 8, 16]);
        // One block that is held keeps its whole piece; every other piece goes back.
        let mut blocks = blocks;
        let held = blocks.pop();
        drop(blocks);
        assert!(pool.release());
        assert_eq!(asked(&pool).len(), 1);
        assert_eq!(asked(&pool)[0].1, 16);
        drop(held);
        assert!(pool.release() && !pool.release() && asked(&pool).is_empty());
        // Large blocks are asked for one by one.
        let large: Vec<Block> = (0..3).map(|_| pool.take(3 << 20).expect("memory")).collect();
        assert_eq!(pool.lock()[&(3 << 20)].taken.len(), large.len());
    }
}
