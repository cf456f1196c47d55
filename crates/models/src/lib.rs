//! Model programs and the mapping from a checkpoint to their dimensions and weights.
