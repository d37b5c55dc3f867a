//! `kubectl fleet why`, `status`, `tree`, `events`, `diff` and `rollout watch` on a fleet that runs: what they say about real
//! objects, and what becomes of commands that they say to type. They need a fleet with agents (`fleet-local agents`).

mod faults;
mod objects;
mod runs;
