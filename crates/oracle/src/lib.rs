//! The reference interpreter: runs a graph over a forest, node by node.
