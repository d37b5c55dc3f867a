//! Where the channel's certificates come from, and how they stay current while the agent runs.
//!
//! The serving certificate is read from files, from a Secret that somebody else keeps, or from a Secret that the leader
//! makes and renews. The CA that client certificates are checked against is the API server's own, from a ConfigMap. Each
//! change becomes a new TLS configuration, which the next handshake uses.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use fleet_runtime::{
    Key,
    backoff::Backoff,
    cache::{self, Selection, Store},
    client::answered,
    clock::Clock,
    logs,
};
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use rustls::ServerConfig;
use serde_json::json;
use tokio::sync::watch;

use super::certificate::{self, Serving};

/// The Secret that the agent makes for itself.
pub const OWN_SECRET: &str = "fleet-channel-tls";
const CLIENT_CA_NAMESPACE: &str = "kube-system";
const CLIENT_CA_NAME: &str = "extension-apiserver-authentication";
const CLIENT_CA_KEY: &str = "client-ca-file";
/// Mounted Secrets change within a minute; looking costs nothing.
const FILES_INTERVAL: Duration = Duration::from_secs(10);
/// How often the leader looks whether its certificate is due.
const RENEWAL_INTERVAL: Duration = Duration::from_hours(1);
const RETRY: Backoff = Backoff {
    min: Duration::from_secs(1),
    max: Duration::from_mins(1),
};

/// Where the serving certificate is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In files, which somebody else keeps.
    Files {
        /// The chain, PEM.
        cert: PathBuf,
        /// Its key, PEM.
        key: PathBuf,
        /// What members are told to trust, PEM.
        ca: PathBuf,
    },
    /// In a Secret that somebody else keeps.
    Secret {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// In the Secret [`OWN_SECRET`], which the leader makes and renews.
    Own {
        /// The agent's namespace.
        namespace: String,
        /// Names and addresses to be valid for; see [`hosts`].
        hosts: Vec<String>,
    },
}

/// What is served now. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Current {
    /// For the listener. None: there is no certificate (yet).
    pub tls: watch::Receiver<Option<Arc<ServerConfig>>>,
    /// PEM of the CA that members are told to trust.
    pub ca: watch::Receiver<Option<String>>,
}

/// The names and addresses that a certificate of our own should be valid for: the host that members are told to connect
/// to (`host:port`, may be empty), further ones, and this machine.
pub fn hosts(advertise: &str, further: &[String]) -> Vec<String> {
    let host = advertise.rsplit_once(':').map_or(advertise, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut all: Vec<String> = [host]
        .into_iter()
        .chain(further.iter().map(String::as_str))
        .chain(["localhost", "127.0.0.1"])
        .filter(|host| !host.is_empty())
        .map(str::to_owned)
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|host| seen.insert(host.clone()));
    all
}

/// What is served, and the task that keeps it so, which never ends.
pub fn keep(
    client: Client,
    clock: Clock,
    source: Source,
    leading: watch::Receiver<bool>,
) -> (Current, impl Future<Output = ()> + Send + 'static) {
    let (tls, tls_receiver) = watch::channel(None);
    let (ca, ca_receiver) = watch::channel(None);
    let current = Current {
        tls: tls_receiver,
        ca: ca_receiver,
    };
    let client_cas = Store::<ConfigMap>::new("configmaps");
    let keeper = Keeper {
        clock,
        tls,
        ca,
        client_cas: client_cas.clone(),
        serving: None,
        client_ca: None,
    };
    let task = async move {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), CLIENT_CA_NAMESPACE);
        let watch_ca = client_cas.watch(api, named(CLIENT_CA_NAME), cache::plain);
        match source {
            Source::Files { cert, key, ca } => {
                tokio::join!(watch_ca, keeper.follow_files(cert, key, ca));
            }
            Source::Secret { namespace, name } => {
                let store = Store::<Secret>::new("secrets");
                let watch = store
                    .clone()
                    .watch(Api::namespaced(client, &namespace), named(&name), cache::plain);
                tokio::join!(
                    watch_ca,
                    watch,
                    keeper.follow_secret(store, Key::namespaced(namespace, name))
                );
            }
            Source::Own { namespace, hosts } => {
                let store = Store::<Secret>::new("secrets");
                let api: Api<Secret> = Api::namespaced(client, &namespace);
                let watch = store.clone().watch(api.clone(), named(OWN_SECRET), cache::plain);
                let key = Key::namespaced(namespace, OWN_SECRET);
                let renewal = Renewal {
                    api,
                    store: store.clone(),
                    key: key.clone(),
                    hosts,
                    clock: keeper.clock.clone(),
                };
                tokio::join!(watch_ca, watch, renewal.run(leading), keeper.follow_secret(store, key));
            }
        }
    };
    (current, task)
}

fn named(name: &str) -> Selection {
    Selection {
        fields: Some(format!("metadata.name={name}")),
        ..Selection::default()
    }
}

/// Turns what is read into what is served.
struct Keeper {
    clock: Clock,
    tls: watch::Sender<Option<Arc<ServerConfig>>>,
    ca: watch::Sender<Option<String>>,
    client_cas: Store<ConfigMap>,
    serving: Option<Serving>,
    client_ca: Option<String>,
}

impl Keeper {
    async fn follow_secret(mut self, secrets: Store<Secret>, key: Key) {
        let (mut of_secrets, mut of_cas) = (secrets.subscribe(), self.client_cas.subscribe());
        loop {
            tokio::select! {
                _ = of_secrets.next() => {}
                _ = of_cas.next() => {}
            }
            let read = secrets.get(&key).map(|secret| {
                let data = secret.data.clone().unwrap_or_default();
                Serving::from_data(&data)
            });
            match read {
                Some(Ok(serving)) => self.serve(serving),
                Some(Err(error)) => {
                    tracing::error!(secret = %key, %error, "The channel's Secret cannot be used; the last good one stays");
                }
                None => tracing::info!(secret = %key, "There is no certificate for the channel yet"),
            }
        }
    }

    async fn follow_files(mut self, cert: PathBuf, key: PathBuf, ca: PathBuf) {
        let mut of_cas = self.client_cas.subscribe();
        let mut last_error = String::new();
        loop {
            let read = async {
                let mut data = BTreeMap::new();
                for (name, path) in [("tls.crt", &cert), ("tls.key", &key), ("ca.crt", &ca)] {
                    let bytes = tokio::fs::read(path)
                        .await
                        .map_err(|e| format!("{}: {e}", path.display()))?;
                    data.insert(name.to_owned(), ByteString(bytes));
                }
                Serving::from_data(&data).map_err(|e| e.to_string())
            };
            match read.await {
                Ok(serving) => {
                    last_error.clear();
                    self.serve(serving);
                }
                // While files are being replaced this can happen once.
                Err(error) if error != last_error => {
                    tracing::error!(
                        error,
                        "The channel's certificate files cannot be used; the last good ones stay"
                    );
                    last_error = error;
                }
                Err(_) => {}
            }
            let _ = tokio::time::timeout(FILES_INTERVAL, of_cas.next()).await;
        }
    }

    fn serve(&mut self, serving: Serving) {
        let key = Key::namespaced(CLIENT_CA_NAMESPACE, CLIENT_CA_NAME);
        let client_ca = self
            .client_cas
            .get(&key)
            .and_then(|map| map.data.as_ref()?.get(CLIENT_CA_KEY).cloned())
            .filter(|pem| !pem.trim().is_empty());
        if self.serving.as_ref() == Some(&serving) && self.client_ca == client_ca {
            return;
        }
        let config = serving.server_config(client_ca.as_deref()).or_else(|error| {
            // Tokens still work; an odd client CA must not keep every member out.
            tracing::warn!(error = %logs::chain(&error), "Client certificates are not accepted");
            serving.server_config(None)
        });
        match config {
            Ok(config) => {
                if serving.not_after().is_ok_and(|end| end <= self.clock.now()) {
                    tracing::error!("The channel's certificate has expired; members will refuse it");
                }
                tracing::info!(
                    client_certificates = client_ca.is_some(),
                    "Serving a new channel certificate"
                );
                self.tls.send_replace(Some(config));
                self.ca.send_if_modified(|ca| {
                    let changed = ca.as_ref() != Some(&serving.ca);
                    *ca = Some(serving.ca.clone());
                    changed
                });
                self.serving = Some(serving);
                self.client_ca = client_ca;
            }
            Err(error) => tracing::error!(error = %logs::chain(&error), "The channel's certificate cannot be served"),
        }
    }
}

/// Makes and renews the agent's own Secret.
struct Renewal {
    api: Api<Secret>,
    store: Store<Secret>,
    key: Key,
    hosts: Vec<String>,
    clock: Clock,
}

impl Renewal {
    async fn run(self, mut leading: watch::Receiver<bool>) {
        self.store.synced().await;
        let mut failures = 0;
        let mut changes = self.store.subscribe();
        loop {
            if leading.wait_for(|leading| *leading).await.is_err() {
                return std::future::pending().await;
            }
            match self.pass().await {
                Ok(()) => {
                    failures = 0;
                    let _ = tokio::time::timeout(RENEWAL_INTERVAL, changes.next()).await;
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(
                        error = format!("{error:#}"),
                        failures,
                        "The channel's Secret could not be written"
                    );
                    tokio::time::sleep(RETRY.delay(failures)).await;
                }
            }
        }
    }

    async fn pass(&self) -> anyhow::Result<()> {
        let now = self.clock.now();
        let secret = self.store.get(&self.key);
        let data = secret.as_ref().and_then(|s| s.data.clone()).unwrap_or_default();
        if secret.is_some() && !is_due(&data, &self.hosts, now) {
            return Ok(());
        }
        let new = certificate::make(&data, &self.hosts, now)?;
        let answer = match &secret {
            None => {
                let secret = Secret {
                    metadata: ObjectMeta {
                        name: Some(self.key.name().to_owned()),
                        namespace: self.key.namespace().map(str::to_owned),
                        ..ObjectMeta::default()
                    },
                    type_: Some("kubernetes.io/tls".to_owned()),
                    data: Some(new),
                    ..Secret::default()
                };
                answered(self.api.create(&PostParams::default(), &secret)).await
            }
            Some(secret) => {
                let patch = json!({
                    "metadata": { "resourceVersion": secret.metadata.resource_version },
                    "data": new,
                });
                let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
                answered(self.api.patch(self.key.name(), &params, &patch)).await
            }
        };
        match answer {
            Ok(secret) => {
                self.store.wrote(secret);
                tracing::info!(secret = %self.key, "Made a certificate for the channel");
                Ok(())
            }
            // Another leader was quicker: the watch brings its Secret.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                tokio::time::sleep(RETRY.min).await;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a certificate has to be made: none there, damaged, close to its end, or not for all hosts.
fn is_due(data: &BTreeMap<String, ByteString>, hosts: &[String], now: Timestamp) -> bool {
    Serving::from_data(data).map_or(true, |serving| {
        serving.renew_at().map_or(true, |at| at <= now) || !serving.covers(hosts)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_come_from_the_advertised_address() {
        let further = vec!["hub-channel.fleet-system.svc".to_owned(), "localhost".to_owned()];
        assert_eq!(
            hosts("fleet.example.com:8443", &further),
            [
                "fleet.example.com",
                "hub-channel.fleet-system.svc",
                "localhost",
                "127.0.0.1"
            ]
        );
        assert_eq!(hosts("", &[]), ["localhost", "127.0.0.1"]);
        assert_eq!(hosts("[::1]:8443", &[])[0], "::1");
    }

    /// A client whose every request is answered like this.
    fn client(answer: impl Fn(&str, serde_json::Value) -> (u16, serde_json::Value) + Send + Sync + 'static) -> Client {
        let answer = Arc::new(answer);
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let answer = answer.clone();
            async move {
                let method = request.method().to_string();
                let bytes = request.into_body().collect_bytes().await?;
                let (code, body) = answer(&method, serde_json::from_slice(&bytes).unwrap_or_default());
                let mut response = http::Response::new(kube::client::Body::from(body.to_string().into_bytes()));
                *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(service, "default")
    }

    fn install() {
        let _ = rustls::crypto::ring::default_provider().install_default();
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_read_again_when_they_change_and_bad_ones_change_nothing() {
        install();
        let directory = std::env::temp_dir().join(format!("channel-files-{:016x}", fastrand::u64(..)));
        std::fs::create_dir(&directory).unwrap();
        let path = |name: &str| directory.join(name);
        let write = |data: &BTreeMap<String, ByteString>| {
            for (name, content) in data {
                std::fs::write(path(name), &content.0).unwrap();
            }
        };
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let first = certificate::make(&BTreeMap::new(), &hosts("", &[]), now).unwrap();
        let text = |data: &BTreeMap<String, ByteString>| String::from_utf8(data["ca.crt"].0.clone()).unwrap();
        write(&first);
        let source = Source::Files {
            cert: path("tls.crt"),
            key: path("tls.key"),
            ca: path("ca.crt"),
        };
        let client = client(|_, _| (403, json!({ "kind": "Status", "code": 403, "message": "no" })));
        let (mut current, task) = keep(client, Clock::manual(now), source, watch::channel(false).1);
        let task = tokio::spawn(task);
        current.ca.wait_for(|ca| *ca == Some(text(&first))).await.unwrap();
        assert!(current.tls.borrow_and_update().is_some());
        std::fs::write(path("tls.crt"), "garbage").unwrap();
        tokio::time::sleep(FILES_INTERVAL * 3).await;
        assert!(!current.tls.has_changed().unwrap(), "the last good one stays");
        let second = certificate::make(&BTreeMap::new(), &hosts("", &[]), now).unwrap();
        write(&second);
        current.ca.wait_for(|ca| *ca == Some(text(&second))).await.unwrap();
        task.abort();
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[tokio::test]
    async fn the_own_secret_is_made_once_and_renewed_in_place() {
        let asked = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let log = asked.clone();
        let client = client(move |method, mut body| {
            log.lock().push(method.to_owned());
            body["metadata"]["name"] = json!(OWN_SECRET);
            body["metadata"]["namespace"] = json!("ns");
            body["metadata"]["resourceVersion"] = json!(log.lock().len().to_string());
            (200, body)
        });
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let clock = Clock::manual(now);
        let renewal = Renewal {
            api: Api::namespaced(client, "ns"),
            store: Store::new("secrets"),
            key: Key::namespaced("ns", OWN_SECRET),
            hosts: hosts("hub:1", &[]),
            clock: clock.clone(),
        };
        renewal.pass().await.unwrap();
        renewal.pass().await.unwrap();
        assert_eq!(*asked.lock(), ["POST"]);
        let ca = renewal.store.get(&renewal.key).unwrap().data.clone().unwrap()["ca.crt"].clone();
        clock.set(now + jiff::SignedDuration::from_hours(61 * 24));
        renewal.pass().await.unwrap();
        assert_eq!(*asked.lock(), ["POST", "PATCH"]);
        let renewed = renewal.store.get(&renewal.key).unwrap().data.clone().unwrap();
        assert_eq!(renewed["ca.crt"], ca, "members keep trusting it");
    }

    #[test]
    fn a_certificate_is_due_when_missing_damaged_old_or_for_other_hosts() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let own = hosts("a.example.com:1", &[]);
        let data = certificate::make(&BTreeMap::new(), &own, now).unwrap();
        assert!(!is_due(&data, &own, now));
        assert!(is_due(&BTreeMap::new(), &own, now));
        assert!(is_due(&data, &hosts("b.example.com:1", &[]), now));
        assert!(is_due(&data, &own, now + jiff::SignedDuration::from_hours(61 * 24)));
        let mut damaged = data;
        damaged.insert("tls.crt".into(), ByteString(b"x".to_vec()));
        assert!(is_due(&damaged, &own, now));
    }
}
