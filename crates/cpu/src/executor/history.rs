//! Histories of one session: rows in pages, shared with snapshots until they are written.

use std::collections::VecDeque;
use std::sync::Arc;

use super::memory::Words;

/// Rows of a page of a history that is kept whole.
const PAGE_ROWS: usize = 64;

fn rows_of_page(reach: Option<usize>) -> usize {
    reach.map_or(PAGE_ROWS, |reach| reach.next_power_of_two().clamp(16, PAGE_ROWS))
}

/// One history of one session. The committed rows lie at their depths; the rows of a pending segment lie after them in
/// the segment's order, so that a chain's rows lie at their depths too.
#[derive(Clone, Debug)]
pub(super) struct History {
    row_words: usize,
    page_rows: usize,
    /// How many rows a read reaches back, the node's own included; all of them when absent.
    reach: Option<usize>,
    first_page: usize,
    pages: VecDeque<Arc<Words>>,
    /// A page that fell out of reach, for the next one needed.
    spare: Option<Arc<Words>>,
}

impl History {
    pub(super) fn new(row_words: usize, reach: Option<usize>) -> History {
        let page_rows = rows_of_page(reach);
        History { row_words, page_rows, reach, first_page: 0, pages: VecDeque::new(), spare: None }
    }

    /// Bytes that it takes at most in a session of `context` nodes that come at most `rows` at a time.
    pub(super) fn estimate(row_words: usize, reach: Option<usize>, context: usize, rows: usize) -> usize {
        let page_rows = rows_of_page(reach);
        let whole = context.div_ceil(page_rows);
        let pages = match reach {
            None => whole,
            // Pages of what is in reach, of what comes, a part of one at either end, and a spare one.
            Some(reach) => whole.min(reach.saturating_add(rows).div_ceil(page_rows) + 1) + 1,
        };
        pages.saturating_mul(page_rows).saturating_mul(row_words).saturating_mul(4)
    }

    /// Makes the rows `base .. base + count` writable: pages exist and no snapshot shares them.
    pub(super) fn prepare(&mut self, base: usize, count: usize) {
        let last = (base + count.max(1) - 1) / self.page_rows;
        if self.pages.is_empty() {
            self.first_page = base / self.page_rows;
        }
        while self.first_page + self.pages.len() <= last {
            let spare = self.spare.take().filter(|page| Arc::strong_count(page) == 1);
            let fresh = || Arc::new(Words::zeroed(self.page_rows * self.row_words));
            self.pages.push_back(spare.unwrap_or_else(fresh));
        }
        for page in (base / self.page_rows).max(self.first_page)..=last {
            Arc::make_mut(&mut self.pages[page - self.first_page]);
        }
    }

    pub(super) fn row_words(&self) -> usize {
        self.row_words
    }
    pub(super) fn page_rows(&self) -> usize {
        self.page_rows
    }
    pub(super) fn first_page(&self) -> usize {
        self.first_page
    }

    /// Addresses of the pages, from [`History::first_page`] on. Only the pages that [`History::prepare`] made writable
    /// may be written through them.
    pub(super) fn addresses(&self) -> impl Iterator<Item = *mut u32> + '_ {
        self.pages.iter().map(|page| page.as_ptr().cast_mut())
    }

    fn row(&self, place: usize) -> Option<(usize, usize)> {
        let page = (place / self.page_rows).checked_sub(self.first_page)?;
        (page < self.pages.len()).then_some((page, place % self.page_rows * self.row_words))
    }

    /// Copies the row at one place over that at another.
    pub(super) fn move_row(&mut self, from: usize, to: usize) {
        let (Some((from_page, from)), Some((to_page, to))) = (self.row(from), self.row(to)) else { return };
        let words = self.row_words;
        if from_page == to_page {
            let page = Arc::make_mut(&mut self.pages[to_page]).as_mut_slice();
            page.copy_within(from..from + words, to);
        } else {
            let source = Arc::clone(&self.pages[from_page]);
            let page = Arc::make_mut(&mut self.pages[to_page]).as_mut_slice();
            page[to..to + words].copy_from_slice(&source.as_slice()[from..from + words]);
        }
    }

    /// Drops pages that no node from depth `position` on can read.
    pub(super) fn retire(&mut self, position: usize) {
        let Some(reach) = self.reach else { return };
        let oldest = (position + 1).saturating_sub(reach);
        while (self.first_page + 1) * self.page_rows <= oldest && self.pages.len() > 1 {
            self.spare = self.pages.pop_front();
            self.first_page += 1;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.pages.iter().map(|page| page.bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(history: &mut History, place: usize, value: u32) {
        history.prepare(place, 1);
        let (page, at) = history.row(place).expect("prepared");
        Arc::make_mut(&mut history.pages[page]).as_mut_slice()[at] = value;
    }
    fn read(history: &History, place: usize) -> Option<u32> {
        history.row(place).map(|(page, at)| history.pages[page].as_slice()[at])
    }

    #[test]
    fn a_snapshot_keeps_its_rows_when_the_session_goes_on() {
        let mut history = History::new(3, None);
        (0..100).for_each(|place| write(&mut history, place, place as u32));
        let snapshot = history.clone();
        history.move_row(99, 70);
        write(&mut history, 99, 7);
        assert_eq!((read(&history, 70), read(&history, 99)), (Some(99), Some(7)));
        assert_eq!((read(&snapshot, 70), read(&snapshot, 99)), (Some(70), Some(99)));
        assert!(Arc::ptr_eq(&snapshot.pages[0], &history.pages[0]));
    }

    #[test]
    fn a_tail_keeps_its_reach_and_no_more() {
        let mut history = History::new(1, Some(4));
        for place in 0..1000usize {
            write(&mut history, place, place as u32);
            history.retire(place + 1);
            for back in 0..3.min(place + 1) {
                assert_eq!(read(&history, place - back), Some((place - back) as u32));
            }
            assert!(history.pages.len() <= 2);
        }
    }
}
