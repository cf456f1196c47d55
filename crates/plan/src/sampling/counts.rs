//! What a path holds already, for penalties.

use std::collections::{HashMap, HashSet};

/// How often each token stands on a path: a function of the path alone, so that a batch, a draft or a replay never
/// changes a penalty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    prompt: HashSet<u32>,
    generated: HashMap<u32, u32>,
}

impl PathCounts {
    /// The counts of a path that is a prompt so far.
    pub fn of_prompt(tokens: &[u32]) -> PathCounts {
        PathCounts { prompt: tokens.iter().copied().collect(), generated: HashMap::new() }
    }

    /// Adds a generated token to the end of the path.
    pub fn push(&mut self, token: u32) {
        *self.generated.entry(token).or_insert(0) += 1;
    }

    /// Every token on the path, once, with how often it was generated: 0 for one of the prompt alone.
    pub fn tokens(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let only_prompt = self.prompt.iter().filter(|token| !self.generated.contains_key(token));
        let generated = self.generated.iter().map(|(&token, &count)| (token, count));
        generated.chain(only_prompt.map(|&token| (token, 0)))
    }
}
