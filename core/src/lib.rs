//! Flotilla's decisions as pure functions over plain data.
