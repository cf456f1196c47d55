//! Which contractions the row kernels serve, and the matrix products each is made of.

use fiddlehead_graph::queries::{Contraction, StridedAxis};
use fiddlehead_graph::{Element, Expr, Graph, NodeId, NodeKind};
use fiddlehead_storage::Format;

use super::super::forms::for_each_point;
use super::super::{operand_node, within};
use super::arithmetic::{Chosen, choose};
use crate::executor::lower::Context;
use fiddlehead_plan::order::Extension;

/// One matrix product of a contraction: `result[output + n] = Σ_k activation[input + k] · weight[row + n * step, column + k]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Product {
    pub input: usize,
    pub output: usize,
    pub row: usize,
}

/// An axis of a contraction along which only the activation and the result walk; steps in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub extent: usize,
    pub input: usize,
    pub output: usize,
}

/// A contraction that the row kernel serves.
#[derive(Clone, Debug)]
pub(in crate::executor) struct ContractSite {
    pub node: NodeId,
    pub activation: NodeId,
    pub weight: NodeId,
    pub(super) products: Vec<Product>,
    /// An axis of the activation alone, along which every product repeats: more rows of one matrix.
    pub(super) left: Left,
    /// Rows of the weight in a product, and from one to the next.
    pub(super) count: usize,
    pub(super) row_step: usize,
    pub(super) row_length: usize,
    pub(super) column: usize,
    pub(super) columns: usize,
    pub(super) scale: Option<f32>,
    pub(in crate::executor) chosen: Chosen,
}

/// More products than this for one forest node are left to the general kernel, whose loops cost less than as many calls.
const MOST_PRODUCTS: usize = 64;

impl ContractSite {
    pub(in super::super) fn new(
        graph: &Graph,
        site: &Contraction,
        context: Context<'_>,
        extension: &mut Extension,
    ) -> Result<ContractSite, String> {
        let view = site.as_rows_times_weight(graph).map_err(|refusal| refusal.to_string())?;
        if site.guard.is_some() {
            return Err("the row kernel takes no guard".into());
        }
        if view.group.is_some() {
            return Err("the row kernel takes no part chosen by data".into());
        }
        let scale = match &site.scale {
            None => None,
            Some(Expr::Float(value)) => Some(*value as f32),
            Some(_) => return Err("the row kernel takes only a literal factor".into()),
        };
        if graph.node(view.weight).element != Element::F32 || graph.node(site.node).element != Element::F32 {
            return Err("the row kernel takes floats".into());
        }
        let mut outer: Vec<StridedAxis> = view.activation_rows.clone();
        let mut left = Left { extent: 1, input: 0, output: 0 };
        let is_left = |axis: &StridedAxis| view.rows.iter().all(|other| other.axis != axis.axis);
        let longest = outer.iter().copied().filter(is_left).max_by_key(|axis| axis.extent);
        let is_outer = |axis: usize| outer.iter().any(|other| other.axis == axis);
        let mut inner = view.clone();
        inner.rows.retain(|axis| !is_outer(axis.axis));
        let (row, row_step, count) = inner.single_run().ok_or("the weight's rows follow no single step")?;
        let mut stride = 1;
        for axis in inner.rows.iter().rev() {
            if axis.extent != 1 && view.result_strides[axis.axis] != stride {
                return Err("the result is not contiguous along the weight's rows".into());
            }
            stride *= axis.extent;
        }
        let walked = |axis: usize| is_outer(axis) || inner.rows.iter().any(|other| other.axis == axis);
        if (0..view.result_strides.len()).any(|axis| site.axes[axis].extent != 1 && !walked(axis)) {
            return Err("the result repeats along an axis".into());
        }
        if let Some(axis) = longest {
            outer.retain(|other| other.axis != axis.axis);
            left = Left { extent: axis.extent, input: axis.stride, output: view.result_strides[axis.axis] };
        }
        let extents: Vec<usize> = outer.iter().map(|axis| axis.extent).collect();
        if extents.iter().product::<usize>() > MOST_PRODUCTS {
            return Err(format!("more than {MOST_PRODUCTS} products for one node"));
        }
        let mut products = Vec::new();
        for_each_point(&extents, |point| {
            let mut product = Product { input: view.activation_offset, output: 0, row };
            for (axis, &value) in outer.iter().zip(point) {
                product.input += value * axis.stride;
                product.output += value * view.result_strides[axis.axis];
                let rows = view.rows.iter().find(|other| other.axis == axis.axis);
                product.row += value * rows.map_or(0, |rows| rows.stride);
            }
            products.push(product);
        });
        let furthest = products.iter().map(|product| product.input).max().unwrap_or(0);
        let reach = furthest + (left.extent.max(1) - 1) * left.input + view.columns;
        if left.extent == 0 || !within(graph, &view.activation.source, reach) {
            return Err("an index may leave the activation".into());
        }
        let mut format = Format::F32;
        if let NodeKind::Param(param) = graph.node(view.weight).kind
            && let Some(tensor) = context.weights.get(&graph.params()[param.index()].name)
        {
            let whole = |elements: usize| elements.is_multiple_of(tensor.format().block_elements());
            let starts = products
                .iter()
                .all(|product| whole(product.row * view.weight_row_length + view.column_offset));
            if !(starts && whole(row_step * view.weight_row_length) && whole(view.columns)) {
                return Err(format!("the weight's rows cut blocks of {}", tensor.format()));
            }
            format = tensor.format();
        }
        Ok(ContractSite {
            node: site.node,
            left,
            activation: operand_node(graph, &view.activation.source, site.node, extension)?,
            weight: view.weight,
            products,
            count,
            row_step: if count > 1 { row_step } else { 1 },
            row_length: view.weight_row_length,
            column: view.column_offset,
            columns: view.columns,
            scale,
            chosen: choose(site.permissions, format, context),
        })
    }
}
