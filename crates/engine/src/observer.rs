//! Who hears how far loading is.

use std::fmt;
use std::sync::Arc;

use fiddlehead_plan::UploadObserver;

/// What loading is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadStage {
    /// Files are opened and checked.
    Files,
    /// The program is compiled for the model's sizes and the device plans for it.
    Plan,
    /// The tokenizer and the chat template are read.
    Text,
    /// Everything else is ready; what is left of the weights is read into memory.
    Weights,
}

/// Hands what a device says to who hears of loading.
#[derive(Debug)]
pub(crate) struct Uploads(pub Arc<dyn LoadObserver>);

impl UploadObserver for Uploads {
    fn uploaded(&self, done: u64, all: u64) {
        self.0.uploaded(done, all);
    }
}

/// Hears how far loading is. Weights are read beside the other stages, by another thread.
pub trait LoadObserver: fmt::Debug + Send + Sync {
    /// A stage begins.
    fn stage(&self, stage: LoadStage);
    /// So many of the weight files' bytes are in memory.
    fn read(&self, done: u64, all: u64);
    /// So many of the weights' bytes are on the device, where it has a memory of its own. Weights may be read
    /// meanwhile.
    fn uploaded(&self, done: u64, all: u64);
}
