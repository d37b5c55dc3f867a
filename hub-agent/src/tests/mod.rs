//! Tests of several stages together, and of controllers over an API server in memory.

mod channel;
mod eviction;
mod membership;
mod overrides;
mod pipeline;
