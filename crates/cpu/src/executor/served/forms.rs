//! Index forms turned into tables of offsets: where each head of an operand begins.

use fiddlehead_graph::queries::{Affine, Atom};

/// The least and the greatest value of a form over axes of those extents; none when it depends on anything else.
pub(super) fn bounds(form: &Affine, extents: &[usize]) -> Option<(i64, i64)> {
    if form.here != 0 {
        return None;
    }
    let (mut low, mut high) = (form.constant, form.constant);
    for (atom, factor) in &form.terms {
        let (least, most) = match atom {
            Atom::Axis(axis) => (0, (*extents.get(*axis)?).max(1) as i64 - 1),
            Atom::Quotient(inner, divisor) => {
                let (least, most) = bounds(inner, extents)?;
                (least.div_euclid(*divisor), most.div_euclid(*divisor))
            }
            Atom::Remainder(inner, divisor) => match bounds(inner, extents)? {
                inside @ (least, most) if least >= 0 && most < *divisor => inside,
                _ => (0, divisor - 1),
            },
            Atom::Gathered(_) => return None,
        };
        let ends = [factor.checked_mul(least)?, factor.checked_mul(most)?];
        low = low.checked_add(ends[0].min(ends[1]))?;
        high = high.checked_add(ends[0].max(ends[1]))?;
    }
    Some((low, high))
}

/// A form as the sum of two, over the first `rank` axes and over the others; none when a part of it mixes them.
pub(super) fn parted(form: &Affine, rank: usize, axes: usize) -> Option<[Affine; 2]> {
    let mut parts = [Affine::constant(form.constant), Affine::default()];
    for (atom, factor) in &form.terms {
        let alone = Affine { terms: vec![(atom.clone(), *factor)], ..Affine::default() };
        let uses = [0..rank, rank..axes].map(|mut range| range.any(|axis| alone.uses(axis)));
        match uses {
            [true, true] => return None,
            [_, later] => parts[usize::from(later)].add(&alone, 1),
        }
    }
    (form.here == 0).then_some(parts)
}

/// The value of a form when axis `i` has the value `axes[i]`; none when it depends on anything else.
pub(super) fn value(form: &Affine, axes: &[usize]) -> Option<i64> {
    if form.here != 0 {
        return None;
    }
    let mut sum = form.constant;
    for (atom, coefficient) in &form.terms {
        let atom = match atom {
            Atom::Axis(axis) => *axes.get(*axis)? as i64,
            Atom::Quotient(inner, divisor) => value(inner, axes)?.div_euclid(*divisor),
            Atom::Remainder(inner, divisor) => value(inner, axes)?.rem_euclid(*divisor),
            Atom::Gathered(_) => return None,
        };
        sum += coefficient * atom;
    }
    Some(sum)
}

/// Calls `f` with every point of a box, the last axis fastest.
pub(super) fn for_each_point(extents: &[usize], mut f: impl FnMut(&[usize])) {
    let mut point = vec![0; extents.len()];
    if extents.contains(&0) {
        return;
    }
    loop {
        f(&point);
        let Some(axis) = (0..extents.len()).rev().find(|&axis| point[axis] + 1 < extents[axis]) else {
            return;
        };
        point[axis] += 1;
        point[axis + 1..].fill(0);
    }
}

/// Offsets of an operand for every point of the head axes `0 .. heads.len()`, when along the axes from `inner` on, of
/// those extents, the operand is contiguous in order, the same way for every head. Other axes must not be used.
pub(super) fn head_offsets(
    form: &Affine,
    heads: &[usize],
    inner: usize,
    inner_extents: &[usize],
) -> Option<Vec<usize>> {
    let mut stride = 1i64;
    let mut rest = form.clone();
    for (place, &extent) in inner_extents.iter().enumerate().rev() {
        let axis = inner + place;
        let found =
            rest.terms.iter().position(|(atom, _)| matches!(atom, Atom::Axis(other) if *other == axis));
        match found {
            Some(term) if rest.terms[term].1 == stride => {
                rest.terms.remove(term);
            }
            None if extent == 1 => {}
            _ => return None,
        }
        stride *= extent as i64;
    }
    let mut offsets = Some(Vec::new());
    for_each_point(heads, |point| {
        let offset = value(&rest, point).and_then(|offset| usize::try_from(offset).ok());
        match (&mut offsets, offset) {
            (Some(offsets), Some(offset)) => offsets.push(offset),
            _ => offsets = None,
        }
    });
    offsets
}

/// Offsets of a result for every point of its head axes, when it is contiguous along its inner axes. `axes[i]` says which
/// axis of the tensor of `shape` carries site axis `i`, head axes first.
pub(super) fn result_offsets(shape: &[usize], axes: &[usize], heads: &[usize]) -> Option<Vec<usize>> {
    let mut strides = vec![1usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    let mut stride = 1;
    for &axis in axes.get(heads.len()..)?.iter().rev() {
        let extent = *shape.get(axis)?;
        if extent != 1 && strides[axis] != stride {
            return None;
        }
        stride *= extent;
    }
    let mut offsets = Vec::new();
    for_each_point(heads, |point| {
        offsets.push(point.iter().zip(axes).map(|(&value, &axis)| value * strides[axis]).sum());
    });
    Some(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_that_share_a_group_begin_at_one_place() {
        // [h / 2, i] of a tensor [2, 8], flattened.
        let mut form =
            Affine { terms: vec![(Atom::Quotient(Box::new(Affine::axis(0)), 2), 8)], ..Affine::default() };
        form.terms.push((Atom::Axis(1), 1));
        assert_eq!(head_offsets(&form, &[4], 1, &[8]), Some(vec![0, 0, 8, 8]));
        assert_eq!(head_offsets(&form, &[4], 2, &[8]), None);
    }

    #[test]
    fn bounds_and_parts_of_derived_axes() {
        // 2 y + k / 3 - 1, k % 3 of y in 4, k in 9.
        let quotient = (Atom::Quotient(Box::new(Affine::axis(1)), 3), 1);
        let form = Affine { constant: -1, terms: vec![(Atom::Axis(0), 2), quotient], ..Affine::default() };
        assert_eq!(bounds(&form, &[4, 9]), Some((-1, 7)));
        let [outer, inner] = parted(&form, 1, 2).expect("no part mixes them");
        assert_eq!((value(&outer, &[3, 0]), value(&inner, &[0, 8])), (Some(5), Some(2)));
        let mut both = Affine::axis(0);
        both.add(&Affine::axis(1), 1);
        let mixed = Affine { terms: vec![(Atom::Remainder(Box::new(both), 5), -1)], ..Affine::default() };
        assert_eq!(bounds(&mixed, &[4, 9]), Some((-4, 0)));
        assert_eq!(parted(&mixed, 1, 2), None);
    }

    #[test]
    fn a_result_with_its_heads_innermost_is_refused() {
        assert_eq!(result_offsets(&[3, 4], &[0, 1], &[3]), Some(vec![0, 4, 8]));
        assert_eq!(result_offsets(&[4, 3], &[1, 0], &[3]), None);
        assert_eq!(result_offsets(&[2, 3, 4], &[1, 0, 2], &[3, 2]), Some(vec![0, 12, 4, 16, 8, 20]));
    }
}
