//! What each thread has to itself.

use std::cell::UnsafeCell;

use super::served::attend::AttendScratch;
use super::served::contract::ContractScratch;
use super::served::delta::DeltaScratch;
use super::served::gathered::GatheredScratch;
use crate::bytecode::Scratch;
use crate::kernels::strided::StridedScratch;

/// Scratch space of one thread.
#[derive(Default)]
pub(super) struct ThreadScratch {
    pub bytecode: Scratch,
    pub gathered: GatheredScratch,
    pub contraction: ContractScratch,
    pub strided: StridedScratch,
    pub attention: AttendScratch,
    pub delta: DeltaScratch,
}

/// One value for each thread, reached by the thread's index in the pool.
pub(super) struct PerThread<T>(Box<[UnsafeCell<T>]>);

// SAFETY: `get` is unsafe and says that no two threads use one index at a time.
unsafe impl<T: Send> Sync for PerThread<T> {}

impl<T: Default> PerThread<T> {
    pub(super) fn new(threads: usize) -> Self {
        PerThread((0..threads.max(1)).map(|_| UnsafeCell::default()).collect())
    }

    /// # Safety
    /// While the result lives nobody else calls this with the same index: as the pool promises of a task's thread.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn get(&self, thread: usize) -> &mut T {
        // SAFETY: the caller is the only user of this index.
        unsafe { &mut *self.0[thread].get() }
    }
}

impl<T> std::fmt::Debug for PerThread<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PerThread({})", self.0.len())
    }
}
