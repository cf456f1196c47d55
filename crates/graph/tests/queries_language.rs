//! Differently written but equal programs, as text, find the same sites.

use std::collections::BTreeMap;

use fiddlehead_graph::lower::lower_function;
use fiddlehead_graph::queries::*;
use fiddlehead_graph::*;

/// The kinds of a program's sites in order, letters: A attention, R recurrence, W window, C contraction, r reduction,
/// g gather, t top, e elementwise, s loop, ? general.
fn cover(text: &str, entry: &str, sizes: &[(&str, i64)]) -> (String, Sites, Graph) {
    let program = fiddlehead_lang::compile("test.fh", text).unwrap_or_else(|errors| panic!("{errors:?}"));
    let sizes: BTreeMap<String, i64> = sizes.iter().map(|(name, size)| (name.to_string(), *size)).collect();
    let graph = rewrite::optimise(&lower_function(&program, entry, &sizes).expect("it lowers"));
    let sites = assign_sites(&graph);
    let letters = sites
        .sites
        .iter()
        .map(|site| match site {
            Site::Attention(_) => 'A',
            Site::Recurrence(_) => 'R',
            Site::Window(_) => 'W',
            Site::Contraction(_) => 'C',
            Site::Reduction(_) => 'r',
            Site::Gather(_) => 'g',
            Site::Top(_) => 't',
            Site::Chain(_) => 'e',
            Site::Scan(_) => 's',
            Site::General(_) => '?',
        })
        .collect();
    (letters, sites, graph)
}

const LINEAR: &str =
    "fn linear[N, K](w: f32[N, K], x: f32[K]) -> f32[N] = each[n in N] sum[k in K] w[n, k] * x[k];\n";

#[test]
fn gate_and_up_apart_or_in_one_weight() {
    let apart = "
        fn main[D, F](x: f32[D], gate: f32[F, D], up: f32[F, D], down: f32[D, F]) -> f32[D] {
            let g = linear(gate, x);
            let u = linear(up, x);
            linear(down, each[f in F] silu(g[f]) * u[f])
        }";
    let (letters, sites, graph) = cover(&format!("{LINEAR}{apart}"), "main", &[("D", 8), ("F", 12)]);
    assert_eq!(letters, "CCeC");
    let found: Vec<Contraction> = contractions(&graph).0;
    assert_eq!(merges(&graph, &found).len(), 1);
    // The activation rides on the second product.
    let (fused, _) = fusions(&graph, &sites);
    assert_eq!(fused.len(), 1, "{fused:?}");
    assert_eq!((fused[0].site, fused[0].epilogue.len()), (found[1].node, 1));

    let split = "
        fn main[D, F](x: f32[D], gate_up: f32[2 * F, D], down: f32[D, F]) -> f32[D] {
            let gu = linear(gate_up, x);
            linear(down, each[f in F] silu(gu[f]) * gu[F + f])
        }";
    assert_eq!(cover(&format!("{LINEAR}{split}"), "main", &[("D", 8), ("F", 12)]).0, "CeC");

    let interleaved = "
        fn main[D, F](x: f32[D], gate_up: f32[2 * F, D], down: f32[D, F]) -> f32[D] {
            let g = each[f in F] sum[d in D] gate_up[2 * f, d] * x[d];
            let u = each[f in F] sum[d in D] x[d] * gate_up[2 * f + 1, d];
            each[d in D] sum[f in F] down[d, f] * silu(g[f]) * u[f]
        }";
    let (letters, _, graph) = cover(interleaved, "main", &[("D", 8), ("F", 12)]);
    assert_eq!(letters, "CCC");
    let runs: Vec<_> = contractions(&graph)
        .0
        .iter()
        .map(|found| found.as_rows_times_weight(&graph).expect("rows times a weight").single_run())
        .collect();
    assert_eq!(runs, [Some((0, 2, 12)), Some((1, 2, 12)), Some((0, 1, 8))]);
}

#[test]
fn queries_keys_and_values_from_one_weight() {
    let attend = "
        step fn attend[H, G, K](q: f32[H, K], k: f32[G, K], v: f32[G, K]) -> f32[H, K] {
            history ks = k;
            history vs = v;
            let s = each[h in H, t in path] rsqrt(f32(K)) * sum[i in K] q[h, i] * ks[t][h / (H / G), i];
            let m = each[h in H] max[t in path] s[h, t];
            let p = each[h in H, t in path] exp(s[h, t] - m[h]);
            each[h in H, i in K] (sum[t in path] p[h, t] * vs[t][h / (H / G), i]) / (sum[t in path] p[h, t])
        }";
    let merged = "
        step fn block[D, H, G, K](x: f32[D], qkv: f32[H * K + 2 * G * K, D]) -> f32[H, K] {
            let y = linear(qkv, x);
            attend(
                each[h in H, i in K] y[h * K + i],
                each[g in G, i in K] y[H * K + g * K + i],
                each[g in G, i in K] y[H * K + G * K + g * K + i],
            )
        }";
    let sizes = [("D", 8), ("H", 4), ("G", 2), ("K", 6)];
    let (letters, sites, _) = cover(&format!("{LINEAR}{attend}{merged}"), "block", &sizes);
    assert_eq!(letters.replace('e', ""), "CA");
    assert_eq!(sites.histories, [HistoryStorage::Whole, HistoryStorage::Whole]);

    // Whole rows of the projection in one history, read in parts.
    let one_history = "
        step fn block[D, H, G, K](x: f32[D], qkv: f32[H * K + 2 * G * K, D]) -> f32[H, K] {
            let y = linear(qkv, x);
            history ys = y;
            let s = each[h in H, t in path] sum[i in K] y[h * K + i] * ys[t][H * K + h / (H / G) * K + i];
            let p = each[h in H, t in path] exp(s[h, t] * rsqrt(f32(K)));
            let z = each[h in H] 1.0 / (sum[t in path] p[h, t]);
            each[h in H, i in K] sum[t in path] p[h, t] * z[h] * ys[t][H * K + G * K + h / (H / G) * K + i]
        }";
    assert_eq!(cover(&format!("{LINEAR}{one_history}"), "block", &sizes).0, "CA");
}

#[test]
fn convolutions_of_four_and_five_taps() {
    let convolution = |taps: usize| {
        format!(
            "step fn conv[C](x: f32[C], w: f32[C, {taps}]) -> f32[C] {{
                history xs = x;
                each[c in C] silu(sum[j in {taps}] w[c, j] * xs[here - {} + j][c])
            }}",
            taps - 1
        )
    };
    for taps in [4, 5] {
        let (letters, sites, _) = cover(&convolution(taps), "conv", &[("C", 8)]);
        assert_eq!(letters, "We");
        assert_eq!(sites.histories, [HistoryStorage::Ring { reach: taps }]);
    }
    let written_out = "
        step fn conv[C](x: f32[C], w: f32[3, C], b: f32[C]) -> f32[C] {
            history xs = x;
            each[c in C] silu(w[0, c] * xs[here - 2][c] + w[1, c] * xs[here - 1][c] + w[2, c] * x[c] + b[c])
        }";
    let (letters, sites, _) = cover(written_out, "conv", &[("C", 8)]);
    assert_eq!(letters, "W");
    assert_eq!(sites.histories, [HistoryStorage::Ring { reach: 3 }]);
}

#[test]
fn delta_rules() {
    let head = "step fn rule[H, K, V](q: f32[H, K], k: f32[H, K], v: f32[H, V], decay: f32[H], beta: f32[H]) -> f32[H, V] {\n";
    let bodies = [
        "state s: f32[H, K, V] = 0.0;
         let d = each[h in H, i in K, j in V] decay[h] * s[h, i, j];
         let u = each[h in H, j in V] beta[h] * (v[h, j] - sum[i in K] d[h, i, j] * k[h, i]);
         s' = each[h in H, i in K, j in V] d[h, i, j] + k[h, i] * u[h, j];
         each[h in H, j in V] sum[i in K] q[h, i] * s'[h, i, j] }",
        "state s: f32[H, V, K] = 0.0;
         let seen = each[h in H, j in V] sum[i in K] s[h, j, i] * k[h, i];
         s' = each[h in H, j in V, i in K]
            decay[h] * s[h, j, i] + (beta[h] * v[h, j] - beta[h] * decay[h] * seen[h, j]) * k[h, i];
         each[h in H, j in V] rsqrt(f32(K)) * sum[i in K] s'[h, j, i] * q[h, i] }",
        "state s: f32[H, K, V] = 0.0;
         let kb = each[h in H, i in K] beta[h] * k[h, i];
         let u = each[h in H, j in V] v[h, j] - sum[i in K] s[h, i, j] * k[h, i];
         s' = each[h in H, i in K, j in V] s[h, i, j] + kb[h, i] * u[h, j];
         each[h in H, j in V] sum[i in K] q[h, i] * s'[h, i, j] * decay[h] }",
    ];
    for body in bodies {
        let (letters, sites, _) = cover(&format!("{head}{body}"), "rule", &[("H", 2), ("K", 4), ("V", 3)]);
        // But for the first value of the state, and a key made on the way, all is one site.
        assert_eq!(letters.replace('e', ""), "R", "{:?}", sites.refusals);
        assert!(matches!(sites.recurrences[0].kind, RecurrenceKind::Delta(_)));
    }
}

#[test]
fn plain_functions() {
    let text = "
        fn conv2d[C, O, H, W](img: f32[C, H + 2, W + 2], ker: f32[O, C, 3, 3]) -> f32[O, H, W] =
            each[o in O, y in H, x in W] sum[c in C, dy in 3, dx in 3] img[c, y + dy, x + dx] * ker[o, c, dy, dx];
        fn matmul[M, N, K](a: f32[M, K], b: f32[K, N]) -> f32[M, N] =
            each[m in M, n in N] sum[k in K] a[m, k] * b[k, n];
        fn transposed[M, N, K](a: f32[M, K], b: f32[N, K]) -> f32[M, N] =
            each[m in M, n in N] sum[k in K] a[m, k] * b[n, k];
        fn softmax[N](x: f32[N]) -> f32[N] {
            let m = max[i in N] x[i];
            let e = each[i in N] exp(x[i] - m);
            each[i in N] e[i] / (sum[j in N] e[j])
        }
        fn causal_attention[T, D](q: f32[T, D], k: f32[T, D], v: f32[T, D]) -> f32[T, D] {
            let s = each[t in T, u in 0..=t] rsqrt(f32(D)) * sum[d in D] q[t, d] * k[u, d];
            let m = each[t in T] max[u in 0..=t] s[t, u];
            let p = each[t in T, u in 0..=t] exp(s[t, u] - m[t]);
            each[t in T, d in D] (sum[u in 0..=t] p[t, u] * v[u, d]) / (sum[u in 0..=t] p[t, u])
        }";
    let sizes = [("C", 2), ("O", 3), ("H", 4), ("W", 5), ("M", 4), ("N", 6), ("K", 7), ("T", 5), ("D", 3)];
    assert_eq!(cover(text, "conv2d", &sizes).0, "C");
    assert_eq!(cover(text, "matmul", &sizes).0, "C");
    assert_eq!(cover(text, "transposed", &sizes).0, "C");
    assert_eq!(cover(text, "softmax", &sizes).0, "rere");
    // Over arrays instead of a history: not an attention, and the refusal says why.
    let (letters, sites, _) = cover(text, "causal_attention", &sizes);
    assert!(!letters.contains('A'));
    assert!(sites.refusals.iter().any(|refusal| refusal.rule == Rule::Attention), "{:?}", sites.refusals);
}
