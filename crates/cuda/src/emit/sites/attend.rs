//! Attention over paged history and ancestors: a block for each row and head, keys in blocks of [`KEYS`] at absolute
//! multiples of depth, a running maximum. Any elementwise chain on the score, sliding starts, and sinks.

use fiddlehead_graph::queries::{Attention, Operand, PathStart, Source};
use fiddlehead_graph::{Element, Graph, HistoryId, NodeId};
use fiddlehead_plan::order::Extension;

use super::super::element::{assign, decode};
use super::super::expression::{Writer, flat};
use super::super::kernel::{Argument, Grid, Kernel, Rows};
use super::super::scope::Scope;
use super::super::traps::Traps;

/// Keys taken at a time.
const KEYS: usize = 64;
/// Threads of a block.
const THREADS: usize = 128;
/// The most value elements that a thread adds up.
const VALUES: usize = 8;

/// An attention that the kernel serves.
#[derive(Clone, Debug)]
pub(in crate::emit) struct AttendSite {
    pub attention: Attention,
    pub covers: Vec<NodeId>,
    pub reads: Vec<NodeId>,
    pub histories: [HistoryId; 2],
}

impl AttendSite {
    pub(super) fn new(
        graph: &Graph,
        site: &Attention,
        extension: &mut Extension,
    ) -> Result<AttendSite, String> {
        let history = |operand: &Operand| match operand.source {
            Source::History(history) => {
                let depth = operand.depth.as_ref().and_then(|depth| depth.as_axis());
                (depth == Some(site.heads.len())).then_some(history)
            }
            _ => None,
        };
        let (Some(key), Some(value)) = (history(&site.key), history(&site.value)) else {
            return Err("keys and values are not rows of histories at the depth that is summed over".into());
        };
        let float = |node: NodeId| graph.node(node).element == Element::F32;
        let rows = [key, value].map(|history| graph.histories()[history.index()].row);
        if !rows.iter().all(|&row| float(row) && graph.shape(row).is_some()) || !float(site.node) {
            return Err("the kernel takes floats in rows of fixed shape".into());
        }
        let values: usize = site.value_dims.iter().product();
        if values > VALUES * THREADS || site.key_dims.iter().product::<usize>() > 4096 {
            return Err(format!("a head has more than {} values or 4096 keys", VALUES * THREADS));
        }
        let mut attention = site.clone();
        attention.query = super::as_node(graph, site.node, &site.query, extension);
        if attention.query.node().is_none() {
            return Err("the query is read from a history".into());
        }
        let mut reads = Vec::new();
        for operand in [&attention.query, &attention.key, &attention.value] {
            super::operand_loads(operand, &mut reads);
        }
        super::loads(&site.score, &mut reads);
        site.sink.iter().for_each(|sink| super::loads(sink, &mut reads));
        reads.sort();
        reads.dedup();
        let mut covers = site.absorbed.clone();
        covers.push(site.node);
        covers.sort();
        Ok(AttendSite { attention, covers, reads, histories: [key, value] })
    }

    pub(super) fn grid(&self, rows: Rows) -> Grid {
        Grid { rows, per_row: self.attention.heads.iter().product(), per_block: 1 }
    }

    pub(super) fn write(&self, kernel: &mut Kernel, scope: &Scope<'_>, traps: &mut Traps) {
        let site = &self.attention;
        let heads: usize = site.heads.iter().product();
        let keys: usize = site.key_dims.iter().product();
        let values: usize = site.value_dims.iter().product();
        let per_thread = values.div_ceil(THREADS).max(1);
        let set = scope.set.map_or(0, |set| set.0);
        kernel.line(format!("__shared__ float query[{}], weight[{KEYS}];", keys.max(1)));
        kernel
            .line(format!("__shared__ const u32* key_row[{KEYS}]; __shared__ const u32* value_row[{KEYS}];"));
        kernel.line("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
        kernel.line(format!("const long long work = (long long)b->set_count[{set}] * {heads};"));
        kernel.line("for (long long i = blockIdx.x; i < work; i += gridDim.x) {");
        kernel.line(format!("const int row = (int)(i / {heads}), head = (int)(i % {heads});"));
        kernel.line(format!("const int node = set_node(b, {set}, row), here = b->depth[node];"));
        let mut axes = decode(kernel, "head", &site.heads);
        let start = match site.start {
            PathStart::Root => "0".to_string(),
            PathStart::Sliding { reach } => format!("max_int(0, here - {reach} + 1)"),
        };
        kernel.line(format!("const int start = {start};"));
        kernel.line("__syncthreads();");
        kernel.line(format!("for (int x = threadIdx.x; x < {keys}; x += {THREADS}) {{"));
        axes.push("0".into());
        let inner = decode(kernel, "x", &site.key_dims);
        let query = self.element(kernel, scope, traps, &site.query, [&axes[..], &inner].concat(), None);
        kernel.line(format!("query[x] = {query};"));
        kernel.line("}");
        kernel.line("float most = float_of_bits(0xff800000u), sum = 0.0f;");
        kernel.line(format!("float kept[{per_thread}];"));
        kernel.line(format!("for (int v = 0; v < {per_thread}; v++) kept[v] = 0.0f;"));
        kernel.line(format!("for (int first = start / {KEYS} * {KEYS}; first <= here; first += {KEYS}) {{"));
        kernel.line("__syncthreads();");
        let words = |history: HistoryId| {
            let row = scope.graph.histories()[history.index()].row;
            super::super::scope::elements(scope.graph, row)
        };
        kernel.line(format!("if (threadIdx.x < {KEYS}) {{"));
        kernel.line("const int depth = min_int(max_int(first + (int)threadIdx.x, start), here);");
        for (name, history) in [("key_row", self.histories[0]), ("value_row", self.histories[1])] {
            let number = kernel.argument(Argument::History(history));
            kernel.line(format!(
                "{name}[threadIdx.x] = history_row(b, (int){number}, node, depth, {});",
                words(history)
            ));
        }
        kernel.line("}");
        kernel.line("__syncthreads();");
        kernel.line(format!("for (int j = warp; j < {KEYS}; j += {}) {{", THREADS / 32));
        kernel.line("const int t = first + j;");
        kernel.line("float score = float_of_bits(0xff800000u);");
        kernel.line("if (t >= start && t <= here) {");
        kernel.line("float dot = 0.0f;");
        kernel.line(format!("for (int x = lane; x < {keys}; x += 32) {{"));
        axes[site.heads.len()] = "t".into();
        let inner = decode(kernel, "x", &site.key_dims);
        let key =
            self.element(kernel, scope, traps, &site.key, [&axes[..], &inner].concat(), Some("key_row[j]"));
        kernel.line(format!("dot = fmaf(query[x], {key}, dot);"));
        kernel.line("}");
        kernel.line("dot = warp_sum(dot);");
        let mut writer = Writer::new(kernel, scope, traps, site.node).with_axes(axes.clone());
        writer.accumulator = Some(("dot".into(), Element::F32));
        let score = writer.expr(&site.score).text;
        kernel.line(format!("score = {score};"));
        kernel.line("}");
        kernel.line("if (lane == 0) weight[j] = score;");
        kernel.line("}");
        kernel.line("__syncthreads();");
        kernel.line("float higher = most;");
        kernel.line(format!("for (int j = 0; j < {KEYS}; j++) higher = fmaxf(higher, weight[j]);"));
        kernel.line("const float least = float_of_bits(0xff800000u);");
        kernel.line("const float rescale = most == least ? 0.0f : expf(most - higher);");
        kernel.line("__syncthreads();");
        kernel.line(format!("if (threadIdx.x < {KEYS}) {{"));
        kernel.line("const float score = weight[threadIdx.x];");
        kernel.line("weight[threadIdx.x] = score == least ? 0.0f : expf(score - higher);");
        kernel.line("}");
        kernel.line("__syncthreads();");
        kernel.line("float more = 0.0f;");
        kernel.line(format!("for (int j = 0; j < {KEYS}; j++) more += weight[j];"));
        kernel.line("sum = sum * rescale + more;");
        kernel.line("most = higher;");
        kernel.line(format!(
            "const int from = max_int(0, start - first), to = min_int({KEYS}, here - first + 1);"
        ));
        kernel.line("#pragma unroll");
        kernel.line(format!("for (int v = 0; v < {per_thread}; v++) {{"));
        kernel.line(format!("const int x = threadIdx.x + v * {THREADS};"));
        kernel.line(format!("if (x < {values}) {{"));
        kernel.line("float added = 0.0f;");
        let inner = decode(kernel, "x", &site.value_dims);
        kernel.line("for (int j = from; j < to; j++) {");
        axes[site.heads.len()] = "(first + j)".into();
        let unused: Vec<String> = site.key_dims.iter().map(|_| "0".to_string()).collect();
        let all = [&axes[..], &unused, &inner].concat();
        let value = self.element(kernel, scope, traps, &site.value, all, Some("value_row[j]"));
        kernel.line(format!("added = fmaf(weight[j], {value}, added);"));
        kernel.line("}");
        kernel.line("kept[v] = kept[v] * rescale + added;");
        kernel.line("}");
        kernel.line("}");
        kernel.line("}");
        if let Some(sink) = &site.sink {
            axes[site.heads.len()] = "0".into();
            let sink = Writer::new(kernel, scope, traps, site.node).with_axes(axes.clone()).expr(sink).text;
            kernel.line(format!("sum += expf({sink} - most);"));
        }
        kernel.line(format!("for (int v = 0; v < {per_thread}; v++) {{"));
        kernel.line(format!("const int x = threadIdx.x + v * {THREADS};"));
        kernel.line(format!("if (x < {values}) {{"));
        let inner = decode(kernel, "x", &site.value_dims);
        // Site axes of the result are the heads, then the values; each is carried by one axis of the node.
        let shape = scope.graph.shape(site.node).unwrap_or_default();
        let mut names = vec!["0".to_string(); shape.len()];
        for (name, &axis) in axes[..site.heads.len()].iter().chain(&inner).zip(&site.result_axes) {
            names[axis].clone_from(name);
        }
        let to = Writer::new(kernel, scope, traps, site.node).element_of(site.node, &flat(&names, &shape));
        kernel.line(assign(&to, Element::F32, "(kept[v] / sum)"));
        kernel.line("}");
        kernel.line("}");
        kernel.line("}");
    }

    /// The element of an operand, of a row at an address where it is a history's.
    fn element(
        &self,
        kernel: &mut Kernel,
        scope: &Scope<'_>,
        traps: &mut Traps,
        operand: &Operand,
        axes: Vec<String>,
        row: Option<&str>,
    ) -> String {
        let source = match operand.source {
            Source::Node(node) => node,
            Source::History(history) => scope.graph.histories()[history.index()].row,
            Source::Chain(_) => return "0.0f".into(),
        };
        let mut writer = Writer::new(kernel, scope, traps, self.attention.node).with_axes(axes);
        let site = &self.attention;
        // The depth has no bound that is known here.
        let extents = [&site.heads[..], &[usize::MAX], &site.key_dims, &site.value_dims].concat();
        let flat = writer.place(operand, source, &extents);
        match row {
            Some(row) => format!("((const float*){row})[{flat}]"),
            None => writer.element_of(source, &flat),
        }
    }
}
