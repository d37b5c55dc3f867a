//! The machine, driven by an in-memory hub.

mod approvals;
mod budget;
mod clocks;
mod crashes;
mod deletion;
mod edits;
mod execution;
mod gated;
mod golden;
mod hub;
mod initialization;
mod large;
mod laws;
mod membership;
mod progress;
mod restamp;
mod retries;
mod rollbacks;
mod settings;
mod stops;
mod tampering;
