//! Flotilla's decisions as pure functions over plain data.
//!
//! No client, no runtime, no clock: what is known, the time and anything random come in as values, and the answer is
//! data that carries its reason. The agents carry it out.

pub mod admission;
pub mod apply;
pub mod envelope;
pub mod eviction;
pub mod explain;
pub mod membership;
pub mod names;
pub mod overrides;
pub mod plan;
pub mod report_back;
pub mod rollout;
pub mod rollup;
pub mod scheduler;
pub mod selection;
pub mod session;
pub mod snapshot;
pub mod text;
pub mod updaterun;
pub mod window;
pub mod work;
