//! The connection to an API server.
//!
//! What kube 5 does by itself and is relied upon here: a token *file* (in-cluster, or `tokenFile` in a kubeconfig) is
//! read again every minute, the in-cluster CA file too; a client certificate is read once. It speaks HTTP/1.1, so every
//! request in flight has its own connection: one `Client` per API server is enough, and the write queue's limit is the
//! limit of its pool.

use std::time::Duration;

use http::{HeaderValue, header::USER_AGENT};
use kube::{
    Client, Config,
    config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};

use crate::options::ClientArgs;

/// Long enough for a busy node, short enough that a lease can be renewed by a second try.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubeconfig could not be read, or has no such context.
    #[error("could not use the kubeconfig")]
    Kubeconfig(#[source] KubeconfigError),
    /// Neither a kubeconfig was named nor is this a Pod.
    #[error("not running in a cluster, and no --kubeconfig given")]
    InCluster(#[source] InClusterError),
    /// The settings are there but make no client, for example a broken certificate.
    #[error("could not build the client")]
    Build(#[source] kube::Error),
}

/// The configuration that the arguments name: a kubeconfig, else the Pod's ServiceAccount.
///
/// # Errors
/// If there is none, or it cannot be read.
pub async fn config(args: &ClientArgs, user_agent: &str) -> Result<Config, Error> {
    let config = match &args.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(Error::Kubeconfig)?;
            let options = KubeConfigOptions {
                context: args.context.clone(),
                ..KubeConfigOptions::default()
            };
            Config::from_custom_kubeconfig(file, &options)
                .await
                .map_err(Error::Kubeconfig)?
        }
        None => Config::incluster().map_err(Error::InCluster)?,
    };
    Ok(tuned(config, user_agent))
}

/// A client for a configuration that was made elsewhere, with this project's settings.
///
/// # Errors
/// If the configuration makes no client.
pub fn build(config: Config, user_agent: &str) -> Result<Client, Error> {
    Client::try_from(tuned(config, user_agent)).map_err(Error::Build)
}

/// A client as the arguments say.
///
/// # Errors
/// If there is no configuration, or it makes no client.
pub async fn connect(args: &ClientArgs, user_agent: &str) -> Result<Client, Error> {
    Client::try_from(config(args, user_agent).await?).map_err(Error::Build)
}

fn tuned(mut config: Config, user_agent: &str) -> Config {
    // kube would repeat 429, 503 and 504 up to 15 times with the old body, unseen. Our queues decide, with a new body.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // No read time-out: it would count the time that a pooled connection was idle. Writes and watches have their own.
    config.read_timeout = None;
    let agent = HeaderValue::from_str(user_agent).expect("a user agent is plain ASCII");
    config.headers.retain(|(name, _)| name != USER_AGENT);
    config.headers.push((USER_AGENT, agent));
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_not_repeated_behind_our_back() {
        let config = tuned(
            Config::new(http::Uri::from_static("https://hub.example")),
            "hub-agent/0.1.0",
        );
        assert!(!config.default_retry);
        let config = tuned(config, "hub-agent/0.1.0");
        assert_eq!(
            config.headers,
            [(USER_AGENT, HeaderValue::from_static("hub-agent/0.1.0"))]
        );
    }
}
