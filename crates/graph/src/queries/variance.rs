//! On what a tensor's value depends.

/// How often a tensor has to be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variance {
    /// On weights and literals alone: once per loaded model.
    Constant,
    /// On shared inputs too: once per run.
    Uniform,
    /// On per-node inputs, `here`, states or histories: once per forest node.
    PerNode,
}
