//! Sizing, candidates, memory plans, regimes, and the traits that devices implement.
