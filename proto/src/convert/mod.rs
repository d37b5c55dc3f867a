//! The channel's messages as plain Rust, and the way from and to the wire.
//!
//! Each type has a `TryFrom` that takes its generated counterpart apart completely (a new field does not compile until
//! somebody decides what it means) and a `From` that puts it together again. What has passed is complete, well formed
//! and bounded; whether it is *true* is for the receiver's decisions in `fleet-core`.

mod cluster;
mod condition;
mod envelope;
mod hello;
mod work;

#[cfg(test)]
mod tests;

pub use cluster::{AgentStatus, Event, EventObject, Heartbeat, Properties, PropertyValue, ResourceUsage, Severity};
pub use condition::{Condition, Status};
pub use envelope::{Ack, FromHub, FromMember, HubMessage, MemberMessage, Outcome};
pub use hello::{Accept, AgentType, Hello, KnownWork, Reject, RejectCode, SessionLimits};
pub use work::{
    Blocker, CleanupProgress, DifferenceDetails, ManifestEntry, ManifestIdentifier, MirroredStatus, PatchDetail, Phase,
    WorkRef, WorkStatus,
};

use jiff::Timestamp;

/// Milliseconds for the wire.
fn ms(at: Timestamp) -> i64 {
    at.as_millisecond()
}

/// Declares an enum with its wire twin: unknown and unspecified numbers are errors, never defaults.
macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident = $pb:ident as $field:literal { $($(#[$vdoc:meta])* $variant:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Reads the number of the wire.
            pub(crate) fn from_wire(value: i32) -> Result<Self, crate::Invalid> {
                match crate::pb::$pb::try_from(value) {
                    $(Ok(crate::pb::$pb::$variant) => Ok(Self::$variant),)+
                    Ok(crate::pb::$pb::Unspecified) => Err(crate::Invalid::new($field, crate::Problem::Missing)),
                    Err(_) => Err(crate::Invalid::new($field, crate::Problem::Unknown(value))),
                }
            }

            /// The number for the wire.
            pub(crate) fn to_wire(self) -> i32 {
                match self { $(Self::$variant => crate::pb::$pb::$variant as i32,)+ }
            }
        }
    };
}
pub(crate) use wire_enum;
