//! The member agent's applier on real clusters: Works made by hand in a member's namespace on the hub.

mod apply;
mod compare;
mod drift;
mod ending;
mod finalizers;
mod gadgets;
mod golden;
mod health;
mod metrics;
mod own_agent;
mod refused;
mod replace;
mod reports;
mod site;
mod strategies;
mod takeover;
mod watching;
