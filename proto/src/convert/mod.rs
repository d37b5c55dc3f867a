//! What the channel's messages say, and the way from and to the wire.
//!
//! Reports arrive as the types that `fleet-core` decides about; only what belongs to the channel itself has types here. Each
//! has a `TryFrom` that takes its generated counterpart apart completely (a new field does not compile until somebody
//! decides what it means) and a `From` that puts it together again. What has passed is complete, well formed and bounded;
//! whether it is *true* is for the receiver's decisions in `fleet-core`.

mod cluster;
mod condition;
mod envelope;
mod hello;
mod work;
mod work_status;

#[cfg(test)]
mod tests;

pub use cluster::{Event, EventObject};
pub use envelope::{Ack, FromMember, HubMessage, MemberMessage};
pub use hello::{Accept, Hello, Reject, RejectCode, SessionLimits};
pub use work::{Blocker, CleanupProgress};

use jiff::Timestamp;

use crate::Invalid;

/// Milliseconds for the wire.
fn ms(at: Timestamp) -> i64 {
    at.as_millisecond()
}

/// An enum with a number for each value on the wire.
trait OnWire: Sized {
    /// Reads the number of the wire. Unknown and unspecified numbers are errors, never defaults.
    fn from_wire(value: i32) -> Result<Self, Invalid>;

    /// The number for the wire.
    fn to_wire(&self) -> i32;
}

/// Pairs the values of an enum with those of its generated counterpart, which have the same names. What else the enum has
/// is not said on the wire.
macro_rules! on_wire {
    ($name:path = $pb:ident as $field:literal { $($variant:ident),+ $(,)? } $($rest:pat)?) => {
        impl crate::convert::OnWire for $name {
            fn from_wire(value: i32) -> Result<Self, crate::Invalid> {
                match crate::pb::$pb::try_from(value) {
                    $(Ok(crate::pb::$pb::$variant) => Ok(Self::$variant),)+
                    Ok(crate::pb::$pb::Unspecified) => Err(crate::Invalid::new($field, crate::Problem::Missing)),
                    Err(_) => Err(crate::Invalid::new($field, crate::Problem::Unknown(value))),
                }
            }

            fn to_wire(&self) -> i32 {
                match self {
                    $(Self::$variant => crate::pb::$pb::$variant as i32,)+
                    $($rest => crate::pb::$pb::Unspecified as i32,)?
                }
            }
        }
    };
}
use on_wire;
