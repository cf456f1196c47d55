//! Contractions of every kind are one descriptor; row kernels get their view or a reason.

mod common;

use common::*;
use fiddlehead_graph::queries::*;
use fiddlehead_graph::*;

fn only(graph: &Graph) -> Contraction {
    let (mut found, refusals) = contractions(graph);
    assert_eq!(found.len(), 1, "{found:?} {refusals:?}");
    found.remove(0)
}

fn roles(contraction: &Contraction) -> Vec<Role> {
    contraction.axes.iter().map(|axis| axis.role).collect()
}

#[test]
fn matrix_times_vector() {
    // Either order of the factors, with and without a scale inside.
    for swapped in [false, true] {
        let mut d = Draft::new();
        let x = d.input("x", &[32]);
        let w = d.weight("w", &[48, 32]);
        let y = d.sum([48], [32], |a| {
            let (w, x) = (at(w, [a[0].clone(), a[1].clone()]), at(x, [a[1].clone()]));
            if swapped { x * w * 0.5 } else { w * x }
        });
        let graph = d.seal(&[y]);
        let found = only(&graph);
        assert_eq!(roles(&found), [Role::Right, Role::Folded]);
        assert_eq!((found.operands[0].node(), found.operands[1].node()), (Some(x), Some(w)));
        assert_eq!(found.scale, swapped.then_some(Expr::Float(0.5)));
        let view = found.as_rows_times_weight(&graph).expect("rows times a weight");
        assert_eq!((view.weight, view.weight_rows, view.weight_row_length), (w, 48, 32));
        assert_eq!((view.single_run(), view.columns, view.column_offset), (Some((0, 1, 48)), 32, 0));
        assert_eq!(view.activation_offset, 0);
    }
}

#[test]
fn heads_are_rows_of_the_weight() {
    // A query and a gate per head interleaved in one weight: rows h * 2K + i and h * 2K + K + i.
    let (h, k, n) = (4usize, 8usize, 32usize);
    let mut d = Draft::new();
    let x = d.input("x", &[n]);
    let w = d.weight("w", &[2 * h * k, n]);
    let gate = d.sum([h, k], [n], |a| {
        let place = a[0].clone() * (2 * k) as i64 + a[1].clone() + k as i64;
        at(w, [place, a[2].clone()]) * at(x, [a[2].clone()])
    });
    let graph = d.seal(&[gate]);
    let view = only(&graph).as_rows_times_weight(&graph).expect("rows times a weight");
    assert_eq!(view.row_offset, k);
    let walked: Vec<(usize, usize)> = view.rows.iter().map(|axis| (axis.extent, axis.stride)).collect();
    assert_eq!(walked, [(h, 2 * k), (k, 1)]);
    assert_eq!(view.single_run(), None);
    assert_eq!(view.result_strides, [k, 1]);

    let mut d = Draft::new();
    let x = d.input("x", &[n]);
    let w = d.weight("w", &[3 * h * k, n]);
    let keys = d.sum([h, k], [n], |a| {
        let place = a[0].clone() * k as i64 + a[1].clone() + (h * k) as i64;
        at(w, [place, a[2].clone()]) * at(x, [a[2].clone()])
    });
    let graph = d.seal(&[keys]);
    let view = only(&graph).as_rows_times_weight(&graph).expect("rows times a weight");
    assert_eq!(view.single_run(), Some((h * k, 1, h * k)));
}

#[test]
fn the_activation_may_be_several_axes_and_an_offset() {
    // o[h, i] flattens to h * K + i: the fold runs over both, or over one axis that divides.
    let (h, k, n) = (4usize, 8usize, 24usize);
    let mut d = Draft::new();
    let x = d.input("x", &[h, k]);
    let w = d.weight("w", &[n, h * k]);
    let y = d.sum([n], [h, k], |a| {
        at(w, [a[0].clone(), a[1].clone() * k as i64 + a[2].clone()]) * at(x, [a[1].clone(), a[2].clone()])
    });
    let graph = d.seal(&[y]);
    let view = only(&graph).as_rows_times_weight(&graph).expect("rows times a weight");
    assert_eq!((view.columns, view.weight_row_length, view.single_run()), (h * k, h * k, Some((0, 1, n))));

    // x[k / K, k % K] flattens back to k.
    let mut d = Draft::new();
    let x = d.input("x", &[h, k]);
    let w = d.weight("w", &[n, h * k]);
    let y = d.sum([n], [h * k], |a| {
        at(w, [a[0].clone(), a[1].clone()]) * at(x, [a[1].clone() / k as i64, a[1].clone() % k as i64])
    });
    let graph = d.seal(&[y]);
    let found = only(&graph);
    assert!(matches!(found.operands[0].indices[0].terms[..], [(Atom::Quotient(..), 1)]));
    let view = found.as_rows_times_weight(&graph).expect("rows times a weight");
    assert_eq!((view.columns, view.activation_offset), (h * k, 0));

    // And so does one taken apart into three.
    let mut d = Draft::new();
    let x = d.input("x", &[2, 3, 5]);
    let w = d.weight("w", &[n, 30]);
    let y = d.sum([n], [30], |a| {
        let k = a[1].clone();
        at(w, [a[0].clone(), k.clone()]) * at(x, [k.clone() / 15, k.clone() / 5 % 3, k % 5])
    });
    let graph = d.seal(&[y]);
    assert_eq!(only(&graph).as_rows_times_weight(&graph).expect("a view").columns, 30);

    // A part of a longer vector.
    let mut d = Draft::new();
    let x = d.input("x", &[64]);
    let w = d.weight("w", &[n, 32]);
    let y = d.sum([n], [32], |a| at(w, [a[0].clone(), a[1].clone()]) * at(x, [a[1].clone() + 16]));
    let graph = d.seal(&[y]);
    assert_eq!(only(&graph).as_rows_times_weight(&graph).expect("a view").activation_offset, 16);
}

#[test]
fn views_are_seen_through() {
    let mut d = Draft::new();
    let x = d.input("x", &[4, 8]);
    let w = d.weight("w", &[32, 16]);
    let transposed = d.each([16, 32], |a| at(w, [a[1].clone(), a[0].clone()]));
    let flat = d.each([32], |a| at(x, [a[0].clone() / 8, a[0].clone() % 8]));
    let y = d.sum([16], [32], |a| at(transposed, [a[0].clone(), a[1].clone()]) * at(flat, [a[1].clone()]));
    let graph = d.seal(&[y]);
    let found = only(&graph);
    assert_eq!((found.operands[0].node(), found.operands[1].node()), (Some(x), Some(w)));
    let refusal = found.as_rows_times_weight(&graph).expect_err("the weight is read by columns");
    assert!(refusal.why.contains("not contiguous"), "{refusal}");
    // Nobody needs the views themselves.
    let sites = assign_sites(&graph);
    assert_eq!(sites.sites.len(), 1, "{:?}", sites.sites);
    assert!(sites.refusals.iter().any(|refusal| refusal.rule == Rule::RowsTimesWeight));
}

#[test]
fn matrix_products_of_plain_functions() {
    let (m, n, k) = (5usize, 6usize, 7usize);
    for transposed in [false, true] {
        let mut d = Draft::new();
        let x = d.shared("x", &[m, k]);
        let y = if transposed { d.shared("y", &[n, k]) } else { d.shared("y", &[k, n]) };
        let product = d.sum([m, n], [k], |a| {
            let right = if transposed {
                at(y, [a[1].clone(), a[2].clone()])
            } else {
                at(y, [a[2].clone(), a[1].clone()])
            };
            at(x, [a[0].clone(), a[2].clone()]) * right
        });
        let graph = d.seal(&[product]);
        let found = only(&graph);
        assert_eq!(roles(&found), [Role::Left, Role::Right, Role::Folded]);
        let view = found.as_rows_times_weight(&graph);
        assert_eq!(view.is_ok(), transposed);
        if let Ok(view) = view {
            assert_eq!(view.weight, y);
            assert_eq!(view.activation_rows, [StridedAxis { axis: 0, extent: m, stride: k }]);
            assert_eq!(view.result_strides, [n, 1]);
        }
    }
    // Batched.
    let mut d = Draft::new();
    let x = d.shared("x", &[3, m, k]);
    let y = d.shared("y", &[3, n, k]);
    let product = d.sum([3, m, n], [k], |a| {
        at(x, [a[0].clone(), a[1].clone(), a[3].clone()]) * at(y, [a[0].clone(), a[2].clone(), a[3].clone()])
    });
    let graph = d.seal(&[product]);
    assert_eq!(roles(&only(&graph)), [Role::Batch, Role::Left, Role::Right, Role::Folded]);
}

#[test]
fn convolutions() {
    let (c, o, h, w) = (3usize, 4usize, 5usize, 6usize);
    let mut d = Draft::new();
    let image = d.shared("image", &[c, h + 2, w + 2]);
    let kernel = d.weight("kernel", &[o, c, 3, 3]);
    let plain = d.sum([o, h, w], [c, 3, 3], |a| {
        at(image, [a[3].clone(), a[1].clone() + a[4].clone(), a[2].clone() + a[5].clone()])
            * at(kernel, [a[0].clone(), a[3].clone(), a[4].clone(), a[5].clone()])
    });
    let graph = d.seal(&[plain]);
    let found = only(&graph);
    assert_eq!(found.operands[0].node(), Some(image));
    let row = &found.operands[0].indices[1];
    assert_eq!(row.as_strides(), Some(vec![(1, 1), (4, 1)]));
    // The kernel's rows are contiguous over channel and taps, the image is not.
    let refusal = found.as_rows_times_weight(&graph).expect_err("the image is not contiguous");
    assert!(refusal.why.contains("activation"), "{refusal}");
    let weight = found.as_weight_rows(&graph).expect("a weight with another activation");
    assert_eq!((weight.place, weight.columns, weight.single_run()), (1, c * 9, Some((0, 1, o))));

    // With one folded axis taken apart.
    let mut d = Draft::new();
    let image = d.shared("image", &[c, h + 2, w + 2]);
    let kernel = d.weight("kernel", &[o, c * 9]);
    let derived = d.sum([o, h, w], [c * 9], |a| {
        let k = a[3].clone();
        at(image, [k.clone() / 9, a[1].clone() + k.clone() / 3 % 3, a[2].clone() + k.clone() % 3])
            * at(kernel, [a[0].clone(), k])
    });
    let graph = d.seal(&[derived]);
    let found = only(&graph);
    let atoms: Vec<bool> = found.operands[0].indices[1]
        .terms
        .iter()
        .map(|(atom, _)| matches!(atom, Atom::Remainder(..)))
        .collect();
    assert_eq!(atoms.iter().filter(|remainder| **remainder).count(), 1, "{found:?}");
    assert!(unproven_indices(&graph).is_empty());
}

#[test]
fn gathered_experts_are_groups() {
    let (experts, chosen, n, k) = (8usize, 2usize, 12usize, 16usize);
    let mut d = Draft::new();
    let router = d.input("router", &[experts]);
    let x = d.input("x", &[k]);
    let up = d.weight("up", &[experts, n, k]);
    let down = d.weight("down", &[experts, k, n]);
    let top = |d: &mut Draft, part, element| {
        d.builder.node(NodeKind::Top { operand: router, k: chosen, part }, element, Origin::default())
    };
    let w = top(&mut d, TopPart::Values, Element::F32);
    let e = top(&mut d, TopPart::Indices, Element::I32);
    let hidden = d.sum([chosen, n], [k], |a| {
        at(up, [at(e, [a[0].clone()]), a[1].clone(), a[2].clone()]) * at(x, [a[2].clone()])
    });
    let active = d.each([chosen, n], |a| silu(at(hidden, [a[0].clone(), a[1].clone()])));
    let each = d.sum([k, chosen], [n], |a| {
        at(down, [at(e, [a[1].clone()]), a[0].clone(), a[2].clone()])
            * at(active, [a[1].clone(), a[2].clone()])
    });
    let y = d.sum([k], [chosen], |a| at(w, [a[1].clone()]) * at(each, [a[0].clone(), a[1].clone()]));
    let graph = d.seal(&[y]);
    let (found, refusals) = contractions(&graph);
    assert_eq!(found.len(), 3, "{refusals:?}");
    let first = found[0].as_rows_times_weight(&graph).expect("a grouped product");
    let group = first.group.as_ref().expect("a group");
    assert_eq!((group.count, group.rows, &group.axes[..]), (experts, n, &[0][..]));
    assert_eq!(first.rows, [StridedAxis { axis: 1, extent: n, stride: 1 }]);
    assert_eq!(first.activation_rows, []);
    let second = found[1].as_rows_times_weight(&graph).expect("a grouped product");
    let group = second.group.as_ref().expect("a group");
    assert_eq!((group.count, group.rows, &group.axes[..]), (experts, k, &[1][..]));
    assert_eq!(second.rows, [StridedAxis { axis: 0, extent: k, stride: 1 }]);
    assert_eq!(second.activation_rows, [StridedAxis { axis: 1, extent: chosen, stride: n }]);
    // The chosen experts are places along the router's axis: proven.
    assert!(unproven_indices(&graph).is_empty());
    let sites = assign_sites(&graph);
    assert_eq!(sites.sites.iter().filter(|site| matches!(site, Site::Top(_))).count(), 1);
}

#[test]
fn an_expression_for_an_operand_is_a_chain() {
    let mut d = Draft::new();
    let g = d.input("g", &[2, 16]);
    let w = d.weight("w", &[8, 32]);
    let y = d.sum([8], [2, 16], |a| {
        at(w, [a[0].clone(), a[1].clone() * 16 + a[2].clone()])
            * silu(at(g, [a[1].clone(), a[2].clone()]))
            * at(g, [a[1].clone(), a[2].clone()])
    });
    let graph = d.seal(&[y]);
    let found = only(&graph);
    let Source::Chain(chain) = &found.operands[0].source else { panic!("{found:?}") };
    assert_eq!(chain.axes, [Range::Fixed(2), Range::Fixed(16)]);
    assert_eq!(found.operands[0].indices, [Affine::axis(1), Affine::axis(2)]);
    let view = found.as_rows_times_weight(&graph).expect("rows times a weight");
    assert_eq!(view.columns, 32);
}

#[test]
fn what_reads_the_same_vector_merges() {
    let mut d = Draft::new();
    let x = d.input("x", &[16]);
    let weights: Vec<NodeId> =
        [8, 4, 4].iter().enumerate().map(|(place, &n)| d.weight(&format!("w{place}"), &[n, 16])).collect();
    let products: Vec<NodeId> = weights
        .iter()
        .zip([8, 4, 4])
        .map(|(&w, n)| d.sum([n], [16], |a| at(w, [a[0].clone(), a[1].clone()]) * at(x, [a[1].clone()])))
        .collect();
    // One more that reads x but waits for the first.
    let picked = d.each([16], |a| at(x, [a[0].clone()]) * at(products[0], [int(0)]));
    let other = d.weight("other", &[4, 16]);
    let late = d.sum([4], [16], |a| {
        at(other, [a[0].clone(), a[1].clone()]) * at(x, [a[1].clone()]) * at(products[0], [int(1)])
    });
    let graph = d.seal(&[products[1], products[2], picked, late]);
    let (found, _) = contractions(&graph);
    let merged = merges(&graph, &found);
    assert_eq!(merged, [Merge { activation: x, nodes: products }]);
}

#[test]
fn reductions_are_no_contractions() {
    let mut d = Draft::new();
    let x = d.input("x", &[16]);
    let w = d.weight("w", &[16]);
    let squares = d.sum([0usize; 0], [16], |a| at(x, [a[0].clone()]) * at(x, [a[0].clone()]));
    let scale = d.each([0usize; 0], |_| unary(Unary::Rsqrt, at(squares, []) / 16.0 + 1e-6));
    let y = d.each([16], |a| at(x, [a[0].clone()]) * at(scale, []) * at(w, [a[0].clone()]));
    let graph = d.seal(&[y]);
    let (found, refusals) = contractions(&graph);
    assert!(found.is_empty() && refusals.is_empty(), "{found:?} {refusals:?}");
    let found = reduction(&graph, &liveness(&graph), squares).expect("a reduction");
    assert_eq!((found.rows, found.length), (1, 16));
    assert_eq!(found.consumers, [scale, y]);
}
