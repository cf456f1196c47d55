//! Regimes: the sizes of batch that a plan is made for.
//!
//! A plan's buffers take the greatest size of its regime, so that every batch of the regime runs without planning or
//! allocating again. Real counts are arguments of each run.

/// Rows that buffers of the smallest tier hold.
pub const SMALLEST_TIER: usize = 8;

/// The tier of a number of rows: 0, 8, 16, 32, 64, then doubling. At least `rows`.
pub fn tier(rows: usize) -> usize {
    match rows {
        0 => 0,
        rows => rows.max(SMALLEST_TIER).next_power_of_two(),
    }
}

/// What a plan is made for: the tier of each set of rows that the graph keeps apart, all rows first, then one for each
/// combination of wanted outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Regime {
    /// Tiers of the sets, in the order of the plan's sets.
    pub tiers: Vec<usize>,
}

impl Regime {
    /// The regime of a batch whose sets have that many rows.
    pub fn of(rows: impl IntoIterator<Item = usize>) -> Regime {
        Regime { tiers: rows.into_iter().map(tier).collect() }
    }
}

impl std::fmt::Display for Regime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.tiers.split_first() {
            None => f.write_str("one evaluation"),
            Some((all, [])) => write!(f, "up to {all} rows"),
            Some((all, wanted)) => write!(f, "up to {all} rows, {wanted:?} wanted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_hold_their_rows() {
        let expected =
            [(0, 0), (1, 8), (8, 8), (9, 16), (17, 32), (64, 64), (65, 128), (512, 512), (513, 1024)];
        for (rows, tier_of_rows) in expected {
            assert_eq!(tier(rows), tier_of_rows);
        }
        assert_eq!(Regime::of([300, 1]).tiers, [512, 8]);
    }
}
