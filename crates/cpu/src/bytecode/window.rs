//! Cutting a node's iteration space into windows: at the points where a comparison of an axis with a constant turns
//! (`if i < half { } else { }`), so that inside a window nothing is left to choose; and dividing an axis that the
//! expressions divide (`i / 64`, `i % 64`), so that they become affine again.

use fiddlehead_graph::{Binary, Compute, Fold, FoldKind, Range};

use super::build::{Built, Window};
use super::choose::live;
use super::value::{Extent, Kind, Type, compares};

/// More windows than this are not worth their code.
const MOST_WINDOWS: usize = 12;
/// Inner parts shorter than this make worse blocks than a gather does.
const LEAST_INNER: usize = 8;

/// The whole iteration space: result axes, then folded ones.
pub(super) fn whole(compute: &Compute) -> Vec<Window> {
    let folded = compute.fold.iter().flat_map(|fold: &Fold| &fold.axes);
    compute
        .axes
        .iter()
        .chain(folded)
        .map(|range| match range {
            Range::Fixed(n) => Window { low: 0, high: *n, divided: None },
            Range::Between { .. } => Window { low: 0, high: 0, divided: None },
        })
        .collect()
}

/// The windows that cover the result, from a build of the whole.
pub(super) fn windows(built: &Built, whole: &[Window]) -> Vec<Vec<Window>> {
    let mut all = vec![whole.to_vec()];
    for axis in 0..built.rank {
        let cuts = cuts(built, axis);
        if cuts.is_empty() || all.len() * (cuts.len() + 1) > MOST_WINDOWS {
            continue;
        }
        let mut next = Vec::new();
        for window in all {
            let mut low = window[axis].low;
            for &high in cuts.iter().chain([&window[axis].high]) {
                let mut part = window.clone();
                part[axis] = Window { low, high, divided: None };
                next.push(part);
                low = high;
            }
        }
        all = next;
    }
    all
}

/// Where some comparison of this axis alone with a constant turns, inside its range, ascending.
fn cuts(built: &Built, axis: usize) -> Vec<usize> {
    let values = &built.values;
    let Extent::Fixed { low, high } = values.extents[axis] else { return Vec::new() };
    let mut cuts = Vec::new();
    for value in live(built) {
        let facts = values.facts(value);
        let Kind::Binary(op, a, b) = facts.kind else { continue };
        let turns = compares(op) || matches!(op, Binary::Min | Binary::Max);
        if !turns || values.ty(a) != Type::Integer || facts.axes != 1 << axis {
            continue;
        }
        let form = values.affine(a).minus(&values.affine(b));
        let [(atom, by)] = form.terms[..] else { continue };
        if values.facts(atom).kind != Kind::Axis(axis) {
            continue;
        }
        // Of `by * x + constant`: the first x past zero, in the direction of x.
        let (by, constant) = if by < 0 { (-by, -form.constant) } else { (by, form.constant) };
        let reached = (-constant).div_euclid(by) + i64::from((-constant).rem_euclid(by) != 0);
        let passed = (-constant).div_euclid(by) + 1;
        cuts.extend([reached, passed].into_iter().filter(|&cut| match op {
            Binary::Equal | Binary::NotEqual => true,
            // `0 < x` turns where zero is passed, `x < 0` where it is reached.
            Binary::Less => (cut == reached) == (form.terms[0].1 > 0),
            Binary::LessEqual => (cut == passed) == (form.terms[0].1 > 0),
            _ => cut == reached,
        }));
    }
    cuts.retain(|&cut| cut > low as i64 && cut < high as i64);
    cuts.sort_unstable();
    cuts.dedup();
    cuts.into_iter().map(|cut| cut as usize).collect()
}

/// Axes of the node worth dividing, with the length of the inner part.
pub(super) fn divisions(built: &Built, windows: &[Window], fold: Option<&FoldKind>) -> Vec<(usize, usize)> {
    let values = &built.values;
    let mut found = Vec::new();
    for value in live(built) {
        let Kind::Binary(Binary::Divide | Binary::Remainder, a, b) = values.facts(value).kind else {
            continue;
        };
        let Some(by) = values.only(b).filter(|&by| by >= LEAST_INNER as i64) else { continue };
        for (atom, coefficient) in values.affine(a).terms {
            let Kind::Axis(axis) = values.facts(atom).kind else { continue };
            let Extent::Fixed { low, high } = values.extents[axis] else { continue };
            let movable =
                axis < built.rank || !matches!(fold, Some(FoldKind::ArgMax | FoldKind::Ordered { .. }));
            let inner = by as usize;
            let whole = low % inner == 0 && high % inner == 0 && high - low > inner;
            if coefficient == 1 && movable && whole && windows[axis].divided.is_none() {
                found.push((axis, inner));
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found.truncate(4);
    found
}
