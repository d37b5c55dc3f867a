//! The first line of the log.

use crate::{
    hub_access::settings::{HubSettings, Identity as HubIdentity},
    options::Options,
};

/// Says once what the agent was told, without anything secret.
pub(super) fn announce(options: &Options, settings: &HubSettings) {
    let identity = match &settings.identity {
        HubIdentity::TokenFile(path) => format!("token file {}", path.display()),
        HubIdentity::TokenSecret { namespace, name } => format!("token secret {namespace}/{name}"),
        HubIdentity::Certificate { cert, .. } => format!("client certificate {}", cert.display()),
    };
    let headers: Vec<&str> = settings.headers.iter().map(|(name, _)| name.as_str()).collect();
    let or_announced = |set: Option<String>| set.unwrap_or_else(|| "as the hub announces".to_owned());
    let channel = or_announced(settings.channel.as_ref().map(ToString::to_string));
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        member = %settings.cluster,
        hub = %settings.server,
        channel,
        channel_ca = or_announced(settings.channel_ca.as_ref().map(|_| "from the settings".to_owned())),
        identity,
        ?headers,
        options = ?options,
        "Starting"
    );
    if options.hub.tls_insecure {
        tracing::warn!(
            "--tls-insecure: the hub's certificates are not verified, so anybody in between can pose as the hub"
        );
    }
}
