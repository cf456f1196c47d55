//! One graph in the making, with the loop variables and conditions around the place being lowered.

use std::collections::{BTreeSet, HashMap};

use fiddlehead_lang::source::Span;

use super::error::LowerError;
use crate::builder::GraphBuilder;
use crate::ir::*;
use crate::rewrite::interval::{Interval, Surroundings};
use crate::rewrite::simplify::Simplifier;

/// A loop variable of the program.
#[derive(Clone, Debug)]
enum Variable {
    /// An axis; its extent mentions earlier variables.
    Axis(Range),
    /// The accumulator of an ordered fold, which only that fold's own expression may mention.
    Accumulator,
}

/// The graph of a step, a function or a loop's body.
#[derive(Debug)]
pub(super) struct Frame {
    pub builder: GraphBuilder,
    variables: Vec<Variable>,
    /// The values of the variables and of `here`.
    pub around: Surroundings,
    /// Conditions of the run-time arms around the place, outermost first.
    pub guards: Vec<Expr>,
    /// The variables that were the axes of each node made here.
    axes_of: HashMap<NodeId, Vec<usize>>,
    /// For a loop's body: outer nodes captured so far, in the order of the inputs.
    pub captured: Vec<NodeId>,
    /// For a loop's body: the inner node of each outer one.
    pub imports: HashMap<NodeId, NodeId>,
    /// Constant arrays by path.
    pub constants: HashMap<String, NodeId>,
}

/// A tensor to be made.
pub(super) struct Tensor {
    /// Its own axes, after those of the loops around that it depends on.
    pub own: Vec<usize>,
    pub fold: Option<TensorFold>,
    pub body: Expr,
    pub element: Element,
    pub permissions: Permissions,
    pub origin: Origin,
}

/// The fold of a tensor to be made.
pub(super) struct TensorFold {
    pub kind: FoldKind,
    pub axes: Vec<usize>,
    /// The variable that stands for the accumulator of an ordered fold.
    pub accumulator: Option<usize>,
}

impl Frame {
    pub fn new(name: &str, is_step: bool) -> Frame {
        let here = if is_step { Interval::HERE } else { Interval::new(0, 0) };
        Frame {
            builder: GraphBuilder::new(name),
            variables: Vec::new(),
            around: Surroundings { axes: Vec::new(), here },
            guards: Vec::new(),
            axes_of: HashMap::new(),
            captured: Vec::new(),
            imports: HashMap::new(),
            constants: HashMap::new(),
        }
    }

    /// A new variable with that extent.
    pub fn variable(&mut self, range: Range) -> usize {
        self.around.push(&range);
        self.variables.push(Variable::Axis(range));
        self.variables.len() - 1
    }

    /// A new variable that stands for an accumulator.
    pub fn accumulator(&mut self) -> usize {
        self.around.axes.push(Interval::ALL);
        self.variables.push(Variable::Accumulator);
        self.variables.len() - 1
    }

    /// What folds literals in the surroundings of this frame.
    pub fn simplifier(&self) -> Simplifier<'_> {
        Simplifier { graph: self.builder.graph(), around: &self.around, accumulator: Element::F32 }
    }

    /// Adds the variables that an expression mentions, and those that their extents mention.
    fn gather(&self, expr: &Expr, found: &mut BTreeSet<usize>) {
        expr.visit(&mut |part| {
            if let Expr::Axis(variable) = part {
                self.gather_variable(*variable, found);
            }
        });
    }

    fn gather_variable(&self, variable: usize, found: &mut BTreeSet<usize>) {
        if found.insert(variable)
            && let Variable::Axis(range) = &self.variables[variable]
        {
            range.for_each_expr(&mut |expr| self.gather(expr, found));
        }
    }

    /// The variables that an expression depends on.
    pub fn free(&self, expr: &Expr) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        self.gather(expr, &mut found);
        found
    }

    /// Whether an expression depends on the accumulator of an ordered fold around it.
    pub fn has_accumulator(&self, expr: &Expr) -> bool {
        self.free(expr).iter().any(|&variable| matches!(self.variables[variable], Variable::Accumulator))
    }

    /// Makes the tensor's node. Its axes are the variables around that it depends on, then its own. Gives the node
    /// and those outer variables.
    pub fn make(&mut self, tensor: Tensor, span: Span) -> Result<(NodeId, Vec<usize>), LowerError> {
        let folded = tensor.fold.as_ref().map_or(&[][..], |fold| &fold.axes);
        let accumulator = tensor.fold.as_ref().and_then(|fold| fold.accumulator);
        let mut used = self.free(&tensor.body);
        for &variable in tensor.own.iter().chain(folded) {
            self.gather_variable(variable, &mut used);
        }
        if let Some(TensorFold { kind: FoldKind::Ordered { init }, .. }) = &tensor.fold {
            self.gather(init, &mut used);
        }
        used.retain(|variable| {
            !tensor.own.contains(variable) && !folded.contains(variable) && Some(*variable) != accumulator
        });
        let guard = self.guard(&tensor, &mut used);
        if used.iter().any(|&variable| matches!(self.variables[variable], Variable::Accumulator)) {
            let what = "a fold or an array inside an ordered fold cannot depend on its accumulator; use scan";
            return Err(LowerError::Unsupported { span, what });
        }
        let outer: Vec<usize> = used.into_iter().collect();
        let order: Vec<usize> = outer.iter().chain(&tensor.own).chain(folded).copied().collect();
        let places: HashMap<usize, usize> = order.iter().enumerate().map(|(place, &v)| (v, place)).collect();
        let placed = |expr: &Expr| place(expr, &places, accumulator);
        let ranges = |variables: &[usize]| -> Vec<Range> {
            let range = |&variable: &usize| match &self.variables[variable] {
                Variable::Axis(range) => range.map_exprs(&mut |expr| placed(expr)),
                Variable::Accumulator => Range::Fixed(1),
            };
            variables.iter().map(range).collect()
        };
        let shape: Vec<usize> = outer.iter().chain(&tensor.own).copied().collect();
        let fold = tensor.fold.as_ref().map(|fold| Fold {
            kind: match &fold.kind {
                FoldKind::Ordered { init } => FoldKind::Ordered { init: Box::new(placed(init)) },
                kind => kind.clone(),
            },
            axes: ranges(&fold.axes),
        });
        let compute = Compute {
            axes: ranges(&shape),
            fold,
            guard: guard.as_ref().map(placed),
            body: placed(&tensor.body),
            permissions: if tensor.fold.is_some() { tensor.permissions } else { Permissions::default() },
        };
        let node = self.builder.compute(compute, tensor.element, tensor.origin);
        self.axes_of.insert(node, shape);
        Ok((node, outer))
    }

    /// The condition under which the tensor is needed, when it should be tested: it can trap, or costs much. A
    /// condition that would add axes is left out unless there is a trap to avoid.
    fn guard(&self, tensor: &Tensor, used: &mut BTreeSet<usize>) -> Option<Expr> {
        let mut guards = self.guards.iter().cloned();
        let first = guards.next()?;
        let guard = guards.fold(first, |all, next| Expr::binary(Binary::And, all, next));
        let traps = self.simplifier().may_trap(&tensor.body);
        let costly = tensor.fold.is_some() || tensor.body.any(&mut |part| is_costly(part));
        if !traps && !costly {
            return None;
        }
        let wanted = self.free(&guard);
        if wanted.iter().any(|variable| matches!(self.variables[*variable], Variable::Accumulator)) {
            return None;
        }
        if wanted.iter().all(|variable| used.contains(variable) || tensor.own.contains(variable)) {
            return Some(guard);
        }
        if traps {
            used.extend(wanted.into_iter().filter(|variable| !tensor.own.contains(variable)));
            return Some(guard);
        }
        None
    }

    /// The node and its first indices, when an expression is exactly its element at the variables given: then no
    /// new tensor is needed to hold the expression over them.
    pub fn as_element(&self, expr: &Expr, own: &[usize]) -> Option<(NodeId, Vec<Expr>)> {
        let Expr::Load { node, indices } = expr else { return None };
        let split = indices.len().checked_sub(own.len())?;
        let (prefix, last) = indices.split_at(split);
        let in_order = last.iter().zip(own).all(|(index, variable)| *index == Expr::Axis(*variable));
        let apart = prefix.iter().all(|index| self.free(index).iter().all(|v| !own.contains(v)));
        if !in_order || !apart {
            return None;
        }
        let made_over = self.axes_of.get(node);
        let axes = self.builder.graph().axes(*node);
        let whole = own.iter().enumerate().all(|(place, &variable)| match &self.variables[variable] {
            Variable::Axis(Range::Fixed(n)) => axes[split + place] == Range::Fixed(*n),
            _ => made_over.is_some_and(|made| made[split + place] == variable),
        });
        whole.then(|| (*node, prefix.to_vec()))
    }
}

fn place(expr: &Expr, places: &HashMap<usize, usize>, accumulator: Option<usize>) -> Expr {
    match expr {
        Expr::Axis(variable) if Some(*variable) == accumulator => Expr::Accumulator,
        Expr::Axis(variable) => Expr::Axis(places.get(variable).copied().unwrap_or(*variable)),
        other => other.map_parts(&mut |part| place(part, places, accumulator)),
    }
}

fn is_costly(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Unary(
            Unary::Exp
                | Unary::Log
                | Unary::Sin
                | Unary::Cos
                | Unary::Tanh
                | Unary::Sigmoid
                | Unary::Silu
                | Unary::Gelu
                | Unary::Softplus,
            _
        )
    )
}
