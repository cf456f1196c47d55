//! Rotary positions: inverse frequencies and the factor of cosines and sines, with every scaling in use.
//!
//! GGUF files have other words: see `rope_gguf.rs`. Source: Hugging Face's `rope_parameters` (and the older `rope_theta`, `rope_scaling`) of `config.json`; the scalings
//! of Llama 3 and YaRN (Peng et al., 2023).

use std::f64::consts::PI;
use std::sync::Arc;

use crate::config::{Config, Json, key};
use crate::error::ModelError;
use crate::mapper::Mapper;
use crate::rope_gguf;

/// What a program needs to turn queries and keys.
#[derive(Clone, Debug)]
pub(crate) struct Rope {
    /// One for each pair of turned values.
    pub inv_freq: Arc<[f32]>,
    /// What cosines and sines are multiplied with.
    pub scale: f64,
}

/// The rotary positions of some layers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// The section of `config.json`.
    pub section: &'static str,
    /// The key of theta in GGUF files.
    pub base: &'static str,
    /// Theta when a `config.json` does not say it.
    pub theta: f64,
    /// Whether a GGUF file's scaling is meant for these layers.
    pub scaled: bool,
}

impl Kind {
    /// Those of all layers alike.
    pub(crate) const fn all(theta: f64) -> Kind {
        Kind { section: "rope_parameters", base: "rope.freq_base", theta, scaled: true }
    }
}

/// Reads the rotary positions of heads; binds `R`, how many values of a head turn.
pub(crate) fn head_rope(mapper: &mut Mapper<'_>, kind: Kind) -> Result<Rope, ModelError> {
    let head_dim = head_dim(mapper.config())?;
    let (rotated, rope) = match mapper.config() {
        Config::Json(json) => {
            let rotated = rotated(json, kind.section, head_dim)?;
            (rotated, rope(json, kind.section, rotated, kind.theta)?)
        }
        Config::Gguf(gguf) => {
            let rotated = rope_gguf::rotated(gguf, head_dim)?;
            (rotated, rope_gguf::rope(mapper, gguf, rotated, kind)?)
        }
    };
    mapper.dim("R", rotated);
    Ok(rope)
}

/// Values of the largest head: frequencies are computed for each pair of them before any weight is looked at.
const LARGEST_HEAD: usize = 1 << 16;

/// Values of a query or key head.
pub(crate) fn head_dim(config: Config<'_>) -> Result<usize, ModelError> {
    let hidden = config.size(key("hidden_size", "embedding_length"))?;
    let heads = config.size(key("num_attention_heads", "attention.head_count"))?;
    let head_key = key("head_dim", "attention.key_length");
    let head_dim = config.size_or(head_key, hidden / heads)?;
    if head_dim > LARGEST_HEAD {
        let key = if config.has(head_key) { head_key } else { key("hidden_size", "embedding_length") };
        return Err(config.senseless(key, format!("heads of at most {LARGEST_HEAD} values")));
    }
    let values = key("", "attention.value_length");
    if config.size_or(values, head_dim)? != head_dim {
        return Err(config.senseless(values, format!("{head_dim}, as a key has")));
    }
    Ok(head_dim)
}

/// Reads a value of the section, or of the places where older files have it.
struct Section<'a> {
    config: Json<'a>,
    section: &'a str,
}

impl Section<'_> {
    fn key(&self, name: &str) -> Option<String> {
        [self.section, "rope_scaling"]
            .iter()
            .map(|section| format!("{section}.{name}"))
            .find(|key| self.config.get(key).is_some())
    }

    fn number(&self, name: &str) -> Result<f64, ModelError> {
        match self.key(name) {
            Some(key) => self.config.number(&key),
            None => self.config.number(&format!("{}.{name}", self.section)),
        }
    }

    fn number_or(&self, name: &str, absent: f64) -> Result<f64, ModelError> {
        self.key(name).map_or(Ok(absent), |key| self.config.number(&key))
    }

    fn positive(&self, name: &str) -> Result<f64, ModelError> {
        let value = self.number(name)?;
        if value > 0.0 {
            return Ok(value);
        }
        let key = self.key(name).unwrap_or_else(|| name.to_owned());
        Err(self.config.senseless(&key, "a number above zero"))
    }
}

/// How many values of a head turn: `partial_rotary_factor` of its size, all of it when there is none.
fn rotated(config: Json<'_>, section: &str, head_dim: usize) -> Result<usize, ModelError> {
    let nested = format!("{section}.partial_rotary_factor");
    let key = if config.get(&nested).is_some() { nested.as_str() } else { "partial_rotary_factor" };
    let rotated = (config.number_or(key, 1.0)? * head_dim as f64).round();
    if rotated < 2.0 || rotated > head_dim as f64 || rotated % 2.0 != 0.0 {
        return Err(
            config.senseless(key, format!("a part of a head of {head_dim} values, even and not empty"))
        );
    }
    Ok(rotated as usize)
}

/// Reads the rotary positions of one section for `rotated` values of a head.
fn rope(config: Json<'_>, section: &str, rotated: usize, default_theta: f64) -> Result<Rope, ModelError> {
    for part in [section.split('.').next().unwrap_or(section), "rope_scaling"] {
        if config.get(part).is_some_and(|value| !value.is_object()) {
            return Err(config.senseless(part, "an object"));
        }
    }
    let section = Section { config, section };
    let theta = match section.key("rope_theta") {
        Some(_) => section.positive("rope_theta")?,
        None => match config.number_or("rope_theta", default_theta)? {
            theta if theta > 0.0 => theta,
            _ => return Err(config.senseless("rope_theta", "a number above zero")),
        },
    };
    let kind = ["rope_type", "type"]
        .iter()
        .find_map(|name| section.key(name))
        .map_or(Ok("default"), |key| config.text(&key))?;
    let plain = (0..rotated / 2).map(|pair| theta.powf(-2.0 * pair as f64 / rotated as f64));
    let mut scale = 1.0;
    let frequencies: Vec<f64> = match kind {
        "default" | "mrope" => plain.collect(),
        "linear" => {
            let factor = section.positive("factor")?;
            plain.map(|frequency| frequency / factor).collect()
        }
        "llama3" => llama3(&section, plain)?,
        "yarn" => {
            let (frequencies, factor) = yarn(&section, theta, rotated, plain)?;
            scale = factor;
            frequencies
        }
        _ => {
            let key = section.key("rope_type").or(section.key("type")).unwrap_or_default();
            return Err(config.senseless(&key, "default, linear, llama3 or yarn"));
        }
    };
    Ok(Rope { inv_freq: frequencies.into_iter().map(|frequency| frequency as f32).collect(), scale })
}

/// Long waves are slowed by `factor`, short ones kept, those between blended.
fn llama3(section: &Section<'_>, plain: impl Iterator<Item = f64>) -> Result<Vec<f64>, ModelError> {
    let factor = section.positive("factor")?;
    let (low, high) = (section.positive("low_freq_factor")?, section.positive("high_freq_factor")?);
    let context = section.positive("original_max_position_embeddings")?;
    let scaled = |frequency: f64| {
        let waves = context * frequency / (2.0 * PI);
        if waves < low {
            frequency / factor
        } else if waves > high {
            frequency
        } else {
            let smooth = (waves - low) / (high - low);
            (1.0 - smooth) * frequency / factor + smooth * frequency
        }
    };
    Ok(plain.map(scaled).collect())
}

/// Interpolation for waves that turn less than `beta_slow` times within the original context, none for those that turn
/// more than `beta_fast` times, a ramp between.
fn yarn(
    section: &Section<'_>,
    theta: f64,
    rotated: usize,
    plain: impl Iterator<Item = f64>,
) -> Result<(Vec<f64>, f64), ModelError> {
    let factor = section.positive("factor")?;
    let context = match section.key("original_max_position_embeddings") {
        Some(_) => section.positive("original_max_position_embeddings")?,
        None => section.config.size("max_position_embeddings")? as f64,
    };
    let turns = [section.number_or("beta_fast", 32.0)?, section.number_or("beta_slow", 1.0)?];
    let frequencies = yarn_frequencies(factor, context, turns, theta, rotated, plain);
    Ok((frequencies, section.number_or("attention_factor", yarn_scale(factor))?))
}

/// What YaRN raises the attention by, as its authors fitted it.
pub(crate) fn yarn_scale(factor: f64) -> f64 {
    if factor > 1.0 { 0.1 * factor.ln() + 1.0 } else { 1.0 }
}

/// The frequencies of YaRN: `turns` are those within the original context from which and to which the ramp goes.
pub(crate) fn yarn_frequencies(
    factor: f64,
    context: f64,
    turns: [f64; 2],
    theta: f64,
    rotated: usize,
    plain: impl Iterator<Item = f64>,
) -> Vec<f64> {
    let size = rotated as f64;
    let pair_of = |turns: f64| size * (context / (turns * 2.0 * PI)).ln() / (2.0 * theta.ln());
    let low = pair_of(turns[0]).floor().max(0.0);
    let high = pair_of(turns[1]).ceil().min(size - 1.0);
    let width = if high > low { high - low } else { 0.001 };
    let interpolate = |(pair, frequency): (usize, f64)| {
        let interpolated = ((pair as f64 - low) / width).clamp(0.0, 1.0);
        frequency / factor * interpolated + frequency * (1.0 - interpolated)
    };
    plain.enumerate().map(interpolate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, rotated: usize) -> Rope {
        let value = serde_json::from_str(text).unwrap();
        rope(Json::of(&value), "rope_parameters", rotated, 10_000.0).unwrap()
    }

    #[test]
    fn llama3_keeps_short_waves_and_slows_long_ones() {
        let rope = read(
            r#"{"rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}}"#,
            16,
        );
        assert_eq!(rope.inv_freq[0], 1.0);
        let slowest = 500_000f64.powf(-14.0 / 16.0) / 8.0;
        assert!((f64::from(rope.inv_freq[7]) / slowest - 1.0).abs() < 1e-6);
    }

    #[test]
    fn yarn_interpolates_the_slow_half_and_raises_the_attention() {
        let rope = read(
            r#"{"rope_theta": 10000.0, "max_position_embeddings": 4096,
                "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}}"#,
            64,
        );
        assert_eq!(rope.inv_freq[0], 1.0);
        let slowest = 10_000f64.powf(-62.0 / 64.0) / 4.0;
        assert!((f64::from(rope.inv_freq[31]) / slowest - 1.0).abs() < 1e-6);
        assert!((rope.scale - (0.1 * 4f64.ln() + 1.0)).abs() < 1e-12);
    }

    #[test]
    fn what_turns_nothing_sensible_is_refused() {
        for text in [
            r#"{"rope_theta": 0}"#,
            r#"{"rope_theta": -1.0}"#,
            r#"{"rope_parameters": {"rope_theta": 0}}"#,
            r#"{"rope_parameters": []}"#,
            r#"{"rope_scaling": 7}"#,
            r#"{"rope_scaling": {"type": "magic"}}"#,
        ] {
            let value = serde_json::from_str(text).unwrap();
            assert!(rope(Json::of(&value), "rope_parameters", 8, 10_000.0).is_err(), "{text}");
        }
    }
}
