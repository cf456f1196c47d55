//! Commits that walk an accepted path again: one launch for all states that one kernel serves.

use fiddlehead_plan::DeviceError;

use super::machine::Machine;
use crate::error::CudaError;

/// Bytes of `struct Replay` in `kernels/delta.cuh`.
const HEADER: usize = 8 + 4 * 8;

/// One state's part of a commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replay {
    /// The kernel, by its place in [`crate::emit::Program::replays`].
    pub kernel: usize,
    /// What was kept of the pending nodes.
    pub rows: u64,
    /// The value before the segment.
    pub from: u64,
    /// Where the value after the path goes.
    pub to: u64,
}

impl Machine {
    /// Walks a path, counted from its segment's first node, for each of the states.
    pub(super) fn replay(&self, path: &[usize], replays: &[Replay]) -> Result<(), DeviceError> {
        let mut rest = replays.to_vec();
        while let Some(first) = rest.first() {
            // Kernels of layers that are alike are one function.
            let name = &self.program.replays[first.kernel].name;
            let (alike, others): (Vec<Replay>, Vec<Replay>) =
                rest.iter().partition(|replay| self.program.replays[replay.kernel].name == *name);
            self.launch_replay(path, &alike)?;
            rest = others;
        }
        Ok(())
    }

    fn launch_replay(&self, path: &[usize], replays: &[Replay]) -> Result<(), CudaError> {
        let Some(first) = replays.first() else { return Ok(()) };
        let path_bytes = (path.len() * 4).next_multiple_of(8);
        let block = self.pool.take(HEADER + path_bytes + replays.len() * 24)?;
        let mut bytes = Vec::with_capacity(block.bytes);
        bytes.extend((replays.len() as i32).to_le_bytes());
        bytes.extend((path.len() as i32).to_le_bytes());
        let arrays = block.address + (HEADER + path_bytes) as u64;
        let array = |place: usize| arrays + (place * replays.len() * 8) as u64;
        for address in [block.address + HEADER as u64, array(0), array(1), array(2)] {
            bytes.extend(address.to_le_bytes());
        }
        path.iter().for_each(|&node| bytes.extend((node as i32).to_le_bytes()));
        bytes.resize(HEADER + path_bytes, 0);
        for part in [|of: &Replay| of.rows, |of: &Replay| of.from, |of: &Replay| of.to] {
            replays.iter().for_each(|replay| bytes.extend(part(replay).to_le_bytes()));
        }
        self.pool.runtime.upload(block.address, &bytes)?;
        let kernel = &self.program.replays[first.kernel];
        let grid = kernel.grid.per_row.saturating_mul(replays.len());
        let grid = grid.clamp(1, self.pool.runtime.most_blocks()) as u32;
        let function =
            &self.functions[self.program.prologue.len() + self.program.kernels.len() + first.kernel];
        // The kernel's arguments are a batch and traps, which it does not use, and this.
        self.pool.runtime.launch(function, grid, kernel.block, &[0, 0, block.address])
    }
}
