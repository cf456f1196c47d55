//! Causal convolutions, the storage of histories, demand and liveness.

mod common;

use common::*;
use fiddlehead_graph::queries::*;
use fiddlehead_graph::*;

const C: usize = 10;

fn found(graph: &Graph) -> Window {
    let (mut found, refusals) = windows(graph);
    assert_eq!(found.len(), 1, "{refusals:?}");
    found.remove(0)
}

/// `sum[j in taps] w[c, j] * xs[here - (taps - 1) + j][c]`, and the same through silu.
fn folded(taps: usize, newest_first: bool) -> (Graph, NodeId) {
    let mut d = Draft::new();
    let x = d.input("x", &[C]);
    let w = d.weight("w", &[C, taps]);
    let xs = d.builder.history("xs", x);
    let sum = d.sum([C], [taps], |a| {
        let depth =
            if newest_first { here() - a[1].clone() } else { here() - (taps as i64 - 1) + a[1].clone() };
        at(w, [a[0].clone(), a[1].clone()]) * row(xs, depth, [a[0].clone()])
    });
    let y = d.each([C], |a| silu(at(sum, [a[0].clone()])));
    (d.seal(&[y]), w)
}

#[test]
fn taps_as_a_fold() {
    for taps in [3, 4, 5] {
        for newest_first in [false, true] {
            let (graph, w) = folded(taps, newest_first);
            let site = found(&graph);
            assert_eq!((site.reach, site.taps.len(), &site.channels[..]), (taps, taps, &[C][..]));
            // Oldest first, whichever way the program counts.
            for (place, tap) in site.taps.iter().enumerate() {
                let tap = tap.as_ref().expect("a weight");
                let column = if newest_first { taps - 1 - place } else { place };
                assert_eq!(tap.node(), Some(w));
                assert_eq!(tap.indices, [Affine::axis(0), Affine::constant(column as i64)]);
            }
            assert_eq!(site.weight.is_some(), !newest_first);
            assert_eq!(history_storage(&graph), [HistoryStorage::Ring { reach: taps }]);
            let sites = assign_sites(&graph);
            assert!(sites.sites.iter().any(|site| matches!(site, Site::Window(_))));
            let (fused, _) = fusions(&graph, &sites);
            assert_eq!(fused.len(), 1, "{fused:?}");
            assert_eq!(fused[0].epilogue.len(), 1);
        }
    }
}

#[test]
fn taps_written_out() {
    let mut d = Draft::new();
    let x = d.input("x", &[C]);
    let w = d.weight("w", &[4, C]);
    let bias = d.weight("bias", &[C]);
    let xs = d.builder.history("xs", x);
    let y = d.each([C], |a| {
        let tap = |j: i64| at(w, [int(j), a[0].clone()]);
        // The newest row as the tensor it is; the second newest is missing.
        silu(
            tap(0) * row(xs, here() - 3, [a[0].clone()])
                + tap(1) * row(xs, here() - 2, [a[0].clone()])
                + tap(3) * at(x, [a[0].clone()])
                + at(bias, [a[0].clone()]),
        )
    });
    let graph = d.seal(&[y]);
    let site = found(&graph);
    assert_eq!(site.reach, 4);
    let there: Vec<bool> = site.taps.iter().map(Option::is_some).collect();
    assert_eq!(there, [true, true, false, true]);
    assert!(site.bias.is_some());
    assert_eq!(site.epilogue, Some(Expr::unary(Unary::Silu, Expr::Accumulator)));
    assert_eq!(history_storage(&graph), [HistoryStorage::Ring { reach: 4 }]);
}

#[test]
fn nearly_windows() {
    // Nonlinear in a row.
    let mut d = Draft::new();
    let x = d.input("x", &[C]);
    let xs = d.builder.history("xs", x);
    let y =
        d.each([C], |a| row(xs, here() - 1, [a[0].clone()]) * 0.5 + silu(row(xs, here(), [a[0].clone()])));
    let (none, refusals) = windows(&d.seal(&[y]));
    assert!(none.is_empty());
    assert!(refusals.iter().any(|refusal| refusal.why.contains("other than times a weight")), "{refusals:?}");

    // Channels that differ by tap.
    let mut d = Draft::new();
    let x = d.input("x", &[C]);
    let xs = d.builder.history("xs", x);
    let y = d.each([C], |a| {
        row(xs, here() - 1, [(a[0].clone() + 1) % C as i64]) * 0.5 + row(xs, here(), [a[0].clone()])
    });
    let (none, refusals) = windows(&d.seal(&[y]));
    assert!(none.is_empty());
    assert!(refusals.iter().any(|refusal| refusal.why.contains("different channels")), "{refusals:?}");

    // All channels of the rows: a contraction over a tail.
    let mut d = Draft::new();
    let x = d.input("x", &[C]);
    let w = d.weight("w", &[C, 4, C]);
    let xs = d.builder.history("xs", x);
    let y = d.sum([C], [4, C], |a| {
        at(w, [a[0].clone(), a[1].clone(), a[2].clone()]) * row(xs, here() - 3 + a[1].clone(), [a[2].clone()])
    });
    let graph = d.seal(&[y]);
    assert!(windows(&graph).0.is_empty());
    let (found, _) = contractions(&graph);
    assert_eq!(found.len(), 1);
    assert!(matches!(found[0].operands[0].source, Source::History(_)));
    assert_eq!(history_storage(&graph), [HistoryStorage::Ring { reach: 4 }]);
}

#[test]
fn storage_follows_the_reads() {
    let storage = |read: &dyn Fn(&mut Draft, HistoryId) -> NodeId| {
        let mut d = Draft::new();
        let x = d.input("x", &[C]);
        let xs = d.builder.history("xs", x);
        let y = read(&mut d, xs);
        history_storage(&d.seal(&[y])).remove(0)
    };
    let whole = |d: &mut Draft, xs| d.sum([C], [path()], |a| row(xs, a[1].clone(), [a[0].clone()]));
    let sliding = |d: &mut Draft, xs| {
        d.sum([C], [between(greater(int(0), here() - 9))], |a| row(xs, a[1].clone(), [a[0].clone()]))
    };
    assert_eq!(storage(&whole), HistoryStorage::Whole);
    assert_eq!(storage(&sliding), HistoryStorage::Ring { reach: 10 });
    assert_eq!(
        storage(&|d, xs| {
            let (a, b) = (whole(d, xs), sliding(d, xs));
            d.each([C], |i| at(a, [i[0].clone()]) + at(b, [i[0].clone()]))
        }),
        HistoryStorage::Both { reach: 10 }
    );
    let own = |d: &mut Draft, xs| d.each([C], |a| row(xs, here(), [a[0].clone()]));
    assert_eq!(storage(&own), HistoryStorage::Nothing);
    // Every other row: unbounded.
    let even = |d: &mut Draft, xs| d.each([C], |a| row(xs, here() / 2, [a[0].clone()]));
    assert_eq!(storage(&even), HistoryStorage::Whole);
}

#[test]
fn demand_parts_outputs_from_state() {
    let mut d = Draft::new();
    let x = d.input("x", &[C]);
    let feeding = d.each([C], |a| at(x, [a[0].clone()]) * 2.0);
    let (state, old) = d.state("s", &[C]);
    let next = d.each([C], |a| at(old, [a[0].clone()]) + at(feeding, [a[0].clone()]));
    d.builder.assign(state, next);
    let hidden = d.each([C], |a| silu(at(next, [a[0].clone()])));
    let head = d.weight("head", &[30, C]);
    let logits = d.sum([30], [C], |a| at(head, [a[0].clone(), a[1].clone()]) * at(hidden, [a[1].clone()]));
    let dead = d.each([C], |a| at(hidden, [a[0].clone()]) + 1.0);
    let graph = d.seal(&[logits, hidden]);
    let demand = demands(&graph);
    assert_eq!(demand[logits.index()], Demand { all: false, outputs: 1 });
    assert_eq!(demand[hidden.index()], Demand { all: false, outputs: 3 });
    assert_eq!(demand[feeding.index()], Demand { all: true, outputs: 3 });
    assert!(demand[dead.index()].is_none());
    let live = liveness(&graph);
    assert_eq!(live.last_use[feeding.index()], next);
    assert!(live.escapes[next.index()] && !live.escapes[feeding.index()]);
    assert!(live.level[logits.index()] > live.level[hidden.index()]);
    assert_eq!(assign_sites(&graph).owner[dead.index()], None);
    let variances = variances(&graph);
    assert_eq!(variances[head.index()], Variance::Constant);
    assert_eq!(variances[logits.index()], Variance::PerNode);
}

#[test]
fn indices_are_proven_or_listed() {
    let mut d = Draft::new();
    let table = d.weight("table", &[100, C]);
    let place = d.input("place", &[]);
    let x = d.input("x", &[4, 6]);
    let xs = d.builder.history("xs", x);
    let inside = d.each([24], |a| at(x, [a[0].clone() / 6, a[0].clone() % 6]));
    let outside = d.each([4, 7], |a| at(x, [a[0].clone(), a[1].clone()]));
    let gathered = d.each([C], |a| at(table, [unary(Unary::ToInt, at(place, [])), a[0].clone()]));
    let past = d.sum([0usize; 0], [path()], |a| row(xs, a[0].clone(), [int(0), int(0)]));
    let ahead = d.sum([0usize; 0], [path()], |a| row(xs, a[0].clone() + 1, [int(0), int(0)]));
    let graph = d.builder.graph().clone();
    let _ = (inside, past);
    let unproven = unproven_indices(&graph);
    let found: Vec<(NodeId, Indexed, usize)> =
        unproven.into_iter().map(|found| (found.node, found.read, found.axis)).collect();
    assert_eq!(
        found,
        [(outside, Indexed::Node(x), 1), (gathered, Indexed::Node(table), 0), (ahead, Indexed::Depth(xs), 0)]
    );
}
