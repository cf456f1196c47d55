//! Rotary positions in the words of GGUF files.
//!
//! Llama 3's scaling is no formula there but a tensor, `rope_freqs.weight`, that divides the frequencies.

use crate::config::Gguf;
use crate::error::ModelError;
use crate::mapper::Mapper;
use crate::rope::{Kind, Rope, yarn_frequencies, yarn_scale};

const FACTORS: &str = "rope_freqs.weight";
/// Theta where a file does not say it.
const THETA: f64 = 10_000.0;

/// How many values of a head turn: all where the file does not say.
pub(crate) fn rotated(config: Gguf<'_>, head_dim: usize) -> Result<usize, ModelError> {
    let key = "rope.dimension_count";
    let rotated = if config.get(key).is_some() { config.size(key)? } else { head_dim };
    if rotated > head_dim || !rotated.is_multiple_of(2) {
        return Err(config.senseless(key, format!("an even number up to {head_dim}, the size of a head")));
    }
    Ok(rotated)
}

/// Reads the rotary positions of some layers for `rotated` values of a head.
pub(crate) fn rope(
    mapper: &Mapper<'_>,
    config: Gguf<'_>,
    rotated: usize,
    kind: Kind,
) -> Result<Rope, ModelError> {
    // Gemma's layers of a window have a theta of their own, which old files do not hold: it is the common one.
    let theta = positive(config, kind.base, Some(THETA))?;
    let plain = (0..rotated / 2).map(|pair| theta.powf(-2.0 * pair as f64 / rotated as f64));
    let mut scale = 1.0;
    let factor = "rope.scaling.factor";
    let old_factor = "rope.scale_linear";
    let scaling = match config.text("rope.scaling.type")? {
        _ if !kind.scaled => "none",
        Some(scaling) => scaling,
        // A factor without a word about its kind is linear.
        None if config.get(factor).is_some() || config.get(old_factor).is_some() => "linear",
        None => "none",
    };
    let mut frequencies: Vec<f64> = match scaling {
        "none" => plain.collect(),
        "linear" => {
            let key = if config.get(factor).is_some() { factor } else { old_factor };
            let factor = positive(config, key, None)?;
            plain.map(|frequency| frequency / factor).collect()
        }
        "yarn" => {
            let factor = positive(config, factor, None)?;
            let trained = config.number_or("context_length", 0.0)?;
            let context =
                positive(config, "rope.scaling.original_context_length", Some(trained).filter(|&t| t > 0.0))?;
            let turns = [
                positive(config, "rope.scaling.yarn_beta_fast", Some(32.0))?,
                positive(config, "rope.scaling.yarn_beta_slow", Some(1.0))?,
            ];
            scale = yarn_scale(factor) * positive(config, "rope.scaling.attn_factor", Some(1.0))?;
            yarn_frequencies(factor, context, turns, theta, rotated, plain)
        }
        _ => return Err(config.senseless("rope.scaling.type", "none, linear or yarn")),
    };
    if kind.scaled
        && let Some(factors) = mapper.values(FACTORS)?
    {
        if factors.len() != frequencies.len() || !factors.iter().all(|&factor| factor > 0.0) {
            let why = format!("{} numbers above zero are wanted, one for each pair", frequencies.len());
            return Err(ModelError::Values { tensor: FACTORS.to_owned(), why });
        }
        frequencies.iter_mut().zip(factors).for_each(|(frequency, factor)| *frequency /= f64::from(factor));
    }
    Ok(Rope { inv_freq: frequencies.into_iter().map(|frequency| frequency as f32).collect(), scale })
}

/// A number above zero.
fn positive(config: Gguf<'_>, key: &str, absent: Option<f64>) -> Result<f64, ModelError> {
    let value = match absent {
        Some(absent) => config.number_or(key, absent)?,
        None => config.number(key)?,
    };
    if value > 0.0 { Ok(value) } else { Err(config.senseless(key, "a number above zero")) }
}
