//! Checkpoint files: safetensors, their validation, and their configuration.
