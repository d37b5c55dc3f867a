//! Placements as users see them, from what they select to what their status says.
//!
//! Most stories bring their own clusters ([`fleet_e2e::played`]), or name one of the fleet's: nothing here picks all
//! clusters that there are, so that all run in parallel. They need a fleet with agents (`fleet-local agents`).

mod deletion;
mod external;
mod mirror;
mod obstacles;
mod places;
mod refused;
mod report_back;
mod selection;
mod snapshots;
mod status;
mod tenant;
mod triggers;
