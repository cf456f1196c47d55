//! Which format each tensor gets.

use fiddlehead_storage::Format;

use crate::QuantizeError;

/// A format for all matrices, or a mixture: a format for most and better ones for those that matter more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    name: &'static str,
    base: Format,
    mixture: Mixture,
    /// The number that GGUF files have for it (`general.file_type`).
    file_type: u32,
}

/// What gets a better format than the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mixture {
    /// Nothing.
    Pure,
    /// The output head.
    Small,
    /// The output head, and in the layers that matter more the values of attention and the way out of the feed-forward
    /// block.
    Medium,
}

const RECIPES: [Recipe; 20] = [
    pure("f32", Format::F32, 0),
    pure("f16", Format::F16, 1),
    pure("bf16", Format::BF16, 32),
    pure("q8_0", Format::Q8_0, 7),
    pure("q6_k", Format::Q6_K, 18),
    pure("q5_k", Format::Q5_K, 16),
    pure("q5_1", Format::Q5_1, 9),
    pure("q5_0", Format::Q5_0, 8),
    pure("q4_k", Format::Q4_K, 14),
    pure("q4_1", Format::Q4_1, 3),
    pure("q4_0", Format::Q4_0, 2),
    pure("iq4_nl", Format::IQ4_NL, 25),
    pure("iq4_xs", Format::IQ4_XS, 30),
    pure("q3_k", Format::Q3_K, 11),
    pure("q2_k", Format::Q2_K, 10),
    Recipe { name: "q5_k_m", base: Format::Q5_K, mixture: Mixture::Medium, file_type: 17 },
    Recipe { name: "q5_k_s", base: Format::Q5_K, mixture: Mixture::Small, file_type: 16 },
    Recipe { name: "q4_k_m", base: Format::Q4_K, mixture: Mixture::Medium, file_type: 15 },
    Recipe { name: "q4_k_s", base: Format::Q4_K, mixture: Mixture::Small, file_type: 14 },
    Recipe { name: "q3_k_m", base: Format::Q3_K, mixture: Mixture::Medium, file_type: 12 },
];

const fn pure(name: &'static str, base: Format, file_type: u32) -> Recipe {
    Recipe { name, base, mixture: Mixture::Pure, file_type }
}

/// What decides about a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub name: &'a str,
    pub shape: &'a [usize],
    pub layers: usize,
    /// Whether the embedding is the output head too.
    pub tied: bool,
}

impl Recipe {
    /// The recipe of a name, in any case.
    ///
    /// # Errors
    /// When there is none; the message lists all.
    pub fn from_name(name: &str) -> Result<Recipe, QuantizeError> {
        RECIPES.iter().find(|recipe| recipe.name.eq_ignore_ascii_case(name)).copied().ok_or_else(|| {
            let known = Recipe::names().collect::<Vec<_>>().join(", ");
            QuantizeError::UnknownFormat { name: name.chars().take(80).collect(), known }
        })
    }

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        RECIPES.iter().map(|recipe| recipe.name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Its number in GGUF files.
    pub fn file_type(self) -> u32 {
        self.file_type
    }

    /// The format that a tensor should have, whatever its rows allow.
    pub(crate) fn wanted(self, place: Place<'_>) -> Format {
        if !is_quantised(place.name, place.shape) {
            return Format::F32;
        }
        let is_head = place.name == "output.weight" || (place.tied && place.name == "token_embd.weight");
        match self.mixture {
            Mixture::Pure => self.base,
            _ if is_head => Format::Q6_K,
            Mixture::Small => self.base,
            Mixture::Medium => self.better(place).unwrap_or(self.base),
        }
    }

    /// The better format of a layer's tensor, where it gets one.
    fn better(self, place: Place<'_>) -> Option<Format> {
        let (layer, tensor) = place.name.strip_prefix("blk.")?.split_once('.')?;
        let layer: usize = layer.parse().ok()?;
        let tensor = tensor.strip_suffix(".weight")?;
        let values = matches!(tensor, "attn_v" | "attn_qkv");
        let down = tensor.starts_with("ffn_down");
        if self.base == Format::Q3_K {
            return match tensor {
                "attn_output" | "ssm_out" => Some(Format::Q4_K),
                _ if values => Some(if layer < 2 { Format::Q5_K } else { Format::Q4_K }),
                _ if down && layer < place.layers / 16 => Some(Format::Q5_K),
                _ if down && matters_more(layer, place.layers) => Some(Format::Q4_K),
                _ => None,
            };
        }
        ((values || down) && matters_more(layer, place.layers)).then_some(Format::Q6_K)
    }
}

/// The first and the last eighth of the layers, and every third between: as llama.cpp's mixtures have it.
fn matters_more(layer: usize, layers: usize) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
}

/// Whether a tensor is quantised at all: matrices are, apart from small ones whose errors would weigh more than their
/// bytes.
fn is_quantised(name: &str, shape: &[usize]) -> bool {
    const KEPT: [&str; 3] = ["ffn_gate_inp", "ssm_conv1d", "rope_freqs"];
    let tensor = name.strip_suffix(".weight");
    shape.len() >= 2
        && tensor.is_some_and(|tensor| {
            !tensor.ends_with("_norm") && !KEPT.iter().any(|kept| tensor.contains(kept))
        })
}

/// The format that a row of so many values can have: the wanted one, or the nearest that costs no more error.
pub(crate) fn fitting(wanted: Format, row: usize) -> Format {
    if row.is_multiple_of(wanted.block_elements()) {
        return wanted;
    }
    let smaller = match wanted {
        Format::Q2_K | Format::Q3_K | Format::IQ4_XS => Format::IQ4_NL,
        Format::Q4_K => Format::Q5_0,
        Format::Q5_K => Format::Q5_1,
        Format::Q6_K => Format::Q8_0,
        _ => Format::F16,
    };
    if row.is_multiple_of(smaller.block_elements()) { smaller } else { Format::F16 }
}

/// A format for the tensors whose names fit a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    pattern: String,
    format: Format,
}

impl Override {
    /// Reads `PATTERN=FORMAT`. `*` stands for any text; a pattern without one fits every name that holds it.
    ///
    /// # Errors
    /// When there is no `=` with a pattern before it, or no format of that name.
    pub fn parse(text: &str) -> Result<Override, QuantizeError> {
        let parts = text.split_once('=').filter(|(pattern, _)| !pattern.is_empty());
        let Some((pattern, format)) = parts else {
            return Err(QuantizeError::BadOverride { text: text.chars().take(80).collect() });
        };
        let recipe = Recipe::from_name(format)?;
        if recipe.mixture != Mixture::Pure {
            let pure =
                RECIPES.iter().filter(|recipe| recipe.mixture == Mixture::Pure).map(|recipe| recipe.name);
            let known = pure.collect::<Vec<_>>().join(", ");
            return Err(QuantizeError::UnknownFormat { name: format.to_owned(), known });
        }
        Ok(Override { pattern: pattern.to_owned(), format: recipe.base })
    }

    /// The pattern.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether a name fits.
    pub fn fits(&self, name: &str) -> bool {
        if !self.pattern.contains('*') {
            return name.contains(&self.pattern);
        }
        let mut parts = self.pattern.split('*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
        let mut parts = parts.peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return rest.ends_with(part);
            }
            // The earliest place leaves the most for the parts behind it.
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let fits =
            |pattern: &str, name: &str| Override::parse(&format!("{pattern}=q8_0")).unwrap().fits(name);
        assert!(fits("ffn_down", "blk.3.ffn_down.weight"));
        assert!(fits("blk.*.attn_v.weight", "blk.12.attn_v.weight"));
        assert!(fits("*", "output.weight"));
        assert!(fits("*down*", "blk.3.ffn_down.weight"));
        assert!(!fits("attn_*", "blk.0.attn_v.weight"));
        assert!(!fits("blk.*.attn_v", "blk.12.attn_v.weight"));
        assert!(!fits("*ab*ab", "xab"));
        assert!(!fits("ab*ab", "ab"), "the ends do not share text");
        assert!(Override::parse("=q8_0").is_err());
        assert!(Override::parse("ffn_down").is_err());
        assert!(Override::parse("ffn_down=q4_k_m").is_err());
    }

    #[test]
    fn rows_that_no_block_fits_get_the_next_better_format() {
        for (wanted, row, format) in [
            (Format::Q4_K, 576, Format::Q5_0),
            (Format::Q6_K, 576, Format::Q8_0),
            (Format::Q5_K, 576, Format::Q5_1),
            (Format::Q3_K, 96, Format::IQ4_NL),
            (Format::Q4_K, 80, Format::F16),
            (Format::Q4_0, 80, Format::F16),
            (Format::Q4_K, 512, Format::Q4_K),
            (Format::F32, 7, Format::F32),
        ] {
            assert_eq!(fitting(wanted, row), format, "{wanted} of {row}");
        }
    }

    #[test]
    fn a_mixture_gives_more_to_what_matters_more() {
        let recipe = Recipe::from_name("Q4_K_M").unwrap();
        let wanted =
            |name: &str, tied: bool| recipe.wanted(Place { name, shape: &[512, 512], layers: 16, tied });
        assert_eq!(wanted("output.weight", false), Format::Q6_K);
        assert_eq!(wanted("token_embd.weight", false), Format::Q4_K);
        assert_eq!(wanted("token_embd.weight", true), Format::Q6_K);
        assert_eq!(wanted("blk.0.ffn_down.weight", true), Format::Q6_K);
        assert_eq!(wanted("blk.2.ffn_down.weight", true), Format::Q4_K);
        assert_eq!(wanted("blk.0.ffn_up.weight", true), Format::Q4_K);
        assert_eq!(wanted("blk.0.ffn_gate_inp.weight", true), Format::F32);
        assert_eq!(wanted("blk.0.attn_norm.weight", true), Format::F32);
    }
}
