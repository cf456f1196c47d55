//! Which kind each layer is, where a model has layers of full attention and others.

use crate::config::{Config, Json, Key, key};
use crate::error::ModelError;
use crate::frame::layer_count;
use crate::mapper::Mapper;

/// The word of `layer_types` for full attention.
const FULL: &str = "full_attention";

/// How the files of a family tell the layers of full attention, which programs call `full`, from the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinds {
    /// The others' kind in the program.
    pub other: &'static str,
    /// Their word in the `layer_types` of a `config.json`.
    pub word: &'static str,
    /// The list of truth values in a GGUF file that is true for them.
    pub list: &'static str,
    /// Where neither list is: how many layers on the next of full attention is.
    pub interval: Key,
    /// The interval where files do not say it.
    pub usual: usize,
}

impl Kinds {
    /// The kind of each layer, without those of a draft head.
    ///
    /// # Errors
    /// When a list has another length than there are layers, or an entry that is of neither kind.
    pub(crate) fn of(&self, mapper: &Mapper<'_>) -> Result<Vec<&'static str>, ModelError> {
        let config = mapper.config();
        let count = layer_count(mapper)?;
        match config {
            Config::Json(json) => {
                if let Some(kinds) = self.listed(json, count)? {
                    return Ok(kinds);
                }
            }
            Config::Gguf(gguf) => {
                // The list counts the layers of the draft head too.
                if let Some(others) = gguf.flags(self.list, gguf.size("block_count")?)? {
                    return Ok(others.into_iter().take(count).map(|other| self.kind(!other)).collect());
                }
            }
        }
        let interval = config.size_or(self.interval, self.usual)?;
        Ok((1..=count).map(|layer| self.kind(layer % interval == 0)).collect())
    }

    fn kind(&self, full: bool) -> &'static str {
        if full { "full" } else { self.other }
    }

    fn listed(&self, config: Json<'_>, count: usize) -> Result<Option<Vec<&'static str>>, ModelError> {
        let Some(types) = config.texts("layer_types")? else { return Ok(None) };
        if types.len() != count {
            return Err(config.senseless("layer_types", format!("a list of {count} (num_hidden_layers)")));
        }
        let kind = |word: &str| match word {
            FULL => Ok(self.kind(true)),
            _ if word == self.word => Ok(self.kind(false)),
            _ => Err(config.senseless("layer_types", format!("{} or {FULL}", self.word))),
        };
        types.into_iter().map(kind).collect::<Result<_, _>>().map(Some)
    }
}

/// Refuses a model some of whose layers attend to the nearest tokens alone, for programs that have no such kind. The
/// width of a window says nothing here: Qwen's files name one and then say whether it is used.
///
/// # Errors
/// When a `config.json` says that there are such layers.
pub(crate) fn no_windows(config: Config<'_>) -> Result<(), ModelError> {
    let windows = key("use_sliding_window", "");
    if config.flag_or(windows, false)? {
        return Err(config.senseless(windows, "false"));
    }
    match config {
        Config::Json(json)
            if json.texts("layer_types")?.is_some_and(|types| types.iter().any(|&kind| kind != FULL)) =>
        {
            Err(json.senseless("layer_types", format!("{FULL} alone")))
        }
        _ => Ok(()),
    }
}
