//! Each construct of the language, and the graph that it becomes.

use std::collections::BTreeMap;

use fiddlehead_graph::lower::{LowerError, infer_sizes, lower_function};
use fiddlehead_graph::*;
use fiddlehead_lang::hir::Program;

fn program(text: &str) -> Program {
    match fiddlehead_lang::compile("test.fh", text) {
        Ok(program) => program,
        Err(errors) => panic!("{errors:?}"),
    }
}

fn sizes(given: &[(&str, i64)]) -> BTreeMap<String, i64> {
    given.iter().map(|(name, value)| (name.to_string(), *value)).collect()
}

fn lower(text: &str, given: &[(&str, i64)]) -> Graph {
    lower_function(&program(text), "main", &sizes(given)).expect("lowers")
}

/// The lines of the graph's text without heading, inputs and names.
fn lines(graph: &Graph) -> Vec<String> {
    let text = graph.to_string();
    let without_name = |line: &str| line.split("  //").next().unwrap_or(line).trim_start().to_string();
    let lines = text.lines().skip(1).map(without_name);
    lines.filter(|line| !line.starts_with("input ") && !line.starts_with("shared input ")).collect()
}

fn check(text: &str, given: &[(&str, i64)], expected: &str) {
    let found = lines(&lower(text, given)).join("\n");
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(found, expected.join("\n"), "\n{found}");
}

#[test]
fn a_linear_is_one_tensor() {
    check(
        "fn linear[N, K](w: f32[N, K], x: f32[K]) -> f32[N] = each[n in N] sum[k in K] w[n, k] * x[k];
         fn main[N, K](w: f32[N, K], x: f32[K]) -> f32[N] = compute bf16 { linear(w, x) };",
        &[("N", 3), ("K", 4)],
        "%0: f32[3, 4] = input w
         %1: f32[4] = input x
         %2: f32[3] = each[i in 3] compute bf16 sum[j in 4] %0[i, j] * %1[j]
         output result: %2",
    );
}

#[test]
fn a_value_in_a_loop_has_the_axes_that_it_uses() {
    // `scale` depends on h alone, so it is no tensor over h and i.
    check(
        "fn norm[N](x: f32[N]) -> f32[N] {
             let scale = rsqrt(sum[i in N] x[i] * x[i]);
             each[i in N] x[i] * scale
         }
         fn main[H, N](x: f32[H, N]) -> f32[H, N] = each[h in H] norm(x[h]);",
        &[("H", 2), ("N", 3)],
        "%0: f32[2, 3] = input x
         %1: f32[2] = each[i in 2] sum[j in 3] %0[i, j] * %0[i, j]
         %2: f32[2] = each[i in 2] rsqrt(%1[i])
         %3: f32[2, 3] = each[i in 2, j in 3] %0[i, j] * %2[i]
         output result: %3",
    );
}

#[test]
fn a_dependent_range_stays_one() {
    check(
        "fn main[T](x: f32[T]) -> f32[T] {
             let s = each[t in T, u in 0..=t] x[t] - x[u];
             each[t in T] max[u in 0..=t] s[t, u]
         }",
        &[("T", 4)],
        "%0: f32[4] = input x
         %1: f32[4, ..] = each[i in 4, j in 0..i + 1] %0[i] - %0[j]
         %2: f32[4] = each[i in 4] max[j in 0..i + 1] %1[i, j]
         output result: %2",
    );
}

#[test]
fn a_dependent_range_knows_its_bound() {
    let graph = lower("fn main[T](x: f32[T]) -> f32[T] = each[t in T] sum[u in 0..=t] x[u];", &[("T", 4)]);
    let NodeKind::Compute(compute) = &graph.nodes()[1].kind else { panic!("{graph}") };
    let fold = compute.fold.as_ref().expect("a fold");
    assert!(matches!(fold.axes[0], Range::Between { bound: Some(4), .. }), "{fold:?}");
}

#[test]
fn an_ordered_fold_keeps_its_order_and_its_accumulator() {
    check(
        "fn main[N, M](x: f32[N, M]) -> f32[N] =
             each[n in N] fold[m in M](acc = 1.0) { let y = acc * 0.5; y + x[n, m] };",
        &[("N", 2), ("M", 3)],
        "%0: f32[2, 3] = input x
         %1: f32[2] = each[i in 2] fold[j in 3](acc = 1.0) acc * 0.5 + %0[i, j]
         output result: %1",
    );
}

#[test]
fn a_tensor_inside_an_ordered_fold_cannot_depend_on_its_accumulator() {
    let text = "fn main[N](x: f32[N]) -> f32 =
        fold[n in N](acc = 0.0) (sum[m in N] acc * x[m]);";
    let error = lower_function(&program(text), "main", &sizes(&[("N", 2)])).unwrap_err();
    assert!(matches!(error, LowerError::Unsupported { .. }), "{error}");
    let span = error.span().expect("a place");
    assert!(text[span.start as usize..span.end as usize].contains("sum"), "{error}");
}

#[test]
fn what_only_one_arm_reads_is_guarded() {
    check(
        "fn main[N](x: f32[N], which: i32) -> f32 =
             if which > 0 { sum[n in N] x[n] } else { x[0] * 2.0 };",
        &[("N", 3)],
        "%0: f32[3] = input x
         %1: i32 = input which
         %2: f32 = when (0 < %1) sum[i in 3] %0[i]
         %3: f32 = if 0 < %1 { %2 } else { %0[0] * 2.0 }
         output result: %3",
    );
}

#[test]
fn an_arm_that_could_trap_is_guarded_over_the_axes_of_its_condition() {
    // The sum does not mention t, but only where t > 0 may the index be used.
    check(
        "fn main[T, N](x: f32[N], at: i32) -> f32[T] =
             each[t in T] if t > 0 { sum[n in 2] x[at + n] } else { 0.0 };",
        &[("T", 3), ("N", 4)],
        "%0: f32[4] = input x
         %1: i32 = input at
         %2: f32[3] = each[i in 3] when (0 < i) sum[j in 2] %0[j + %1]
         %3: f32[3] = each[i in 3] if 0 < i { %2[i] } else { 0.0 }
         output result: %3",
    );
}

#[test]
fn arrays_of_a_run_time_choice_are_chosen_element_by_element() {
    check(
        "fn main[N](a: f32[N], b: f32[N], which: i32) -> f32[N] = if which == 1 { a } else { b };",
        &[("N", 3)],
        "%0: f32[3] = input a
         %1: f32[3] = input b
         %2: i32 = input which
         %3: f32[3] = each[i in 3] if %2 == 1 { %0[i] } else { %1[i] }
         output result: %3",
    );
}

#[test]
fn sizes_are_numbers_and_literals_fold() {
    check(
        "fn main[H, G, K](x: f32[H, K], y: f32[G, K]) -> f32[H] =
             each[h in H] rsqrt(f32(K)) * (sum[k in K] x[h, k] * y[h / (H / G), k]);",
        &[("H", 4), ("G", 2), ("K", 16)],
        "%0: f32[4, 16] = input x
         %1: f32[2, 16] = input y
         %2: f32[4] = each[i in 4] sum[j in 16] %0[i, j] * %1[i / 2, j]
         %3: f32[4] = each[i in 4] 0.25 * %2[i]
         output result: %3",
    );
}

#[test]
fn a_static_parameter_chooses_before_planning() {
    check(
        "fn pick[H, G](h: i32, x: f32[G], static interleaved: bool) -> f32 =
             if interleaved { x[h % G] } else { x[h / (H / G)] };
         fn main(x: f32[2]) -> f32[4] = each[h in 4] pick[4, 2](h, x, true);",
        &[],
        "%0: f32[2] = input x
         %1: f32[4] = each[i in 4] %0[i % 2]
         output result: %1",
    );
}

#[test]
fn gathers_and_experts() {
    check(
        "fn main[E, F, D](router: f32[E], down: f32[E, D, F], x: f32[F]) -> f32[D] {
             let (w, e) = top[2](router);
             each[d in D] sum[j in 2] w[j] * (sum[f in F] down[e[j], d, f] * x[f])
         }",
        &[("E", 4), ("F", 3), ("D", 5)],
        "%0: f32[4] = input router
         %1: f32[4, 5, 3] = input down
         %2: f32[3] = input x
         %3: f32[2] = top[2](%0).values
         %4: i32[2] = top[2](%0).indices
         %5: f32[5, 2] = each[i in 5, j in 2] sum[k in 3] %1[%4[j], i, k] * %2[k]
         %6: f32[5] = each[i in 5] sum[j in 2] %3[j] * %5[i, j]
         output result: %6",
    );
}

#[test]
fn top_of_each_row_is_one_top() {
    check(
        "fn main[T, E](x: f32[T, E]) -> i32[T] = each[t in T] { let (v, i) = top[1](x[t]); i[0] };",
        &[("T", 2), ("E", 3)],
        "%0: f32[2, 3] = input x
         %1: f32[2, 3] = each[i in 2, j in 3] %0[i, j]
         %2: f32[2, 1] = top[1](%1).values
         %3: i32[2, 1] = top[1](%1).indices
         %4: i32[2] = each[i in 2] %3[i, 0]
         output result: %4",
    );
}

#[test]
fn a_step_has_states_and_histories_by_call_path() {
    check(
        "step fn decay[C](x: f32[C]) -> f32[C] {
             state s: f32[C] = 0.0;
             s' = each[c in C] 0.5 * s[c] + x[c];
             each[c in C] s'[c]
         }
         step fn conv[C](x: f32[C], w: f32[C, 4]) -> f32[C] {
             history xs = x;
             each[c in C] sum[j in 4] w[c, j] * xs[here - 3 + j][c]
         }
         step fn main[C](x: f32[C], w: f32[C, 4]) -> f32[C] = decay(conv(decay(x), w));",
        &[("C", 2)],
        "%0: f32[2] = input x
         %1: f32[2, 4] = input w
         %2: f32[2] = each[i in 2] 0.0
         %3: f32[2] = state decay.0/s
         %4: f32[2] = each[i in 2] 0.5 * %3[i] + %0[i]
         %5: f32[2] = each[i in 2] sum[j in 4] %1[i, j] * conv.0/xs[j + here - 3][i]
         %6: f32[2] = each[i in 2] 0.0
         %7: f32[2] = state decay.1/s
         %8: f32[2] = each[i in 2] 0.5 * %7[i] + %5[i]
         state decay.0/s: f32[2] = %2, then %4
         state decay.1/s: f32[2] = %6, then %8
         history conv.0/xs: %4
         output result: %8",
    );
}

#[test]
fn attention_over_the_path() {
    check(
        "step fn main[K](q: f32[K], k: f32[K], v: f32[K]) -> f32[K] {
             history ks = k;
             history vs = v;
             let s = each[t in path] sum[i in K] q[i] * ks[t][i];
             let m = max[t in path] s[t];
             let p = each[t in path] exp(s[t] - m);
             each[i in K] (sum[t in path] p[t] * vs[t][i]) / (sum[t in path] p[t])
         }",
        &[("K", 4)],
        "%0: f32[4] = input q
         %1: f32[4] = input k
         %2: f32[4] = input v
         %3: f32[..] = each[i in 0..here + 1] sum[j in 4] %0[j] * ks[i][j]
         %4: f32 = max[i in 0..here + 1] %3[i]
         %5: f32[..] = each[i in 0..here + 1] exp(%3[i] - %4)
         %6: f32[4] = each[i in 4] sum[j in 0..here + 1] %5[j] * vs[j][i]
         %7: f32 = sum[i in 0..here + 1] %5[i]
         %8: f32[4] = each[i in 4] %6[i] / %7
         history ks: %1
         history vs: %2
         output result: %8",
    );
}

#[test]
fn a_scan_is_a_graph_of_its_own() {
    check(
        "fn main[T, D](x: f32[T, D], w: f32[D]) -> f32[T] =
             scan[t in T](h = w) {
                 let y = each[d in D] 0.5 * h[d] + x[t, d];
                 emit sum[d in D] y[d];
                 next y
             };",
        &[("T", 3), ("D", 2)],
        "%0: f32[3, 2] = input x
         %1: f32[2] = input w
         %2: f32 = scan 0..3 of (%1, %0)
         result 0: emit emit, at most 3
         body scan
         %0: f32[2] = input w.0
         %1: f32[2] = state h
         %2: f32[3, 2] = input x.1
         %3: f32[2] = each[i in 2] 0.5 * %1[i] + %2[here, i]
         %4: f32 = sum[i in 2] %3[i]
         state h: f32[2] = %0, then %3
         output emit: %4
         %3: f32[3] = result 0 of %2
         output result: %3",
    );
}

const GENERATE: &str = "
    step fn token_step[V, D](token: id, at: i32, embed: f32[V, D]) -> f32[V] {
        state s: f32[D] = 0.0;
        s' = each[d in D] 0.5 * s[d] + embed[token, d];
        history ks = embed[token];
        let c = each[d in D] sum[t in path] ks[t][d];
        each[v in V] sum[d in D] embed[v, d] * (s'[d] + c[d])
    }
    fn main[P, N, V, D](prompt: id[P], embed: f32[V, D]) -> id[N] =
        scan[t in P + N - 1](last = prompt[0]) {
            let logits = token_step(if t < P { prompt[t] } else { last }, t, embed);
            let best = argmax(logits);
            emit_if(t >= P - 1, best);
            next best
        };";

#[test]
fn the_natural_loop_splits_into_prefill_and_decode() {
    use fiddlehead_graph::rewrite::{optimise, split_loop};
    let graph = optimise(&lower(GENERATE, &[("P", 5), ("N", 3), ("V", 7), ("D", 4)]));
    let scans: Vec<&Scan> = graph
        .nodes()
        .iter()
        .filter_map(|node| match &node.kind {
            NodeKind::Scan(scan) => Some(scan.as_ref()),
            _ => None,
        })
        .collect();
    assert_eq!(scans.len(), 1);
    let body = scans[0].body.to_string();
    assert!(body.contains("state token_step.0/s:") && body.contains("history token_step.0/ks:"), "{body}");
    let pieces = split_loop(scans[0]);
    let found: Vec<_> = pieces.iter().map(|piece| (piece.turns.clone(), piece.parallel)).collect();
    assert_eq!(found, [(0..4, true), (4..5, true), (5..7, false)]);
    assert!(!pieces[0].body.to_string().contains("argmax"), "{}", pieces[0].body);
}

fn infer(text: &str, shapes: &[(&str, &[usize])], given: &[(&str, i64)]) -> Result<String, String> {
    let shapes = shapes.iter().map(|(name, shape)| (name.to_string(), shape.to_vec())).collect();
    let found = infer_sizes(&program(text), "main", &shapes, &sizes(given));
    let shown = |found: BTreeMap<String, i64>| {
        found.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    found.map(shown).map_err(|error| error.to_string())
}

#[test]
fn sizes_are_solved_and_conflicts_named() {
    let conv = "fn main[C, H, W](x: f32[C, H + 2, 2 * W + 1], y: f32[C]) -> f32 = x[0, 0, 0] + y[0];";
    let ok = |text: &str| Ok(text.to_string());
    let no = |text: &str| Err(text.to_string());
    assert_eq!(infer(conv, &[("x", &[3, 6, 9]), ("y", &[3])], &[]), ok("C=3 H=4 W=4"));
    assert_eq!(infer(conv, &[("x", &[3, 6, 9])], &[("H", 4)]), ok("C=3 H=4 W=4"));
    assert_eq!(infer(conv, &[("y", &[3])], &[("H", 4), ("W", 1)]), ok("C=3 H=4 W=1"));
    assert_eq!(
        infer(conv, &[("x", &[3, 6, 9]), ("y", &[4])], &[]),
        no("the size C is 3 by axis 0 of input `x`, and 4 by axis 0 of input `y`")
    );
    assert_eq!(
        infer(conv, &[("x", &[3, 6, 9])], &[("H", 5)]),
        no("the size H + 2 is 7 by --dim, and 6 by axis 1 of input `x`")
    );
    assert_eq!(
        infer(conv, &[("x", &[3, 6, 8])], &[]),
        no("axis 2 of input `x` is 8, and no W from 1 makes 2 * W + 1 that")
    );
    assert_eq!(
        infer(conv, &[("x", &[3, 2, 9])], &[]),
        no("axis 1 of input `x` is 2, and no H from 1 makes H + 2 that")
    );
    assert_eq!(
        infer(conv, &[("y", &[3])], &[]),
        no("the size H is not known: no input tells it; give it with --dim H=NUMBER")
    );
    assert_eq!(infer(conv, &[("x", &[3, 2])], &[]), no("input `x` has 2 axes, the program declares 3"));
    assert_eq!(infer(conv, &[("z", &[3])], &[]), no("`z` is no input of `main`"));
    assert_eq!(infer(conv, &[], &[("Z", 3)]), no("`Z` is no size of `main`"));
    assert_eq!(infer(conv, &[], &[("H", 0)]), no("the size H is 0; a size is from 1 to 2147483647"));
    // A size known from a later input solves an earlier one.
    let product = "fn main[N, M](x: f32[N * M], y: f32[M]) -> f32 = x[0] + y[0];";
    assert_eq!(infer(product, &[("x", &[12]), ("y", &[4])], &[]), ok("M=4 N=3"));
}

#[test]
fn doubling_calls_end_in_an_error() {
    let mut text = String::from("fn g0(x: f32) -> f32 = exp(x);\n");
    for level in 1..40 {
        text += &format!("fn g{level}(x: f32) -> f32 = g{}(x) + g{}(x + 1.0);\n", level - 1, level - 1);
    }
    text += "fn main(x: f32) -> f32 = g39(x);";
    let error = lower_function(&program(&text), "main", &BTreeMap::new()).unwrap_err();
    assert!(matches!(error, LowerError::TooLarge { .. }), "{error}");
}

#[test]
fn deep_nesting_ends_in_an_error() {
    let wrappers = [
        ("exp(", ")"),
        ("(if x > 0.0 { ", " } else { x })"),
        ("sum[i in 2] (", ")"),
        ("{ let y = ", "; y }"),
        ("(fold[i in 2](acc = x) ", ")"),
    ];
    for (open, close) in wrappers {
        let nested = |inner: &str| format!("{}{inner}{}", open.repeat(25), close.repeat(25));
        let mut text = format!("fn g0(x: f32) -> f32 = {};\n", nested("x"));
        for level in 1..60 {
            text += &format!("fn g{level}(x: f32) -> f32 = {};\n", nested(&format!("g{}(x)", level - 1)));
        }
        text += "fn main(x: f32) -> f32 = g59(x);";
        let error = lower_function(&program(&text), "main", &BTreeMap::new()).unwrap_err();
        assert!(matches!(error, LowerError::TooLarge { .. }), "{open}: {error}");
    }
}

#[test]
fn doubling_results_stay_small() {
    let mut text = String::from("fn g0(i: i32) -> i32 = i * i;\n");
    for level in 1..12 {
        text += &format!("fn g{level}(i: i32) -> i32 = max(g{0}(i) * i, g{0}(i * i + 1));\n", level - 1);
    }
    text += "fn main(x: i32) -> i32 = g11(x);";
    let graph = lower_function(&program(&text), "main", &BTreeMap::new()).expect("lowers");
    for node in graph.nodes() {
        if let NodeKind::Compute(compute) = &node.kind {
            let mut parts = 0;
            compute.body.visit(&mut |_| parts += 1);
            assert!(parts < 1000, "{parts}");
        }
    }
}

#[test]
fn what_is_not_there_is_said() {
    let program = program("fn main[N](x: f32[N]) -> f32 = x[0];");
    let error = |name: &str, given: &[(&str, i64)]| {
        lower_function(&program, name, &sizes(given)).unwrap_err().to_string()
    };
    assert_eq!(error("other", &[]), "the program has no function `other`");
    assert_eq!(error("main", &[]), "the size N is not known: no input tells it; give it with --dim N=NUMBER");
    assert_eq!(error("main", &[("N", -1)]), "the size N is -1; a size is from 1 to 2147483647");
}

#[test]
fn more_greatest_elements_than_elements_are_refused() {
    let text = "fn main[N](x: f32[N]) -> (f32[8], i32[8]) = top[8](x);";
    assert!(lower_function(&program(text), "main", &sizes(&[("N", 8)])).is_ok());
    let refused = lower_function(&program(text), "main", &sizes(&[("N", 3)])).expect_err("too few");
    assert_eq!(refused.to_string(), "`top[8]` of 3 elements: the size is too small");
    assert!(refused.span().is_some());
}

#[test]
fn every_tensor_of_a_program_has_a_name_for_messages() {
    let graph = lower("fn main[N](x: f32[N]) -> f32[N] = each[i in N] x[i] * sum[j in N] x[j];", &[("N", 3)]);
    assert!(graph.nodes().iter().all(|node| !node.origin.name.is_empty()), "{graph}");
}
