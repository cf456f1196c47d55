//! Loops: the body is a program of its own, run along one chain, its carries the states of a session.

use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_graph::{NodeId, NodeKind, ScanResult};
use fiddlehead_plan::{DeviceError, StepReport};

use super::lower::{Lowering, lower};
use super::machine::{InputWords, Machine, Workshop};
use super::program::BufferIndex;
use super::run::Run;
use super::session::StepSession;
use super::unit::SetIndex;

/// A loop in its outer program.
#[derive(Debug)]
pub(super) struct ScanStep {
    /// The body's place in the machine's nested ones.
    nested: usize,
    trips: usize,
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
        let body = lower(&scan.body, lowering.context)?;
        lowering.program.loops.push(body);
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
        Ok(ScanStep {
            nested: lowering.program.loops.len() - 1,
            trips: scan.trips,
            set,
            captured,
            results: scan.results.clone(),
            wanted,
        })
    }
}

impl ScanStep {
    /// What it is, for people.
    pub(super) fn report(&self) -> StepReport {
        StepReport {
            family: "scan".into(),
            nodes: Vec::new(),
            candidate: "turns".into(),
            detail: format!("{} turns, one after another", self.trips),
            microseconds: 0.0,
        }
    }
}

/// Runs all turns for one row and leaves the results in their buffers.
pub(super) fn run(outer: &mut Run<'_>, scan: &ScanStep, row: usize) -> Result<(), DeviceError> {
    let inputs: Vec<InputWords> = {
        let view = outer.view();
        let input = |&buffer: &BufferIndex| {
            let row = if scan.set.is_some() { row } else { 0 };
            InputWords { start: view.row(buffer, row) }
        };
        scan.captured.iter().map(input).collect()
    };
    let results: Vec<(usize, *mut u32, usize)> = {
        let view = outer.view();
        let place = |&(result, buffer): &(usize, BufferIndex)| {
            (result, view.row(buffer, row), view.program.buffers[buffer].elements)
        };
        scan.wanted.iter().map(place).collect()
    };
    let workshop = Workshop { pool: outer.pool, isa: outer.isa };
    let machine = &mut outer.nested[scan.nested];
    let mut emitted = vec![0usize; scan.results.len()];
    for &(_, start, words) in &results {
        // SAFETY: the buffer's row holds as many words, and this step alone touches it.
        unsafe { std::ptr::write_bytes(start, 0, words) };
    }
    let mut session = machine.session();
    if scan.trips == 0 {
        machine.run_alone(workshop, &inputs, true)?;
    }
    for turn in 0..scan.trips {
        let forest = Forest::single_chain(SessionId(0), turn, 1)
            .map_err(|error| DeviceError::Unsupported { what: "a loop".into(), why: error.to_string() })?;
        machine.run(workshop, &forest, &inputs, &mut [&mut session])?;
        emit(machine, scan, &results, &mut emitted)?;
        session
            .advance(outer.isa, 1)
            .map_err(|why| DeviceError::Unsupported { what: "a loop".into(), why })?;
    }
    finish(machine, scan, &results, &emitted, &session);
    Ok(())
}

/// Keeps what a turn emits.
fn emit(
    machine: &Machine,
    scan: &ScanStep,
    results: &[(usize, *mut u32, usize)],
    emitted: &mut [usize],
) -> Result<(), DeviceError> {
    for (place, result) in scan.results.iter().enumerate() {
        let ScanResult::Emitted { output, condition, capacity } = *result else { continue };
        if condition.is_some_and(|condition| machine.output_row(condition, 0)[0] == 0) {
            continue;
        }
        if emitted[place] == capacity {
            return Err(DeviceError::Trap {
                origin: machine.program.graph.name().to_string(),
                span: None,
                why: format!("the loop emits more than the {capacity} values that it declares"),
            });
        }
        let value = machine.output_row(output, 0);
        for &(result, start, words) in results.iter().filter(|&&(result, ..)| result == place) {
            let at = emitted[place] * value.len();
            if result == place && at + value.len() <= words {
                // SAFETY: the row lies within the result's words, which this step alone touches.
                unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), start.wrapping_add(at), value.len()) };
            }
        }
        emitted[place] += 1;
    }
    Ok(())
}

/// Writes lengths and final carries.
fn finish(
    machine: &Machine,
    scan: &ScanStep,
    results: &[(usize, *mut u32, usize)],
    emitted: &[usize],
    session: &StepSession,
) {
    for &(result, start, words) in results {
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
