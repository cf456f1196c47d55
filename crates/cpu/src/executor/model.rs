//! A step of a loaded model on the CPU.

use std::sync::Arc;

use bytemuck::cast_slice;
use fiddlehead_forest::Forest;
use fiddlehead_graph::Graph;
use fiddlehead_plan::sampling::Chooser;
use fiddlehead_plan::{
    Choosing, Chosen, Collected, DeviceError, InputBuffers, MemoryReport, PlanReport, StepMachine,
};

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
    pub chooser: Chooser,
}

impl CpuStep {
    /// By node: its row among an output's. Ascending both, and every node that wants the output is in its set.
    fn rows<'a>(&'a self, output: usize, nodes: &'a [u32]) -> impl Iterator<Item = usize> + 'a {
        let (_, set) = self.machine.program.outputs[output];
        let set = set.map(|set| &self.machine.batch.sets[set.0].nodes);
        let mut within = 0;
        nodes.iter().map(move |&node| {
            if let Some(set) = set {
                while set.get(within).is_some_and(|&other| other < node) {
                    within += 1;
                }
            }
            within
        })
    }
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

    fn run_and_choose(
        &mut self,
        forest: &Forest,
        inputs: &InputBuffers<'_>,
        sessions: &mut [&mut CpuSession],
        choosing: Choosing<'_>,
    ) -> Result<Vec<Chosen>, DeviceError> {
        self.run(forest, inputs, sessions)?;
        let mut chooser = std::mem::take(&mut self.chooser);
        let rows = self.rows(choosing.output, choosing.nodes).zip(choosing.choices);
        let chosen = rows.map(|(row, choice)| {
            chooser.choose(cast_slice(self.machine.output_row(choosing.output, row)), choice)
        });
        let chosen = chosen.collect();
        self.chooser = chooser;
        Ok(chosen)
    }

    fn output(&self, place: usize, nodes: &[u32], rows: &mut Collected) -> Result<(), DeviceError> {
        self.rows(place, nodes).for_each(|row| rows.extend(self.machine.output_row(place, row)));
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
