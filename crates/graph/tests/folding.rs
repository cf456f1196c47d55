//! Integer arithmetic keeps its value through folding, whatever wraps; equal nodes merge and unequal ones do not.

use std::collections::HashMap;

use fiddlehead_forest::shapes::SplitMix;
use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::rewrite::{fold_constants, merge_equal, optimise};
use fiddlehead_graph::*;
use fiddlehead_oracle::{Array, Oracle};

fn origin() -> Origin {
    Origin::default()
}

fn each(axes: &[usize], body: Expr) -> Compute {
    let axes = axes.iter().map(|&n| Range::Fixed(n)).collect();
    Compute { axes, fold: None, guard: None, body, permissions: Permissions::default() }
}

/// A random i32 expression over two axes and a scalar input.
fn integer(random: &mut SplitMix, depth: usize) -> Expr {
    if depth == 0 || random.below(6) == 0 {
        return match random.below(5) {
            0 => Expr::Axis(0),
            1 => Expr::Axis(1),
            2 => Expr::load(NodeId(0), vec![]),
            3 => Expr::Int(random.below(13) as i64 - 6),
            _ => Expr::Int([i64::from(i32::MAX), i64::from(i32::MIN), 1 << 16, 65_537][random.below(4)]),
        };
    }
    let part = |random: &mut SplitMix| integer(random, depth - 1);
    match random.below(12) {
        0..=2 => Expr::binary(Binary::Add, part(random), part(random)),
        3 | 4 => Expr::binary(Binary::Subtract, part(random), part(random)),
        5 | 6 => Expr::binary(Binary::Multiply, part(random), part(random)),
        7 | 8 => {
            let op = if random.below(2) == 0 { Binary::Divide } else { Binary::Remainder };
            let by = [1, 2, 3, 7, 65_536, -3][random.below(6)];
            Expr::binary(op, part(random), Expr::Int(by))
        }
        9 => Expr::unary([Unary::Negate, Unary::Absolute][random.below(2)], part(random)),
        10 => Expr::binary([Binary::Min, Binary::Max][random.below(2)], part(random), part(random)),
        _ => {
            let compare = [Binary::Less, Binary::LessEqual, Binary::Equal, Binary::NotEqual][random.below(4)];
            let condition = Expr::binary(compare, part(random), part(random));
            Expr::select(condition, part(random), part(random))
        }
    }
}

fn results(graph: &Graph, input: i32) -> Vec<f64> {
    let scalar = Array::<f64>::ints(&[input]).reshaped(&[]).expect("a scalar");
    let oracle = Oracle::<f64>::new(graph, &HashMap::new()).expect("resolves");
    oracle.evaluate(&[scalar]).expect("no trap")[0].to_f64s()
}

#[test]
fn integer_arithmetic_keeps_its_value() {
    let mut shorter = 0;
    for seed in 0..6000 {
        let mut random = SplitMix::new(seed);
        let depth = 1 + random.below(4);
        let mut b = GraphBuilder::new("test");
        b.input(Input { name: "n".into(), shape: vec![], element: Element::I32, per_node: false });
        let y = b.compute(each(&[3, 5], integer(&mut random, depth)), Element::I32, origin());
        b.output("y", y);
        let graph = b.seal().expect("a legal graph");
        let folded = fold_constants(&graph);
        for input in [0, 1, -7, 65_536, i32::MAX, i32::MIN] {
            assert_eq!(results(&graph, input), results(&folded, input), "seed {seed}\n{graph}\n{folded}");
        }
        shorter += usize::from(folded.to_string().len() < graph.to_string().len());
    }
    assert!(shorter > 1000, "only {shorter} became shorter");
}

/// What an i32 expression over axes of 4 and 6 becomes.
fn becomes(body: Expr) -> String {
    let mut b = GraphBuilder::new("test");
    b.input(Input { name: "n".into(), shape: vec![], element: Element::I32, per_node: false });
    let element = if matches!(body, Expr::Binary(Binary::Less | Binary::Equal, ..)) {
        Element::Bool
    } else {
        Element::I32
    };
    let y = b.compute(each(&[4, 6], body), element, origin());
    b.output("y", y);
    let text = fold_constants(&b.seal().expect("a legal graph")).to_string();
    let line = text.lines().find(|line| line.contains("%1:")).expect("the tensor");
    line.split("j in 6] ").nth(1).expect("a body").to_string()
}

#[test]
fn derived_axes_are_taken_apart() {
    let (i, j) = (Expr::Axis(0), Expr::Axis(1));
    let add = |a: &Expr, b: &Expr| Expr::binary(Binary::Add, a.clone(), b.clone());
    let times = |a: &Expr, n: i64| Expr::binary(Binary::Multiply, a.clone(), Expr::Int(n));
    let over = |a: &Expr, n: i64| Expr::binary(Binary::Divide, a.clone(), Expr::Int(n));
    let modulo = |a: &Expr, n: i64| Expr::binary(Binary::Remainder, a.clone(), Expr::Int(n));
    let flat = add(&times(&i, 6), &j);
    assert_eq!(becomes(over(&flat, 6)), "i");
    assert_eq!(becomes(modulo(&flat, 6)), "j");
    assert_eq!(becomes(over(&flat, 2)), "i * 3 + j / 2");
    assert_eq!(becomes(modulo(&flat, 2)), "j % 2");
    assert_eq!(becomes(over(&over(&j, 2), 2)), "j / 4");
    assert_eq!(becomes(over(&flat, 24)), "0");
    assert_eq!(becomes(Expr::binary(Binary::Subtract, flat.clone(), flat.clone())), "0");
    assert_eq!(becomes(Expr::binary(Binary::Less, j.clone(), Expr::Int(6))), "true");
    assert_eq!(becomes(Expr::binary(Binary::Less, j.clone(), Expr::Int(5))), "j < 5");
    let odd = add(&times(&j, 2), &Expr::Int(1));
    assert_eq!(becomes(Expr::binary(Binary::Equal, odd, times(&i, 2))), "false");
    let n = Expr::load(NodeId(0), vec![]);
    // The input may be anything, so n * 6 may wrap: nothing is divided out.
    assert_eq!(becomes(over(&times(&n, 6), 6)), "%0 * 6 / 6");
    assert_eq!(becomes(Expr::select(Expr::Bool(true), i.clone(), j.clone())), "i");
    assert_eq!(becomes(Expr::binary(Binary::Min, j.clone(), Expr::Int(9))), "j");
}

/// How many of the f32 nodes stay apart when equal ones merge.
fn apart(bodies: &[fn(Expr, Expr) -> Expr]) -> usize {
    let mut b = GraphBuilder::new("test");
    let input =
        |name: &str| Input { name: name.into(), shape: vec![2], element: Element::F32, per_node: true };
    let (x, y) = (b.input(input("x")), b.input(input("y")));
    for (place, body) in bodies.iter().enumerate() {
        let at = |node| Expr::load(node, vec![Expr::Axis(0)]);
        let node = b.compute(each(&[2], body(at(x), at(y))), Element::F32, origin());
        b.output(format!("y{place}"), node);
    }
    merge_equal(&b.seal().expect("a legal graph")).nodes().len() - 2
}

#[test]
fn only_equal_nodes_merge() {
    assert_eq!(apart(&[|x, y| Expr::binary(Binary::Add, x, y), |x, y| Expr::binary(Binary::Add, y, x)]), 1);
    assert_eq!(
        apart(&[|x, y| Expr::binary(Binary::Multiply, x, y), |x, y| Expr::binary(Binary::Multiply, y, x)]),
        1
    );
    assert_eq!(
        apart(&[|x, y| Expr::binary(Binary::Subtract, x, y), |x, y| Expr::binary(Binary::Subtract, y, x)]),
        2
    );
    // With one NaN the two orders agree, with two zeros they need not.
    assert_eq!(apart(&[|x, y| Expr::binary(Binary::Max, x, y), |x, y| Expr::binary(Binary::Max, y, x)]), 2);
    assert_eq!(apart(&[|_, _| Expr::Float(0.0), |_, _| Expr::Float(-0.0)]), 2);
    assert_eq!(apart(&[|x, _| x, |_, y| y]), 2);
}

#[test]
fn floats_fold_only_where_no_bit_changes() {
    let text = |body: fn(Expr) -> Expr| {
        let mut b = GraphBuilder::new("test");
        let input = Input { name: "x".into(), shape: vec![], element: Element::F32, per_node: true };
        let x = b.input(input);
        let y = b.compute(each(&[], body(Expr::load(x, vec![]))), Element::F32, origin());
        b.output("y", y);
        let text = fold_constants(&b.seal().expect("a legal graph")).to_string();
        let line = text.lines().find(|line| line.contains("%1:")).expect("the tensor").to_string();
        line.split("= ").nth(1).expect("a body").to_string()
    };
    assert_eq!(text(|x| Expr::binary(Binary::Multiply, x, Expr::Float(1.0))), "%0");
    assert_eq!(text(|x| Expr::binary(Binary::Divide, x, Expr::Float(1.0))), "%0");
    // -0 + 0 is +0, so this is no copy.
    assert_eq!(text(|x| Expr::binary(Binary::Add, x, Expr::Float(0.0))), "%0 + 0.0");
    // NaN * 0 is NaN.
    assert_eq!(text(|x| Expr::binary(Binary::Multiply, x, Expr::Float(0.0))), "%0 * 0.0");
    assert_eq!(text(|_| Expr::binary(Binary::Add, Expr::Float(0.5), Expr::Float(0.25))), "0.75");
    // The f32 sum of the rounded literals is not the rounded f64 sum.
    let kept = text(|_| Expr::binary(Binary::Multiply, Expr::Float(0.1), Expr::Float(0.7)));
    let narrow = 0.1f32 * 0.7f32;
    assert_eq!(kept == "0.1 * 0.7", narrow.to_bits() != ((0.1f64 * 0.7f64) as f32).to_bits());
    assert_eq!(text(|_| Expr::unary(Unary::Rsqrt, Expr::Float(64.0))), "0.125");
    assert_eq!(text(|_| Expr::unary(Unary::Exp, Expr::Float(0.1))), "exp(0.1)");
}

#[test]
fn what_nothing_needs_goes_and_what_is_needed_stays() {
    let mut b = GraphBuilder::new("test");
    let input = Input { name: "x".into(), shape: vec![2], element: Element::F32, per_node: true };
    let x = b.input(input);
    b.param(Param { name: "unused".into(), shape: vec![2], element: Element::F32 });
    let w = b.param(Param { name: "used".into(), shape: vec![2], element: Element::F32 });
    let at = |node| Expr::load(node, vec![Expr::Axis(0)]);
    b.compute(each(&[2], Expr::unary(Unary::Exp, at(x))), Element::F32, origin());
    let zero = b.compute(each(&[2], Expr::Float(0.0)), Element::F32, origin());
    let (state, s) = b.state("s", vec![2], Element::F32, zero);
    let next = b.compute(each(&[2], Expr::binary(Binary::Add, at(s), at(w))), Element::F32, origin());
    b.assign(state, next);
    let graph = optimise(&b.seal().expect("a legal graph"));
    let params: Vec<&str> = graph.params().iter().map(|param| param.name.as_str()).collect();
    assert_eq!(params, ["used"]);
    assert_eq!(graph.nodes().len(), 5, "{graph}");
    assert_eq!(graph.states().len(), 1);
}
