//! Pieces of chains, and trees, solved at once.
//!
//! Prompt rows are cut at absolute multiples of 64. Other rows of a chain are taken together, up to as many; one by itself
//! is a plain step, as in the serial form, and so are the nodes of a tree that is larger.

use fiddlehead_graph::queries::ReadoutOf;

use super::{COLUMNS, DeltaSite};
use crate::emit::kernel::Kernel;

/// `DELTA_PIECE` and `DELTA_TILE` of the kernel.
const PIECE: usize = 64;
const TILE: usize = 16;

/// Bytes of a `DeltaPiece`, rounded up.
pub(super) fn shared_bytes(keys: usize) -> usize {
    let rows = TILE * (keys.next_multiple_of(16) + 4);
    let others = rows.max(4 * TILE * COLUMNS);
    let nodes = PIECE * COLUMNS + PIECE * (PIECE + 1) / 2 + PIECE * 6;
    4 * (rows + others + nodes + TILE * (TILE + 4)) + 16
}

impl DeltaSite {
    /// Goes through a session's part piece by piece.
    pub(super) fn pieces(&self, kernel: &mut Kernel, number: &str) {
        let (keys, values, row) = (self.delta.key_dim, self.delta.value_dim, self.row_words());
        kernel.line("for (int first = from; first < end;) {");
        kernel.line("const int count = delta_count(b, segment, first, end);");
        kernel.line("if (count > DELTA_PIECE || (chain && b->prompt_run[first] == -1)) {");
        self.walk(kernel, number, "first", "first + count");
        kernel.line("} else {");
        kernel.line("delta_begin(b, piece, first, count, chain, decay, beta);");
        kernel
            .line(format!("float* const rows = kept ? kept + (long long)(first - from) * {row} : nullptr;"));
        kernel.line(format!(
            "delta_solve<{}, {keys}, {values}>(piece, S, first, count, chain, j, key, value, rows, {row});",
            self.decayed()
        ));
        for (of, own) in [(ReadoutOf::Incoming, false), (ReadoutOf::Next, true)] {
            for place in self.of(of) {
                kernel.line(format!(
                    "delta_answer<{own}>(piece, S, first, count, key, query{place}, out{place});"
                ));
            }
        }
        kernel.line("if (chain) delta_advance(piece, S, first, count, key);");
        kernel.line("if (chain && first + count == end)");
        let next = format!("(float*)state_out(b, (int){number}, end - 1)");
        kernel.line(format!("    delta_store<{keys}>(S, {next}, word, live);"));
        kernel.line("}");
        kernel.line("first += count;");
        kernel.line("__syncthreads();");
        kernel.line("}");
    }
}
