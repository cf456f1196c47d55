//! From a model's files to a model that answers.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fiddlehead_checkpoint::Checkpoint;
use fiddlehead_graph::ModelGraph;
use fiddlehead_graph::lower::lower_model;
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_plan::{Device, LoadOptions, Weights};

use crate::companions::Companions;
use crate::program::compile;
use crate::{EngineError, LoadTimings, Model, ModelParts};

/// The longest path when nothing is said: longer ones cost memory that few need.
const LONGEST_UNASKED: usize = 8192;

/// Where a model is.
#[derive(Clone, Copy, Debug)]
pub enum ModelSource<'a> {
    /// A GGUF file, a folder, a safetensors file or an index.
    Path(&'a Path),
    /// In the program itself.
    Embedded {
        /// The bytes of its safetensors file.
        weights: &'static [u8],
        /// Its small files by name.
        companions: &'static [(&'static str, &'static [u8])],
    },
}

impl ModelSource<'_> {
    /// Opens its files.
    pub(crate) fn open(self) -> Result<Checkpoint, EngineError> {
        Ok(match self {
            ModelSource::Path(path) => Checkpoint::open(path)?,
            ModelSource::Embedded { weights, companions } => Checkpoint::embedded(weights, companions)?,
        })
    }
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
        let checkpoint = source.open()?;
        let prepared = Prepared::new(&checkpoint)?;
        let companions = Companions::read(&checkpoint)?;
        let context = options.context.unwrap_or(prepared.usual_context());
        let Prepared { graphs, weights, trained_context, mut plan_seconds } = prepared;
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
    /// Opens a checkpoint and does as [`Prepared::new`].
    ///
    /// # Errors
    /// When a file is missing or damaged, or as [`Prepared::new`].
    pub fn open(source: ModelSource<'_>) -> Result<Prepared, EngineError> {
        Prepared::new(&source.open()?)
    }

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
    /// The longest path in tokens when nothing else is asked for.
    pub fn usual_context(&self) -> usize {
        match self.trained_context {
            0 => LONGEST_UNASKED,
            trained => trained.min(LONGEST_UNASKED),
        }
    }
}
