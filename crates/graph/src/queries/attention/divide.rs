//! Proving that a weighted sum is divided by its weights, by itself or by all its readers.

use super::score::{PathFold, Score, path_fold};
use super::*;

/// The sum of weights that an attention divides by.
#[derive(Clone)]
pub(super) struct Denominator {
    pub(super) sink: Option<Term>,
}

/// Proves that `divisor` is the sum of the same weights over the same range, but for a sink.
pub(super) fn weights_sum(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    divisor: Term,
    sum: &PathFold,
    score: &Score,
    seen: &mut Vec<NodeId>,
) -> Result<Denominator, String> {
    let mut total = None;
    let mut sink: Option<Term> = None;
    for part in analysis.algebra.products(divisor) {
        if let [factor] = part.factors[..]
            && let Form::Load { node, indices } = analysis.algebra.form(factor).clone()
            && let Some(found) = path_fold(analysis, reader, node, &indices, sum.path)
        {
            if part.coefficient() != 1.0 || total.is_some() {
                return Err("it divides by a multiple of the weights' sum".to_string());
            }
            if found.ends != sum.ends {
                return Err("it divides by a sum over a different range".to_string());
            }
            if found.exponent != sum.exponent
                || found.coefficient != 1.0
                || !found.varying.is_empty()
                || !found.fixed.is_empty()
            {
                return Err("it divides by a sum of different weights".to_string());
            }
            seen.push(node);
            total = Some(node);
            continue;
        }
        // coefficient * e^x, taken out of the common shift.
        let mut exponents = vec![Product::new(part.coefficient().ln(), Vec::new())];
        for &factor in &part.factors {
            let Form::Unary(Unary::Exp, inner) = *analysis.algebra.form(factor) else {
                return Err("a term beside the weights' sum is no exponential".to_string());
            };
            exponents.extend(analysis.algebra.products(inner));
        }
        if !part.coefficient().ln().is_finite() || sink.is_some() {
            return Err("what is added to the weights' sum is no single positive term".to_string());
        }
        let shift = analysis.algebra.scale(score.shift, -1.0);
        exponents.extend(analysis.algebra.products(shift));
        // What cancels exactly leaves a zero multiple behind.
        let exponents = analysis.algebra.sum(exponents);
        let left: Vec<Product> = analysis
            .algebra
            .products(exponents)
            .into_iter()
            .filter(|product| product.coefficient() != 0.0)
            .collect();
        sink = Some(analysis.algebra.sum(left));
    }
    if total.is_none() {
        return Err("it does not divide by the weights' sum".to_string());
    }
    if let Some(sink) = sink {
        let path_read = analysis.algebra.any(sink, &mut |form| match form {
            Form::Load { node, .. } => analysis
                .compute(*node)
                .and_then(|compute| compute.fold.as_ref())
                .is_some_and(|fold| fold.axes.iter().any(|axis| extent(axis).is_none())),
            Form::History { .. } => true,
            _ => false,
        });
        if path_read || analysis.algebra.axes(sink) & analysis.algebra.axes(sum.path) != 0 {
            return Err("the sink depends on the scores".to_string());
        }
    }
    Ok(Denominator { sink })
}

/// The undivided sum in its own axes, to find it at others'.
pub(super) struct Divided<'a> {
    pub(super) node: NodeId,
    pub(super) sum: &'a PathFold,
    pub(super) score: &'a Score,
    pub(super) rank: usize,
}

/// Proves that a reader uses the undivided sum only divided by the weights' sum, and gives the reader's body with the
/// division taken out.
pub(super) fn divided(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    user: NodeId,
    space: &Divided<'_>,
    seen: &mut Vec<NodeId>,
) -> Result<(Denominator, Term), Refusal> {
    let refuse = |why: String| Refusal::new(space.node, Rule::Attention, why);
    let Some(compute) = analysis.elementwise(user) else {
        return Err(refuse(format!("{user} reads the undivided sum and is not elementwise")));
    };
    // The reader's axes must not be taken for the sum's: number them far away, then move them back.
    let away = 2 * space.rank + 8;
    let axes = analysis.axes(&compute.axes, away);
    let body = analysis.read(reader, &compute.body, &axes);
    let mut found: Option<Denominator> = None;
    let mut failed: Option<String> = None;
    let mut memo = HashMap::new();
    let term = strip(analysis, reader, body, space, seen, &mut found, &mut failed, &mut memo);
    if let Some(why) = failed {
        return Err(refuse(format!("{user}: {why}")));
    }
    let Some(found) = found else {
        return Err(refuse(format!("{user} reads the sum without dividing it by the weights' sum")));
    };
    let home = analysis.axes(&compute.axes, 0);
    let map: Vec<(Term, Term)> = axes.into_iter().zip(home).collect();
    Ok((found, analysis.algebra.substitute(term, &map)))
}

/// Rebuilds a term with each `sum / weights` replaced by `sum`.
#[allow(clippy::too_many_arguments)]
pub(super) fn strip(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    term: Term,
    space: &Divided<'_>,
    seen: &mut Vec<NodeId>,
    found: &mut Option<Denominator>,
    failed: &mut Option<String>,
    memo: &mut HashMap<Term, Term>,
) -> Term {
    if let Some(&known) = memo.get(&term) {
        return known;
    }
    let node = space.node;
    let is_sum = |algebra: &Algebra<'_>, term: Term| matches!(algebra.form(term), Form::Load { node: loaded, .. } if *loaded == node);
    let inside = analysis
        .algebra
        .any(term, &mut |form| matches!(form, Form::Load { node: loaded, .. } if *loaded == node));
    if !inside || failed.is_some() {
        return term;
    }
    let result = match analysis.algebra.form(term).clone() {
        Form::Load { node: loaded, .. } if loaded == node => {
            *failed = Some("it reads the sum without dividing it".to_string());
            term
        }
        Form::Sum(products) => {
            let mut result = Vec::new();
            for product in products {
                let sums: Vec<Term> = product
                    .factors
                    .iter()
                    .copied()
                    .filter(|&factor| is_sum(&analysis.algebra, factor))
                    .collect();
                let mut factors = product.factors.clone();
                if let [sum] = sums[..] {
                    match divisor_of(analysis, reader, &product, sum, space, seen) {
                        Ok((place, denominator)) => {
                            factors.remove(place);
                            if found.as_ref().is_some_and(|found| found.sink != denominator.sink) {
                                *failed = Some("it divides by different sums".to_string());
                            }
                            *found = Some(denominator);
                        }
                        Err(why) => {
                            failed.get_or_insert(why);
                        }
                    }
                } else if !sums.is_empty() {
                    *failed = Some("it multiplies the sum with itself".to_string());
                }
                let mut rebuilt = Product::new(product.coefficient(), Vec::new());
                for factor in factors {
                    let factor = if is_sum(&analysis.algebra, factor) {
                        factor
                    } else {
                        strip(analysis, reader, factor, space, seen, found, failed, memo)
                    };
                    let factor = analysis.algebra.product(factor);
                    rebuilt = analysis.algebra.multiply_products(&rebuilt, &factor);
                }
                let rebuilt = analysis.algebra.term_of(rebuilt);
                result.extend(analysis.algebra.products(rebuilt));
            }
            analysis.algebra.sum(result)
        }
        Form::Reciprocal(a) => {
            let a = strip(analysis, reader, a, space, seen, found, failed, memo);
            analysis.algebra.reciprocal(a)
        }
        Form::Unary(op, a) => {
            let a = strip(analysis, reader, a, space, seen, found, failed, memo);
            analysis.algebra.unary(op, a)
        }
        Form::Binary(op, a, b) => {
            let a = strip(analysis, reader, a, space, seen, found, failed, memo);
            let b = strip(analysis, reader, b, space, seen, found, failed, memo);
            analysis.algebra.binary(op, a, b)
        }
        Form::Select(c, a, b) => {
            let c = strip(analysis, reader, c, space, seen, found, failed, memo);
            let a = strip(analysis, reader, a, space, seen, found, failed, memo);
            let b = strip(analysis, reader, b, space, seen, found, failed, memo);
            analysis.algebra.select(c, a, b)
        }
        _ => {
            *failed = Some("it reads the sum inside an index".to_string());
            term
        }
    };
    memo.insert(term, result);
    result
}

/// The factor of a product that divides its sum by the weights' sum.
pub(super) fn divisor_of(
    analysis: &mut Analysis<'_>,
    reader: &mut Reader<'_>,
    product: &Product,
    sum: Term,
    space: &Divided<'_>,
    seen: &mut Vec<NodeId>,
) -> Result<(usize, Denominator), String> {
    let Form::Load { indices, .. } = analysis.algebra.form(sum).clone() else {
        return Err("it reads no sum".to_string());
    };
    let (Some((compute, _)), path) = (analysis.summed(space.node), space.sum.path) else {
        return Err("it reads no sum".to_string());
    };
    // The weights at the reader's indices.
    let own = analysis.axes(&compute.axes, 0);
    let map: Vec<(Term, Term)> = own.into_iter().zip(indices.iter().copied()).collect();
    let Some(here) = path_fold(analysis, reader, space.node, &indices, path) else {
        return Err("it reads no sum over a path".to_string());
    };
    let shift = analysis.algebra.substitute(space.score.shift, &map);
    let varying = analysis.algebra.substitute(space.score.varying, &map);
    let score = Score {
        chain: space.score.chain,
        varying,
        shift,
        query: space.score.query,
        key: space.score.key,
        key_dims: Vec::new(),
    };
    let mut reason = "it does not divide the sum".to_string();
    for (place, &factor) in product.factors.iter().enumerate() {
        let Form::Reciprocal(divisor) = *analysis.algebra.form(factor) else { continue };
        match weights_sum(analysis, reader, divisor, &here, &score, seen) {
            Ok(mut denominator) => {
                // Sinks are told in the sum's own axes.
                if let Some(sink) = denominator.sink {
                    let back: Vec<(Term, Term)> = map.iter().map(|&(own, at)| (at, own)).collect();
                    denominator.sink = Some(analysis.algebra.substitute(sink, &back));
                }
                return Ok((place, denominator));
            }
            Err(why) => reason = why,
        }
    }
    Err(reason)
}
