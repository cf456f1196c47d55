//! The view of a contraction that row kernels serve.

use super::*;
use crate::queries::affine::expr_uses;

impl Contraction {
    /// Sees the contraction as rows times a weight: one operand a tensor of constant or uniform variance whose rows
    /// are contiguous along the folded axes, the other contiguous along them too.
    pub fn as_rows_times_weight(&self, graph: &Graph) -> Result<RowsTimesWeight, Refusal> {
        let variances = [self.operands[0].variance, self.operands[1].variance];
        let second = self.rows_times(graph, 1);
        match second {
            Err(_) if variances[0] <= variances[1] => self.rows_times(graph, 0).or(second),
            _ => second,
        }
    }

    /// Sees one operand as a weight, whatever the other is: [`Contraction::as_rows_times_weight`] without the demand that the
    /// activation be contiguous. Rows of an activation that is not can be copied side by side first.
    pub fn as_weight_rows(&self, graph: &Graph) -> Result<WeightRows, Refusal> {
        // A tensor whose part is chosen by data can only be the weight.
        let gathered = |operand: &Operand| {
            let mut atoms = operand.indices.iter().flat_map(|form| &form.terms);
            atoms.any(|(atom, _)| matches!(atom, Atom::Gathered(_)))
        };
        let first = usize::from(!gathered(&self.operands[0]) || gathered(&self.operands[1]));
        let found = self.weight_rows(graph, first);
        let other = &self.operands[1 - first];
        match found {
            Err(_) if other.variance <= self.operands[first].variance && !gathered(&self.operands[first]) => {
                self.weight_rows(graph, 1 - first).or(found)
            }
            _ => found,
        }
    }

    fn rows_times(&self, graph: &Graph, weight_place: usize) -> Result<RowsTimesWeight, Refusal> {
        let refuse = |why: &str| Refusal::new(self.node, Rule::RowsTimesWeight, why);
        let activation = &self.operands[1 - weight_place];
        let weight = self.weight_rows(graph, weight_place)?;
        let result_rank = weight.result_strides.len();
        let activation_flat =
            activation.flat(graph).ok_or_else(|| refuse("the activation is no tensor of fixed shape"))?;
        let activation_strides =
            activation_flat.as_strides().ok_or_else(|| refuse("the activation's index is not affine"))?;
        self.contiguous_fold(result_rank, &activation_strides)
            .ok_or_else(|| refuse("the activation is not contiguous along the folded axes"))?;
        if activation_flat.constant < 0 {
            return Err(refuse("an index starts below zero"));
        }
        Ok(RowsTimesWeight {
            activation: activation.clone(),
            activation_offset: activation_flat.constant as usize,
            activation_rows: self
                .walks(result_rank, &activation_strides)
                .ok_or_else(|| refuse("the activation is read backwards"))?,
            weight: weight.weight,
            weight_rows: weight.weight_rows,
            weight_row_length: weight.weight_row_length,
            row_offset: weight.row_offset,
            rows: weight.rows,
            column_offset: weight.column_offset,
            columns: weight.columns,
            group: weight.group,
            result_strides: weight.result_strides,
        })
    }

    /// Result axes that walk memory, with their strides; none when one walks backwards.
    fn walks(&self, result_rank: usize, strides: &[(usize, i64)]) -> Option<Vec<StridedAxis>> {
        let mut walks = Vec::new();
        for axis in 0..result_rank {
            if let Some(&(_, stride)) = strides.iter().find(|(found, _)| *found == axis) {
                let stride = usize::try_from(stride).ok()?;
                walks.push(StridedAxis { axis, extent: self.axes[axis].extent, stride });
            }
        }
        Some(walks)
    }

    fn weight_rows(&self, graph: &Graph, weight_place: usize) -> Result<WeightRows, Refusal> {
        let refuse = |why: &str| Refusal::new(self.node, Rule::RowsTimesWeight, why);
        let weight = &self.operands[weight_place];
        if weight.variance == Variance::PerNode {
            return Err(refuse("both operands change with every node"));
        }
        let result_rank = self.axes.iter().take_while(|axis| !axis.role.is_folded()).count();
        if self.axes.iter().any(|axis| axis.role == Role::FoldedOnce) {
            return Err(refuse("a folded axis is read by one operand alone"));
        }
        let Some(weight_node) = weight.node() else {
            return Err(refuse("the weight is no tensor by itself"));
        };
        let shape = graph.shape(weight_node).ok_or_else(|| refuse("the weight has no fixed shape"))?;
        let flat = weight.flat(graph).ok_or_else(|| refuse("the weight has no fixed shape"))?;
        let (strides, gathered) =
            split_gather(&flat).ok_or_else(|| refuse("the weight's index is not affine"))?;
        let columns = self
            .contiguous_fold(result_rank, &strides)
            .ok_or_else(|| refuse("the weight is not contiguous along the folded axes"))?;
        if flat.constant < 0 {
            return Err(refuse("an index starts below zero"));
        }
        // The shortest run of trailing dimensions that holds what is folded is a row.
        let walked = self
            .walks(result_rank, &strides)
            .ok_or_else(|| refuse("the weight's rows are read backwards"))?;
        let group_stride = gathered.as_ref().map_or(0, |(_, stride)| *stride);
        let mut row_length = 1usize;
        let row_length = shape
            .iter()
            .rev()
            .find_map(|&dimension| {
                row_length *= dimension;
                let offset = flat.constant as usize % row_length.max(1);
                let whole = walked.iter().all(|axis| axis.stride % row_length == 0)
                    && group_stride % row_length as i64 == 0;
                (row_length > 0 && whole && offset + columns <= row_length).then_some(row_length)
            })
            .ok_or_else(|| refuse("the folded elements do not lie within rows of the weight"))?;
        let rows: Vec<StridedAxis> =
            walked.into_iter().map(|axis| StridedAxis { stride: axis.stride / row_length, ..axis }).collect();
        let weight_rows = shape.iter().product::<usize>() / row_length;
        let row_offset = flat.constant as usize / row_length;

        let group = match gathered {
            None => None,
            Some((index, stride)) if stride > 0 => {
                if (result_rank..self.axes.len()).any(|axis| expr_uses(index, axis)) {
                    return Err(refuse("the gathered part changes along a folded axis"));
                }
                let axes = (0..result_rank).filter(|&axis| expr_uses(index, axis)).collect();
                let rows = stride as usize / row_length;
                if rows == 0 || weight_rows % rows != 0 {
                    return Err(refuse("the gathered parts do not tile the weight"));
                }
                Some(Group { index: index.clone(), count: weight_rows / rows, rows, axes })
            }
            Some(_) => return Err(refuse("the gathered part goes backwards")),
        };
        let reach =
            row_offset + rows.iter().map(|axis| (axis.extent.max(1) - 1) * axis.stride).sum::<usize>();
        if reach >= group.as_ref().map_or(weight_rows, |group| group.rows) {
            return Err(refuse("the rows leave the weight or the gathered part"));
        }
        let mut result_strides = vec![1; result_rank];
        for axis in (1..result_rank).rev() {
            result_strides[axis - 1] = result_strides[axis] * self.axes[axis].extent;
        }
        Ok(WeightRows {
            place: weight_place,
            weight: weight_node,
            weight_rows,
            weight_row_length: row_length,
            row_offset,
            rows,
            column_offset: flat.constant as usize % row_length,
            columns,
            group,
            result_strides,
        })
    }

    /// How many elements are folded, when the strides of the folded axes are those of a contiguous run in order.
    fn contiguous_fold(&self, result_rank: usize, strides: &[(usize, i64)]) -> Option<usize> {
        let mut count = 1usize;
        for axis in (result_rank..self.axes.len()).rev() {
            let extent = self.axes[axis].extent;
            let stride = strides.iter().find(|(found, _)| *found == axis).map(|(_, stride)| *stride);
            if extent != 1 && stride != Some(count as i64) {
                return None;
            }
            count *= extent;
        }
        Some(count)
    }
}

/// Plain strides, and at most one gather with its stride.
#[allow(clippy::type_complexity)]
fn split_gather(form: &Affine) -> Option<(Vec<(usize, i64)>, Option<(&Expr, i64)>)> {
    if form.here != 0 {
        return None;
    }
    let (mut strides, mut gathered) = (Vec::new(), None);
    for (atom, coefficient) in &form.terms {
        match atom {
            Atom::Axis(axis) => strides.push((*axis, *coefficient)),
            Atom::Gathered(expr) if gathered.is_none() => gathered = Some((&**expr, *coefficient)),
            _ => return None,
        }
    }
    Some((strides, gathered))
}
