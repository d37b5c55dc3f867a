//! What a plan says, and that it is what then happens.

mod hub;
mod laws;
mod runs;
mod words;
