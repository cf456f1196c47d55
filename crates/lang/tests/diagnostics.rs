//! What is said about wrong programs: for each, `line:column rule: message`, all of them, in order.

use fiddlehead_lang::compile;

/// Compares all messages of a text, hints left out.
fn check(text: &str, expected: &[&str]) {
    let found: Vec<String> = match compile("test.fh", text) {
        Ok(_) => Vec::new(),
        Err(messages) => messages
            .items
            .iter()
            .map(|item| {
                let (line, column) = messages.source.line_and_column(item.span.start);
                format!("{line}:{column} {}: {}", item.rule.name(), item.message)
            })
            .collect(),
    };
    assert_eq!(found, expected, "in\n{text}");
}

/// Compares the hint of the one message of a text.
fn check_hint(text: &str, expected: &str) {
    let messages = compile("test.fh", text).expect_err("a message");
    assert_eq!(messages.items.len(), 1, "{messages}");
    assert_eq!(messages.items[0].hint.as_deref(), Some(expected));
}

#[test]
fn tokens() {
    check(
        "fn f(x: f32) -> f32 = x # 1;",
        &[
            "1:25 token: `#` is not part of the language",
            "1:27 syntax: expected `;` after the function's expression, found `1`",
        ],
    );
    check("fn f(x: f32) -> f32 = x * 1.0f;", &["1:27 token: `1.0f` is not a number"]);
    check("fn f(x: f32) -> f32 = x * 1e40;", &["1:27 token: the number is beyond the range of f32"]);
    check("fn f(x: i32) -> i32 = x * 3000000000;", &["1:27 token: the integer is beyond the range of i32"]);
}

#[test]
fn syntax_errors_are_all_reported() {
    check(
        "fn f(x: f32) -> f32 {
    let a = ;
    let b = x +;
    let c = (x;
    a
}
fn g(x f32) -> f32 = x;
fn h(x: f32) -> f32 = x
fn i(x: f32) -> f32 { let y = x y }
fn j(x: f32) -> f32 { x; }
fn k(x: f32) -> f32 { if x > 0.0 { x } }
fn l(x: f32) -> bool = 0.0 < x < 1.0;
fn m(x: f32) -> f32 { x = 2.0; x }
fn n(x: f32) -> f32 { let max = 1.0; max }
fn o(x: f32) -> f32 { let a = 1.0; }
fn p(x: f32) -> f32 { 1.0",
        &[
            "2:13 syntax: expected an expression, found `;`",
            "3:16 syntax: expected an expression, found `;`",
            "4:15 syntax: expected `,` or `)` after an expression, found `;`",
            "7:8 syntax: expected `:` and a type after the parameter's name, found `f32`",
            "8:23 syntax: expected `;` after the function's expression, found `fn`",
            "9:33 syntax: expected `;` at the end of `let`, found `y`",
            "10:23 syntax: this value is not used",
            "11:23 syntax: this `if` has no `else`",
            "12:32 syntax: comparisons do not chain",
            "13:25 syntax: only a state's outgoing value is assigned",
            "14:27 duplicate-name: `max` is a word of the language and cannot name a value",
            "15:36 syntax: this block has no value",
            "16:26 syntax: expected `}` at the end of a block, found the end of the text",
        ],
    );
}

#[test]
fn a_broken_declaration_does_not_hide_the_others() {
    check(
        "model m {
    dims D, L;
    param p f32[D];
    layers[L] { param a f32[D]; param b: f32[D]; kind k { param c f32; param d: f32[D]; } }
    step main(token: id) -> (y: f32[D]) = p;
}
fn f() -> f23 = 1.0;",
        &[
            "3:13 syntax: expected `:` and a type after the name, found `f32`",
            "4:25 syntax: expected `:` and a type after the name, found `f32`",
            "4:67 syntax: expected `:` and a type after the name, found `f32`",
            "5:43 unknown-name: `p` is not declared here",
            "7:11 unknown-name: `f23` is not a type here",
        ],
    );
}

#[test]
fn a_broken_function_is_still_known() {
    check(
        "fn f(x: f32) -> f32 = x +;
fn g(x: f32) -> f32 = f(x);",
        &["1:26 syntax: expected an expression, found `;`"],
    );
}

#[test]
fn names() {
    check(
        "fn f[N](x: f32[N]) -> f32 = sum[i in M] x[i];
fn g(x: f32[N]) -> f32 = sum[i in N] x[i];
fn h[N](y: f32[N]) -> f32 = (sum[i in N] y[j]) + summ(y);
fn h(x: f32) -> f32 = x;
fn exp(x: f32) -> f32 = x;
fn k(x: f32, x: f32) -> f32 = x;
fn l(x: f32) -> f32 = { let y = { let z = x; z }; z };",
        &[
            "1:38 unknown-name: `M` is not declared here",
            "2:13 unknown-name: `N` is not a size here",
            "3:44 unknown-name: `j` is not declared here",
            "3:50 unknown-name: there is no function `summ` here",
            "4:4 duplicate-name: `h` is declared twice",
            "5:4 duplicate-name: `exp` is built in and cannot be declared",
            "6:14 duplicate-name: `x` is declared twice",
            "7:51 unknown-name: `z` is not declared here",
        ],
    );
    check_hint("fn f(weight: f32) -> f32 = wieght;", "did you mean `weight`?");
    check_hint("fn softmax(x: f32) -> f32 = x; fn f(x: f32) -> f32 = softmx(x);", "did you mean `softmax`?");
    check_hint("fn f(x: f32) -> f32 = sigmiod(x);", "did you mean `sigmoid`?");
    check_hint(
        "fn f(x: bf16) -> f32 = 1.0;",
        "storage types are a fact of the checkpoint: write f32; arithmetic is permitted by `compute`",
    );
}

#[test]
fn types() {
    check(
        "fn a(x: f32, n: i32) -> f32 = x + n;
fn b[H, G](x: f32) -> f32 = x * (H / G);
fn c(t: id) -> i32 = t + 1;
fn d(x: f32) -> f32 = x % 2.0;
fn e(b: bool) -> f32 = f32(b);
fn f(b: f32) -> f32 = if b { 1.0 } else { 0.0 };
fn g(b: f32) -> f32 = if b > 0.0 { true } else { 0.0 };
fn h(b: f32) -> f32 = fold[i in 4](acc = 0) acc + b;
fn i[N](x: f32[N]) -> f32 = x;
fn j[N](x: f32[N], y: f32[N]) -> bool = x == y;
fn k(x: f32) -> f32 = { let (a, b) = x; a };
fn l[N](x: f32[N]) -> f32 = any[i in N] x[i];
fn m[N](x: f32[N]) -> f32 = sum[i in N] x[i] > 0.0;
fn n(x: f32) -> f32 = max(x);
fn o(t: id, u: id) -> id = t + u;
fn p[N, D](x: f32[N, D]) -> f32[D] = sum[i in N] x[i];",
        &[
            "1:35 type-mismatch: an f32 and an i32 in one operation",
            "2:33 type-mismatch: `(H / G)` rounds down before it becomes f32",
            "3:26 type-mismatch: the right side is i32, expected id",
            "4:23 type-mismatch: this operation is not defined for f32",
            "5:24 type-mismatch: bool does not convert to f32",
            "6:26 type-mismatch: the condition is f32, expected bool",
            "7:48 type-mismatch: the other arm of `if` is f32, expected bool",
            "8:45 type-mismatch: an i32 and an f32 in one operation",
            "9:29 type-mismatch: the function's result is f32[N], expected f32",
            "10:41 type-mismatch: arrays are not compared as a whole",
            "11:29 type-mismatch: 2 names for f32",
            "12:41 type-mismatch: the body of this fold is f32, expected bool",
            "13:29 type-mismatch: the function's result is bool, expected f32",
            "14:23 argument-count: `max(a, b)` takes 2 arguments, found 1",
            "15:28 type-mismatch: this operation is not defined for id",
            "16:50 type-mismatch: a fold's body is a scalar, and this is an array",
        ],
    );
}

#[test]
fn shapes_and_sizes() {
    let linear =
        "fn linear[N, K](w: f32[N, K], x: f32[K]) -> f32[N] = each[n in N] sum[k in K] w[n, k] * x[k];\n";
    let with = |text: &str| format!("{linear}{text}");
    check(
        &with("fn f[N, K](w: f32[N, K], x: f32[N]) -> f32[N] = linear(w, x);"),
        &["2:59 shape-mismatch: argument `x` of `linear` is f32[N], expected f32[K]"],
    );
    check(
        &with("fn f[N, K](w: f32[N, K], x: f32[K]) -> f32[N] = linear(w, x, x);"),
        &["2:49 argument-count: `linear` takes 2 arguments, found 3"],
    );
    check(
        &with("fn f[N, K](w: f32[N], x: f32[K]) -> f32[N] = linear(w, x);"),
        &["2:53 shape-mismatch: an argument of `linear` is f32[N], expected f32[N, K]"],
    );
    check(
        "fn f[N](x: f32[N], y: f32[N + 1]) -> f32[N] = x + y;",
        &["1:47 shape-mismatch: elementwise operands have shapes f32[N] and f32[N + 1]"],
    );
    check(
        "fn g[N]() -> f32[N] = each[i in N] 1.0; fn f() -> f32[4] = g();",
        &["1:60 size: size `N` of `g` does not follow from the arguments"],
    );
    check(
        "fn g[N]() -> f32[N] = each[i in N] 1.0; fn f() -> f32[4] = g[4, 4]();",
        &["1:60 argument-count: `g` takes 1 sizes, found 2"],
    );
    check("fn f(x: f32[3 - 4]) -> f32 = 1.0;", &["1:13 size: a dimension of -1"]);
    check("fn f[N](x: f32[N]) -> f32[N / 0] = x;", &["1:27 size: a size is divided by zero"]);
    check(
        "fn f(x: f32[4]) -> f32[5] { let (v, i) = top[5](x); v }",
        &["1:46 size: `top` of 5 elements where there are 4"],
    );
}

#[test]
fn sizes_are_solved_and_equal_as_polynomials() {
    check(
        "fn half[N](x: f32[2 * N]) -> f32[N] = each[i in N] x[2 * i];
fn f[K](x: f32[4 * K + 2]) -> f32[2 * K + 1] = half(x);
fn pad[H](x: f32[H + 2]) -> f32[H] = each[i in H] x[i + 1];
fn g[A, B](x: f32[A * (B + 2)]) -> f32[2 * A + A * B - 2] = pad(x);
fn h[H, G, K](x: f32[H * K]) -> f32[H / G] = each[i in H * K / (G * K)] x[i];",
        &[],
    );
    check(
        "fn half[N](x: f32[2 * N]) -> f32[N] = each[i in N] x[2 * i];
fn f(x: f32[7]) -> f32[3] = half(x);",
        &["2:29 size: size `N` of `half` does not follow from the arguments"],
    );
}

#[test]
fn indices() {
    check(
        "fn a[N](x: f32[N]) -> f32[N] = each[i in N] x[i + 1];
fn b[N](x: f32[N]) -> f32[N] = each[i in N] x[i - 1];
fn c(x: f32[4]) -> f32 = x[4] + x[0, 1];
fn d[N](x: f32[N]) -> f32[N] = each[i in N] if i > 0 { x[i - 1] } else { x[0 - 1] };
fn e[N](x: f32[N]) -> f32 = x[1.0];
fn f(x: f32) -> f32 = x[0];
fn g[N](x: f32[N + 2]) -> f32[N] = each[i in N] sum[j in 4] x[i + j];
fn h[N](x: f32[N]) -> f32[N] = each[i in N] x[N - i];",
        &[
            "1:47 index: an index reaches N in a dimension whose indices end before N",
            "2:47 index: an index falls below the start of its dimension",
            "3:28 index: an index reaches 4 in a dimension whose indices end before 4",
            "3:33 index: 2 indices of an array of rank 1",
            "4:76 index: an index falls below the start of its dimension",
            "5:31 index: an index is f32",
            "6:23 index: f32 cannot be indexed",
            "7:63 index: an index reaches N + 2 in a dimension whose indices end before N + 2",
            "8:47 index: an index reaches N in a dimension whose indices end before N",
        ],
    );
}

#[test]
fn ragged_arrays() {
    let with = |body: &str| {
        format!(
            "fn f[T](x: f32[T]) -> f32[T] {{ let s = each[t in T, u in 0..=t] x[u]; {body} }}\nfn g[T](x: f32[T, T]) -> f32[T] = x[0];"
        )
    };
    check(&with("each[t in T] sum[u in 0..=t] s[t, u]"), &[]);
    check(&with("s"), &["1:30 ragged: an array with a dependent range cannot be the function's result"]);
    check(&with("g(s)"), &["1:73 ragged: an array with a dependent range cannot be passed to a function"]);
    check(
        &with("each[t in T] s[t, t + 1]"),
        &[
            "1:89 index: an index reaches T in a dimension whose indices end before the end of its dependent range",
        ],
    );
    check(&with("each[t in T] s[t]"), &["1:84 ragged: 1 of 2 indices of an array with a dependent range"]);
    check(&with("s + s"), &["1:71 ragged: an array with a dependent range cannot be an operand"]);
}

#[test]
fn steps() {
    check(
        "fn a(x: f32) -> f32 {
    history h = x;
    1.0
}
step fn b(x: f32) -> f32 { history h = x; h[here + 1] }
step fn c(x: f32) -> f32 { history h = x; sum[t in path] h[t + 1] }
step fn d(x: f32) -> f32 { history h = x; h }
step fn e(x: f32) -> f32 { state s: f32 = x; s' = s + x; s' }
step fn f(x: f32) -> f32 { state s: f32 = 0.0; s' = s + x; s' = 1.0; s' }
step fn g(x: f32) -> f32 { state s: f32 = 0.0; let y = s'; s' = s + x; y }
step fn h(x: f32) -> f32 { if x > 0.0 { g(x) } else { 0.0 } }
step fn i[N](x: f32[N]) -> f32[N] = each[i in N] g(x[i]);
fn j(x: f32) -> f32 = g(x);
fn k(x: f32) -> f32 = f32(here);
step fn l(x: f32) -> f32 { if x > 0.0 { state s: f32 = 0.0; s } else { 0.0 } }
step fn m(x: f32) -> f32 { t' = 1.0; x }
step fn n(x: f32) -> f32 { state s: f32 = 0.0; s' + x }
step fn o(x: f32) -> f32 { state s: f32 = 0.0; history s = x; x }
step fn p[T](x: f32[T]) -> f32 { scan[t in T](c = 0.0) { next c + f32(here) } }
step fn q(x: f32) -> f32 { history h = x; sum[t in here - 3..=here] h[t] }
fn r[T](x: f32[T]) -> f32 = scan[t in T](c = 0.0) { next g(x[t]) };",
        &[
            "2:13 step: a history is declared in a plain function",
            "5:45 state: history `h` is read above depth `here`, which no node has yet",
            "6:60 state: history `h` is read above depth `here`, which no node has yet",
            "7:43 state: history `h` is a list along the path, not a value",
            "8:43 state: a state's initial value depends on an input, a state or a history",
            "9:60 state: state `s` is assigned twice",
            "10:56 state: `s'` is read before it is assigned",
            "11:41 step: step function `g` is called under a run-time `if`",
            "12:50 step: step function `g` is called inside `each` or a fold",
            "13:23 step: step function `g` is called from a plain function",
            "14:27 step: `here` stands outside a step",
            "15:47 step: a state is declared inside a loop, an arm or a fold",
            "16:28 state: `t` is not a state",
            "17:48 state: `s'` is read, and nothing assigns it",
            "18:56 duplicate-name: `s` is declared twice",
            "19:71 scan: `here` stands inside a scan, whose turns are a path of their own",
        ],
    );
}

#[test]
fn scans() {
    check(
        "fn a[T](x: f32[T]) -> f32[T] = scan[t in T](c = 0.0) { emit_if(x[t] > 0.0, c); next c + x[t] };
fn b[T](x: f32[T]) -> (f32[T], i32) = scan[t in T](c = 0.0) { emit_if[T](x[t] > 0.0, c); next c + x[t] };
fn c[T](x: f32[T]) -> f32[T] = scan[t in T](c = 0.0) { emit c; emit c; next c };
fn d[T](x: f32[T]) -> f32[T] = scan[t in T](c = 0.0) { emit c; };
fn e[T](x: f32[T]) -> f32 = scan[t in T](c = 0.0) { next c + x[t] };
fn f[T](x: f32[T]) -> f32[T] = each[i in T] e(x);
fn g[T](x: f32[T]) -> f32 = scan[t in T](c = 0.0, d = 1.0) { next c };
fn h(n: i32) -> i32 = scan[t in n](c = 0) { next c + 1 };
fn i(x: f32) -> f32 { let y = { emit x; x }; y }
fn j[T](x: f32[T]) -> f32[T] = each[i in T] scan[t in T](c = 0.0) { next c };
fn k[T](x: f32[T]) -> f32 = scan[t in T](c = 0.0) { c };
fn l[T](x: f32[T]) -> f32[T] = scan[t in T] { emit x[t] };",
        &[
            "1:64 scan: how many values this emits does not follow from sizes",
            "3:64 scan: a turn emits at most once",
            "4:64 scan: this loop carries a value and has no `next`",
            "6:45 scan: `e` holds a scan and is called inside `each`, a fold or a run-time `if`",
            "7:67 scan: `next` gives f32, and the loop carries 2 values",
            "8:33 unknown-name: `n` is not a size here",
            "9:33 scan: `emit` stands outside the body of a scan",
            "10:45 scan: a scan stands inside `each`, a fold or a run-time `if`",
            "11:53 scan: the body of a loop has no value of its own",
        ],
    );
}

#[test]
fn emissions_are_counted() {
    let counts = [
        ("t >= P - 1", "N"),
        ("t > P", "N - 2"),
        ("t < P", "P"),
        ("P > t", "P"),
        ("t <= 2", "3"),
        ("t - P < 0", "P"),
        ("t == 0", "1"),
        ("t != 0", "P + N - 2"),
        ("2 + t < P", "P - 2"),
    ];
    for (condition, count) in counts {
        let text = format!(
            "fn f[P, N](x: f32[P + N + 1]) -> f32[{count}] = scan[t in P + N - 1](c = 0.0) {{ emit_if({condition}, c); next c }};"
        );
        // Not provable without knowing more of P and N than that they are at least 1.
        let unprovable = matches!(condition, "t > P" | "t <= 2" | "2 + t < P");
        match compile("test.fh", &text) {
            Ok(_) => assert!(!unprovable, "{condition}"),
            Err(messages) => assert!(unprovable, "{condition}: {messages}"),
        }
    }
}

#[test]
fn recursion() {
    check(
        "fn f(x: f32) -> f32 = g(x); fn g(x: f32) -> f32 = h(x); fn h(x: f32) -> f32 = f(x);",
        &["1:79 recursion: `f` calls itself, here or through others"],
    );
}

#[test]
fn models() {
    check(
        "model m {
    dims D, L;
    param a: f32[D];
    param b: f32[L] else a;
    param a: f32[D];
    static s: f32;
    layers[L] { param w: f32[D]; kind one { param p: f32[D]; } kind two { param w: f32[D]; const q: id; } }
    layer extra: tree;
    fn helper(layer: one) -> f32[D] = layer.p + layer.w + layer.z;
    step main(token: id) -> (y: f32[D]) {
        let x = for layer in layers(x = a) {
            let y = match layer.kind { one => helper(layer) };
            let z = layer.p;
            next helper(layer)
        };
        x
    }
}
model m { dims D; }
fn f() -> f32 = helper(1.0);",
        &[
            "4:26 shape-mismatch: `a` is f32[D], expected f32[L]",
            "5:11 duplicate-name: `a` is declared twice",
            "6:15 model: a static is bool or i32",
            "7:81 duplicate-name: `w` is declared twice",
            "7:101 model: a const is f32, i32 or bool, or an array of f32",
            "8:18 unknown-name: `tree` is not a kind of this model's layers",
            "9:65 layer: layer `one` has no field `z`",
            "12:21 layer: `match` has no arm for two",
            "13:27 layer: layer of any kind has no field `p`",
            "14:25 type-mismatch: argument `layer` of `helper` is layer of any kind, expected layer `one`",
            "19:7 duplicate-name: `m` is declared twice",
            "19:7 model: model `m` has no step",
            "20:17 unknown-name: there is no function `helper` here",
        ],
    );
}

#[test]
fn static_arguments() {
    let function = "fn pick(x: f32, static left: bool) -> f32 = if left { x } else { 0.0 - x };\n";
    check(&format!("{function}fn f(x: f32) -> f32 = pick(x, 1 < 2);"), &[]);
    check(
        &format!("{function}fn f(x: f32) -> f32 = pick(x, x > 0.0);"),
        &["2:31 static: argument `left` of `pick` is not known before planning"],
    );
}

#[test]
fn messages_are_drawn_with_the_source() {
    let messages = compile("draw.fh", "fn f(x: f32) -> f32 =\n    wieght;\n").expect_err("unknown name");
    assert_eq!(messages.to_string(), "draw.fh:2:5: `wieght` is not declared here [unknown-name]");
    let drawn = messages.render(false);
    for part in ["`wieght` is not declared here", "draw.fh:2:5", "wieght;", "rule unknown-name"] {
        assert!(drawn.contains(part), "{part} in\n{drawn}");
    }
}
