//! Flags that kubectl has too, with its names: where the hub is, who asks, and in which namespace.

use std::{path::PathBuf, time::Duration};

use jiff::SignedDuration;

/// How to reach the hub.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Options of kubectl")]
pub(crate) struct Globals {
    /// The kubeconfig [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig context of the hub [default: the current one]
    #[arg(
        long,
        value_name = "NAME",
        visible_alias = "hub-cluster-context",
        alias = "hubClusterContext"
    )]
    pub(crate) context: Option<String>,
    /// The kubeconfig cluster
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// The kubeconfig user
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Ask as this user
    #[arg(long = "as", value_name = "USER")]
    pub(crate) as_user: Option<String>,
    /// Ask as this group; may be repeated
    #[arg(long, value_name = "GROUP", requires = "as_user")]
    pub(crate) as_group: Vec<String>,
    /// How long one request may take, such as 10s; 0s for ever
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = timeout)]
    pub(crate) request_timeout: Duration,
}

/// Reads `5m` or `1m30s`.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<SignedDuration>().ok();
    let positive = parsed.and_then(|duration| Duration::try_from(duration).ok());
    positive.ok_or_else(|| "want a duration, such as 5m".to_owned())
}

/// The namespace of what is asked about.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Options of kubectl")]
pub(crate) struct InNamespace {
    /// The namespace of what is asked about [default: that of the context]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

impl Globals {
    /// The same flags for a member.
    pub(crate) fn of_member(&self, context: &str) -> Self {
        Self {
            context: Some(context.to_owned()),
            cluster: None,
            user: None,
            ..self.clone()
        }
    }
}
