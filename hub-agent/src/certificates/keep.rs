//! Where certificates come from, and how they stay current while the agent runs.
//!
//! A serving certificate is read from files, from a Secret that somebody else keeps, or from a Secret that the leader makes
//! and renews. The CA that client certificates are checked against is the API server's own, from a ConfigMap. Each change
//! becomes a new TLS configuration, which the next handshake uses.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use fleet_runtime::{
    Key,
    cache::{self, Era, Selection, Store},
    clock::Clock,
    logs,
};
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use kube::{Api, Client};
use tokio::sync::watch;

use super::{
    Certificate,
    issue::{Serving, Tls},
    renew::Renewal,
};
use crate::writer::Writer;

const CLIENT_CA_NAMESPACE: &str = "kube-system";
const CLIENT_CA_NAME: &str = "extension-apiserver-authentication";
const CLIENT_CA_KEY: &str = "client-ca-file";
/// Mounted Secrets change within a minute; looking costs nothing.
pub(super) const FILES_INTERVAL: Duration = Duration::from_secs(10);

/// Where the serving certificate is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// In files, which somebody else keeps.
    Files {
        /// The chain, PEM.
        cert: PathBuf,
        /// Its key, PEM.
        key: PathBuf,
        /// What peers are told to trust, PEM.
        ca: PathBuf,
    },
    /// In a Secret that somebody else keeps.
    Secret {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// In the Secret that the [`Certificate`] names, which the leader makes and renews.
    Own {
        /// The agent's namespace.
        namespace: String,
        /// Names and addresses to be valid for; see [`hosts`].
        hosts: Vec<String>,
    },
}

/// What is served now. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Current {
    /// For the listener. None: there is no certificate (yet).
    pub(crate) tls: watch::Receiver<Option<Tls>>,
    /// PEM of the CA that peers are told to trust.
    pub(crate) ca: watch::Receiver<Option<String>>,
}

/// The names and addresses that a certificate of our own should be valid for: the host that members are told to connect
/// to (`host:port`, may be empty), further ones, and this machine.
pub(crate) fn hosts(advertise: &str, further: &[String]) -> Vec<String> {
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

/// What certificates are kept with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Deps {
    pub(crate) client: Client,
    pub(crate) era: Era,
    pub(crate) clock: Clock,
    pub(crate) writer: Writer,
    /// Whether this replica leads.
    pub(crate) leading: watch::Receiver<bool>,
}

/// What is served, and the task that keeps it so, which never ends.
pub(crate) fn keep(
    of: &'static Certificate,
    source: Source,
    deps: Deps,
) -> (Current, impl Future<Output = ()> + Send + 'static) {
    let Deps {
        client,
        era,
        clock,
        writer,
        leading,
    } = deps;
    let (tls, tls_receiver) = watch::channel(None);
    let (ca, ca_receiver) = watch::channel(None);
    let current = Current {
        tls: tls_receiver,
        ca: ca_receiver,
    };
    let client_cas = Store::<ConfigMap>::new("configmaps");
    let keeper = Keeper {
        of,
        clock,
        tls,
        ca,
        client_cas: client_cas.clone(),
        serving: None,
        client_ca: None,
    };
    let task = async move {
        let named = |name: &str| Selection {
            fields: Some(format!("metadata.name={name}")),
            ..Selection::all(&era)
        };
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), CLIENT_CA_NAMESPACE);
        let watch_ca = async {
            if of.client_certificates {
                client_cas.watch(api, named(CLIENT_CA_NAME), cache::plain).await;
            }
        };
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
                let watch = store.clone().watch(api, named(of.secret), cache::plain);
                let key = Key::namespaced(namespace, of.secret);
                let renewal = Renewal {
                    of,
                    writer,
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

/// Turns what is read into what is served.
struct Keeper {
    of: &'static Certificate,
    clock: Clock,
    tls: watch::Sender<Option<Tls>>,
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
                Serving::from_data(self.of, &data)
            });
            match read {
                Some(Ok(serving)) => self.serve(serving),
                Some(Err(error)) => {
                    let server = self.of.server;
                    tracing::error!(secret = %key, %error, "The {server}'s Secret cannot be used; the last good one stays");
                }
                None => tracing::info!(secret = %key, "There is no certificate for the {} yet", self.of.server),
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
                Serving::from_data(self.of, &data).map_err(|e| e.to_string())
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
                        "The {}'s certificate files cannot be used; the last good ones stay",
                        self.of.server
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
        let Certificate { server, peers, .. } = self.of;
        let tls = serving.tls(client_ca.as_deref()).or_else(|error| {
            // Tokens still work; an odd client CA must not keep everybody out.
            tracing::warn!(error = %logs::chain(&error), "Client certificates are not accepted");
            serving.tls(None)
        });
        match tls {
            Ok(tls) => {
                if serving.not_after().is_ok_and(|end| end <= self.clock.now()) {
                    tracing::error!("The {server}'s certificate has expired; {peers} will refuse it");
                }
                tracing::info!(
                    client_certificates = client_ca.is_some(),
                    "Serving a new {server} certificate"
                );
                // The CA first: whoever hears of the certificate asks whether its CA is trusted.
                self.ca.send_if_modified(|ca| {
                    let changed = ca.as_ref() != Some(&serving.ca);
                    *ca = Some(serving.ca.clone());
                    changed
                });
                self.tls.send_replace(Some(tls));
                self.serving = Some(serving);
                self.client_ca = client_ca;
            }
            Err(error) => {
                tracing::error!(error = %logs::chain(&error), "The {server}'s certificate cannot be served");
            }
        }
    }
}
