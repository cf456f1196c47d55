//! Snapshots of earlier paths, from which a later prompt may go on.

use fiddlehead_plan::Snapshot;

/// Snapshots with the tokens that led to them, within a budget of bytes; the one longest unused goes first.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    budget: usize,
    clock: u64,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    path: Vec<u32>,
    snapshot: Snapshot,
    used: u64,
}

impl PrefixCache {
    /// A budget of no bytes keeps nothing.
    pub(crate) fn new(budget: usize) -> PrefixCache {
        PrefixCache { budget, clock: 0, entries: Vec::new() }
    }

    /// Whether anything can be kept.
    pub(crate) fn is_enabled(&self) -> bool {
        self.budget > 0
    }

    /// The snapshot of the longest path that begins `prompt` and leaves at least one token of it to run (the logits
    /// come from running).
    pub(crate) fn longest(&mut self, prompt: &[u32]) -> Option<(&[u32], &Snapshot)> {
        self.clock += 1;
        let fits = |entry: &&mut Entry| entry.path.len() < prompt.len() && prompt.starts_with(&entry.path);
        let entry = self.entries.iter_mut().filter(fits).max_by_key(|entry| entry.path.len())?;
        entry.used = self.clock;
        Some((&entry.path, &entry.snapshot))
    }

    /// Keeps a snapshot.
    pub(crate) fn keep(&mut self, path: &[u32], snapshot: Snapshot) {
        self.clock += 1;
        self.entries.retain(|entry| entry.path != path);
        self.entries.push(Entry { path: path.to_vec(), snapshot, used: self.clock });
        while self.entries.iter().map(|entry| entry.snapshot.bytes).sum::<usize>() > self.budget {
            let oldest = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.used);
            let Some((index, _)) = oldest else { return };
            self.entries.swap_remove(index);
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn snapshot(bytes: usize) -> Snapshot {
        Snapshot { positions: vec![], bytes, content: Arc::new(()) }
    }

    #[test]
    fn the_longest_proper_prefix_is_found() {
        let mut cache = PrefixCache::new(100);
        for path in [&[1][..], &[1, 2], &[1, 2, 3], &[9, 9]] {
            cache.keep(path, snapshot(1));
        }
        let mut found = |prompt: &[u32]| cache.longest(prompt).map(|(path, _)| path.to_vec());
        assert_eq!(found(&[1, 2, 3, 4]), Some(vec![1, 2, 3]));
        assert_eq!(found(&[1, 2, 3]), Some(vec![1, 2]));
        assert_eq!(found(&[2, 3]), None);
    }

    #[test]
    fn the_budget_holds_and_the_longest_unused_goes_first() {
        let mut cache = PrefixCache::new(10);
        cache.keep(&[1], snapshot(4));
        cache.keep(&[2], snapshot(4));
        assert!(cache.longest(&[1, 0]).is_some());
        cache.keep(&[3], snapshot(4));
        assert!(cache.longest(&[2, 0]).is_none());
        assert!(cache.longest(&[1, 0]).is_some() && cache.longest(&[3, 0]).is_some());
        cache.keep(&[4], snapshot(11));
        assert!(cache.longest(&[4, 0]).is_none());
    }
}
