//! The hub agent's flags. Names, defaults and ranges are those that existing Deployments use.

mod accepted;
mod evictions;
mod scheduler;
mod update_runs;
mod webhook;

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use clap::{ArgAction, Parser};
use fleet_core::{
    overrides::Rbac,
    selection::{
        Rules,
        apis::{Apis, BadList},
    },
    snapshot::delay::Flags,
};
use fleet_runtime::options::{
    self, AdminArgs, Bind, ClientArgs, Hub, LeaseArgs, LogArgs, burst_covers, duration, go_bool,
};
use jiff::SignedDuration;

use self::accepted::AcceptedArgs;
pub use self::{
    evictions::EvictionArgs,
    scheduler::SchedulerArgs,
    update_runs::UpdateRunArgs,
    webhook::{ConnectionType, WebhookArgs},
};

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Schedules placements, writes Works, serves the members.
#[derive(Debug, Clone, Parser)]
#[command(name = "hub-agent", version)]
pub struct Options {
    /// Logs.
    #[command(flatten)]
    pub log: LogArgs,
    /// The hub's API server.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Leader election.
    #[command(flatten)]
    pub lease: LeaseArgs<Hub>,
    /// Health and metrics.
    #[command(flatten)]
    pub admin: AdminArgs<Hub>,
    /// The channel.
    #[command(flatten)]
    pub channel: ChannelArgs,
    /// Members.
    #[command(flatten)]
    pub membership: MembershipArgs,
    /// Placements.
    #[command(flatten)]
    pub placement: PlacementArgs,
    /// The scheduler.
    #[command(flatten)]
    pub scheduler: SchedulerArgs,
    /// Staged update runs.
    #[command(flatten)]
    pub update_runs: UpdateRunArgs,
    /// Evictions.
    #[command(flatten)]
    pub evictions: EvictionArgs,
    /// The webhooks.
    #[command(flatten)]
    pub webhook: WebhookArgs,
    /// Flags of existing Deployments.
    #[command(flatten)]
    pub(crate) accepted: AcceptedArgs,

    /// The agent's own namespace: its Secret, its Lease and the ClusterProfiles.
    #[arg(long, env = "POD_NAMESPACE", default_value = fleet_api::names::FLEET_SYSTEM_NAMESPACE)]
    pub namespace: String,

    /// The agent's own Pod, as Events name it.
    #[arg(long, env = "POD_NAME", default_value = "hub-agent")]
    pub pod_name: String,
}

/// The heartbeat channel.
#[derive(Debug, Clone, clap::Args)]
pub struct ChannelArgs {
    /// Where members connect, as `host:port` or `:port`.
    #[arg(long, env = "FLEET_CHANNEL_BIND_ADDRESS", default_value = ":8443", value_parser = options::bind)]
    pub channel_bind_address: Bind,

    /// `host:port` that members are told to connect to. Without it they need HUB_CHANNEL_URL.
    #[arg(long, env = "FLEET_CHANNEL_ADVERTISE_ADDRESS", default_value = "")]
    pub channel_advertise_address: String,

    /// Further names and addresses for the certificate that the agent makes.
    #[arg(long, env = "FLEET_CHANNEL_HOSTS", value_delimiter = ',')]
    pub channel_host: Vec<String>,

    /// A Secret in the agent's namespace with tls.crt, tls.key and ca.crt. Without it the agent makes and renews its own.
    #[arg(long, env = "FLEET_CHANNEL_CERTIFICATE_SECRET", conflicts_with = "channel_cert_file")]
    pub channel_certificate_secret: Option<String>,

    /// A file with the channel's certificate chain, PEM.
    #[arg(long, env = "FLEET_CHANNEL_CERT_FILE", requires_all = ["channel_key_file", "channel_ca_file"])]
    pub channel_cert_file: Option<PathBuf>,

    /// A file with its key, PEM.
    #[arg(long, env = "FLEET_CHANNEL_KEY_FILE")]
    pub channel_key_file: Option<PathBuf>,

    /// A file with the CA that members are told to trust, PEM.
    #[arg(long, env = "FLEET_CHANNEL_CA_FILE")]
    pub channel_ca_file: Option<PathBuf>,
}

/// Members and their inventory.
#[derive(Debug, Clone, clap::Args)]
pub struct MembershipArgs {
    /// Expect the networking agents to join too.
    #[arg(long, env = "FLEET_NETWORKING_AGENTS_ENABLED", action = ArgAction::Set, value_parser = go_bool,
          default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub networking_agents_enabled: bool,

    /// How long a member may be silent before its Healthy condition and its ClusterProfile say so.
    #[arg(long, env = "FLEET_CLUSTER_UNHEALTHY_THRESHOLD", default_value = "60s",
          value_parser = duration::ranged(seconds(30), seconds(3600)))]
    pub cluster_unhealthy_threshold: Duration,

    /// How long a leaving member has to answer before it is cleaned up without it.
    #[arg(long, env = "FLEET_FORCE_DELETE_WAIT_TIME", default_value = "15m",
          value_parser = duration::ranged(seconds(30), seconds(3600)))]
    pub force_delete_wait_time: Duration,

    /// Remove the webhook configurations that KubeFleet's hub agent has left: without it they refuse what they match.
    #[arg(long, env = "FLEET_REMOVE_KUBEFLEET_WEBHOOKS", action = ArgAction::Set, value_parser = go_bool,
          default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub remove_kubefleet_webhooks: bool,

    /// Export a ClusterProfile for each joined member.
    #[arg(long, env = "FLEET_ENABLE_CLUSTER_INVENTORY_APIS", action = ArgAction::Set, value_parser = go_bool,
          default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_cluster_inventory_apis: bool,
}

/// What is placed, and how soon changes are.
#[derive(Debug, Clone, clap::Args)]
pub struct PlacementArgs {
    /// Kinds that are not placed, beside those that never are: `group`, `group/version`, `group/version/Kind[,Kind…]` or
    /// `v1/Kind[,Kind…]`, separated by `;`.
    #[arg(long, env = "FLEET_SKIPPED_PROPAGATING_APIS", default_value = "")]
    pub skipped_propagating_apis: String,

    /// The only kinds that are placed, written likewise; v1/Namespace has to be among them for namespaces to be placed.
    #[arg(long, env = "FLEET_ALLOWED_PROPAGATING_APIS", default_value = "")]
    pub allowed_propagating_apis: String,

    /// Namespaces that are not placed, beside `default`, `kube-*` and `fleet-*`, separated by commas.
    #[arg(long, env = "FLEET_SKIPPED_PROPAGATING_NAMESPACES", default_value = "")]
    pub skipped_propagating_namespaces: String,

    /// The least time between two snapshots of a placement's resources. Without this and the next flag a change after a
    /// quiet time is placed at once, and only bursts wait.
    #[arg(long, env = "FLEET_RESOURCE_SNAPSHOT_CREATION_MINIMUM_INTERVAL",
          value_parser = duration::ranged(Duration::ZERO, seconds(300)))]
    pub resource_snapshot_creation_minimum_interval: Option<Duration>,

    /// How long to collect further changes before they are placed.
    #[arg(long, env = "FLEET_RESOURCE_CHANGES_COLLECTION_DURATION",
          value_parser = duration::ranged(Duration::ZERO, seconds(60)))]
    pub resource_changes_collection_duration: Option<Duration>,

    /// The hub runs workloads itself, so that its PersistentVolumeClaims are its own and not placed.
    #[arg(long, env = "FLEET_ENABLE_WORKLOAD", action = ArgAction::Set, value_parser = go_bool,
          default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_workload: bool,

    /// Serve ResourcePlacements.
    #[arg(long, env = "FLEET_ENABLE_RESOURCE_PLACEMENT", action = ArgAction::Set, value_parser = go_bool,
          default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_resource_placement: bool,

    /// Place no Roles and RoleBindings out of ResourcePlacements and ResourceEnvelopes, and let no ResourceOverride change
    /// them: whoever writes those needs none of the rights that they grant on members.
    #[arg(long, env = "FLEET_FORBID_RBAC_IN_NAMESPACED_PLACEMENTS", action = ArgAction::Set, value_parser = go_bool,
          default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub forbid_rbac_in_namespaced_placements: bool,
}

impl PlacementArgs {
    /// What can be placed.
    ///
    /// # Errors
    /// A text for the user that names the flag and what it takes.
    pub fn rules(&self) -> Result<Rules, String> {
        let Self {
            skipped_propagating_apis: skipped,
            allowed_propagating_apis: allowed,
            skipped_propagating_namespaces: namespaces,
            ..
        } = self;
        let apis = Apis::new(skipped, allowed).map_err(|error| match error {
            BadList::Both => format!("{error}: give only one of them"),
            BadList::Token(list, _) => format!(
                "--{list}-propagating-apis: {error}; write group, group/version, group/version/Kind[,Kind...] or \
                 v1/Kind[,Kind...], separated by ;"
            ),
        })?;
        let tokens = namespaces
            .split([',', ';'])
            .map(str::trim)
            .filter(|name| !name.is_empty());
        let skipped_namespaces: BTreeSet<String> = tokens.map(ToOwned::to_owned).collect();
        if let Some(odd) = skipped_namespaces.iter().find(|name| !is_namespace_name(name)) {
            return Err(format!(
                "--skipped-propagating-namespaces: {odd:?} is no name of a namespace; write names separated by commas"
            ));
        }
        Ok(Rules {
            apis,
            skipped_namespaces,
            workload_enabled: self.enable_workload,
        })
    }

    /// Whether objects that grant rights may come out of a namespace.
    pub fn rbac(&self) -> Rbac {
        if self.forbid_rbac_in_namespaced_placements {
            Rbac::Forbidden
        } else {
            Rbac::Allowed
        }
    }

    /// How soon changes are placed.
    pub fn delay(&self) -> Flags {
        let signed = |given: Option<Duration>| given.map(|given| SignedDuration::try_from(given).unwrap_or_default());
        Flags {
            minimum_interval: signed(self.resource_snapshot_creation_minimum_interval),
            collection: signed(self.resource_changes_collection_duration),
        }
    }
}

/// A DNS label.
fn is_namespace_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= 63 && name.chars().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

/// `host:port`.
fn is_host_and_port(address: &str) -> bool {
    let parts = address.rsplit_once(':');
    parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

impl Options {
    /// Flags that somebody may rely on and that do nothing, one line each.
    pub fn ignored(&self) -> Vec<String> {
        self.accepted.ignored()
    }

    /// Checks what one flag cannot say about itself.
    ///
    /// # Errors
    /// A text for the user.
    pub fn validate(&self) -> Result<(), String> {
        let AcceptedArgs {
            hub_api_qps,
            hub_api_burst,
            leader_election_qps,
            leader_election_burst,
            ..
        } = self.accepted;
        if !self.accepted.enable_v1beta1_apis {
            return Err("the KubeFleet v1beta1 APIs are the storage version and must be enabled".to_owned());
        }
        burst_covers(hub_api_qps, hub_api_burst).map_err(|_| {
            format!(
                "Options.HubBurst: Invalid value: {hub_api_burst}: The burst limit for client-side throttling must be \
                 greater than or equal to its QPS limit"
            )
        })?;
        burst_covers(leader_election_qps, leader_election_burst).map_err(|_| {
            format!(
                "Options.LeaderElectionBurst: Invalid value: {leader_election_burst}: The burst limit for client-side \
                 throttling of leader election related operations must be greater than or equal to its QPS limit"
            )
        })?;
        if self.channel.channel_bind_address == Bind::Off {
            return Err("--channel-bind-address: members need an address to connect to, such as :8443".to_owned());
        }
        if !self.channel.channel_advertise_address.is_empty()
            && !is_host_and_port(&self.channel.channel_advertise_address)
        {
            let value = &self.channel.channel_advertise_address;
            return Err(format!("--channel-advertise-address: {value:?} is not host:port"));
        }
        self.placement.rules()?;
        self.webhook.validate(self.placement.enable_workload, &self.namespace)?;
        self.lease.validate()
    }
}

#[cfg(test)]
mod tests;
