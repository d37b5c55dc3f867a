//! What became of a placement: on its bindings, on its own status, on a copy of it, and on users' objects.
//!
//! ```text
//! Works    ─► binding    ─► the binding's status
//! bindings ─► placement  ─► the placement's status, its copy (mirror), Events
//! Works    ─► report_back ─► the status of users' objects, where a placement asks for it
//! placements ─► metrics, when they are scraped
//! ```

pub(crate) mod binding;
mod memory;
pub(crate) mod metrics;
pub(crate) mod mirror;
pub(crate) mod placement;
pub(crate) mod report_back;
