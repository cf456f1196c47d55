//! How much memory a model will hold, before anything is taken for it.
//!
//! Programs are lowered as they would be for loading, except that decoded weights stay zeros that nobody touches; what
//! sessions and buffers take follows from the programs. Scratch of threads is left out: it is small beside buffers.

use fiddlehead_plan::{MemoryReport, Regime, Workload};

use super::history::History;
use super::machine::Machine;
use super::session::StateStore;

/// What one step takes, of a session of `context` nodes and runs of at most `workload.rows` nodes of which one is
/// wanted.
pub(super) fn estimate(machine: &Machine, context: usize, workload: &Workload) -> MemoryReport {
    let program = &machine.program;
    let rows = workload.rows.min(context);
    let states = program.initials.iter().zip(&program.carried).map(|(&initial, carried)| {
        let carried = carried.as_ref().map(|shape| shape.row_words());
        StateStore::estimate(program.buffers[initial].elements, carried, rows)
    });
    let histories = program.row_words.iter().zip(&program.reach);
    let histories = histories.map(|(&words, &reach)| History::estimate(words, reach, context, rows));
    MemoryReport {
        weights: 0,
        mirrors: machine.mirror_bytes(),
        scratch: machine.plan_of(&regime(machine, rows)).bytes + nested(machine),
        sessions: states.chain(histories).fold(0, usize::saturating_add),
    }
}

/// All rows, and one in every set of those that are wanted.
fn regime(machine: &Machine, rows: usize) -> Regime {
    Regime::of(std::iter::once(rows).chain(machine.program.sets.iter().skip(1).map(|_| 1)))
}

/// Buffers of loops' bodies, which run row by row.
fn nested(machine: &Machine) -> usize {
    let bodies = machine.nested().iter();
    bodies.map(|body| body.plan_of(&regime(body, 1)).bytes + nested(body)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_estimated_as_it_grows() {
        for (reach, context, rows) in [
            (None, 700, 512),
            (None, 1, 1),
            (Some(4), 700, 512),
            (Some(512), 2000, 64),
            (Some(4096), 100, 64),
        ] {
            let mut history = History::new(24, reach);
            let mut most = 0;
            let mut base = 0;
            while base < context {
                let count = rows.min(context - base);
                history.prepare(base, count);
                most = most.max(history.bytes());
                base += count;
                history.retire(base);
            }
            let estimate = History::estimate(24, reach, context, rows);
            assert!(estimate >= most, "{reach:?}: {estimate} and {most}");
            // Rounded up to pages, and a spare one.
            assert!(estimate <= most + 3 * 64 * 24 * 4, "{reach:?}: {estimate} and {most}");
        }
    }
}
