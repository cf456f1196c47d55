//! Plans: what runs a graph on a device in a regime, and the traits that devices implement.
//!
//! Here live the seam between models and hardware ([`device`]), the numerics contract ([`numerics`]), the choice of the
//! next token ([`sampling`]), regimes, sizing, memory plans and dispatch policy. Nothing here knows which device it is for, beyond the facts it is given.
//! Start reading at [`device`].

pub mod device;
pub mod dispatch;
pub mod explain;
pub mod gates;
pub mod memory;
pub mod numerics;
pub mod order;
pub mod regime;
pub mod sampling;
pub mod sessions;
pub mod sizing;
mod values;

pub use device::*;
pub use dispatch::{Choice, Family, Policy};
pub use explain::{PlanReport, StepReport, placeholder_weights};
pub use gates::{GATES, Gate, gate};
pub use memory::{Lifetime, MemoryPlan};
pub use numerics::Numerics;
pub use regime::Regime;
pub use sampling::{Chosen, PathCounts, Sampling, SamplingError, TokenChoice};
pub use sessions::{Choosing, ModelExecutor, Pending, StepMachine, StepSession};
pub use sizing::{DeviceFacts, Work};
pub use values::{Collected, InputBuffers, plain_function, weights_of};
