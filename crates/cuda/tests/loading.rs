//! Loading onto a device with memory of its own, on emulated CUDA.

mod support;

use std::sync::{Arc, Mutex};

use fiddlehead_gate::case::load;
use fiddlehead_gate::formats::program;
use fiddlehead_plan::{LoadOptions, UploadObserver};
use fiddlehead_storage::Format;

/// Everything that was heard.
#[derive(Debug, Default)]
struct Heard(Mutex<Vec<(u64, u64)>>);

impl UploadObserver for Heard {
    fn uploaded(&self, done: u64, all: u64) {
        self.0.lock().expect("one thread").push((done, all));
    }
}

#[test]
fn every_byte_that_is_copied_is_told() {
    let Some((device, _folder)) = support::device() else { return };
    let (graph, weights) = program(Format::Q8_0).expect("valid");
    let bytes: u64 = weights.values().map(|tensor| tensor.bytes().len() as u64).sum();
    let heard = Arc::new(Heard::default());
    let options = LoadOptions { uploads: Some(heard.clone()), ..LoadOptions::default() };
    load(&device, &graph, weights, options).expect("it loads");
    let heard = heard.0.lock().expect("one thread");
    assert!(heard.windows(2).all(|pair| pair[0].0 < pair[1].0), "{heard:?}");
    assert_eq!(heard.last(), Some(&(bytes, bytes)));
    assert!(heard.len() > 1 && heard.iter().all(|(_, all)| *all == bytes));
}
