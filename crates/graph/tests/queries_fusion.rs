//! What rides on a contraction: programs written differently that are equal, and near misses with their reasons.

use std::collections::BTreeMap;

use fiddlehead_graph::lower::lower_function;
use fiddlehead_graph::queries::*;
use fiddlehead_graph::*;

const LINEAR: &str =
    "fn linear[N, K](w: f32[N, K], x: f32[K]) -> f32[N] = each[n in N] sum[k in K] w[n, k] * x[k];\n";

/// Names of the nodes of contractions' fusions: `joined + site > epilogue < prologue`, in the order of the sites.
fn found(text: &str) -> (Vec<String>, Vec<String>) {
    let program = fiddlehead_lang::compile("test.fh", &format!("{LINEAR}{text}"))
        .unwrap_or_else(|errors| panic!("{errors:?}"));
    let sizes = [("D", 8), ("F", 12), ("H", 3), ("K", 4)];
    let declares = |name: &str| {
        let main =
            text.split("fn main[").nth(1).and_then(|rest| rest.split(']').next()).expect("main's sizes");
        main.split(", ").any(|declared| declared == name)
    };
    let sizes: BTreeMap<String, i64> = sizes
        .iter()
        .filter(|(name, _)| declares(name))
        .map(|(name, size)| (name.to_string(), *size))
        .collect();
    let graph = rewrite::optimise(&lower_function(&program, "main", &sizes).expect("it lowers"));
    let sites = assign_sites(&graph);
    let (fused, refusals) = fusions(&graph, &sites);
    let is_contraction = |node: NodeId| {
        sites.owner[node.index()].is_some_and(|owner| matches!(sites.sites[owner.0], Site::Contraction(_)))
    };
    let shapes = |nodes: &[NodeId]| {
        let dims = |node: &NodeId| format!("{:?}", graph.shape(*node).expect("fixed"));
        nodes.iter().map(dims).collect::<Vec<_>>().join(" ")
    };
    let told = fused
        .iter()
        .filter(|fusion| is_contraction(fusion.site))
        .map(|fusion| {
            let joined = fusion.joined.as_ref().map_or(String::new(), |joined| {
                format!("{} with {} ", shapes(&[joined.site]), joined.epilogue.len())
            });
            let prologue = match fusion.prologue.len() {
                0 => String::new(),
                many => format!(" < {many}"),
            };
            format!("{joined}{} > {}{prologue}", shapes(&[fusion.site]), shapes(&fusion.epilogue))
        })
        .collect();
    (told, refusals.iter().map(|refusal| refusal.why.clone()).collect())
}

/// The fusions of a program, which has no near miss.
fn fused(text: &str) -> Vec<String> {
    let (told, refusals) = found(text);
    assert!(refusals.is_empty(), "{refusals:?}");
    told
}

/// The one reason of a program whose contractions have no epilogue.
fn refused(text: &str) -> String {
    let (told, refusals) = found(text);
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    refusals[0].clone()
}

#[test]
fn a_residual_and_a_bias_ride_however_they_are_written() {
    let wanted = ["[8] > [8]"];
    for text in [
        "fn main[D](x: f32[D], w: f32[D, D], b: f32[D]) -> f32[D] {
            let y = linear(w, x);
            each[d in D] x[d] + y[d] + b[d]
        }",
        "fn main[D](x: f32[D], w: f32[D, D], b: f32[D]) -> f32[D] =
            each[d in D] b[d] + ((sum[k in D] x[k] * w[d, k]) + x[d]);",
    ] {
        assert_eq!(fused(text), wanted, "{text}");
    }
}

#[test]
fn another_shape_of_as_many_elements_rides() {
    let split = "fn main[D, H, K](x: f32[D], w: f32[H * K, D], b: f32[K]) -> f32[H, K] {
        let y = linear(w, x);
        each[h in H, i in K] tanh(y[h * K + i]) + b[i]
    }";
    assert_eq!(fused(split), ["[12] > [3, 4]"]);
    let flat = "fn main[D, H, K](x: f32[D], w: f32[H, K, D]) -> f32[H * K] {
        let y = each[h in H, i in K] sum[d in D] w[h, i, d] * x[d];
        each[c in H * K] exp(y[c / K, c % K])
    }";
    assert_eq!(fused(flat), ["[3, 4] > [12]"]);
}

#[test]
fn gate_and_up_are_one_kernel() {
    for text in [
        "fn main[D, F](x: f32[D], gate: f32[F, D], up: f32[F, D]) -> f32[F] {
            let g = linear(gate, x);
            let u = linear(up, x);
            each[f in F] silu(g[f]) * u[f]
        }",
        "fn main[D, F](x: f32[D], gate: f32[F, D], up: f32[F, D]) -> f32[F] {
            let u = linear(up, x);
            let g = linear(gate, x);
            each[f in F] u[f] * silu(g[f])
        }",
        "fn main[D, F](x: f32[D], gate: f32[F, D], up: f32[F, D]) -> f32[F] =
            each[f in F] silu(sum[d in D] gate[f, d] * x[d]) * (sum[d in D] x[d] * up[f, d]);",
    ] {
        assert_eq!(fused(text), ["[12] with 0 [12] > [12]"], "{text}");
    }
}

#[test]
fn an_intermediate_that_only_the_chain_reads_may_be_read_twice() {
    let text = "fn main[D, F](x: f32[D], w: f32[F, D]) -> f32[F] {
        let p = linear(w, x);
        let s = each[f in F] sigmoid(p[f]);
        each[f in F] p[f] * s[f] + s[f]
    }";
    let (told, refusals) = found(text);
    assert!(refusals.is_empty(), "{refusals:?}");
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("[12] > [12]"), "{told:?}");
}

#[test]
fn a_result_that_is_needed_elsewhere_keeps_its_memory() {
    let output = "fn main[D, F](x: f32[D], w: f32[F, D]) -> (f32[F], f32[F]) {
        let y = linear(w, x);
        (y, each[f in F] exp(y[f]))
    }";
    assert!(refused(output).contains("is an output, a state or a row of a history"));
    let summed = "fn main[D, F](x: f32[D], w: f32[F, D]) -> (f32, f32[F]) {
        let y = linear(w, x);
        (max[f in F] y[f], each[f in F] exp(y[f]))
    }";
    assert!(refused(summed).contains("too"));
}

#[test]
fn reads_at_other_places_do_not_ride() {
    let turned = "fn main[D, F](x: f32[D], w: f32[F, D]) -> f32[F] {
        let y = linear(w, x);
        each[f in F] y[f] - y[(f + 1) % F]
    }";
    assert!(refused(turned).contains("at other places than its own"));
    let transposed = "fn main[D, H, K](x: f32[D], w: f32[H * K, D]) -> f32[K, H] {
        let y = linear(w, x);
        each[i in K, h in H] exp(y[h * K + i])
    }";
    assert!(refused(transposed).contains("at other places than its own"));
    let broadcast = "fn main[D, F](x: f32[D], w: f32[F, D]) -> f32[3, F] {
        let y = linear(w, x);
        each[t in 3, f in F] exp(y[f]) * f32(t)
    }";
    assert!(refused(broadcast).contains("another number of elements"));
}

#[test]
fn contractions_over_other_axes_are_not_joined() {
    let text = "fn main[D, F](x: f32[D], z: f32[F], gate: f32[F, D], up: f32[F, F]) -> f32[F] {
        let g = linear(gate, x);
        let u = linear(up, z);
        each[f in F] silu(g[f]) * u[f]
    }";
    let (told, refusals) = found(text);
    assert_eq!(told, ["[12] > [12]"]);
    assert_eq!(refusals.len(), 1);
    assert!(refusals[0].contains("waits for"), "{refusals:?}");
}

#[test]
fn an_activation_that_one_contraction_reads_rides_before_it() {
    let text = "fn main[D, F](x: f32[D], s: f32[D], w: f32[F, 2 * D]) -> f32[F] {
        let both = each[i in 2 * D] if i < D { x[i] } else { s[i - D] };
        linear(w, both)
    }";
    assert_eq!(fused(text), ["[12] >  < 1"]);
    let twice =
        "fn main[D, F](x: f32[D], s: f32[D], w: f32[F, 2 * D], u: f32[F, 2 * D]) -> (f32[F], f32[F]) {
        let both = each[i in 2 * D] if i < D { x[i] } else { s[i - D] };
        (linear(w, both), linear(u, both))
    }";
    assert_eq!(fused(twice), [""; 0]);
}
