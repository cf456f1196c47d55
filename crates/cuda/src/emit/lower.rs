//! A graph's kernels in their order, and the memory that they pass values in.

use std::collections::{HashMap, HashSet};

use fiddlehead_graph::queries::{HistoryStorage, Variance};
use fiddlehead_graph::{Element, Graph, NodeId};
use fiddlehead_plan::order::{Duty, Facts, Piece, RowSet, ServedSite, SetIndex, Unit, Units, schedule};
use fiddlehead_plan::{DeviceError, Family, Policy, Weights, weights_of};
use fiddlehead_storage::Tensor;

use super::element::{Elements, Spread, assign, grid};
use super::expression::Writer;
use super::kernel::{Argument, Grid, Kernel, Rows};
use super::layout::{Buffer, Carried, buffers, spots};
use super::scan::{Constants, scan};
use super::scope::{HistorySpot, RowsOf, Scope, Spot, elements};
use super::shared::launches;
use super::sites::{self, Found, Served};
use super::traps::Traps;

/// The text that every module starts with.
const PRELUDE: &str = concat!(
    include_str!("../../kernels/bits.cuh"),
    include_str!("../../kernels/formats.cuh"),
    include_str!("../../kernels/prelude.cuh"),
    include_str!("../../kernels/delta.cuh")
);

/// What lowering needs beside the graph.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub weights: &'a Weights,
    pub policy: &'a Policy,
}

/// A graph ready to be compiled and run.
#[derive(Debug)]
pub(crate) struct Program {
    pub graph: Graph,
    pub sets: Vec<RowSet>,
    pub buffers: Vec<Buffer>,
    /// Kernels run once, at loading.
    pub prologue: Vec<Kernel>,
    /// Kernels run for each batch, in order.
    pub kernels: Vec<Kernel>,
    /// Kernels run by a commit, which walk an accepted path again.
    pub replays: Vec<Kernel>,
    /// By state: how a kernel carries it from row to row.
    pub carried: Vec<Option<Carried>>,
    pub constants: Constants,
    pub traps: Traps,
    /// By output: its set when every row has its own.
    pub outputs: Vec<(NodeId, Option<SetIndex>)>,
    /// By history: how many rows back it is read, its own included; none when all of it.
    pub reach: Vec<Option<usize>>,
    /// By parameter.
    pub weights: Vec<Tensor>,
    pub refusals: Vec<(String, String)>,
}

impl Program {
    /// The text of the program's module.
    pub fn source(&self) -> String {
        let mut text = String::from(PRELUDE);
        let mut written = HashSet::new();
        for kernel in self.every_kernel() {
            if !written.insert(&kernel.name) {
                continue;
            }
            let Kernel { name, block, scratch, .. } = kernel;
            let definition = kernel.definition();
            text.push_str(&format!(
                "\n#define SCRATCH_WORDS {scratch}ll\nextern \"C\" __global__ void __launch_bounds__({block}) \
                 {name}{definition}#undef SCRATCH_WORDS\n"
            ));
        }
        text
    }
    /// All kernels: those of loading, of a run, of a commit.
    pub fn every_kernel(&self) -> impl Iterator<Item = &Kernel> {
        self.prologue.iter().chain(&self.kernels).chain(&self.replays)
    }
    /// The buffer of a node.
    pub fn buffer(&self, node: NodeId) -> Option<usize> {
        self.buffers.iter().position(|buffer| buffer.node == node)
    }
}

/// Writes the kernels of a graph.
pub(crate) fn lower(graph: &Graph, context: Context<'_>) -> Result<Program, DeviceError> {
    let found = sites::find(graph, context)?;
    let mut facts = Facts::new(&found.graph);
    facts.join_demand(&found.joined(&facts));
    let definition = |node| found.definition(node);
    let units = Units::new(&found.graph, &found.served, &definition, &facts);
    let weights = weights_of(&found.graph, context.weights)?;
    let mut constants = Constants::new();
    let spots = spots(&found.graph, &facts, &units, &weights, &mut constants);
    let histories = (0..found.graph.histories().len() as u32)
        .map(|id| HistorySpot::Pages(fiddlehead_graph::HistoryId(id)));
    let scope =
        Scope { graph: &found.graph, spots, histories: histories.collect(), here: "here".into(), set: None };
    let mut lowering = Lowering {
        scope,
        found: &found,
        facts: &facts,
        units: &units,
        constants,
        traps: Traps::default(),
        all_traps: Traps::default(),
        kernels: Vec::new(),
        copied: Vec::new(),
        fused: context.policy.serves(Family::Fusion),
    };
    lowering.prologue();
    let mut prologue = std::mem::take(&mut lowering.kernels);
    let fused = lowering.fused;
    let shared = |unit: &Unit| match unit.work {
        Duty::Served(index) => fused && matches!(found.served[index.0], Served::Contract(_)),
        _ => false,
    };
    for piece in schedule(&found.graph, &units.units, &shared) {
        lowering.piece(&piece);
    }
    lowering.ends();
    let (mut replays, carried) = lowering.replays();
    name(prologue.iter_mut().chain(&mut lowering.kernels).chain(&mut replays));
    let (kernels, traps, constants) = (lowering.kernels, lowering.all_traps, lowering.constants);
    let copied = lowering.copied;
    let buffers = buffers(&found.graph, &facts, &units, &prologue, &kernels, &copied)?;
    let outputs = found.graph.outputs().iter().map(|output| {
        let set = units.set_of[output.node.index()];
        (output.node, set)
    });
    let reach = found.sites_histories.iter().map(|storage| match storage {
        HistoryStorage::Nothing => Some(1),
        HistoryStorage::Ring { reach } => Some(*reach),
        HistoryStorage::Whole | HistoryStorage::Both { .. } => None,
    });
    Ok(Program {
        outputs: outputs.collect(),
        reach: reach.collect(),
        sets: units.sets.clone(),
        buffers,
        prologue,
        kernels,
        replays,
        carried,
        constants,
        traps,
        weights,
        refusals: found.refusals.clone(),
        graph: found.graph.clone(),
    })
}

/// Names kernels; those that are alike in all but their arguments are one function and get one name.
fn name<'k>(kernels: impl Iterator<Item = &'k mut Kernel>) {
    let mut known: HashMap<(String, u32, usize), String> = HashMap::new();
    for kernel in kernels {
        let number = known.len();
        let stem = kernel.name.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
        let fresh = format!("k{number}_{stem}");
        let key = (kernel.definition(), kernel.block, kernel.scratch);
        kernel.name = known.entry(key).or_insert(fresh).clone();
    }
}

/// Lowering under way.
pub(super) struct Lowering<'a> {
    pub(super) scope: Scope<'a>,
    pub(super) found: &'a Found,
    pub(super) facts: &'a Facts,
    pub(super) units: &'a Units,
    constants: Constants,
    /// Of the kernel being written.
    pub(super) traps: Traps,
    all_traps: Traps,
    kernels: Vec<Kernel>,
    /// Nodes copied to a buffer of their own, because somebody outside reads them.
    copied: Vec<NodeId>,
    /// Whether work may share launches.
    fused: bool,
}

impl Lowering<'_> {
    pub(super) fn kernel(&self, node: NodeId, grid: Grid, family: &'static str) -> Kernel {
        let name = &self.scope.graph.node(node).origin.name;
        let letters: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let mut kernel = Kernel::new(letters, grid, family);
        kernel.nodes.push(node);
        kernel
    }

    /// Adds a kernel; its traps come after those of the kernels before it.
    pub(super) fn push(&mut self, mut kernel: Kernel) {
        kernel.traps = self.all_traps.extend(std::mem::take(&mut self.traps));
        self.kernels.push(kernel);
    }

    pub(super) fn rows(set: Option<SetIndex>) -> Rows {
        set.map_or(Rows::One, Rows::Set)
    }

    /// Kernels of what depends on weights and literals alone.
    fn prologue(&mut self) {
        let graph = self.scope.graph;
        for node in graph.node_ids() {
            let constant = self.facts.variance[node.index()] == Variance::Constant;
            if constant && matches!(self.scope.spots[node.index()], Spot::Words(Argument::Buffer(_), _)) {
                self.elements(node, node, None, "constant");
            }
        }
    }

    fn elements(&mut self, definition: NodeId, node: NodeId, set: Option<SetIndex>, family: &'static str) {
        let mut kernel = self.kernel(node, grid(self.scope.graph, definition, Self::rows(set)), family);
        self.scope.set = set;
        Elements { kernel: &mut kernel, scope: &self.scope, traps: &mut self.traps, spread: Spread::Grid }
            .node(definition, node);
        self.push(kernel);
    }

    fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Serial(units) => self.serial(units),
            Piece::Uniform(units) | Piece::Rows(_, units) if self.fused => {
                let work = |unit| self.work(unit);
                for launch in launches(&self.units.units, units, &work) {
                    let local = |unit: &usize| matches!(self.units.units[*unit].work, Duty::Node(node) if self.scope.spots[node.index()] == Spot::Local);
                    let written: Vec<usize> = launch.into_iter().filter(|unit| !local(unit)).collect();
                    match written[..] {
                        [] => {}
                        [unit] => self.unit(unit),
                        _ => self.small(&written),
                    }
                }
            }
            Piece::Together(units) => self.together(units),
            Piece::Uniform(units) | Piece::Rows(_, units) => units.iter().for_each(|&unit| self.unit(unit)),
        }
    }

    /// Defines the node and the depth of a row.
    pub(super) fn enter(&self, kernel: &mut Kernel, set: Option<SetIndex>) {
        match set {
            Some(set) => {
                kernel.line(format!("const int node = set_node(b, {}, row), here = b->depth[node];", set.0));
            }
            None => kernel.line("const int node = 0, here = 0;"),
        }
        kernel.line("(void)node; (void)here;");
    }

    /// Writes a unit for the row that a block stands at.
    pub(super) fn in_block(&mut self, kernel: &mut Kernel, unit: usize) {
        match self.units.units[unit].work {
            Duty::Node(node) if self.scope.spots[node.index()] == Spot::Local => {}
            Duty::Node(node) => {
                let definition = self.found.definition(node);
                let (scope, traps) = (&self.scope, &mut self.traps);
                Elements { kernel, scope, traps, spread: Spread::Block }.node(definition, node);
            }
            Duty::Scan(node) => scan(kernel, &self.scope, &mut self.traps, &mut self.constants, node),
            duty => self.keep(kernel, duty, Spread::Block),
        }
    }

    /// The node that a duty is about.
    pub(super) fn subject(&self, duty: Duty) -> NodeId {
        match duty {
            Duty::Node(node) | Duty::Scan(node) => node,
            duty => self.kept(duty).0,
        }
    }

    pub(super) fn unit(&mut self, unit: usize) {
        let unit = self.units.units[unit].clone();
        match unit.work {
            Duty::Node(node) => {
                let definition = self.found.definition(node);
                if self.scope.spots[node.index()] != Spot::Local {
                    self.elements(definition, node, unit.set, "elements");
                }
            }
            Duty::Append(_) | Duty::Store(_) => {
                let (node, words) = self.kept(unit.work);
                let grid = Grid { rows: Rows::Set(SetIndex::ALL), per_row: words, per_block: 128 };
                let mut kernel = self.kernel(node, grid, "keep");
                self.scope.set = Some(SetIndex::ALL);
                self.keep(&mut kernel, unit.work, Spread::Grid);
                self.push(kernel);
            }
            Duty::Scan(node) => {
                let grid = Grid { rows: Self::rows(unit.set), per_row: 1, per_block: 1 };
                let mut kernel = self.kernel(node, grid, "scan");
                self.scope.set = unit.set;
                let count = unit.set.map_or("1".into(), |set| format!("b->set_count[{}]", set.0));
                kernel.line(format!("for (int row = blockIdx.x; row < {count}; row += gridDim.x) {{"));
                self.enter(&mut kernel, unit.set);
                scan(&mut kernel, &self.scope, &mut self.traps, &mut self.constants, node);
                kernel.line("}");
                self.push(kernel);
            }
            Duty::Served(index) => {
                let site = &self.found.served[index.0];
                let node = site.makes().first().copied().unwrap_or(NodeId(0));
                self.scope.set = unit.set;
                let mut kernel = self.kernel(node, site.grid(Self::rows(unit.set)), site.family());
                kernel.candidate = site.candidate();
                if let Served::Contract(site) = site {
                    kernel.nodes.clone_from(&site.covers);
                }
                site.write(&mut kernel, &self.scope, &mut self.traps);
                self.push(kernel);
            }
        }
    }

    /// The kernels of commits, and by state what a kernel carries of it.
    fn replays(&self) -> (Vec<Kernel>, Vec<Option<Carried>>) {
        let graph = self.scope.graph;
        let mut carried = vec![None; graph.states().len()];
        let mut kernels = Vec::new();
        for site in &self.found.served {
            let Some((state, row_words)) = site.carries() else { continue };
            let next = graph.states()[state.index()].next;
            let mut kernel = self.kernel(next, site.grid(Rows::One), site.family());
            kernel.grid.rows = Rows::One;
            site.write_replay(&mut kernel, graph);
            carried[state.index()] = Some(Carried { row_words, replay: kernels.len() });
            kernels.push(kernel);
        }
        (kernels, carried)
    }

    /// What an append or a store keeps: the node and the words of a row.
    pub(super) fn kept(&self, duty: Duty) -> (NodeId, usize) {
        let graph = self.scope.graph;
        let node = match duty {
            Duty::Append(history) => graph.histories()[history.index()].row,
            Duty::Store(state) => graph.states()[state.index()].next,
            _ => NodeId(0),
        };
        (node, elements(graph, node))
    }

    /// Writes what an append or a store does.
    fn keep(&mut self, kernel: &mut Kernel, duty: Duty, spread: Spread) {
        let (node, words) = self.kept(duty);
        let element = self.scope.graph.node(node).element;
        let to = match duty {
            Duty::Append(history) => {
                let number = kernel.argument(Argument::History(history));
                format!("own_row(b, (int){number}, node, {words})")
            }
            Duty::Store(state) => {
                let number = kernel.argument(Argument::State(state));
                format!("state_out(b, (int){number}, node)")
            }
            _ => return,
        };
        let copy = |writer: &mut Writer<'_, '_>| {
            let value = writer.element_of(node, "e");
            assign(&super::expression::typed(&to, "e", element), element, &value)
        };
        Elements { kernel, scope: &self.scope, traps: &mut self.traps, spread }.copy(words, &copy, node);
    }

    /// Units that run through for one row, then for the next: one block a session.
    fn serial(&mut self, units: &[usize]) {
        let grid = Grid { rows: Rows::Segments, per_row: 1, per_block: 1 };
        let first = units.first().map_or(NodeId(0), |&unit| self.subject(self.units.units[unit].work));
        let mut kernel = self.kernel(first, grid, "serial");
        kernel.block = 256;
        self.scope.set = Some(SetIndex::ALL);
        kernel.line("for (int segment = blockIdx.x; segment < b->segments; segment += gridDim.x) {");
        kernel.line("const int end = b->first[segment] + b->count[segment];");
        kernel.line("for (int node = b->first[segment]; node < end; node++) {");
        kernel.line("const int row = node, here = b->depth[node]; (void)row; (void)here;");
        units.iter().for_each(|&unit| self.in_block(&mut kernel, unit));
        kernel.line("}");
        kernel.line("}");
        kernel.nodes = units.iter().flat_map(|&unit| self.units.units[unit].makes.clone()).collect();
        self.push(kernel);
    }

    /// Copies what somebody outside reads and no kernel leaves in a buffer.
    fn ends(&mut self) {
        let graph = self.scope.graph;
        let outputs =
            graph.outputs().iter().map(|output| (output.node, self.units.set_of[output.node.index()]));
        let initials = graph.states().iter().map(|state| (state.initial, None));
        let wanted: Vec<(NodeId, Option<SetIndex>)> = outputs.chain(initials).collect();
        let mut early = Vec::new();
        for (node, set) in wanted {
            if self.copied.contains(&node)
                || matches!(self.scope.spots[node.index()], Spot::Words(Argument::Buffer(_), _))
            {
                continue;
            }
            let words = elements(graph, node);
            let grid = Grid { rows: Self::rows(set), per_row: words, per_block: 128 };
            let mut kernel = self.kernel(node, grid, "copy");
            self.scope.set = set;
            let target = Spot::Words(Argument::Buffer(node), set.map_or(RowsOf::Shared, RowsOf::Set));
            let mut scope = self.scope.clone();
            scope.spots[node.index()] = target;
            let element: Element = graph.node(node).element;
            let to = Writer::new(&mut kernel, &scope, &mut self.traps, node).element_of(node, "e");
            let copy = |writer: &mut Writer<'_, '_>| assign(&to, element, &writer.element_of(node, "e"));
            Elements {
                kernel: &mut kernel,
                scope: &self.scope,
                traps: &mut self.traps,
                spread: Spread::Grid,
            }
            .copy(words, &copy, node);
            self.copied.push(node);
            kernel.traps = self.all_traps.extend(std::mem::take(&mut self.traps));
            early.push(kernel);
        }
        // First values of states are read from the first kernel on, and read nothing of the batch.
        let (first, last): (Vec<Kernel>, Vec<Kernel>) =
            early.into_iter().partition(|kernel| matches!(kernel.grid.rows, Rows::One));
        self.kernels.splice(0..0, first);
        self.kernels.extend(last);
    }
}
