//! The webhooks, asked by a real API server. Each scenario switches them on for itself.

mod denials;
mod faults;
mod leaving;
mod life;
mod limits;
mod replicas;
