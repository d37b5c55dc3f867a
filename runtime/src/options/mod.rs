//! Groups of options that both agents flatten into theirs, and parsers for the values that flags of this family take.
//!
//! Every option has an environment variable to fall back to. Where the agents differ only in defaults, the group is
//! generic over [`Defaults`].

pub mod duration;
mod klog;

use std::{marker::PhantomData, path::PathBuf, time::Duration};

use clap::{ArgAction, Args, ValueEnum};

pub use self::klog::{KlogArgs, with_two_dashes};
use crate::grace::GRACE;

/// What differs between the agents.
pub trait Defaults: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// `--leader-lease-duration`
    const LEASE_DURATION: &'static str;
    /// `--leader-renew-deadline`
    const RENEW_DEADLINE: &'static str;
    /// `--leader-retry-period`
    const RETRY_PERIOD: &'static str;
    /// `--leader-election-namespace`
    const LEASE_NAMESPACE: &'static str;
    /// `--health-probe-bind-address`
    const HEALTH_ADDRESS: &'static str;
    /// `--metrics-bind-address`
    const METRICS_ADDRESS: &'static str;
}

/// The hub agent's defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hub;

impl Defaults for Hub {
    const LEASE_DURATION: &'static str = "60s";
    const RENEW_DEADLINE: &'static str = "45s";
    const RETRY_PERIOD: &'static str = "5s";
    const LEASE_NAMESPACE: &'static str = "fleet-system";
    const HEALTH_ADDRESS: &'static str = ":8081";
    const METRICS_ADDRESS: &'static str = ":8080";
}

/// The member agent's defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Member;

impl Defaults for Member {
    const LEASE_DURATION: &'static str = "15s";
    const RENEW_DEADLINE: &'static str = "10s";
    const RETRY_PERIOD: &'static str = "2s";
    const LEASE_NAMESPACE: &'static str = "kube-system";
    const HEALTH_ADDRESS: &'static str = ":8091";
    const METRICS_ADDRESS: &'static str = ":8090";
}

/// What is logged, and how.
#[derive(Args, Clone, Debug)]
pub struct LogArgs {
    /// What to log: a level (error, warn, info, debug, trace), or directives such as `info,hub_agent::rollout=debug`.
    /// Without it `-v` decides.
    #[arg(long, env = "FLEET_LOG", value_name = "FILTER")]
    pub log_filter: Option<String>,

    /// The form of a log line.
    #[arg(long, env = "FLEET_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// Flags of Go agents.
    #[command(flatten)]
    pub klog: KlogArgs,
}

impl LogArgs {
    /// What to log.
    pub fn filter(&self) -> &str {
        self.log_filter
            .as_deref()
            .or_else(|| self.klog.level())
            .unwrap_or("info")
    }
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line, for collectors.
    Json,
}

/// How the agent reaches the API server of its own cluster.
#[derive(Args, Clone, Debug)]
pub struct ClientArgs {
    /// A kubeconfig file. Without one the agent uses the ServiceAccount of its Pod.
    // Not KUBECONFIG: an agent in a developer's shell must not act on whatever cluster that names.
    #[arg(long, env = "FLEET_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use instead of its current one.
    #[arg(long, env = "FLEET_CONTEXT", requires = "kubeconfig")]
    pub context: Option<String>,
}

/// Leader election.
#[derive(Args, Clone, Debug)]
pub struct LeaseArgs<D: Defaults> {
    /// Take part in leader election; only the leader acts.
    #[arg(long, env = "FLEET_LEADER_ELECT", action = ArgAction::Set, value_parser = go_bool, default_value = "false",
          num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub leader_elect: bool,

    /// How long others wait after the leader's last renewal before they take over.
    #[arg(long, env = "FLEET_LEADER_LEASE_DURATION", default_value = D::LEASE_DURATION,
          value_parser = duration::ranged(SECOND, HOUR))]
    pub leader_lease_duration: Duration,

    /// How long the leader tries to renew before it gives up.
    #[arg(long, env = "FLEET_LEADER_RENEW_DEADLINE", default_value = D::RENEW_DEADLINE,
          value_parser = duration::ranged(SECOND, HOUR))]
    pub leader_renew_deadline: Duration,

    /// How long to wait between two tries to get or renew the lease.
    #[arg(long, env = "FLEET_LEADER_RETRY_PERIOD", default_value = D::RETRY_PERIOD,
          value_parser = duration::ranged(Duration::from_millis(100), HOUR))]
    pub leader_retry_period: Duration,

    /// The namespace of the lease.
    #[arg(long, env = "FLEET_LEADER_ELECTION_NAMESPACE", default_value = D::LEASE_NAMESPACE)]
    pub leader_election_namespace: String,

    #[arg(skip)]
    _defaults: PhantomData<D>,
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

impl<D: Defaults> LeaseArgs<D> {
    /// Checks what one option cannot say about itself: that the leader gives up before others may take over.
    ///
    /// # Errors
    /// A text for the user.
    pub fn validate(&self) -> Result<(), String> {
        let (lease, renew, retry) = (
            self.leader_lease_duration,
            self.leader_renew_deadline,
            self.leader_retry_period,
        );
        if lease <= renew {
            return Err("--leader-lease-duration must be greater than --leader-renew-deadline".to_owned());
        }
        // What a leader has begun may go on for so long after it gave up.
        if lease < renew + GRACE {
            return Err(format!(
                "--leader-lease-duration must be at least {}s greater than --leader-renew-deadline, for passes that are under \
                 way may take so long to end",
                GRACE.as_secs()
            ));
        }
        // Between two tries the shell waits up to 1.2 periods.
        if renew <= retry.mul_f64(1.2) {
            return Err("--leader-renew-deadline must be greater than 1.2 times --leader-retry-period".to_owned());
        }
        Ok(())
    }
}

/// Where the agent serves health and metrics.
#[derive(Args, Clone, Debug)]
pub struct AdminArgs<D: Defaults> {
    /// Where `/healthz` and `/readyz` are served, as `host:port` or `:port`; `0` or empty: nowhere.
    #[arg(long, env = "FLEET_HEALTH_PROBE_BIND_ADDRESS", default_value = D::HEALTH_ADDRESS, value_parser = bind)]
    pub health_probe_bind_address: Bind,

    /// Where `/metrics` is served, as `host:port` or `:port`; `0` or empty: nowhere.
    #[arg(long, env = "FLEET_METRICS_BIND_ADDRESS", default_value = D::METRICS_ADDRESS, value_parser = bind)]
    pub metrics_bind_address: Bind,

    /// Show stores, queues, sessions and leases below `/debug/dump` of the health port, to the agent's own host (or Pod)
    /// alone: names, versions and times, no content of objects.
    #[arg(long, env = "FLEET_ENABLE_DEBUG_DUMP", action = ArgAction::Set, value_parser = go_bool, default_value = "false",
          num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub enable_debug_dump: bool,

    #[arg(skip)]
    _defaults: PhantomData<D>,
}

/// A listening address in Go's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bind {
    /// Not served.
    Off,
    /// On every interface.
    Port(u16),
    /// `host:port`
    Address(String),
}

/// Reads a listening address in Go's form.
///
/// # Errors
/// A text for the user.
pub fn bind(text: &str) -> Result<Bind, String> {
    let invalid = || format!("`{text}` is not an address such as :8080 or 127.0.0.1:8080");
    if text.is_empty() || text == "0" {
        return Ok(Bind::Off);
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
    let port = port.parse().map_err(|_| invalid())?;
    Ok(if host.is_empty() {
        Bind::Port(port)
    } else {
        Bind::Address(text.to_owned())
    })
}

/// Reads a boolean as Go's `strconv.ParseBool` does. A Go-style flag, one that takes `--flag` and `--flag=false`, needs
/// `action = ArgAction::Set, value_parser = go_bool, num_args = 0..=1, require_equals = true,
/// default_missing_value = "true"`.
///
/// # Errors
/// A text for the user.
pub fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("`{text}` is neither true nor false")),
    }
}

/// A parser for `--…-qps`: negative switches the limit off, anything else must be in `[10, max]`.
///
/// The limits themselves are not applied: the write queue adapts to what the server bears. The flags are there so that
/// existing settings keep working and mistakes in them are still found.
pub fn qps(max: f64) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync {
    move |text| {
        let qps: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
        if qps < 0.0 || (10.0..=max).contains(&qps) {
            Ok(qps)
        } else {
            Err(format!("must be in the range [10, {max}]"))
        }
    }
}

/// A parser for `--…-burst`, in `[10, max]`.
pub fn burst(max: i32) -> impl Fn(&str) -> Result<i32, String> + Clone + Send + Sync {
    move |text| {
        let burst: i32 = text.parse().map_err(|_| format!("`{text}` is not a whole number"))?;
        if (10..=max).contains(&burst) {
            Ok(burst)
        } else {
            Err(format!("must be in the range [10, {max}]"))
        }
    }
}

/// Checks that a burst is not below its rate.
///
/// # Errors
/// A text for the user.
pub fn burst_covers(qps: f64, burst: i32) -> Result<(), String> {
    if f64::from(burst) < qps {
        return Err(format!("the burst ({burst}) must not be below the rate ({qps})"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Agent<D: Defaults> {
        #[command(flatten)]
        log: LogArgs,
        #[command(flatten)]
        client: ClientArgs,
        #[command(flatten)]
        lease: LeaseArgs<D>,
        #[command(flatten)]
        admin: AdminArgs<D>,
    }

    fn hub(args: &[&str]) -> Result<Agent<Hub>, clap::Error> {
        Agent::try_parse_from([&["hub-agent"], args].concat())
    }

    #[test]
    fn the_groups_fit_together() {
        Agent::<Hub>::command().debug_assert();
        Agent::<Member>::command().debug_assert();
    }

    #[test]
    fn the_agents_have_their_own_defaults() {
        let agent = hub(&[]).unwrap();
        assert!(!agent.lease.leader_elect);
        assert_eq!(agent.lease.leader_lease_duration, Duration::from_mins(1));
        assert_eq!(agent.lease.leader_election_namespace, "fleet-system");
        assert_eq!(agent.admin.health_probe_bind_address, Bind::Port(8081));
        assert_eq!(agent.lease.validate(), Ok(()));
        assert_eq!(agent.log.log_format, LogFormat::Text);
        assert_eq!(agent.client.kubeconfig, None);

        let agent = Agent::<Member>::try_parse_from(["member-agent"]).unwrap();
        assert_eq!(agent.lease.leader_retry_period, Duration::from_secs(2));
        assert_eq!(agent.lease.leader_election_namespace, "kube-system");
        assert_eq!(agent.lease.validate(), Ok(()));
    }

    #[test]
    fn a_switch_may_have_a_value() {
        assert!(hub(&["--leader-elect"]).unwrap().lease.leader_elect);
        assert!(hub(&["--leader-elect=true"]).unwrap().lease.leader_elect);
        assert!(!hub(&["--leader-elect=false"]).unwrap().lease.leader_elect);
        assert!(hub(&["--leader-elect=perhaps"]).is_err());
        assert!(!hub(&[]).unwrap().admin.enable_debug_dump);
        assert!(hub(&["--enable-debug-dump"]).unwrap().admin.enable_debug_dump);
    }

    #[test]
    fn the_log_flags_of_go_agents_are_taken() {
        let args = [
            "--v=5",
            "--add_dir_header",
            "--log_file_max_size=",
            "--logtostderr=false",
        ];
        assert_eq!(hub(&args).unwrap().log.filter(), "debug");
        assert_eq!(hub(&["-v", "2"]).unwrap().log.filter(), "info");
        assert_eq!(hub(&["-v=7", "--log-filter=warn"]).unwrap().log.filter(), "warn");
    }

    #[test]
    fn a_lease_shorter_than_its_deadline_is_refused() {
        let agent = hub(&["--leader-lease-duration=30s"]).unwrap();
        assert!(agent.lease.validate().unwrap_err().contains("--leader-renew-deadline"));
        let agent = hub(&["--leader-retry-period=40s"]).unwrap();
        assert!(agent.lease.validate().unwrap_err().contains("--leader-retry-period"));
    }

    #[test]
    fn addresses_are_as_go_writes_them() {
        assert_eq!(bind(":8081"), Ok(Bind::Port(8081)));
        assert_eq!(bind("127.0.0.1:0"), Ok(Bind::Address("127.0.0.1:0".to_owned())));
        assert_eq!(bind("0"), Ok(Bind::Off));
        assert_eq!(bind(""), Ok(Bind::Off));
        assert!(bind("8081").is_err());
        assert!(bind(":http").is_err());
    }

    #[test]
    fn rates_have_a_range_or_are_off() {
        assert_eq!(qps(1000.0)("-1"), Ok(-1.0));
        assert_eq!(qps(1000.0)("50"), Ok(50.0));
        assert!(qps(1000.0)("0").is_err());
        assert!(burst(2000)("2001").is_err());
        assert!(burst_covers(50.0, 40).is_err());
        assert!(burst_covers(-1.0, 10).is_ok());
    }

    #[test]
    fn a_lease_leaves_room_for_passes_under_way() {
        for (lease, renew, good) in [("13s", "10s", true), ("12s", "10s", false), ("12900ms", "10s", false)] {
            let flags = [
                format!("--leader-lease-duration={lease}"),
                format!("--leader-renew-deadline={renew}"),
            ];
            let agent = hub(&[&flags[0], &flags[1], "--leader-retry-period=2s"]).unwrap();
            assert_eq!(agent.lease.validate().is_ok(), good, "{lease} {renew}");
        }
    }
}
