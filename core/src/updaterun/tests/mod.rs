//! The machine, driven by an in-memory hub.

mod approvals;
mod clocks;
mod crashes;
mod deletion;
mod edits;
mod execution;
mod hub;
mod initialization;
mod large;
mod laws;
mod membership;
mod progress;
mod restamp;
mod stops;
mod tampering;
