//! The executor: runs any graph over any forest on the CPU.
//!
//! A graph is lowered once to a *program*: buffers, and steps over them ([`program`]). What reads only its own row runs
//! row by row, rows spread over threads; what reads its path through a state runs node after node; sites that a kernel
//! serves are steps of their own. A run takes a forest and one session a segment ([`batch`]), puts buffers where the
//! regime's memory plan says ([`machine`]), and goes through the steps ([`run`]). Nothing of a run is allocated once its
//! regime was seen.
//!
//! What must never live here: arithmetic (that is `bytecode` and `kernels`), and the name of any model.
//! Start reading at [`lower`], then [`run`].

mod batch;
mod blocks;
mod constants;
mod device;
mod estimate;
mod explain;
mod history;
mod lower;
mod machine;
mod memory;
mod model;
mod program;
mod run;
mod scan;
mod served;
mod session;
mod sizing;
mod threads;
mod view;

pub use device::CpuDevice;
