//! Work generation: what a binding puts into its cluster's namespace.

pub mod envelope;
