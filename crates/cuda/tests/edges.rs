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
