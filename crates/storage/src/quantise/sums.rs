//! Sums over a block, in lanes side by side, which is what lets the compiler use vector instructions.

const LANES: usize = 8;

/// For each of several terms its sum over all values. `N` is a multiple of 8.
#[inline(always)]
pub(super) fn sums<const N: usize, const TERMS: usize>(
    values: &[f32; N],
    terms: impl Fn(f32) -> [f32; TERMS],
) -> [f32; TERMS] {
    let mut lanes = [[0.0f32; LANES]; TERMS];
    for values in values.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            let terms = terms(values[lane]);
            for (sum, term) in lanes.iter_mut().zip(terms) {
                sum[lane] += term;
            }
        }
    }
    lanes.map(|lanes| lanes.iter().sum())
}
