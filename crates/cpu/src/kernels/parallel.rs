//! One output filled by several threads, each its own part.

use super::views::OutputRows;
use crate::pool::Pool;
use std::ops::Range;

/// Calls `function(columns, part, thread)` for ranges of `grain` columns of `output`, all rows, spread over the pool.
///
/// # Panics
/// When `function` does.
pub fn by_columns(
    pool: &Pool,
    output: &mut OutputRows<'_>,
    grain: usize,
    function: impl Fn(Range<usize>, &mut OutputRows<'_>, usize) + Sync,
) {
    let (rows, columns) = (output.rows(), output.columns());
    let output = &*output;
    pool.run_ranges(columns, grain, |columns, thread| {
        // SAFETY: ranges are disjoint, so no element is reached by two tasks, and nothing else uses the borrow meanwhile.
        let mut output = unsafe { output.alias() };
        let mut part = output.part(0..rows, columns.clone());
        function(columns, &mut part, thread);
    });
}

/// Calls `function(rows, part, thread)` for ranges of `grain` rows of `output`, all columns, spread over the pool.
///
/// # Panics
/// When `function` does.
pub fn by_rows(
    pool: &Pool,
    output: &mut OutputRows<'_>,
    grain: usize,
    function: impl Fn(Range<usize>, &mut OutputRows<'_>, usize) + Sync,
) {
    let (rows, columns) = (output.rows(), output.columns());
    let output = &*output;
    pool.run_ranges(rows, grain, |rows, thread| {
        // SAFETY: as in `by_columns`.
        let mut output = unsafe { output.alias() };
        let mut part = output.part(rows.clone(), 0..columns);
        function(rows, &mut part, thread);
    });
}

/// One value for each thread of a region, reached by thread index.
pub struct PerThread<'a, T> {
    values: *mut T,
    count: usize,
    storage: std::marker::PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for an exclusive borrow of the values; `get` is unsafe and asks for one user at a time.
unsafe impl<T: Send> Sync for PerThread<'_, T> {}

impl<'a, T> PerThread<'a, T> {
    /// Lends `values` to the threads of a region.
    pub fn new(values: &'a mut [T]) -> Self {
        Self { values: values.as_mut_ptr(), count: values.len(), storage: std::marker::PhantomData }
    }

    /// The value of `thread`.
    ///
    /// # Safety
    /// No two users at one time may pass the same `thread`: the index that [`Pool::run`] gives a task will do.
    ///
    /// # Panics
    /// When there is no value for `thread`.
    #[expect(clippy::mut_from_ref, reason = "each thread index stands for its own element")]
    pub unsafe fn get(&self, thread: usize) -> &mut T {
        assert!(thread < self.count, "no value for thread {thread} of {}", self.count);
        // SAFETY: inside the slice, and the caller vouches for exclusive use.
        unsafe { &mut *self.values.add(thread) }
    }
}
