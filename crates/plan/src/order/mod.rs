//! The order of a graph's work, the same for every device: units, what they depend on, and the pieces they form.
//!
//! A device says which sites its kernels serve ([`ServedSite`]). [`Units::new`] cuts the graph into units: a node for the
//! general kernel, a served site, a row added to a history, a state kept. [`schedule`] orders them into [`Piece`]s: what
//! runs for all rows at once, and what must run row after row. What a device makes of a piece (a loop, a launch) is its
//! own.

mod extension;
mod facts;
mod schedule;
mod unit;

pub use extension::Extension;
pub use facts::{Facts, Joined, Reads, state_of};
pub use schedule::{Piece, UnitIndex, schedule};
pub use unit::{Duty, RowSet, ServedIndex, ServedSite, SetIndex, Unit, Units};
