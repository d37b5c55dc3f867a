//! Names derived from other names.
