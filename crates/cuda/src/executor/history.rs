//! Histories of one session: rows in pages of device memory, shared with snapshots until they are written.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::CudaError;
use crate::memory::{Block, Pool};

/// Rows of a page of a history that is kept whole.
const PAGE_ROWS: usize = 64;

/// One history of one session. The committed rows lie at their depths; the rows of a pending segment lie after them in
/// the segment's order, so that a chain's rows lie at their depths too.
#[derive(Clone, Debug)]
pub(super) struct History {
    row_bytes: usize,
    page_rows: usize,
    /// How many rows a read reaches back, the node's own included; all of them when absent.
    reach: Option<usize>,
    first_page: usize,
    pages: VecDeque<Arc<Block>>,
}

impl History {
    pub(super) fn new(row_words: usize, reach: Option<usize>) -> History {
        let page_rows = match reach {
            None => PAGE_ROWS,
            Some(reach) => reach.next_power_of_two().clamp(16, PAGE_ROWS),
        };
        History { row_bytes: row_words * 4, page_rows, reach, first_page: 0, pages: VecDeque::new() }
    }

    /// Makes the rows `base .. base + count` writable: pages exist and no snapshot shares them.
    pub(super) fn prepare(&mut self, pool: &Arc<Pool>, base: usize, count: usize) -> Result<(), CudaError> {
        let last = (base + count.max(1) - 1) / self.page_rows;
        if self.pages.is_empty() {
            self.first_page = base / self.page_rows;
        }
        while self.first_page + self.pages.len() <= last {
            self.pages.push_back(Arc::new(pool.take(self.page_rows * self.row_bytes)?));
        }
        for page in (base / self.page_rows).max(self.first_page)..=last {
            writable(&mut self.pages[page - self.first_page])?;
        }
        Ok(())
    }

    pub(super) fn page_rows(&self) -> usize {
        self.page_rows
    }
    pub(super) fn first_page(&self) -> usize {
        self.first_page
    }
    /// Addresses of the pages, from [`History::first_page`] on.
    pub(super) fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.pages.iter().map(|page| page.address)
    }

    fn row(&self, place: usize) -> Option<(usize, u64)> {
        let page = (place / self.page_rows).checked_sub(self.first_page)?;
        (page < self.pages.len()).then_some((page, (place % self.page_rows * self.row_bytes) as u64))
    }

    /// Copies the row at one place over that at another.
    pub(super) fn move_row(&mut self, pool: &Pool, from: usize, to: usize) -> Result<(), CudaError> {
        let (Some((from_page, from)), Some((to_page, to))) = (self.row(from), self.row(to)) else {
            return Ok(());
        };
        writable(&mut self.pages[to_page])?;
        let (from, to) = (self.pages[from_page].address + from, self.pages[to_page].address + to);
        pool.runtime.copy(to, from, self.row_bytes)
    }

    /// Drops pages that no node from depth `position` on can read.
    pub(super) fn retire(&mut self, position: usize) {
        let Some(reach) = self.reach else { return };
        let oldest = (position + 1).saturating_sub(reach);
        while (self.first_page + 1) * self.page_rows <= oldest && self.pages.len() > 1 {
            self.pages.pop_front();
            self.first_page += 1;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.pages.iter().map(|page| page.bytes).sum()
    }
}

/// Makes a block one's own before it is written.
fn writable(page: &mut Arc<Block>) -> Result<(), CudaError> {
    if Arc::get_mut(page).is_none() {
        *page = Arc::new(page.duplicate()?);
    }
    Ok(())
}
