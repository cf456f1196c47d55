//! Tokens chosen on the device, from rows of logits that stay there.

use std::sync::Arc;

use fiddlehead_plan::sampling::{Chosen, SamplingError, TokenChoice};

use crate::error::CudaError;
use crate::memory::{Block, Pool};
use crate::runtime::{Function, KernelName};

/// The module of the kernels below.
pub(crate) const SOURCE: &str =
    concat!(include_str!("../../kernels/bits.cuh"), include_str!("../../kernels/sampling.cu"));
const KERNELS: [KernelName<'static>; 3] = [
    KernelName { name: "sampling_filter", arguments: 3 },
    KernelName { name: "sampling_draw", arguments: 4 },
    KernelName { name: "sampling_last", arguments: 4 },
];

/// Threads of a block that goes through a row: `THREADS` there.
const THREADS: u32 = 1024;
/// The most blocks that share a row of which noise decides.
const MOST_PARTS: usize = 16;

/// Bytes of `struct Choice`, `struct Penalty`, `struct Kept` and `struct Best` there.
const CHOICE: usize = 88;
const PENALTY: usize = 8;
const KEPT: usize = 16;
const BEST: usize = 16;
/// Bytes of `struct Chosen` there.
pub(super) const CHOSEN: usize = 16;
/// Bytes after which rows of the device's memory begin, so that blocks of them can be loaded at once.
const ALIGNMENT: usize = 16;

/// Rows from which tokens are chosen.
pub(super) struct Rows<'a> {
    /// By choice: where its logits lie.
    pub logits: Vec<u64>,
    pub vocabulary: usize,
    pub choices: &'a [TokenChoice<'a>],
}

/// The kernels, and the memory that they work in: kept from one tick to the next.
pub(super) struct Sampler {
    functions: Vec<Function>,
    pool: Arc<Pool>,
    choices: Option<Block>,
    room: Option<Block>,
    findings: Option<Block>,
}

impl Sampler {
    pub(super) fn new(pool: &Arc<Pool>) -> Result<Sampler, CudaError> {
        let functions = pool.runtime.compile(SOURCE, &KERNELS)?;
        Ok(Sampler { functions, pool: Arc::clone(pool), choices: None, room: None, findings: None })
    }

    /// Launches what chooses a token for each row. The results, [`CHOSEN`] bytes each, will lie at `chosen`.
    pub(super) fn launch(&mut self, rows: &Rows<'_>, chosen: u64) -> Result<(), CudaError> {
        let count = rows.choices.len();
        let drawn = rows.choices.iter().any(|choice| choice.sampling.temperature != 0.0);
        let room = Room::of(rows);
        let room_at = self.pool.reserve(&mut self.room, room.bytes(rows))?;
        let penalties: Vec<Vec<(u32, f32)>> =
            rows.choices.iter().map(|choice| penalties(choice, rows.vocabulary)).collect();
        let all: usize = penalties.iter().map(Vec::len).sum();
        let choices = self.pool.reserve(&mut self.choices, count * CHOICE + all * PENALTY)?;
        let mut bytes = Vec::with_capacity(count * CHOICE + all * PENALTY);
        let mut penalties_at = choices + (count * CHOICE) as u64;
        for (row, (choice, penalties)) in rows.choices.iter().zip(&penalties).enumerate() {
            let [penalised, list] = room.places(rows, row, room_at);
            let sampling = &choice.sampling;
            for word in [
                rows.logits[row],
                penalised,
                list,
                penalties_at,
                choice.noise().key(),
                sampling.top_k as u64,
                f64::from(sampling.temperature).to_bits(),
                f64::from(sampling.top_p).to_bits(),
                choice.least().to_bits(),
            ] {
                bytes.extend(word.to_le_bytes());
            }
            for word in
                [rows.vocabulary as u32, penalties.len() as u32, sampling.repetition_penalty.to_bits(), 0]
            {
                bytes.extend(word.to_le_bytes());
            }
            penalties_at += (penalties.len() * PENALTY) as u64;
        }
        for (token, off) in penalties.into_iter().flatten() {
            bytes.extend(token.to_le_bytes());
            bytes.extend(off.to_le_bytes());
        }
        let runtime = &self.pool.runtime;
        let per_block = THREADS as usize * 16;
        let parts = rows
            .vocabulary
            .div_ceil(per_block)
            .clamp(1, (runtime.most_blocks() / count).clamp(1, MOST_PARTS));
        let kept = self.pool.reserve(&mut self.findings, count * (KEPT + parts * BEST))?;
        let best = kept + (count * KEPT) as u64;
        let [filter, draw, last] = &self.functions[..] else { return Ok(()) };
        runtime.upload(choices, &bytes)?;
        runtime.launch(filter, count as u32, THREADS, &[choices, kept, chosen])?;
        if drawn {
            runtime.launch(draw, (count * parts) as u32, THREADS, &[choices, kept, best, parts as u64])?;
            runtime.launch(last, count as u32, 32, &[kept, best, chosen, parts as u64])?;
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        [&self.choices, &self.room, &self.findings].into_iter().flatten().map(|block| block.bytes).sum()
    }
}

/// Penalties of tokens that there are.
fn penalties(choice: &TokenChoice<'_>, vocabulary: usize) -> Vec<(u32, f32)> {
    choice.penalties().filter(|&(token, _)| (token as usize) < vocabulary).collect()
}

/// Which room rows need beside their logits.
struct Room {
    penalised: bool,
    list: bool,
}

impl Room {
    fn of(rows: &Rows<'_>) -> Room {
        let any = |wants: fn(&TokenChoice<'_>) -> bool| rows.choices.iter().any(wants);
        Room {
            penalised: any(|choice| choice.sampling.penalises()),
            list: any(|choice| {
                let sampling = &choice.sampling;
                sampling.temperature != 0.0 && (sampling.top_k > 0 || sampling.top_p < 1.0)
            }),
        }
    }

    fn row(rows: &Rows<'_>) -> usize {
        (rows.vocabulary * 4).next_multiple_of(ALIGNMENT)
    }

    fn bytes(&self, rows: &Rows<'_>) -> usize {
        Room::row(rows) * rows.choices.len() * (usize::from(self.penalised) + usize::from(self.list))
    }

    /// Where a row's penalised logits and its list go.
    fn places(&self, rows: &Rows<'_>, row: usize, room: u64) -> [u64; 2] {
        let all = (Room::row(rows) * rows.choices.len()) as u64;
        let at = room + (Room::row(rows) * row) as u64;
        [at, if self.penalised { at + all } else { at }]
    }
}

/// What became of each choice, from the bytes that the kernels left.
pub(super) fn read(bytes: &[u8], choices: &[TokenChoice<'_>]) -> Vec<Chosen> {
    let read = |(row, choice): (&[u8; CHOSEN], &TokenChoice<'_>)| {
        let word = |place: usize| {
            let bytes = &row[4 * place..][..4];
            bytes.iter().rev().fold(0u32, |word, &byte| word << 8 | u32::from(byte))
        };
        let (token, position) = (word(0), choice.position);
        match word(1) {
            0 => Ok(token),
            1 => {
                let value = f32::from_bits(word(2));
                Err(SamplingError::NotANumber { token: token as usize, value, position })
            }
            _ => Err(SamplingError::NoCandidate { position }),
        }
    };
    bytes.as_chunks::<CHOSEN>().0.iter().zip(choices).map(read).collect()
}
