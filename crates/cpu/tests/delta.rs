//! The delta rule against a float64 serial run at real magnitudes (normalised keys, some repeated exactly; softplus decays;
//! a stored state of scale 0.3), and the equality of bits that the serial form promises.

mod support;

use fiddlehead_cpu::features::Isa;
use fiddlehead_cpu::kernels::delta::block::{Ancestry, DeltaBlock, DeltaBlockError};
use fiddlehead_cpu::kernels::delta::serial::{delta_chain, delta_step};
use fiddlehead_cpu::kernels::delta::{Decay, DeltaRows, Scalars, StateLayout};
use fiddlehead_cpu::kernels::views::{ActivationRows, OutputRows};
use support::{Random, bits, errors, families};

struct Case {
    parents: Vec<Option<usize>>,
    keys: usize,
    values: usize,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    log_decay: Option<Vec<f32>>,
    beta: Option<Vec<f32>>,
    /// `[keys, values]`.
    state: Option<Vec<f32>>,
}

impl Case {
    fn new(random: &mut Random, parents: Vec<Option<usize>>, keys: usize, values: usize) -> Self {
        let nodes = parents.len();
        let unit = |random: &mut Random, scale: f64| {
            let row = random.normals(keys, 1.0);
            let length = row.iter().map(|x| *x as f64 * *x as f64).sum::<f64>().sqrt();
            row.iter().map(|x| (*x as f64 / length * scale) as f32).collect::<Vec<_>>()
        };
        let (mut q, mut k): (Vec<f32>, Vec<f32>) = (Vec::new(), Vec::new());
        for node in 0..nodes {
            q.extend(unit(random, (keys as f64).powf(-0.5)));
            // A third of the keys repeat the one before exactly: then A comes near one.
            let key = if node > 0 && random.below(3) == 0 {
                k[(node - 1) * keys..].to_vec()
            } else {
                unit(random, 1.0)
            };
            k.extend(key);
        }
        let decay = (0..nodes)
            .map(|_| {
                let softplus = (random.normal() as f64 - 2.0).exp().ln_1p();
                (-(random.uniform() * 4.0) * softplus) as f32
            })
            .collect();
        let beta = (0..nodes).map(|_| 1.0 / (1.0 + (-random.normal() * 2.0).exp())).collect();
        Self {
            keys,
            values,
            q,
            k,
            v: random.normals(nodes * values, 1.0),
            log_decay: Some(decay),
            beta: Some(beta),
            state: Some(random.normals(keys * values, 0.3)),
            parents,
        }
    }

    fn nodes(&self) -> usize {
        self.parents.len()
    }

    /// The last node of each subtree.
    fn ends(&self) -> Vec<u32> {
        let mut ends: Vec<u32> = (0..self.nodes() as u32).collect();
        for node in (0..self.nodes()).rev() {
            if let Some(parent) = self.parents[node] {
                ends[parent] = ends[parent].max(ends[node]);
            }
        }
        ends
    }

    fn rows(&self) -> DeltaRows<'_> {
        let (n, k, v) = (self.nodes(), self.keys, self.values);
        DeltaRows {
            queries: ActivationRows::new(&self.q, n, k, k).unwrap(),
            keys: ActivationRows::new(&self.k, n, k, k).unwrap(),
            values: ActivationRows::new(&self.v, n, v, v).unwrap(),
            decay: match &self.log_decay {
                Some(values) => Decay::Log(Scalars { values, stride: 1 }),
                None => Decay::Keep,
            },
            beta: self.beta.as_ref().map(|values| Scalars { values, stride: 1 }),
        }
    }

    fn stored(&self, layout: StateLayout) -> Vec<f32> {
        let state = self.state.clone().unwrap_or(vec![0.0; self.keys * self.values]);
        lay(layout, &state, self.keys, self.values)
    }

    /// Outputs of all nodes and the state after each, in f64, by the plain rule along each path.
    fn exact(&self) -> (Vec<f64>, Vec<Vec<f64>>) {
        let (keys, values) = (self.keys, self.values);
        let stored: Vec<f64> = self.stored(StateLayout::KeyMajor).iter().map(|x| *x as f64).collect();
        let mut states: Vec<Vec<f64>> = Vec::new();
        let mut outputs = Vec::new();
        for node in 0..self.nodes() {
            let mut state =
                self.parents[node].map_or_else(|| stored.clone(), |parent| states[parent].clone());
            let factor = self.log_decay.as_ref().map_or(1.0, |log| (log[node] as f64).exp());
            let beta = self.beta.as_ref().map_or(1.0, |beta| beta[node] as f64);
            state.iter_mut().for_each(|s| *s *= factor);
            for j in 0..values {
                let read: f64 =
                    (0..keys).map(|i| state[i * values + j] * self.k[node * keys + i] as f64).sum();
                let u = beta * (self.v[node * values + j] as f64 - read);
                for i in 0..keys {
                    state[i * values + j] += self.k[node * keys + i] as f64 * u;
                }
                outputs.push((0..keys).map(|i| state[i * values + j] * self.q[node * keys + i] as f64).sum());
            }
            states.push(state);
        }
        (outputs, states)
    }
}

fn lay(layout: StateLayout, state: &[f32], keys: usize, values: usize) -> Vec<f32> {
    match layout {
        StateLayout::KeyMajor => state.to_vec(),
        StateLayout::ValueMajor => {
            (0..keys * values).map(|index| state[index % keys * values + index / keys]).collect()
        }
    }
}

/// Back to `[keys, values]`.
fn key_major(layout: StateLayout, state: &[f32], keys: usize, values: usize) -> Vec<f32> {
    match layout {
        StateLayout::KeyMajor => state.to_vec(),
        StateLayout::ValueMajor => lay(StateLayout::ValueMajor, state, values, keys),
    }
}

fn chain(nodes: usize) -> Vec<Option<usize>> {
    (0..nodes).map(|node| node.checked_sub(1)).collect()
}

/// Stars, combs and random trees, in depth-first order.
fn tree(random: &mut Random, kind: &str, nodes: usize) -> Vec<Option<usize>> {
    let mut parents = vec![None];
    for node in 1..nodes {
        let previous = node - 1;
        let parent = match kind {
            "star" => Some(0),
            // A spine of even nodes, each with one odd leaf before the next.
            "comb" => Some(if node % 2 == 1 { previous } else { node - 2 }),
            _ => {
                let mut at = Some(previous);
                while at.is_some() && random.below(3) == 0 {
                    at = at.and_then(|node: usize| parents[node]);
                }
                at
            }
        };
        parents.push(parent);
    }
    parents
}

const LAYOUTS: [StateLayout; 2] = [StateLayout::KeyMajor, StateLayout::ValueMajor];

/// All nodes one by one, each from its parent's state. Gives outputs and states.
fn walk(isa: Isa, layout: StateLayout, case: &Case) -> (Vec<f32>, Vec<Vec<f32>>) {
    let (nodes, values) = (case.nodes(), case.values);
    let rows = case.rows();
    let stored = case.stored(layout);
    let mut outputs = vec![f32::NAN; nodes * values];
    let mut states: Vec<Vec<f32>> = Vec::new();
    for node in 0..nodes {
        let mut child = vec![f32::NAN; stored.len()];
        let parent = case.parents[node].map_or(&stored, |parent| &states[parent]);
        let mut view = OutputRows::new(&mut outputs, nodes, values, values).unwrap();
        delta_step(isa, layout, &rows, node, parent, &mut child, &mut view);
        states.push(child);
    }
    (outputs, states)
}

#[test]
fn serial_equals_the_float64_run_and_a_chain_equals_its_steps() {
    let mut random = Random::new(21);
    for isa in families() {
        for layout in LAYOUTS {
            for (nodes, keys, values) in
                [(1, 1, 1), (17, 128, 128), (33, 33, 49), (49, 17, 130), (97, 64, 20)]
            {
                let mut case = Case::new(&mut random, chain(nodes), keys, values);
                if nodes == 33 {
                    case.log_decay = None;
                    case.beta = None;
                }
                let (outputs, states) = walk(isa, layout, &case);
                let (expected, expected_states) = case.exact();
                let (absolute, relative) = errors(&outputs, &expected);
                let last = key_major(layout, states.last().unwrap(), keys, values);
                let (state_absolute, state_relative) = errors(&last, expected_states.last().unwrap());
                println!(
                    "serial {isa:?} {layout:?} {nodes} nodes {keys}x{values}: outputs {absolute:.1e} ({relative:.1e}), state {state_absolute:.1e} ({state_relative:.1e})"
                );
                assert!(relative < 2e-6 && state_relative < 2e-6, "{relative:e} {state_relative:e}");

                let mut state = case.stored(layout);
                let mut chained = vec![f32::NAN; nodes * values];
                let mut view = OutputRows::new(&mut chained, nodes, values, values).unwrap();
                delta_chain(isa, layout, &case.rows(), &mut state, &mut view);
                assert_eq!(bits(&chained), bits(&outputs));
                assert_eq!(bits(&state), bits(states.last().unwrap()));
            }
        }
    }
}

#[test]
fn a_factor_is_the_exponential_of_a_log() {
    let mut random = Random::new(22);
    for isa in families() {
        let case = Case::new(&mut random, chain(9), 40, 24);
        let factors: Vec<f32> = case
            .log_decay
            .as_ref()
            .unwrap()
            .iter()
            .map(|log| fiddlehead_cpu::kernels::rows::exp(isa, *log))
            .collect();
        let mut by_factor = case.rows();
        by_factor.decay = Decay::Factor(Scalars { values: &factors, stride: 1 });
        let mut results = Vec::new();
        for rows in [case.rows(), by_factor] {
            let mut state = case.stored(StateLayout::KeyMajor);
            let mut outputs = vec![f32::NAN; 9 * 24];
            let mut view = OutputRows::new(&mut outputs, 9, 24, 24).unwrap();
            delta_chain(isa, StateLayout::KeyMajor, &rows, &mut state, &mut view);
            results.push((bits(&outputs), bits(&state)));
        }
        assert_eq!(results[0], results[1]);
    }
}

/// Runs the block form and one commit; returns relative errors of outputs and state.
fn block_errors(
    isa: Isa,
    layout: StateLayout,
    case: &Case,
    path: &[usize],
    block: &mut DeltaBlock,
) -> [f64; 4] {
    let (nodes, keys, values) = (case.nodes(), case.keys, case.values);
    let ends = case.ends();
    let (expected, states) = case.exact();
    let mut outputs = vec![f32::NAN; nodes * values];
    let mut view = OutputRows::new(&mut outputs, nodes, values, values).unwrap();
    let stored = case.state.as_ref().map(|_| case.stored(layout));
    let is_chain = case.parents.iter().enumerate().all(|(node, parent)| *parent == node.checked_sub(1));
    block.solve(isa, layout, &case.rows(), Ancestry::Tree(&ends), stored.as_deref(), &mut view).unwrap();
    if is_chain {
        let mut chained = vec![f32::NAN; nodes * values];
        let mut view = OutputRows::new(&mut chained, nodes, values, values).unwrap();
        block.solve(isa, layout, &case.rows(), Ancestry::Chain, stored.as_deref(), &mut view).unwrap();
        assert_eq!(bits(&chained), bits(&outputs));
    }
    let mut state = vec![f32::NAN; keys * values];
    block.commit(isa, path, stored.as_deref(), &mut state);
    let state = key_major(layout, &state, keys, values);
    let (absolute, relative) = errors(&outputs, &expected);
    let expected_state = match path.last() {
        Some(node) => states[*node].clone(),
        None => case.stored(StateLayout::KeyMajor).iter().map(|x| *x as f64).collect(),
    };
    let (state_absolute, state_relative) = errors(&state, &expected_state);
    [absolute, relative, state_absolute, state_relative]
}

#[test]
fn block_form_equals_the_float64_run() {
    let mut random = Random::new(23);
    let mut block = DeltaBlock::default();
    for isa in families() {
        for layout in LAYOUTS {
            for nodes in [1, 2, 16, 17, 33, 49, 64, 97, 128] {
                for kind in ["chain", "star", "comb", "random"] {
                    let parents = if kind == "chain" { chain(nodes) } else { tree(&mut random, kind, nodes) };
                    let (keys, values) = if nodes == 49 { (33, 70) } else { (64, 64) };
                    let mut case = Case::new(&mut random, parents, keys, values);
                    match nodes {
                        17 => case.state = None,
                        33 => case.log_decay = None,
                        49 => case.beta = None,
                        _ => {}
                    }
                    // A random node's path.
                    let mut path = vec![random.below(nodes)];
                    while let Some(parent) = case.parents[path[0]] {
                        path.insert(0, parent);
                    }
                    let [absolute, relative, state_absolute, state_relative] =
                        block_errors(isa, layout, &case, &path, &mut block);
                    println!(
                        "block {isa:?} {layout:?} {kind} {nodes}: outputs {absolute:.1e} ({relative:.1e}), state {state_absolute:.1e} ({state_relative:.1e})"
                    );
                    assert!(relative < 4e-6, "{kind} {nodes}: outputs {relative:e}");
                    assert!(state_relative < 4e-6, "{kind} {nodes}: state {state_relative:e}");
                }
            }
        }
    }
}

#[test]
fn decays_that_overflow_between_branches_stay_out() {
    // The second branch decays to e^-200; the factor from it to the first branch would be e^+200.
    let mut random = Random::new(24);
    let mut case = Case::new(&mut random, vec![None, Some(0), Some(0), Some(2)], 32, 32);
    case.log_decay = Some(vec![-0.1, -200.0, -0.5, -0.2]);
    let mut block = DeltaBlock::default();
    for isa in families() {
        let [_, relative, _, state_relative] =
            block_errors(isa, StateLayout::KeyMajor, &case, &[0, 2, 3], &mut block);
        assert!(relative < 2e-6 && state_relative < 2e-6);
        let [_, relative, _, state_relative] =
            block_errors(isa, StateLayout::KeyMajor, &case, &[], &mut block);
        assert!(relative < 2e-6 && state_relative == 0.0);
    }
}

#[test]
fn what_the_block_form_cannot_solve_is_refused() {
    let mut random = Random::new(25);
    let case = Case::new(&mut random, chain(129), 8, 8);
    let mut outputs = vec![0.0; 129 * 8];
    let mut block = DeltaBlock::default();
    let mut solve = |case: &Case, rows: &DeltaRows<'_>, ancestry: Ancestry<'_>| {
        let mut view = OutputRows::new(&mut outputs, case.nodes(), 8, 8).unwrap();
        block.solve(Isa::Plain, StateLayout::KeyMajor, rows, ancestry, None, &mut view)
    };
    assert_eq!(solve(&case, &case.rows(), Ancestry::Chain), Err(DeltaBlockError::TooManyNodes(129)));
    let case = Case::new(&mut random, chain(3), 8, 8);
    let mut rows = case.rows();
    rows.decay = Decay::Factor(Scalars { values: &[0.5, 0.0, 0.5], stride: 1 });
    assert_eq!(solve(&case, &rows, Ancestry::Chain), Err(DeltaBlockError::DecayNotPositive(1)));
    assert_eq!(solve(&case, &case.rows(), Ancestry::Tree(&[1, 2, 2])), Err(DeltaBlockError::BadInterval(1)));
}
