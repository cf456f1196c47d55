//! From a graph to kernels: C++ text, and the order in which the kernels are launched.
//!
//! [`lower`] orders the graph's units as every device does (`fiddlehead_plan::order`) and writes one kernel for each:
//! a tensor's elements spread over the grid ([`element`]), a site's own kernel ([`sites`]), or, for what depends on other
//! rows, one block that goes through a session's rows in order. A loop is a loop inside such a block ([`scan`]). Small work
//! shares a launch ([`shared`]).
//!
//! What must never live here: addresses, launches, the driver. Start reading at [`lower`].

mod element;
mod expression;
mod kernel;
mod layout;
mod lower;
mod scan;
mod scope;
mod shared;
mod sites;
mod traps;

pub(crate) use kernel::{Argument, Grid, Kernel, Rows};
pub(crate) use layout::Carried;
pub(crate) use lower::{Context, Program, lower};
pub(crate) use scope::{RowsOf, elements};
pub(crate) use traps::Report;
