//! A lowered program calculates what its text says: each beside the loops that a person would write.

use std::collections::{BTreeMap, HashMap};

use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_graph::lower::{infer_sizes, lower_function};
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_oracle::{Array, Data, Oracle};

/// A small generator of values in [-1, 1).
struct Values(u64);

impl Values {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 40) as f32) / (1u64 << 23) as f32 - 1.0
    }
    fn array(&mut self, shape: &[usize]) -> Vec<f32> {
        (0..shape.iter().product()).map(|_| self.next()).collect()
    }
}

fn float(shape: &[usize], values: &[f32]) -> Array<f64> {
    Array::<f64>::floats(values).reshaped(shape).expect("fits")
}

/// Runs `main` on inputs by name, as lowered and as optimised, and gives its results.
fn run(text: &str, inputs: &[(&str, Array<f64>)]) -> Vec<Array<f64>> {
    let program = match fiddlehead_lang::compile("test.fh", text) {
        Ok(program) => program,
        Err(errors) => panic!("{errors:?}"),
    };
    let shapes = inputs.iter().map(|(name, array)| (name.to_string(), array.shape())).collect();
    let sizes = infer_sizes(&program, "main", &shapes, &BTreeMap::new()).expect("sizes");
    let graph = lower_function(&program, "main", &sizes).expect("lowers");
    let results = [graph.clone(), optimise(&graph)].map(|graph| {
        let find = |input: &fiddlehead_graph::Input| {
            let (_, array) = inputs.iter().find(|(name, _)| *name == input.name).expect("given");
            array.clone()
        };
        let arrays: Vec<Array<f64>> = graph.inputs().iter().map(find).collect();
        let oracle = Oracle::<f64>::new(&graph, &HashMap::new()).expect("resolves");
        let results = oracle.evaluate(&arrays).expect("no trap");
        results.iter().map(|array| array.as_ref().clone()).collect::<Vec<_>>()
    });
    let [plain, optimised] = results;
    for (a, b) in plain.iter().zip(&optimised) {
        assert_close(&a.to_f64s(), &b.to_f64s());
    }
    plain
}

fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (index, (x, y)) in found.iter().zip(expected).enumerate() {
        assert!((x - y).abs() <= 1e-12 * (1.0 + y.abs()), "element {index}: {x} is not {y}");
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

#[test]
fn a_convolution() {
    let text = "fn main[C, O, H, W](img: f32[C, H + 2, W + 2], ker: f32[O, C, 3, 3]) -> f32[O, H, W] =
        each[o in O, y in H, x in W] sum[c in C, dy in 3, dx in 3] img[c, y + dy, x + dx] * ker[o, c, dy, dx];";
    let mut values = Values(1);
    let (image, kernel) = (values.array(&[2, 5, 6]), values.array(&[3, 2, 3, 3]));
    let found = run(text, &[("img", float(&[2, 5, 6], &image)), ("ker", float(&[3, 2, 3, 3], &kernel))]);
    let (image, kernel) = (wide(&image), wide(&kernel));
    let mut expected = Vec::new();
    for o in 0..3 {
        for y in 0..3 {
            for x in 0..4 {
                let mut sum = 0.0;
                for c in 0..2 {
                    for dy in 0..3 {
                        for dx in 0..3 {
                            let tap = kernel[((o * 2 + c) * 3 + dy) * 3 + dx];
                            sum += image[(c * 5 + y + dy) * 6 + x + dx] * tap;
                        }
                    }
                }
                expected.push(sum);
            }
        }
    }
    assert_eq!(found[0].shape(), [3, 3, 4]);
    assert_close(&found[0].to_f64s(), &expected);
}

#[test]
fn causal_attention() {
    let text = "fn main[T, D](q: f32[T, D], k: f32[T, D], v: f32[T, D]) -> f32[T, D] {
        let s = each[t in T, u in 0..=t] rsqrt(f32(D)) * (sum[d in D] q[t, d] * k[u, d]);
        let m = each[t in T] max[u in 0..=t] s[t, u];
        let p = each[t in T, u in 0..=t] exp(s[t, u] - m[t]);
        each[t in T, d in D] (sum[u in 0..=t] p[t, u] * v[u, d]) / (sum[u in 0..=t] p[t, u])
    }";
    let mut values = Values(2);
    let [q, k, v] = [0; 3].map(|_| values.array(&[5, 3]));
    let given = [("q", float(&[5, 3], &q)), ("k", float(&[5, 3], &k)), ("v", float(&[5, 3], &v))];
    let found = run(text, &given);
    let (q, k, v) = (wide(&q), wide(&k), wide(&v));
    let mut expected = Vec::new();
    for t in 0..5 {
        let weights: Vec<f64> = (0..=t)
            .map(|u| ((0..3).map(|d| q[t * 3 + d] * k[u * 3 + d]).sum::<f64>() / 3f64.sqrt()).exp())
            .collect();
        let total: f64 = weights.iter().sum();
        for d in 0..3 {
            expected.push((0..=t).map(|u| weights[u] * v[u * 3 + d]).sum::<f64>() / total);
        }
    }
    assert_close(&found[0].to_f64s(), &expected);
}

#[test]
fn experts_by_a_choice() {
    let text = "fn main[E, F, D](router: f32[E], up: f32[E, F, D], down: f32[E, D, F], x: f32[D]) -> f32[D] {
        let m = max[e in E] router[e];
        let z = sum[e in E] exp(router[e] - m);
        let (w, e) = top[2](each[i in E] exp(router[i] - m) / z);
        each[d in D] sum[j in 2] w[j] * (sum[f in F] down[e[j], d, f] * silu(sum[c in D] up[e[j], f, c] * x[c]))
    }";
    let mut values = Values(3);
    let (router, up) = (values.array(&[4]), values.array(&[4, 3, 2]));
    let (down, x) = (values.array(&[4, 2, 3]), values.array(&[2]));
    let found = run(
        text,
        &[
            ("router", float(&[4], &router)),
            ("up", float(&[4, 3, 2], &up)),
            ("down", float(&[4, 2, 3], &down)),
            ("x", float(&[2], &x)),
        ],
    );
    let (router, up, down, x) = (wide(&router), wide(&up), wide(&down), wide(&x));
    let total: f64 = router.iter().map(|r| r.exp()).sum();
    let mut order: Vec<usize> = (0..4).collect();
    order.sort_by(|&a, &b| router[b].total_cmp(&router[a]));
    let mut expected = vec![0.0; 2];
    for &e in &order[..2] {
        for (d, sum) in expected.iter_mut().enumerate() {
            for f in 0..3 {
                let g: f64 = (0..2).map(|c| up[(e * 3 + f) * 2 + c] * x[c]).sum();
                *sum += router[e].exp() / total * down[(e * 2 + d) * 3 + f] * g / (1.0 + (-g).exp());
            }
        }
    }
    assert_close(&found[0].to_f64s(), &expected);
}

#[test]
fn folds_in_order_and_choices() {
    let text = "fn main[N, M](x: f32[N, M], limit: f32) -> (f32[N], i32, bool) {
        let r = each[n in N] fold[m in M](acc = 1.0) if acc > limit { acc * 0.5 } else { acc + x[n, m] };
        let best = argmax[n in N] r[n];
        (r, i32(best), any[n in N] (r[n] > limit))
    }";
    let x = Values(4).array(&[3, 7]);
    let limit = Array::<f64>::floats(&[1.25]).reshaped(&[]).expect("a scalar");
    let found = run(text, &[("x", float(&[3, 7], &x)), ("limit", limit)]);
    let x = wide(&x);
    let expected: Vec<f64> = (0..3)
        .map(|n| (0..7).fold(1.0, |acc, m| if acc > 1.25 { acc * 0.5 } else { acc + x[n * 7 + m] }))
        .collect();
    assert_close(&found[0].to_f64s(), &expected);
    let best = (0..3).rev().max_by(|&a, &b| expected[a].total_cmp(&expected[b])).expect("three");
    assert_eq!(found[1].to_f64s(), [best as f64]);
    assert_eq!(found[2].to_f64s(), [f64::from(u8::from(expected.iter().any(|&r| r > 1.25)))]);
}

#[test]
fn an_index_that_only_one_arm_may_use() {
    // x[i - 1] at i = 0 would trap, were it read.
    let text = "fn main[N](x: f32[N]) -> f32[N] = each[i in N]
        if i > 0 { let y = x[i - 1] * x[i - 1]; y + sum[j in 2] x[i - j] } else { 0.5 };";
    let x = Values(5).array(&[5]);
    let found = run(text, &[("x", float(&[5], &x))]);
    let x = wide(&x);
    let expected: Vec<f64> =
        (0..5).map(|i| if i > 0 { x[i - 1] * x[i - 1] + x[i] + x[i - 1] } else { 0.5 }).collect();
    assert_close(&found[0].to_f64s(), &expected);
}

#[test]
fn loops_with_several_carries_bounds_and_steps_inside() {
    let text = "
        step fn smooth[D](x: f32[D]) -> f32[D] {
            state s: f32[D] = 0.25;
            history xs = x;
            s' = each[d in D] 0.5 * s[d] + xs[here - 1][d];
            each[d in D] s'[d] + x[d]
        }
        fn main[T, D](x: f32[T, D]) -> (f32[3, D], i32, f32, i32) {
            let scaled = each[t in T, d in D] 2.0 * x[t, d];
            let (rows, count) = scan[t in T](n = 0) {
                let y = smooth(scaled[t]);
                emit_if[3](y[0] > 0.0, y);
                next n + 1
            };
            let (total, turns) = scan[t in T](a = 1.0, n = 0) { next (0.5 * a + x[t, 0], n + t) };
            (rows, count, total, turns)
        }";
    for seed in 0..6 {
        let x = Values(60 + seed).array(&[4, 2]);
        let expected_x = wide(&x);
        let mut state = [0.25; 2];
        let mut rows = Vec::new();
        for t in 0..4 {
            let mut y = [0.0; 2];
            for d in 0..2 {
                let before = if t > 0 { 2.0 * expected_x[(t - 1) * 2 + d] } else { 0.0 };
                state[d] = 0.5 * state[d] + before;
                y[d] = state[d] + 2.0 * expected_x[t * 2 + d];
            }
            if y[0] > 0.0 {
                rows.extend(y);
            }
        }
        if rows.len() > 6 {
            continue;
        }
        let found = run(text, &[("x", float(&[4, 2], &x))]);
        let count = rows.len() / 2;
        rows.resize(6, 0.0);
        assert_close(&found[0].to_f64s(), &rows);
        assert_eq!(found[1].to_f64s(), [count as f64]);
        let total = (0..4).fold(1.0, |a, t| 0.5 * a + expected_x[t * 2]);
        assert_close(&found[2].to_f64s(), &[total]);
        assert_eq!(found[3].to_f64s(), [6.0]);
    }
}

#[test]
fn the_delta_rule_along_a_path() {
    let text = "step fn main[K, V](q: f32[K], k: f32[K], v: f32[V], decay: f32, beta: f32) -> f32[V] {
        state s: f32[K, V] = 0.0;
        let u = each[j in V] beta * (v[j] - (sum[i in K] decay * s[i, j] * k[i]));
        s' = each[i in K, j in V] decay * s[i, j] + k[i] * u[j];
        each[j in V] sum[i in K] q[i] * s'[i, j]
    }";
    let program = fiddlehead_lang::compile("delta.fh", text).expect("a right program");
    let sizes = BTreeMap::from([("K".to_string(), 3), ("V".to_string(), 2)]);
    let graph = lower_function(&program, "main", &sizes).expect("lowers");
    let nodes = 6;
    let mut values = Values(8);
    let shapes: [&[usize]; 5] = [&[nodes, 3], &[nodes, 3], &[nodes, 2], &[nodes], &[nodes]];
    let given: Vec<Vec<f32>> = shapes.iter().map(|shape| values.array(shape)).collect();
    let arrays: Vec<Array<f64>> = shapes.iter().zip(&given).map(|(shape, v)| float(shape, v)).collect();
    let [q, k, v, decay, beta] = [0, 1, 2, 3, 4].map(|input| wide(&given[input]));
    let mut state = [[0.0; 2]; 3];
    let mut expected = Vec::new();
    for n in 0..nodes {
        state.iter_mut().flatten().for_each(|s| *s *= decay[n]);
        for j in 0..2 {
            let read: f64 = (0..3).map(|i| state[i][j] * k[n * 3 + i]).sum();
            let u = beta[n] * (v[n * 2 + j] - read);
            (0..3).for_each(|i| state[i][j] += k[n * 3 + i] * u);
        }
        expected.push((0..2).map(|j| (0..3).map(|i| q[n * 3 + i] * state[i][j]).sum()).collect::<Vec<f64>>());
    }
    for graph in [graph.clone(), optimise(&graph)] {
        let oracle = Oracle::<f64>::new(&graph, &HashMap::new()).expect("resolves");
        let chain = Forest::single_chain(SessionId(0), 0, nodes).expect("a chain");
        let run = oracle.run(&chain, &arrays, &HashMap::new()).expect("no trap");
        for (node, expected) in expected.iter().enumerate() {
            assert_close(&run.output(node, 0).expect("wanted").to_f64s(), expected);
        }
    }
}

#[test]
fn ids_are_gathered_and_compared() {
    let text = "fn main[V, D, T](table: f32[V, D], tokens: id[T], stop: id) -> (f32[T, D], i32) =
        (each[t in T] table[tokens[t]], sum[t in T] if tokens[t] == stop { t } else { 0 });";
    let table = Values(9).array(&[5, 2]);
    let tokens = Array::<f64>::ids(&[4, 0, 2, 4]);
    let stop = Array::new(&[], Data::Id(vec![4])).expect("a scalar");
    let found = run(text, &[("table", float(&[5, 2], &table)), ("tokens", tokens), ("stop", stop)]);
    let table = wide(&table);
    let expected: Vec<f64> = [4, 0, 2, 4].iter().flat_map(|&t| table[t * 2..t * 2 + 2].to_vec()).collect();
    assert_close(&found[0].to_f64s(), &expected);
    assert_eq!(found[1].to_f64s(), [3.0]);
}
