//! Programs at the edges of i32 and of ids, on emulated CUDA.

mod support;

use std::collections::BTreeMap;

use fiddlehead_gate::case::to_f64s;
use fiddlehead_graph::lower::lower_function;
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_plan::{Device, LoadOptions, Values};

/// What a program gives on the device: numbers, or its message.
fn run(device: &dyn Device, text: &str, inputs: &[Values]) -> Result<Vec<Vec<f64>>, String> {
    let program = fiddlehead_lang::compile("edge.fh", text).expect("a right program");
    let sizes = BTreeMap::from([("T".to_owned(), 3)]);
    let graph = optimise(&lower_function(&program, "main", &sizes).expect("lowers"));
    let results = device.call(&graph, inputs, &LoadOptions::default()).map_err(|error| error.to_string())?;
    Ok(results.iter().map(to_f64s).collect())
}

/// `n ..= n` holds `n`, also where `n + 1` is no i32.
#[test]
fn an_inclusive_range_may_end_at_the_greatest_integer() {
    let Some((device, _folder)) = support::device() else { return };
    let text = "fn main[T](n: i32, x: f32[T]) -> (i32, i32, f32[T], f32) {
        let s = each[t in T, u in n - t..=n] x[t] * f32(n - u + 1);
        let folded = fold[i in n - 1..=n](a = 0) a + (n - i) + 1;
        (sum[i in n..=n] 1, folded, each[t in T] sum[u in n - t..=n] s[t, u], s[T - 1, n - 1])
    }";
    let x = Values::F32(vec![1.0, 10.0, 100.0]);
    for n in [7, i32::MAX] {
        let found = run(&device, text, &[Values::I32(vec![n]), x.clone()]);
        let wanted = [vec![1.0], vec![3.0], vec![1.0, 30.0, 600.0], vec![200.0]];
        assert_eq!(found, Ok(wanted.to_vec()), "n = {n}");
    }
}

/// An id is told as an id, above 2^31 too.
#[test]
fn an_id_out_of_range_is_told_as_it_is() {
    let Some((device, _folder)) = support::device() else { return };
    let text = "fn main[T](x: f32[T], i: id) -> f32 = x[i];";
    let inputs = [Values::F32(vec![1.0, 2.0, 3.0]), Values::Id(vec![u32::MAX])];
    let why = run(&device, text, &inputs).expect_err("no such element");
    assert!(why.contains("4294967295"), "{why}");
}

/// A ragged array read outside its range traps in the reader, whatever kernels come before it.
#[test]
fn a_ragged_array_read_outside_its_range_names_itself() {
    let Some((device, _folder)) = support::device() else { return };
    let text = "fn main[T](x: f32[T], n: i32, i: i32) -> (f32, f32) {
        let total = sum[t in T] x[t / (n - 2)];
        let ragged = each[u in 1..n] f32(u);
        (total, ragged[i])
    }";
    let x = Values::F32(vec![1.0, 2.0, 3.0]);
    let call = |i: i32| run(&device, text, &[x.clone(), Values::I32(vec![3]), Values::I32(vec![i])]);
    assert_eq!(call(2), Ok(vec![vec![6.0], vec![2.0]]));
    let why = call(5).expect_err("outside the range");
    assert!(why.contains("index 5 is outside 1..3 of axis 0 of `ragged`"), "{why}");
}

/// An index that leaves its axis traps in a contraction too, instead of reading the next row.
#[test]
fn an_index_beyond_its_axis_is_not_read_from_the_next_row() {
    let Some((device, _folder)) = support::device() else { return };
    let text = |shift: usize| {
        format!(
            "fn main[T](w: f32[T, 4], x: f32[T]) -> f32[2] = each[n in 2] sum[k in T] w[n, k + {shift}] * x[k];"
        )
    };
    let inputs =
        [Values::F32((0..12).map(|value| value as f32).collect()), Values::F32(vec![1.0, 10.0, 100.0])];
    assert_eq!(run(&device, &text(1), &inputs), Ok(vec![vec![321.0, 765.0]]));
    let why = run(&device, &text(2), &inputs).expect_err("beyond its axis");
    assert!(why.contains("index 4 is outside 0..4 of axis 1 of `w`"), "{why}");
}
