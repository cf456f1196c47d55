//! A step of a loaded model on the CPU.

use std::sync::Arc;

use fiddlehead_forest::Forest;
use fiddlehead_graph::Graph;
use fiddlehead_plan::{Collected, DeviceError, InputBuffers, MemoryReport, PlanReport, StepMachine};

use super::device::input_words;
use super::explain;
use super::machine::{Machine, Workshop};
use super::session::CpuSession;
use super::sizing::device_facts;
use crate::features::Features;
use crate::pool::Pool;

/// One graph with the threads and instructions that it runs with.
pub(super) struct CpuStep {
    pub machine: Machine,
    pub pool: Arc<Pool>,
    pub features: Features,
}

impl StepMachine for CpuStep {
    type Session = CpuSession;

    fn graph(&self) -> &Graph {
        &self.machine.program.graph
    }

    fn session(&self) -> CpuSession {
        self.machine.session()
    }

    fn run(
        &mut self,
        forest: &Forest,
        inputs: &InputBuffers<'_>,
        sessions: &mut [&mut CpuSession],
    ) -> Result<(), DeviceError> {
        let facts = device_facts(self.features.isa, self.pool.threads());
        let workshop = Workshop { pool: &self.pool, features: self.features, facts };
        self.machine.run(workshop, forest, &input_words(inputs), sessions)
    }

    fn output(&self, place: usize, nodes: &[u32], rows: &mut Collected) -> Result<(), DeviceError> {
        let (_, set) = self.machine.program.outputs[place];
        let mut within = 0;
        for &node in nodes {
            if let Some(set) = set {
                // Ascending both, and every node that wants the output is in its set.
                let set = &self.machine.batch.sets[set.0].nodes;
                while set.get(within).is_some_and(|&other| other < node) {
                    within += 1;
                }
            }
            rows.extend(self.machine.output_row(place, within));
        }
        Ok(())
    }

    fn accept(&self, session: &mut CpuSession, path: &[usize]) -> Result<(), DeviceError> {
        let unserved = |why| DeviceError::Unsupported { what: "a recurrence's commit".into(), why };
        session.accept(self.features.isa, path).map_err(unserved)
    }

    fn memory(&self) -> MemoryReport {
        MemoryReport {
            mirrors: self.machine.mirror_bytes(),
            scratch: self.machine.scratch_bytes(),
            ..MemoryReport::default()
        }
    }

    fn explain(&self) -> PlanReport {
        explain::report(&self.machine, 1, &device_facts(self.features.isa, self.pool.threads()))
    }
}
