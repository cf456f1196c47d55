//! The delta rule in its serial form: a block for each session, head and slice of values walks the session's nodes in
//! depth-first order, the state of the path in registers. Chains, single nodes and trees get the same bits.

use fiddlehead_graph::queries::{CorrectionReads, Decay, Delta, Operand, Readout, ReadoutOf, Recurrence};
use fiddlehead_graph::{Element, Graph, NodeId, StateId};
use fiddlehead_plan::order::Extension;

use super::super::element::{assign, decode};
use super::super::expression::{Writer, flat};
use super::super::kernel::{Argument, Grid, Kernel, Rows};
use super::super::scope::Scope;
use super::super::traps::Traps;

/// Values of a block.
const COLUMNS: usize = 32;
/// Threads that share a column's keys.
const GROUPS: usize = 4;
/// The most keys of a head: each thread keeps its part in registers.
const KEYS: usize = 512;

/// A delta rule that the kernel serves.
#[derive(Clone, Debug)]
pub(in crate::emit) struct DeltaSite {
    pub state: StateId,
    pub covers: Vec<NodeId>,
    pub makes: Vec<NodeId>,
    pub reads: Vec<NodeId>,
    delta: Delta,
    reader: NodeId,
}

impl DeltaSite {
    pub(super) fn new(
        graph: &Graph,
        site: &Recurrence,
        delta: &Delta,
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
        Ok(DeltaSite { state: site.state, covers, makes, reads, delta, reader: site.next })
    }

    fn slices(&self) -> usize {
        self.delta.value_dim.div_ceil(COLUMNS)
    }

    pub(super) fn grid(&self) -> Grid {
        let heads: usize = self.delta.heads.iter().product();
        Grid { rows: Rows::Segments, per_row: heads * self.slices(), per_block: 1 }
    }

    pub(super) fn write(&self, kernel: &mut Kernel, scope: &Scope<'_>, traps: &mut Traps) {
        let delta = &self.delta;
        let heads: usize = delta.heads.iter().product();
        let (keys, values) = (delta.key_dim, delta.value_dim);
        let kept = keys.div_ceil(GROUPS);
        let state = &scope.graph.states()[self.state.index()];
        let words: usize = state.shape.iter().product();
        let queries = delta.readouts.len();
        let number = kernel.argument(Argument::State(self.state));
        kernel.line(format!("__shared__ float key[{keys}], query[{}][{keys}];", queries.max(1)));
        kernel.line(format!("__shared__ float parts[{GROUPS}][{COLUMNS}];"));
        kernel.line(format!("const int column = threadIdx.x % {COLUMNS}, group = threadIdx.x / {COLUMNS};"));
        kernel.line(format!("const long long work = (long long)b->segments * {};", heads * self.slices()));
        kernel.line("for (long long i = blockIdx.x; i < work; i += gridDim.x) {");
        kernel.line(format!(
            "const int segment = (int)(i / {}), place = (int)(i % {});",
            heads * self.slices(),
            heads * self.slices()
        ));
        kernel.line(format!(
            "const int head = place / {0}, j = place % {0} * {COLUMNS} + column;",
            self.slices()
        ));
        kernel.line(format!("const bool live = j < {values};"));
        let axes = decode(kernel, "head", &delta.heads);
        kernel.line(format!("float S[{kept}];"));
        kernel.line(format!("for (int x = 0; x < {kept}; x++) S[x] = 0.0f;"));
        kernel.line("const int from = b->first[segment], to = from + b->count[segment];");
        kernel.line("for (int node = from; node < to; node++) {");
        kernel.line("const int row = node, here = b->depth[node]; (void)here;");
        // The state of a node that does not follow the one before it is its parent's, or the session's.
        kernel.line("if (node == from || b->parent[node] != node - 1) {");
        kernel.line(format!("const float* in = (const float*)state_in(b, (int){number}, node);"));
        self.each_word(kernel, &state.shape, &axes, kept, "S[x] = in[word];");
        kernel.line("}");
        kernel.line("__syncthreads();");
        kernel.line(format!("for (int k = threadIdx.x; k < {keys}; k += {}) {{", COLUMNS * GROUPS));
        let with =
            |more: [&str; 2]| -> Vec<String> { axes.iter().cloned().chain(more.map(String::from)).collect() };
        let key = self.element(kernel, scope, traps, &delta.key, with(["k", "0"]));
        kernel.line(format!("key[k] = {key};"));
        for (place, readout) in delta.readouts.iter().enumerate() {
            let query = self.element(kernel, scope, traps, &readout.query, with(["k", "0"]));
            kernel.line(format!("query[{place}][k] = {query};"));
        }
        kernel.line("}");
        kernel.line("__syncthreads();");
        let decay = match &delta.decay {
            Decay::One => "1.0f".to_string(),
            Decay::Multiplier(operand) => self.element(kernel, scope, traps, operand, with(["0", "0"])),
            Decay::Exponent(operand) => {
                format!("expf({})", self.element(kernel, scope, traps, operand, with(["0", "0"])))
            }
        };
        kernel.line(format!("const float decay = {decay};"));
        for (place, readout) in self.of(ReadoutOf::Incoming) {
            self.read_out(kernel, scope, traps, place, readout, &axes, kept);
        }
        kernel.line("float dot = 0.0f;");
        kernel.line("#pragma unroll");
        kernel.line(format!("for (int x = 0; x < {kept}; x++) {{"));
        kernel.line(format!("const int k = group * {kept} + x;"));
        let decayed = delta.reads == CorrectionReads::Decayed;
        if decayed {
            kernel.line("S[x] *= decay;");
        }
        kernel.line(format!("if (k < {keys}) dot = fmaf(S[x], key[k], dot);"));
        kernel.line("}");
        self.sum(kernel, "dot");
        let value = self.element(kernel, scope, traps, &delta.value, with(["0", "j"]));
        kernel.line(format!("const float value = live ? {value} : 0.0f;"));
        let beta = match &delta.beta {
            None => "1.0f".to_string(),
            Some(operand) => self.element(kernel, scope, traps, operand, with(["0", "0"])),
        };
        kernel.line(format!("const float u = {beta} * (value - dot);"));
        kernel.line("#pragma unroll");
        kernel.line(format!("for (int x = 0; x < {kept}; x++) {{"));
        kernel.line(format!("const int k = group * {kept} + x;"));
        if !decayed {
            kernel.line("S[x] *= decay;");
        }
        kernel.line(format!("if (k < {keys}) S[x] = fmaf(key[k], u, S[x]);"));
        kernel.line("}");
        for (place, readout) in self.of(ReadoutOf::Next) {
            self.read_out(kernel, scope, traps, place, readout, &axes, kept);
        }
        kernel.line(format!("float* out = (float*)state_out(b, (int){number}, node, {words});"));
        self.each_word(kernel, &state.shape, &axes, kept, "out[word] = S[x];");
        kernel.line("}");
        kernel.line("}");
    }

    fn of(&self, of: ReadoutOf) -> impl Iterator<Item = (usize, &Readout)> {
        self.delta.readouts.iter().enumerate().filter(move |(_, readout)| readout.of == of)
    }

    /// Runs a statement over a thread's part of the state: `S[x]` in registers, `word` in memory.
    fn each_word(
        &self,
        kernel: &mut Kernel,
        shape: &[usize],
        heads: &[String],
        kept: usize,
        statement: &str,
    ) {
        let delta = &self.delta;
        let mut names = vec!["0".to_string(); shape.len()];
        for (name, &axis) in heads.iter().zip(&delta.head_axes) {
            names[axis].clone_from(name);
        }
        names[delta.key_axis] = "k".into();
        names[delta.value_axis] = "j".into();
        let word = flat(&names, shape);
        kernel.line("#pragma unroll");
        kernel.line(format!("for (int x = 0; x < {kept}; x++) {{"));
        kernel.line(format!("const int k = group * {kept} + x;"));
        kernel.line(format!("const long long word = {word};"));
        kernel.line(format!("if (live && k < {}) {statement}", delta.key_dim));
        kernel.line("}");
    }

    /// Adds up a column's parts of a number; every thread of the column gets the sum.
    fn sum(&self, kernel: &mut Kernel, name: &str) {
        kernel.line("__syncthreads();");
        kernel.line(format!("parts[group][column] = {name};"));
        kernel.line("__syncthreads();");
        let parts: Vec<String> = (0..GROUPS).map(|group| format!("parts[{group}][column]")).collect();
        kernel.line(format!("{name} = {};", parts.join(" + ")));
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of a kernel under construction")]
    fn read_out(
        &self,
        kernel: &mut Kernel,
        scope: &Scope<'_>,
        traps: &mut Traps,
        place: usize,
        readout: &Readout,
        heads: &[String],
        kept: usize,
    ) {
        let keys = self.delta.key_dim;
        kernel.line("{");
        kernel.line("float read = 0.0f;");
        kernel.line("#pragma unroll");
        kernel.line(format!("for (int x = 0; x < {kept}; x++) {{"));
        kernel.line(format!("const int k = group * {kept} + x;"));
        kernel.line(format!("if (k < {keys}) read = fmaf(query[{place}][k], S[x], read);"));
        kernel.line("}");
        self.sum(kernel, "read");
        let shape = scope.graph.shape(readout.node).unwrap_or_default();
        let mut names = vec!["0".to_string(); shape.len()];
        let value = "j".to_string();
        for (name, &axis) in heads.iter().chain([&value]).zip(&readout.result_axes) {
            names[axis].clone_from(name);
        }
        let place = flat(&names, &shape);
        let mut writer = Writer::new(kernel, scope, traps, self.reader).with_axes(names);
        let scale = readout.scale.as_ref().map(|scale| writer.expr(scale).text);
        let to = writer.element_of(readout.node, &place);
        let value = scale.map_or("read".to_string(), |scale| format!("(read * {scale})"));
        kernel.line(format!("if (live && group == 0) {}", assign(&to, Element::F32, &value)));
        kernel.line("}");
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
