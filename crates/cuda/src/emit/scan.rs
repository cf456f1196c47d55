//! A loop inside a kernel: one block runs all turns of a row, its body's tensors in scratch memory of the block.
//!
//! The body's captured values are the outer tensors themselves. Its states have two places each, the incoming and the
//! outgoing value, which change roles after a turn; its histories are arrays of one row a turn.

use fiddlehead_graph::queries::Variance;
use fiddlehead_graph::{Graph, HistoryId, NodeId, NodeKind, Scan, ScanResult};
use fiddlehead_plan::order::Facts;

use super::element::{Elements, Spread, assign};
use super::expression::Writer;
use super::kernel::{Argument, Kernel};
use super::scope::{HistorySpot, Scope, Spot, elements};
use super::traps::{TrapKind, Traps};

/// Where constants are kept for upload.
pub(crate) type Constants = Vec<std::sync::Arc<[f32]>>;

/// Writes all turns of the loop at `node`. The code stands where `row`, `node` and `here` are known, once for a block.
pub(crate) fn scan(
    kernel: &mut Kernel,
    outer: &Scope<'_>,
    traps: &mut Traps,
    constants: &mut Constants,
    node: NodeId,
) {
    let NodeKind::Scan(scan) = &outer.graph.node(node).kind else { return };
    let scratch = kernel.argument(Argument::Scratch);
    let mut memory = Memory { base: scratch, kernel };
    let body = &scan.body;
    let facts = Facts::new(body);
    let turn = memory.kernel.fresh("turn");
    let mut states = Vec::new();
    for state in body.states() {
        let words: usize = state.shape.iter().product();
        let (current, next) = (memory.kernel.fresh("state"), memory.kernel.fresh("state"));
        let places = [memory.take(words), memory.take(words)];
        memory.kernel.line(format!("u32* {current} = {}; u32* {next} = {};", places[0], places[1]));
        states.push((current, next, words));
    }
    let histories: Vec<HistorySpot> = body
        .histories()
        .iter()
        .map(|history| HistorySpot::At(memory.take(elements(body, history.row) * scan.trips.max(1))))
        .collect();
    let mut spots = Vec::new();
    for id in body.node_ids() {
        spots.push(match &body.node(id).kind {
            NodeKind::Input(input) => outer.spots[scan.captured[input.index()].index()].clone(),
            NodeKind::State(state) => Spot::At(states[state.index()].0.clone()),
            NodeKind::Constant(constant) => {
                constants.push(constant.values.clone());
                Spot::Words(Argument::Constant(constants.len() - 1), super::scope::RowsOf::Shared)
            }
            NodeKind::Scan(_) => Spot::Nowhere,
            _ if body.shape(id).is_none() => Spot::Local,
            _ => Spot::At(memory.take(elements(body, id))),
        });
    }
    let inner = Scope { graph: body, spots, histories, here: turn.clone(), set: outer.set };
    let mut counters = Vec::new();
    for _ in &scan.results {
        let counter = kernel.fresh("emitted");
        kernel.line(format!("int {counter} = 0; (void){counter};"));
        counters.push(counter);
    }
    zero_results(kernel, outer, traps, scan, node);
    let fixed = |id: NodeId| facts.variance[id.index()] != Variance::PerNode;
    kernel.line(format!("{{ const int {turn} = 0; (void){turn};"));
    kernel.line("// Once for all turns.");
    for id in body.node_ids().filter(|&id| fixed(id)) {
        run(kernel, &inner, traps, constants, &facts, id);
    }
    for (state, (current, _, words)) in body.states().iter().zip(&states) {
        copy_words(kernel, &inner, traps, state.initial, current, *words);
    }
    kernel.line("}");
    kernel.line(format!("for (int {turn} = 0; {turn} < {}; {turn}++) {{", scan.trips));
    for id in body.node_ids() {
        if !fixed(id) {
            run(kernel, &inner, traps, constants, &facts, id);
        }
        for (index, history) in body.histories().iter().enumerate().filter(|(_, history)| history.row == id) {
            append(kernel, &inner, traps, HistoryId(index as u32), history.row);
        }
    }
    emit(kernel, outer, &inner, traps, scan, node, &counters);
    for (state, (_, next, words)) in body.states().iter().zip(&states) {
        copy_words(kernel, &inner, traps, state.next, next, *words);
    }
    for (current, next, _) in &states {
        kernel.line(format!("{{ u32* const old = {current}; {current} = {next}; {next} = old; }}"));
    }
    kernel.line("}");
    finish(kernel, outer, traps, scan, node, &states, &counters);
}

struct Memory<'k> {
    base: String,
    kernel: &'k mut Kernel,
}

impl Memory<'_> {
    /// The address of so many words of the block's scratch.
    fn take(&mut self, words: usize) -> String {
        let start = self.kernel.scratch;
        self.kernel.scratch += words.max(1).next_multiple_of(16);
        format!("({} + (long long)blockIdx.x * SCRATCH_WORDS + {start})", self.base)
    }
}

fn run(
    kernel: &mut Kernel,
    scope: &Scope<'_>,
    traps: &mut Traps,
    constants: &mut Constants,
    facts: &Facts,
    id: NodeId,
) {
    let graph = scope.graph;
    if facts.demand[id.index()].is_none() || scope.spots[id.index()] == Spot::Local {
        return;
    }
    match &graph.node(id).kind {
        NodeKind::Compute(_) | NodeKind::Top { .. } => {
            Elements { kernel, scope, traps, spread: Spread::Block }.node(id, id);
        }
        NodeKind::Scan(_) => scan(kernel, scope, traps, constants, id),
        _ => {}
    }
}

/// Copies a tensor of the scope to an address.
fn copy_words(
    kernel: &mut Kernel,
    scope: &Scope<'_>,
    traps: &mut Traps,
    from: NodeId,
    to: &str,
    words: usize,
) {
    let element = scope.graph.node(from).element;
    let assign_word = |writer: &mut Writer<'_, '_>| {
        let value = writer.element_of(from, "e");
        assign(&super::expression::typed(to, "e", element), element, &value)
    };
    Elements { kernel, scope, traps, spread: Spread::Block }.copy(words, &assign_word, from);
}

fn append(kernel: &mut Kernel, scope: &Scope<'_>, traps: &mut Traps, history: HistoryId, row: NodeId) {
    let HistorySpot::At(pointer) = scope.histories[history.index()].clone() else { return };
    let words = elements(scope.graph, row);
    let to = format!("({pointer} + (long long){} * {words})", scope.here);
    copy_words(kernel, scope, traps, row, &to, words);
}

/// The results of the loop that somebody reads: the node and its place in [`Scan::results`].
fn results<'g>(
    graph: &'g Graph,
    outer: &'g Scope<'_>,
    node: NodeId,
) -> impl Iterator<Item = (NodeId, usize)> + 'g {
    graph.node_ids().filter_map(move |id| match graph.node(id).kind {
        NodeKind::ScanResult { scan, result } if scan == node && outer.spots[id.index()] != Spot::Nowhere => {
            Some((id, result))
        }
        _ => None,
    })
}

fn zero_results(kernel: &mut Kernel, outer: &Scope<'_>, traps: &mut Traps, scan: &Scan, node: NodeId) {
    let found: Vec<_> = results(outer.graph, outer, node).collect();
    for (id, result) in found {
        if let ScanResult::Emitted { .. } = scan.results[result] {
            let element = outer.graph.node(id).element;
            let zero = |writer: &mut Writer<'_, '_>| {
                assign(&writer.element_of(id, "e"), element, super::expression::zero(element))
            };
            Elements { kernel: &mut *kernel, scope: outer, traps, spread: Spread::Block }.copy(
                elements(outer.graph, id),
                &zero,
                id,
            );
        }
    }
}

fn emit(
    kernel: &mut Kernel,
    outer: &Scope<'_>,
    inner: &Scope<'_>,
    traps: &mut Traps,
    scan: &Scan,
    node: NodeId,
    counters: &[String],
) {
    let targets: Vec<_> = results(outer.graph, outer, node).collect();
    for (place, result) in scan.results.iter().enumerate() {
        let ScanResult::Emitted { output, condition, capacity } = result else { continue };
        let counter = &counters[place];
        if let Some(condition) = condition {
            let condition = scan.body.outputs()[*condition].node;
            let text = Writer::new(kernel, inner, traps, condition).element_of(condition, "0");
            kernel.line(format!("if ({text}) {{"));
        } else {
            kernel.line("{");
        }
        let code = traps.add(outer.graph, node, TrapKind::TooManyEmissions { capacity: *capacity });
        kernel.line(format!("if ({counter} >= {capacity}) {{"));
        kernel.line(format!("if (threadIdx.x == 0) trap(b, row, (u32)t + {code}, {counter}, 0, 0);"));
        kernel.line("} else {");
        let value = scan.body.outputs()[*output].node;
        let words = elements(&scan.body, value);
        let element = scan.body.node(value).element;
        for (id, _) in targets.iter().filter(|(_, result)| *result == place) {
            let at = format!("(long long){counter} * {words} + e");
            let to = Writer::new(kernel, outer, traps, *id).element_of(*id, &at);
            let copy = |writer: &mut Writer<'_, '_>| assign(&to, element, &writer.element_of(value, "e"));
            Elements { kernel: &mut *kernel, scope: inner, traps, spread: Spread::Block }
                .copy(words, &copy, value);
        }
        kernel.line(format!("{counter}++;"));
        kernel.line("}");
        kernel.line("}");
    }
    // A condition is read by every thread before the next turn writes it again.
    kernel.line("__syncthreads();");
}

fn finish(
    kernel: &mut Kernel,
    outer: &Scope<'_>,
    traps: &mut Traps,
    scan: &Scan,
    node: NodeId,
    states: &[(String, String, usize)],
    counters: &[String],
) {
    let found: Vec<_> = results(outer.graph, outer, node).collect();
    for (id, result) in found {
        let element = outer.graph.node(id).element;
        match &scan.results[result] {
            ScanResult::Emitted { .. } => {}
            ScanResult::Length { emission } => {
                let counter = counters[*emission].clone();
                let length =
                    |writer: &mut Writer<'_, '_>| assign(&writer.element_of(id, "e"), element, &counter);
                Elements { kernel: &mut *kernel, scope: outer, traps, spread: Spread::Block }
                    .copy(1, &length, id);
            }
            ScanResult::Carry(state) => {
                let (current, _, words) = &states[state.index()];
                let carry = |writer: &mut Writer<'_, '_>| {
                    let from = super::expression::typed(current, "e", element);
                    assign(&writer.element_of(id, "e"), element, &from)
                };
                Elements { kernel: &mut *kernel, scope: outer, traps, spread: Spread::Block }
                    .copy(*words, &carry, id);
            }
        }
    }
}
