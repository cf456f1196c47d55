//! Proving that a distributed update is the delta rule.

use super::*;

/// The distributed update of a state with one fold of it: `Σ kept * s + correction * fold[indices] + Σ free`.
pub(super) struct Parts<'a> {
    pub(super) kept: Vec<Product>,
    pub(super) correction: Product,
    pub(super) fold: NodeId,
    pub(super) fold_indices: &'a [Term],
    pub(super) free: Vec<Product>,
    pub(super) axes: &'a [Term],
}

pub(super) fn delta(
    analysis: &mut Analysis<'_>,
    update: &Update<'_>,
    parts: Parts<'_>,
    reader: &mut Reader<'_>,
    candidates: &mut Vec<NodeId>,
) -> Result<(Delta, Vec<NodeId>), Refusal> {
    let graph = analysis.graph;
    let rank = parts.axes.len();
    let refuse = |why: &str| Refusal::new(parts.fold, Rule::DeltaRule, why);
    let Some((compute, fold)) = analysis.summed(parts.fold) else {
        return Err(refuse("what it reads of the old state is no sum"));
    };
    let [Range::Fixed(extent)] = fold.axes[..] else {
        return Err(refuse("the sum over the state has not one fixed axis"));
    };
    if compute.guard.is_some() {
        return Err(refuse("the sum over the state is guarded"));
    }
    // The fold's own axes take the values of the reading; its folded axis is numbered after the state's.
    let folded = analysis.algebra.axis(rank, Some(extent));
    let values: Vec<Term> = parts.fold_indices.iter().copied().chain([folded]).collect();
    let body = analysis.read(reader, &compute.body, &values);
    let inner = analysis.algebra.product(body);
    let mut state_indices = None;
    let mut rest: Vec<Term> = Vec::new();
    for &factor in &inner.factors {
        match analysis.algebra.form(factor) {
            Form::Load { node, indices } if matches!(graph.node(*node).kind, NodeKind::State(own) if own == update.state) => {
                if state_indices.replace(indices.clone()).is_some() {
                    return Err(refuse("the sum reads the old state twice"));
                }
            }
            _ => rest.push(factor),
        }
    }
    let Some(state_indices) = state_indices else {
        return Err(refuse("the sum is no plain product with the old state"));
    };
    let moved: Vec<usize> = (0..rank).filter(|&place| state_indices[place] != parts.axes[place]).collect();
    let [key_axis] = moved[..] else {
        return Err(refuse("the sum does not run along one axis of the state"));
    };
    if state_indices[key_axis] != folded || extent != update.shape[key_axis] {
        return Err(refuse("the sum does not run over a whole axis of the state"));
    }
    for &factor in &rest {
        if let Form::Load { node, .. } = analysis.algebra.form(factor)
            && analysis.elementwise(*node).is_some()
            && !candidates.contains(node)
        {
            candidates.push(*node);
        }
    }
    // Seen along the key axis instead of the folded one, both keys must be the same factors.
    let key = parts.axes[key_axis];
    let rest: Vec<Term> =
        rest.into_iter().map(|factor| analysis.algebra.substitute(factor, &[(folded, key)])).collect();
    let key_bit = axis_bit(key_axis);
    // The decay.
    let decay = match &parts.kept[..] {
        [decay] => decay.clone(),
        [] => return Err(refuse("the old state itself is dropped")),
        _ => {
            let sum = analysis.algebra.sum(parts.kept.clone());
            analysis.algebra.product(sum)
        }
    };
    if decay.factors.iter().any(|&factor| analysis.algebra.axes(factor) & key_bit != 0) {
        return Err(refuse("the decay changes along the key axis"));
    }
    let along = |analysis: &Analysis<'_>, factors: &[Term]| -> (Vec<Term>, Vec<Term>) {
        factors.iter().partition(|&&factor| analysis.algebra.axes(factor) & key_bit != 0)
    };
    let (read_key, read_rest) = along(analysis, &rest);
    let (write_key, write_rest) = along(analysis, &parts.correction.factors);
    if read_key.is_empty() || write_key.is_empty() {
        return Err(refuse("a key does not depend on the key axis"));
    }
    if sorted(&read_key) != sorted(&write_key) {
        return Err(refuse("what is written under is not what the state was read with"));
    }

    // What multiplies the fold: -1 * write_key * beta * c.
    let coefficient = parts.correction.coefficient() * inner.coefficient();
    let around: Vec<Term> = write_rest.into_iter().chain(read_rest).collect();
    let attempts: [(Option<Vec<Term>>, f64, CorrectionReads); 2] = [
        (without(&around, &decay.factors), coefficient / decay.coefficient(), CorrectionReads::Decayed),
        (Some(around.clone()), coefficient, CorrectionReads::Incoming),
    ];
    let mut found = None;
    for (beta, coefficient, reads) in attempts {
        let Some(beta) = beta else { continue };
        let step = -coefficient;
        if !(step.is_finite() && step > 0.0) {
            continue;
        }
        // Every addend must be key * beta * something; the sum of the somethings is the value.
        let mut wanted = write_key.clone();
        wanted.extend(&beta);
        let value: Option<Vec<Product>> = parts
            .free
            .iter()
            .map(|product| {
                without(&product.factors, &wanted)
                    .map(|factors| Product::new(product.coefficient() / step, factors))
            })
            .collect();
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            found = Some((beta, step, reads, value));
            break;
        }
    }
    let Some((beta, step, mut reads, value)) = found else {
        return Err(refuse("the correction is not a step towards a value: beta * (value - sum)"));
    };
    let no_decay = decay.factors.is_empty() && decay.coefficient() == 1.0;
    if no_decay {
        reads = CorrectionReads::Decayed;
    }
    let value = analysis.algebra.sum(value);
    let beta = Product::new(step, beta);
    let beta = analysis.algebra.term_of(beta);
    let decay = analysis.algebra.term_of(decay);
    let key_term = analysis.algebra.term_of(Product::new(1.0, write_key));

    // The value axis is the last that nothing but the value needs; the others are heads.
    let shared = analysis.algebra.axes(beta) | analysis.algebra.axes(decay) | analysis.algebra.axes(key_term);
    let Some(value_axis) = (0..rank).rev().find(|&axis| shared & axis_bit(axis) == 0) else {
        return Err(refuse("the decay, the step size or the key depends on every axis"));
    };
    if analysis.algebra.axes(value) & key_bit != 0 {
        return Err(refuse("the value changes along the key axis"));
    }
    let head_axes: Vec<usize> = (0..rank).filter(|&axis| axis != key_axis && axis != value_axis).collect();
    let heads = head_axes.len();
    let number = |axis: usize| {
        if axis == key_axis {
            return Some(heads);
        }
        if axis == value_axis {
            return Some(heads + 1);
        }
        head_axes.iter().position(|&head| head == axis)
    };
    let mut extents: Vec<Option<usize>> = head_axes.iter().map(|&axis| Some(update.shape[axis])).collect();
    extents.extend([Some(update.shape[key_axis]), Some(update.shape[value_axis])]);
    let operand = |analysis: &Analysis<'_>, term: Term| {
        analysis.operand(term, &number, &extents).ok_or_else(|| refuse("an operand has no index form"))
    };
    let mut seen = vec![parts.fold];
    let decay = if no_decay {
        Decay::One
    } else {
        match exponent(analysis, decay) {
            Some((exponent, through)) => {
                seen.extend(through);
                Decay::Exponent(operand(analysis, exponent)?)
            }
            None => Decay::Multiplier(operand(analysis, decay)?),
        }
    };
    let operand_beta = match analysis.algebra.as_float(beta) {
        Some(1.0) => None,
        _ => Some(operand(analysis, beta)?),
    };
    let delta = Delta {
        key: operand(analysis, key_term)?,
        value: operand(analysis, value)?,
        heads: head_axes.iter().map(|&axis| update.shape[axis]).collect(),
        key_dim: update.shape[key_axis],
        value_dim: update.shape[value_axis],
        head_axes,
        key_axis,
        value_axis,
        beta: operand_beta,
        decay,
        reads,
        readouts: Vec::new(),
    };
    Ok((delta, seen))
}

/// The exponent of a decay that is visibly e to something, and the node seen through for it.
pub(super) fn exponent(analysis: &mut Analysis<'_>, decay: Term) -> Option<(Term, Option<NodeId>)> {
    match analysis.algebra.form(decay).clone() {
        Form::Unary(Unary::Exp, exponent) => Some((exponent, None)),
        Form::Load { node, indices } => {
            let compute = analysis.elementwise(node)?;
            let Expr::Unary(Unary::Exp, inner) = &compute.body else { return None };
            let exponent = analysis.read(&mut Reader::new(&|_| false), inner, &indices);
            Some((exponent, Some(node)))
        }
        _ => None,
    }
}

pub(super) fn sorted(terms: &[Term]) -> Vec<Term> {
    let mut terms = terms.to_vec();
    terms.sort();
    terms
}

/// The factors left of `from` after each of `taken` is removed once; `None` when one is not there.
pub(super) fn without(from: &[Term], taken: &[Term]) -> Option<Vec<Term>> {
    let mut left = from.to_vec();
    for term in taken {
        let place = left.iter().position(|factor| factor == term)?;
        left.remove(place);
    }
    Some(left)
}
