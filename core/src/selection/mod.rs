//! Selection: which objects a placement takes along, and what is stored of each.

mod id;
pub mod labels;

pub use id::{ObjectId, split_version};
