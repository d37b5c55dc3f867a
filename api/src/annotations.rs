//! Annotation keys.
