//! The delta rule and diagonal scans, written in many equal ways, and what is refused.

mod common;

use common::*;
use fiddlehead_graph::queries::*;
use fiddlehead_graph::*;

const H: usize = 4;
const G: usize = 2;
const K: usize = 8;
const V: usize = 6;

#[derive(Clone, Copy, PartialEq)]
enum DecayStyle {
    None,
    Given,
    Exponential,
    ExponentialNode,
    Literal,
}
#[derive(Clone, Copy, PartialEq)]
enum BetaStyle {
    None,
    Outside,
    InKey,
    InValue,
    Spread,
}
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    Nothing,
    OtherKey,
    KeyDecay,
    AddedCorrection,
    TwoSums,
    PartialSum,
}
#[derive(Clone, Copy)]
struct Style {
    decay: DecayStyle,
    beta: BetaStyle,
    /// The decayed state has a name of its own.
    decayed_first: bool,
    /// The correction reads the state before the decay.
    incoming: bool,
    transposed: bool,
    /// Two head axes, key heads outside.
    nested: bool,
    query_scaled: bool,
    flaw: Flaw,
}
const PLAIN: Style = Style {
    decay: DecayStyle::Given,
    beta: BetaStyle::Outside,
    decayed_first: false,
    incoming: false,
    transposed: false,
    nested: false,
    query_scaled: false,
    flaw: Flaw::Nothing,
};

struct Made {
    graph: Graph,
    readout: NodeId,
}

fn make(style: Style) -> Made {
    let mut d = Draft::new();
    let q = d.input("q", &[G, K]);
    let k = d.input("k", &[G, K]);
    let other_key = d.input("other", &[G, K]);
    let v = d.input("v", &[H, V]);
    let beta = d.input("beta", &[H]);
    let rate = d.input("rate", &[H]);
    let key_rate = d.input("key_rate", &[K]);
    let decay = match style.decay {
        DecayStyle::ExponentialNode => d.each([H], |a| exp(at(rate, [a[0].clone()]))),
        _ => rate,
    };
    let r = H / G;
    // Heads are (h) or (g, r): the flat head and the key head of either.
    let heads: Vec<usize> = if style.nested { vec![G, r] } else { vec![H] };
    let n = heads.len();
    let flat = move |a: &[E]| if n == 2 { a[0].clone() * r as i64 + a[1].clone() } else { a[0].clone() };
    let group = move |a: &[E]| if n == 2 { a[0].clone() } else { a[0].clone() / r as i64 };
    let mut shape = heads.clone();
    shape.extend(if style.transposed { [V, K] } else { [K, V] });
    let (state, old) = d.state("s", &shape);
    let space =
        |tail: &[usize]| -> Space { Space(heads.iter().chain(tail).map(|&n| Range::Fixed(n)).collect()) };
    let stored = move |node: NodeId, a: &[E], i: &E, j: &E| {
        let mut indices: Vec<Expr> = a[..n].iter().map(|e| e.0.clone()).collect();
        if style.transposed {
            indices.extend([j.0.clone(), i.0.clone()]);
        } else {
            indices.extend([i.0.clone(), j.0.clone()]);
        }
        E(Expr::load(node, indices))
    };
    let decayed = move |x: E, a: &[E], i: &E| {
        let x = if style.flaw == Flaw::KeyDecay { x * at(key_rate, [i.clone()]) } else { x };
        match style.decay {
            DecayStyle::None => x,
            DecayStyle::Literal => x * 0.5,
            DecayStyle::Exponential => exp(at(rate, [flat(a)])) * x,
            _ => at(decay, [flat(a)]) * x,
        }
    };
    let (i_at, j_at) = if style.transposed { (n + 1, n) } else { (n, n + 1) };
    let tail = if style.transposed { [V, K] } else { [K, V] };
    let named = style
        .decayed_first
        .then(|| d.each(space(&tail), |a| decayed(stored(old, &a, &a[i_at], &a[j_at]), &a, &a[i_at])));
    let faded = move |a: &[E], i: &E, j: &E| match named {
        Some(node) => stored(node, a, i, j),
        None => decayed(stored(old, a, i, j), a, i),
    };
    let step = move |a: &[E]| at(beta, [flat(a)]);
    let written_key = match style.beta {
        BetaStyle::InKey => Some(
            d.each([H, K], |a| at(beta, [a[0].clone()]) * at(k, [a[0].clone() / r as i64, a[1].clone()])),
        ),
        _ => None,
    };
    let value = match style.beta {
        BetaStyle::InValue => {
            d.each([H, V], |a| at(beta, [a[0].clone()]) * at(v, [a[0].clone(), a[1].clone()]))
        }
        _ => v,
    };
    let extent = if style.flaw == Flaw::PartialSum { K - 1 } else { K };
    // sum over i of the state times the key, at (heads, j).
    let seen = d.sum(space(&[V]), [extent], |a| {
        let (i, j) = (&a[n + 1], &a[n]);
        let s = if style.incoming { stored(old, &a, i, j) } else { faded(&a, i, j) };
        s * at(k, [group(&a), i.clone()])
    });
    let second = (style.flaw == Flaw::TwoSums).then(|| {
        d.sum(space(&[V]), [K], |a| {
            stored(old, &a, &a[n + 1], &a[n]) * at(other_key, [group(&a), a[n + 1].clone()])
        })
    });
    let head_value = move |node: NodeId, a: &[E], j: &E| {
        let mut indices: Vec<Expr> = a[..n].iter().map(|e| e.0.clone()).collect();
        indices.push(j.0.clone());
        E(Expr::load(node, indices))
    };
    let u = d.each(space(&[V]), |a| {
        let j = &a[n];
        let mut read = head_value(seen, &a, j);
        if let Some(second) = second {
            read = read + head_value(second, &a, j);
        }
        let target = at(value, [flat(&a), j.clone()]);
        let difference = |target: E, read: E| {
            if style.flaw == Flaw::AddedCorrection { target + read } else { target - read }
        };
        match style.beta {
            BetaStyle::Outside => step(&a) * difference(target, read),
            BetaStyle::InValue => difference(target, step(&a) * read),
            BetaStyle::Spread => difference(step(&a) * target, read * step(&a)),
            _ => difference(target, read),
        }
    });
    let next = d.each(space(&tail), |a| {
        let (i, j) = (&a[i_at], &a[j_at]);
        let key = match (style.flaw, written_key) {
            (Flaw::OtherKey, _) => at(other_key, [group(&a), i.clone()]),
            (_, Some(node)) => at(node, [flat(&a), i.clone()]),
            _ => at(k, [group(&a), i.clone()]),
        };
        faded(&a, i, j) + key * head_value(u, &a, j)
    });
    d.builder.assign(state, next);
    let readout = d.sum(space(&[V]), [K], |a| {
        let (i, j) = (&a[n + 1], &a[n]);
        let product = at(q, [group(&a), i.clone()]) * stored(next, &a, i, j);
        if style.query_scaled { product * 0.125 } else { product }
    });
    let graph = d.seal(&[readout]);
    Made { graph, readout }
}

fn variants() -> Vec<(&'static str, Style)> {
    vec![
        ("plain", PLAIN),
        ("decayed first", Style { decayed_first: true, ..PLAIN }),
        ("no decay", Style { decay: DecayStyle::None, ..PLAIN }),
        ("exponential decay", Style { decay: DecayStyle::Exponential, ..PLAIN }),
        ("exponential decay, a node", Style { decay: DecayStyle::ExponentialNode, ..PLAIN }),
        ("literal decay", Style { decay: DecayStyle::Literal, ..PLAIN }),
        ("no beta", Style { beta: BetaStyle::None, ..PLAIN }),
        ("beta in the key", Style { beta: BetaStyle::InKey, ..PLAIN }),
        ("beta in the value", Style { beta: BetaStyle::InValue, ..PLAIN }),
        ("beta on both sides", Style { beta: BetaStyle::Spread, ..PLAIN }),
        ("transposed", Style { transposed: true, ..PLAIN }),
        ("key heads outside", Style { nested: true, beta: BetaStyle::None, ..PLAIN }),
        ("scaled readout", Style { query_scaled: true, ..PLAIN }),
        ("before the decay", Style { incoming: true, ..PLAIN }),
        (
            "transposed, decayed first, neither beta nor scale",
            Style { transposed: true, decayed_first: true, beta: BetaStyle::None, ..PLAIN },
        ),
        (
            "no decay, no beta",
            Style { decay: DecayStyle::None, beta: BetaStyle::None, transposed: true, ..PLAIN },
        ),
    ]
}

#[test]
fn equal_programs_are_one_delta_rule() {
    for (name, style) in variants() {
        for optimised in [false, true] {
            let made = make(style);
            let graph = if optimised { rewrite::optimise(&made.graph) } else { made.graph };
            let (found, refusals) = recurrences(&graph);
            let RecurrenceKind::Delta(delta) = &found[0].kind else {
                panic!("{name} ({optimised}): {:?} {refusals:?}", found[0].kind);
            };
            let heads: &[usize] = if style.nested { &[G, H / G] } else { &[H] };
            assert_eq!(delta.heads, heads, "{name}");
            assert_eq!((delta.key_dim, delta.value_dim), (K, V), "{name}");
            let rank = heads.len() + 2;
            let axes = if style.transposed { (rank - 1, rank - 2) } else { (rank - 2, rank - 1) };
            assert_eq!((delta.key_axis, delta.value_axis), axes, "{name}");
            assert_eq!(delta.beta.is_some(), style.beta != BetaStyle::None, "{name}: {:?}", delta.beta);
            let decay = match (&delta.decay, style.decay) {
                (Decay::One, DecayStyle::None) => true,
                (Decay::Multiplier(_), DecayStyle::Given | DecayStyle::Literal) => true,
                (Decay::Exponent(rate), DecayStyle::Exponential | DecayStyle::ExponentialNode) => {
                    matches!(rate.source, Source::Node(_))
                }
                _ => false,
            };
            assert!(decay, "{name}: {:?}", delta.decay);
            let reads = if style.incoming { CorrectionReads::Incoming } else { CorrectionReads::Decayed };
            assert_eq!(delta.reads, reads, "{name}");
            assert_eq!(delta.readouts.len(), 1, "{name}");
            assert_eq!(delta.readouts[0].of, ReadoutOf::Next, "{name}");
            assert_eq!(delta.readouts[0].scale.is_some(), style.query_scaled, "{name}");
            if !optimised {
                assert_eq!(delta.readouts[0].node, made.readout, "{name}");
            }
            assert_eq!(found[0].other_readers, [], "{name}");

            let sites = assign_sites(&graph);
            assert!(sites.loops.is_empty(), "{name}: {:?}", sites.loops);
            let covered = sites.sites.iter().any(|site| matches!(site, Site::Recurrence(_)));
            assert!(covered, "{name}");
            // Neither the state's sums nor its corrections are computed apart.
            let apart =
                sites.sites.iter().any(|site| matches!(site, Site::Contraction(_) | Site::General(_)));
            assert!(!apart, "{name}: {:?}", sites.sites);
        }
    }
}

#[test]
fn what_is_nearly_a_delta_rule_is_general() {
    let cases = [
        ("two keys", Flaw::OtherKey, "not what the state was read with"),
        ("decay along the key axis", Flaw::KeyDecay, "along the key axis"),
        ("added correction", Flaw::AddedCorrection, "not a step towards"),
        ("two sums", Flaw::TwoSums, "several folds"),
        ("part of the key axis", Flaw::PartialSum, "whole axis"),
    ];
    for (name, flaw, reason) in cases {
        let graph = make(Style { flaw, ..PLAIN }).graph;
        let (found, refusals) = recurrences(&graph);
        assert_eq!(found[0].kind, RecurrenceKind::General, "{name}");
        assert!(refusals.iter().any(|refusal| refusal.why.contains(reason)), "{name}: {refusals:?}");
        let sites = assign_sites(&graph);
        assert_eq!(sites.loops.len(), 1, "{name}");
        assert!(sites.refusals.iter().any(|refusal| refusal.why.contains(reason)), "{name}");
    }
}

#[test]
fn a_correction_read_elsewhere_makes_the_update_general() {
    let mut d = Draft::new();
    let k = d.input("k", &[K]);
    let v = d.input("v", &[V]);
    let (state, old) = d.state("s", &[K, V]);
    let seen = d.sum([V], [K], |a| at(old, [a[1].clone(), a[0].clone()]) * at(k, [a[1].clone()]));
    let u = d.each([V], |a| at(v, [a[0].clone()]) - at(seen, [a[0].clone()]));
    let next = d.each([K, V], |a| {
        at(old, [a[0].clone(), a[1].clone()]) + at(k, [a[0].clone()]) * at(u, [a[1].clone()])
    });
    d.builder.assign(state, next);
    let (found, refusals) = recurrences(&d.seal(&[u]));
    assert_eq!(found[0].kind, RecurrenceKind::General);
    assert!(refusals.iter().any(|refusal| refusal.why.contains("read elsewhere")), "{refusals:?}");
}

#[test]
fn diagonal_kinds() {
    let kind = |make: &dyn Fn(&mut Draft, NodeId, NodeId) -> NodeId| {
        let mut d = Draft::new();
        let x = d.input("x", &[K]);
        let (state, old) = d.state("s", &[K]);
        let next = make(&mut d, old, x);
        d.builder.assign(state, next);
        let graph = d.seal(&[next]);
        let sites = assign_sites(&graph);
        (recurrences(&graph).0.remove(0).kind, sites)
    };
    let own = |node: NodeId, a: &[E]| at(node, [a[0].clone()]);
    // A gated scan: s' = sigmoid(x) s + (1 - sigmoid(x)) x.
    let (scan, sites) = kind(&|d, old, x| {
        let gate = d.each([K], |a| unary(Unary::Sigmoid, own(x, &a)));
        d.each([K], |a| own(gate, &a) * own(old, &a) + (float(1.0) - own(gate, &a)) * own(x, &a))
    });
    let RecurrenceKind::Diagonal(diagonal) = scan else { panic!("{scan:?}") };
    assert!(diagonal.multiplier.is_some() && diagonal.addend.is_some());
    assert!(sites.loops.is_empty());
    // The same as a step towards x: s + gate (x - s).
    let (scan, _) = kind(&|d, old, x| {
        d.each([K], |a| own(old, &a) + unary(Unary::Sigmoid, own(x, &a)) * (own(x, &a) - own(old, &a)))
    });
    assert!(matches!(scan, RecurrenceKind::Diagonal(_)), "{scan:?}");
    // A running sum has no multiplier.
    let (scan, _) = kind(&|d, old, x| d.each([K], |a| own(old, &a) + own(x, &a)));
    let RecurrenceKind::Diagonal(diagonal) = scan else { panic!("{scan:?}") };
    assert_eq!(diagonal.multiplier, None);
    // Carried one step.
    let (carried, sites) = kind(&|d, _, x| d.each([K], |a| own(x, &a) * 2.0));
    assert_eq!(carried, RecurrenceKind::Replaced);
    assert!(sites.loops.is_empty());
    // Not affine, or not at its own place.
    let (general, sites) = kind(&|d, old, x| d.each([K], |a| silu(own(old, &a)) + own(x, &a)));
    assert_eq!(general, RecurrenceKind::General);
    assert_eq!(sites.loops.len(), 1);
    let (general, _) = kind(&|d, old, x| d.each([K], |a| own(old, &a) * own(old, &a) + own(x, &a)));
    assert_eq!(general, RecurrenceKind::General);
    let (general, _) =
        kind(&|d, old, x| d.each([K], |a| at(old, [(a[0].clone() + 1) % K as i64]) + own(x, &a)));
    assert_eq!(general, RecurrenceKind::General);
    let (unchanged, _) = kind(&|_, old, _| old);
    assert_eq!(unchanged, RecurrenceKind::Unchanged);
}

#[test]
fn states_that_feed_each_other_run_node_by_node() {
    let mut d = Draft::new();
    let x = d.input("x", &[K]);
    let (first, old_first) = d.state("a", &[K]);
    let (second, old_second) = d.state("b", &[K]);
    let next_first = d.each([K], |a| at(old_first, [a[0].clone()]) * 0.5 + at(old_second, [a[0].clone()]));
    let next_second = d.each([K], |a| at(next_first, [a[0].clone()]) + at(x, [a[0].clone()]));
    d.builder.assign(first, next_first);
    d.builder.assign(second, next_second);
    let graph = d.seal(&[next_second]);
    let sites = assign_sites(&graph);
    assert_eq!(sites.loops.len(), 1);
    assert!(sites.recurrences.iter().all(|found| found.kind != RecurrenceKind::Unchanged));
    assert!(!sites.sites.iter().any(|site| matches!(site, Site::Recurrence(_))), "{:?}", sites.sites);
}
