//! Gates: what a device must pass against the oracle before it is trusted.
//!
//! Each takes any [`fiddlehead_plan::Device`] and says what differs. Devices' own tests run them, and so does the user's
//! `gate` command. Start reading at [`case`].

pub mod case;
pub mod forests;
pub mod formats;
pub mod fused;
pub mod language;
pub mod programs;
pub mod recurrence;
pub mod sampling;
pub mod step;
