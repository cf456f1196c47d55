//! What an architecture is, and which one a checkpoint has.

use crate::config::Config;
use crate::error::ModelError;
use crate::mapper::Mapper;
use crate::mappings::architectures;

/// One architecture: its program and its mapping.
#[derive(Debug)]
pub struct Architecture {
    /// Its name here, which is also the name of the model in its program.
    pub name: &'static str,
    /// Its names as `model_type` in `config.json`.
    pub model_types: &'static [&'static str],
    /// Its names as `general.architecture` in GGUF files.
    pub gguf_names: &'static [&'static str],
    /// The program's text.
    pub program: &'static str,
    /// Says what the program's names are in a checkpoint.
    pub map: fn(&mut Mapper<'_>) -> Result<(), ModelError>,
}

/// The architecture that a configuration names.
///
/// # Errors
/// When it names none, or one that is not known.
pub fn find(config: &Config) -> Result<&'static Architecture, ModelError> {
    let name = config.architecture()?;
    let names = |known: &Architecture| match config {
        Config::Json(_) => known.model_types,
        Config::Gguf(_) => known.gguf_names,
    };
    architectures().iter().find(|known| names(known).contains(&name)).ok_or_else(|| {
        ModelError::UnknownArchitecture {
            name: name.to_owned(),
            known: architectures().iter().flat_map(names).copied().collect::<Vec<_>>().join(", "),
        }
    })
}
