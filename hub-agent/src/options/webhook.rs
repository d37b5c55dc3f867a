//! The webhooks.

use clap::ArgAction;
use fleet_runtime::options::{self, Bind, go_bool};

/// How the API server is told to reach the webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionType {
    /// At an address.
    Url,
    /// By the Service.
    Service,
}

fn connection_type(text: &str) -> Result<ConnectionType, String> {
    match text.to_ascii_lowercase().as_str() {
        "" | "url" => Ok(ConnectionType::Url),
        "service" => Ok(ConnectionType::Service),
        _ => Err(r#"invalid webhook client connection type: must be "service" or "url""#.to_owned()),
    }
}

/// Whether there are webhooks, and how the API server finds and trusts them.
#[derive(Debug, Clone, clap::Args)]
pub struct WebhookArgs {
    /// Judge placements, overrides, evictions and budgets when they are written. false: what is wrong with them is said
    /// in their status and in Events only.
    #[arg(long, env = "FLEET_ENABLE_WEBHOOK", action = ArgAction::Set, value_parser = go_bool,
          default_value = "true", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_webhook: bool,

    /// How the API server reaches the webhooks: url or service.
    #[arg(long, env = "FLEET_WEBHOOK_CLIENT_CONNECTION_TYPE", default_value = "url", value_parser = connection_type)]
    pub webhook_client_connection_type: ConnectionType,

    /// The Service in the agent's namespace by which it does.
    #[arg(long, env = "FLEET_WEBHOOK_SERVICE_NAME", default_value = "fleetwebhook")]
    pub webhook_service_name: String,

    /// `host:port` at which it does with url. Without it, the Service's name.
    #[arg(long, env = "FLEET_WEBHOOK_ADVERTISE_ADDRESS", default_value = "")]
    pub webhook_advertise_address: String,

    /// A ClusterRole of the release: with it the registration goes too. Without it, it goes with the agent's namespace.
    #[arg(long, env = "FLEET_WEBHOOK_OWNER", default_value = "")]
    pub webhook_owner: String,

    /// Where the webhooks are served, as `host:port` or `:port`.
    #[arg(long, env = "FLEET_WEBHOOK_BIND_ADDRESS", default_value = ":9443", value_parser = options::bind)]
    pub webhook_bind_address: Bind,

    /// cert-manager provides the webhooks' certificate, as files in /tmp/k8s-webhook-server/serving-certs, and says whom
    /// to trust.
    #[arg(long, env = "FLEET_USE_CERT_MANAGER", action = ArgAction::Set, value_parser = go_bool,
          default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub use_cert_manager: bool,
}

impl WebhookArgs {
    /// Checks what one flag cannot say about itself.
    pub(super) fn validate(&self, enable_workload: bool, namespace: &str) -> Result<(), String> {
        if self.use_cert_manager && !enable_workload {
            return Err(
                "Options.UseCertManager: Invalid value: true: If cert manager is used for securing webhook connections, \
                 the EnableWorkload option must be set to true, so that cert manager pods can run in the hub cluster."
                    .to_owned(),
            );
        }
        if !self.enable_webhook {
            return Ok(());
        }
        if self.webhook_service_name.is_empty() {
            return Err(
                "Options.WebhookServiceName: Invalid value: \"\": A webhook service name is required when webhooks are \
                 enabled"
                    .to_owned(),
            );
        }
        if namespace.is_empty() {
            return Err("fail to obtain Pod namespace from POD_NAMESPACE".to_owned());
        }
        if self.webhook_bind_address == Bind::Off {
            return Err(
                "--webhook-bind-address: the webhooks need an address, such as :9443; to have none, use \
                        --enable-webhook=false"
                    .to_owned(),
            );
        }
        let address = &self.webhook_advertise_address;
        if !address.is_empty() && !super::is_host_and_port(address) {
            return Err(format!("--webhook-advertise-address: {address:?} is not host:port"));
        }
        Ok(())
    }

    /// Where the API server finds the webhooks with url.
    pub fn address(&self, namespace: &str) -> String {
        if self.webhook_advertise_address.is_empty() {
            return format!("{}.{namespace}.svc.cluster.local:9443", self.webhook_service_name);
        }
        self.webhook_advertise_address.clone()
    }
}
