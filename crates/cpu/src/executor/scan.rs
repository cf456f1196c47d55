//! Loops: the body is a program of its own, its carries the states of a session, its turns the nodes of one chain.
//!
//! A loop is cut where its conditions on the turn change ([`split_loop`]). A piece whose turns feed nothing back to
//! themselves runs as one path, many turns at a time; any other turn by turn.

use std::ops::Range;

use fiddlehead_forest::{Class, Forest, ForestBuilder, ForestError, SessionId, Wanted};
use fiddlehead_graph::rewrite::{LoopPiece, PieceEmission, split_loop};
use fiddlehead_graph::{NodeId, NodeKind, Scan, ScanResult};
use fiddlehead_plan::{DeviceError, StepReport};

use super::lower::{Context, Lowering, lower};
use super::machine::{InputWords, Machine, Workshop};
use super::program::{BufferIndex, Program};
use super::run::Run;
use super::session::CpuSession;
use fiddlehead_plan::order::SetIndex;

/// Turns of a parallel piece that run at a time.
const TURNS: usize = 256;

/// Consecutive turns with a program of their own.
#[derive(Debug)]
struct Piece {
    /// Its program's place among the machine's nested ones.
    nested: usize,
    turns: Range<usize>,
    parallel: bool,
    /// By result of the loop.
    emissions: Vec<PieceEmission>,
}

/// A loop in its outer program.
#[derive(Debug)]
pub(super) struct ScanStep {
    name: String,
    /// At least one, perhaps of no turns.
    pieces: Vec<Piece>,
    /// Rows it runs for; none when once for all.
    pub set: Option<SetIndex>,
    /// Buffers of the body's inputs, in its order.
    captured: Vec<BufferIndex>,
    results: Vec<ScanResult>,
    /// The results that anybody reads, with their buffers.
    wanted: Vec<(usize, BufferIndex)>,
}

impl ScanStep {
    pub(super) fn lower(lowering: &mut Lowering<'_>, node: NodeId) -> Result<ScanStep, DeviceError> {
        let graph = lowering.program.graph.clone();
        let NodeKind::Scan(scan) = &graph.node(node).kind else {
            return Err(lowering.unsupported(node, "it is no loop"));
        };
        let (pieces, programs) = lower_pieces(scan, lowering.program.loops.len(), lowering.context)?;
        lowering.program.loops.extend(programs);
        let set = lowering.units.set_of[node.index()];
        let mut captured = Vec::new();
        for &outer in &scan.captured {
            let buffer = lowering.readable(outer, set)?;
            lowering.touch(buffer);
            captured.push(buffer);
        }
        let mut wanted = Vec::new();
        for other in graph.node_ids() {
            match graph.node(other).kind {
                NodeKind::ScanResult { scan, result }
                    if scan == node && !lowering.facts.demand[other.index()].is_none() =>
                {
                    let buffer = lowering.buffer(other, set)?;
                    lowering.touch(buffer);
                    wanted.push((result, buffer));
                }
                _ => {}
            }
        }
        let name = graph.node(node).origin.name.clone();
        Ok(ScanStep { name, pieces, set, captured, results: scan.results.clone(), wanted })
    }

    /// What it is, for people.
    pub(super) fn report(&self) -> StepReport {
        let piece = |piece: &Piece| {
            let how = if piece.parallel { "at once" } else { "one by one" };
            format!("turns {}..{} {how}", piece.turns.start, piece.turns.end)
        };
        StepReport {
            family: "scan".into(),
            nodes: vec![self.name.clone()],
            candidate: "pieces".into(),
            detail: self.pieces.iter().map(piece).collect::<Vec<_>>().join(", "),
            microseconds: 0.0,
        }
    }
}

fn lower_pieces(
    scan: &Scan,
    first: usize,
    context: Context<'_>,
) -> Result<(Vec<Piece>, Vec<Program>), DeviceError> {
    let mut pieces = Vec::new();
    let mut programs: Vec<Program> = Vec::new();
    for LoopPiece { turns, body, parallel, emissions, .. } in split_loop(scan) {
        let parallel = parallel && turns.len() > 1;
        programs.push(lower(&body, Context { single_row: !parallel, ..context })?);
        pieces.push(Piece { nested: first + pieces.len(), turns, parallel, emissions });
    }
    if pieces.is_empty() {
        // A loop of no turns still has its carries' first values.
        programs.push(lower(&scan.body, context)?);
        pieces.push(Piece { nested: first, turns: 0..0, parallel: false, emissions: Vec::new() });
    }
    // One session goes through all pieces, so that each keeps what any reads.
    for history in 0..scan.body.histories().len() {
        let reach = programs.iter().map(|program| program.reach[history]);
        let reach = reach.reduce(|a, b| Some(a?.max(b?))).flatten();
        programs.iter_mut().for_each(|program| program.reach[history] = reach);
    }
    Ok((pieces, programs))
}

/// A result's row: its place in [`ScanStep::results`], its address and its words.
#[derive(Clone, Copy)]
struct Target {
    result: usize,
    start: *mut u32,
    words: usize,
}

/// Runs all turns for one row and leaves the results in their buffers.
pub(super) fn run(outer: &mut Run<'_>, scan: &ScanStep, row: usize) -> Result<(), DeviceError> {
    let view = outer.view();
    let own = if scan.set.is_some() { row } else { 0 };
    let inputs: Vec<InputWords> =
        scan.captured.iter().map(|&buffer| InputWords { start: view.row(buffer, own) }).collect();
    let target = |&(result, buffer): &(usize, BufferIndex)| Target {
        result,
        start: view.row(buffer, own),
        words: view.program.buffers[buffer].elements,
    };
    let targets: Vec<Target> = scan.wanted.iter().map(target).collect();
    for target in &targets {
        // SAFETY: the buffer's row holds as many words, and this step alone touches it.
        unsafe { std::ptr::write_bytes(target.start, 0, target.words) };
    }
    let workshop = Workshop { pool: outer.pool, features: outer.features, facts: outer.facts };
    let mut emitted = vec![0usize; scan.results.len()];
    let mut session = CpuSession::default();
    for (place, piece) in scan.pieces.iter().enumerate() {
        let machine = &mut outer.nested[piece.nested];
        session = machine.take_over(session);
        if place == 0 && piece.turns.is_empty() {
            machine.run_alone(workshop, &inputs, true)?;
        }
        let mut turn = piece.turns.start;
        while turn < piece.turns.end {
            let count = if piece.parallel { (piece.turns.end - turn).min(TURNS) } else { 1 };
            let forest = turns(turn, count).map_err(|error| failed(scan, error))?;
            machine.run(workshop, &forest, &inputs, &mut [&mut session])?;
            emit(machine, scan, piece, count, &targets, &mut emitted)?;
            session.advance(outer.isa, count).map_err(|error| failed(scan, error))?;
            turn += count;
        }
    }
    let last = scan.pieces.last().map_or(0, |piece| piece.nested);
    finish(&outer.nested[last], scan, &targets, &emitted, &session);
    Ok(())
}

fn failed(scan: &ScanStep, why: impl ToString) -> DeviceError {
    DeviceError::Unsupported { what: format!("the loop `{}`", scan.name), why: why.to_string() }
}

fn turns(first: usize, count: usize) -> Result<Forest, ForestError> {
    let mut builder = ForestBuilder::new();
    builder.segment(SessionId(0), first)?.chain(count, Class::Generated, Wanted::ALL, Wanted::ALL)?;
    builder.build()
}

/// Keeps what turns emit.
fn emit(
    machine: &Machine,
    scan: &ScanStep,
    piece: &Piece,
    turns: usize,
    targets: &[Target],
    emitted: &mut [usize],
) -> Result<(), DeviceError> {
    for (place, emission) in piece.emissions.iter().enumerate() {
        let (output, condition) = match *emission {
            PieceEmission::None | PieceEmission::Never => continue,
            PieceEmission::Always { output } => (output, None),
            PieceEmission::When { output, condition } => (output, Some(condition)),
        };
        let ScanResult::Emitted { capacity, .. } = scan.results[place] else { continue };
        for turn in 0..turns {
            if condition.is_some_and(|condition| machine.output_row(condition, turn)[0] == 0) {
                continue;
            }
            if emitted[place] == capacity {
                let place = &machine.program.graph.outputs()[condition.unwrap_or(output)];
                return Err(DeviceError::Trap {
                    origin: scan.name.clone(),
                    span: place.span,
                    why: format!("the loop emits more than the {capacity} values that it declares"),
                });
            }
            let value = machine.output_row(output, turn);
            let at = emitted[place] * value.len();
            for target in targets.iter().filter(|target| target.result == place) {
                if at + value.len() <= target.words {
                    let to = target.start.wrapping_add(at);
                    // SAFETY: the row lies within the result's words, which this step alone touches.
                    unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), to, value.len()) };
                }
            }
            emitted[place] += 1;
        }
    }
    Ok(())
}

/// Writes lengths and final carries.
fn finish(machine: &Machine, scan: &ScanStep, targets: &[Target], emitted: &[usize], session: &CpuSession) {
    for &Target { result, start, words } in targets {
        match &scan.results[result] {
            ScanResult::Emitted { .. } => {}
            ScanResult::Length { emission } => {
                // SAFETY: the result is one word that this step alone touches.
                unsafe { *start = emitted[*emission] as u32 };
            }
            ScanResult::Carry(state) => {
                let committed = session.states[state.index()].committed.as_ref();
                let value =
                    committed.map_or_else(|| machine.initial(state.index()), |value| value.as_slice());
                // SAFETY: the result has the state's shape, and this step alone touches it.
                unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), start, words.min(value.len())) };
            }
        }
    }
}
