//! From a graph to a [`Program`]: constants computed, units ordered, bytecode compiled, buffers given their lives.

use std::collections::HashMap;

use fiddlehead_graph::{Graph, NodeId, NodeKind, Range};
use fiddlehead_plan::order::{Duty, Facts, Piece, RowSet, SetIndex, Unit, Units, schedule};
use fiddlehead_plan::{DeviceError, Numerics, Policy, Weights, weights_of};
use fiddlehead_storage::{Format as StoredFormat, Tensor};

use super::program::*;
use super::scan::ScanStep;
use super::served::{self, Found};
use crate::bytecode::{BlockProgram, Format, Slot, SourceLayout, Strides, row_major_strides};
use crate::features::Features;

/// What lowering needs beside the graph.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub weights: &'a Weights,
    pub policy: &'a Policy,
    pub numerics: Numerics,
    /// The model's name in its program: what checkpoint gates go by.
    pub architecture: &'a str,
    pub features: Features,
    /// Whether forests will have a single node, so that nothing is carried from row to row within a run.
    pub single_row: bool,
    /// Whether the program is only looked at: weights are not decoded then, zeros stand for their values.
    pub dry: bool,
}

/// Makes a program of a graph.
pub(super) fn lower(graph: &Graph, context: Context<'_>) -> Result<Program, DeviceError> {
    let found = served::find(graph, context)?;
    let mut facts = Facts::new(&found.graph);
    facts.join_demand(&found.joined(&facts));
    let definition = |node| found.definition(node);
    let units = Units::new(&found.graph, &found.served, &definition, &facts);
    let lowering = Lowering {
        program: Program {
            graph: found.graph.clone(),
            sets: units.sets.clone(),
            buffers: Vec::new(),
            steps: Vec::new(),
            outputs: Vec::new(),
            initials: Vec::new(),
            carried: found.carried(),
            row_words: Vec::new(),
            reach: found.reach.clone(),
            weights: weights_of(&found.graph, context.weights)?,
            constants: Vec::new(),
            loops: Vec::new(),
            refusals: found.refusals.clone(),
        },
        facts: &facts,
        units: &units,
        found: &found,
        context,
        at: None,
        index: HashMap::new(),
    };
    lowering.run()
}

/// Lowering under way.
pub(super) struct Lowering<'a> {
    pub program: Program,
    pub facts: &'a Facts,
    pub units: &'a Units,
    pub found: &'a Found,
    pub context: Context<'a>,
    /// The step that everything being made belongs to, inside a serial part.
    at: Option<usize>,
    pub index: HashMap<(NodeId, Option<SetIndex>), BufferIndex>,
}

impl Lowering<'_> {
    fn run(mut self) -> Result<Program, DeviceError> {
        self.constants()?;
        let shared = |unit: &Unit| self.found.shares_launch(unit);
        let pieces = schedule(&self.program.graph, &self.units.units, &shared);
        for piece in &pieces {
            self.piece(piece)?;
        }
        self.ends()?;
        Ok(self.program)
    }

    /// The buffers that outlive the steps: outputs, and what sessions start from.
    fn ends(&mut self) -> Result<(), DeviceError> {
        let graph = self.program.graph.clone();
        let mut gathers = Vec::new();
        for output in graph.outputs() {
            let set = self.units.set_of[output.node.index()];
            let buffer = self.readable(output.node, set)?;
            self.program.outputs.push((buffer, set));
            gathers.push(buffer);
        }
        for state in graph.states() {
            let buffer = self.readable(state.initial, None)?;
            self.program.initials.push(buffer);
            gathers.push(buffer);
        }
        let end = self.program.steps.len();
        gathers.into_iter().for_each(|buffer| self.program.buffers[buffer].life.1 = end);
        for history in graph.histories() {
            let shape = graph.shape(history.row).unwrap_or_default();
            self.program.row_words.push(shape.iter().product());
        }
        Ok(())
    }

    fn piece(&mut self, piece: &Piece) -> Result<(), DeviceError> {
        match piece {
            Piece::Serial(units) => {
                let outer = std::mem::take(&mut self.program.steps);
                // Everything inside lives as long as the whole: all of it counts as one step.
                self.at = Some(outer.len());
                let inner = self.serial(units);
                self.at = None;
                self.program.steps = outer;
                self.program.steps.push(Step::Serial(inner?));
                Ok(())
            }
            Piece::Uniform(units) => {
                let programs = units.iter().map(|&unit| self.node_of(unit)).collect::<Result<_, _>>()?;
                self.program.steps.push(Step::Uniform(programs));
                Ok(())
            }
            Piece::Rows(set, units) => {
                self.gather(*set, units)?;
                let group = self.group(*set, units)?;
                self.program.steps.push(Step::Rows(group));
                Ok(())
            }
            Piece::Together(units) => {
                for &unit in units {
                    if let Some(set) = self.units.units[unit].set {
                        self.gather(set, &[unit])?;
                    }
                }
                self.together(units)
            }
        }
    }

    fn serial(&mut self, units: &[usize]) -> Result<Vec<Step>, DeviceError> {
        let mut inner = Vec::new();
        let by_rows = |unit: &usize| {
            matches!(self.units.units[*unit].work, Duty::Node(_) | Duty::Append(_) | Duty::Store(_))
        };
        for part in units.chunk_by(|a, b| by_rows(a) && by_rows(b)) {
            if by_rows(&part[0]) {
                inner.push(Step::Rows(self.group(SetIndex::ALL, part)?));
            } else {
                self.together(part)?;
                inner.append(&mut self.program.steps);
            }
        }
        Ok(inner)
    }

    /// The step that is being made.
    pub(super) fn now(&self) -> usize {
        self.at.unwrap_or(self.program.steps.len())
    }

    /// Lets everything that a unit reads and makes live at a step.
    fn touch_unit(&mut self, unit: usize) -> Result<(), DeviceError> {
        let unit = self.units.units[unit].clone();
        for node in unit.reads.iter().chain(&unit.makes) {
            let buffer = self.buffer(*node, unit.set)?;
            self.touch(buffer);
        }
        for state in &unit.states {
            let initial = self.program.graph.states()[state.index()].initial;
            let buffer = self.readable(initial, None)?;
            self.touch(buffer);
        }
        Ok(())
    }

    pub(super) fn touch(&mut self, buffer: BufferIndex) {
        let at = self.now();
        let life = &mut self.program.buffers[buffer].life;
        *life = (life.0.min(at), life.1.max(at));
    }

    fn together(&mut self, units: &[usize]) -> Result<(), DeviceError> {
        for launch in served::launches(self.found, self.units, units) {
            for &unit in &launch {
                self.touch_unit(unit)?;
            }
            let step = match self.units.units[launch[0]].work {
                Duty::Scan(node) => Step::Scan(Box::new(ScanStep::lower(self, node)?)),
                Duty::Served(_) => served::lower(self, &launch)?,
                // The schedule makes row pieces of everything else.
                _ => Step::Rows(self.group(SetIndex::ALL, &launch)?),
            };
            self.program.steps.push(step);
        }
        Ok(())
    }

    fn group(&mut self, set: SetIndex, units: &[usize]) -> Result<Group, DeviceError> {
        let mut group = Group { set, ops: Vec::new(), cost: 0, local: false, closed: true };
        for &unit in units {
            let work = self.units.units[unit].work;
            let op = match work {
                Duty::Append(history) => {
                    let row = self.program.graph.histories()[history.index()].row;
                    RowOp::Append { history, from: self.readable(row, Some(SetIndex::ALL))? }
                }
                Duty::Store(state) => {
                    let next = self.program.graph.states()[state.index()].next;
                    RowOp::Store { state, from: self.readable(next, Some(SetIndex::ALL))? }
                }
                _ => {
                    let program = self.node_of(unit)?;
                    group.cost += program.cost;
                    group.local |= program.local;
                    if program.local {
                        let mut readers = self.units.units.iter().enumerate();
                        group.closed &= readers.all(|(other, reader)| {
                            !reader.reads.contains(&program.node) || units.contains(&other)
                        });
                    }
                    RowOp::Run(Box::new(program))
                }
            };
            group.ops.push(op);
            self.touch_unit(unit)?;
        }
        Ok(group)
    }

    fn node_of(&mut self, unit: usize) -> Result<NodeProgram, DeviceError> {
        let Unit { work: Duty::Node(node), set, .. } = self.units.units[unit] else {
            return Err(DeviceError::Unsupported {
                what: "a unit".into(),
                why: "it is no computed node".into(),
            });
        };
        let program = self.compile(self.found.definition(node), node, set)?;
        self.touch_unit(unit)?;
        Ok(program)
    }

    /// Compiles the definition of `definition` to write the buffer of `node`.
    pub(super) fn compile(
        &mut self,
        definition: NodeId,
        node: NodeId,
        set: Option<SetIndex>,
    ) -> Result<NodeProgram, DeviceError> {
        let to = self.buffer(node, set)?;
        let mut layouts = HashMap::new();
        for &read in &self.facts.reads[definition.index()].nodes {
            let buffer = self.buffer(read, set)?;
            layouts.insert(read, self.layout(buffer));
        }
        layouts.insert(definition, self.layout(to));
        let graph = &self.program.graph;
        // Every node that a program may ask for is one that it reads.
        let missing = SourceLayout::row_major(usize::MAX, &[], false);
        let layout = |node: NodeId| layouts.get(&node).cloned().unwrap_or_else(|| missing.clone());
        let code = BlockProgram::compile(graph, definition, &layout)
            .map_err(|error| self.unsupported(node, error))?;
        let axes = graph.axes(definition);
        let local = axes.iter().any(|axis| matches!(axis, Range::Between { .. }));
        let outer = code.outer().filter(|_| !local);
        let cost = code.cost() as usize;
        Ok(NodeProgram { node, code, to, local, outer, cost })
    }

    pub(super) fn unsupported(&self, node: NodeId, why: impl ToString) -> DeviceError {
        let name = &self.program.graph.node(node).origin.name;
        DeviceError::Unsupported { what: format!("`{name}` ({node})"), why: why.to_string() }
    }

    /// Copies of rows for the units of a set that read tensors of other sets.
    fn gather(&mut self, set: SetIndex, units: &[usize]) -> Result<(), DeviceError> {
        let mut gathers = Vec::new();
        for &unit in units {
            for node in self.units.units[unit].reads.clone() {
                let Some(from_set) = self.units.set_of[node.index()].filter(|&other| other != set) else {
                    continue;
                };
                if self.index.contains_key(&(node, Some(set))) {
                    continue;
                }
                let from = self.buffer(node, Some(from_set))?;
                let to = self.new_buffer(node, Some(set), self.place_of(node, set))?;
                self.touch(from);
                self.touch(to);
                gathers.push(Gather { from, from_set, to, set });
            }
        }
        if !gathers.is_empty() {
            self.program.steps.push(Step::Gather(gathers));
        }
        Ok(())
    }

    fn place_of(&self, node: NodeId, set: SetIndex) -> Place {
        match self.program.graph.shape(node) {
            Some(_) => Place::Rows(set),
            None => Place::Local(Some(set)),
        }
    }

    /// The buffer of a tensor as the rows of `set` see it.
    pub(super) fn buffer(&mut self, node: NodeId, set: Option<SetIndex>) -> Result<BufferIndex, DeviceError> {
        let key = if self.facts.per_node(node) { set } else { None };
        if let Some(&known) = self.index.get(&(node, key)) {
            return Ok(known);
        }
        let graph = &self.program.graph;
        let fixed = graph.shape(node).is_some();
        let place = match (&graph.node(node).kind, key) {
            (NodeKind::State(state), Some(set)) => Place::State(*state, set),
            (NodeKind::Input(input), key) => Place::Input { input: *input, per_node: key.is_some() },
            (NodeKind::Param(param), _) => self.weight_place(*param)?,
            (_, Some(set)) if self.units.set_of[node.index()] == Some(set) => self.place_of(node, set),
            (_, None) if fixed => Place::Uniform,
            (_, None) => Place::Local(None),
            _ => return Err(self.unsupported(node, "its rows were not gathered for a reader")),
        };
        self.new_buffer(node, key, place)
    }

    pub(super) fn new_buffer(
        &mut self,
        node: NodeId,
        key: Option<SetIndex>,
        place: Place,
    ) -> Result<BufferIndex, DeviceError> {
        let elements = match self.program.graph.shape(node) {
            Some(shape) => shape
                .iter()
                .try_fold(1usize, |product, &n| product.checked_mul(n))
                .filter(|&n| n <= u32::MAX as usize)
                .ok_or_else(|| self.unsupported(node, "it has more elements than memory can hold"))?,
            None => 0,
        };
        self.program.buffers.push(Buffer { node, place, elements, life: (usize::MAX, 0) });
        self.index.insert((node, key), self.program.buffers.len() - 1);
        Ok(self.program.buffers.len() - 1)
    }

    fn layout(&self, buffer: BufferIndex) -> SourceLayout {
        let Buffer { node, place, .. } = self.program.buffers[buffer];
        let format = match place {
            Place::Weight(param) => match self.program.weights[param.index()].format() {
                StoredFormat::F16 => Format::F16,
                StoredFormat::BF16 => Format::Bf16,
                StoredFormat::F32 => Format::Words,
                _ => Format::Blocks,
            },
            _ => Format::Words,
        };
        let strides = match self.program.graph.shape(node) {
            Some(shape) => Strides::Fixed(row_major_strides(&shape)),
            None => Strides::Local,
        };
        let per_node = match place {
            Place::Rows(_) | Place::State(..) | Place::Local(Some(_)) => true,
            Place::Input { per_node, .. } => per_node,
            _ => false,
        };
        SourceLayout { slot: buffer, format, strides, per_node }
    }
}

/// A weight as programs read it.
pub(super) fn weight_slot(tensor: &Tensor) -> Slot<'_> {
    match (tensor.format(), tensor.as_f32()) {
        (_, Some(values)) => Slot::shared(values, values.len()),
        (StoredFormat::F16 | StoredFormat::BF16, None) => Slot::bytes(tensor.bytes()),
        _ => Slot::blocks(tensor),
    }
}

/// Rows of a set, for reports.
pub(super) fn describe_set(set: RowSet) -> String {
    match set {
        RowSet::All => "every row".into(),
        RowSet::Wanting(outputs) => format!("rows wanting outputs {outputs:#b}"),
    }
}
