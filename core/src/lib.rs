//! Flotilla's decisions as pure functions over plain data.

pub mod rollout;
