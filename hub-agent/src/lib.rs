//! The hub agent: schedules placements, writes Works, serves the members.

pub mod session;
