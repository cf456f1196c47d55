//! The token forest: the layout of a batch.
//!
//! A batch is a [`Forest`]: the segments of several sessions. Each segment hangs from what its session has
//! already committed and is a single node, a chain or a branching tree. Nodes lie in depth-first order, and
//! every node keeps the last node of its subtree, so that ancestry is one comparison of integers.
//!
//! What lives here: the forest and its checks, the accepted path of a segment ([`Accepted`]), the committed
//! lengths of a session ([`Positions`]), and generators of forests for tests ([`shapes`]).
//!
//! What must never live here: models, tensors, devices, sampling.
//!
//! Start at [`ForestBuilder`], then [`Forest`].
//!
//! ```
//! use fiddlehead_forest::{Class, ForestBuilder, SessionId, Shape, Wanted};
//!
//! # fn main() -> Result<(), fiddlehead_forest::ForestError> {
//! let mut builder = ForestBuilder::new();
//! builder.segment(SessionId(7), 100)?; // one hundred tokens are committed
//! let root = builder.node(None, Class::Generated, Wanted::ALL)?;
//! let left = builder.node(Some(root), Class::Generated, Wanted::ALL)?;
//! let right = builder.node(Some(root), Class::Generated, Wanted::ALL)?;
//! let forest = builder.build()?;
//!
//! assert_eq!(forest.depths(), [100, 101, 101]);
//! assert_eq!(forest.ends(), [2, 1, 2]);
//! assert_eq!(forest.segments()[0].shape(), Shape::Tree);
//! assert!(forest.is_ancestor(root, right) && !forest.is_ancestor(left, right));
//! let accepted = forest.accept(0, &[root, right])?;
//! assert_eq!(accepted.position(), 102);
//! # Ok(())
//! # }
//! ```

mod accepted;
mod builder;
mod error;
mod forest;
mod node;
mod positions;
pub mod shapes;

pub use accepted::Accepted;
pub use builder::{ForestBuilder, MAX_DEPTH, MAX_NODES};
pub use error::ForestError;
pub use forest::{Ancestors, Forest, NO_PARENT, Segment};
pub use node::{Class, MAX_OUTPUTS, SessionId, Shape, Wanted};
pub use positions::Positions;
