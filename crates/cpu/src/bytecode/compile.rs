//! From a node to the codes of its windows, and of its box when it is local.

use fiddlehead_graph::{Compute, Expr, Fold, FoldKind, Graph, NodeId, Range};

use super::build::{Window, build};
use super::choose::choose;
use super::code::Code;
use super::emit::{Emission, emit};
use super::layout::{CompileError, SourceLayout, Strides, row_major_strides};
use super::window::{divisions, whole, windows};

/// How the box of a local tensor comes about, one axis.
#[derive(Debug)]
pub(super) enum BoxAxis {
    Fixed(usize),
    /// The least start and the greatest end over all points of the earlier axes.
    Between {
        low: Box<Code>,
        high: Box<Code>,
        /// Whether the greatest end is itself a value.
        inclusive: bool,
    },
}

/// Compiles the windows of a compute, and the multiple at which its outermost axis may be cut.
pub(super) fn compile_windows(
    graph: &Graph,
    node: NodeId,
    compute: &Compute,
    layouts: &dyn Fn(NodeId) -> SourceLayout,
    output: &SourceLayout,
) -> Result<(Vec<Code>, usize), CompileError> {
    let fold = compute.fold.as_ref().map(|fold| &fold.kind);
    let all = whole(compute);
    let built = build(graph, node, compute, layouts, &all)?;
    let mut codes = Vec::new();
    let mut multiple = 1;
    for window in windows(&built, &all) {
        let mut window: Vec<Window> = window;
        let mut best = build(graph, node, compute, layouts, &window)?;
        let (mut nest, mut cost) = choose(&best, fold, &output.strides);
        for (axis, inner) in divisions(&best, &window, fold) {
            let mut divided = window.clone();
            divided[axis].divided = Some(inner);
            let Ok(other) = build(graph, node, compute, layouts, &divided) else { continue };
            let (other_nest, other_cost) = choose(&other, fold, &output.strides);
            if other_cost < cost {
                (best, nest, cost, window) = (other, other_nest, other_cost, divided);
            }
        }
        let divided = window.first().filter(|_| best.rank > 0).and_then(|window| window.divided);
        multiple = least_common_multiple(multiple, divided.unwrap_or(1));
        let mut code = emit(Emission { built: &best, nest, fold, output, outermost_divided: divided, cost });
        code.dense = dense(&compute.axes, &output.strides);
        codes.push(code);
    }
    Ok((codes, multiple))
}

/// The outermost stride and extent of a row without gaps.
fn dense(axes: &[Range], strides: &Strides) -> Option<(usize, usize)> {
    let Strides::Fixed(strides) = strides else { return None };
    let shape: Vec<usize> = axes
        .iter()
        .map(|range| match range {
            Range::Fixed(n) => *n,
            Range::Between { .. } => 0,
        })
        .collect();
    (*strides == row_major_strides(&shape)).then(|| match (strides.first(), shape.first()) {
        (Some(&stride), Some(&extent)) => (stride, extent),
        _ => (1, 1),
    })
}

fn least_common_multiple(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

/// Programs for the least start and greatest end of each jagged axis: folds over the earlier axes.
pub(super) fn compile_box(
    graph: &Graph,
    node: NodeId,
    axes: &[Range],
    layouts: &dyn Fn(NodeId) -> SourceLayout,
) -> Result<Vec<BoxAxis>, CompileError> {
    let mut box_axes = Vec::new();
    for (place, range) in axes.iter().enumerate() {
        box_axes.push(match range {
            Range::Fixed(extent) => BoxAxis::Fixed(*extent),
            Range::Between { start, end, inclusive, .. } => {
                let extreme = |expr: &Expr, kind: FoldKind| {
                    let varies = expr.any(&mut |part| matches!(part, Expr::Axis(_)));
                    let fold = varies.then(|| Fold { kind, axes: axes[..place].to_vec() });
                    let compute = Compute {
                        axes: Vec::new(),
                        fold,
                        guard: None,
                        body: expr.clone(),
                        permissions: Default::default(),
                    };
                    let fold = compute.fold.as_ref().map(|fold| &fold.kind);
                    let built = build(graph, node, &compute, layouts, &whole(&compute))?;
                    let output = SourceLayout::row_major(usize::MAX, &[], false);
                    let (nest, cost) = choose(&built, fold, &output.strides);
                    let emission = Emission {
                        built: &built,
                        nest,
                        fold,
                        output: &output,
                        outermost_divided: None,
                        cost,
                    };
                    Ok(Box::new(emit(emission)))
                };
                let (low, high) = (extreme(start, FoldKind::Min)?, extreme(end, FoldKind::Max)?);
                BoxAxis::Between { low, high, inclusive: *inclusive }
            }
        });
    }
    Ok(box_axes)
}
