//! What a rendering may take, and how it ends early.

use std::cell::Cell;

/// Steps of any rendering: some hundred times what long conversations take, and about a second.
const STEPS: u64 = 20_000_000;
/// Bytes of all values and texts that any rendering makes, those that it forgets included.
const BYTES: u64 = 64 << 20;
/// What each byte of the request allows in addition, in steps and in bytes: a template may go over a long conversation
/// several times.
const FOR_A_BYTE: u64 = 48;
/// How deeply calls and expressions may nest, each level some kilobytes of the stack.
const DEPTH: u32 = 2000;

/// Why a rendering ended early.
#[derive(Debug)]
pub(super) enum Fault {
    /// The template used more steps, bytes or depth than a rendering may.
    Exhausted,
    /// The template called `raise_exception`.
    Raised(String),
    /// The template did what cannot be done.
    Failed {
        /// What.
        reason: String,
        /// Where, from 1, once known.
        line: Option<u16>,
    },
}

impl Fault {
    pub(super) fn failed(reason: impl Into<String>) -> Fault {
        Fault::Failed { reason: reason.into(), line: None }
    }

    /// The same, at a line unless a more exact one is known.
    pub(super) fn at(self, at: u16) -> Fault {
        match self {
            Fault::Failed { reason, line: None } => Fault::Failed { reason, line: Some(at) },
            other => other,
        }
    }
}

pub(super) type Outcome<T> = Result<T, Fault>;

/// What is left of a rendering's allowance.
///
/// Everything that a template can ask for passes here before it is done: each expression and statement, each value that
/// is visited, each byte that is copied. Nothing is ever given back, so all of a rendering's work and memory is bounded.
#[derive(Debug)]
pub(super) struct Meter {
    steps: Cell<u64>,
    bytes: Cell<u64>,
    depth: Cell<u32>,
}

impl Meter {
    /// A full allowance for a request with so many bytes of text.
    pub(super) fn new(request: usize) -> Meter {
        let more = (request as u64).saturating_mul(FOR_A_BYTE);
        Meter {
            steps: Cell::new(STEPS.saturating_add(more)),
            bytes: Cell::new(BYTES.saturating_add(more)),
            depth: Cell::new(0),
        }
    }

    /// Pays for visiting `count` values.
    pub(super) fn steps(&self, count: usize) -> Outcome<()> {
        take(&self.steps, count as u64)
    }

    /// Pays for reading `count` bytes.
    pub(super) fn read(&self, count: usize) -> Outcome<()> {
        take(&self.steps, count as u64 / 16)
    }

    /// Pays for making `count` bytes, before they are made.
    pub(super) fn bytes(&self, count: usize) -> Outcome<()> {
        self.read(count)?;
        take(&self.bytes, count as u64)
    }

    /// Pays for a list or a map of `count` entries.
    pub(super) fn entries(&self, count: usize) -> Outcome<()> {
        self.steps(count)?;
        take(&self.bytes, (count as u64).saturating_mul(96))
    }

    /// Goes one level deeper for the time of `work`.
    pub(super) fn deeper<T>(&self, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        self.enter()?;
        let result = work();
        self.leave();
        result
    }

    /// Goes one level deeper; [`Meter::leave`] comes back.
    pub(super) fn enter(&self) -> Outcome<()> {
        if self.depth.get() >= DEPTH {
            return Err(Fault::Exhausted);
        }
        self.depth.set(self.depth.get() + 1);
        Ok(())
    }

    pub(super) fn leave(&self) {
        self.depth.set(self.depth.get().saturating_sub(1));
    }
}

/// An exhausted allowance stays so.
fn take(left: &Cell<u64>, count: u64) -> Outcome<()> {
    match left.get().checked_sub(count) {
        Some(rest) => {
            left.set(rest);
            Ok(())
        }
        None => {
            left.set(0);
            Err(Fault::Exhausted)
        }
    }
}
