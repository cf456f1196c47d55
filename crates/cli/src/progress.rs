//! A progress bar while a model loads: on a terminal's standard error, when loading takes longer than a moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread;
use std::time::Duration;

use fiddlehead_engine::{LoadObserver, LoadStage};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// Loading that is over by then shows nothing.
const MOMENT: Duration = Duration::from_millis(300);
const TICK: Duration = Duration::from_millis(100);

/// The bar that is on the screen, if one is.
static CURRENT: Mutex<Weak<LoadBar>> = Mutex::new(Weak::new());

/// A remark that leaves the bar below it whole.
pub fn remark(text: &str) {
    let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
    match current {
        Some(bar) => bar.bar.suspend(|| output::remark(text)),
        None => output::remark(text),
    }
}

/// The bar. Dropping it takes it off the screen.
#[derive(Debug)]
pub struct LoadBar {
    bar: ProgressBar,
    /// Whether a device takes copies of the weights: these are then what is waited for, not the reading.
    uploads: AtomicBool,
    /// Hung up when loading is over, which ends the thread that waits for the moment.
    over: Mutex<Option<mpsc::Sender<()>>>,
}

impl LoadBar {
    /// A bar that will show itself on standard error.
    pub fn on_terminal() -> Arc<LoadBar> {
        let bar = LoadBar::on(ProgressDrawTarget::stderr);
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&bar);
        bar
    }

    fn on(target: fn() -> ProgressDrawTarget) -> Arc<LoadBar> {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(style(false));
        let (over, waiting) = mpsc::channel();
        let shown = bar.clone();
        let wait = move || {
            if waiting.recv_timeout(MOMENT) == Err(mpsc::RecvTimeoutError::Timeout) && !shown.is_finished() {
                shown.set_draw_target(target());
                shown.enable_steady_tick(TICK);
            }
        };
        // Without a thread there is no bar, and nothing is lost.
        drop(thread::Builder::new().name("progress".to_owned()).spawn(wait));
        Arc::new(LoadBar { bar, uploads: AtomicBool::new(false), over: Mutex::new(Some(over)) })
    }

    /// Takes the bar off the screen.
    pub fn end(&self) {
        if let Ok(mut over) = self.over.lock() {
            drop(over.take());
        }
        self.bar.finish_and_clear();
    }
}

impl Drop for LoadBar {
    fn drop(&mut self) {
        self.end();
    }
}

/// With nothing to read but small files, and with a bar of bytes.
const TEMPLATES: [&str; 2] =
    ["{spinner} {msg}", "{spinner} {msg:28} {bar:24} {binary_bytes} of {binary_total_bytes} of weights"];

fn style(with_bytes: bool) -> ProgressStyle {
    // A test reads both.
    let template = ProgressStyle::with_template(TEMPLATES[usize::from(with_bytes)]);
    template.unwrap_or_else(|_| ProgressStyle::default_spinner())
}

impl LoadObserver for LoadBar {
    fn stage(&self, stage: LoadStage) {
        self.bar.set_message(match stage {
            LoadStage::Files => "opening the model's files",
            LoadStage::Plan => "planning",
            LoadStage::Text => "reading the tokenizer",
            LoadStage::Weights => "reading the weights",
            _ => "loading",
        });
    }

    fn read(&self, done: u64, all: u64) {
        if !self.uploads.load(Ordering::Relaxed) {
            self.count(done, all);
        }
    }

    fn uploaded(&self, done: u64, all: u64) {
        let first = !self.uploads.swap(true, Ordering::Relaxed);
        if done >= all {
            self.bar.set_message("preparing the GPU's kernels");
        } else if first {
            self.bar.set_message("copying to the GPU");
        }
        self.count(done, all);
    }
}

impl LoadBar {
    fn count(&self, done: u64, all: u64) {
        if self.bar.length() != Some(all) {
            self.bar.set_length(all);
            self.bar.set_style(style(true));
        }
        self.bar.set_position(done);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn the_templates_are_valid() {
        assert!(TEMPLATES.iter().all(|template| ProgressStyle::with_template(template).is_ok()));
    }

    /// Bars that asked for a place to be drawn.
    static SHOWN: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn only_a_long_load_shows_itself() {
        fn counted() -> ProgressDrawTarget {
            SHOWN.fetch_add(1, Ordering::SeqCst);
            ProgressDrawTarget::hidden()
        }
        let short = LoadBar::on(counted);
        short.stage(LoadStage::Files);
        short.read(1, 2);
        assert_eq!((short.bar.position(), short.bar.length()), (1, Some(2)));
        // What is copied to a device counts from then on, also while more is read.
        short.uploaded(3, 9);
        short.read(2, 2);
        assert_eq!((short.bar.position(), short.bar.length()), (3, Some(9)));
        short.end();
        thread::sleep(2 * MOMENT);
        assert_eq!(SHOWN.load(Ordering::SeqCst), 0);
        let long = LoadBar::on(counted);
        while SHOWN.load(Ordering::SeqCst) == 0 {
            thread::sleep(MOMENT / 10);
        }
        long.end();
        assert!(long.bar.is_finished());
    }
}
