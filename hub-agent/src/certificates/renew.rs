//! A Secret of the agent's own: made by the leader, and renewed before it ends.

use std::{collections::BTreeMap, time::Duration};

use fleet_api::raw::RawJson;
use fleet_runtime::{Key, backoff::Backoff, cache::Store, clock::Clock};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::api::ObjectMeta;
use serde_json::json;
use tokio::sync::watch;

use super::{
    Certificate,
    issue::{self, Serving},
};
use crate::writer::{Part, WriteError, Writer};

/// How often the leader looks whether its certificate is due.
const RENEWAL_INTERVAL: Duration = Duration::from_hours(1);
const RETRY: Backoff = Backoff {
    min: Duration::from_secs(1),
    max: Duration::from_mins(1),
};

/// Makes and renews a Secret.
pub(super) struct Renewal {
    pub(super) of: &'static Certificate,
    pub(super) writer: Writer,
    pub(super) store: Store<Secret>,
    pub(super) key: Key,
    pub(super) hosts: Vec<String>,
    pub(super) clock: Clock,
}

type Data = BTreeMap<String, ByteString>;

impl Renewal {
    pub(super) async fn run(self, mut leading: watch::Receiver<bool>) {
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
                        "The {}'s Secret could not be written",
                        self.of.server
                    );
                    tokio::time::sleep(RETRY.delay(failures)).await;
                }
            }
        }
    }

    pub(super) async fn pass(&self) -> anyhow::Result<()> {
        let now = self.clock.now();
        let secret = self.store.get(&self.key);
        let data = secret.as_ref().and_then(|s| s.data.clone()).unwrap_or_default();
        if secret.is_some() && !is_due(self.of, &data, &self.hosts, now) {
            return Ok(());
        }
        let new = issue::make(self.of, &data, &self.hosts, now)?;
        let written = match &secret {
            None => self.create(new).await,
            Some(secret) => self.renew(secret, new).await,
        };
        match written {
            Ok(true) => tracing::info!(secret = %self.key, "Made a certificate for the {}", self.of.server),
            Ok(false) => {}
            // Another leader was quicker: the watch has brought its Secret.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn create(&self, data: Data) -> Result<bool, WriteError> {
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(self.key.name().to_owned()),
                namespace: self.key.namespace().map(str::to_owned),
                ..ObjectMeta::default()
            },
            type_: Some("kubernetes.io/tls".to_owned()),
            data: Some(data),
            ..Secret::default()
        };
        let body = || Some(RawJson::from_serialize(&secret));
        let made = self.writer.create(&self.store, &self.key, &self.key, body).await?;
        Ok(made.is_some())
    }

    /// Gives the Secret this data, unless somebody has changed it since.
    async fn renew(&self, read: &Secret, data: Data) -> Result<bool, WriteError> {
        let patch = |now: &Secret| {
            let same = now.metadata.resource_version == read.metadata.resource_version;
            same.then(|| json!({ "data": data }))
        };
        let (store, key) = (&self.store, &self.key);
        let renewed = self.writer.patch(store, key, key, Part::Object, patch).await?;
        Ok(renewed.is_some())
    }
}

/// Whether a certificate has to be made: none there, damaged, close to its end, or not for all hosts.
pub(super) fn is_due(of: &'static Certificate, data: &Data, hosts: &[String], now: Timestamp) -> bool {
    Serving::from_data(of, data).map_or(true, |serving| {
        serving.renew_at().map_or(true, |at| at <= now) || !serving.covers(hosts)
    })
}
