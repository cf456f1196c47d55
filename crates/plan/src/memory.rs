//! The memory plan: buffers with known lifetimes laid out in one arena, sharing bytes when their lives do not meet.

/// Every buffer starts at a multiple of this many bytes: a cache line, and the widest vector.
pub const ALIGNMENT: usize = 64;

/// One buffer's size and life, in steps of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Its size in bytes.
    pub bytes: usize,
    /// The step that writes it first.
    pub first: usize,
    /// The last step that touches it; at least `first`.
    pub last: usize,
}

impl Lifetime {
    fn meets(&self, other: &Lifetime) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Where each buffer lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Offsets in bytes, one for each lifetime given.
    pub offsets: Vec<usize>,
    /// Bytes of the arena.
    pub bytes: usize,
    /// Bytes it would take without sharing.
    pub unshared: usize,
}

/// Lays out buffers, the largest first, each at the lowest offset where it fits beside those it meets in time.
pub fn place(lifetimes: &[Lifetime]) -> MemoryPlan {
    let size = |index: usize| lifetimes[index].bytes.next_multiple_of(ALIGNMENT);
    let mut order: Vec<usize> = (0..lifetimes.len()).collect();
    order.sort_by_key(|&index| (std::cmp::Reverse(lifetimes[index].bytes), lifetimes[index].first, index));
    let mut plan = MemoryPlan { offsets: vec![0; lifetimes.len()], ..MemoryPlan::default() };
    // Placed buffers in the order of their offsets, so that one pass finds the lowest gap.
    let mut placed: Vec<usize> = Vec::with_capacity(order.len());
    for index in order {
        plan.unshared += size(index);
        let mut offset = 0;
        for &other in placed.iter().filter(|&&other| lifetimes[other].meets(&lifetimes[index])) {
            if plan.offsets[other] >= offset + size(index) {
                break;
            }
            offset = offset.max(plan.offsets[other] + size(other));
        }
        plan.offsets[index] = offset;
        plan.bytes = plan.bytes.max(offset + size(index));
        let at = placed.partition_point(|&other| plan.offsets[other] <= offset);
        placed.insert(at, index);
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use fiddlehead_forest::shapes::SplitMix;

    #[test]
    fn buffers_that_meet_in_time_never_meet_in_space() {
        for seed in 0..50 {
            let mut random = SplitMix::new(seed);
            let lifetimes: Vec<Lifetime> = (0..60)
                .map(|_| {
                    let first = random.below(40);
                    Lifetime { bytes: random.below(5000), first, last: first + random.below(6) }
                })
                .collect();
            let plan = place(&lifetimes);
            let mut busiest = 0;
            for step in 0..50 {
                let alive = lifetimes.iter().filter(|life| life.first <= step && step <= life.last);
                busiest = busiest.max(alive.map(|life| life.bytes.next_multiple_of(ALIGNMENT)).sum());
            }
            assert!(busiest <= plan.bytes && plan.bytes <= plan.unshared);
            for (a, life) in lifetimes.iter().enumerate() {
                assert_eq!(plan.offsets[a] % ALIGNMENT, 0);
                assert!(plan.offsets[a] + life.bytes <= plan.bytes);
                for (b, other) in lifetimes.iter().enumerate().skip(a + 1) {
                    let apart = plan.offsets[a] + life.bytes <= plan.offsets[b]
                        || plan.offsets[b] + other.bytes <= plan.offsets[a];
                    assert!(apart || !life.meets(other), "{a} and {b}, seed {seed}");
                }
            }
        }
    }

    #[test]
    fn a_chain_of_equal_buffers_needs_two() {
        let lifetimes: Vec<Lifetime> =
            (0..10).map(|step| Lifetime { bytes: 640, first: step, last: step + 1 }).collect();
        let plan = place(&lifetimes);
        assert_eq!((plan.bytes, plan.unshared), (1280, 6400));
    }
}
