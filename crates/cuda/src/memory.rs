//! The device's memory, kept and handed out again: a run takes and gives back without asking the driver.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::error::CudaError;
use crate::runtime::Runtime;

/// Memory of a runtime.
pub(crate) struct Pool {
    pub runtime: Arc<dyn Runtime>,
    free: Mutex<HashMap<usize, Vec<u64>>>,
}

/// Memory that goes back to its pool when dropped.
pub(crate) struct Block {
    pool: Arc<Pool>,
    pub address: u64,
    pub bytes: usize,
}

impl Pool {
    pub fn new(runtime: Arc<dyn Runtime>) -> Arc<Pool> {
        Arc::new(Pool { runtime, free: Mutex::new(HashMap::new()) })
    }

    /// Memory for at least so many bytes.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Result<Block, CudaError> {
        let bytes = match bytes {
            0..=256 => 256,
            small if small <= 1 << 20 => small.next_power_of_two(),
            large => large.next_multiple_of(1 << 20),
        };
        let kept = self.lock().get_mut(&bytes).and_then(Vec::pop);
        let address = match kept {
            Some(address) => address,
            None => match self.runtime.allocate(bytes) {
                Err(CudaError::OutOfMemory { .. }) if self.release() => self.runtime.allocate(bytes)?,
                other => other?,
            },
        };
        Ok(Block { pool: Arc::clone(self), address, bytes })
    }

    /// Gives what is free back to the driver; whether there was anything.
    fn release(&self) -> bool {
        let free: Vec<u64> = self.lock().drain().flat_map(|(_, addresses)| addresses).collect();
        free.iter().for_each(|&address| self.runtime.free(address));
        !free.is_empty()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<usize, Vec<u64>>> {
        self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
        self.pool.lock().entry(self.bytes).or_default().push(self.address);
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes at {:#x}", self.bytes, self.address)
    }
}
