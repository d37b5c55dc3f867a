//! How a change reaches the clusters: the budget, strategies, overrides, envelopes, Works and their end. Members are played
//! (`fleet_e2e::played`), each scenario has its own and finds them by its label, so all of them run side by side. They need
//! a fleet with agents (`fleet-local agents`).

mod budget;
mod envelopes;
mod overrides;
mod strategy;
mod windows;
mod works;
