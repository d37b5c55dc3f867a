//! Conditions as typed states.
