//! Work generation: what a binding puts into its cluster's namespace, and what comes back.
//!
//! ```text
//! snapshots ─► Group ─► render (+ overrides) ─► Rendering ─► plan (+ existing Works) ─► creates, patches, deletes
//!                                                             Works' status ─► binding_status
//! ```
//!
//! Manifests stay the text of the snapshot unless an override touches them. Nothing is written before everything is
//! rendered and checked, and nothing is deleted before what takes its place is there. What comes out of a namespace stays in
//! it ([`bounds`]).

mod answer;
mod bounds;
mod existing;
mod failure;
mod group;
mod owner;
mod plan;
mod removal;
mod render;
mod status;
#[cfg(test)]
mod tests;
mod wanted;

pub use answer::{Batch, is_answered};
pub use existing::Existing;
pub use failure::{Recovery, Shown, WorkFailure};
pub use group::{Group, Snapshot, Stored};
pub use owner::Owner;
pub use plan::{Plan, plan};
pub use removal::{Agent, Removal, is_synced_without_snapshot, removal, starts_with_finalizer};
pub use render::{MANIFESTS_BYTES_MAX, Piece, Rendering, content_hash, render};
pub use status::{ContentClock, DETAILS_MAX, Progress, Subject, View, binding_status, is_interim};
pub use wanted::{Patch, WantedWork, list_hash};
