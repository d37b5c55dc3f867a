//! Staged update runs: stages, approvals and waits, stop and resume, what can change under a run. Members are played
//! (`fleet_e2e::played`). They need a fleet with agents (`fleet-local agents`).

mod approval;
mod by_hand;
mod checks;
mod deletion;
mod edits;
mod large;
mod membership;
mod outcomes;
mod refused;
mod reports;
mod safe;
mod stages;
mod start;
mod stop;
mod versions;
