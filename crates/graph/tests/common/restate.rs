//! A graph written anew from the descriptors of its sites alone: if a descriptor were wrong, so would be the graph.
#![allow(dead_code)]

use std::collections::HashMap;

use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::queries::*;
use fiddlehead_graph::*;

/// The graph that a cover describes.
pub fn restate(graph: &Graph, sites: &Sites) -> Graph {
    let mut writer = Writer {
        graph,
        sites,
        builder: GraphBuilder::new(graph.name()),
        known: HashMap::new(),
        updates: HashMap::new(),
    };
    // Inputs and states keep their places.
    for id in graph.node_ids() {
        if let NodeKind::Input(_) = graph.node(id).kind {
            writer.get(id);
        }
    }
    for state in 0..graph.states().len() {
        let declared = &graph.states()[state];
        let initial = writer.get(declared.initial);
        let (key, shape) = (declared.key.clone(), declared.shape.clone());
        let (_, node) = writer.builder.state(key, shape, declared.element, initial);
        let own = graph
            .node_ids()
            .filter(|id| matches!(graph.node(*id).kind, NodeKind::State(found) if found.index() == state));
        for id in own {
            writer.known.insert(id, node);
        }
    }
    for history in graph.histories() {
        let row = writer.get(history.row);
        writer.builder.history(history.key.clone(), row);
    }
    for (place, state) in graph.states().iter().enumerate() {
        let next = writer.get(state.next);
        writer.builder.assign(StateId(place as u32), next);
    }
    for output in graph.outputs() {
        let node = writer.get(output.node);
        writer.builder.output(output.name.clone(), node);
    }
    writer.builder.seal().expect("what the descriptors say is a valid graph")
}

struct Writer<'a> {
    graph: &'a Graph,
    sites: &'a Sites,
    builder: GraphBuilder,
    known: HashMap<NodeId, NodeId>,
    /// By state: the correction's node.
    updates: HashMap<StateId, NodeId>,
}

fn multiply(a: Expr, b: Expr) -> Expr {
    Expr::binary(Binary::Multiply, a, b)
}
fn add(a: Expr, b: Expr) -> Expr {
    Expr::binary(Binary::Add, a, b)
}
fn fixed(shape: &[usize]) -> Vec<Range> {
    shape.iter().map(|&n| Range::Fixed(n)).collect()
}

impl Writer<'_> {
    fn get(&mut self, node: NodeId) -> NodeId {
        if let Some(&known) = self.known.get(&node) {
            return known;
        }
        let made = self.make(node);
        self.known.insert(node, made);
        made
    }

    fn make(&mut self, node: NodeId) -> NodeId {
        let graph = self.graph;
        match &graph.node(node).kind {
            NodeKind::Input(input) => return self.builder.input(graph.inputs()[input.index()].clone()),
            NodeKind::Param(param) => return self.builder.param(graph.params()[param.index()].clone()),
            NodeKind::State(_) => panic!("states are declared first"),
            _ => {}
        }
        let site = self.sites.owner[node.index()].map(|owner| &self.sites.sites[owner.0]);
        match site {
            Some(Site::Contraction(site)) => return self.contraction(site),
            Some(Site::Attention(site)) if site.node == node => return self.attention(site),
            Some(Site::Attention(site)) => {
                let epilogue = site.epilogues.iter().find(|epilogue| epilogue.node == node);
                let epilogue = epilogue.expect("absorbed nodes are not read by anyone else");
                return self.copy(&epilogue.compute, Element::F32);
            }
            Some(Site::Recurrence(site)) => return self.recurrence(site, node),
            Some(Site::Window(site)) => return self.window(site),
            Some(Site::Gather(site)) => return self.gather(site),
            _ => {}
        }
        let kind = match &graph.node(node).kind {
            NodeKind::Compute(compute) => return self.copy(compute, graph.node(node).element),
            NodeKind::Top { operand, k, part } => {
                NodeKind::Top { operand: self.get(*operand), k: *k, part: *part }
            }
            NodeKind::Scan(scan) => {
                let mut scan = scan.clone();
                scan.captured = scan.captured.iter().map(|&node| self.get(node)).collect();
                NodeKind::Scan(scan)
            }
            NodeKind::ScanResult { scan, result } => {
                NodeKind::ScanResult { scan: self.get(*scan), result: *result }
            }
            other => other.clone(),
        };
        self.builder.node(kind, graph.node(node).element, Origin::default())
    }

    fn copy(&mut self, compute: &Compute, element: Element) -> NodeId {
        let compute = compute.map_exprs(&mut |expr| self.expr(expr));
        self.builder.compute(compute, element, Origin::default())
    }

    fn compute(&mut self, axes: Vec<Range>, fold: Option<(FoldKind, Vec<Range>)>, body: Expr) -> NodeId {
        let fold = fold.map(|(kind, axes)| Fold { kind, axes });
        let compute = Compute { axes, fold, guard: None, body, permissions: Permissions::default() };
        self.builder.compute(compute, Element::F32, Origin::default())
    }

    /// The expression over the new graph's nodes.
    fn expr(&mut self, expr: &Expr) -> Expr {
        match expr {
            Expr::Load { node, indices } => {
                let node = self.get(*node);
                Expr::load(node, indices.iter().map(|index| self.expr(index)).collect())
            }
            other => other.map_parts(&mut |part| self.expr(part)),
        }
    }

    /// A gather's index to calculate with: an id as its number.
    fn whole(&mut self, index: &Expr) -> Expr {
        let written = self.expr(index);
        match index.element_in(self.graph, Element::F32) {
            Element::Id => Expr::unary(Unary::IdToInt, written),
            _ => written,
        }
    }

    /// An index form to calculate with.
    fn number(&mut self, form: &Affine, axis: &dyn Fn(usize) -> Expr) -> Expr {
        match form.as_gathered() {
            Some(gathered) => renumbered(&self.whole(gathered), axis),
            None => self.affine(form, axis),
        }
    }

    fn affine(&mut self, form: &Affine, axis: &dyn Fn(usize) -> Expr) -> Expr {
        let mut sum = Expr::Int(form.constant);
        if form.here != 0 {
            sum = add(sum, multiply(Expr::Here, Expr::Int(form.here)));
        }
        for (atom, coefficient) in &form.terms {
            // A gathered id is used as it is.
            if let (Atom::Gathered(expr), 1, [_], 0, 0) =
                (atom, *coefficient, &form.terms[..], form.constant, form.here)
            {
                let expr = self.expr(expr);
                return renumbered(&expr, axis);
            }
            let atom = match atom {
                Atom::Axis(found) => axis(*found),
                Atom::Quotient(inner, by) => {
                    Expr::binary(Binary::Divide, self.number(inner, axis), Expr::Int(*by))
                }
                Atom::Remainder(inner, by) => {
                    Expr::binary(Binary::Remainder, self.number(inner, axis), Expr::Int(*by))
                }
                Atom::Gathered(expr) => {
                    let expr = self.whole(expr);
                    renumbered(&expr, axis)
                }
            };
            sum = add(sum, multiply(atom, Expr::Int(*coefficient)));
        }
        sum
    }

    /// One element of an operand, the site's axes given as expressions.
    fn operand(&mut self, operand: &Operand, axis: &dyn Fn(usize) -> Expr) -> Expr {
        let indices: Vec<Expr> = operand.indices.iter().map(|form| self.affine(form, axis)).collect();
        match &operand.source {
            Source::Node(node) => Expr::load(self.get(*node), indices),
            Source::History(history) => {
                let depth = operand.depth.as_ref().expect("a history is read at a depth");
                let depth = Box::new(self.affine(depth, axis));
                Expr::History { history: *history, depth, indices }
            }
            Source::Chain(compute) => {
                let node = self.copy(compute, Element::F32);
                Expr::load(node, indices)
            }
        }
    }

    fn scaled(&mut self, body: Expr, scale: &Option<Expr>) -> Expr {
        match scale {
            None => body,
            Some(scale) => multiply(self.expr(scale), body),
        }
    }

    fn contraction(&mut self, site: &Contraction) -> NodeId {
        let rank = self.graph.axes(site.node).len();
        let extents: Vec<usize> = site.axes.iter().map(|axis| axis.extent).collect();
        let (axes, folded) = (fixed(&extents[..rank]), fixed(&extents[rank..]));
        let guard = site.guard.as_ref().map(|guard| self.expr(guard));
        let body = match site.as_rows_times_weight(self.graph) {
            Ok(view) => self.rows_times_weight(&view, rank, &extents),
            Err(_) => {
                let left = self.operand(&site.operands[0], &Expr::Axis);
                multiply(left, self.operand(&site.operands[1], &Expr::Axis))
            }
        };
        let body = self.scaled(body, &site.scale);
        let fold = Some(Fold { kind: FoldKind::Sum, axes: folded });
        let compute = Compute { axes, fold, guard, body, permissions: site.permissions };
        self.builder.compute(compute, Element::F32, Origin::default())
    }

    /// Both sides through flat memory, as a kernel walks it.
    fn rows_times_weight(&mut self, view: &RowsTimesWeight, rank: usize, extents: &[usize]) -> Expr {
        let int = |value: usize| Expr::Int(value as i64);
        // The folded axes as one: k.
        let mut k = Expr::Int(0);
        for (axis, &extent) in extents.iter().enumerate().skip(rank) {
            k = add(multiply(k, int(extent)), Expr::Axis(axis));
        }
        let walk = |axes: &[StridedAxis], from: usize| {
            axes.iter()
                .fold(int(from), |sum, axis| add(sum, multiply(Expr::Axis(axis.axis), int(axis.stride))))
        };
        let mut row = walk(&view.rows, view.row_offset);
        if let Some(group) = &view.group {
            let index = self.whole(&group.index);
            row = add(row, multiply(index, int(group.rows)));
        }
        let place = add(multiply(row, int(view.weight_row_length)), add(int(view.column_offset), k.clone()));
        let weight = self.flat_load(view.weight, place);
        let place = add(walk(&view.activation_rows, view.activation_offset), k);
        let activation = match &view.activation.source {
            Source::Node(node) => self.flat_load(*node, place),
            Source::Chain(compute) => {
                let node = self.copy(compute, Element::F32);
                let shape = self.builder.graph().shape(node).expect("a fixed shape");
                Expr::load(node, unflatten(place, &shape))
            }
            Source::History(history) => {
                let depth = view.activation.depth.as_ref().expect("a history is read at a depth");
                let depth = Box::new(self.affine(depth, &Expr::Axis));
                let row = self.graph.histories()[history.index()].row;
                let shape = self.graph.shape(row).expect("a fixed shape");
                Expr::History { history: *history, depth, indices: unflatten(place, &shape) }
            }
        };
        multiply(activation, weight)
    }

    fn flat_load(&mut self, node: NodeId, place: Expr) -> Expr {
        let shape = self.graph.shape(node).expect("a fixed shape");
        Expr::load(self.get(node), unflatten(place, &shape))
    }

    fn attention(&mut self, site: &Attention) -> NodeId {
        let heads = site.heads.len();
        let (keys, values) = (site.key_dims.len(), site.value_dims.len());
        let start = match site.start {
            PathStart::Root => Expr::Int(0),
            PathStart::Sliding { reach } => Expr::binary(
                Binary::Max,
                Expr::Int(0),
                Expr::binary(Binary::Subtract, Expr::Here, Expr::Int(reach as i64 - 1)),
            ),
        };
        let path =
            Range::Between { start, end: add(Expr::Here, Expr::Int(1)), inclusive: false, bound: None };
        let own = |count: usize| (0..count).map(Expr::Axis).collect::<Vec<_>>();
        // dot[heads, t]
        let left = self.operand(&site.query, &Expr::Axis);
        let body = multiply(left, self.operand(&site.key, &Expr::Axis));
        let mut axes = fixed(&site.heads);
        axes.push(path.clone());
        let dot = self.compute(axes.clone(), Some((FoldKind::Sum, fixed(&site.key_dims))), body);
        let dot = Expr::load(dot, own(heads + 1));
        let score = self.expr(&site.score);
        let score = replace_accumulator(&score, &dot);
        let p = self.compute(axes, None, Expr::unary(Unary::Exp, score));
        let body = Expr::load(p, own(heads + 1));
        let total = self.compute(fixed(&site.heads), Some((FoldKind::Sum, vec![path.clone()])), body);
        // sum[heads, values], with t folded last here but before the keys in the site's numbering.
        let axis = |axis: usize| {
            if axis < heads {
                Expr::Axis(axis)
            } else if axis == heads {
                Expr::Axis(heads + values)
            } else {
                Expr::Axis(axis - 1 - keys)
            }
        };
        let mut at = own(heads);
        at.push(axis(heads));
        let body = multiply(Expr::load(p, at), self.operand(&site.value, &axis));
        let shape: Vec<usize> = site.heads.iter().chain(&site.value_dims).copied().collect();
        let sum = self.compute(fixed(&shape), Some((FoldKind::Sum, vec![path])), body);
        // Divided, in the order of the node's own axes.
        let mut own_shape = vec![0; shape.len()];
        for (place, &axis) in site.result_axes.iter().enumerate() {
            own_shape[axis] = shape[place];
        }
        let moved: Vec<Expr> = site.result_axes.iter().map(|&axis| Expr::Axis(axis)).collect();
        let mut below = Expr::load(total, moved[..heads].to_vec());
        if let Some(sink) = &site.sink {
            let sink = self.expr(sink);
            let sink = renumbered(&sink, &|axis| moved[axis].clone());
            below = add(below, Expr::unary(Unary::Exp, sink));
        }
        let body = Expr::binary(Binary::Divide, Expr::load(sum, moved), below);
        self.compute(fixed(&own_shape), None, body)
    }

    fn state(&self, state: StateId) -> NodeId {
        let found = self
            .graph
            .node_ids()
            .find(|id| matches!(self.graph.node(*id).kind, NodeKind::State(own) if own == state));
        self.known[&found.expect("an incoming value")]
    }

    fn recurrence(&mut self, site: &Recurrence, node: NodeId) -> NodeId {
        let shape = self.graph.states()[site.state.index()].shape.clone();
        let own: Vec<Expr> = (0..shape.len()).map(Expr::Axis).collect();
        let delta = match &site.kind {
            RecurrenceKind::Diagonal(diagonal) => {
                let mut body = Expr::load(self.state(site.state), own);
                body = self.scaled(body, &diagonal.multiplier);
                if let Some(addend) = &diagonal.addend {
                    body = add(body, self.expr(addend));
                }
                let axes = fixed(&shape);
                return self.compute(axes, None, body);
            }
            RecurrenceKind::Delta(delta) => delta,
            other => panic!("{other:?} is no site"),
        };
        if node == site.next { self.delta_next(site.state, delta) } else { self.readout(site, delta, node) }
    }

    /// The state's indices from head, key and value expressions.
    fn state_at(delta: &Delta, heads: &[Expr], key: Expr, value: Expr) -> Vec<Expr> {
        let mut indices = vec![Expr::Int(0); heads.len() + 2];
        for (place, &axis) in delta.head_axes.iter().enumerate() {
            indices[axis] = heads[place].clone();
        }
        indices[delta.key_axis] = key;
        indices[delta.value_axis] = value;
        indices
    }

    fn decay(&mut self, delta: &Delta, axis: &dyn Fn(usize) -> Expr) -> Option<Expr> {
        match &delta.decay {
            Decay::One => None,
            Decay::Multiplier(operand) => Some(self.operand(operand, axis)),
            Decay::Exponent(operand) => Some(Expr::unary(Unary::Exp, self.operand(operand, axis))),
        }
    }

    fn delta_next(&mut self, state: StateId, delta: &Delta) -> NodeId {
        let n = delta.heads.len();
        let old = self.state(state);
        // sum[heads, j] over i: site axes heads, i = n + 1 here, j = n.
        let axis = |axis: usize| match axis {
            _ if axis < n => Expr::Axis(axis),
            _ if axis == n => Expr::Axis(n + 1),
            _ => Expr::Axis(n),
        };
        let heads: Vec<Expr> = (0..n).map(Expr::Axis).collect();
        let read = Expr::load(old, Self::state_at(delta, &heads, axis(n), axis(n + 1)));
        let mut body = multiply(read, self.operand(&delta.key, &axis));
        if delta.reads == CorrectionReads::Decayed
            && let Some(decay) = self.decay(delta, &axis)
        {
            body = multiply(decay, body);
        }
        let mut shape = delta.heads.clone();
        shape.push(delta.value_dim);
        let seen = self.compute(fixed(&shape), Some((FoldKind::Sum, fixed(&[delta.key_dim]))), body);
        let at: Vec<Expr> = (0..=n).map(Expr::Axis).collect();
        let target = self.operand(&delta.value, &axis);
        let mut u = Expr::binary(Binary::Subtract, target, Expr::load(seen, at));
        if let Some(beta) = &delta.beta {
            u = multiply(self.operand(beta, &axis), u);
        }
        let u = self.compute(fixed(&shape), None, u);
        // next, over the state's own axes.
        let place = |axis: usize| match axis {
            _ if axis < n => Expr::Axis(delta.head_axes[axis]),
            _ if axis == n => Expr::Axis(delta.key_axis),
            _ => Expr::Axis(delta.value_axis),
        };
        let mut at: Vec<Expr> = (0..n).map(place).collect();
        at.push(place(n + 1));
        let own: Vec<Expr> = (0..n + 2).map(Expr::Axis).collect();
        let mut kept = Expr::load(old, own);
        if let Some(decay) = self.decay(delta, &place) {
            kept = multiply(decay, kept);
        }
        let written = multiply(self.operand(&delta.key, &place), Expr::load(u, at));
        let state_shape = fixed(&self.graph.states()[state.index()].shape);
        self.compute(state_shape, None, add(kept, written))
    }

    fn readout(&mut self, site: &Recurrence, delta: &Delta, node: NodeId) -> NodeId {
        let readout = delta.readouts.iter().find(|readout| readout.node == node).expect("a readout");
        let n = delta.heads.len();
        let source = match readout.of {
            ReadoutOf::Next => self.get(site.next),
            ReadoutOf::Incoming => self.state(site.state),
        };
        let rank = n + 1;
        let axis = |axis: usize| match axis {
            _ if axis < n => Expr::Axis(readout.result_axes[axis]),
            _ if axis == n => Expr::Axis(rank),
            _ => Expr::Axis(readout.result_axes[n]),
        };
        let heads: Vec<Expr> = (0..n).map(axis).collect();
        let read = Expr::load(source, Self::state_at(delta, &heads, axis(n), axis(n + 1)));
        let body = multiply(self.operand(&readout.query, &axis), read);
        let body = self.scaled(body, &readout.scale);
        let mut shape = vec![0; rank];
        for (place, &axis) in readout.result_axes.iter().enumerate() {
            shape[axis] = if place < n { delta.heads[place] } else { delta.value_dim };
        }
        self.compute(fixed(&shape), Some((FoldKind::Sum, fixed(&[delta.key_dim]))), body)
    }

    fn window(&mut self, site: &Window) -> NodeId {
        let rank = site.channels.len();
        let mut sum = Expr::Float(0.0);
        for (place, tap) in site.taps.iter().enumerate() {
            let Some(tap) = tap else { continue };
            let at = |axis: usize| if axis == rank { Expr::Int(place as i64) } else { Expr::Axis(axis) };
            let weight = match &site.weight {
                Some(weight) => self.operand(weight, &at),
                None => self.operand(tap, &at),
            };
            sum = add(sum, multiply(weight, self.operand(&site.row, &at)));
        }
        let mut body = self.scaled(sum, &site.scale);
        if let Some(bias) = &site.bias {
            body = add(body, self.expr(bias));
        }
        if let Some(epilogue) = &site.epilogue {
            let epilogue = self.expr(epilogue);
            body = replace_accumulator(&epilogue, &body);
        }
        self.compute(fixed(&site.channels), None, body)
    }

    fn gather(&mut self, site: &Gather) -> NodeId {
        let shape = self.graph.shape(site.node).expect("a fixed shape");
        let element = self.graph.node(site.node).element;
        let mut indices = vec![self.expr(&site.index)];
        indices.extend((site.leading..shape.len()).map(Expr::Axis));
        let body = Expr::load(self.get(site.table), indices);
        let compute = Compute {
            axes: fixed(&shape),
            fold: None,
            guard: None,
            body,
            permissions: Permissions::default(),
        };
        self.builder.compute(compute, element, Origin::default())
    }
}

fn unflatten(place: Expr, shape: &[usize]) -> Vec<Expr> {
    let mut stride = 1;
    let mut indices: Vec<Expr> = shape
        .iter()
        .rev()
        .map(|&extent| {
            let index = Expr::binary(Binary::Divide, place.clone(), Expr::Int(stride));
            stride *= extent as i64;
            Expr::binary(Binary::Remainder, index, Expr::Int(extent as i64))
        })
        .collect();
    indices.reverse();
    indices
}

fn renumbered(expr: &Expr, axis: &dyn Fn(usize) -> Expr) -> Expr {
    match expr {
        Expr::Axis(found) => axis(*found),
        other => other.map_parts(&mut |part| renumbered(part, axis)),
    }
}

fn replace_accumulator(expr: &Expr, by: &Expr) -> Expr {
    match expr {
        Expr::Accumulator => by.clone(),
        other => other.map_parts(&mut |part| replace_accumulator(part, by)),
    }
}
