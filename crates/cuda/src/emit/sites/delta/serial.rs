//! Node after node, in depth-first order.

use fiddlehead_graph::queries::{Delta, ReadoutOf};

use super::{COLUMNS, DeltaSite};
use crate::emit::kernel::Kernel;

/// Bytes of a `DeltaStep`.
pub(super) fn shared_bytes(delta: &Delta) -> usize {
    let queries = delta.readouts.len().max(1);
    let width = delta.key_dim.next_multiple_of(16);
    4 * (2 * width * (1 + queries) + (queries + 1) * 4 * COLUMNS)
}

impl DeltaSite {
    /// Walks the nodes `from .. to` of a session's part; its first node's incoming state is in `S`. A node that does not
    /// follow its parent takes the state that was put aside after that, or the session's.
    pub(super) fn walk(&self, kernel: &mut Kernel, number: &str, from: &str, to: &str) {
        let (keys, values) = (self.delta.key_dim, self.delta.value_dim);
        let queries = 0..self.delta.readouts.len();
        let ask = |kernel: &mut Kernel, node: &str| {
            kernel.line(format!("asked_key.ask({node}, key);"));
            queries.clone().for_each(|place| kernel.line(format!("asked{place}.ask({node}, query{place});")));
            kernel.line(format!("asked_factor = decay({node}), asked_strength = beta({node});"));
            kernel.line(format!("asked_target = live ? value({node}, j) : 0.0f;"));
        };
        kernel.line(format!("DeltaRow<{keys}> asked_key;"));
        queries.clone().for_each(|place| kernel.line(format!("DeltaRow<{keys}> asked{place};")));
        kernel.line("float asked_factor, asked_strength, asked_target;");
        ask(kernel, from);
        kernel.line(format!("for (int node = {from}; node < {to}; node++) {{"));
        let incoming = format!("(const float*)state_in(b, (int){number}, node)");
        kernel.line("if (!chain && node != from && b->parent[node] != node - 1)");
        kernel.line(format!("    delta_load<{keys}>(S, {incoming}, word, live);"));
        kernel.line("asked_key.put(step.key[node & 1]);");
        for place in queries.clone() {
            kernel.line(format!("asked{place}.put(step.query[node & 1][{place}]);"));
        }
        kernel.line("const float factor = asked_factor, strength = asked_strength, target = asked_target;");
        kernel.line(format!("if (node + 1 < {to}) {{"));
        ask(kernel, "node + 1");
        kernel.line("}");
        kernel.line("__syncthreads();");
        kernel.line("if (kept) {");
        kernel.line(format!("float* const row = kept + (long long)(node - from) * {};", self.row_words()));
        kernel.line(format!("for (int k = threadIdx.x; slice == 0 && k < {keys}; k += DELTA_THREADS)"));
        kernel.line("    row[k] = step.key[node & 1][k];");
        kernel.line("if (delta_group() == 0)");
        kernel.line(format!("    delta_keep_value<{keys}, {values}>(row, j, target, factor, strength);"));
        kernel.line("}");
        self.of(ReadoutOf::Incoming).for_each(|place| read(kernel, place));
        kernel.line(format!(
            "delta_correct<{}, {keys}>(S, step.key[node & 1], factor, strength, target, step.parts[0]);",
            self.decayed()
        ));
        self.of(ReadoutOf::Next).for_each(|place| read(kernel, place));
        // A chain leaves the value after its last node, a tree those after the nodes that it branches at.
        kernel.line("if (!chain || node + 1 == end) {");
        kernel.line(format!("float* const next = (float*)state_out(b, (int){number}, node);"));
        kernel.line(format!("if (next) delta_store<{keys}>(S, next, word, live);"));
        kernel.line("}");
        kernel.line("}");
    }
}

fn read(kernel: &mut Kernel, place: usize) {
    kernel.line("{");
    kernel.line(format!(
        "const float read = delta_read(S, step.query[node & 1][{place}], step.parts[{}]);",
        place + 1
    ));
    kernel.line(format!("if (delta_group() == 0) out{place}(node, read);"));
    kernel.line("}");
}
