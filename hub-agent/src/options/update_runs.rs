//! Staged update runs.

use std::time::Duration;

use clap::ArgAction;
use fleet_runtime::options::{duration, go_bool};

use super::seconds;

/// Whether runs are carried out, and when they complain.
#[derive(Debug, Clone, clap::Args)]
pub struct UpdateRunArgs {
    /// Carry staged update runs out. false: runs stand still, and can only be deleted.
    #[arg(long, env = "FLEET_ENABLE_STAGED_UPDATE_RUN_APIS", action = ArgAction::Set, value_parser = go_bool,
          default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_staged_update_run_apis: bool,

    /// How long a cluster may take before its update run says that it is stuck.
    #[arg(long, env = "FLEET_UPDATE_RUN_STUCK_THRESHOLD", default_value = "5m",
          value_parser = duration::ranged(seconds(1), seconds(24 * 3600)))]
    pub update_run_stuck_threshold: Duration,

    /// How long update runs stay after their end, unless the annotation rollout.kubernetes-fleet.io/ttl on them or on their
    /// strategy says otherwise; 0 is for ever. The newest of each placement stays.
    #[arg(long, env = "FLEET_UPDATE_RUN_TTL", default_value = "0s",
          value_parser = duration::ranged(Duration::ZERO, seconds(366 * 24 * 3600)))]
    pub update_run_ttl: Duration,
}
