//! Flags of existing Deployments that mean nothing here. Those that stand for safety say so.

use std::time::Duration;

use clap::ArgAction;
use fleet_runtime::options::{burst, duration, go_bool, qps};

use super::seconds;

/// Flags of upstream's hub agent that have no effect here, or not yet; their ranges are still checked.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AcceptedArgs {
    #[arg(long, hide = true, default_value = "250", value_parser = qps(10_000.0), allow_negative_numbers = true)]
    pub(super) hub_api_qps: f64,
    #[arg(long, hide = true, default_value = "1000", value_parser = burst(20_000))]
    pub(super) hub_api_burst: i32,
    #[arg(long, hide = true, default_value = "250", value_parser = qps(1_000.0), allow_negative_numbers = true)]
    pub(super) leader_election_qps: f64,
    #[arg(long, hide = true, default_value = "1000", value_parser = burst(2_000))]
    pub(super) leader_election_burst: i32,
    #[arg(long, hide = true, default_value = "6h", value_parser = duration::ranged(seconds(3600), seconds(12 * 3600)))]
    pub(super) resync_period: Duration,
    #[arg(long, hide = true, default_value_t = 100, value_parser = clap::value_parser!(i32).range(30..=200))]
    pub(super) max_fleet_size: i32,
    #[arg(long, hide = true, default_value_t = 100, value_parser = clap::value_parser!(i32).range(10..=200))]
    pub(super) max_concurrent_cluster_placement: i32,
    #[arg(long, hide = true, default_value_t = 20, value_parser = clap::value_parser!(i32).range(1..=100))]
    pub(super) concurrent_resource_change_syncs: i32,
    #[arg(long, hide = true, default_value = "5ms",
          value_parser = duration::ranged(Duration::from_millis(1), Duration::from_millis(200)))]
    pub(super) rate_limiter_base_delay: Duration,
    #[arg(long, hide = true, default_value = "60s", value_parser = duration::ranged(seconds(1), seconds(300)))]
    pub(super) rate_limiter_max_delay: Duration,
    #[arg(long, hide = true, default_value_t = 10, value_parser = clap::value_parser!(i32).range(1..=1000))]
    pub(super) rate_limiter_qps: i32,
    #[arg(long, hide = true, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=10000))]
    pub(super) rate_limiter_bucket_size: i32,
    #[arg(long, hide = true)]
    pub(super) work_pending_grace_period: Option<String>,
    #[arg(long, hide = true)]
    pub(super) pprof_port: Option<u16>,
    #[arg(long, hide = true, action = ArgAction::Set, value_parser = go_bool, default_value = "true", num_args = 0..=1,
          require_equals = true, default_missing_value = "true")]
    pub(super) enable_v1beta1_apis: bool,
    #[arg(long, hide = true)]
    pub(super) whitelisted_users: Option<String>,
    #[arg(long, hide = true)]
    pub(super) admission_policy_manager_config: Option<String>,
    #[arg(long, hide = true, action = ArgAction::Set, value_parser = go_bool, num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub(super) enable_pprof: Option<bool>,
    #[arg(long, hide = true, action = ArgAction::Set, value_parser = go_bool, num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub(super) enable_guard_rail: Option<bool>,
    #[arg(long, hide = true, action = ArgAction::Set, value_parser = go_bool, num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub(super) deny_modify_member_cluster_labels: Option<bool>,
    #[arg(long, hide = true, action = ArgAction::Set, value_parser = go_bool, num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub(super) enable_pdbs: Option<bool>,
    #[arg(long, hide = true, action = ArgAction::Set, value_parser = go_bool, num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub(super) enable_admission_policy_manager: Option<bool>,
}

impl AcceptedArgs {
    /// What somebody may rely on and does not get, one line for each flag.
    pub(super) fn ignored(&self) -> Vec<String> {
        let set = |given: &Option<String>, name: &str, instead: &str| {
            given.as_ref().map(|_| format!("--{name} is ignored: {instead}"))
        };
        // The API server does it by policies, with no agent involved; so whoever sets the flag has to set the value.
        let policy = |given: Option<bool>, name: &str, value: &str| {
            given.map(|on| format!("--{name}={on} is ignored: set the chart value {value}: {on}"))
        };
        let lines = [
            policy(self.enable_guard_rail, "enable-guard-rail", "enableGuardRail"),
            set(
                &self.whitelisted_users,
                "whitelisted-users",
                "set the chart value whitelistedUsers",
            ),
            policy(
                self.deny_modify_member_cluster_labels,
                "deny-modify-member-cluster-labels",
                "denyModifyMemberClusterLabels",
            ),
            policy(self.enable_pdbs, "enable-pdbs", "enablePDBs"),
            policy(
                self.enable_admission_policy_manager,
                "enable-admission-policy-manager",
                "enableAdmissionPolicyManager",
            ),
            set(
                &self.admission_policy_manager_config,
                "admission-policy-manager-config",
                "set the chart values admissionPolicyManagerConfigName and additionalConfigData",
            ),
        ];
        lines.into_iter().flatten().collect()
    }
}
