//! The connection to an API server.
//!
//! What kube 5 does by itself and is relied upon here: a token *file* (in-cluster, or `tokenFile` in a kubeconfig) is
//! read again every minute, the in-cluster CA file too; a client certificate is read once. It speaks HTTP/1.1, so every
//! request in flight has its own connection: one `Client` per API server is enough, and the write queue's limit is the
//! limit of its pool.

use std::time::Duration;

use http::{HeaderValue, Uri, header::USER_AGENT};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _},
    config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tower::{BoxError, Service, ServiceBuilder};

use crate::{options::ClientArgs, proxy::Way};

/// Long enough for a busy node, short enough that a lease can be renewed by a second try.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a read may take. Who waits for ever holds what waits behind him.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A peer that is gone without a word is noticed within a minute: from then on it is asked every few seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_RETRIES: u32 = 3;

/// Idle connections for the next burst of requests; more would be held for a minute and a half after each.
const IDLE_MAX: usize = 32;

/// What a connection may hold for what it reads. It would grow with what was read once, to 400 KiB for each of a hundred
/// watches.
const BUFFER_MAX: usize = 32 * 1024;

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

/// Whether there is no such object. That its kind is not served, or not now, says nothing about objects.
pub fn is_not_found(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let names_object = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
    status.code == 404 && status.reason == "NotFound" && names_object
}

/// A client for a configuration that was made elsewhere, with this project's settings.
///
/// # Errors
/// If the configuration makes no client.
pub fn build(config: Config, user_agent: &str) -> Result<Client, Error> {
    client(tuned(config, user_agent)).map_err(Error::Build)
}

/// A client as the arguments say.
///
/// # Errors
/// If there is no configuration, or it makes no client.
pub async fn connect(args: &ClientArgs, user_agent: &str) -> Result<Client, Error> {
    client(config(args, user_agent).await?).map_err(Error::Build)
}

/// As kube would, on [connections](pool) that hold less.
fn client(config: Config) -> kube::Result<Client> {
    let proxy = config.proxy_url.clone();
    if proxy.as_ref().is_some_and(|proxy| proxy.scheme_str() != Some("http")) {
        return Client::try_from(config);
    }
    let https = config.rustls_https_connector_with_connector(Way::through(tcp(), proxy))?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(pool(https, CONNECT_TIMEOUT));
    Ok(Client::new(service, config.default_namespace))
}

/// The lower half of a connector to an API server.
pub fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    // A request of several segments must not wait for the acknowledgement of the first.
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEP_ALIVE));
    tcp.set_keepalive_interval(Some(KEEP_ALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEP_ALIVE_RETRIES));
    tcp
}

/// A read that ends, one way or the other.
///
/// # Errors
/// Those of the read, and that there was no answer.
pub async fn answered<T>(read: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    let late = || {
        let error = format!("the API server did not answer within {} s", ANSWER_TIMEOUT.as_secs());
        kube::Error::Service(error.into())
    };
    tokio::time::timeout(ANSWER_TIMEOUT, read)
        .await
        .unwrap_or_else(|_| Err(late()))
}

/// Connections to an API server. One counts as made when TLS is spoken.
pub fn pool<C>(https: C, timeout: Duration) -> legacy::Client<TimeoutConnector<C>, Body>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: legacy::connect::Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(Some(timeout));
    legacy::Builder::new(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(IDLE_MAX)
        .http1_max_buf_size(BUFFER_MAX)
        .build(connector)
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
