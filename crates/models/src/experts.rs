//! The experts of a layer, stored one by one or together.

use crate::error::ModelError;
use crate::mapper::{Mapper, Transform};

/// Binds the router and the experts of a layer, and (once for all layers alike) their sizes.
///
/// Accepted are one tensor an expert and weight (`experts.3.gate_proj`, `[F, D]`), and fused tensors of all experts
/// (`experts.gate_up_proj`, `[E, 2F, D]`; `experts.down_proj`, `[E, D, F]`).
pub(crate) fn experts(mapper: &mut Mapper<'_>, path: &str, tensors: &str) -> Result<(), ModelError> {
    let config = mapper.config();
    let key = if config.get("num_experts").is_some() { "num_experts" } else { "num_local_experts" };
    let (count, picked) = (config.size(key)?, config.size("num_experts_per_tok")?);
    if picked > count {
        return Err(config.senseless("num_experts_per_tok", format!("at most {key}")));
    }
    if count > 65536 {
        return Err(config.senseless(key, "at most 65536"));
    }
    let width = config.size("moe_intermediate_size")?;
    mapper.dim("E", count);
    mapper.dim("T", picked);
    mapper.dim("F", width);
    mapper.flag("normalise", config.flag_or("norm_topk_prob", true)?);
    mapper.weight(format!("{path}.router"), &format!("{tensors}.mlp.gate.weight"), Transform::None)?;

    let fused = format!("{tensors}.mlp.experts.gate_up_proj");
    if mapper.has(&fused) {
        mapper.rows_of_each(format!("{path}.gate"), &fused, 0..width)?;
        mapper.rows_of_each(format!("{path}.up"), &fused, width..2 * width)?;
        let down = format!("{tensors}.mlp.experts.down_proj");
        return mapper.weight(format!("{path}.down"), &down, Transform::None);
    }
    for (field, tensor) in [("gate", "gate_proj"), ("up", "up_proj"), ("down", "down_proj")] {
        let names: Vec<String> =
            (0..count).map(|expert| format!("{tensors}.mlp.experts.{expert}.{tensor}.weight")).collect();
        mapper.stack(format!("{path}.{field}"), &names)?;
    }
    Ok(())
}
