//! What is refused at the door, and in which words.
//!
//! ```text
//! object, as it is to be ─► placement │ overrides │ eviction │ member ─► Verdict
//!                            policy, affinity, properties, strategy = its parts
//! ```
//!
//! Only the new object is judged, and what it has in common with the old one passes: an object from before these rules can
//! be repaired, and meanwhile its other fields can be changed. Everything that is wrong is said at once. [`defaults`] are
//! what is filled in before.
//!
//! The words are part of the API: scripts and people know them, odd spellings included.

pub mod affinity;
pub mod defaults;
mod errors;
pub mod eviction;
pub mod member;
pub mod overrides;
pub mod paths;
pub mod placement;
pub mod policy;
pub mod properties;
mod show;
pub mod strategy;
#[cfg(test)]
mod tests;

pub use errors::Errors;
pub use show::gvk;

/// What the door says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The object may pass, and why.
    Allowed(String),
    /// It may not, and why.
    Denied(String),
}

impl Verdict {
    /// May pass.
    pub fn allowed(why: &str) -> Self {
        Self::Allowed(why.into())
    }

    /// May not pass.
    pub fn denied(why: impl Into<String>) -> Self {
        Self::Denied(why.into())
    }

    /// What is said.
    pub fn message(&self) -> &str {
        match self {
            Self::Allowed(why) | Self::Denied(why) => why,
        }
    }

    /// Whether the object may pass.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}
