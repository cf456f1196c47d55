//! A delta rule as a program, inputs for it at real magnitudes, and the plain rule in f64.

use std::collections::BTreeMap;

use fiddlehead_forest::shapes::SplitMix;
use fiddlehead_graph::Graph;
use fiddlehead_graph::lower::lower_function;
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_plan::Values;

/// How the rule is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Decay, then correction, then readout.
    Plain,
    /// The decay is e to an input.
    Exponent,
    /// The correction reads the state before its decay.
    Incoming,
    /// No decay and no step size.
    Bare,
    /// The state lies transposed, and is read before and after.
    Transposed,
}

impl Form {
    /// All of them.
    pub const ALL: [Form; 5] = [Form::Plain, Form::Exponent, Form::Incoming, Form::Bare, Form::Transposed];
}

/// A delta rule with its sizes.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// How it is written.
    pub form: Form,
    /// Heads of values.
    pub heads: usize,
    /// Heads of keys, which divide them.
    pub groups: usize,
    /// Keys of a head.
    pub keys: usize,
    /// Values of a head.
    pub values: usize,
}

/// Odd sizes and real ones, every way of writing it.
pub const RULES: [Rule; 6] = [
    Rule { form: Form::Plain, heads: 2, groups: 1, keys: 128, values: 40 },
    Rule { form: Form::Exponent, heads: 4, groups: 2, keys: 33, values: 49 },
    Rule { form: Form::Incoming, heads: 2, groups: 2, keys: 17, values: 5 },
    Rule { form: Form::Bare, heads: 1, groups: 1, keys: 5, values: 70 },
    Rule { form: Form::Transposed, heads: 2, groups: 1, keys: 64, values: 33 },
    Rule { form: Form::Plain, heads: 3, groups: 3, keys: 1, values: 1 },
];

/// The first value of every element of the state.
pub(super) const FIRST: f64 = 0.25;

impl Rule {
    fn text(&self) -> String {
        let transposed = self.form == Form::Transposed;
        let (shape, axes, at) = match transposed {
            true => ("H, V, K", "h in H, j in V, i in K", "h, j, i"),
            false => ("H, K, V", "h in H, i in K, j in V", "h, i, j"),
        };
        let decay = match self.form {
            Form::Bare => "",
            Form::Exponent => "exp(decay[h]) * ",
            _ => "decay[h] * ",
        };
        let read = if self.form == Form::Incoming { "" } else { decay };
        let (beta, scalars) = match self.form {
            Form::Bare => ("", ""),
            _ => ("beta[h] * ", ", decay: f32[H], beta: f32[H]"),
        };
        let next = format!("each[h in H, j in V] sum[i in K] q[h / (H / G), i] * s'[{at}]");
        let (result, body) = match transposed {
            true => (
                "(f32[H, V], f32[H, V])",
                format!("({next}, each[h in H, j in V] 0.5 * (sum[i in K] q[h / (H / G), i] * s[{at}]))"),
            ),
            false => ("f32[H, V]", next),
        };
        format!(
            "step fn rule[H, G, K, V](q: f32[G, K], k: f32[G, K], v: f32[H, V]{scalars}) -> {result} {{
                state s: f32[{shape}] = {FIRST};
                let u = each[h in H, j in V] {beta}(v[h, j] - sum[i in K] {read}s[{at}] * k[h / (H / G), i]);
                s' = each[{axes}] {decay}s[{at}] + k[h / (H / G), i] * u[h, j];
                {body}
            }}"
        )
    }

    /// The rule as a graph.
    ///
    /// # Errors
    /// Never for the forms there are.
    pub fn graph(&self) -> Result<Graph, String> {
        let text = self.text();
        let program = fiddlehead_lang::compile("rule.fh", &text).map_err(|errors| {
            errors.items.iter().map(|error| error.message.clone()).collect::<Vec<_>>().join("; ")
        })?;
        let sizes = [("H", self.heads), ("G", self.groups), ("K", self.keys), ("V", self.values)];
        let sizes: BTreeMap<String, i64> =
            sizes.iter().map(|&(name, size)| (name.to_string(), size as i64)).collect();
        Ok(optimise(&lower_function(&program, "rule", &sizes).map_err(|error| error.to_string())?))
    }
}

/// The inputs of some nodes; each input is `[nodes, ...shape]`.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    nodes: usize,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    decay: Vec<f32>,
    beta: Vec<f32>,
}

fn normal(random: &mut SplitMix) -> f64 {
    let uniform = |random: &mut SplitMix| (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let radius = (-2.0 * (1.0 - uniform(random)).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(random)).cos()
}

impl Inputs {
    pub(super) fn new(rule: &Rule, random: &mut SplitMix, nodes: usize) -> Inputs {
        let unit = |random: &mut SplitMix, scale: f64| {
            let row: Vec<f64> = (0..rule.keys).map(|_| normal(random)).collect();
            let length = row.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-6);
            row.into_iter().map(|x| (x / length * scale) as f32).collect::<Vec<_>>()
        };
        let row = rule.groups * rule.keys;
        let mut inputs = Inputs { nodes, q: vec![], k: vec![], v: vec![], decay: vec![], beta: vec![] };
        for node in 0..nodes {
            // A third of the keys repeat those before exactly: then the products of keys come near one.
            let repeats = node > 0 && random.one_in(3);
            for group in 0..rule.groups {
                inputs.q.extend(unit(random, (rule.keys as f64).powf(-0.5)));
                let key = match repeats {
                    true => inputs.k[(node - 1) * row + group * rule.keys..][..rule.keys].to_vec(),
                    false => unit(random, 1.0),
                };
                inputs.k.extend(key);
            }
            inputs.v.extend((0..rule.heads * rule.values).map(|_| normal(random) as f32));
            for _ in 0..rule.heads {
                let log = -(random.signed_unit().abs() as f64) * 4.0 * (normal(random) - 2.0).exp().ln_1p();
                inputs.decay.push(match rule.form {
                    Form::Exponent => log as f32,
                    // Now and then everything is forgotten.
                    _ if random.one_in(40) => 0.0,
                    _ => log.exp() as f32,
                });
                inputs.beta.push((1.0 / (1.0 + (-2.0 * normal(random)).exp())) as f32);
            }
        }
        inputs
    }

    /// Those of some of the nodes.
    pub(super) fn pick(&self, nodes: &[usize]) -> Inputs {
        let pick = |values: &[f32]| {
            let size = values.len() / self.nodes;
            nodes.iter().flat_map(|&node| values[node * size..(node + 1) * size].to_vec()).collect()
        };
        Inputs {
            nodes: nodes.len(),
            q: pick(&self.q),
            k: pick(&self.k),
            v: pick(&self.v),
            decay: pick(&self.decay),
            beta: pick(&self.beta),
        }
    }

    pub(super) fn values(&self, rule: &Rule) -> Vec<Values> {
        let mut values = vec![&self.q, &self.k, &self.v];
        if rule.form != Form::Bare {
            values.extend([&self.decay, &self.beta]);
        }
        values.into_iter().map(|values| Values::F32(values.clone())).collect()
    }
}

/// One node by the plain rule in f64: replaces the state `[heads, keys, values]`, gives the outputs.
pub(super) fn step(rule: &Rule, inputs: &Inputs, node: usize, state: &mut [f64]) -> Vec<Vec<f64>> {
    let Rule { form, heads, groups, keys, values } = *rule;
    let mut outputs = vec![Vec::new(); if form == Form::Transposed { 2 } else { 1 }];
    for head in 0..heads {
        let group = head / (heads / groups);
        let key = &inputs.k[(node * groups + group) * keys..][..keys];
        let query = &inputs.q[(node * groups + group) * keys..][..keys];
        let scalar = |of: &[f32]| of[node * heads + head] as f64;
        let (decay, beta) = match form {
            Form::Bare => (1.0, 1.0),
            Form::Exponent => (scalar(&inputs.decay).exp(), scalar(&inputs.beta)),
            _ => (scalar(&inputs.decay), scalar(&inputs.beta)),
        };
        let state = &mut state[head * keys * values..][..keys * values];
        let read = |state: &[f64], x: &[f32], j: usize| -> f64 {
            (0..keys).map(|i| state[i * values + j] * x[i] as f64).sum()
        };
        for j in 0..values {
            let before = read(state, query, j);
            let seen = read(state, key, j) * if form == Form::Incoming { 1.0 } else { decay };
            let u = beta * (inputs.v[(node * heads + head) * values + j] as f64 - seen);
            for i in 0..keys {
                state[i * values + j] = decay * state[i * values + j] + key[i] as f64 * u;
            }
            outputs[0].push(read(state, query, j));
            if let Some(second) = outputs.get_mut(1) {
                second.push(0.5 * before);
            }
        }
    }
    outputs
}
