//! Which clusters a placement gets, and what moves it. Members are played (`fleet_e2e::played`), each scenario has its own
//! and finds them by its label, so all of them run side by side. They need a fleet with agents (`fleet-local agents`).
//!
//! Of the clusters that are not picked twenty are explained, in the order of their names: scenarios that read those
//! explanations have names that come first.

mod basics;
mod changes;
mod clusters;
mod ending;
mod namespaced;
