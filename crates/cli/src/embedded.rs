//! The model that is built into the binary.

use fiddlehead_engine::ModelSource;

/// Weights are read in place, so the file must begin where its vectors may begin.
#[repr(C, align(64))]
struct Aligned<Bytes: ?Sized>(Bytes);

static WEIGHTS: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../models/stories-11m/model.safetensors"));

static COMPANIONS: &[(&str, &[u8])] = &[
    ("config.json", include_bytes!("../../../models/stories-11m/config.json")),
    ("generation_config.json", include_bytes!("../../../models/stories-11m/generation_config.json")),
    ("tokenizer.json", include_bytes!("../../../models/stories-11m/tokenizer.json")),
    ("tokenizer_config.json", include_bytes!("../../../models/stories-11m/tokenizer_config.json")),
];

/// Its name for people.
pub const NAME: &str = "stories-11m (built in)";

/// Where it is.
pub fn source() -> ModelSource<'static> {
    ModelSource::Embedded { weights: &WEIGHTS.0, companions: COMPANIONS }
}
