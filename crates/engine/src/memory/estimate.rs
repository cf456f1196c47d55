//! What a model takes, by purpose.

use fiddlehead_checkpoint::Checkpoint;
use fiddlehead_plan::{Device, LoadOptions, Workload};

use super::{AvailableMemory, ByteSize};
use crate::session::PROMPT_CHUNK;
use crate::{EngineError, Prepared, StepInterface};

/// What a tokenizer takes for each token: its text twice, its merges, and places in tables. Measured for vocabularies of
/// 49 thousand and 262 thousand tokens, after loading.
const TEXT_BYTES_A_TOKEN: u64 = 280;
/// What a process takes without a model, and with its graphs and compiled programs. Measured.
const PROGRAM_BYTES: u64 = 18 << 20;

/// Bytes that a model takes with one session of a context, before anything is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// The weight files, which are mapped: pages that the system may drop and read again.
    pub files: u64,
    /// Weights that are changed or put together on loading.
    pub copied_weights: u64,
    /// Weights that the device keeps in a form of its own, and constants.
    pub mirrors: u64,
    /// Histories and states of one session.
    pub session: u64,
    /// Buffers of the device.
    pub buffers: u64,
    /// The tokenizer.
    pub text: u64,
    /// The program itself.
    pub program: u64,
    /// Tokens of the session.
    pub context: usize,
    /// The part of `session` that each token takes.
    pub per_token: u64,
}

impl MemoryEstimate {
    /// Estimates for a device. Nothing is taken that counts.
    ///
    /// # Errors
    /// What the device refuses.
    pub(crate) fn new(
        checkpoint: &Checkpoint,
        prepared: &Prepared,
        device: &dyn Device,
        options: &LoadOptions,
    ) -> Result<MemoryEstimate, EngineError> {
        let interface = StepInterface::of(&prepared.graphs)?;
        let workload = Workload { steps: vec![interface.step()], rows: PROMPT_CHUNK };
        let of = |context: usize| {
            let options = LoadOptions { context, ..options.clone() };
            device.estimate(&prepared.graphs, &prepared.weights, &options, &workload)
        };
        let report = of(options.context)?;
        Ok(MemoryEstimate {
            files: checkpoint.bytes(),
            copied_weights: checkpoint.copied_bytes(),
            mirrors: report.mirrors as u64,
            session: report.sessions as u64,
            buffers: report.scratch as u64,
            text: TEXT_BYTES_A_TOKEN.saturating_mul(interface.vocabulary() as u64),
            program: PROGRAM_BYTES,
            context: options.context,
            per_token: prepared.history_bytes_per_token(interface.step()),
        })
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.parts().iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Its parts in words.
    pub fn parts(&self) -> [(&'static str, u64); 7] {
        [
            ("weights read in place", self.files),
            ("weights changed or put together on loading", self.copied_weights),
            ("weights in the device's own form, constants", self.mirrors),
            ("history and states of the session", self.session),
            ("buffers", self.buffers),
            ("tokenizer", self.text),
            ("the program itself", self.program),
        ]
    }

    /// The longest context that fits, when a shorter one does: a multiple of 64.
    pub fn longest_context(&self, available: u64) -> Option<usize> {
        let history = self.per_token.saturating_mul(self.context as u64);
        let room = available.checked_sub(self.total().saturating_sub(history))?;
        let tokens = room.checked_div(self.per_token)? / 64 * 64;
        (tokens > 0 && tokens < self.context as u64).then_some(tokens as usize)
    }

    /// Refuses a model that does not fit.
    ///
    /// # Errors
    /// [`EngineError::DoesNotFit`].
    pub fn check(&self, available: &AvailableMemory) -> Result<(), EngineError> {
        if self.total() <= available.bytes {
            return Ok(());
        }
        let largest = self.parts().into_iter().filter(|(_, bytes)| bytes * 20 >= self.total());
        let parts: Vec<String> = largest.map(|(what, bytes)| format!("{what} {}", ByteSize(bytes))).collect();
        Err(EngineError::DoesNotFit {
            wanted: ByteSize(self.total()),
            parts: parts.join(", "),
            available: ByteSize(available.bytes),
            bound: available.bound.to_string(),
            advice: self.advice(available.bytes),
        })
    }

    fn advice(&self, available: u64) -> String {
        let mut advice = Vec::new();
        if let Some(context) = self.longest_context(available) {
            advice.push(format!("--context {context} would fit"));
        }
        let rest = self.total().saturating_sub(self.files);
        if self.files > rest || advice.is_empty() {
            advice.push("`fiddlehead quantize` makes the weights smaller".to_owned());
        }
        advice.push("--memory any goes on all the same".to_owned());
        advice.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ESTIMATE: MemoryEstimate = MemoryEstimate {
        files: 1 << 30,
        copied_weights: 0,
        mirrors: 0,
        session: 640 << 20,
        buffers: 10 << 20,
        text: 1 << 20,
        program: 1 << 20,
        context: 8192,
        per_token: 80 << 10,
    };

    #[test]
    fn what_does_not_fit_is_refused_with_advice() {
        ESTIMATE.check(&AvailableMemory::asked(ESTIMATE.total())).expect("it fits to the byte");
        let refuse =
            |bytes| ESTIMATE.check(&AvailableMemory::asked(bytes)).expect_err("too much").to_string();
        let near = refuse(ESTIMATE.total() - 1);
        for words in [
            "about 1.6 GiB",
            "weights read in place 1.0 GiB",
            "history and states of the session 640.0 MiB",
            "--context 8128 would fit",
            "--memory any",
        ] {
            assert!(near.contains(words), "{near} should hold {words:?}");
        }
        assert!(!near.contains("tokenizer"), "only what matters: {near}");
        let far = refuse(1 << 30);
        assert!(far.contains("fiddlehead quantize") && !far.contains("--context"), "{far}");
    }

    #[test]
    fn the_longest_context_fits_and_the_next_does_not() {
        for bytes in [1100 << 20, 1500 << 20, 1700 << 20] {
            let context = ESTIMATE.longest_context(bytes);
            let with = |context: usize| {
                let session = ESTIMATE.per_token * context as u64;
                MemoryEstimate { context, session, ..ESTIMATE }.total()
            };
            match context {
                Some(context) => assert!(with(context) <= bytes && with(context + 64) > bytes),
                None => assert!(with(64) > bytes || with(8192) <= bytes),
            }
        }
        assert_eq!(MemoryEstimate { per_token: 0, ..ESTIMATE }.longest_context(1 << 40), None);
    }
}
