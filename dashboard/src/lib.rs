//! The fleet in the browser: `kubectl fleet dashboard`.
//!
//! It runs on the user's machine, listens on loopback only, and shows what the user's own rights let it see. Pages are
//! rendered here, from watches that end up in the stores which the agents use too; what explains is `core/explain`. A page
//! that is open hears of changes over one stream. This crate writes nothing to any cluster: what changes something is an
//! [`Act`], and whoever starts the dashboard hands in who carries it out ([`Actor`]).
//!
//! ```text
//! hub's API server ── watches ──► hub ──► grid ──► pages ──► server ──► browser
//!                                  │     (who is where)        ▲  │
//!                                  └── changed ──► live ────────┘  └─► door (who may come in), acts ──► Actor
//! ```

mod acts;
mod compare;
mod door;
mod hub;
mod pages;
mod rights;
mod server;
#[cfg(test)]
mod tests;
mod view;

pub use acts::{Act, Actor, Effect, Outcome, Row};
pub use door::Door;
pub use hub::Hub;
pub use pages::Flags;
pub use server::{Dashboard, Error, Options, serve};
pub use view::Name;
