//! Forests for tests and benchmarks: chains, stars, combs and random trees, from a seed alone.
//!
//! A tree is a list of parents that count from its first node, in depth-first order, as
//! [`ForestBuilder::tree`] takes it.

use crate::{Class, Forest, ForestBuilder, ForestError, SessionId, Wanted};

/// SplitMix64 (Steele, Lea and Flood, 2014): a small generator whose streams are the same on every machine.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// The generator of one seed.
    pub fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// An integer of `0..bound`, zero when `bound` is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        ((self.next_u64() as u128 * bound as u128) >> 64) as usize
    }

    /// True once in `count` times, never when `count` is zero.
    pub fn one_in(&mut self, count: usize) -> bool {
        count > 0 && self.below(count) == 0
    }

    /// A number of `[-1, 1)` with 24 random bits, exact in f32.
    pub fn signed_unit(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// `count` nodes, each the child of the one before.
pub fn chain(count: usize) -> Vec<Option<u32>> {
    (0..count as u32).map(|node| node.checked_sub(1)).collect()
}

/// A root and `count - 1` children of it.
pub fn star(count: usize) -> Vec<Option<u32>> {
    (0..count).map(|node| (node > 0).then_some(0)).collect()
}

/// A spine on which every node carries one leaf before the spine goes on: leaves at every depth.
pub fn comb(count: usize) -> Vec<Option<u32>> {
    let spine = |node: u32| node - node % 2;
    (0..count as u32)
        .map(|node| match node {
            0 => None,
            leaf if leaf % 2 == 1 => Some(leaf - 1),
            node => Some(spine(node - 1)),
        })
        .collect()
}

/// A random tree with one root. It is deep and wide by turns: each node hangs from a random node of the path
/// to its predecessor, the predecessor itself half of the time.
pub fn random_tree(random: &mut SplitMix, count: usize) -> Vec<Option<u32>> {
    let mut open: Vec<u32> = Vec::new();
    let mut parents = Vec::with_capacity(count);
    for node in 0..count as u32 {
        if !open.is_empty() && random.one_in(2) {
            open.truncate(1 + random.below(open.len()));
        }
        parents.push(open.last().copied());
        open.push(node);
    }
    parents
}

/// A tree of `count` nodes of a random kind: chain, star, comb, random, or several roots.
pub fn random_shape(random: &mut SplitMix, count: usize) -> Vec<Option<u32>> {
    match random.below(5) {
        0 => chain(count),
        1 => star(count),
        2 => comb(count),
        3 => random_tree(random, count),
        _ => {
            let split = random.below(count + 1);
            let mut parents = random_tree(random, split);
            let rest = random_tree(random, count - split);
            parents.extend(rest.iter().map(|parent| parent.map(|parent| parent + split as u32)));
            parents
        }
    }
}

/// One session's tree, class [`Class::Generated`], everything wanted.
///
/// # Errors
/// `parents` is empty, not in depth-first order, or a limit is passed.
pub fn single_tree(session: SessionId, base: usize, parents: &[Option<u32>]) -> Result<Forest, ForestError> {
    let mut builder = ForestBuilder::new();
    builder.segment(session, base)?.tree(parents, Class::Generated, Wanted::ALL)?;
    builder.build()
}

/// A forest over the given sessions and their committed lengths: each gets a segment of one to `most` nodes
/// of a random shape and class, and each node wants all, none or one of two outputs.
///
/// # Errors
/// `most` is zero, a session is named twice, or a limit is passed.
pub fn random_forest(
    random: &mut SplitMix,
    sessions: &[(SessionId, usize)],
    most: usize,
) -> Result<Forest, ForestError> {
    let mut builder = ForestBuilder::new();
    for &(session, base) in sessions {
        builder.segment(session, base)?;
        let first = builder.len() as u32;
        let count = if random.one_in(4) { most.min(1) } else { most.min(1 + random.below(most)) };
        let class = if random.one_in(2) { Class::Prompt } else { Class::Generated };
        for parent in random_shape(random, count) {
            let wanted =
                [Wanted::ALL, Wanted::NONE, Wanted::from_bits(1), Wanted::from_bits(2)][random.below(4)];
            builder.node(parent.map(|parent| first + parent), class, wanted)?;
        }
    }
    builder.build()
}
