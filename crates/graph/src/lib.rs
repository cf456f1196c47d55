//! The sealed dataflow graph, its validator, rewrites, and the queries that find sites.
