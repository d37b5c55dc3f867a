//! Selection: which objects a placement takes along, and what is stored of each.
//!
//! [`select`] works on metadata alone; [`stored`] makes the text that a snapshot holds of one object; [`sort`] gives the
//! order in which they are listed, hashed and split. [`apis`] says which kinds can be placed at all, and [`touches`]
//! which placements a changed object concerns.

pub mod apis;
mod id;
mod interest;
mod order;
mod select;
mod strip;
#[cfg(test)]
mod tests;

pub use id::{ObjectId, split_version};
pub use interest::Interests;
pub use order::sort;
pub use select::{Error, Hub, KindInfo, Object, Rules, is_forbidden, is_never_selected, select, services, touches};
pub use strip::stored;

/// What the hub's API says about the scope of a kind: true if it is cluster-scoped, none if it does not know the kind.
pub type ClusterScoped<'a> = &'a dyn Fn(&ObjectId) -> Option<bool>;
