//! The experts of a layer: GGUF files have one tensor of all.

use super::writing::{Writing, expect};
use super::{ConvertedTensor, Order, Piece};
use crate::error::ModelError;
use crate::experts::ROUTER;
use crate::names::Transform;

/// How many experts there are, by either name.
fn count(writing: &Writing<'_>) -> Result<usize, ModelError> {
    let key = ["num_experts", "num_local_experts"].into_iter().find(|key| writing.json.get(key).is_some());
    writing.json.size(key.unwrap_or("num_experts"))
}

/// What the metadata says about experts.
pub(super) fn sizes(writing: &mut Writing<'_>) -> Result<(), ModelError> {
    if !writing.json.flag_or("norm_topk_prob", true)? {
        return Err(writing
            .json
            .senseless("norm_topk_prob", "true: readers of GGUF files take it for granted"));
    }
    let experts = count(writing)?;
    writing.set("expert_count", experts as u32);
    writing.size("expert_used_count", "num_experts_per_tok")?;
    writing.size("expert_feed_forward_length", "moe_intermediate_size")?;
    Ok(())
}

/// The router and the experts of a layer, whose tensors are stored one by one or fused.
pub(super) fn layer(writing: &mut Writing<'_>, from: &str, to: &str) -> Result<(), ModelError> {
    let experts = count(writing)?;
    let width = writing.json.size("moe_intermediate_size")?;
    writing.fields(from, to, ROUTER)?;
    let fused = format!("{from}mlp.experts.gate_up_proj");
    if writing.mapper.has(&fused) {
        let piece = writing.piece(&fused)?;
        expect(&piece, "rows", piece.tensor.rows(), experts * 2 * width)?;
        let rows = |first: usize| -> Order {
            (0..experts * width).map(|row| (row / width * 2 * width + first + row % width) as u32).collect()
        };
        for (name, first) in [("gate", 0), ("up", width)] {
            let piece = Piece { rows: Some(rows(first)), ..piece.clone() };
            let shape = vec![experts, width, piece.tensor.row_elements()];
            push(writing, format!("{to}ffn_{name}_exps.weight"), shape, vec![piece]);
        }
        let down = format!("{from}mlp.experts.down_proj");
        return writing.tensor(format!("{to}ffn_down_exps.weight"), &down, Transform::None);
    }
    for name in ["gate", "up", "down"] {
        let mut pieces = Vec::with_capacity(experts);
        for expert in 0..experts {
            let piece = writing.piece(&format!("{from}mlp.experts.{expert}.{name}_proj.weight"))?;
            if let Some(first) = pieces.first().map(|first: &Piece| first.tensor.shape())
                && first != piece.tensor.shape()
            {
                let why = format!("its shape differs from {first:?}, that of the first expert");
                return Err(ModelError::Values { tensor: piece.source, why });
            }
            pieces.push(piece);
        }
        let one = pieces.first().map_or(&[][..], |piece| piece.tensor.shape());
        let shape = [&[experts], one].concat();
        push(writing, format!("{to}ffn_{name}_exps.weight"), shape, pieces);
    }
    Ok(())
}

fn push(writing: &mut Writing<'_>, name: String, shape: Vec<usize>, pieces: Vec<Piece>) {
    writing.push(ConvertedTensor { name, shape, pieces, columns: None, transform: Transform::None });
}
