//! From a model's files to a model that answers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use fiddlehead_checkpoint::{Checkpoint, Copying};
use fiddlehead_graph::ModelGraph;
use fiddlehead_graph::lower::lower_model;
use fiddlehead_graph::queries::{HistoryStorage, history_storage};
use fiddlehead_graph::rewrite::optimise;
use fiddlehead_plan::{Device, LoadOptions, UploadObserver, Weights};

use crate::companions::Companions;
use crate::observer::Uploads;
use crate::program::compile;
use crate::{
    AvailableMemory, EngineError, LoadObserver, LoadStage, LoadTimings, MemoryEstimate, Model, ModelParts,
};

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
    pub(crate) fn open(self, copying: Copying) -> Result<Checkpoint, EngineError> {
        Ok(match self {
            ModelSource::Path(path) => Checkpoint::open_with(path, copying)?,
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
    /// Memory that may be taken: a model that is estimated to take more is refused, and weights are read ahead of their
    /// use. `None` does neither.
    pub available: Option<AvailableMemory>,
    /// Who hears how far loading is.
    pub observer: Option<Arc<dyn LoadObserver>>,
}

impl ModelOptions {
    fn stage(&self, stage: LoadStage) {
        if let Some(observer) = &self.observer {
            observer.stage(stage);
        }
    }

    /// The device's options for a model.
    pub(crate) fn for_device(&self, prepared: &Prepared) -> LoadOptions {
        let uploads = self
            .observer
            .as_ref()
            .map(|observer| Arc::new(Uploads(Arc::clone(observer))) as Arc<dyn UploadObserver>);
        let context = self.context.unwrap_or(prepared.usual_context());
        LoadOptions { context, uploads, ..self.load.clone() }
    }
}

impl Model {
    /// Opens a checkpoint, compiles its architecture's program for it, and makes both ready on a device.
    ///
    /// # Errors
    /// When a file is missing or damaged, the architecture is not known or does not fit the weights, the tokenizer or
    /// template cannot be read, it would take more memory than there is, or the device refuses.
    pub fn load(
        source: ModelSource<'_>,
        device: &dyn Device,
        options: &ModelOptions,
    ) -> Result<Model, EngineError> {
        let started = Instant::now();
        options.stage(LoadStage::Files);
        let most = options.available.as_ref().map_or(u64::MAX, |available| available.bytes);
        let checkpoint = source.open(Copying::Within(most))?;
        options.stage(LoadStage::Plan);
        let prepared = Prepared::new(&checkpoint)?;
        let load = options.for_device(&prepared);
        if let Some(available) = &options.available
            && !is_small(&checkpoint, &prepared, load.context, available.bytes)
        {
            MemoryEstimate::new(&checkpoint, &prepared, device, &load)?.check(available)?;
        }
        let finish = || Model::finish(&checkpoint, prepared, device, load, options);
        let mut model = beside_reading(&checkpoint, options, finish)?;
        model.set_load_seconds(started.elapsed().as_secs_f64());
        Ok(model)
    }

    fn finish(
        checkpoint: &Checkpoint,
        prepared: Prepared,
        device: &dyn Device,
        load: LoadOptions,
        options: &ModelOptions,
    ) -> Result<Model, EngineError> {
        let Prepared { graphs, weights, trained_context, mut plan_seconds, .. } = prepared;
        let (context, planning) = (load.context, Instant::now());
        let executor = device.load(Arc::new(graphs), weights, load)?;
        plan_seconds += planning.elapsed().as_secs_f64();
        options.stage(LoadStage::Text);
        let companions = Companions::read(checkpoint)?;
        options.stage(LoadStage::Weights);
        Model::from_parts(ModelParts {
            executor,
            tokenizer: companions.tokenizer,
            template: companions.template,
            ends: companions.ends,
            defaults: companions.defaults,
            context,
            trained_context,
            timings: LoadTimings { load_seconds: 0.0, plan_seconds },
        })
    }
}

/// Whether a model is so small beside the memory there is that an estimate, for which everything is planned twice, would
/// tell nothing: its weights fit in f32 whatever they are stored as (two bits grow sixteenfold), its history fits several
/// times, and so do the buffers of any model of that size.
fn is_small(checkpoint: &Checkpoint, prepared: &Prepared, context: usize, available: u64) -> bool {
    const OTHER: u64 = 1 << 30;
    let weights = checkpoint.bytes().saturating_add(checkpoint.copied_bytes()).saturating_mul(16);
    let steps = 0..prepared.graphs.steps.len();
    let per_token = steps.map(|step| prepared.history_bytes_per_token(step)).fold(0, u64::saturating_add);
    let history = per_token.saturating_mul(context as u64).saturating_mul(4);
    weights.saturating_add(history).saturating_add(OTHER) <= available
}

/// Does `work` while another thread reads the weights into memory, where they are known to fit. Read in order they come
/// several times as fast as page by page on their first use, and a file that cannot be read is an error and no signal.
fn beside_reading(
    checkpoint: &Checkpoint,
    options: &ModelOptions,
    work: impl FnOnce() -> Result<Model, EngineError>,
) -> Result<Model, EngineError> {
    if options.available.is_none() {
        return work();
    }
    let given_up = AtomicBool::new(false);
    thread::scope(|scope| {
        let all = checkpoint.mapped_bytes();
        let given_up = &given_up;
        let mut go_on = move |done| {
            if let Some(observer) = &options.observer {
                observer.read(done, all);
            }
            !given_up.load(Ordering::Relaxed)
        };
        let reader = thread::Builder::new().name("weights".to_owned());
        let reader = reader.spawn_scoped(scope, move || checkpoint.read_ahead(&mut go_on));
        let result = work();
        given_up.store(result.is_err(), Ordering::Relaxed);
        // Without a thread, or with one that came to nothing, pages are read when they are first used.
        let read = reader.ok().and_then(|reader| reader.join().ok());
        let model = result?;
        read.transpose()?;
        Ok(model)
    })
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
    /// Tensors of the checkpoint that the program has no use for, by name.
    pub unused: Vec<String>,
    /// Seconds from the program's text to the graphs.
    pub plan_seconds: f64,
}

impl Prepared {
    /// Opens a checkpoint and does as [`Prepared::new`].
    ///
    /// # Errors
    /// When a file is missing or damaged, or as [`Prepared::new`].
    pub fn open(source: ModelSource<'_>) -> Result<Prepared, EngineError> {
        Prepared::new(&source.open(Copying::Within(u64::MAX))?)
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
        let all = checkpoint.tensors().keys().chain(checkpoint.unserved().keys());
        let unused = all.filter(|name| !bound.used.contains(*name)).cloned().collect();
        Ok(Prepared { graphs, weights, trained_context: bound.context, unused, plan_seconds })
    }

    /// The longest path in tokens when nothing else is asked for.
    pub fn usual_context(&self) -> usize {
        match self.trained_context {
            0 => LONGEST_UNASKED,
            trained => trained.min(LONGEST_UNASKED),
        }
    }

    /// Bytes that each token of a path adds to what a step keeps. All elements take four bytes.
    pub(crate) fn history_bytes_per_token(&self, step: usize) -> u64 {
        let Some(step) = self.graphs.steps.get(step) else { return 0 };
        let kept = step.histories().iter().zip(history_storage(step));
        let rows = kept
            .filter(|(_, storage)| matches!(storage, HistoryStorage::Whole | HistoryStorage::Both { .. }));
        let bytes = |shape: Vec<usize>| shape.iter().fold(4u64, |bytes, &n| bytes.saturating_mul(n as u64));
        rows.map(|(history, _)| step.shape(history.row).map_or(0, bytes)).fold(0, u64::saturating_add)
    }
}
