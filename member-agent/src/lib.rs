//! The member agent: applies Works, reports to the hub.

pub mod hub;
