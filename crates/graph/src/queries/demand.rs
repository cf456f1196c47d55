//! Which rows of which nodes anybody will read.

/// Who needs a node's tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Every row: it feeds a state's outgoing value or a history, so later nodes may need it.
    pub all: bool,
    /// Bit `o`: output `o` of the graph needs it, for the rows wanted of that output. Output 63 stands for itself and all
    /// after it.
    pub outputs: u64,
}

impl Demand {
    /// Whether nobody needs it.
    pub fn is_none(self) -> bool {
        !self.all && self.outputs == 0
    }
}
