//! The experts of a layer, stored one by one or together.

use crate::config::key;
use crate::error::ModelError;
use crate::mapper::Mapper;
use crate::names::{Field, Names, Transform};

pub(crate) const ROUTER: &[Field] = &[Field::plain("router", "mlp.gate.weight", "ffn_gate_inp.weight")];

/// Binds the router and the experts of a layer, and (once for all layers alike) their sizes.
///
/// Accepted are one tensor an expert and weight (`experts.3.gate_proj`, `[F, D]`), fused tensors of all experts
/// (`experts.gate_up_proj`, `[E, 2F, D]`; `experts.down_proj`, `[E, D, F]`), and GGUF's of all experts
/// (`ffn_gate_exps`, `[E, F, D]`).
pub(crate) fn experts(mapper: &mut Mapper<'_>, path: &str, tensors: &str) -> Result<(), ModelError> {
    let config = mapper.config();
    let mut experts = key("num_experts", "expert_count");
    if !config.has(experts) {
        experts.json = "num_local_experts";
    }
    let used = key("num_experts_per_tok", "expert_used_count");
    let (count, picked) = (config.size(experts)?, config.size(used)?);
    if picked > count {
        return Err(config.senseless(used, format!("at most {count}, as many experts as there are")));
    }
    if count > 65536 {
        return Err(config.senseless(experts, "at most 65536"));
    }
    let scale = key("", "expert_weights_scale");
    if config.number_or(scale, 1.0)? != 1.0 {
        return Err(config.senseless(scale, "1"));
    }
    let width = config.size(key("moe_intermediate_size", "expert_feed_forward_length"))?;
    mapper.dim("E", count);
    mapper.dim("T", picked);
    mapper.dim("F", width);
    mapper.flag("normalise", config.flag_or(key("norm_topk_prob", "expert_weights_norm"), true)?);
    mapper.fields(path, tensors, ROUTER)?;
    match mapper.names() {
        Names::HuggingFace { .. } => hugging_face(mapper, path, tensors, count, width),
        Names::Gguf => gguf(mapper, path, tensors),
    }
}

fn hugging_face(
    mapper: &mut Mapper<'_>,
    path: &str,
    tensors: &str,
    count: usize,
    width: usize,
) -> Result<(), ModelError> {
    let fused = format!("{tensors}mlp.experts.gate_up_proj");
    if mapper.has(&fused) {
        mapper.rows_of_each(format!("{path}gate"), &fused, 0..width)?;
        mapper.rows_of_each(format!("{path}up"), &fused, width..2 * width)?;
        let down = format!("{tensors}mlp.experts.down_proj");
        return mapper.weight(format!("{path}down"), &down, Transform::None);
    }
    for (field, tensor) in [("gate", "gate_proj"), ("up", "up_proj"), ("down", "down_proj")] {
        let names: Vec<String> =
            (0..count).map(|expert| format!("{tensors}mlp.experts.{expert}.{tensor}.weight")).collect();
        mapper.stack(format!("{path}{field}"), &names)?;
    }
    Ok(())
}

fn gguf(mapper: &mut Mapper<'_>, path: &str, tensors: &str) -> Result<(), ModelError> {
    for field in ["gate", "up", "down"] {
        mapper.weight(
            format!("{path}{field}"),
            &format!("{tensors}ffn_{field}_exps.weight"),
            Transform::None,
        )?;
    }
    Ok(())
}
