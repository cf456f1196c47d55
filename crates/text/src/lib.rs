//! Tokenizers, chat templates and incremental detokenizing.
