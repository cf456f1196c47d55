//! Small programs at the edges of the language: each runs in the oracle and on the CPU, with and without its kernels, as
//! written and as rewritten, and gives the same values or fails in the same place everywhere.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_gate::case::to_f64s;
use fiddlehead_graph::Graph;
use fiddlehead_graph::lower::lower_function;
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_oracle::{Array, Data, Oracle, Weights};
use fiddlehead_plan::{Device, LoadOptions, Values};

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;
const MOST: i32 = i32::MAX;
const LEAST: i32 = i32::MIN;

fn floats(values: &[f32]) -> Values {
    Values::F32(values.to_vec())
}
fn ints(values: &[i32]) -> Values {
    Values::I32(values.to_vec())
}
fn ids(values: &[u32]) -> Values {
    Values::Id(values.to_vec())
}

/// What a program gives: the numbers of its results, or a run-time failure whose message holds a word.
enum Wanted {
    Results(Vec<Vec<f64>>),
    Fails(&'static str),
}

fn gives(results: &[&[f64]]) -> Wanted {
    Wanted::Results(results.iter().map(|values| values.to_vec()).collect())
}

fn array(values: &Values, shape: &[usize]) -> Array<f64> {
    let array = match values {
        Values::F32(values) => Array::floats(values),
        Values::I32(values) => Array::ints(values),
        Values::Id(values) => Array::ids(values),
        Values::Bool(values) => Array::new(&[values.len()], Data::Bool(values.clone())).expect("a vector"),
    };
    array.reshaped(shape).expect("as many values as the shape has")
}

fn same(found: &[f64], wanted: &[f64]) -> bool {
    found.len() == wanted.len()
        && found.iter().zip(wanted).all(|(found, wanted)| {
            found == wanted
                || (found.is_nan() && wanted.is_nan())
                || (found - wanted).abs() <= 1e-5 * (1.0 + wanted.abs())
        })
}

/// What a run gave: the numbers of its results, or its message.
type Ran = Result<Vec<Vec<f64>>, String>;

/// Every way to run a graph, by name, with what it gave.
fn runs(device: &CpuDevice, graph: &Graph, inputs: &[Values]) -> Vec<(String, Ran)> {
    let mut found = Vec::new();
    for (form, graph) in [("as written", graph.clone()), ("rewritten", optimise(graph))] {
        let arrays: Vec<_> =
            inputs.iter().zip(graph.inputs()).map(|(values, input)| array(values, &input.shape)).collect();
        let oracle = Oracle::<f64>::new(&graph, &Weights::new()).expect("resolves");
        let told = oracle.evaluate(&arrays).map_err(|error| error.to_string());
        found.push((
            format!("oracle, {form}"),
            told.map(|results| results.iter().map(|result| result.to_f64s()).collect()),
        ));
        for dispatch in ["auto", "off"] {
            let dispatch_of = BTreeMap::from([("all".to_owned(), dispatch.to_owned())]);
            let options = LoadOptions { dispatch: dispatch_of, ..LoadOptions::default() };
            let told = device.call(&graph, inputs, &options).map_err(|error| error.to_string());
            found.push((
                format!("CPU with kernels {dispatch}, {form}"),
                told.map(|results| results.iter().map(to_f64s).collect()),
            ));
        }
    }
    found
}

fn problem(
    device: &CpuDevice,
    text: &str,
    sizes: &[(&str, i64)],
    inputs: &[Values],
    wanted: &Wanted,
) -> Vec<String> {
    let program = match fiddlehead_lang::compile("odd.fh", text) {
        Ok(program) => program,
        Err(errors) => return errors.items.iter().map(|item| item.message.clone()).collect(),
    };
    let sizes = sizes.iter().map(|&(name, size)| (name.to_owned(), size)).collect();
    let graph = match lower_function(&program, "main", &sizes) {
        Ok(graph) => graph,
        Err(error) => return vec![format!("lowering: {error}")],
    };
    let ran = catch_unwind(AssertUnwindSafe(|| runs(device, &graph, inputs)));
    let Ok(ran) = ran else { return vec!["it panics".to_owned()] };
    ran.iter()
        .filter_map(|(how, found)| {
            let right = match (found, wanted) {
                (Ok(found), Wanted::Results(wanted)) => {
                    found.len() == wanted.len() && found.iter().zip(wanted).all(|(a, b)| same(a, b))
                }
                (Err(why), Wanted::Fails(word)) => why.contains(word),
                _ => false,
            };
            let wanted = match wanted {
                Wanted::Results(wanted) => format!("{wanted:?}"),
                Wanted::Fails(word) => format!("a failure with `{word}`"),
            };
            (!right).then(|| format!("{how}: {found:?} instead of {wanted}"))
        })
        .collect()
}

/// A name, a program, its sizes, its inputs, and what it gives.
type Case<'a> = (&'a str, &'a str, &'a [(&'a str, i64)], Vec<Values>, Wanted);

fn check(cases: &[Case<'_>]) {
    let device = CpuDevice::new(2);
    let mut problems = Vec::new();
    for (name, text, sizes, inputs, wanted) in cases {
        for problem in problem(&device, text, sizes, inputs, wanted) {
            problems.push(format!("{name}: {problem}"));
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// `n ..= n` holds `n`, also where `n + 1` is no i32.
#[test]
fn an_inclusive_range_may_end_at_the_greatest_integer() {
    check(&[
        (
            "folds",
            "fn main(n: i32) -> (i32, i32, i32) =
                (sum[i in n..=n] 1, max[i in n - 2..=n] i, fold[i in n - 1..=n](a = 0) a + (n - i) + 1);",
            &[],
            vec![ints(&[MOST])],
            gives(&[&[1.0], &[f64::from(MOST)], &[3.0]]),
        ),
        (
            "an empty one",
            "fn main(n: i32, m: i32) -> (i32, i32) = (sum[i in n..=m] 1, sum[i in m..=n] 1);",
            &[],
            vec![ints(&[LEAST]), ints(&[LEAST + 2])],
            gives(&[&[3.0], &[0.0]]),
        ),
        (
            "nothing below the least integer",
            "fn main(n: i32, m: i32) -> i32 = sum[i in m..=n] 1;",
            &[],
            vec![ints(&[LEAST]), ints(&[MOST])],
            gives(&[&[0.0]]),
        ),
        (
            "ends as literals",
            "fn main(n: i32) -> (i32, i32) = (sum[i in n..=2147483647] 1, sum[i in 2147483640..=2147483647] 1);",
            &[],
            vec![ints(&[MOST - 4])],
            gives(&[&[5.0], &[8.0]]),
        ),
        (
            "a dependent range, read at its ends",
            "fn main[T](n: i32, x: f32[T]) -> (f32[T], f32) {
                let s = each[t in T, u in n - t..=n] x[t] * f32(n - u + 1);
                (each[t in T] sum[u in n - t..=n] s[t, u], s[T - 1, n - 1])
            }",
            &[("T", 3)],
            vec![ints(&[MOST]), floats(&[1.0, 10.0, 100.0])],
            gives(&[&[1.0, 30.0, 600.0], &[200.0]]),
        ),
        (
            "a read past a dependent range",
            "fn main[T](n: i32, m: i32, x: f32[T]) -> f32 {
                let s = each[u in n..=n] x[0] * f32(n - u + 1);
                s[m]
            }",
            &[("T", 3)],
            vec![ints(&[MOST]), ints(&[LEAST]), floats(&[1.0, 10.0, 100.0])],
            Wanted::Fails("-2147483648"),
        ),
        (
            "of an argmax",
            "fn main(n: i32) -> (id, id) = (argmax[i in n - 1..=n] f32(i - n), argmax[i in n..=n - 1] 1.0);",
            &[],
            vec![ints(&[MOST])],
            gives(&[&[f64::from(MOST)], &[0.0]]),
        ),
        (
            "a loop's last turn",
            "fn main() -> i32 = scan[t in 2147483646..=2147483647](h = 0) { next max(h, t); };",
            &[],
            vec![],
            gives(&[&[f64::from(MOST)]]),
        ),
        (
            "an exclusive end still wraps as i32 does",
            "fn main(n: i32) -> i32 = sum[i in n..n + 1] 1;",
            &[],
            vec![ints(&[MOST])],
            gives(&[&[0.0]]),
        ),
    ]);
}

/// A reader of a ragged array also reads what the array's ranges are made of.
#[test]
fn a_ragged_array_is_read_where_its_ranges_are_inputs() {
    let text = "fn main[T](n: i32, m: i32, x: f32[T]) -> f32 {
        let s = each[u in n..n + 2] x[0] * f32(n - u + 1);
        s[m]
    }";
    let rows = "fn main[T](n: i32[T], m: i32[T], x: f32[T]) -> f32[T] {
        let s = each[t in T, u in n[t]..n[t] * 2] x[t] * f32(u);
        each[t in T] s[t, m[t]]
    }";
    let ones = || floats(&[1.0, 10.0, 100.0]);
    check(&[
        ("inside", text, &[("T", 3)], vec![ints(&[5]), ints(&[6]), ones()], gives(&[&[0.0]])),
        (
            "past it",
            text,
            &[("T", 3)],
            vec![ints(&[5]), ints(&[7]), ones()],
            Wanted::Fails("index 7 is outside 5..7"),
        ),
        (
            "below it",
            text,
            &[("T", 3)],
            vec![ints(&[5]), ints(&[4]), ones()],
            Wanted::Fails("index 4 is outside 5..7"),
        ),
        (
            "row by row",
            rows,
            &[("T", 3)],
            vec![ints(&[1, 2, 3]), ints(&[1, 3, 5]), ones()],
            gives(&[&[1.0, 30.0, 500.0]]),
        ),
        (
            "past one row",
            rows,
            &[("T", 3)],
            vec![ints(&[1, 2, 3]), ints(&[1, 4, 5]), ones()],
            Wanted::Fails("index 4 is outside 2..4"),
        ),
    ]);
}

/// An id is shown as an id, above 2^31 too.
#[test]
fn an_id_out_of_range_is_told_as_it_is() {
    check(&[
        (
            "a scalar index",
            "fn main[N](x: f32[N], i: id) -> f32 = x[i];",
            &[("N", 4)],
            vec![floats(&[1.0, 2.0, 3.0, 4.0]), ids(&[u32::MAX])],
            Wanted::Fails("index 4294967295 is outside 0..4"),
        ),
        (
            "a gather of rows",
            "fn main[V, D, N](x: f32[V, D], i: id[N]) -> f32[N, D] = each[n in N, d in D] 2.0 * x[i[n], d];",
            &[("V", 2), ("D", 2), ("N", 2)],
            vec![floats(&[1.0, 2.0, 3.0, 4.0]), ids(&[1, 1 << 31])],
            Wanted::Fails("index 2147483648 is outside 0..2"),
        ),
        (
            "a contraction with the part of a weight that an id chooses",
            "fn main[E, N, D, T](w: f32[E, N, D], x: f32[D], e: id[T]) -> f32[T, N] =
                each[t in T, n in N] sum[d in D] w[e[t], n, d] * x[d];",
            &[("E", 3), ("N", 40), ("D", 32), ("T", 2)],
            vec![floats(&[0.5; 3 * 40 * 32]), floats(&[1.0; 32]), ids(&[2, u32::MAX])],
            Wanted::Fails("index 4294967295 is outside 0..3"),
        ),
        (
            "an id that a choice gives",
            "fn main[N](x: f32[N], i: id, j: id, c: bool) -> f32 = x[if c { i } else { j }];",
            &[("N", 2)],
            vec![floats(&[1.0, 2.0]), ids(&[0]), ids(&[4_000_000_000]), Values::Bool(vec![false])],
            Wanted::Fails("index 4000000000 is outside 0..2"),
        ),
        (
            "an integer keeps its sign",
            "fn main[N](x: f32[N], i: i32) -> f32 = x[i];",
            &[("N", 4)],
            vec![floats(&[1.0, 2.0, 3.0, 4.0]), ints(&[-1])],
            Wanted::Fails("index -1 is outside 0..4"),
        ),
        (
            "ids that fit no i32 are equal to themselves",
            "fn main(i: id, j: id) -> (bool, bool) = (i == j, i != i);",
            &[],
            vec![ids(&[u32::MAX]), ids(&[u32::MAX])],
            gives(&[&[1.0], &[0.0]]),
        ),
    ]);
}

#[test]
fn integers_at_their_limits() {
    let (least, most) = (f64::from(LEAST), f64::from(MOST));
    check(&[
        (
            "wrapping",
            "fn main(n: i32, m: i32) -> (i32, i32, i32, i32, i32) = (n + 1, m - 1, n * 2, -m, abs(m));",
            &[],
            vec![ints(&[MOST]), ints(&[LEAST])],
            gives(&[&[least], &[most], &[-2.0], &[least], &[least]]),
        ),
        (
            "the least by minus one",
            "fn main(m: i32, d: i32) -> (i32, i32, i32) = (m / d, m % d, (m + 1) / d);",
            &[],
            vec![ints(&[LEAST]), ints(&[-1])],
            gives(&[&[least], &[0.0], &[most]]),
        ),
        (
            "the least by minus one, many at once",
            "fn main[N](m: i32[N], d: i32[N]) -> (i32[N], i32[N]) = (m / d, m % d);",
            &[("N", 5)],
            vec![ints(&[LEAST, LEAST, MOST, -7, 7]), ints(&[-1, MOST, LEAST, 2, -2])],
            gives(&[&[least, -2.0, -1.0, -4.0, -4.0], &[0.0, most - 1.0, -1.0, 1.0, -1.0]]),
        ),
        (
            "divided by literals",
            "fn main[N](m: i32[N]) -> (i32[N], i32[N], i32[N], i32[N]) =
                (each[i in N] m[i] / -1, each[i in N] m[i] % -1, each[i in N] m[i] / 7, each[i in N] m[i] % -7);",
            &[("N", 4)],
            vec![ints(&[LEAST, MOST, -1, 0])],
            gives(&[
                &[least, -most, 1.0, 0.0],
                &[0.0, 0.0, 0.0, 0.0],
                &[-306783379.0, 306783378.0, -1.0, 0.0],
                &[-2.0, -6.0, -1.0, 0.0],
            ]),
        ),
        (
            "division by zero",
            "fn main(m: i32, d: i32) -> i32 = m / d;",
            &[],
            vec![ints(&[1]), ints(&[0])],
            Wanted::Fails("zero"),
        ),
        (
            "remainder by zero",
            "fn main[N](m: i32[N], d: i32[N]) -> i32[N] = m % d;",
            &[("N", 3)],
            vec![ints(&[1, 2, 3]), ints(&[1, 0, 1])],
            Wanted::Fails("zero"),
        ),
        (
            "a division by zero that nothing reads",
            "fn main(m: i32, d: i32) -> i32 = if d == 0 { 7 } else { m / d };",
            &[],
            vec![ints(&[1]), ints(&[0])],
            gives(&[&[7.0]]),
        ),
        (
            "a fold that wraps",
            "fn main[N](m: i32[N]) -> (i32, i32, i32, i32) =
                (sum[i in N] m[i], prod[i in N] m[i], max[i in N] m[i], min[i in N] m[i]);",
            &[("N", 3)],
            vec![ints(&[MOST, MOST, 3])],
            gives(&[&[1.0], &[3.0], &[most], &[3.0]]),
        ),
        (
            "comparisons across the whole range",
            "fn main(n: i32, m: i32) -> (bool, bool, bool, i32, i32) = (n < m, n > m, n - m < 0, max(n, m), min(n, m));",
            &[],
            vec![ints(&[MOST]), ints(&[LEAST])],
            gives(&[&[0.0], &[1.0], &[1.0], &[most], &[least]]),
        ),
        (
            "sums that only wrap in between",
            "fn main(n: i32) -> (i32, i32, i32) = ((n + n) / 2, (n * 4) / 4, (n + 1) % 2);",
            &[],
            vec![ints(&[MOST])],
            gives(&[&[-1.0], &[-1.0], &[0.0]]),
        ),
    ]);
}

#[test]
fn conversions_of_what_is_no_number() {
    let (least, most) = (f64::from(LEAST), f64::from(MOST));
    check(&[
        (
            "one at a time",
            "fn main(a: f32, b: f32, c: f32) -> (i32, i32, i32) = (i32(a), i32(b), i32(c));",
            &[],
            vec![floats(&[NAN]), floats(&[INF]), floats(&[-INF])],
            gives(&[&[0.0], &[most], &[least]]),
        ),
        (
            "many at once",
            "fn main[N](x: f32[N]) -> i32[N] = i32(x);",
            &[("N", 19)],
            vec![floats(&[
                NAN,
                INF,
                -INF,
                3e9,
                -3e9,
                2147483648.0,
                -2147483648.0,
                2147483520.0,
                -0.9,
                0.9,
                1.5,
                -1.5,
                -0.0,
                1e-40,
                1e38,
                -1e38,
                7.0,
                -7.0,
                0.0,
            ])],
            gives(&[&[
                0.0,
                most,
                least,
                most,
                least,
                most,
                least,
                2147483520.0,
                0.0,
                0.0,
                1.0,
                -1.0,
                0.0,
                0.0,
                most,
                least,
                7.0,
                -7.0,
                0.0,
            ]]),
        ),
        (
            "known before planning",
            "fn main() -> (i32, i32, i32) = (i32(0.0 / 0.0), i32(1.0 / 0.0), i32(-1.0 / 0.0));",
            &[],
            vec![],
            gives(&[&[0.0], &[most], &[least]]),
        ),
        (
            "an id of a negative number",
            "fn main(n: i32) -> id = id(n);",
            &[],
            vec![ints(&[-1])],
            Wanted::Fails("-1"),
        ),
        (
            "least and greatest with NaN",
            "fn main(a: f32, b: f32) -> (f32, f32, f32, f32) = (max(a, b), min(a, b), max(b, a), min(b, a));",
            &[],
            vec![floats(&[NAN]), floats(&[1.0])],
            gives(&[&[1.0], &[1.0], &[1.0], &[1.0]]),
        ),
        (
            "comparisons with NaN",
            "fn main(a: f32, b: f32) -> (bool, bool, bool, bool, bool, bool) =
                (a == a, a != a, a < b, a >= b, !(a < b), b > a || a <= b);",
            &[],
            vec![floats(&[NAN]), floats(&[1.0])],
            gives(&[&[0.0], &[1.0], &[0.0], &[0.0], &[1.0], &[0.0]]),
        ),
        (
            "folds with NaN",
            "fn main[N](x: f32[N]) -> (f32, f32, id) = (max[i in N] x[i], min[i in N] x[i], argmax(x));",
            &[("N", 4)],
            vec![floats(&[NAN, 2.0, NAN, 3.0])],
            gives(&[&[3.0], &[2.0], &[3.0]]),
        ),
        (
            "folds of NaN alone",
            "fn main[N](x: f32[N]) -> (f32, f32, id) = (max[i in N] x[i], min[i in N] x[i], argmax(x));",
            &[("N", 3)],
            vec![floats(&[NAN, NAN, NAN])],
            gives(&[&[f64::NEG_INFINITY], &[f64::INFINITY], &[0.0]]),
        ),
        (
            "floats at the edges",
            "fn main(x: f32, z: f32) -> (f32, f32, f32, f32, f32) = (x / z, -x / z, sqrt(-x), log(z), rsqrt(z));",
            &[],
            vec![floats(&[1.0]), floats(&[0.0])],
            gives(&[
                &[f64::INFINITY],
                &[f64::NEG_INFINITY],
                &[f64::NAN],
                &[f64::NEG_INFINITY],
                &[f64::INFINITY],
            ]),
        ),
    ]);
}

#[test]
fn folds_of_nothing() {
    let (least, most) = (f64::from(LEAST), f64::from(MOST));
    check(&[
        (
            "each kind of fold over a range that ends below its start",
            "fn main(n: i32) -> (f32, f32, f32, f32, i32, i32, i32, i32) =
                (sum[i in n..0] 1.0, prod[i in n..0] 2.0, max[i in n..0] f32(i), min[i in n..0] f32(i),
                 sum[i in n..0] i, prod[i in n..0] i, max[i in n..0] i, min[i in n..0] i);",
            &[],
            vec![ints(&[5])],
            gives(&[
                &[0.0],
                &[1.0],
                &[f64::NEG_INFINITY],
                &[f64::INFINITY],
                &[0.0],
                &[1.0],
                &[least],
                &[most],
            ]),
        ),
        (
            "any, all, argmax and an ordered fold",
            "fn main(n: i32) -> (bool, bool, id, f32) =
                (any[i in n..0] (i > 0), all[i in n..0] (i > 0), argmax[i in n..0] f32(i), fold[i in n..0](a = 2.5) a * 2.0);",
            &[],
            vec![ints(&[0])],
            gives(&[&[0.0], &[1.0], &[0.0], &[2.5]]),
        ),
        (
            "an axis of no values",
            "fn main[N](x: f32[N]) -> (f32, f32, i32) =
                (sum[i in N - 1] x[i], sum[i in N, j in N - 1] x[i] * x[j], fold[i in N - 1](a = 3) a + 1);",
            &[("N", 1)],
            vec![floats(&[4.0])],
            gives(&[&[0.0], &[0.0], &[3.0]]),
        ),
        (
            "an array of no values",
            "fn main[N](x: f32[N]) -> (f32[N - 1], f32) {
                let y = each[i in N - 1] x[i] + x[i + 1];
                (y, sum[i in N - 1] y[i])
            }",
            &[("N", 1)],
            vec![floats(&[4.0])],
            gives(&[&[], &[0.0]]),
        ),
        (
            "a contraction over nothing",
            "fn main[M, N, K](a: f32[M, K], b: f32[N, K]) -> f32[M, N] =
                each[i in M, j in N] sum[k in K - 1] a[i, k] * b[j, k];",
            &[("M", 2), ("N", 3), ("K", 1)],
            vec![floats(&[1.0, 2.0]), floats(&[1.0, 2.0, 3.0])],
            gives(&[&[0.0; 6]]),
        ),
        (
            "a contraction to nothing",
            "fn main[M, N, K](a: f32[M, K], b: f32[N, K]) -> f32[M, N - 1] =
                each[i in M, j in N - 1] sum[k in K] a[i, k] * b[j, k];",
            &[("M", 2), ("N", 1), ("K", 3)],
            vec![floats(&[1.0; 6]), floats(&[1.0; 3])],
            gives(&[&[]]),
        ),
        (
            "an empty range around an index that is never right",
            "fn main[N](x: f32[N], n: i32) -> f32 = sum[i in n..0] x[i + 100];",
            &[("N", 3)],
            vec![floats(&[1.0; 3]), ints(&[0])],
            gives(&[&[0.0]]),
        ),
        (
            "a dependent range inside an empty one",
            "fn main(n: i32) -> (i32, i32) = (sum[i in n..0, j in i..7] j, sum[i in 3, j in i..i] (j + 1));",
            &[],
            vec![ints(&[4])],
            gives(&[&[0.0], &[0.0]]),
        ),
        (
            "ragged rows, some of them empty",
            "fn main[T](n: i32[T]) -> i32[T] {
                let s = each[t in T, u in 0..n[t]] u * u + t;
                each[t in T] sum[u in 0..n[t]] s[t, u]
            }",
            &[("T", 5)],
            vec![ints(&[0, 3, -2, 1, 0])],
            gives(&[&[0.0, 8.0, 0.0, 3.0, 0.0]]),
        ),
    ]);
}

#[test]
fn loops_of_no_turns_and_one() {
    check(&[
        (
            "a scan of no turns keeps its carry",
            "fn main[N](x: f32[N]) -> f32 = scan[t in N - 1](h = x[0]) { next h * 2.0; };",
            &[("N", 1)],
            vec![floats(&[4.0])],
            gives(&[&[4.0]]),
        ),
        (
            "a scan of no turns emits nothing",
            "fn main[N](x: f32[N]) -> f32[N - 1] = scan[t in N - 1](h = x[0]) { emit h; next h * 2.0; };",
            &[("N", 1)],
            vec![floats(&[4.0])],
            gives(&[&[]]),
        ),
        (
            "one turn",
            "fn main[N](x: f32[N]) -> f32[N] = scan[t in N](h = 1.0) { emit h * x[t]; next h * 2.0; };",
            &[("N", 1)],
            vec![floats(&[4.0])],
            gives(&[&[4.0]]),
        ),
        (
            "a scan that starts above zero",
            "fn main[N](x: f32[N]) -> f32[N - 2] = scan[t in 2..N](h = 0.0) { emit h + x[t]; next h + f32(t); };",
            &[("N", 5)],
            vec![floats(&[1.0, 2.0, 3.0, 4.0, 5.0])],
            gives(&[&[3.0, 6.0, 10.0]]),
        ),
        (
            "emissions under a condition that never holds",
            "fn main[N](x: f32[N]) -> (f32[N], i32) = scan[t in N] { emit_if[N](x[t] > 100.0, x[t]) };",
            &[("N", 3)],
            vec![floats(&[1.0, 2.0, 3.0])],
            gives(&[&[0.0, 0.0, 0.0], &[0.0]]),
        ),
        (
            "emissions beyond what was declared",
            "fn main[N](x: f32[N]) -> (f32[2], i32) = scan[t in N] { emit_if[2](x[t] > 0.0, x[t]) };",
            &[("N", 3)],
            vec![floats(&[1.0, 2.0, 3.0])],
            Wanted::Fails("2"),
        ),
        (
            "a scan inside an each",
            "fn main[M, N](x: f32[M, N]) -> f32[M] = each[m in M] fold[n in N](h = 0.0) h * 0.5 + x[m, n];",
            &[("M", 2), ("N", 3)],
            vec![floats(&[1.0, 2.0, 4.0, 8.0, 8.0, 8.0])],
            gives(&[&[5.25, 14.0]]),
        ),
        (
            "folds in folds",
            "fn main[N](x: f32[N]) -> (f32, f32) =
                (sum[i in N] (fold[j in 0..=i](a = 0.0) a * 2.0 + x[j]) * x[i],
                 fold[i in N](a = 1.0) a * 0.5 + (sum[j in i..N] x[j]) * a);",
            &[("N", 3)],
            vec![floats(&[1.0, 2.0, 3.0])],
            gives(&[&[42.0], &[125.125]]),
        ),
    ]);
}

#[test]
fn the_greatest_few() {
    check(&[
        (
            "ties go to the lower index",
            "fn main[N](x: f32[N]) -> (f32[3], i32[3]) = top[3](x);",
            &[("N", 5)],
            vec![floats(&[1.0, 7.0, 7.0, 7.0, 0.0])],
            gives(&[&[7.0, 7.0, 7.0], &[1.0, 2.0, 3.0]]),
        ),
        (
            "all of them",
            "fn main[N](x: f32[N]) -> (f32[N], i32[N]) = top[N](x);",
            &[("N", 4)],
            vec![floats(&[-0.0, 0.0, INF, -INF])],
            gives(&[&[f64::INFINITY, 0.0, 0.0, f64::NEG_INFINITY], &[2.0, 0.0, 1.0, 3.0]]),
        ),
        (
            "NaN comes last",
            "fn main[N](x: f32[N]) -> (f32[4], i32[4]) = top[4](x);",
            &[("N", 4)],
            vec![floats(&[NAN, 2.0, NAN, -INF])],
            gives(&[&[2.0, f64::NEG_INFINITY, f64::NAN, f64::NAN], &[1.0, 3.0, 0.0, 2.0]]),
        ),
        (
            "of rows, along the last axis",
            "fn main[M, N](x: f32[M, N]) -> i32[M, 2] { let (_, i) = top[2](x); i }",
            &[("M", 3), ("N", 3)],
            vec![floats(&[1.0, 2.0, 3.0, 3.0, 3.0, 1.0, NAN, NAN, 0.0])],
            gives(&[&[2.0, 1.0, 0.0, 1.0, 2.0, 0.0]]),
        ),
        (
            "the first of signed zeros",
            "fn main[N](x: f32[N]) -> (id, id) = (argmax(x), argmax[i in N] -x[i]);",
            &[("N", 3)],
            vec![floats(&[-0.0, 0.0, -0.0])],
            gives(&[&[0.0], &[0.0]]),
        ),
        (
            "gathers by what top found",
            "fn main[V, D, N](w: f32[V, D], x: f32[V]) -> f32[2, D] {
                let (_, i) = top[2](x);
                each[n in 2, d in D] w[i[n], d]
            }",
            &[("V", 3), ("D", 2), ("N", 1)],
            vec![floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), floats(&[0.5, 9.0, 1.0])],
            gives(&[&[3.0, 4.0, 5.0, 6.0]]),
        ),
    ]);
}

#[test]
fn indices_that_a_program_makes() {
    check(&[
        (
            "out of range under a condition",
            "fn main[N](x: f32[N], n: i32) -> f32 = if n < N && n >= 0 { x[n] } else { -1.0 };",
            &[("N", 3)],
            vec![floats(&[1.0, 2.0, 3.0]), ints(&[3])],
            gives(&[&[-1.0]]),
        ),
        (
            "out of range where `&&` does not look",
            "fn main[N](x: f32[N], n: i32) -> bool = n < N && x[n] > 1.0;",
            &[("N", 3)],
            vec![floats(&[1.0, 2.0, 3.0]), ints(&[9])],
            gives(&[&[0.0]]),
        ),
        (
            "an index that wraps into range",
            "fn main[N](x: f32[N], n: i32) -> f32 = x[n + n + 2];",
            &[("N", 3)],
            vec![floats(&[1.0, 2.0, 3.0]), ints(&[MOST])],
            gives(&[&[1.0]]),
        ),
        (
            "an index of a sum of an axis and an input",
            "fn main[N](x: f32[N], n: i32) -> f32 = sum[i in N] x[i + n];",
            &[("N", 3)],
            vec![floats(&[1.0, 2.0, 3.0]), ints(&[MOST])],
            Wanted::Fails("2147483647"),
        ),
        (
            "a gather in a long row, the last one wrong",
            "fn main[V, N](x: f32[V], i: i32[N]) -> f32[N] = each[n in N] x[i[n]] * 2.0;",
            &[("V", 3), ("N", 9)],
            vec![floats(&[1.0, 2.0, 3.0]), ints(&[0, 1, 2, 0, 1, 2, 0, 1, 3])],
            Wanted::Fails("index 3 is outside 0..3"),
        ),
        (
            "a rank-0 program",
            "fn main() -> (f32, i32, bool) = (0.5, 7, true);",
            &[],
            vec![],
            gives(&[&[0.5], &[7.0], &[1.0]]),
        ),
        (
            "an input handed on as it is",
            "fn main[N](x: f32[N], i: id) -> (f32[N], id, f32[N]) = (x, i, x);",
            &[("N", 2)],
            vec![floats(&[1.0, NAN]), ids(&[u32::MAX])],
            gives(&[&[1.0, f64::NAN], &[4294967295.0], &[1.0, f64::NAN]]),
        ),
        (
            "booleans as arrays",
            "fn main[N](b: bool[N]) -> (bool[N], bool, bool) = (each[i in N] !b[N - 1 - i], any[i in N] b[i], all[i in N] b[i]);",
            &[("N", 3)],
            vec![Values::Bool(vec![true, false, false])],
            gives(&[&[1.0, 1.0, 0.0], &[1.0], &[0.0]]),
        ),
    ]);
}
