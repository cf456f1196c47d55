//! Reading a sum over a path: its range, its weights, their score and the maximum taken off it.

use super::*;

/// How many elementwise nodes may stand between a fold over a path and what is made of it, for these to be seen through.
pub(super) const NEAR: u8 = 4;

/// By node: it is elementwise and, within [`NEAR`] elementwise steps, reads a fold over a range that depends on values.
pub(in crate::queries) fn near_path_folds(analysis: &Analysis<'_>) -> Vec<bool> {
    let graph = analysis.graph;
    const FAR: u8 = u8::MAX - 1;
    const WEIGHTED: u8 = u8::MAX;
    // Steps from the nearest such fold; beyond NEAR is far.
    let mut steps = vec![FAR; graph.nodes().len()];
    for node in graph.node_ids() {
        let Some(compute) = analysis.compute(node) else { continue };
        if let Some(fold) = &compute.fold {
            if fold.axes.iter().any(|axis| extent(axis).is_none()) {
                let weighted = reads_history(graph, &compute.body);
                steps[node.index()] = if weighted { WEIGHTED } else { 0 };
            }
            continue;
        }
        if compute.guard.is_some() {
            continue;
        }
        let (mut least, mut weighted) = (FAR, false);
        let mut see = |step: u8| {
            weighted |= step == WEIGHTED;
            least = least.min(if step == WEIGHTED { FAR } else { step });
        };
        graph.node(node).kind.for_each_read(&mut |read| see(steps[read.index()]), &mut |_| {});
        // What is made of a weighted sum is that attention's own result, to be read and never looked into.
        steps[node.index()] = if weighted { FAR } else { least.saturating_add(1).min(FAR) };
    }
    graph
        .node_ids()
        .map(|node| (1..=NEAR).contains(&steps[node.index()]) && analysis.elementwise(node).is_some())
        .collect()
}

/// Whether a body reads a history, directly or through a view.
pub(super) fn reads_history(graph: &Graph, body: &Expr) -> bool {
    body.any(&mut |part| match part {
        Expr::History { .. } => true,
        Expr::Load { node, .. } => match &graph.node(*node).kind {
            NodeKind::Compute(view) => view.fold.is_none() && matches!(view.body, Expr::History { .. }),
            _ => false,
        },
        _ => false,
    })
}

/// A fold over the path, read: its range and the product that it sums.
pub(super) struct PathFold {
    /// The path axis.
    pub(super) path: Term,
    pub(super) ends: Ends,
    /// The exponent of the weight: everything under `exp`, added.
    pub(super) exponent: Term,
    /// Factors that change along the path, other than the weight.
    pub(super) varying: Vec<Term>,
    /// Factors that do not.
    pub(super) fixed: Vec<Term>,
    pub(super) coefficient: f64,
}

/// Reads the sum over a path at `node`, its own axes at `indices`, its path axis as `path`. `None` for other nodes.
pub(super) fn path_fold(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    node: NodeId,
    indices: &[Term],
    path: Term,
) -> Option<PathFold> {
    let (compute, fold) = analysis.summed(node)?;
    let [range @ Range::Between { .. }] = &fold.axes[..] else { return None };
    if compute.guard.is_some() {
        return None;
    }
    let ends = analysis.range(reader, range, indices);
    let values: Vec<Term> = indices.iter().copied().chain([path]).collect();
    let body = analysis.read(reader, &compute.body, &values);
    let product = analysis.algebra.product(body);
    let path_axes = analysis.algebra.axes(path);
    let mut exponents = Vec::new();
    let (mut varying, mut fixed) = (Vec::new(), Vec::new());
    for &factor in &product.factors {
        let exponent = match analysis.algebra.form(factor) {
            Form::Unary(Unary::Exp, inner) => Some((*inner, 1.0)),
            Form::Reciprocal(inner) => match analysis.algebra.form(*inner) {
                Form::Unary(Unary::Exp, inner) => Some((*inner, -1.0)),
                _ => None,
            },
            _ => None,
        };
        if let Some((inner, sign)) = exponent {
            let signed = analysis.algebra.scale(inner, sign);
            exponents.extend(analysis.algebra.products(signed));
        } else if analysis.algebra.axes(factor) & path_axes != 0 {
            varying.push(factor);
        } else {
            fixed.push(factor);
        }
    }
    let exponent = analysis.algebra.sum(exponents);
    Some(PathFold { path, ends, exponent, varying, fixed, coefficient: product.coefficient() })
}

/// `start ..= here` from the root or from a clamped window.
pub(super) fn path_start(analysis: &mut Analysis<'_>, sum: &PathFold) -> Result<PathStart, &'static str> {
    let here = analysis.algebra.here();
    let one = analysis.algebra.int(1);
    let end = analysis.algebra.index_combination(&[(here, 1), (one, 1)]);
    if sum.ends.end != end || sum.ends.inclusive {
        return Err("the range does not end at this node");
    }
    if analysis.algebra.as_int(sum.ends.start) == Some(0) {
        return Ok(PathStart::Root);
    }
    if let Form::Binary(Binary::Max, left, right) = *analysis.algebra.form(sum.ends.start) {
        for (zero, bound) in [(left, right), (right, left)] {
            let back = analysis.algebra.index_combination(&[(here, 1), (bound, -1)]);
            if let (Some(0), Some(back)) = (analysis.algebra.as_int(zero), analysis.algebra.as_int(back))
                && back >= 0
            {
                return Ok(PathStart::Sliding { reach: back as usize + 1 });
            }
        }
    }
    let back = analysis.algebra.index_combination(&[(here, 1), (sum.ends.start, -1)]);
    if analysis.algebra.as_int(back).is_some() {
        return Err("the range reaches below the root, where rows read as zero but still weigh");
    }
    Err("the range starts at no fixed distance")
}

/// A weight's exponent taken apart.
pub(super) struct Score {
    /// Over the accumulator, which stands for the dot product.
    pub(super) chain: Term,
    /// The exponent's part that changes along the path, as it is.
    pub(super) varying: Term,
    /// What is added to it that does not: minus the maximum, or nothing.
    pub(super) shift: Term,
    pub(super) query: Term,
    pub(super) key: Term,
    pub(super) key_dims: Vec<usize>,
}

pub(super) fn split_score(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    sum: &PathFold,
    rank: usize,
    seen: &mut Vec<NodeId>,
) -> Result<Score, String> {
    let path_axes = analysis.algebra.axes(sum.path);
    let (varying, fixed): (Vec<Product>, Vec<Product>) =
        analysis.algebra.products(sum.exponent).into_iter().partition(|product| {
            product.factors.iter().any(|&factor| analysis.algebra.axes(factor) & path_axes != 0)
        });
    let varying = analysis.algebra.sum(varying);
    let shift = if fixed.is_empty() { analysis.algebra.float(0.0) } else { analysis.algebra.sum(fixed) };
    check_shift(analysis, reader, sum, varying, shift, seen)?;

    // The dot product: the one sum over fixed axes that changes along the path.
    let mut dots: Vec<Term> = Vec::new();
    let mut foreign = None;
    analysis.algebra.visit(varying, &mut |term| {
        if analysis.algebra.axes(term) & path_axes == 0 {
            return false;
        }
        match analysis.algebra.form(term) {
            Form::Load { .. } => {
                dots.push(term);
                false
            }
            Form::History { .. } => {
                foreign = Some("the score reads a history outside a dot product");
                false
            }
            _ => true,
        }
    });
    if let Some(why) = foreign {
        return Err(why.to_string());
    }
    let [dot] = dots[..] else {
        return Err(format!("the score has {} sums that change along the path, not one", dots.len()));
    };
    let Form::Load { node, indices } = analysis.algebra.form(dot).clone() else {
        return Err("the score is no sum".to_string());
    };
    let Some((compute, fold)) = analysis.summed(node) else {
        return Err(format!("the score reads {node}, which is no sum"));
    };
    if compute.guard.is_some() {
        return Err(format!("the dot product {node} is guarded"));
    }
    let key_dims: Vec<usize> = fold.axes.iter().filter_map(extent).collect();
    if key_dims.len() != fold.axes.len() {
        return Err(format!("the dot product {node} does not run over fixed axes"));
    }
    seen.push(node);
    let folded = analysis.axes(&fold.axes, rank + 1);
    let values: Vec<Term> = indices.into_iter().chain(folded.iter().copied()).collect();
    let body = analysis.read(reader, &compute.body, &values);
    let product = analysis.algebra.product(body);
    let inner = folded.iter().fold(0, |bits, &axis| bits | analysis.algebra.axes(axis));
    let (mut key, mut query, mut outside) = (None, Vec::new(), Vec::new());
    for &factor in &product.factors {
        let axes = analysis.algebra.axes(factor);
        match analysis.algebra.form(factor) {
            Form::History { depth, .. } if *depth == sum.path => {
                if key.replace(factor).is_some() {
                    return Err("the dot product reads two rows".to_string());
                }
            }
            _ if axes & inner == 0 => outside.push(factor),
            _ if axes & path_axes != 0 => {
                return Err("a factor of the dot product changes along the path and is no row".to_string());
            }
            _ => query.push(factor),
        }
    }
    let Some(key) = key else { return Err("the dot product reads no row at the folded depth".to_string()) };
    if query.is_empty() {
        return Err("the dot product has no query".to_string());
    }
    if let Form::History { indices, .. } = analysis.algebra.form(key)
        && indices.iter().any(|&index| analysis.algebra.axes(index) & path_axes != 0)
    {
        return Err("the key's place in its row depends on the depth".to_string());
    }
    let query = analysis.algebra.term_of(Product::new(1.0, query));
    // What multiplies the sum goes to the score's chain.
    let accumulator = analysis.algebra.atom(Form::Accumulator);
    outside.push(accumulator);
    let scaled = analysis.algebra.term_of(Product::new(product.coefficient(), outside));
    let chain = analysis.algebra.replace(varying, &mut |_, term| (term == dot).then_some(scaled));
    let leftover = analysis.algebra.any(chain, &mut |form| matches!(form, Form::History { .. }));
    if leftover {
        return Err("the score reads a history outside the dot product".to_string());
    }
    Ok(Score { chain, varying, shift, query, key, key_dims })
}

/// The shift must be nothing, a literal, or minus the greatest score over the same range: anything else would weigh the
/// numbers differently where they overflow.
pub(super) fn check_shift(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    sum: &PathFold,
    varying: Term,
    shift: Term,
    seen: &mut Vec<NodeId>,
) -> Result<(), String> {
    for part in analysis.algebra.products(shift) {
        if part.factors.is_empty() {
            continue;
        }
        if !is_maximum(analysis, reader, sum, varying, &part, seen)? {
            return Err(
                "what is subtracted from the score is not its maximum over the same range".to_string()
            );
        }
    }
    Ok(())
}

/// Whether `part` is minus a positive multiple of a maximum whose own multiple is the score.
pub(super) fn is_maximum(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    sum: &PathFold,
    varying: Term,
    part: &Product,
    seen: &mut Vec<NodeId>,
) -> Result<bool, String> {
    let [factor] = part.factors[..] else { return Ok(false) };
    let times = -part.coefficient();
    if times <= 0.0 {
        return Ok(false);
    }
    match analysis.algebra.form(factor).clone() {
        // The greater of the maximum and something else (a sink) is as safe.
        Form::Binary(Binary::Max, left, right) => {
            for side in [left, right] {
                let side = analysis.algebra.product(side);
                let side = Product::new(side.coefficient() * part.coefficient(), side.factors);
                if is_maximum(analysis, reader, sum, varying, &side, seen)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Form::Load { node, indices } => {
            let Some(compute) = analysis.compute(node) else { return Ok(false) };
            let Some(fold) = &compute.fold else { return Ok(false) };
            let [range @ Range::Between { .. }] = &fold.axes[..] else { return Ok(false) };
            if fold.kind != FoldKind::Max || compute.guard.is_some() {
                return Ok(false);
            }
            if analysis.range(reader, range, &indices) != sum.ends {
                return Err("the maximum runs over a different range".to_string());
            }
            let values: Vec<Term> = indices.into_iter().chain([sum.path]).collect();
            let body = analysis.read(reader, &compute.body, &values);
            seen.push(node);
            Ok(analysis.algebra.scale(body, times) == varying)
        }
        _ => Ok(false),
    }
}
