//! Evictions.

use std::time::Duration;

use clap::ArgAction;
use fleet_runtime::options::{duration, go_bool};

use super::seconds;

/// Whether evictions are carried out, and how long they stay.
#[derive(Debug, Clone, clap::Args)]
pub struct EvictionArgs {
    /// Carry evictions out, within disruption budgets. false: evictions are left as they are.
    #[arg(long, env = "FLEET_ENABLE_EVICTION_APIS", action = ArgAction::Set, value_parser = go_bool,
          default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_eviction_apis: bool,

    /// How long evictions stay after their end, unless their annotation rollout.kubernetes-fleet.io/ttl says otherwise;
    /// 0 is for ever.
    #[arg(long, env = "FLEET_EVICTION_TTL", default_value = "0s",
          value_parser = duration::ranged(Duration::ZERO, seconds(366 * 24 * 3600)))]
    pub eviction_ttl: Duration,
}
