//! Cutting a sequential loop where its own conditions on the turn change.
//!
//! A loop that reads a prompt first and its own output later says so by `if t < P`. Between such turns every condition
//! is decided, and the body of each piece is what is left of it. A piece that reads nothing it has chosen itself is a
//! path whose tokens are all known: it runs at once, as a prompt does. Nothing here knows a language model.

use super::affine::Affine;
use super::interval::{Interval, Surroundings};
use super::{chain, checked, common, dead, simplify};
use crate::ir::*;

/// More cuts than this and the loop stays whole: a body that changes so often has no long pieces.
const MOST_CUTS: usize = 16;

/// Consecutive turns of a loop whose conditions on the turn are all decided.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopPiece {
    /// The turns, counted from zero: `here` in the body.
    pub turns: std::ops::Range<usize>,
    /// What is left of the body. Inputs, states and histories are those of the loop's body, in its order, so that a
    /// session's values go from piece to piece; a state whose value nothing needs is left unchanged. Outputs are
    /// those that this piece emits.
    pub body: Graph,
    /// Whether the piece can run as one path, its turns at once: no state that it reads depends on what its turns
    /// give, and none goes through another and back.
    pub parallel: bool,
    /// For each result of the loop, what this piece adds to it.
    pub emissions: Vec<PieceEmission>,
    /// For each state of the body, how this piece uses it.
    pub states: Vec<StateUse>,
}

/// What a piece adds to a result of its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceEmission {
    /// The result is no emission.
    None,
    /// This piece emits nothing.
    Never,
    /// Every turn emits.
    Always {
        /// The output of [`LoopPiece::body`] that is emitted.
        output: usize,
    },
    /// A turn emits where the condition holds.
    When {
        /// The output of [`LoopPiece::body`] that is emitted.
        output: usize,
        /// The bool output that says whether.
        condition: usize,
    },
}

/// How a piece uses a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateUse {
    /// Neither read nor needed later: the body leaves it as it was.
    Untouched,
    /// Not read here, and only its value after the last turn is needed later.
    LastValue,
    /// Read by this piece's turns.
    Read,
}

/// Cuts a loop's turns where a condition that is affine in the turn changes, and makes each piece's own body.
/// Running the pieces in order, states and histories handed on, is running the loop.
pub fn split_loop(scan: &Scan) -> Vec<LoopPiece> {
    let mut cuts = cuts(&scan.body, scan.trips);
    if cuts.len() > MOST_CUTS {
        cuts.clear();
    }
    cuts.push(scan.trips);
    let mut needed: Vec<bool> = vec![false; scan.body.states.len()];
    for result in &scan.results {
        if let ScanResult::Carry(state) = result {
            needed[state.index()] = true;
        }
    }
    let mut pieces = Vec::new();
    while let Some(end) = cuts.pop() {
        let start = cuts.last().copied().unwrap_or(0);
        if start == end {
            continue;
        }
        let piece = piece(scan, start..end, &mut needed);
        pieces.push(piece);
    }
    pieces.reverse();
    pieces
}

/// Makes one piece. `needed` says which states' values are needed after it, and is changed to those needed before.
fn piece(scan: &Scan, turns: std::ops::Range<usize>, needed: &mut [bool]) -> LoopPiece {
    let here = Interval::new(turns.start as i64, turns.end as i64 - 1);
    let decided = simplify::simplify(&scan.body, here);
    let mut body = simplify::simplify(&chain::fuse_chains(&decided), here);
    let emissions = demand_emissions(&mut body, scan);
    let mut live = Live::of(&body);
    body.outputs.iter().for_each(|output| live.mark(output.node));
    body.histories.iter().for_each(|history| live.mark(history.row));
    for (state, _) in body.states.iter().zip(needed.iter()).filter(|(_, needed)| **needed) {
        live.mark(state.next);
    }
    // A state that one turn reads is needed after the turn before.
    while turns.len() > 1 {
        let unmarked = body.states.iter().find(|state| live.reads(state) && !live.is_marked(state.next));
        let Some(state) = unmarked else { break };
        live.mark(state.next);
    }
    let states: Vec<StateUse> = body
        .states
        .iter()
        .zip(needed.iter_mut())
        .map(|(state, needed)| {
            let kept = live.incoming(state) == Some(state.next);
            let read = live.reads(state) && !(kept && live.only_handed_on(state));
            match (read, *needed) {
                (true, _) => {
                    *needed = true;
                    StateUse::Read
                }
                // Needed before as well only when this piece hands on what came in.
                (false, true) => {
                    *needed = kept;
                    StateUse::LastValue
                }
                (false, false) => StateUse::Untouched,
            }
        })
        .collect();
    let fed_back = live.fed_back(scan);
    let parallel =
        states.iter().zip(&fed_back).all(|(usage, fed_back)| *usage != StateUse::Read || !fed_back);
    let marked: Vec<bool> = body.states.iter().map(|state| live.is_marked(state.next)).collect();
    let unneeded: Vec<usize> = (0..states.len()).filter(|&state| !marked[state]).collect();
    for state in unneeded {
        leave_unchanged(&mut body, state);
    }
    let body = checked("split_loop", dead::remove_dead(&common::merge_equal(&body)));
    LoopPiece { turns, body, parallel, emissions, states }
}

/// Lets a state go out as it came in.
fn leave_unchanged(body: &mut Graph, state: usize) {
    let id = StateId(state as u32);
    let incoming = body.nodes.iter().position(|node| node.kind == NodeKind::State(id));
    if let Some(incoming) = incoming {
        body.states[state].next = NodeId(incoming as u32);
    }
}

/// Decides each emission and keeps the outputs that are still asked for.
fn demand_emissions(body: &mut Graph, scan: &Scan) -> Vec<PieceEmission> {
    let mut outputs: Vec<Output> = Vec::new();
    let old = std::mem::take(&mut body.outputs);
    let mut keep = |output: usize| match outputs.iter().position(|known| known.name == old[output].name) {
        Some(place) => place,
        None => {
            outputs.push(old[output].clone());
            outputs.len() - 1
        }
    };
    let emissions = scan
        .results
        .iter()
        .map(|result| match result {
            ScanResult::Emitted { output, condition: None, .. } => {
                PieceEmission::Always { output: keep(*output) }
            }
            ScanResult::Emitted { output, condition: Some(condition), .. } => {
                match literal(body, old[*condition].node) {
                    Some(false) => PieceEmission::Never,
                    Some(true) => PieceEmission::Always { output: keep(*output) },
                    None => PieceEmission::When { output: keep(*output), condition: keep(*condition) },
                }
            }
            ScanResult::Length { .. } | ScanResult::Carry(_) => PieceEmission::None,
        })
        .collect();
    body.outputs = outputs;
    emissions
}

fn literal(graph: &Graph, node: NodeId) -> Option<bool> {
    match &graph.node(node).kind {
        NodeKind::Compute(Compute { fold: None, guard: None, body: Expr::Bool(value), .. }) => Some(*value),
        _ => None,
    }
}

/// Which nodes are needed, found as marks are set.
struct Live<'a> {
    graph: &'a Graph,
    marked: Vec<bool>,
    incoming: Vec<Option<NodeId>>,
}

impl<'a> Live<'a> {
    fn of(graph: &'a Graph) -> Live<'a> {
        let mut incoming = vec![None; graph.states.len()];
        for (index, node) in graph.nodes.iter().enumerate() {
            if let NodeKind::State(state) = node.kind {
                incoming[state.index()] = Some(NodeId(index as u32));
            }
        }
        Live { graph, marked: vec![false; graph.nodes.len()], incoming }
    }

    fn mark(&mut self, node: NodeId) {
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            if std::mem::replace(&mut self.marked[node.index()], true) {
                continue;
            }
            let histories = &self.graph.histories;
            let mut rows = Vec::new();
            let kind = &self.graph.nodes[node.index()].kind;
            kind.for_each_read(&mut |read| open.push(read), &mut |id| rows.push(histories[id.index()].row));
            open.extend(rows);
        }
    }

    fn is_marked(&self, node: NodeId) -> bool {
        self.marked[node.index()]
    }

    /// The node of a state's incoming value.
    fn incoming(&self, state: &State) -> Option<NodeId> {
        let place = self.graph.states.iter().position(|known| known.key == state.key)?;
        self.incoming[place]
    }

    fn reads(&self, state: &State) -> bool {
        self.incoming(state).is_some_and(|node| self.is_marked(node))
    }

    /// Whether no needed tensor reads the state's incoming value.
    fn only_handed_on(&self, state: &State) -> bool {
        let Some(incoming) = self.incoming(state) else { return true };
        let mut read = self.graph.outputs.iter().any(|output| output.node == incoming);
        read |= self.graph.histories.iter().any(|history| history.row == incoming);
        read |= self.graph.states.iter().any(|other| other.key != state.key && other.next == incoming);
        for (node, _) in self.graph.nodes.iter().zip(&self.marked).filter(|(_, marked)| **marked) {
            node.kind.for_each_read(&mut |node| read |= node == incoming, &mut |_| {});
        }
        !read
    }

    /// For each state, whether its outgoing value depends on what the same turn emits, is itself a result, or goes
    /// through another state or history and back. `scan.body` numbers its nodes as this graph does.
    fn fed_back(&self, scan: &Scan) -> Vec<bool> {
        let graph = self.graph;
        let (states, members) = (graph.states.len(), graph.states.len() + graph.histories.len());
        // One more member stands for what is emitted.
        let mut depends = vec![Members::none(members + 1); graph.nodes.len()];
        for result in &scan.results {
            if let ScanResult::Emitted { output, .. } = result {
                depends[scan.body.outputs[*output].node.index()].add(members);
            }
        }
        for (index, node) in graph.nodes.iter().enumerate() {
            let mut reads = Vec::new();
            let mut histories = Vec::new();
            node.kind.for_each_read(&mut |read| reads.push(read), &mut |history| histories.push(history));
            let mut found = std::mem::take(&mut depends[index]);
            reads.iter().for_each(|read| found.join(&depends[read.index()]));
            for history in histories {
                found.add(states + history.index());
                found.join(&depends[graph.histories[history.index()].row.index()]);
            }
            if let NodeKind::State(state) = node.kind {
                found.add(state.index());
            }
            depends[index] = found;
        }
        let next = graph.states.iter().map(|state| state.next);
        let rows = graph.histories.iter().map(|history| history.row);
        let mut reach: Vec<Members> = next.chain(rows).map(|node| depends[node.index()].clone()).collect();
        let emitting: Vec<bool> = reach.iter().map(|reach| reach.has(members)).collect();
        for middle in 0..members {
            let through = reach[middle].clone();
            for from in reach.iter_mut().filter(|from| from.has(middle)) {
                from.join(&through);
            }
        }
        let result = |index: usize| scan.results.contains(&ScanResult::Carry(StateId(index as u32)));
        let coupled = |index: usize| {
            (0..members).any(|other| other != index && reach[index].has(other) && reach[other].has(index))
        };
        (0..states).map(|index| emitting[index] || result(index) || coupled(index)).collect()
    }
}

/// A set of states and histories.
#[derive(Clone, Debug, Default)]
struct Members(Vec<u64>);

impl Members {
    fn none(count: usize) -> Members {
        Members(vec![0; count.div_ceil(64)])
    }
    fn add(&mut self, member: usize) {
        self.0[member / 64] |= 1 << (member % 64);
    }
    fn has(&self, member: usize) -> bool {
        self.0[member / 64] >> (member % 64) & 1 == 1
    }
    fn join(&mut self, other: &Members) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }
}

/// The turns at which some condition of the body changes, ascending, none at the ends.
fn cuts(body: &Graph, trips: usize) -> Vec<usize> {
    let mut found = Vec::new();
    for node in &body.nodes {
        if let NodeKind::Compute(compute) = &node.kind {
            compute.for_each_expr(&mut |expr| {
                expr.visit(&mut |part| {
                    if let Expr::Binary(op, left, right) = part
                        && matches!(op, Binary::Less | Binary::LessEqual | Binary::Equal | Binary::NotEqual)
                    {
                        found.extend(changes(*op, left, right, trips));
                    }
                });
            });
        }
    }
    found.retain(|&cut| cut > 0 && cut < trips);
    found.sort_unstable();
    found.dedup();
    found
}

/// The first turns of new values of `left op right`, when both are affine in the turn alone.
fn changes(op: Binary, left: &Expr, right: &Expr, trips: usize) -> Vec<usize> {
    let is_index = |expr: &Expr| {
        !expr.any(&mut |part| !matches!(part, Expr::Int(_) | Expr::Here | Expr::Unary(..) | Expr::Binary(..)))
    };
    if !is_index(left) || !is_index(right) {
        return Vec::new();
    }
    let (left, right) = (Affine::of(left), Affine::of(right));
    let around = Surroundings { axes: Vec::new(), here: Interval::new(0, trips as i64) };
    let (left_values, right_values) = (left.interval(&around), right.interval(&around));
    // A wrap on the way would make other changes than a line has.
    let exact = left_values.fits() && right_values.fits() && left_values.plus(right_values.times(-1)).fits();
    let difference = left.plus(right.scaled(-1));
    let [(Expr::Here, slope)] = difference.terms.as_slice() else { return Vec::new() };
    let (slope, constant) = (*slope, difference.constant);
    if !exact {
        return Vec::new();
    }
    // slope * t + constant crosses zero between the floor and the ceiling of -constant / slope.
    let floor = if slope > 0 { (-constant).div_euclid(slope) } else { constant.div_euclid(-slope) };
    let exact = slope * floor + constant == 0;
    let candidates = match (op, exact) {
        (Binary::Equal | Binary::NotEqual, true) => vec![floor, floor + 1],
        (Binary::Equal | Binary::NotEqual, false) => Vec::new(),
        (Binary::Less, true) if slope > 0 => vec![floor],
        (Binary::LessEqual, true) if slope < 0 => vec![floor],
        _ => vec![floor + 1],
    };
    candidates.into_iter().filter_map(|turn| usize::try_from(turn).ok()).collect()
}
