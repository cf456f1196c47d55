//! Expressions with their types known: what the graph leaves to be inferred is settled here, once, so that
//! evaluation is a plain walk.

use crate::{OracleError, Real};
use fiddlehead_graph::{
    Binary, Compute, Element, Expr, Fold, FoldKind, Graph, HistoryId, NodeId, Origin, Range, Unary,
};

/// An expression of f32 type.
#[derive(Debug)]
pub(crate) enum Float<R> {
    Literal(R),
    Load(Load<R>),
    History(Row<R>),
    Accumulator,
    FromInt(Box<Int<R>>),
    Unary(Unary, Box<Float<R>>),
    Binary(Binary, Box<Float<R>>, Box<Float<R>>),
    Select(Box<Bool<R>>, Box<Float<R>>, Box<Float<R>>),
}

/// An expression of i32 or id type. Values are i64, wrapped to 32 bits after each operation that may leave
/// them.
#[derive(Debug)]
pub(crate) enum Int<R> {
    Literal(i64),
    Axis(usize),
    Here,
    Load(Load<R>),
    History(Row<R>),
    Accumulator,
    FromFloat(Box<Float<R>>),
    FromId(Box<Int<R>>),
    ToId(Box<Int<R>>),
    Unary(Unary, Box<Int<R>>),
    Binary(Binary, Box<Int<R>>, Box<Int<R>>),
    Select(Box<Bool<R>>, Box<Int<R>>, Box<Int<R>>),
}

/// An expression of bool type.
#[derive(Debug)]
pub(crate) enum Bool<R> {
    Literal(bool),
    Load(Load<R>),
    History(Row<R>),
    Accumulator,
    Not(Box<Bool<R>>),
    CompareFloats(Binary, Box<Float<R>>, Box<Float<R>>),
    CompareInts(Binary, Box<Int<R>>, Box<Int<R>>),
    Binary(Binary, Box<Bool<R>>, Box<Bool<R>>),
    Select(Box<Bool<R>>, Box<Bool<R>>, Box<Bool<R>>),
}

/// One element of a tensor of this node.
#[derive(Debug)]
pub(crate) struct Load<R> {
    pub node: usize,
    pub indices: Vec<Int<R>>,
}

/// One element of a history's row.
#[derive(Debug)]
pub(crate) struct Row<R> {
    pub history: usize,
    pub depth: Box<Int<R>>,
    pub indices: Vec<Int<R>>,
}

/// An expression of any type.
#[derive(Debug)]
pub(crate) enum Typed<R> {
    Float(Float<R>),
    Int(Int<R>),
    Id(Int<R>),
    Bool(Bool<R>),
}

/// The extent of an axis.
#[derive(Debug)]
pub(crate) enum Extent<R> {
    Fixed(usize),
    /// `end` is the last value when `inclusive`, else one past it.
    Between {
        start: Int<R>,
        end: Int<R>,
        inclusive: bool,
    },
}

/// A tensor defined element by element, types known.
#[derive(Debug)]
pub(crate) struct Tensor<R> {
    pub element: Element,
    pub axes: Vec<Extent<R>>,
    pub fold_kind: Option<FoldKind>,
    pub fold_axes: Vec<Extent<R>>,
    pub initial: Option<Typed<R>>,
    pub guard: Option<Bool<R>>,
    pub body: Typed<R>,
}

/// Resolves the expressions of one node of a graph.
pub(crate) struct Resolver<'graph> {
    pub graph: &'graph Graph,
    pub node: NodeId,
    /// Nodes that are loaded, with repetitions.
    pub dependencies: Vec<usize>,
    accumulator: Option<Element>,
    axes: usize,
}

impl<'graph> Resolver<'graph> {
    pub fn new(graph: &'graph Graph, node: NodeId) -> Resolver<'graph> {
        Resolver { graph, node, dependencies: Vec::new(), accumulator: None, axes: 0 }
    }

    pub fn malformed(&self, reason: impl Into<String>) -> OracleError {
        OracleError::Malformed { origin: self.origin(), reason: reason.into() }
    }

    fn origin(&self) -> Origin {
        self.graph.node(self.node).origin.clone()
    }

    /// Notes that this node reads `node`, which must come before it.
    pub fn depend(&mut self, node: NodeId) -> Result<usize, OracleError> {
        if node >= self.node {
            return Err(self.malformed(format!("it reads {node}, which does not come before it")));
        }
        self.dependencies.push(node.index());
        Ok(node.index())
    }

    pub fn tensor<R: Real>(&mut self, compute: &Compute) -> Result<Tensor<R>, OracleError> {
        let element = self.graph.node(self.node).element;
        let axes = self.extents(&compute.axes)?;
        let guard = compute.guard.as_ref().map(|guard| self.bool(guard)).transpose()?;
        let mut initial = None;
        let mut fold_axes = Vec::new();
        if let Some(Fold { kind, axes }) = &compute.fold {
            if let FoldKind::Ordered { init } = kind {
                initial = Some(self.expression(init)?);
            }
            fold_axes = self.extents(axes)?;
            self.accumulator = initial.is_some().then_some(element);
        }
        let body = self.expression(&compute.body)?;
        let fold_kind = compute.fold.as_ref().map(|fold| fold.kind.clone());
        let body_fits = match (&fold_kind, &body) {
            (Some(FoldKind::ArgMax), Typed::Float(_) | Typed::Int(_)) => {
                element == Element::Id && fold_axes.len() == 1
            }
            (Some(FoldKind::Any | FoldKind::All), body) => {
                element == Element::Bool && body.element() == element
            }
            (Some(FoldKind::Sum | FoldKind::Product | FoldKind::Max | FoldKind::Min), body) => {
                matches!(element, Element::F32 | Element::I32) && body.element() == element
            }
            (_, body) => body.element() == element,
        };
        if !body_fits || initial.as_ref().is_some_and(|initial| initial.element() != element) {
            return Err(self.malformed(format!("its body does not give {element:?}")));
        }
        Ok(Tensor { element, axes, fold_kind, fold_axes, initial, guard, body })
    }

    fn extents<R: Real>(&mut self, ranges: &[Range]) -> Result<Vec<Extent<R>>, OracleError> {
        let mut extents = Vec::with_capacity(ranges.len());
        for range in ranges {
            extents.push(match range {
                Range::Fixed(extent) => Extent::Fixed(*extent),
                Range::Between { start, end, inclusive, .. } => {
                    let (start, end) = (self.int(start)?, self.int(end)?);
                    Extent::Between { start, end, inclusive: *inclusive }
                }
            });
            // An axis may be named from here on, not in its own range.
            self.axes += 1;
        }
        Ok(extents)
    }

    fn int<R: Real>(&mut self, expression: &Expr) -> Result<Int<R>, OracleError> {
        match self.expression(expression)? {
            Typed::Int(int) => Ok(int),
            other => Err(self.malformed(format!("i32 expected, {:?} found", other.element()))),
        }
    }

    fn bool<R: Real>(&mut self, expression: &Expr) -> Result<Bool<R>, OracleError> {
        match self.expression(expression)? {
            Typed::Bool(bool) => Ok(bool),
            other => Err(self.malformed(format!("bool expected, {:?} found", other.element()))),
        }
    }

    fn indices<R: Real>(&mut self, indices: &[Expr], rank: usize) -> Result<Vec<Int<R>>, OracleError> {
        if indices.len() != rank {
            let reason = format!("{} indices for a tensor of {rank} axes", indices.len());
            return Err(self.malformed(reason));
        }
        let mut index = |index| match self.expression(index)? {
            Typed::Int(int) | Typed::Id(int) => Ok(int),
            other => Err(self.malformed(format!("{:?} is no index", other.element()))),
        };
        indices.iter().map(&mut index).collect()
    }

    fn expression<R: Real>(&mut self, expression: &Expr) -> Result<Typed<R>, OracleError> {
        Ok(match expression {
            Expr::Float(value) => Typed::Float(Float::Literal(R::from_f64(*value))),
            Expr::Int(value) if i32::try_from(*value).is_err() => {
                return Err(self.malformed(format!("{value} does not fit an i32")));
            }
            Expr::Int(value) => Typed::Int(Int::Literal(*value)),
            Expr::Bool(value) => Typed::Bool(Bool::Literal(*value)),
            Expr::Id(value) => Typed::Id(Int::Literal(i64::from(*value))),
            Expr::Axis(axis) if *axis >= self.axes => {
                return Err(self.malformed(format!("axis {axis} is not open here")));
            }
            Expr::Axis(axis) => Typed::Int(Int::Axis(*axis)),
            Expr::Here => Typed::Int(Int::Here),
            Expr::Load { node, indices } => {
                let index = self.depend(*node)?;
                let indices = self.indices(indices, self.graph.axes(*node).len())?;
                let load = Load { node: index, indices };
                match self.graph.node(*node).element {
                    Element::F32 => Typed::Float(Float::Load(load)),
                    Element::I32 => Typed::Int(Int::Load(load)),
                    Element::Id => Typed::Id(Int::Load(load)),
                    Element::Bool => Typed::Bool(Bool::Load(load)),
                }
            }
            Expr::History { history, depth, indices } => self.row(*history, depth, indices)?,
            Expr::Accumulator => match self.accumulator {
                Some(Element::F32) => Typed::Float(Float::Accumulator),
                Some(Element::I32) => Typed::Int(Int::Accumulator),
                Some(Element::Id) => Typed::Id(Int::Accumulator),
                Some(Element::Bool) => Typed::Bool(Bool::Accumulator),
                None => return Err(self.malformed("an accumulator outside an ordered fold")),
            },
            Expr::Unary(operation, operand) => self.unary(*operation, operand)?,
            Expr::Binary(operation, left, right) => self.binary(*operation, left, right)?,
            Expr::Select(condition, then, otherwise) => {
                let condition = Box::new(self.bool(condition)?);
                match (self.expression(then)?, self.expression(otherwise)?) {
                    (Typed::Float(a), Typed::Float(b)) => {
                        Typed::Float(Float::Select(condition, Box::new(a), Box::new(b)))
                    }
                    (Typed::Int(a), Typed::Int(b)) => {
                        Typed::Int(Int::Select(condition, Box::new(a), Box::new(b)))
                    }
                    (Typed::Id(a), Typed::Id(b)) => {
                        Typed::Id(Int::Select(condition, Box::new(a), Box::new(b)))
                    }
                    (Typed::Bool(a), Typed::Bool(b)) => {
                        Typed::Bool(Bool::Select(condition, Box::new(a), Box::new(b)))
                    }
                    _ => return Err(self.malformed("the arms of an if differ in type")),
                }
            }
        })
    }

    fn row<R: Real>(
        &mut self,
        history: HistoryId,
        depth: &Expr,
        indices: &[Expr],
    ) -> Result<Typed<R>, OracleError> {
        let Some(found) = self.graph.histories().get(history.index()) else {
            return Err(self.malformed("a history that does not exist"));
        };
        self.depend(found.row)?;
        let depth = Box::new(self.int(depth)?);
        let indices = self.indices(indices, self.graph.axes(found.row).len())?;
        let row = Row { history: history.index(), depth, indices };
        Ok(match self.graph.node(found.row).element {
            Element::F32 => Typed::Float(Float::History(row)),
            Element::I32 => Typed::Int(Int::History(row)),
            Element::Id => Typed::Id(Int::History(row)),
            Element::Bool => Typed::Bool(Bool::History(row)),
        })
    }

    fn unary<R: Real>(&mut self, operation: Unary, operand: &Expr) -> Result<Typed<R>, OracleError> {
        Ok(match (operation, self.expression(operand)?) {
            (Unary::Not, Typed::Bool(operand)) => Typed::Bool(Bool::Not(Box::new(operand))),
            (Unary::ToFloat, Typed::Int(operand)) => Typed::Float(Float::FromInt(Box::new(operand))),
            (Unary::ToInt, Typed::Float(operand)) => Typed::Int(Int::FromFloat(Box::new(operand))),
            (Unary::IdToInt, Typed::Id(operand)) => Typed::Int(Int::FromId(Box::new(operand))),
            (Unary::IntToId, Typed::Int(operand)) => Typed::Id(Int::ToId(Box::new(operand))),
            (Unary::Negate | Unary::Absolute, Typed::Int(operand)) => {
                Typed::Int(Int::Unary(operation, Box::new(operand)))
            }
            (
                Unary::Not | Unary::ToFloat | Unary::ToInt | Unary::IdToInt | Unary::IntToId,
                Typed::Float(_) | Typed::Int(_),
            )
            | (_, Typed::Id(_) | Typed::Bool(_)) => {
                return Err(self.malformed(format!("{operation:?} of the wrong type")));
            }
            (operation, Typed::Float(operand)) => Typed::Float(Float::Unary(operation, Box::new(operand))),
            (_, Typed::Int(_)) => return Err(self.malformed(format!("{operation:?} of an i32"))),
        })
    }

    fn binary<R: Real>(
        &mut self,
        operation: Binary,
        left: &Expr,
        right: &Expr,
    ) -> Result<Typed<R>, OracleError> {
        use Binary::*;
        let equality = matches!(operation, Equal | NotEqual);
        let comparison = equality || matches!(operation, Less | LessEqual);
        let arithmetic = matches!(operation, Add | Subtract | Multiply | Divide | Min | Max);
        Ok(match (self.expression(left)?, self.expression(right)?) {
            (Typed::Float(a), Typed::Float(b)) if comparison => {
                Typed::Bool(Bool::CompareFloats(operation, Box::new(a), Box::new(b)))
            }
            (Typed::Float(a), Typed::Float(b)) if arithmetic => {
                Typed::Float(Float::Binary(operation, Box::new(a), Box::new(b)))
            }
            (Typed::Int(a), Typed::Int(b)) if comparison => {
                Typed::Bool(Bool::CompareInts(operation, Box::new(a), Box::new(b)))
            }
            (Typed::Int(a), Typed::Int(b)) if arithmetic || operation == Remainder => {
                Typed::Int(Int::Binary(operation, Box::new(a), Box::new(b)))
            }
            (Typed::Id(a), Typed::Id(b)) if equality => {
                Typed::Bool(Bool::CompareInts(operation, Box::new(a), Box::new(b)))
            }
            (Typed::Bool(a), Typed::Bool(b)) if equality || matches!(operation, And | Or) => {
                Typed::Bool(Bool::Binary(operation, Box::new(a), Box::new(b)))
            }
            (a, b) => {
                let reason = format!("{operation:?} of {:?} and {:?}", a.element(), b.element());
                return Err(self.malformed(reason));
            }
        })
    }
}

impl<R> Typed<R> {
    pub fn element(&self) -> Element {
        match self {
            Typed::Float(_) => Element::F32,
            Typed::Int(_) => Element::I32,
            Typed::Id(_) => Element::Id,
            Typed::Bool(_) => Element::Bool,
        }
    }
}
