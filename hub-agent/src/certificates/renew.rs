//! The agent's own Secret: made by the leader, and renewed before it ends.

use std::{collections::BTreeMap, time::Duration};

use fleet_runtime::{Key, backoff::Backoff, cache::Store, client::answered, clock::Clock};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::watch;

use super::issue::{self, Serving};

/// The Secret that the agent makes for itself.
pub(super) const OWN_SECRET: &str = "fleet-channel-tls";
/// How often the leader looks whether its certificate is due.
const RENEWAL_INTERVAL: Duration = Duration::from_hours(1);
const RETRY: Backoff = Backoff {
    min: Duration::from_secs(1),
    max: Duration::from_mins(1),
};

/// Makes and renews the agent's own Secret.
pub(super) struct Renewal {
    pub(super) api: Api<Secret>,
    pub(super) store: Store<Secret>,
    pub(super) key: Key,
    pub(super) hosts: Vec<String>,
    pub(super) clock: Clock,
}

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
                        "The channel's Secret could not be written"
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
        if secret.is_some() && !is_due(&data, &self.hosts, now) {
            return Ok(());
        }
        let new = issue::make(&data, &self.hosts, now)?;
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
pub(super) fn is_due(data: &BTreeMap<String, ByteString>, hosts: &[String], now: Timestamp) -> bool {
    Serving::from_data(data).map_or(true, |serving| {
        serving.renew_at().map_or(true, |at| at <= now) || !serving.covers(hosts)
    })
}
