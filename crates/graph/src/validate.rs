//! The rules of a legal graph, written apart from everything that builds or changes one.
//!
//! | rule | what it asks |
//! |---|---|
//! | `order` | every node, and every history row, comes before what reads it |
//! | `type` | every expression has one type, every place its expected one |
//! | `rank` | a load has one index an axis |
//! | `bounds` | a literal index lies inside its axis; an extent's bound holds |
//! | `scope` | an axis is mentioned only where it exists, an accumulator only in an ordered fold's body |
//! | `shape` | what meets has one shape, and a shape is a countable size |
//! | `local` | a tensor with a dependent axis is loaded and nothing else |
//! | `initial` | a state's first value depends on nothing that differs between forest nodes |
//! | `depth` | a history is never read above `here` |
//! | `scan` | a loop's body, captured values and results fit |
//! | `name` | names and keys are unique |
//! | `reference` | every number names something that exists |

mod depth;
mod expression;

use std::collections::HashSet;

use crate::ir::*;
use expression::{Scope, element_of};

/// A graph breaks a rule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{place} breaks the rule `{rule}`: {detail}")]
pub struct ValidationError {
    /// The node, or the state, history or output at fault, with its name in the source.
    pub place: String,
    /// Where the node at fault came from.
    pub origin: Origin,
    /// The rule, one word of the module's table.
    pub rule: &'static str,
    /// What is wrong, with the values.
    pub detail: String,
}

/// A broken rule, not yet placed.
pub(crate) type Broken = (&'static str, String);

/// Checks every rule of a graph, loop bodies included.
pub fn validate(graph: &Graph) -> Result<(), ValidationError> {
    let mut validator =
        Validator { graph, shapes: Vec::with_capacity(graph.nodes.len()), varies: Vec::new() };
    validator.tables()?;
    for index in 0..graph.nodes.len() {
        validator.node(NodeId(index as u32))?;
    }
    validator.ends()
}

/// An extent when it is fixed.
type Extent = Option<usize>;

pub(crate) struct Validator<'a> {
    pub(crate) graph: &'a Graph,
    /// For each node checked so far, its extents; none is a dependent axis.
    pub(crate) shapes: Vec<Vec<Extent>>,
    /// For each node checked so far, whether its value may differ between forest nodes.
    varies: Vec<bool>,
}

impl Validator<'_> {
    fn tables(&self) -> Result<(), ValidationError> {
        let graph = self.graph;
        let mut seen = HashSet::new();
        for input in &graph.inputs {
            let place = || format!("input `{}`", input.name);
            countable(&input.shape).map_err(|broken| error(place(), broken))?;
            unique(&mut seen, &input.name).map_err(|broken| error(place(), broken))?;
        }
        let mut seen = HashSet::new();
        for param in &graph.params {
            let place = || format!("param `{}`", param.name);
            countable(&param.shape).map_err(|broken| error(place(), broken))?;
            unique(&mut seen, &param.name).map_err(|broken| error(place(), broken))?;
            if !matches!(param.element, Element::F32 | Element::I32) {
                return Err(error(place(), ("type", format!("a weight cannot be {:?}", param.element))));
            }
        }
        let mut seen = HashSet::new();
        for state in &graph.states {
            let place = || format!("state `{}`", state.key);
            countable(&state.shape).map_err(|broken| error(place(), broken))?;
            unique(&mut seen, &state.key).map_err(|broken| error(place(), broken))?;
        }
        for history in &graph.histories {
            let place = || format!("history `{}`", history.key);
            unique(&mut seen, &history.key).map_err(|broken| error(place(), broken))?;
        }
        Ok(())
    }

    fn node(&mut self, id: NodeId) -> Result<(), ValidationError> {
        let graph = self.graph;
        let node = &graph.nodes[id.index()];
        let placed = |(rule, detail): Broken| ValidationError {
            place: format!("node {id} ({})", node.origin.name),
            origin: node.origin.clone(),
            rule,
            detail,
        };
        let (element, shape) = match &node.kind {
            NodeKind::Scan(scan) => {
                validate(&scan.body).map_err(|inner| ValidationError {
                    place: format!("node {id} ({}), in its body {}", node.origin.name, inner.place),
                    ..inner
                })?;
                self.scan(scan).map_err(placed)?;
                (node.element, Vec::new())
            }
            kind => self.kind(id, kind, node.element).map_err(placed)?,
        };
        if element != node.element {
            let detail = format!("the node says {:?}, its value is {element:?}", node.element);
            return Err(placed(("type", detail)));
        }
        let varies = self.varying(&node.kind);
        self.shapes.push(shape);
        self.varies.push(varies);
        Ok(())
    }

    fn kind(&self, id: NodeId, kind: &NodeKind, declared: Element) -> Result<(Element, Vec<Extent>), Broken> {
        let graph = self.graph;
        let fixed = |shape: &[usize]| shape.iter().map(|&n| Some(n)).collect::<Vec<_>>();
        match kind {
            NodeKind::Input(input) => {
                let input = graph.inputs.get(input.index()).ok_or_else(|| missing("input", input.index()))?;
                Ok((input.element, fixed(&input.shape)))
            }
            NodeKind::Param(param) => {
                let param = graph.params.get(param.index()).ok_or_else(|| missing("param", param.index()))?;
                Ok((param.element, fixed(&param.shape)))
            }
            NodeKind::State(state) => {
                let state = graph.states.get(state.index()).ok_or_else(|| missing("state", state.index()))?;
                Ok((state.element, fixed(&state.shape)))
            }
            NodeKind::Constant(constant) => {
                let count = countable(&constant.shape)?;
                if count != constant.values.len() {
                    let detail =
                        format!("{} values for the shape {:?}", constant.values.len(), constant.shape);
                    return Err(("shape", detail));
                }
                Ok((Element::F32, fixed(&constant.shape)))
            }
            NodeKind::Compute(compute) => self.compute(id, compute, declared),
            NodeKind::Top { operand, k, part } => {
                let mut shape = self.fixed_shape(*operand)?;
                if graph.nodes[operand.index()].element != Element::F32 {
                    return Err(("type", format!("top of {operand}, which is not f32")));
                }
                match shape.last_mut() {
                    Some(last) if *k >= 1 && *k <= *last => *last = *k,
                    _ => return Err(("shape", format!("top {k} of the shape {shape:?}"))),
                }
                let element = match part {
                    TopPart::Values => Element::F32,
                    TopPart::Indices => Element::I32,
                };
                Ok((element, fixed(&shape)))
            }
            NodeKind::Scan(_) => Ok((declared, Vec::new())),
            NodeKind::ScanResult { scan, result } => {
                self.earlier(*scan)?;
                let NodeKind::Scan(scan) = &graph.nodes[scan.index()].kind else {
                    return Err(("scan", format!("{scan} is not a loop")));
                };
                let Some(result) = scan.results.get(*result) else {
                    return Err(missing("result", *result));
                };
                let body = &scan.body;
                Ok(match result {
                    ScanResult::Emitted { output, capacity, .. } => {
                        let node = body.outputs[*output].node;
                        let mut shape = vec![Some(*capacity)];
                        shape.extend(body.shape(node).unwrap_or_default().into_iter().map(Some));
                        (body.node(node).element, shape)
                    }
                    ScanResult::Length { .. } => (Element::I32, Vec::new()),
                    ScanResult::Carry(state) => {
                        let state = &body.states[state.index()];
                        (state.element, fixed(&state.shape))
                    }
                })
            }
        }
    }

    fn compute(
        &self,
        id: NodeId,
        compute: &Compute,
        declared: Element,
    ) -> Result<(Element, Vec<Extent>), Broken> {
        let mut shape = Vec::with_capacity(compute.axes.len());
        for (axis, range) in compute.axes.iter().enumerate() {
            shape.push(self.range(id, range, axis)?);
        }
        let own = Scope { reader: id, axes: compute.axes.len(), accumulator: None };
        if let Some(guard) = &compute.guard {
            expect("the guard", Element::Bool, element_of(self, guard, own)?)?;
        }
        let body = match &compute.fold {
            None => element_of(self, &compute.body, own)?,
            Some(fold) => {
                let count = compute.axes.len() + fold.axes.len();
                for (place, range) in fold.axes.iter().enumerate() {
                    self.range(id, range, compute.axes.len() + place)?;
                }
                let accumulator = match &fold.kind {
                    FoldKind::Ordered { init } => Some(element_of(self, init, own)?),
                    _ => None,
                };
                let body = element_of(self, &compute.body, Scope { reader: id, axes: count, accumulator })?;
                fold_element(fold, body, accumulator)?
            }
        };
        self.depths(compute)?;
        countable(&shape.iter().flatten().copied().collect::<Vec<_>>())?;
        if body != declared {
            return Err(("type", format!("the node says {declared:?}, its body gives {body:?}")));
        }
        Ok((body, shape))
    }

    /// Checks the extent of axis number `axis`, which sees the axes before it.
    fn range(&self, id: NodeId, range: &Range, axis: usize) -> Result<Extent, Broken> {
        match range {
            Range::Fixed(n) => Ok(Some(*n)),
            Range::Between { start, end, inclusive, bound } => {
                let scope = Scope { reader: id, axes: axis, accumulator: None };
                expect("the start of an axis", Element::I32, element_of(self, start, scope)?)?;
                expect("the end of an axis", Element::I32, element_of(self, end, scope)?)?;
                if let (Expr::Int(start), Expr::Int(end), Some(bound)) = (start, end, bound)
                    && end - start + i64::from(*inclusive) > *bound as i64
                {
                    return Err((
                        "bounds",
                        format!(
                            "axis {axis} is {start}..{}{end}, its bound {bound}",
                            if *inclusive { "=" } else { "" }
                        ),
                    ));
                }
                Ok(None)
            }
        }
    }

    /// Checks that a node exists before the one being checked.
    pub(crate) fn earlier(&self, node: NodeId) -> Result<(), Broken> {
        if node.index() < self.shapes.len() {
            Ok(())
        } else if node.index() < self.graph.nodes.len() {
            Err(("order", format!("it reads {node}, which comes no earlier")))
        } else {
            Err(missing("node", node.index()))
        }
    }

    /// The shape of an earlier tensor that must not be local.
    fn fixed_shape(&self, node: NodeId) -> Result<Vec<usize>, Broken> {
        self.earlier(node)?;
        if matches!(self.graph.nodes[node.index()].kind, NodeKind::Scan(_)) {
            return Err(("scan", format!("{node} is a loop, only its results can be read")));
        }
        let shape = &self.shapes[node.index()];
        shape
            .iter()
            .copied()
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| ("local", format!("{node} has a dependent axis, so it can only be loaded")))
    }

    fn scan(&self, scan: &Scan) -> Result<(), Broken> {
        let body = &scan.body;
        if let Some(input) = body.inputs.iter().find(|input| input.per_node) {
            return Err(("scan", format!("the body's input `{}` is not shared", input.name)));
        }
        if body.inputs.len() != scan.captured.len() {
            let detail = format!("{} captured for {} inputs", scan.captured.len(), body.inputs.len());
            return Err(("scan", detail));
        }
        for (input, &outer) in body.inputs.iter().zip(&scan.captured) {
            let shape = self.fixed_shape(outer)?;
            let element = self.graph.nodes[outer.index()].element;
            if shape != input.shape || element != input.element {
                let detail = format!(
                    "input `{}` is {:?} {:?}, captured {outer} is {element:?} {shape:?}",
                    input.name, input.element, input.shape
                );
                return Err(("scan", detail));
            }
        }
        for result in &scan.results {
            match result {
                ScanResult::Emitted { output, condition, capacity } => {
                    if *output >= body.outputs.len() {
                        return Err(missing("output", *output));
                    }
                    if let Some(condition) = condition {
                        let output =
                            body.outputs.get(*condition).ok_or_else(|| missing("output", *condition))?;
                        if body.node(output.node).element != Element::Bool
                            || body.shape(output.node) != Some(Vec::new())
                        {
                            return Err(("scan", "a condition to emit must be one bool".into()));
                        }
                    }
                    if condition.is_none() && *capacity != scan.trips {
                        let detail = format!("{capacity} rows, one emitted in each of {} turns", scan.trips);
                        return Err(("scan", detail));
                    }
                }
                ScanResult::Length { emission } => {
                    if !matches!(scan.results.get(*emission), Some(ScanResult::Emitted { .. })) {
                        return Err(("scan", format!("result {emission} is no emission")));
                    }
                }
                ScanResult::Carry(state) => {
                    body.states.get(state.index()).ok_or_else(|| missing("state", state.index()))?;
                }
            }
        }
        Ok(())
    }

    fn varying(&self, kind: &NodeKind) -> bool {
        let varies = |node: &NodeId| self.varies[node.index()];
        match kind {
            NodeKind::Input(input) => self.graph.inputs[input.index()].per_node,
            NodeKind::Param(_) | NodeKind::Constant(_) => false,
            NodeKind::State(_) => true,
            NodeKind::Compute(compute) => {
                let mut found = false;
                compute.for_each_expr(&mut |expr| {
                    found |= expr.any(&mut |part| match part {
                        Expr::Here | Expr::History { .. } => true,
                        Expr::Load { node, .. } => varies(node),
                        _ => false,
                    })
                });
                found
            }
            NodeKind::Top { operand, .. } => varies(operand),
            NodeKind::Scan(scan) => scan.captured.iter().any(varies),
            NodeKind::ScanResult { scan, .. } => varies(scan),
        }
    }

    fn ends(&self) -> Result<(), ValidationError> {
        let graph = self.graph;
        for state in &graph.states {
            for (what, node) in [("first", state.initial), ("outgoing", state.next)] {
                let check = || {
                    let shape = self.fixed_shape(node)?;
                    let element = graph.nodes[node.index()].element;
                    if shape != state.shape || element != state.element {
                        let detail = format!(
                            "it is {:?} {:?}, its {what} value {node} is {element:?} {shape:?}",
                            state.element, state.shape
                        );
                        return Err(("shape", detail));
                    }
                    Ok(())
                };
                check().map_err(|broken| error(format!("state `{}`", state.key), broken))?;
            }
            if self.varies[state.initial.index()] {
                let detail = format!("its first value {} differs between forest nodes", state.initial);
                return Err(error(format!("state `{}`", state.key), ("initial", detail)));
            }
        }
        for history in &graph.histories {
            self.fixed_shape(history.row)
                .map_err(|broken| error(format!("history `{}`", history.key), broken))?;
        }
        let mut seen = HashSet::new();
        for output in &graph.outputs {
            let place = || format!("output `{}`", output.name);
            unique(&mut seen, &output.name).map_err(|broken| error(place(), broken))?;
            self.fixed_shape(output.node).map_err(|broken| error(place(), broken))?;
        }
        Ok(())
    }
}

fn fold_element(fold: &Fold, body: Element, accumulator: Option<Element>) -> Result<Element, Broken> {
    let number = matches!(body, Element::F32 | Element::I32);
    match (&fold.kind, accumulator) {
        (FoldKind::Sum | FoldKind::Product | FoldKind::Max | FoldKind::Min, _) if number => Ok(body),
        (FoldKind::Any | FoldKind::All, _) if body == Element::Bool => Ok(body),
        (FoldKind::ArgMax, _) if fold.axes.len() != 1 => {
            Err(("shape", format!("an arg-max over {} axes, not one", fold.axes.len())))
        }
        (FoldKind::ArgMax, _) if number => Ok(Element::Id),
        (FoldKind::Ordered { .. }, Some(accumulator)) => {
            expect("an ordered fold's body", accumulator, body)?;
            Ok(body)
        }
        (kind, _) => Err(("type", format!("{kind:?} of {body:?}"))),
    }
}

pub(crate) fn expect(what: &str, wanted: Element, found: Element) -> Result<(), Broken> {
    if wanted == found { Ok(()) } else { Err(("type", format!("{what} is {found:?}, not {wanted:?}"))) }
}

pub(crate) fn missing(what: &str, number: usize) -> Broken {
    ("reference", format!("there is no {what} number {number}"))
}

fn error(place: String, (rule, detail): Broken) -> ValidationError {
    ValidationError { place, origin: Origin::default(), rule, detail }
}

fn unique<'a>(seen: &mut HashSet<&'a str>, name: &'a str) -> Result<(), Broken> {
    if seen.insert(name) { Ok(()) } else { Err(("name", format!("`{name}` is there twice"))) }
}

/// How many elements, when memory could ever hold them.
fn countable(shape: &[usize]) -> Result<usize, Broken> {
    shape
        .iter()
        .try_fold(1usize, |count, &n| count.checked_mul(n))
        .filter(|&count| count <= isize::MAX as usize / 8)
        .ok_or_else(|| ("shape", format!("the shape {shape:?} has too many elements")))
}
