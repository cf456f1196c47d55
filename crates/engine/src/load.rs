//! From a model's files to a model that answers.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fiddlehead_checkpoint::{Checkpoint, Description};
use fiddlehead_graph::ModelGraph;
use fiddlehead_graph::lower::lower_model;
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_plan::{Device, LoadOptions, Weights};
use fiddlehead_text::{ChatTemplate, Tokenizer, end_tokens};
use serde_json::Value;

use crate::program::compile;
use crate::{Defaults, EngineError, LoadTimings, Model, ModelParts};

/// The longest path when nothing is said: longer ones cost memory that few need.
const LONGEST_UNASKED: usize = 8192;

/// Where a model is.
#[derive(Clone, Copy, Debug)]
pub enum ModelSource<'a> {
    /// A folder, a weight file or an index.
    Path(&'a Path),
    /// In the program itself.
    Embedded {
        /// The bytes of its safetensors file.
        weights: &'static [u8],
        /// Its small files by name.
        companions: &'static [(&'static str, &'static [u8])],
    },
}

/// What a user chose about loading.
#[derive(Clone, Debug, Default)]
pub struct ModelOptions {
    /// How it is run. Its context is set by `context`.
    pub load: LoadOptions,
    /// The longest path in tokens; `None` is what the model was made for, at most 8192.
    pub context: Option<usize>,
}

impl Model {
    /// Opens a checkpoint, compiles its architecture's program for it, and makes both ready on a device.
    ///
    /// # Errors
    /// When a file is missing or damaged, the architecture is not known or does not fit the weights, the tokenizer or
    /// template cannot be read, or the device refuses.
    pub fn load(
        source: ModelSource<'_>,
        device: &dyn Device,
        options: &ModelOptions,
    ) -> Result<Model, EngineError> {
        let started = Instant::now();
        let checkpoint = match source {
            ModelSource::Path(path) => Checkpoint::open(path)?,
            ModelSource::Embedded { weights, companions } => Checkpoint::embedded(weights, companions)?,
        };
        let companions = Companions::read(&checkpoint)?;
        let Prepared { graphs, weights, trained_context, mut plan_seconds } = Prepared::new(&checkpoint)?;
        let context = options.context.unwrap_or(match trained_context {
            0 => LONGEST_UNASKED,
            trained => trained.min(LONGEST_UNASKED),
        });
        let planning = Instant::now();
        let load = LoadOptions { context, ..options.load.clone() };
        let executor = device.load(Arc::new(graphs), weights, load)?;
        plan_seconds += planning.elapsed().as_secs_f64();
        Model::from_parts(ModelParts {
            executor,
            tokenizer: companions.tokenizer,
            template: companions.template,
            ends: companions.ends,
            defaults: companions.defaults,
            context,
            trained_context,
            timings: LoadTimings { load_seconds: started.elapsed().as_secs_f64(), plan_seconds },
        })
    }
}

/// What a device is given of a checkpoint: graphs and weights, without anything about text.
#[derive(Debug)]
pub struct Prepared {
    /// The steps of its architecture's program with its sizes, rewritten.
    pub graphs: ModelGraph,
    /// The weights that they read, in the declared shapes.
    pub weights: Weights,
    /// The longest path that the model was made for, in tokens; 0 when it does not say.
    pub trained_context: usize,
    /// Seconds from the program's text to the graphs.
    pub plan_seconds: f64,
}

impl Prepared {
    /// Compiles the program of a checkpoint's architecture for it and fits its weights.
    ///
    /// # Errors
    /// When the architecture is not known, or does not fit the configuration or the weights.
    pub fn new(checkpoint: &Checkpoint) -> Result<Prepared, EngineError> {
        let bound = fiddlehead_models::bind(checkpoint)?;
        let planning = Instant::now();
        let architecture = bound.architecture;
        let program = compile(&format!("{}.fh", architecture.name), architecture.program)?;
        let model = lower_model(&program, architecture.name, &bound.bindings)
            .map_err(|error| EngineError::lowering(&program.source, error))?;
        let graphs = ModelGraph { steps: model.steps.iter().map(optimise).collect(), ..model };
        let plan_seconds = planning.elapsed().as_secs_f64();
        let weights = fiddlehead_models::fit(&bound, &graphs)?;
        Ok(Prepared { graphs, weights, trained_context: bound.context, plan_seconds })
    }
}

/// What the small files say.
struct Companions {
    tokenizer: Tokenizer,
    template: Option<ChatTemplate>,
    ends: Vec<u32>,
    defaults: Defaults,
}

impl Companions {
    fn read(checkpoint: &Checkpoint) -> Result<Companions, EngineError> {
        let files = checkpoint.companions();
        let advice = "a model needs its tokenizer beside its weights; download the whole folder";
        let tokenizer = Tokenizer::from_json(&files.require("tokenizer.json", advice)?)?;
        let tokenizer_config = files.read_object("tokenizer_config.json")?;
        let template_file = files.read("chat_template.jinja")?;
        let template_file = template_file.as_deref().map(String::from_utf8_lossy);
        let template = ChatTemplate::from_config(
            tokenizer_config.as_ref().unwrap_or(&Value::Null),
            template_file.as_deref(),
        )?;
        let (config, generation) = match checkpoint.description() {
            Description::HuggingFace { config, generation_config } => (config, generation_config.as_ref()),
            Description::Gguf(_) => (&Value::Null, None),
        };
        let ends = end_tokens(&tokenizer, generation, tokenizer_config.as_ref(), config);
        let place = format!("{}: generation_config.json", files.place());
        let defaults =
            generation.map_or(Ok(Defaults::default()), |json| Defaults::from_json(json, &place))?;
        Ok(Companions { tokenizer, template, ends, defaults })
    }
}
