//! The CRDs made from the kinds.
