//! The token forest: the layout of a batch.
