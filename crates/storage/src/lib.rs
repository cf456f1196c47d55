//! Storage formats of weights and their plain dequantising.
