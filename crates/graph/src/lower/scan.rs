//! A sequential loop becomes a graph of its own, with what it uses from around it captured.

use fiddlehead_lang::hir::{self, EmissionCount};
use fiddlehead_lang::source::Span;

use super::error::LowerError;
use super::expression::{Lowerer, element_of};
use super::frame::Frame;
use super::value::{Value, View};
use crate::ir::*;
use crate::rewrite::interval::Interval;

impl<'a> Lowerer<'a> {
    /// A value made in the frame `depth`, as a value of the innermost frame.
    pub(super) fn carried_in(
        &mut self,
        depth: usize,
        mut value: Value,
        span: Span,
    ) -> Result<Value, LowerError> {
        for outer in depth..self.frames.len() - 1 {
            value = self.import(outer, value, span)?;
        }
        Ok(value)
    }

    /// A value of frame `outer` as one of the frame inside it.
    fn import(&mut self, outer: usize, value: Value, span: Span) -> Result<Value, LowerError> {
        match value {
            Value::Scalar(Expr::Float(_) | Expr::Int(_) | Expr::Bool(_) | Expr::Id(_)) | Value::Layer(_) => {
                Ok(value)
            }
            Value::Tuple(parts) => {
                let parts: Result<Vec<Value>, LowerError> =
                    parts.into_iter().map(|part| self.import(outer, part, span)).collect();
                Ok(Value::Tuple(parts?))
            }
            Value::Scalar(_) => {
                let node = self.whole_in(outer, value, span)?;
                Ok(Value::Scalar(Expr::load(self.import_node(outer, node), Vec::new())))
            }
            Value::Array(ref view) => {
                let shape = view.shape.clone();
                let node = self.whole_in(outer, value, span)?;
                Ok(Value::Array(View::whole(self.import_node(outer, node), shape)))
            }
            Value::Ragged { .. } => {
                let what = "a scan cannot read an array with a dependent range from around it";
                Err(LowerError::Unsupported { span, what })
            }
        }
    }

    /// The node of a whole value in an outer frame.
    fn whole_in(&mut self, outer: usize, value: Value, span: Span) -> Result<NodeId, LowerError> {
        let inner = self.frames.split_off(outer + 1);
        let result = self.whole(value, span, "captured");
        self.frames.extend(inner);
        result
    }

    /// The node inside that stands for a node of frame `outer`: the weight or constant itself, else an input.
    fn import_node(&mut self, outer: usize, node: NodeId) -> NodeId {
        if let Some(&known) = self.frames[outer + 1].imports.get(&node) {
            return known;
        }
        let graph = self.frames[outer].builder.graph();
        let source = graph.node(node).clone();
        let shape = graph.shape(node).unwrap_or_default();
        let param = match source.kind {
            NodeKind::Param(param) => Some(graph.params()[param.index()].clone()),
            _ => None,
        };
        let frame = &mut self.frames[outer + 1];
        let inner = match (source.kind, param) {
            (NodeKind::Param(_), Some(param)) => frame.builder.param(param),
            (NodeKind::Constant(constant), _) => {
                frame.builder.constant(constant.shape, constant.values, source.origin)
            }
            _ => {
                let name = format!("{}.{}", source.origin.name, frame.captured.len());
                frame.captured.push(node);
                frame.builder.input(Input { name, shape, element: source.element, per_node: false })
            }
        };
        frame.imports.insert(node, inner);
        inner
    }

    pub(super) fn scan(&mut self, scan: &'a hir::Scan, span: Span) -> Result<Value, LowerError> {
        let trips = self.extent(&scan.turns, span)?;
        let first = self.extent(&scan.first, span)?;
        let last = first as i64 + trips as i64 - 1;
        if last > i64::from(i32::MAX) {
            return Err(LowerError::Extent { span, value: last });
        }
        let mut initials = Vec::new();
        for carry in &scan.carries {
            let name = self.function().local(carry.local).name.clone();
            let value = self.value(&carry.init)?;
            initials.push(self.whole(value, carry.init.span, &name)?);
        }
        let outer = self.frames.len() - 1;
        // The checker lets no scan stand in an `each`, a fold or a run-time arm: there is no guard to take along.
        let mut frame = Frame::new(&self.key("scan"), true);
        frame.around.here = Interval::new(0, (trips as i64 - 1).max(0));
        self.frames.push(frame);
        let body = self.scan_body(scan, outer, first, &initials);
        let frame = self.frames.pop();
        let emitted = body?;
        let Some(frame) = frame else {
            return Err(LowerError::Inconsistent { span, what: "a loop lost its body" });
        };
        let captured = frame.captured;
        let body = frame.builder.seal().map_err(|error| LowerError::Invalid(Box::new(error)))?;
        self.scan_result(span, Scan { body, trips, captured, first: first as i64, results: emitted })
    }

    /// Lowers one turn into the innermost frame; gives the loop's results.
    fn scan_body(
        &mut self,
        scan: &'a hir::Scan,
        outer: usize,
        first: usize,
        initials: &[NodeId],
    ) -> Result<Vec<ScanResult>, LowerError> {
        let turn = Expr::binary(Binary::Add, Expr::Here, Expr::Int(first as i64));
        let turn = self.frame().simplifier().expr(&turn).0;
        self.bind(scan.index, Value::Scalar(turn));
        let mut carries = Vec::new();
        for (carry, &initial) in scan.carries.iter().zip(initials) {
            let local = self.function().local(carry.local);
            let shape = self.shape(&local.ty, local.span)?;
            let element = element_of(&local.ty, local.span)?;
            let initial = self.import_node(outer, initial);
            let known = self.frame().builder.graph().states();
            let again = known.iter().filter(|state| state.key.split('#').next() == Some(&local.name)).count();
            let key = if again == 0 { local.name.clone() } else { format!("{}#{again}", local.name) };
            let (id, node) = self.frame().builder.state(key, shape.clone(), element, initial);
            carries.push(id);
            self.bind(
                carry.local,
                if shape.is_empty() {
                    Value::Scalar(Expr::load(node, Vec::new()))
                } else {
                    Value::Array(View::whole(node, shape))
                },
            );
        }
        self.statements(&scan.statements)?;
        let mut results = Vec::new();
        if let Some(emission) = &scan.emission {
            let value = self.value(&emission.value)?;
            let node = self.whole(value, emission.value.span, "emit")?;
            let place = |span: Span| Some((span.start as usize, span.end as usize));
            self.frame().builder.output_at("emit", node, place(emission.value.span));
            let mut condition = None;
            if let Some(expr) = &emission.condition {
                let value = self.value(expr)?;
                let node = self.whole(value, expr.span, "emit_if")?;
                self.frame().builder.output_at("emit_if", node, place(expr.span));
                condition = Some(1);
            }
            let span = emission.value.span;
            let capacity = match &emission.count {
                EmissionCount::Proven(size) | EmissionCount::Declared(size) => self.extent(size, span)?,
            };
            results.push(ScanResult::Emitted { output: 0, condition, capacity });
            if matches!(emission.count, EmissionCount::Declared(_)) {
                results.push(ScanResult::Length { emission: 0 });
            }
        } else {
            results.extend(carries.iter().map(|&id| ScanResult::Carry(id)));
        }
        let mut next = Vec::new();
        for (expr, carry) in scan.next.iter().zip(&scan.carries) {
            let name = self.function().local(carry.local).name.clone();
            let value = self.value(expr)?;
            next.push(self.whole(value, expr.span, &name)?);
        }
        for (id, node) in carries.into_iter().zip(next) {
            self.frame().builder.assign(id, node);
        }
        Ok(results)
    }

    fn scan_result(&mut self, span: Span, lowered: Scan) -> Result<Value, LowerError> {
        let results = lowered.results.clone();
        let origin = self.origin(span);
        let shapes: Vec<(Element, Vec<usize>)> = results
            .iter()
            .map(|result| match result {
                ScanResult::Emitted { output, capacity, .. } => {
                    let node = lowered.body.outputs()[*output].node;
                    let mut shape = vec![*capacity];
                    shape.extend(lowered.body.shape(node).unwrap_or_default());
                    (lowered.body.node(node).element, shape)
                }
                ScanResult::Length { .. } => (Element::I32, Vec::new()),
                ScanResult::Carry(state) => {
                    let state = &lowered.body.states()[state.index()];
                    (state.element, state.shape.clone())
                }
            })
            .collect();
        let element = shapes.first().map_or(Element::I32, |(element, _)| *element);
        let node = self.frame().builder.node(NodeKind::Scan(Box::new(lowered)), element, origin.clone());
        let mut values = Vec::new();
        for (place, (element, shape)) in shapes.into_iter().enumerate() {
            let kind = NodeKind::ScanResult { scan: node, result: place };
            let result = self.frame().builder.node(kind, element, origin.clone());
            values.push(if shape.is_empty() {
                Value::Scalar(Expr::load(result, Vec::new()))
            } else {
                Value::Array(View::whole(result, shape))
            });
        }
        Ok(if values.len() == 1 { values.remove(0) } else { Value::Tuple(values) })
    }
}
