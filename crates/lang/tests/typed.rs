//! What right programs become: conversions, sizes, names and counts made explicit.

use fiddlehead_lang::{compile, dump};

fn check(text: &str, expected: &str) {
    match compile("test.fh", text) {
        Ok(program) => assert_eq!(dump::text(&program).trim(), expected.trim(), "of\n{text}"),
        Err(messages) => panic!("{}", messages.render(false)),
    }
}

#[test]
fn sizes_become_floats_where_floats_are() {
    check(
        "fn f[D](x: f32[D]) -> f32 = sum[i in D] x[i] * x[i] / D + 1;",
        "fn f[D](x: f32[D]) -> f32 = ((sum[i in D] ((x[i] * x[i]) / f32(D))) + f32(1));",
    );
    check("fn f[D](x: f32) -> f32 = rsqrt(D) * x;", "fn f[D](x: f32) -> f32 = (rsqrt(f32(D)) * x);");
    check(
        "fn f[D](x: f32) -> f32 = if x > 0 { 2 * D } else { x };",
        "fn f[D](x: f32) -> f32 = if (x > f32(0)) { f32((2 * D)) } else { x };",
    );
}

#[test]
fn integer_literals_and_sizes_are_one() {
    check(
        "fn f[H, G](h: i32) -> i32 = h / (H / G) + 2 * 3 - -1 + H % 2;",
        "fn f[H, G](h: i32) -> i32 = ((((h / ((H / G))) + 6) - (-1)) + (H % 2));",
    );
}

#[test]
fn a_folds_body_is_one_term() {
    check(
        "fn f[N](x: f32[N]) -> f32 = 2 * sum[i in N] x[i] * x[i] - max[i in N] -x[i] / 3.0;",
        "fn f[N](x: f32[N]) -> f32 = ((f32(2) * (sum[i in N] (x[i] * x[i]))) - (max[i#2 in N] (-(x[i#2]) / 3.0)));",
    );
    check(
        "fn f[N](x: f32[N]) -> f32 = fold[i in N](a = 0.0) a * 0.5 + x[i];",
        "fn f[N](x: f32[N]) -> f32 = fold[i in N](a = 0.0) ((a * 0.5) + x[i]);",
    );
    check(
        "fn f[N](x: f32[N]) -> bool = all[i in N] (x[i] > 0.0) && true;",
        "fn f[N](x: f32[N]) -> bool = ((all[i in N] (x[i] > 0.0)) && true);",
    );
}

#[test]
fn calls_have_their_sizes() {
    check(
        "fn half[N](x: f32[2 * N]) -> f32[N] = each[i in N] x[2 * i];
fn f[K](x: f32[4 * K + 2]) -> f32[2 * K + 1] = half(x);
fn ones[N]() -> f32[N] = each[i in N] 1.0;
fn g[K]() -> f32[K + 1] = ones[K + 1]();",
        "fn half[N](x: f32[2 * N]) -> f32[N] = each[i in N] x[(2 * i)];
fn f[K](x: f32[4 * K + 2]) -> f32[2 * K + 1] = half[2 * K + 1](x);
fn ones[N]() -> f32[N] = each[i in N] 1.0;
fn g[K]() -> f32[K + 1] = ones[K + 1]();",
    );
}

#[test]
fn whole_array_arithmetic_is_written_out() {
    check(
        "fn f[N](x: f32[N], y: f32[N]) -> f32[N] = exp(x) + 2 * y;",
        "fn f[N](x: f32[N], y: f32[N]) -> f32[N] = {
    let $operand = each[$axis in N] exp(x[$axis]);
    let $operand#6 = each[$axis#3 in N] (f32(2) * y[$axis#3]);
    each[$axis#4 in N] ($operand[$axis#4] + $operand#6[$axis#4])
};",
    );
}

#[test]
fn subarrays_and_merged_indices() {
    check(
        "fn f[N, M](x: f32[N, M], t: id) -> f32[M] = { let y = x[t][0]; x[t] };",
        "fn f[N, M](x: f32[N, M], t: id) -> f32[M] = {
    let y = x[t, 0];
    x[t]
};",
    );
    check(
        "step fn f[C](x: f32[C, 2]) -> f32 { history xs = x; xs[here - 1][0, 1] + xs[here, 0][1] + sum[t in path] xs[t, 0, 0] }",
        "step fn f[C](x: f32[C, 2]) -> f32 = {
    history xs: f32[C, 2] = x;
    ((xs[(here - 1)][0, 1] + xs[here][0, 1]) + (sum[t in path] xs[t][0, 0]))
};",
    );
}

#[test]
fn scans_know_their_count() {
    check(
        "fn f[P, N](x: f32[P]) -> f32[N] = scan[t in P + N - 1](last = x[0]) {
    let y = if t < P { x[t] } else { last };
    emit_if(t >= P - 1, y);
    next y * 0.5
};",
        "fn f[P, N](x: f32[P]) -> f32[N] = scan[t from 0 turns P + N - 1](last = x[0]) {
    let y = if (t < P) { x[t] } else { last };
    emit exactly N if (t >= (P - 1)): y
    next ((y * 0.5))
};",
    );
    check(
        "fn f[T](x: f32[T]) -> (f32[T, 2], i32) = scan[t in 1..T] { emit_if[T](x[t] > 0.0, each[i in 2] x[t - i]) };",
        "fn f[T](x: f32[T]) -> (f32[T, 2], i32) = scan[t from 1 turns T - 1]() {
    emit at most T if (x[t] > 0.0): each[i in 2] x[(t - i)]
};",
    );
    check(
        "fn pair(a: f32, b: f32) -> (f32, f32) = (b, a + b);
fn f[T]() -> (f32, f32) = scan[t in T](a = 0.0, b = 1.0) { next pair(a, b) };",
        "fn pair(a: f32, b: f32) -> (f32, f32) = (b, (a + b));
fn f[T]() -> (f32, f32) = scan[t from 0 turns T](a = 0.0, b = 1.0) {
    let ($next, $next#4) = pair(a, b);
    next ($next, $next#4)
};",
    );
}

#[test]
fn states_have_two_values() {
    check(
        "step fn f[N](x: f32[N]) -> f32 { state s: f32[N] = 0; let a = s[0]; s' = each[i in N] s[i] + x[i]; a + s'[0] }",
        "step fn f[N](x: f32[N]) -> f32 = {
    state s: f32[N] = f32(0);
    let a = s[0];
    s' = each[i in N] (s[i] + x[i]);
    (a + s'[0])
};",
    );
}

#[test]
fn layers_statics_and_models() {
    check(
        "model m {
    dims D, L;
    static wide: bool;
    const eps: f32;
    param embed: f32[D];
    param head: f32[D] else embed;
    layers[L] { param norm: f32[D]; static odd: bool; kind one { param w: f32[D]; } kind two { const c: f32; } }
    layer extra: one;
    fn first(x: f32[D], layer: one) -> f32[D] = each[i in D] if wide { x[i] * layer.w[i] } else { x[i] };
    step main(token: id) -> (y: f32[D]) {
        let x = for layer in layers(x = embed) {
            let a = match layer.kind { two => each[i in D] layer.c * x[i], one => first(x, layer) };
            next each[i in D] if layer.odd || L > 3 { a[i] } else { a[i] * layer.norm[i] + eps }
        };
        first(x, extra)
    }
}",
        "fn m.first(x: f32[D], layer: one) -> f32[D] = each[i in D] static if wide { (x[i] * layer.w[i]) } else { x[i] };
step fn m.main(token: id) -> f32[D] = {
    let x#6 = for layer in layers(x = embed) {
        let a = match layer.kind { first(x, layer), each[i in D] (layer.c * x[i]) };
        next (each[i#5 in D] static if (layer.odd || (L > 3)) { a[i#5] } else { ((a[i#5] * layer.norm[i#5]) + eps) })
    };
    first(x#6, extra)
};",
    );
}

#[test]
fn compute_lists_and_top() {
    check(
        "fn f[N](x: f32[N]) -> f32 = compute q8 | bf16 { let (v, i) = top[2](x); v[1] * f32(i[1]) };",
        "fn f[N](x: f32[N]) -> f32 = compute [Bf16, Q8] { {
    let (v, i) = top[2](x);
    (v[1] * f32(i[1]))
} };",
    );
    check(
        "fn f[N](x: f32[N]) -> id = argmax(x); fn g[N](x: f32[N]) -> id = argmax[i in N] -x[i];",
        "fn f[N](x: f32[N]) -> id = (argmax[$axis in N] x[$axis]);
fn g[N](x: f32[N]) -> id = (argmax[i in N] -(x[i]));",
    );
}
