//! Evictions and disruption budgets. Members are played (`fleet_e2e::played`), each scenario has its own, so all of them run
//! side by side. They need a fleet with agents (`fleet-local agents`).

mod budgets;
mod choices;
mod outcomes;
mod runs;
