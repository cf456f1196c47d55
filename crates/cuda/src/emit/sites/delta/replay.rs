//! An accepted path walked again from what was kept of its nodes, for all states of one shape at once. The operations are
//! those of the serial walk.

use fiddlehead_graph::Graph;

use super::DeltaSite;
use crate::emit::element::decode;
use crate::emit::kernel::{Argument, Kernel};

impl DeltaSite {
    pub(in crate::emit) fn write_replay(&self, kernel: &mut Kernel, graph: &Graph) {
        let (keys, values) = (self.delta.key_dim, self.delta.value_dim);
        let path = kernel.argument(Argument::Replay);
        kernel.line(format!("__shared__ DeltaStep<{keys}, 1> step;"));
        self.open(kernel, &format!("{path}->states"), "state");
        let heads = decode(kernel, "head", &self.delta.heads);
        self.word(kernel, &heads, &graph.states()[self.state.index()].shape);
        kernel.line(format!(
            "const float* const kept = (const float*){path}->rows[state] + head * {};",
            self.head_words()
        ));
        let kept = format!("kept[(long long)node * {} +", self.row_words());
        kernel.line(format!("auto key = [&](int node, int k) -> float {{ return {kept} k]; }};"));
        kernel.line(format!("float S[DeltaSize<{keys}>::PART];"));
        kernel.line(format!("delta_load<{keys}>(S, (const float*){path}->from[state], word, live);"));
        kernel.line("__syncthreads();");
        kernel.line(format!("for (int at = 0; at < {path}->count; at++) {{"));
        kernel.line(format!("const int node = {path}->path[at];"));
        kernel.line(format!("DeltaRow<{keys}> asked;"));
        kernel.line("asked.ask(node, key);");
        kernel.line("asked.put(step.key[at & 1]);");
        kernel.line(format!("const float factor = {kept} {}];", keys + values));
        kernel.line(format!("const float strength = {kept} {}];", keys + values + 1));
        kernel.line(format!("const float target = live ? {kept} {keys} + j] : 0.0f;"));
        kernel.line("__syncthreads();");
        kernel.line(format!(
            "delta_correct<{}, {keys}>(S, step.key[at & 1], factor, strength, target, step.parts[0]);",
            self.decayed()
        ));
        kernel.line("}");
        kernel.line(format!("delta_store<{keys}>(S, (float*){path}->to[state], word, live);"));
        kernel.line("}");
    }
}
