//! Qwen3.5 with and without experts, Qwen3-Next.
//!
//! Of the first two, GGUF files have the value heads in another order: where a checkpoint has those of each key head
//! together, a file has the first of every key head, then the second of every one, and so on.

use super::writing::{Writing, expect};
use super::{ConvertedTensor, Order, Piece, experts};
use crate::error::ModelError;
use crate::fields::{ATTENTION, CENTRED_HEAD_NORMS, CENTRED_NORM, FEED_FORWARD};
use crate::frame::layer_count;
use crate::mappings::hybrid::{DELTA, DELTA_INPUTS, DRAFT, KINDS, NORMS, SHARED_EXPERT};
use crate::names::{Names, Transform};

/// Heads of the delta rule and their sizes.
#[derive(Clone, Copy)]
struct Heads {
    keys: usize,
    values: usize,
    key_dim: usize,
    value_dim: usize,
}

impl Heads {
    fn write(writing: &mut Writing<'_>) -> Result<Heads, ModelError> {
        let keys = writing.size("ssm.group_count", "linear_num_key_heads")?;
        let values = writing.size("ssm.time_step_rank", "linear_num_value_heads")?;
        if !values.is_multiple_of(keys) {
            let wanted = format!("a divisor of {values}, the value heads");
            return Err(writing.json.senseless("linear_num_key_heads", wanted));
        }
        let key_dim = writing.size("ssm.state_size", "linear_key_head_dim")?;
        let value_dim = writing.json.size("linear_value_head_dim")?;
        writing.set("ssm.inner_size", (values * value_dim) as u32);
        writing.set("ssm.conv_kernel", writing.json.size_or("linear_conv_kernel_dim", 4)? as u32);
        Ok(Heads { keys, values, key_dim, value_dim })
    }

    /// The value heads in the file's order, each of `size` rows behind `before` other rows.
    fn tiled(self, before: usize, size: usize) -> Order {
        let of_each = self.values / self.keys;
        let head = |place: usize| place % self.keys * of_each + place / self.keys;
        let values = (0..self.values * size).map(|row| before + head(row / size) * size + row % size);
        (0..before).chain(values).map(|row| row as u32).collect()
    }
}

pub(super) fn qwen3_5(writing: &mut Writing<'_>, with_experts: bool) -> Result<(), ModelError> {
    let sections = writing.json.get("rope_parameters.mrope_section").and_then(|list| {
        list.as_array()?.iter().map(|part| part.as_u64().map(|part| part as i32)).collect::<Option<Vec<_>>>()
    });
    let mut sections = sections.unwrap_or_else(|| vec![11, 11, 10]);
    sections.resize(4, 0);
    writing.set("rope.dimension_sections", &sections[..]);
    let heads = frame(writing, with_experts)?;
    let before = 2 * heads.keys * heads.key_dim;
    let (qkv, z) = (heads.tiled(before, heads.value_dim), heads.tiled(0, heads.value_dim));
    let each = heads.tiled(0, 1);
    for (from, to) in layers(writing, with_experts)? {
        writing.fields(&from, &to, DELTA_INPUTS)?;
        for (tensor, order) in [
            ("attn_qkv.weight", &qkv),
            ("ssm_conv1d.weight", &qkv),
            ("attn_gate.weight", &z),
            ("ssm_beta.weight", &each),
            ("ssm_alpha.weight", &each),
        ] {
            writing.order_rows(&format!("{to}{tensor}"), order)?;
        }
        for (tensor, order) in [("ssm_out.weight", &z), ("ssm_a", &each), ("ssm_dt.bias", &each)] {
            writing.order_columns(&format!("{to}{tensor}"), order)?;
        }
    }
    Ok(())
}

pub(super) fn qwen3_next(writing: &mut Writing<'_>) -> Result<(), ModelError> {
    let heads = frame(writing, true)?;
    for (from, to) in layers(writing, true)? {
        writing.tensor(
            format!("{to}ssm_ba.weight"),
            &format!("{from}linear_attn.in_proj_ba.weight"),
            Transform::None,
        )?;
        split_inputs(writing, heads, &from, &to)?;
    }
    Ok(())
}

/// Of each key head a checkpoint has q, k, v and z together; a file has q, k and v of all, and z apart.
fn split_inputs(writing: &mut Writing<'_>, heads: Heads, from: &str, to: &str) -> Result<(), ModelError> {
    let piece = writing.piece(&format!("{from}linear_attn.in_proj_qkvz.weight"))?;
    let (key, value) = (heads.key_dim, heads.values / heads.keys * heads.value_dim);
    let group = 2 * key + 2 * value;
    expect(&piece, "rows", piece.tensor.rows(), heads.keys * group)?;
    let part = |start: usize, size: usize| {
        (0..heads.keys).flat_map(move |head| (0..size).map(move |row| (head * group + start + row) as u32))
    };
    let qkv: Order = part(0, key).chain(part(key, key)).chain(part(2 * key, value)).collect();
    let z: Order = part(2 * key + value, value).collect();
    for (tensor, rows) in [("attn_qkv.weight", qkv), ("attn_gate.weight", z)] {
        let shape = vec![rows.len(), piece.tensor.row_elements()];
        let pieces = vec![Piece { rows: Some(rows), ..piece.clone() }];
        writing.push(ConvertedTensor {
            name: format!("{to}{tensor}"),
            shape,
            pieces,
            columns: None,
            transform: Transform::None,
        });
    }
    Ok(())
}

/// Everything that belongs to no layer.
fn frame(writing: &mut Writing<'_>, with_experts: bool) -> Result<Heads, ModelError> {
    writing.frame(CENTRED_NORM, false)?;
    writing.rope("rope_parameters", 10_000_000.0)?;
    let turning = writing.mapper.dim_of("R").unwrap_or(0);
    writing.set("rope.dimension_count", turning as u32);
    if with_experts {
        experts::sizes(writing)?;
        writing.size("expert_shared_feed_forward_length", "shared_expert_intermediate_size")?;
    }
    Heads::write(writing)
}

/// The layers and the draft head; gives the names of those with a delta rule, whose inputs are still to be written.
fn layers(writing: &mut Writing<'_>, with_experts: bool) -> Result<Vec<(String, String)>, ModelError> {
    let kinds = KINDS.of(&writing.mapper)?;
    let count = layer_count(&writing.mapper)?;
    let mut delta = Vec::new();
    for (index, &kind) in kinds.iter().enumerate() {
        let (from, to) = (writing.names().layer(index), Names::Gguf.layer(index));
        around(writing, &from, &to, with_experts)?;
        if kind == "delta" {
            writing.fields(&from, &to, DELTA)?;
            delta.push((from, to));
        } else {
            attention(writing, &from, &to)?;
        }
    }
    let drafts = draft(writing, count, with_experts)?;
    writing.set("block_count", (count + drafts) as u32);
    let mut recurrent: Vec<bool> = kinds.iter().map(|&kind| kind == "delta").collect();
    recurrent.resize(count + drafts, false);
    writing.set("attention.recurrent_layers", &recurrent[..]);
    writing.set("full_attention_interval", writing.json.size_or("full_attention_interval", 4)? as u32);
    Ok(delta)
}

fn attention(writing: &mut Writing<'_>, from: &str, to: &str) -> Result<(), ModelError> {
    writing.fields(from, to, ATTENTION)?;
    writing.fields(from, to, CENTRED_HEAD_NORMS)
}

fn around(writing: &mut Writing<'_>, from: &str, to: &str, with_experts: bool) -> Result<(), ModelError> {
    writing.fields(from, to, NORMS)?;
    if !with_experts {
        return writing.fields(from, to, FEED_FORWARD);
    }
    experts::layer(writing, from, to)?;
    writing.fields(from, to, SHARED_EXPERT)
}

/// The multi-token-prediction head as a layer behind the others; how many layers that is.
fn draft(writing: &mut Writing<'_>, count: usize, with_experts: bool) -> Result<usize, ModelError> {
    let one = writing.json.get("mtp_num_hidden_layers").and_then(|count| count.as_u64()) == Some(1);
    let own = writing.json.flag_or("mtp_use_dedicated_embeddings", false)?;
    if !one || own || !writing.mapper.has("mtp.fc.weight") {
        // A draft head of another kind only makes generating slower when it is absent.
        writing.leave_out("mtp.");
        return Ok(0);
    }
    let to = Names::Gguf.layer(count);
    attention(writing, "mtp.layers.0.", &to)?;
    around(writing, "mtp.layers.0.", &to, with_experts)?;
    writing.fields("mtp.", &to, DRAFT)?;
    writing.set("nextn_predict_layers", 1u32);
    Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_heads_are_tiled_behind_what_is_before() {
        let heads = Heads { keys: 2, values: 6, key_dim: 1, value_dim: 1 };
        assert_eq!(&heads.tiled(2, 1)[..], &[0, 1, 2, 5, 3, 6, 4, 7]);
        assert_eq!(&heads.tiled(0, 2)[..], &[0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11]);
    }
}
