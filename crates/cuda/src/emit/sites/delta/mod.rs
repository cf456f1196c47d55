//! The delta rule: which recurrences its kernels serve, and what they share. A block of threads takes a session, a head
//! and a slice of its values, the state of the path in registers.
//!
//! [`serial`] walks node after node: chains, single nodes and trees get the same bits. [`block`] solves pieces of chains
//! and trees at once; it rounds otherwise, and so must be asked for by name. [`replay`] walks an accepted path again, for
//! a commit that keeps less than a whole chain. The arithmetic is in `kernels/delta.cuh`.

mod block;
mod replay;
mod serial;

use fiddlehead_graph::queries::{CorrectionReads, Decay, Delta, Operand, Readout, ReadoutOf, Recurrence};
use fiddlehead_graph::{Element, Graph, NodeId, StateId};
use fiddlehead_plan::order::Extension;

use super::super::element::{assign, decode};
use super::super::expression::{Writer, flat};
use super::super::kernel::{Argument, Grid, Kernel, Rows};
use super::super::scope::Scope;
use super::super::traps::Traps;

/// Values of a block of threads: `DELTA_COLUMNS`.
const COLUMNS: usize = 32;
/// The most keys of a head: each thread keeps its part in registers.
const KEYS: usize = 512;
/// Bytes of shared memory that a block may have without asking for more.
const SHARED: usize = 48 << 10;

/// A delta rule that the kernels serve.
#[derive(Clone, Debug)]
pub(in crate::emit) struct DeltaSite {
    pub state: StateId,
    pub covers: Vec<NodeId>,
    pub makes: Vec<NodeId>,
    pub reads: Vec<NodeId>,
    delta: Delta,
    reader: NodeId,
    /// Whether pieces are solved at once.
    block: bool,
}

impl DeltaSite {
    pub(super) fn new(
        graph: &Graph,
        site: &Recurrence,
        delta: &Delta,
        block: bool,
        extension: &mut Extension,
    ) -> Result<DeltaSite, String> {
        if !site.other_readers.is_empty() {
            return Err("others read its state at every node".into());
        }
        if graph.states()[site.state.index()].element != Element::F32 {
            return Err("the kernel takes floats".into());
        }
        if delta.key_dim > KEYS {
            return Err(format!("a head has more than {KEYS} keys"));
        }
        let step = serial::shared_bytes(delta);
        if step > SHARED {
            return Err("the queries that read it do not fit into a block's shared memory".into());
        }
        if block && step + block::shared_bytes(delta.key_dim) > SHARED {
            let keys = delta.key_dim;
            return Err(format!("the block form has no room for {keys} keys in a block's shared memory"));
        }
        let mut delta = delta.clone();
        let node = |operand: &mut Operand, extension: &mut Extension| {
            *operand = super::as_node(graph, site.next, operand, extension);
            operand.node().map(|_| ()).ok_or("an operand is read from a history".to_string())
        };
        node(&mut delta.key, extension)?;
        node(&mut delta.value, extension)?;
        delta.beta.iter_mut().try_for_each(|beta| node(beta, extension))?;
        if let Decay::Multiplier(operand) | Decay::Exponent(operand) = &mut delta.decay {
            node(operand, extension)?;
        }
        delta.readouts.iter_mut().try_for_each(|readout| node(&mut readout.query, extension))?;
        let mut reads = Vec::new();
        let decay = match &delta.decay {
            Decay::One => None,
            Decay::Multiplier(operand) | Decay::Exponent(operand) => Some(operand),
        };
        let queries = delta.readouts.iter().map(|readout| &readout.query);
        for operand in [&delta.key, &delta.value].into_iter().chain(&delta.beta).chain(decay).chain(queries) {
            super::operand_loads(operand, &mut reads);
        }
        for scale in delta.readouts.iter().filter_map(|readout| readout.scale.as_ref()) {
            super::loads(scale, &mut reads);
        }
        let makes: Vec<NodeId> = delta.readouts.iter().map(|readout| readout.node).collect();
        let mut covers = site.absorbed.clone();
        covers.push(site.next);
        covers.extend(&makes);
        for list in [&mut covers, &mut reads] {
            list.sort();
            list.dedup();
        }
        Ok(DeltaSite { state: site.state, covers, makes, reads, delta, reader: site.next, block })
    }

    pub(super) fn candidate(&self) -> &'static str {
        if self.block { "block" } else { "serial" }
    }

    /// Blocks of threads of one session.
    fn places(&self) -> usize {
        self.delta.heads.iter().product::<usize>() * self.slices()
    }

    fn slices(&self) -> usize {
        self.delta.value_dim.div_ceil(COLUMNS)
    }

    pub(super) fn grid(&self) -> Grid {
        Grid { rows: Rows::Segments, per_row: self.places(), per_block: 1 }
    }

    /// Words kept of a pending node's key, value, decay and beta for one head.
    fn head_words(&self) -> usize {
        self.delta.key_dim + self.delta.value_dim + 2
    }

    /// Words kept of each pending node, so that a commit can walk its path again.
    pub(super) fn row_words(&self) -> usize {
        self.delta.heads.iter().product::<usize>() * self.head_words()
    }

    fn decayed(&self) -> bool {
        self.delta.reads == CorrectionReads::Decayed
    }

    pub(super) fn write(&self, kernel: &mut Kernel, scope: &Scope<'_>, traps: &mut Traps) {
        let keys = self.delta.key_dim;
        let number = kernel.argument(Argument::State(self.state));
        kernel.line(format!("__shared__ DeltaStep<{keys}, {}> step;", self.delta.readouts.len().max(1)));
        if self.block {
            kernel.line(format!("__shared__ DeltaPiece<{keys}> piece;"));
        }
        self.open(kernel, "b->segments", "segment");
        let heads = decode(kernel, "head", &self.delta.heads);
        self.word(kernel, &heads, &scope.graph.states()[self.state.index()].shape);
        self.operands(kernel, scope, traps, &heads);
        kernel.line("const int from = b->first[segment], end = from + b->count[segment];");
        kernel.line("const bool chain = b->chain[segment];");
        kernel.line(format!("float* kept = kept_rows(b, (int){number}, segment);"));
        kernel.line(format!("if (kept) kept += head * {};", self.head_words()));
        kernel.line(format!("float S[DeltaSize<{keys}>::PART];"));
        let incoming = format!("(const float*)state_in(b, (int){number}, from)");
        kernel.line(format!("delta_load<{keys}>(S, {incoming}, word, live);"));
        kernel.line("__syncthreads();");
        if self.block {
            self.pieces(kernel, &number);
        } else {
            self.walk(kernel, &number, "from", "end");
        }
        kernel.line("}");
    }

    /// Opens the loop over a block's work: so many times all heads and slices of values.
    fn open(&self, kernel: &mut Kernel, times: &str, name: &str) {
        let (places, slices) = (self.places(), self.slices());
        kernel.line(format!("const long long work = (long long){times} * {places};"));
        kernel.line("for (long long i = blockIdx.x; i < work; i += gridDim.x) {");
        kernel.line(format!("const int {name} = (int)(i / {places}), place = (int)(i % {places});"));
        kernel.line(format!("const int head = place / {slices}, slice = place % {slices};"));
        kernel.line("const int j = slice * DELTA_COLUMNS + delta_column();");
        kernel.line(format!("const bool live = j < {};", self.delta.value_dim));
    }

    /// Defines `word(k)`: the place of a key of the thread's column in a stored state.
    fn word(&self, kernel: &mut Kernel, heads: &[String], shape: &[usize]) {
        let delta = &self.delta;
        let mut names = vec!["0".to_string(); shape.len()];
        for (name, &axis) in heads.iter().zip(&delta.head_axes) {
            names[axis].clone_from(name);
        }
        names[delta.key_axis] = "k".into();
        names[delta.value_axis] = "j".into();
        kernel.line(format!("auto word = [&](int k) -> long long {{ return {}; }};", flat(&names, shape)));
    }

    /// Defines the operands as functions of a node, and where its readouts go.
    fn operands(&self, kernel: &mut Kernel, scope: &Scope<'_>, traps: &mut Traps, heads: &[String]) {
        let delta = &self.delta;
        let axes = |more: [&str; 2]| -> Vec<String> {
            heads.iter().cloned().chain(more.map(String::from)).collect()
        };
        let mut function =
            |kernel: &mut Kernel, head: &str, operand: &Operand, more: [&str; 2], exp: bool| {
                open_function(kernel, head, "float");
                let value = self.element(kernel, scope, traps, operand, axes(more));
                kernel.line(if exp { format!("return expf({value});") } else { format!("return {value};") });
                kernel.line("};");
            };
        let constant = |kernel: &mut Kernel, name: &str| {
            kernel.line(format!("auto {name} = [](int) -> float {{ return 1.0f; }};"));
        };
        function(kernel, "key = [&](int node, int k)", &delta.key, ["k", "0"], false);
        function(kernel, "value = [&](int node, int j)", &delta.value, ["0", "j"], false);
        match &delta.decay {
            Decay::One => constant(kernel, "decay"),
            Decay::Multiplier(operand) => {
                function(kernel, "decay = [&](int node)", operand, ["0", "0"], false)
            }
            Decay::Exponent(operand) => function(kernel, "decay = [&](int node)", operand, ["0", "0"], true),
        }
        match &delta.beta {
            None => constant(kernel, "beta"),
            Some(operand) => function(kernel, "beta = [&](int node)", operand, ["0", "0"], false),
        }
        for (place, readout) in delta.readouts.iter().enumerate() {
            let head = format!("query{place} = [&](int node, int k)");
            function(kernel, &head, &readout.query, ["k", "0"], false);
        }
        for (place, readout) in delta.readouts.iter().enumerate() {
            self.readout(kernel, scope, traps, place, readout, heads);
        }
    }

    /// Defines where what a query reads of the thread's column goes.
    fn readout(
        &self,
        kernel: &mut Kernel,
        scope: &Scope<'_>,
        traps: &mut Traps,
        place: usize,
        readout: &Readout,
        heads: &[String],
    ) {
        open_function(kernel, &format!("out{place} = [&](int node, float read)"), "void");
        let shape = scope.graph.shape(readout.node).unwrap_or_default();
        let mut names = vec!["0".to_string(); shape.len()];
        let value = "j".to_string();
        for (name, &axis) in heads.iter().chain([&value]).zip(&readout.result_axes) {
            names[axis].clone_from(name);
        }
        let place = flat(&names, &shape);
        kernel.line("if (!live) return;");
        let mut writer = Writer::new(kernel, scope, traps, self.reader).with_axes(names);
        let scale = readout.scale.as_ref().map(|scale| writer.expr(scale).text);
        let to = writer.element_of(readout.node, &place);
        let value = scale.map_or("read".to_string(), |scale| format!("(read * {scale})"));
        kernel.line(assign(&to, Element::F32, &value));
        kernel.line("};");
    }

    /// Readouts of one of the two states, with their places.
    fn of(&self, of: ReadoutOf) -> impl Iterator<Item = usize> {
        let readouts = self.delta.readouts.iter().enumerate();
        readouts.filter(move |(_, readout)| readout.of == of).map(|(place, _)| place)
    }

    /// The element of an operand over heads, the key axis and the value axis.
    fn element(
        &self,
        kernel: &mut Kernel,
        scope: &Scope<'_>,
        traps: &mut Traps,
        operand: &Operand,
        axes: Vec<String>,
    ) -> String {
        let Some(source) = operand.node() else { return "0.0f".into() };
        let mut writer = Writer::new(kernel, scope, traps, self.reader).with_axes(axes);
        let delta = &self.delta;
        let extents = [&delta.heads[..], &[delta.key_dim, delta.value_dim]].concat();
        let place = writer.place(operand, source, &extents);
        writer.element_of(source, &place)
    }
}

/// Opens a function of a node: inside, `row` and `here` are the node's.
fn open_function(kernel: &mut Kernel, head: &str, result: &str) {
    kernel.line(format!("auto {head} -> {result} {{"));
    kernel.line("const int row = node, here = b->depth[node]; (void)row; (void)here;");
}
