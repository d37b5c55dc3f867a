//! Choices about how clusters are picked.

use clap::ArgAction;
use fleet_core::scheduler::SchedulerSettings;
use fleet_runtime::options::go_bool;

/// How clusters are picked. As it always was by default.
#[derive(Debug, Clone, clap::Args)]
pub struct SchedulerArgs {
    /// Topology spread looks only at clusters that a placement could use or already uses, and allows each pick that makes
    /// the spread more even. Otherwise a domain whose clusters are all unusable can hold a placement back.
    #[arg(long, env = "FLEET_SCHEDULER_SPREAD_OVER_USABLE_CLUSTERS", action = ArgAction::Set, value_parser = go_bool,
          default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub scheduler_spread_over_usable_clusters: bool,

    /// When a placement wants fewer clusters, of those with equal scores the ones that cannot be used now go first.
    #[arg(long, env = "FLEET_SCHEDULER_TRIM_UNUSABLE_FIRST", action = ArgAction::Set, value_parser = go_bool,
          default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub scheduler_trim_unusable_first: bool,
}

impl SchedulerArgs {
    /// As decisions take it.
    pub fn settings(&self) -> SchedulerSettings {
        SchedulerSettings {
            spread_over_usable_clusters: self.scheduler_spread_over_usable_clusters,
            trim_unusable_first: self.scheduler_trim_unusable_first,
        }
    }
}
