//! Walking and building expressions: what every pass over a graph needs, and no pass in particular.

use crate::ir::*;

impl Expr {
    /// `left op right`.
    pub fn binary(op: Binary, left: Expr, right: Expr) -> Expr {
        Expr::Binary(op, Box::new(left), Box::new(right))
    }
    /// `op operand`.
    pub fn unary(op: Unary, operand: Expr) -> Expr {
        Expr::Unary(op, Box::new(operand))
    }
    /// `if condition { then } else { otherwise }`.
    pub fn select(condition: Expr, then: Expr, otherwise: Expr) -> Expr {
        Expr::Select(Box::new(condition), Box::new(then), Box::new(otherwise))
    }
    /// One element of a tensor.
    pub fn load(node: NodeId, indices: Vec<Expr>) -> Expr {
        Expr::Load { node, indices }
    }

    /// The type of a legal expression of this graph whose accumulator, if any, has the type given.
    pub fn element_in(&self, graph: &Graph, accumulator: Element) -> Element {
        match self {
            Expr::Float(_) => Element::F32,
            Expr::Int(_) | Expr::Axis(_) | Expr::Here => Element::I32,
            Expr::Bool(_) => Element::Bool,
            Expr::Id(_) => Element::Id,
            Expr::Load { node, .. } => graph.node(*node).element,
            Expr::History { history, .. } => graph.node(graph.histories()[history.index()].row).element,
            Expr::Accumulator => accumulator,
            Expr::Unary(op, operand) => match op {
                Unary::Negate | Unary::Absolute => operand.element_in(graph, accumulator),
                Unary::Not => Element::Bool,
                Unary::ToInt | Unary::IdToInt => Element::I32,
                Unary::IntToId => Element::Id,
                _ => Element::F32,
            },
            Expr::Binary(op, left, _) => match op {
                Binary::Equal
                | Binary::NotEqual
                | Binary::Less
                | Binary::LessEqual
                | Binary::And
                | Binary::Or => Element::Bool,
                _ => left.element_in(graph, accumulator),
            },
            Expr::Select(_, then, _) => then.element_in(graph, accumulator),
        }
    }

    /// Calls `f` on each direct part, in order.
    pub fn for_each_part<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match self {
            Expr::Load { indices, .. } => indices.iter().for_each(f),
            Expr::History { depth, indices, .. } => {
                f(depth);
                indices.iter().for_each(f);
            }
            Expr::Unary(_, operand) => f(operand),
            Expr::Binary(_, left, right) => {
                f(left);
                f(right);
            }
            Expr::Select(condition, then, otherwise) => {
                f(condition);
                f(then);
                f(otherwise);
            }
            Expr::Float(_)
            | Expr::Int(_)
            | Expr::Bool(_)
            | Expr::Id(_)
            | Expr::Axis(_)
            | Expr::Here
            | Expr::Accumulator => {}
        }
    }

    /// Calls `f` on this expression and everything in it, outermost first.
    pub fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        f(self);
        self.for_each_part(&mut |part| part.visit(f));
    }

    /// Whether `f` holds for this expression or anything in it.
    pub fn any(&self, f: &mut dyn FnMut(&Expr) -> bool) -> bool {
        if f(self) {
            return true;
        }
        let mut found = false;
        self.for_each_part(&mut |part| found = found || part.any(f));
        found
    }

    /// The same expression with each direct part replaced by what `f` makes of it.
    pub fn map_parts(&self, f: &mut dyn FnMut(&Expr) -> Expr) -> Expr {
        match self {
            Expr::Load { node, indices } => {
                Expr::Load { node: *node, indices: indices.iter().map(f).collect() }
            }
            Expr::History { history, depth, indices } => Expr::History {
                history: *history,
                depth: Box::new(f(depth)),
                indices: indices.iter().map(f).collect(),
            },
            Expr::Unary(op, operand) => Expr::unary(*op, f(operand)),
            Expr::Binary(op, left, right) => {
                let left = f(left);
                Expr::binary(*op, left, f(right))
            }
            Expr::Select(condition, then, otherwise) => {
                let condition = f(condition);
                let then = f(then);
                Expr::select(condition, then, f(otherwise))
            }
            leaf => leaf.clone(),
        }
    }
}

impl Range {
    /// Calls `f` on each expression of the extent.
    pub fn for_each_expr<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        if let Range::Between { start, end, .. } = self {
            f(start);
            f(end);
        }
    }
    /// Whether two ranges are written alike, whatever is known of their lengths.
    pub fn same_values(&self, other: &Range) -> bool {
        match (self, other) {
            (Range::Fixed(n), Range::Fixed(m)) => n == m,
            (
                Range::Between { start, end, inclusive, .. },
                Range::Between { start: low, end: high, inclusive: closed, .. },
            ) => start == low && end == high && inclusive == closed,
            _ => false,
        }
    }
    /// The same extent with each expression replaced by what `f` makes of it.
    pub fn map_exprs(&self, f: &mut dyn FnMut(&Expr) -> Expr) -> Range {
        match self {
            Range::Fixed(n) => Range::Fixed(*n),
            Range::Between { start, end, inclusive, bound } => {
                let start = f(start);
                Range::Between { start, end: f(end), inclusive: *inclusive, bound: *bound }
            }
        }
    }
}

impl Compute {
    /// Calls `f` on each whole expression: of the axes, the fold, the guard and the body.
    pub fn for_each_expr<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        self.axes.iter().for_each(|range| range.for_each_expr(f));
        if let Some(fold) = &self.fold {
            fold.axes.iter().for_each(|range| range.for_each_expr(f));
            if let FoldKind::Ordered { init } = &fold.kind {
                f(init);
            }
        }
        if let Some(guard) = &self.guard {
            f(guard);
        }
        f(&self.body);
    }

    /// The same tensor with each whole expression replaced by what `f` makes of it.
    pub fn map_exprs(&self, f: &mut dyn FnMut(&Expr) -> Expr) -> Compute {
        let axes = self.axes.iter().map(|range| range.map_exprs(f)).collect();
        let fold = self.fold.as_ref().map(|fold| {
            let axes = fold.axes.iter().map(|range| range.map_exprs(f)).collect();
            let kind = match &fold.kind {
                FoldKind::Ordered { init } => FoldKind::Ordered { init: Box::new(f(init)) },
                kind => kind.clone(),
            };
            Fold { kind, axes }
        });
        let guard = self.guard.as_ref().map(&mut *f);
        Compute { axes, fold, guard, body: f(&self.body), permissions: self.permissions }
    }
}

impl NodeKind {
    /// Calls `f` on each node of the same graph that this one reads directly, perhaps more than once. What it reads
    /// of a history is told by `history`.
    pub fn for_each_read(&self, f: &mut dyn FnMut(NodeId), history: &mut dyn FnMut(HistoryId)) {
        match self {
            NodeKind::Input(_) | NodeKind::Param(_) | NodeKind::State(_) | NodeKind::Constant(_) => {}
            NodeKind::Compute(compute) => compute.for_each_expr(&mut |expr| {
                expr.visit(&mut |part| match part {
                    Expr::Load { node, .. } => f(*node),
                    Expr::History { history: id, .. } => history(*id),
                    _ => {}
                })
            }),
            NodeKind::Top { operand, .. } => f(*operand),
            NodeKind::Scan(scan) => scan.captured.iter().for_each(|&node| f(node)),
            NodeKind::ScanResult { scan, .. } => f(*scan),
        }
    }
}
