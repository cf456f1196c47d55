//! Work that rides on contractions, shares launches or is grouped by a choice: the bits are those of the same work done
//! piece by piece, and row by row.

use std::sync::Arc;

use fiddlehead_forest::shapes::SplitMix;
use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_graph::{Element, Graph};
use fiddlehead_oracle::{Array, Data, Oracle, OracleSessions, Weight};
use fiddlehead_plan::{Device, LoadOptions, OutputRows, Values, Weights};
use fiddlehead_storage::Tensor;

use crate::case::{bits, load, options, to_f64s};
use crate::step::step;

/// A step with something to fuse or to group.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// What it is about.
    pub name: &'static str,
    /// Its text: a `step fn main` in which `x`, `y` and `e` are each node's own; `e` holds numbers of 0..5.
    pub text: &'static str,
}

/// Odd sizes, none of which divides a chunk or a tile.
const SIZES: [(&str, usize); 5] = [("D", 37), ("F", 77), ("H", 7), ("K", 11), ("E", 5)];
/// Numbers that `e` may hold.
const PARTS: usize = 5;

/// The programs: each kind of thing that rides, and its near misses.
pub const PROGRAMS: &[Program] = &[
    Program {
        name: "bias, activation, residual",
        text: "step fn main[D, F](x: f32[D], w: f32[F, D], bias: f32[F], v: f32[D, F]) -> f32[D] {
            let h = each[f in F] (sum[d in D] w[f, d] * x[d]) + bias[f];
            each[d in D] x[d] + 0.5 * (sum[f in F] v[d, f] * silu(h[f]))
        }",
    },
    Program {
        name: "gate and up of one activation",
        text: "step fn main[D, F](x: f32[D], w: f32[F, D], u: f32[F, D], v: f32[D, F]) -> f32[D] {
            let g = each[f in F] sum[d in D] w[f, d] * x[d];
            let h = each[f in F] sum[d in D] u[f, d] * x[d];
            let a = each[f in F] silu(g[f]) * h[f];
            each[d in D] x[d] + sum[f in F] v[d, f] * a[f]
        }",
    },
    Program {
        name: "two activations, and the first is read by others too",
        text: "step fn main[D, F](x: f32[D], y: f32[D], w: f32[F, D], u: f32[F, D]) -> (f32[F], f32[F], f32) {
            let g = each[f in F] sum[d in D] w[f, d] * x[d];
            let h = each[f in F] sum[d in D] u[f, d] * y[d];
            let k = each[f in F] sum[d in D] w[f, d] * y[d];
            let a = each[f in F] tanh(h[f]) * k[f];
            (each[f in F] g[f] * sigmoid(a[f]), g, max[f in F] a[f])
        }",
    },
    Program {
        name: "another shape, a bias of another shape, a row of a history",
        text: "step fn kept[H, K](r: f32[H, K]) -> f32[H, K] {
            history rs = r;
            each[h in H, i in K] rs[here - 2][h, i] + rs[here][h, i]
        }
        step fn main[D, H, K](x: f32[D], w: f32[H * K, D], b: f32[H], c: f32[K, H]) -> (f32[H, K], f32[H * K]) {
            let p = each[n in H * K] sum[d in D] w[n, d] * x[d];
            let r = each[h in H, i in K] p[K * h + i] * c[i, h] + b[h];
            let q = kept(r);
            (q, each[n in H * K] q[n / K, n % K])
        }",
    },
    Program {
        name: "a consumer that broadcasts, one that turns, one that transposes",
        text: "step fn main[D, H, K](x: f32[D], w: f32[H * K, D]) -> (f32[3, H * K], f32[H * K], f32[K, H]) {
            let p = each[n in H * K] sum[d in D] w[n, d] * x[d];
            let q = each[n in H * K] sum[d in D] w[n, d] * abs(x[d]);
            let r = each[n in H * K] sum[d in D] abs(w[n, d]) * x[d];
            let t = each[i in 3, n in H * K] p[n] * f32(i + 1);
            let turned = each[n in H * K] q[n] - q[(n + 3) % (H * K)];
            (t, turned, each[i in K, h in H] r[K * h + i])
        }",
    },
    Program {
        name: "an intermediate read twice, truths and whole numbers",
        text: "step fn main[D, F](x: f32[D], w: f32[F, D]) -> (f32[F], bool[F], i32[F]) {
            let p = each[f in F] sum[d in D] w[f, d] * x[d];
            let s = each[f in F] sigmoid(p[f]);
            let q = each[f in F] sum[d in D] x[d] * abs(w[f, d]);
            let r = each[f in F] sum[d in D] (w[f, d] + 1.0) * x[d];
            (each[f in F] p[f] * s[f] + s[f], each[f in F] q[f] > 0.25, each[f in F] i32(r[f] * 100.0))
        }",
    },
    Program {
        name: "guards",
        text: "step fn main[D, F](x: f32[D], w: f32[F, D]) -> (f32[F], f32[F]) {
            let p = each[f in F] if f % 3 == 1 { sum[d in D] w[f, d] * x[d] } else { 1.0 };
            let q = each[f in F] sum[d in D] w[f, d] * x[d];
            (each[f in F] exp(p[f]), each[f in F] if q[f] > 0.0 { sqrt(q[f]) } else { f32(here) })
        }",
    },
    Program {
        name: "cheap and dear activations",
        text: "step fn main[D, F](x: f32[D], y: f32[D], w: f32[F, D], u: f32[F, 2 * D], s: f32[D])
            -> (f32[F], f32[F], f32[F]) {
            let scaled = each[d in D] x[d] * s[d];
            let both = each[i in 2 * D] if i < D { x[i] } else { y[i - D] };
            let dear = each[d in D] exp(y[d]) / (1.0 + s[d] * s[d]);
            (
                each[f in F] sum[d in D] w[f, d] * scaled[d],
                each[f in F] sum[i in 2 * D] u[f, i] * both[i],
                each[f in F] 2.0 * (sum[d in D] w[f, d] * dear[d])
            )
        }",
    },
    Program {
        name: "a norm, three products, and rows that turn",
        text: "step fn main[D, H, K](x: f32[D], s: f32[D], q: f32[H * K, D], k: f32[H * K, D], v: f32[H * K, D])
            -> (f32[H, K], f32[H, K], f32[H * K]) {
            let scale = rsqrt((sum[d in D] x[d] * x[d]) / D + 0.001);
            let n = each[d in D] x[d] * scale * s[d];
            let a = each[c in H * K] sum[d in D] q[c, d] * n[d];
            let b = each[c in H * K] sum[d in D] k[c, d] * n[d];
            let c = each[p in K] cos(f32(here) / f32(p + 1));
            let turn = each[h in H, i in K] a[K * h + i] * c[i] - a[K * h + (i + 1) % K];
            let most = each[h in H] max[i in K] b[K * h + i];
            (turn, each[h in H, i in K] b[K * h + i] - most[h], each[m in H * K] sum[d in D] v[m, d] * n[d])
        }",
    },
    Program {
        name: "chosen parts, gate and up and down",
        text: "step fn main[D, F, E](x: f32[D], e: i32[2], w: f32[E, F, D], u: f32[E, F, D], v: f32[E, D, F]) -> f32[D] {
            let g = each[j in 2, f in F] sum[d in D] w[e[j], f, d] * x[d];
            let h = each[j in 2, f in F] sum[d in D] u[e[j], f, d] * x[d];
            let a = each[j in 2, f in F] silu(g[j, f]) * h[j, f];
            let o = each[j in 2, d in D] sum[f in F] v[e[j], d, f] * a[j, f];
            each[d in D] x[d] + sum[j in 2] o[j, d] / f32(j + 1)
        }",
    },
    Program {
        name: "one chosen part, by the greatest of the row",
        text: "step fn main[D, F, E](x: f32[D], r: f32[E, D], w: f32[F, E, D], b: f32[F]) -> f32[F] {
            let (most, at) = top[1](each[p in E] sum[d in D] r[p, d] * x[d]);
            each[f in F] (sum[d in D] x[d] * w[f, at[0], d]) * most[0] + b[f]
        }",
    },
];

/// Row counts on both sides of where kernels change their form.
pub const ROWS: &[usize] = &[1, 2, 8, 9, 70];

/// A program's graph as models run it.
///
/// # Errors
/// When it does not compile.
pub fn graph(program: &Program) -> Result<Graph, String> {
    Ok(optimise(&written(program)?))
}

fn written(program: &Program) -> Result<Graph, String> {
    let sizes: Vec<(&str, usize)> =
        SIZES.iter().copied().filter(|(name, _)| declares(program.text, name)).collect();
    step(program.text, &sizes, &["x", "y", "e"])
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Numbers of usual size: weights of a sum of so many products make results of about one.
fn weights(graph: &Graph, random: &mut SplitMix) -> Result<(Weights, fiddlehead_oracle::Weights), String> {
    let (mut stored, mut known) = (Weights::new(), fiddlehead_oracle::Weights::new());
    for param in graph.params() {
        let folded = param.shape.last().copied().unwrap_or(1);
        let scale = 2.0 / (folded as f32).sqrt();
        let values: Vec<f32> =
            (0..param.shape.iter().product()).map(|_| random.signed_unit() * scale).collect();
        known.insert(param.name.clone(), Weight::Float(Arc::from(values.clone())));
        let tensor = Tensor::from_f32(param.shape.clone(), values).map_err(words)?;
        stored.insert(param.name.clone(), tensor);
    }
    Ok((stored, known))
}

/// Inputs of so many nodes, the same for the first ones however many there are. Of the parts that `e` picks, the first
/// is never among them; `one` makes it the same for all.
fn inputs(graph: &Graph, nodes: usize, one: bool) -> Result<Vec<(Values, Array<f64>)>, String> {
    let fill = |(place, input): (usize, &fiddlehead_graph::Input)| {
        let mut random = SplitMix::new(place as u64 + 17);
        let shape = [&[nodes], &input.shape[..]].concat();
        let count = shape.iter().product();
        let (given, data) = match input.element {
            Element::I32 => {
                let pick = |_| if one { 3 } else { 1 + random.below(PARTS - 1) as i32 };
                let values: Vec<i32> = (0..count).map(pick).collect();
                (Values::I32(values.clone()), Data::Int(values))
            }
            _ => {
                let values: Vec<f32> = (0..count).map(|_| random.signed_unit() * 2.0).collect();
                let wide = values.iter().map(|&value| f64::from(value)).collect();
                (Values::F32(values), Data::Float(wide))
            }
        };
        Ok((given, Array::new(&shape, data).map_err(words)?))
    };
    graph.inputs().iter().enumerate().map(fill).collect()
}

fn run(
    device: &dyn Device,
    graph: &Graph,
    stored: &Weights,
    options: LoadOptions,
    one: bool,
) -> Result<Vec<Vec<OutputRows>>, String> {
    let mut executor = load(device, graph, stored.clone(), options).map_err(words)?;
    let run = |(session, &rows): (usize, &usize)| {
        let session = SessionId(session as u64);
        let forest = Forest::single_chain(session, 0, rows).map_err(words)?;
        executor.open(session).map_err(words)?;
        let given: Vec<Values> = inputs(graph, rows, one)?.into_iter().map(|(values, _)| values).collect();
        executor.run(0, &forest, &given).map_err(words)
    };
    ROWS.iter().enumerate().map(run).collect()
}

/// Runs a program with fusions and without over [`ROWS`] rows: the bits are the same, the same for a row however many are
/// beside it, and near what the oracle gives.
///
/// # Errors
/// The first difference, or whatever stops either.
pub fn check(device: &dyn Device, program: &Program) -> Result<(), String> {
    let written = written(program)?;
    let graph = optimise(&written);
    let (stored, known) = weights(&written, &mut SplitMix::new(1))?;
    let oracle = Oracle::<f64>::new(&written, &known).map_err(words)?;
    for one in [false, true] {
        let fused = run(device, &graph, &stored, options(&[]), one)?;
        let apart = run(device, &graph, &stored, options(&[("fusion", "off")]), one)?;
        for (&rows, (fused, apart)) in ROWS.iter().zip(fused.iter().zip(&apart)) {
            if bits(fused) != bits(apart) {
                return Err(format!("{rows} rows: other bits fused than apart"));
            }
        }
        let most = bits(&fused[ROWS.len() - 1]);
        for (&rows, found) in ROWS.iter().zip(&fused) {
            for (place, (_, words)) in bits(found).iter().enumerate() {
                if most[place].1[..words.len()] != words[..] {
                    return Err(format!("output {place}: other bits in {rows} rows than in more"));
                }
            }
        }
        near(&oracle, &written, &fused, one)?;
        if !written.inputs().iter().any(|input| input.element == Element::I32) {
            break;
        }
    }
    Ok(())
}

/// Compares the longest run with the oracle.
fn near(oracle: &Oracle<f64>, graph: &Graph, found: &[Vec<OutputRows>], one: bool) -> Result<(), String> {
    let (Some(&rows), Some(found)) = (ROWS.last(), found.last()) else { return Ok(()) };
    let session = SessionId(0);
    let forest = Forest::single_chain(session, 0, rows).map_err(words)?;
    let mut sessions = OracleSessions::default();
    sessions.insert(session, oracle.session());
    let given: Vec<Array<f64>> = inputs(graph, rows, one)?.into_iter().map(|(_, array)| array).collect();
    let expected = oracle.run(&forest, &given, &sessions).map_err(words)?;
    for (place, output) in found.iter().enumerate() {
        let found = to_f64s(&output.values);
        let size = found.len() / rows;
        for node in 0..rows {
            let wanted = expected.output(node, place).ok_or("the oracle has no such row")?.to_f64s();
            let scale = wanted.iter().fold(1e-30, |most: f64, value| most.max(value.abs()));
            // A whole number may be cut on the other side of a sum that is one.
            let bound = if matches!(output.values, Values::I32(_)) { 1.0 } else { 1e-4 * scale };
            for (index, (found, wanted)) in found[node * size..].iter().zip(&wanted).enumerate() {
                let error = (found - wanted).abs();
                if error.is_nan() || error > bound {
                    return Err(format!(
                        "output {place}, node {node}, element {index}: {found} instead of {wanted}"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Whether a program's `main` has a size of that name.
fn declares(text: &str, name: &str) -> bool {
    let main = text.split("fn main[").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
    main.split(',').any(|declared| declared.trim() == name)
}
