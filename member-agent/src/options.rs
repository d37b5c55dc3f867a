//! Flags. All of them have an environment variable to fall back to, and all that existing installations pass are
//! accepted, whether or not they still have an effect.

mod applier;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{ArgAction, Args, Parser, error::ErrorKind};
use fleet_runtime::options::{
    AdminArgs, Bind, ClientArgs, LeaseArgs, LogArgs, Member, bind, burst, burst_covers, go_bool, qps, with_two_dashes,
};

pub use self::applier::ApplierArgs;

/// Applies what a fleet places on this cluster, and reports to the fleet's hub.
///
/// Where the hub is comes from the environment: HUB_SERVER_URL, MEMBER_CLUSTER_NAME, and CONFIG_PATH, HUB_TOKEN_SECRET
/// or IDENTITY_KEY and IDENTITY_CERT.
#[derive(Parser, Clone, Debug)]
#[command(name = "member-agent", version, max_term_width = 120)]
pub struct Options {
    /// Logs.
    #[command(flatten)]
    pub log: LogArgs,
    /// This cluster.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Leader election.
    #[command(flatten)]
    pub lease: LeaseArgs<Member>,
    /// Health and metrics.
    #[command(flatten)]
    pub admin: AdminArgs<Member>,
    /// The hub.
    #[command(flatten)]
    pub hub: HubArgs,
    /// What this cluster says about itself.
    #[command(flatten)]
    pub properties: PropertyArgs,
    /// The work applier.
    #[command(flatten)]
    pub applier: ApplierArgs,
    /// Without effect.
    #[command(flatten)]
    pub obsolete: ObsoleteArgs,
}

/// The hub, as far as the environment does not say it.
#[derive(Args, Clone, Debug)]
pub struct HubArgs {
    /// Prove who we are by a client certificate (IDENTITY_CERT, IDENTITY_KEY) instead of a token.
    #[arg(long, env = "FLEET_USE_CA_AUTH", action = ArgAction::Set, value_parser = go_bool, default_value = "false",
          num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub use_ca_auth: bool,

    /// Do not verify the hub's certificates. For experiments only.
    #[arg(long, env = "FLEET_TLS_INSECURE", action = ArgAction::Set, value_parser = go_bool, default_value = "false",
          num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub tls_insecure: bool,

    /// Where `/healthz` and `/readyz` are served too; `0` or empty: nowhere.
    #[arg(long, env = "FLEET_HUB_HEALTH_PROBE_BIND_ADDRESS", default_value = ":8081", value_parser = bind)]
    pub hub_health_probe_bind_address: Bind,

    /// Where `/metrics` is served too; `0` or empty: nowhere.
    #[arg(long, env = "FLEET_HUB_METRICS_BIND_ADDRESS", default_value = ":8080", value_parser = bind)]
    pub hub_metrics_bind_address: Bind,

    /// Checked but without effect: requests to the hub are few.
    #[arg(long, env = "FLEET_HUB_API_QPS", default_value = "50", value_parser = qps(1000.0), allow_negative_numbers = true)]
    pub hub_api_qps: f64,

    /// Checked but without effect.
    #[arg(long, env = "FLEET_HUB_API_BURST", default_value = "500", value_parser = burst(2000))]
    pub hub_api_burst: i32,

    /// Checked but without effect: the agent adapts to what the API server bears.
    #[arg(long, env = "FLEET_MEMBER_API_QPS", default_value = "250", value_parser = qps(10000.0), allow_negative_numbers = true)]
    pub member_api_qps: f64,

    /// Checked but without effect.
    #[arg(long, env = "FLEET_MEMBER_API_BURST", default_value = "1000", value_parser = burst(20000))]
    pub member_api_burst: i32,
}

/// What this cluster says about itself.
#[derive(Args, Clone, Debug)]
pub struct PropertyArgs {
    /// `azure`, or anything else for the built-in collection.
    #[arg(long, env = "FLEET_PROPERTY_PROVIDER", default_value = "none")]
    pub property_provider: String,

    /// The cloud region of this cluster; empty: as a node's label says.
    #[arg(long, env = "FLEET_REGION", default_value = "")]
    pub region: String,

    /// Azure's cloud provider configuration. With the azure provider its location, resource group and subscription become
    /// labels of the MemberCluster, where nobody has set them.
    #[arg(
        long,
        env = "FLEET_CLOUD_CONFIG",
        default_value = "/etc/kubernetes/provider/config.json"
    )]
    pub cloud_config: PathBuf,

    /// A JSON object of VM size to hourly price in USD, for the cost properties of the azure provider. Read again when
    /// it changes.
    #[arg(long, env = "FLEET_VM_PRICE_FILE", value_name = "FILE")]
    pub vm_price_file: Option<PathBuf>,

    /// Whether the azure provider reports costs.
    #[arg(long, env = "FLEET_USE_COST_PROPERTIES_IN_AZURE_PROVIDER", action = ArgAction::Set, value_parser = go_bool,
          default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    pub use_cost_properties_in_azure_provider: bool,

    /// Whether the azure provider watches pods and reports what is available.
    #[arg(long, env = "FLEET_USE_AVAILABLE_RES_PROPERTIES_IN_AZURE_PROVIDER", action = ArgAction::Set,
          value_parser = go_bool, default_value = "true", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    pub use_available_res_properties_in_azure_provider: bool,

    /// Whether namespaces are reported, with any provider.
    #[arg(long, env = "FLEET_ENABLE_NAMESPACE_COLLECTION_IN_PROPERTY_PROVIDER", action = ArgAction::Set,
          value_parser = go_bool, default_value = "false", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    pub enable_namespace_collection_in_property_provider: bool,
}

impl PropertyArgs {
    /// Whether the azure provider is wanted. Any other name means the built-in collection.
    pub fn azure(&self) -> bool {
        self.property_provider == "azure"
    }
}

/// Flags of other implementations that mean nothing here.
#[derive(Args, Clone, Debug)]
pub struct ObsoleteArgs {
    #[arg(long, hide = true, action = ArgAction::Set, value_parser = go_bool, default_value = "true", num_args = 0..=1,
          require_equals = true, default_missing_value = "true")]
    enable_v1beta1_apis: bool,
    #[arg(long, hide = true, action = ArgAction::Set, value_parser = go_bool, default_value = "false", num_args = 0..=1,
          require_equals = true, default_missing_value = "true")]
    enable_pprof: bool,
    #[arg(long, hide = true, default_value = "6066")]
    hub_pprof_port: u16,
    #[arg(long, hide = true, default_value = "6065")]
    pprof_port: u16,
}

impl Options {
    /// Reads the arguments. An error has been printed already, and is the code to exit with.
    pub fn from_args(args: impl IntoIterator<Item = OsString>) -> Result<Self, ExitCode> {
        match Self::read(args) {
            Ok(options) => Ok(options),
            Err(error) => {
                let code = match error.kind() {
                    ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                    // Whoever restarts us tells a wrong flag from a crash by the text; the code is the same everywhere.
                    _ => ExitCode::FAILURE,
                };
                // Nobody is left to tell if stderr is closed.
                let _ = error.print();
                Err(code)
            }
        }
    }

    fn read(args: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let options = Self::try_parse_from(with_two_dashes(args))?;
        if let Err(wrong) = options.validate() {
            let text = format!("invalid parameter: {wrong}\n");
            return Err(clap::Error::raw(ErrorKind::ValueValidation, text));
        }
        Ok(options)
    }

    /// Checks what one flag cannot say about itself.
    fn validate(&self) -> Result<(), String> {
        let covers = |which: &str, qps, burst| {
            burst_covers(qps, burst).map_err(|_| {
                format!(
                    "The burst limit for {which} cluster client-side throttling must be greater than or equal to its QPS limit"
                )
            })
        };
        covers("hub", self.hub.hub_api_qps, self.hub.hub_api_burst)?;
        covers("member", self.hub.member_api_qps, self.hub.member_api_burst)?;
        self.lease.validate()?;
        self.applier.validate()
    }
}

#[cfg(test)]
mod tests;
