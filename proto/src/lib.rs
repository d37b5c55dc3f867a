//! The heartbeat channel between hub agent and member agents: messages and generated code.
//!
//! `pb` is what `proto/fleet/v1/channel.proto` compiles to and stops here: [`convert`] turns it into the types that
//! `fleet-core` decides about, which exist only if every field was there, well formed and within its bound. [`limits`] holds
//! the bounds.

mod codec;
pub mod convert;
mod invalid;
pub mod limits;
mod weight;

pub use invalid::{Invalid, Problem};

/// The version of the protocol that this build speaks. Raised only for what an older peer must not ignore.
pub const PROTOCOL_VERSION: u32 = 1;

/// The oldest version that this build still understands.
pub const OLDEST_PROTOCOL_VERSION: u32 = 1;

/// Generated from the .proto. Only this crate and the two ends of the stream look inside.
#[allow(missing_docs, unreachable_pub, clippy::pedantic, clippy::all)]
pub mod pb {
    tonic::include_proto!("flotilla.channel.v1");
}
