//! Contractions whose operands are gathered first: by a number that chooses a part of the weight (the experts of a token),
//! or from an activation whose summed elements lie apart (a convolution).
//!
//! The vectors that meet one part of the weight are its group: copied side by side they are contracted by the kernels of
//! whole weights ([`step`]). Their bits depend on no vector beside a vector, so how rows fall into groups changes nothing;
//! a single row reads the parts that it chose and no others.
//!
//! Here it is decided whether a site can be served so: the chosen part must be one number for everything that is summed,
//! and the weight's rows such as the row kernels take.

mod step;

use fiddlehead_graph::queries::{Affine, Atom, Contraction, Group, Operand, Source, WeightRows};
use fiddlehead_graph::{Compute, Element, Expr, Graph, NodeId, NodeKind, Permissions, Range};
use fiddlehead_plan::Weights;

use super::forms::{bounds, for_each_point, parted, value};
use super::operand_node;
use fiddlehead_plan::order::Extension;

pub(in crate::executor) use step::{Failure, GatheredPlan, GatheredScratch, GatheredStep, lower, run};

/// One product of a part of the weight with a vector, of one forest node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Product {
    /// Where the vector begins in the activation, in elements.
    input: usize,
    /// Where the result begins, in elements.
    output: usize,
    /// Which of [`GatheredSite::starts`] is the first row read of the part.
    start: usize,
    /// Where the part's number lies in the tensor of choices.
    choice: usize,
}

/// How a vector lies in the activation: pieces of `length` elements, each so far from the vector's beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pieces {
    starts: Vec<usize>,
    length: usize,
}

/// The numbers that choose parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choices {
    node: NodeId,
    index: Index,
    /// Whether the numbers are ids, which have no sign.
    id: bool,
}

/// How a number indexes the weight: `factor * number + constant` along `axis`, which has `extent` values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Index {
    axis: usize,
    extent: i64,
    factor: i64,
    constant: i64,
}

/// A gathered contraction that the row kernels serve.
#[derive(Clone, Debug)]
pub(in crate::executor) struct GatheredSite {
    pub node: NodeId,
    pub activation: NodeId,
    pub weight: NodeId,
    choices: Option<Choices>,
    products: Vec<Product>,
    pieces: Pieces,
    /// First rows within a part, ascending: one, unless parts are made of smaller weights.
    starts: Vec<usize>,
    /// Parts of the weight, and rows of each.
    parts: usize,
    part_rows: usize,
    /// Rows in a product, and from one to the next.
    count: usize,
    row_step: usize,
    row_length: usize,
    column: usize,
    columns: usize,
    /// From one result of a product to the next, in elements.
    output_step: usize,
    scale: Option<f32>,
}

/// More products than this for one forest node would take more memory for their table than a contraction should.
const MOST_PRODUCTS: usize = 1 << 20;
/// Groups of one launch are counted in a table of at most as many.
const MOST_GROUPS: usize = 1 << 20;
/// Fewer results for a vector are not worth copying its pieces together.
const FEWEST_RESULTS: usize = 4;

impl GatheredSite {
    /// Tensors that it reads.
    pub(super) fn reads(&self) -> Vec<NodeId> {
        let choices = self.choices.map(|choices| choices.node);
        [self.activation, self.weight].into_iter().chain(choices).collect()
    }

    pub(super) fn new(
        graph: &Graph,
        site: &Contraction,
        view: &WeightRows,
        weights: &Weights,
        extension: &mut Extension,
    ) -> Result<GatheredSite, String> {
        if site.guard.is_some() {
            return Err("the row kernel takes no guard".into());
        }
        let scale = match &site.scale {
            None => None,
            Some(Expr::Float(value)) => Some(*value as f32),
            Some(_) => return Err("the row kernel takes only a literal factor".into()),
        };
        if graph.node(view.weight).element != Element::F32 || graph.node(site.node).element != Element::F32 {
            return Err("the row kernel takes floats".into());
        }
        let (weight, activation) = (&site.operands[view.place], &site.operands[1 - view.place]);
        let extents: Vec<usize> = site.axes.iter().map(|axis| axis.extent).collect();
        let rank = view.result_strides.len();
        let index = chosen_index(graph, weight, &extents).map_err(|why| format!("the weight: {why}"))?;
        if chosen_index(graph, activation, &extents)?.is_some() {
            return Err("the activation is chosen by a number".into());
        }
        let flat = activation.flat(graph).ok_or("the activation has no fixed shape")?;
        let [begin, rest] =
            parted(&flat, rank, extents.len()).ok_or("what is summed lies otherwise in each vector")?;
        let (pieces, least) =
            Pieces::new(&rest, rank, &extents).ok_or("the activation's index is not affine")?;
        // Axes that move the part, the activation or both; along the others the rows of a part are walked.
        let chosen = |axis: usize| view.group.as_ref().is_some_and(|group| group.axes.contains(&axis));
        let outer: Vec<usize> = (0..rank).filter(|&axis| chosen(axis) || begin.uses(axis)).collect();
        let mut inner = view.clone();
        inner.rows.retain(|axis| !outer.contains(&axis.axis));
        let (start, row_step, count) = inner.single_run().ok_or("the weight's rows follow no single step")?;
        let longer: Vec<_> = inner.rows.iter().filter(|axis| axis.extent != 1).collect();
        let output_step = longer.last().map_or(1, |axis| view.result_strides[axis.axis]);
        let mut stride = output_step;
        for axis in longer.iter().rev() {
            if view.result_strides[axis.axis] != stride {
                return Err("the results of the weight's rows follow no single step".into());
            }
            stride *= axis.extent;
        }
        let walked = |axis: usize| outer.contains(&axis) || inner.rows.iter().any(|other| other.axis == axis);
        if (0..rank).any(|axis| extents[axis] != 1 && !walked(axis)) {
            return Err("the result repeats along an axis".into());
        }
        let outer_extents: Vec<usize> = outer.iter().map(|&axis| extents[axis]).collect();
        let points = outer_extents.iter().try_fold(1usize, |product, &n| product.checked_mul(n));
        if points.is_none_or(|points| points == 0 || points > MOST_PRODUCTS) || count == 0 {
            return Err(format!("no product, or more than {MOST_PRODUCTS} for one node"));
        }
        if pieces.starts.len() > 1 && count < FEWEST_RESULTS {
            return Err("a vector in pieces meets too few of the weight's rows".into());
        }
        let (choices, strides) = match (&view.group, index) {
            (None, None) => (None, Vec::new()),
            (Some(group), Some(index)) => {
                let (node, strides) = choices(graph, site.node, group, &extents, extension)?;
                let id = group.index.element_in(graph, Element::F32) == Element::Id;
                (Some(Choices { node, index, id }), strides)
            }
            _ => return Err("the weight's part is chosen in more than one way".into()),
        };
        let mut products = Vec::new();
        let mut whole_point = vec![0; rank];
        let mut backwards = false;
        for_each_point(&outer_extents, |point| {
            outer.iter().zip(point).for_each(|(&axis, &value)| whole_point[axis] = value);
            let input = value(&begin, &whole_point).and_then(|input| usize::try_from(input + least).ok());
            backwards |= input.is_none();
            let sum = |stride: &dyn Fn(usize) -> usize| -> usize {
                outer.iter().zip(point).map(|(&axis, &value)| value * stride(axis)).sum()
            };
            let row = |axis: usize| view.rows.iter().find(|other| other.axis == axis);
            products.push(Product {
                input: input.unwrap_or(0),
                output: sum(&|axis| view.result_strides[axis]),
                start: start + sum(&|axis| row(axis).map_or(0, |row| row.stride)),
                choice: sum(&|axis| strides.iter().find(|other| other.0 == axis).map_or(0, |other| other.1)),
            });
        });
        let mut starts: Vec<usize> = products.iter().map(|product| product.start).collect();
        starts.sort();
        starts.dedup();
        for product in &mut products {
            product.start = starts.binary_search(&product.start).unwrap_or_default();
        }
        let (parts, part_rows) = view.group.as_ref().map_or((1, 0), |group| (group.count, group.rows));
        let tiles =
            choices.is_none_or(|choices| (choices.index.extent / choices.index.factor) as usize == parts);
        if !tiles || parts.saturating_mul(starts.len()) > MOST_GROUPS {
            return Err(format!("the parts do not tile the weight, or are more than {MOST_GROUPS}"));
        }
        let furthest = products.iter().map(|product| product.input).max().unwrap_or(0)
            + pieces.starts.iter().max().unwrap_or(&0)
            + pieces.length;
        if backwards || !super::within(graph, &activation.source, furthest) {
            return Err("an index may leave the activation".into());
        }
        let row_step = if count > 1 { row_step } else { 1 };
        if let NodeKind::Param(param) = graph.node(view.weight).kind
            && let Some(tensor) = weights.get(&graph.params()[param.index()].name)
        {
            let whole = |elements: usize| elements.is_multiple_of(tensor.format().block_elements());
            let length = view.weight_row_length;
            let begins = |start: &usize| whole(start * length + view.column_offset);
            let steps = [part_rows * length, row_step * length, view.columns];
            if !(starts.iter().all(begins) && steps.into_iter().all(whole)) {
                return Err(format!("the weight's rows cut blocks of {}", tensor.format()));
            }
        }
        Ok(GatheredSite {
            node: site.node,
            activation: operand_node(graph, &activation.source, site.node, extension)?,
            weight: view.weight,
            choices,
            products,
            pieces,
            starts,
            parts,
            part_rows,
            count,
            row_step,
            row_length: view.weight_row_length,
            column: view.column_offset,
            columns: view.columns,
            output_step,
            scale,
        })
    }
}

impl Pieces {
    /// Where the elements that are summed lie, by the form of their index over the axes from `rank` on; and how far the one
    /// that lies first is from where the index begins.
    fn new(form: &Affine, rank: usize, extents: &[usize]) -> Option<(Pieces, i64)> {
        let mut places = Some(Vec::new());
        let mut point = vec![0; extents.len()];
        for_each_point(&extents[rank..], |folded| {
            point[rank..].copy_from_slice(folded);
            match (&mut places, value(form, &point)) {
                (Some(places), Some(place)) => places.push(place),
                _ => places = None,
            }
        });
        let places = places?;
        // The longest pieces that all vectors fall into evenly.
        let breaks = places.windows(2).enumerate().filter(|(_, pair)| pair[1] != pair[0] + 1);
        let length = breaks.fold(places.len(), |length, (place, _)| divisor(length, place + 1));
        let least = places.iter().copied().min().unwrap_or(0);
        let starts = places.iter().step_by(length.max(1)).map(|place| (place - least) as usize).collect();
        Some((Pieces { starts, length }, least))
    }
}

/// The greatest common divisor.
fn divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// The axis that a number indexes, when there is one; every other index must be proven to stay inside.
pub(super) fn chosen_index(
    graph: &Graph,
    operand: &Operand,
    extents: &[usize],
) -> Result<Option<Index>, String> {
    let shape = match &operand.source {
        Source::Node(node) => graph.shape(*node),
        Source::Chain(compute) => compute
            .axes
            .iter()
            .map(|axis| match axis {
                Range::Fixed(extent) => Some(*extent),
                Range::Between { .. } => None,
            })
            .collect(),
        Source::History(_) => None,
    };
    let shape = shape.ok_or("an operand has no fixed shape")?;
    let mut found = None;
    for (axis, (form, &extent)) in operand.indices.iter().zip(&shape).enumerate() {
        let extent = extent as i64;
        let gathered = form.terms.iter().position(|(atom, _)| matches!(atom, Atom::Gathered(_)));
        let mut rest = form.clone();
        let factor = gathered.map(|place| rest.terms.remove(place).1);
        let (low, high) = bounds(&rest, extents).ok_or("an index has no known bounds")?;
        match factor {
            None if low >= 0 && high < extent => {}
            None => return Err("an index may leave its axis".into()),
            // Whole parts: the number alone decides whether the index is inside.
            Some(factor) if factor > 0 && low >= 0 && high < factor && extent % factor == 0 => {
                let index = Index { axis, extent, factor, constant: rest.constant };
                if found.replace(index).is_some() {
                    return Err("two numbers choose a part".into());
                }
            }
            Some(_) => return Err("the chosen parts do not tile an axis".into()),
        }
    }
    Ok(found)
}

/// The tensor that holds the chosen numbers, with its stride along each axis of the site: the one that the program reads them
/// from, or one made of the index as it is written.
fn choices(
    graph: &Graph,
    reader: NodeId,
    group: &Group,
    extents: &[usize],
    extension: &mut Extension,
) -> Result<(NodeId, Vec<(usize, usize)>), String> {
    if let Expr::Load { node, indices } = &group.index
        && !matches!(graph.node(*node).kind, NodeKind::State(_) | NodeKind::Param(_))
        && let Some(shape) = graph.shape(*node)
    {
        let mut stride = 1;
        let mut strides: Vec<(usize, usize)> = Vec::new();
        for (index, &extent) in indices.iter().zip(&shape).rev() {
            match index {
                Expr::Axis(axis)
                    if extents[*axis] <= extent && strides.iter().all(|other| other.0 != *axis) =>
                {
                    strides.push((*axis, stride));
                }
                _ => break,
            }
            stride *= extent;
        }
        if strides.len() == shape.len() {
            return Ok((*node, strides));
        }
    }
    let mut stride = 1;
    let mut strides = Vec::new();
    for &axis in group.axes.iter().rev() {
        strides.push((axis, stride));
        stride *= extents[axis];
    }
    let body = renumbered(&group.index, &group.axes).ok_or("the chosen number depends on what is summed")?;
    let element = body.element_in(graph, Element::F32);
    let compute = Compute {
        axes: group.axes.iter().map(|&axis| Range::Fixed(extents[axis])).collect(),
        fold: None,
        guard: None,
        body,
        permissions: Permissions::default(),
    };
    Ok((extension.add_of(graph, reader, &compute, element), strides))
}

/// An expression over the listed axes alone, numbered by their places in the list.
fn renumbered(expr: &Expr, axes: &[usize]) -> Option<Expr> {
    fn walk(expr: &Expr, axes: &[usize], known: &mut bool) -> Expr {
        match expr {
            Expr::Axis(axis) => match axes.iter().position(|other| other == axis) {
                Some(place) => Expr::Axis(place),
                None => {
                    *known = false;
                    expr.clone()
                }
            },
            _ => expr.map_parts(&mut |part| walk(part, axes, known)),
        }
    }
    let mut known = true;
    let expr = walk(expr, axes, &mut known);
    known.then_some(expr)
}
