//! Attention, written in many equal ways, is one site; what is nearly attention is refused.

mod common;

use common::*;
use fiddlehead_graph::queries::*;
use fiddlehead_graph::*;

const H: usize = 8;
const G: usize = 2;
const K: usize = 16;

/// How one program writes attention.
#[derive(Clone, Copy)]
struct Style {
    scale: Scale,
    shift: Shift,
    divide: Divide,
    cap: bool,
    start: Start,
    sink: bool,
    one_history: bool,
    modulo: bool,
    gate: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Scale {
    Score,
    InsideDot,
    Query,
    Divided,
}
#[derive(Clone, Copy, PartialEq)]
enum Shift {
    None,
    Maximum,
    RawMaximum,
    WithSink,
    OtherRange,
    OtherScore,
    Literal,
}
#[derive(Clone, Copy, PartialEq)]
enum Divide {
    After,
    Before,
    Reciprocal,
    BeforeReciprocal,
    OtherRange,
    OtherWeights,
    Twice,
    Never,
}
#[derive(Clone, Copy, PartialEq)]
enum Start {
    Root,
    Sliding,
    Unclamped,
    Data,
}

const PLAIN: Style = Style {
    scale: Scale::Score,
    shift: Shift::Maximum,
    divide: Divide::After,
    cap: false,
    start: Start::Root,
    sink: false,
    one_history: false,
    modulo: false,
    gate: false,
};

fn graph(style: Style) -> Graph {
    let mut d = Draft::new();
    let q = d.input("q", &[H, K]);
    let k = d.input("k", &[G, K]);
    let v = d.input("v", &[G, K]);
    let far = d.input("far", &[]);
    let sink = d.weight("sink", &[H]);
    let gate = d.input("gate", &[H, K]);
    let range = || match style.start {
        Start::Root => path(),
        Start::Sliding => between(greater(int(0), here() - 31)),
        Start::Unclamped => between(here() - 31),
        Start::Data => between(unary(Unary::ToInt, at(far, []))),
    };
    let (ks, vs) = if style.one_history {
        let both = d.each([2 * G * K], |a| {
            let i = a[0].clone();
            at(k, [i.clone() / K as i64 % G as i64, i.clone() % K as i64])
                + at(v, [i.clone() / K as i64 % G as i64, i % K as i64])
        });
        let kv = d.builder.history("kv", both);
        (kv, kv)
    } else {
        (d.builder.history("ks", k), d.builder.history("vs", v))
    };
    let group = |h: &E| {
        if style.modulo { h.clone() % G as i64 } else { h.clone() / (H / G) as i64 }
    };
    let one = style.one_history;
    let key = |t: &E, h: &E, i: &E| {
        if one {
            row(ks, t.clone(), [group(h) * K as i64 + i.clone()])
        } else {
            row(ks, t.clone(), [group(h), i.clone()])
        }
    };
    let value = |t: &E, h: &E, i: &E| {
        if one {
            row(vs, t.clone(), [group(h) * K as i64 + i.clone() + (G * K) as i64])
        } else {
            row(vs, t.clone(), [group(h), i.clone()])
        }
    };
    let factor = 0.25;
    let query = if style.scale == Scale::Query {
        d.each([H, K], |a| at(q, [a[0].clone(), a[1].clone()]) * factor)
    } else {
        q
    };
    let dot = d.sum(vec![fixed(H), range()], [K], |a| {
        let product = at(query, [a[0].clone(), a[2].clone()]) * key(&a[1], &a[0], &a[2]);
        if style.scale == Scale::InsideDot { product * factor } else { product }
    });
    let score = |h: &E, t: &E| {
        let dot = at(dot, [h.clone(), t.clone()]);
        let scaled = match style.scale {
            Scale::Score => float(factor) * dot,
            Scale::Divided => dot / 4.0,
            _ => dot,
        };
        if style.cap { unary(Unary::Tanh, scaled / 50.0) * 50.0 } else { scaled }
    };
    let s = d.each(vec![fixed(H), range()], |a| score(&a[0], &a[1]));
    let load = |node: NodeId, h: &E, t: &E| at(node, [h.clone(), t.clone()]);
    let m = match style.shift {
        Shift::OtherRange => d.max([H], [path()], |a| score(&a[0], &a[1]) * 1.0),
        Shift::RawMaximum => d.max([H], [range()], |a| load(dot, &a[0], &a[1])),
        Shift::OtherScore => d.max([H], [range()], |a| load(s, &a[0], &a[1]) * 2.0),
        _ => d.max([H], [range()], |a| load(s, &a[0], &a[1])),
    };
    let m = match style.shift {
        Shift::WithSink => d.each([H], |a| greater(at(m, [a[0].clone()]), at(sink, [a[0].clone()]))),
        _ => m,
    };
    let shifted = |x: E, h: &E| match style.shift {
        Shift::None => x,
        Shift::Literal => x - 3.0,
        Shift::RawMaximum => x - at(m, [h.clone()]) * factor,
        _ => x - at(m, [h.clone()]),
    };
    let p = d.each(vec![fixed(H), range()], |a| exp(shifted(load(s, &a[0], &a[1]), &a[0])));
    let total = match style.divide {
        Divide::OtherRange => d.sum([H], [between(greater(int(0), here() - 7))], |a| load(p, &a[0], &a[1])),
        Divide::OtherWeights => d.sum([H], [range()], |a| exp(load(s, &a[0], &a[1]) * 2.0)),
        Divide::Twice => d.sum([H], [range()], |a| load(p, &a[0], &a[1]) * 2.0),
        _ => d.sum([H], [range()], |a| load(p, &a[0], &a[1])),
    };
    let total = |h: &E| {
        let total = at(total, [h.clone()]);
        if style.sink { total + exp(shifted(at(sink, [h.clone()]), h)) } else { total }
    };
    let reciprocal = matches!(style.divide, Divide::Reciprocal | Divide::BeforeReciprocal)
        .then(|| d.each([H], |a| float(1.0) / total(&a[0])));
    let weigh = |h: &E, t: &E| match style.divide {
        Divide::Before => load(p, h, t) / total(h),
        Divide::BeforeReciprocal => load(p, h, t) * at(reciprocal.unwrap(), [h.clone()]),
        _ => load(p, h, t),
    };
    let w = d.each(vec![fixed(H), range()], |a| weigh(&a[0], &a[1]));
    let sum = d.sum([H, K], [range()], |a| load(w, &a[0], &a[2]) * value(&a[2], &a[0], &a[1]));
    let out = match style.divide {
        Divide::Before | Divide::BeforeReciprocal | Divide::Never => sum,
        Divide::Reciprocal => d.each([H, K], |a| {
            at(sum, [a[0].clone(), a[1].clone()]) * at(reciprocal.unwrap(), [a[0].clone()])
        }),
        _ => d.each([H, K], |a| {
            let o = at(sum, [a[0].clone(), a[1].clone()]) / total(&a[0]);
            if style.gate { o * at(gate, [a[0].clone(), a[1].clone()]) } else { o }
        }),
    };
    d.seal(&[out])
}

fn variants() -> Vec<(&'static str, Style)> {
    vec![
        ("plain", PLAIN),
        ("scaled inside the dot", Style { scale: Scale::InsideDot, ..PLAIN }),
        ("query scaled", Style { scale: Scale::Query, ..PLAIN }),
        ("divided score", Style { scale: Scale::Divided, ..PLAIN }),
        ("no maximum", Style { shift: Shift::None, ..PLAIN }),
        ("literal shift", Style { shift: Shift::Literal, ..PLAIN }),
        ("maximum of the raw score", Style { shift: Shift::RawMaximum, ..PLAIN }),
        ("normalised first", Style { divide: Divide::Before, ..PLAIN }),
        ("reciprocal", Style { divide: Divide::Reciprocal, ..PLAIN }),
        ("reciprocal first", Style { divide: Divide::BeforeReciprocal, ..PLAIN }),
        ("soft cap", Style { cap: true, ..PLAIN }),
        ("sliding", Style { start: Start::Sliding, ..PLAIN }),
        ("sink", Style { sink: true, ..PLAIN }),
        ("sink without a maximum", Style { sink: true, shift: Shift::None, ..PLAIN }),
        ("sink in the maximum", Style { sink: true, shift: Shift::WithSink, ..PLAIN }),
        ("sink, normalised first", Style { sink: true, divide: Divide::Before, ..PLAIN }),
        ("one history", Style { one_history: true, ..PLAIN }),
        ("interleaved heads", Style { modulo: true, ..PLAIN }),
        ("gated", Style { gate: true, ..PLAIN }),
        (
            "all at once",
            Style {
                scale: Scale::InsideDot,
                shift: Shift::WithSink,
                divide: Divide::BeforeReciprocal,
                cap: true,
                start: Start::Sliding,
                sink: true,
                one_history: true,
                modulo: true,
                gate: false,
            },
        ),
    ]
}

#[test]
fn equal_programs_are_one_attention() {
    for (name, style) in variants() {
        for optimised in [false, true] {
            let graph = graph(style);
            let graph = if optimised { rewrite::optimise(&graph) } else { graph };
            let (found, refusals) = attentions(&graph);
            assert_eq!(found.len(), 1, "{name} ({optimised}): {refusals:?}");
            let site = &found[0];
            assert_eq!(site.heads, [H], "{name}");
            assert_eq!(site.key_dims, [K], "{name}");
            assert_eq!(site.value_dims, [K], "{name}");
            assert_eq!(site.result_axes, [0, 1], "{name}");
            assert_eq!(site.sink.is_some(), style.sink, "{name}");
            if let Some(sink) = &site.sink {
                let read = matches!(sink, Expr::Load { indices, .. } if indices == &[Expr::Axis(0)]);
                assert!(read, "{name}: {sink:?}");
            }
            let reach = if style.start == Start::Sliding {
                PathStart::Sliding { reach: 32 }
            } else {
                PathStart::Root
            };
            assert_eq!(site.start, reach, "{name}");
            if style.cap {
                assert_eq!(site.linear_scale, None, "{name}");
            } else {
                let expected = if style.scale == Scale::Query { 1.0 } else { 0.25 };
                assert_eq!(site.linear_scale, Some(expected), "{name}: {:?}", site.score);
            }
            let head = if style.one_history { None } else { Grouping::of(&site.key.indices[0], 0) };
            match (style.one_history, style.modulo) {
                (false, false) => assert_eq!(head, Some(Grouping::Divided(H / G)), "{name}"),
                (false, true) => assert_eq!(head, Some(Grouping::Modulo(G)), "{name}"),
                (true, _) => {
                    assert_eq!(site.key.indices[0].constant, 0, "{name}");
                    assert_eq!(site.value.indices[0].constant, (G * K) as i64, "{name}");
                }
            }
            assert_eq!(site.epilogues.len(), usize::from(style.gate), "{name}");
            // The whole graph but for what makes the operands is inside.
            let sites = assign_sites(&graph);
            let attention = sites.sites.iter().find(|site| matches!(site, Site::Attention(_)));
            assert!(attention.is_some(), "{name}: {:?}", sites.refusals);
            let general = sites.sites.iter().filter(|site| matches!(site, Site::General(_))).count();
            assert_eq!(general, 0, "{name}: {:?}", sites.sites);
            assert!(sites.refusals.is_empty(), "{name}: {:?}", sites.refusals);
        }
    }
}

#[test]
fn what_is_nearly_attention_is_refused() {
    let cases = [
        (
            "maximum over another range",
            Style { shift: Shift::OtherRange, start: Start::Sliding, ..PLAIN },
            "different range",
        ),
        ("maximum of another score", Style { shift: Shift::OtherScore, ..PLAIN }, "not its maximum"),
        ("another range's sum", Style { divide: Divide::OtherRange, ..PLAIN }, "different range"),
        ("another sum", Style { divide: Divide::OtherWeights, ..PLAIN }, "different weights"),
        ("twice the sum", Style { divide: Divide::Twice, ..PLAIN }, "different weights"),
        ("never divided", Style { divide: Divide::Never, ..PLAIN }, "outside"),
        ("below the root", Style { start: Start::Unclamped, ..PLAIN }, "below the root"),
        ("start from data", Style { start: Start::Data, ..PLAIN }, "no fixed distance"),
    ];
    for (name, style, reason) in cases {
        let graph = graph(style);
        let (found, refusals) = attentions(&graph);
        assert!(found.is_empty(), "{name}");
        assert!(
            refusals.iter().any(|refusal| refusal.rule == Rule::Attention && refusal.why.contains(reason)),
            "{name}: {refusals:?}"
        );
    }
}

#[test]
fn weights_beyond_the_score_are_refused() {
    let mut d = Draft::new();
    let q = d.input("q", &[K]);
    let k = d.input("k", &[K]);
    let ks = d.builder.history("ks", k);
    let dot = d.sum(vec![path()], [K], |a| at(q, [a[1].clone()]) * row(ks, a[0].clone(), [a[1].clone()]));
    let total = d.sum([0usize; 0], [path()], |a| exp(at(dot, [a[0].clone()])));
    let sum = d.sum([K], [path()], |a| {
        let decay = unary(
            Unary::Sigmoid,
            unary(Unary::ToFloat, here() - 0 - 0) - unary(Unary::ToFloat, a[1].clone()),
        );
        exp(at(dot, [a[1].clone()])) * decay * row(ks, a[1].clone(), [a[0].clone()])
    });
    let out = d.each([K], |a| at(sum, [a[0].clone()]) / at(total, []));
    let (found, refusals) = attentions(&d.seal(&[out]));
    assert!(found.is_empty());
    assert!(refusals.iter().any(|refusal| refusal.why.contains("beyond the score")), "{refusals:?}");
}

#[test]
fn a_bias_of_depth_is_part_of_the_score() {
    let mut d = Draft::new();
    let q = d.input("q", &[H, K]);
    let k = d.input("k", &[H, K]);
    let slope = d.weight("slope", &[H]);
    let ks = d.builder.history("ks", k);
    let dot = d.sum(vec![fixed(H), path()], [K], |a| {
        at(q, [a[0].clone(), a[2].clone()]) * row(ks, a[1].clone(), [a[0].clone(), a[2].clone()])
    });
    let p = d.each(vec![fixed(H), path()], |a| {
        let distance = unary(Unary::ToFloat, a[1].clone() - here());
        exp(at(dot, [a[0].clone(), a[1].clone()]) + at(slope, [a[0].clone()]) * distance)
    });
    let total = d.sum([H], [path()], |a| at(p, [a[0].clone(), a[1].clone()]));
    let sum = d.sum([H, K], [path()], |a| {
        at(p, [a[0].clone(), a[2].clone()]) * row(ks, a[2].clone(), [a[0].clone(), a[1].clone()])
    });
    let out = d.each([H, K], |a| at(sum, [a[0].clone(), a[1].clone()]) / at(total, [a[0].clone()]));
    let (found, refusals) = attentions(&d.seal(&[out]));
    assert_eq!(found.len(), 1, "{refusals:?}");
    assert_eq!(found[0].linear_scale, None);
    let reads_depth = found[0].score.any(&mut |part| *part == Expr::Axis(1));
    assert!(reads_depth, "{:?}", found[0].score);
}

#[test]
fn a_history_fed_by_its_own_attention_is_refused() {
    // The outgoing state is made of the attention, and the next node's row of the state: no batch over nodes.
    let mut d = Draft::new();
    let q = d.input("q", &[K]);
    let (state, old) = d.state("s", &[K]);
    let row_node = d.each([K], |a| at(old, [a[0].clone()]) * 1.5);
    let ks = d.builder.history("ks", row_node);
    let dot = d.sum(vec![path()], [K], |a| at(q, [a[1].clone()]) * row(ks, a[0].clone(), [a[1].clone()]));
    let total = d.sum([0usize; 0], [path()], |a| exp(at(dot, [a[0].clone()])));
    let sum = d.sum([K], [path()], |a| exp(at(dot, [a[1].clone()])) * row(ks, a[1].clone(), [a[0].clone()]));
    let out = d.each([K], |a| at(sum, [a[0].clone()]) / at(total, []));
    d.builder.assign(state, out);
    let graph = d.seal(&[out]);
    let (found, refusals) = attentions(&graph);
    assert!(found.is_empty());
    assert!(refusals.iter().any(|refusal| refusal.why.contains("feeds back")), "{refusals:?}");
    let sites = assign_sites(&graph);
    assert_eq!(sites.loops.len(), 1, "{:?}", sites.loops);
    assert!(sites.loops[0].nodes.contains(&out) && sites.loops[0].nodes.contains(&row_node));
}
