//! Attention against a float64 softmax, and the rule that a row's bits depend on its own path alone.

mod support;

use fiddlehead_cpu::features::Isa;
use fiddlehead_cpu::kernels::attention::*;
use fiddlehead_cpu::kernels::views::OutputRows;
use support::{Random, bits, errors, families};

struct Case {
    heads: usize,
    key_dim: usize,
    value_dim: usize,
    depth: usize,
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Case {
    fn new(random: &mut Random, heads: usize, key_dim: usize, value_dim: usize, depth: usize) -> Self {
        Self {
            heads,
            key_dim,
            value_dim,
            depth,
            queries: random.normals(depth * heads * key_dim, 2.0),
            keys: random.normals(depth * key_dim, 1.0),
            values: random.normals(depth * value_dim, 1.0),
        }
    }

    fn whole(&self) -> [HistoryPiece<'_>; 1] {
        [HistoryPiece {
            keys: &self.keys,
            key_stride: self.key_dim,
            values: &self.values,
            value_stride: self.value_dim,
            rows: PieceRows::Run { first: 0, count: self.depth },
        }]
    }

    /// Rows `rows` as a chain over `history`, which begins at `first_key_depth`.
    fn run(
        &self,
        isa: Isa,
        rows: std::ops::Range<usize>,
        history: &[HistoryPiece<'_>],
        first_key_depth: usize,
        options: &Options<'_>,
    ) -> Vec<f32> {
        let width = self.heads * self.value_dim;
        let mut outputs = vec![f32::NAN; rows.len() * width];
        let row_stride = self.heads * self.key_dim;
        let arguments = AttentionArguments {
            queries: &self.queries[rows.start * row_stride..],
            query_rows: rows.len(),
            query_row_stride: row_stride,
            heads: self.heads,
            query_head_stride: self.key_dim,
            key_dim: self.key_dim,
            value_dim: self.value_dim,
            history,
            first_key_depth,
            first_query_depth: rows.start,
            window: options.window,
            transform: options.transform,
            sinks: options.sinks,
        };
        let mut view = OutputRows::new(&mut outputs, rows.len(), width, width).unwrap();
        attend(isa, &arguments, &mut view);
        outputs
    }

    fn exact(&self, options: &Options<'_>, score: impl Fn(usize, usize, f64) -> f64) -> Vec<f64> {
        let mut outputs = Vec::new();
        for row in 0..self.depth {
            for head in 0..self.heads {
                let query = &self.queries[(row * self.heads + head) * self.key_dim..][..self.key_dim];
                let lowest = options.window.map_or(0, |window| (row + 1).saturating_sub(window));
                let weights: Vec<f64> = (lowest..=row)
                    .map(|depth| {
                        let key = &self.keys[depth * self.key_dim..][..self.key_dim];
                        let dot = query.iter().zip(key).map(|(q, k)| *q as f64 * *k as f64).sum();
                        score(head, depth, dot).exp()
                    })
                    .collect();
                let sink = options.sinks.map_or(0.0, |sinks| (sinks[head] as f64).exp());
                let total = weights.iter().sum::<f64>() + sink;
                for d in 0..self.value_dim {
                    let weighted = weights.iter().enumerate().map(|(index, weight)| {
                        weight * self.values[(lowest + index) * self.value_dim + d] as f64
                    });
                    outputs.push(weighted.sum::<f64>() / total);
                }
            }
        }
        outputs
    }
}

struct Options<'a> {
    window: Option<usize>,
    transform: ScoreTransform<'a>,
    sinks: Option<&'a [f32]>,
}

#[test]
fn equals_the_float64_softmax() {
    let mut random = Random::new(31);
    let distance = |_head: usize, first: usize, scores: &mut [f32]| {
        for (index, score) in scores.iter_mut().enumerate() {
            *score = *score * 0.1 - 0.01 * (first + index) as f32;
        }
    };
    for isa in families() {
        for (heads, key_dim, value_dim, depth) in
            [(1, 1, 1, 1), (2, 128, 128, 150), (3, 20, 33, 70), (7, 64, 80, 129), (30, 16, 16, 66)]
        {
            let case = Case::new(&mut random, heads, key_dim, value_dim, depth);
            let sinks = random.normals(heads, 1.0);
            let scale = (key_dim as f32).powf(-0.5);
            let all = [
                Options { window: None, transform: ScoreTransform::Scale(scale), sinks: None },
                Options { window: Some(1), transform: ScoreTransform::Scale(scale), sinks: None },
                Options { window: Some(50), transform: ScoreTransform::Scale(scale), sinks: Some(&sinks) },
                Options {
                    window: None,
                    transform: ScoreTransform::SoftCap { scale, cap: 3.0 },
                    sinks: Some(&sinks),
                },
                Options { window: Some(200), transform: ScoreTransform::Function(&distance), sinks: None },
            ];
            for (number, options) in all.iter().enumerate() {
                let got = case.run(isa, 0..depth, &case.whole(), 0, options);
                let expected = case.exact(options, |_, depth, dot| match options.transform {
                    ScoreTransform::Scale(scale) => dot * scale as f64,
                    ScoreTransform::SoftCap { scale, cap } => {
                        cap as f64 * (dot * scale as f64 / cap as f64).tanh()
                    }
                    ScoreTransform::Function(_) => dot * 0.1f32 as f64 - 0.01f32 as f64 * depth as f64,
                });
                let (absolute, relative) = errors(&got, &expected);
                println!(
                    "{isa:?} {heads} heads {key_dim}/{value_dim} depth {depth} option {number}: {absolute:.1e}, {relative:.1e}"
                );
                assert!(absolute < 3e-6, "{isa:?} depth {depth} option {number}: {absolute:e}");
            }
        }
    }
}

#[test]
fn pieces_and_company_do_not_change_bits() {
    let mut random = Random::new(32);
    for isa in families() {
        for window in [None, Some(40), Some(100)] {
            let (key_dim, value_dim, depth) = (48, 40, 200);
            let case = Case::new(&mut random, 2, key_dim, value_dim, depth);
            let sinks = [0.5, -1.0];
            let options = Options { window, transform: ScoreTransform::Scale(0.15), sinks: Some(&sinks) };
            let whole = case.run(isa, 0..depth, &case.whole(), 0, &options);
            let width = 2 * value_dim;

            // The same rows scattered in another storage, unused rows poisoned.
            let mut scattered_keys = vec![f32::NAN; 3 * depth * key_dim];
            let mut scattered_values = vec![f32::NAN; 3 * depth * value_dim];
            let mut places: Vec<u32> = (0..3 * depth as u32).collect();
            for index in (1..places.len()).rev() {
                places.swap(index, random.below(index + 1));
            }
            for (row, place) in places.iter().take(depth).enumerate() {
                let place = *place as usize;
                scattered_keys[place * key_dim..][..key_dim]
                    .copy_from_slice(&case.keys[row * key_dim..][..key_dim]);
                scattered_values[place * value_dim..][..value_dim]
                    .copy_from_slice(&case.values[row * value_dim..][..value_dim]);
            }
            for row in [0, 1, 63, 64, 65, 127, 128, 199] {
                let split = random.below(row + 1);
                let dropped = window.map_or(0, |window| (row + 1usize).saturating_sub(window)).min(split);
                let pieces = [
                    HistoryPiece {
                        keys: &case.keys,
                        key_stride: key_dim,
                        values: &case.values,
                        value_stride: value_dim,
                        rows: PieceRows::Run { first: dropped, count: split - dropped },
                    },
                    HistoryPiece {
                        keys: &scattered_keys,
                        key_stride: key_dim,
                        values: &scattered_values,
                        value_stride: value_dim,
                        rows: PieceRows::Listed(&places[split..row + 1]),
                    },
                ];
                let alone = case.run(isa, row..row + 1, &pieces, dropped, &options);
                assert_eq!(
                    bits(&alone),
                    bits(&whole[row * width..][..width]),
                    "{isa:?} {window:?} row {row}"
                );
            }
            for (start, end) in [(0, 64), (64, 128), (100, 101), (37, 200)] {
                let part = case.run(isa, start..end, &case.whole(), 0, &options);
                assert_eq!(bits(&part), bits(&whole[start * width..end * width]), "{isa:?} {start}..{end}");
            }
        }
    }
}

#[test]
fn later_rows_never_reach_earlier_ones() {
    let mut random = Random::new(33);
    for isa in families() {
        let mut case = Case::new(&mut random, 3, 32, 32, 100);
        let options = Options { window: None, transform: ScoreTransform::Scale(0.2), sinks: None };
        let clean = case.run(isa, 0..100, &case.whole(), 0, &options);
        case.keys[60 * 32..].fill(f32::NAN);
        case.values[60 * 32..].fill(f32::INFINITY);
        let poisoned = case.run(isa, 0..100, &case.whole(), 0, &options);
        assert_eq!(bits(&clean[..60 * 96]), bits(&poisoned[..60 * 96]));
    }
}
