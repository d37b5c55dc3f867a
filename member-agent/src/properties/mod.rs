//! What this cluster says about itself: properties, resources, namespaces.
//!
//! ```text
//! nodes, pods, namespaces ──watch──► OwnCluster (running sums) ──► provider ──► ClusterReport ──► session
//! ```
//!
//! Changes of nodes, capacity and namespaces are reported at once, at most one report a second; what is available goes
//! with the heartbeat.

mod azure;
mod builtin;
mod cluster;
mod collector;
pub mod health;
mod lean;
mod platform;
mod prices;
mod version;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleet_api::{
    cluster::{PropertyValue, ResourceUsage},
    conditions::ConditionState,
    events::InternalMemberClusterEvent,
};
use fleet_core::{
    membership::properties::{Cadence, Change},
    session::{cluster::PropertiesReport, condition::ReportedCondition},
};
use fleet_runtime::clock::Clock;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};

pub use self::{
    azure::Azure,
    builtin::{BuiltIn, Identity},
    cluster::OwnCluster,
    collector::Collector,
    platform::platform_labels,
    prices::PriceFile,
    version::Version,
};
use crate::outgoing::said;

/// Somebody who knows more about the cluster than its API server does.
pub trait Provider: Send + Sync + 'static {
    /// Gets ready. Tried again after an error; a start that takes long is adopted when it succeeds.
    fn start(&self) -> BoxFuture<'_, Result<(), String>>;

    /// What is true now. Nothing is waited for longer than a few seconds; the call itself may take its time.
    fn collect(&self) -> BoxFuture<'_, Collected>;

    /// What keeps it from answering, if it knows.
    fn hindrance(&self) -> Option<String> {
        None
    }
}

/// What a provider found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Collected {
    /// By name.
    pub properties: BTreeMap<String, PropertyValue>,
    /// Sums over nodes and pods; none leaves what was reported before.
    pub usage: Option<ResourceUsage>,
    /// Owner by namespace; none if they are not collected.
    pub namespaces: Option<BTreeMap<String, String>>,
    /// What the provider says about its work.
    pub conditions: Vec<ReportedCondition>,
}

impl Collected {
    /// Adds a property.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>, observed_at: Timestamp) {
        let value = value.into();
        self.properties.insert(
            name.into(),
            PropertyValue {
                value,
                observation_time: Time(observed_at),
            },
        );
    }
}

/// What is reported about the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterReport {
    /// None if collecting failed: what was reported before stays.
    pub collected: Option<Collected>,
    /// About the collection.
    pub conditions: Vec<ReportedCondition>,
}

impl ClusterReport {
    /// Whether the two differ at most in the times of their observations.
    pub fn same_content(&self, other: &Self) -> bool {
        let timeless = |report: &Self| {
            let mut report = report.clone();
            if let Some(collected) = &mut report.collected {
                for value in collected.properties.values_mut() {
                    value.observation_time = Time(Timestamp::UNIX_EPOCH);
                }
                if let Some(usage) = &mut collected.usage {
                    usage.observation_time = None;
                }
            }
            report
        };
        timeless(self) == timeless(other)
    }

    /// As a message about this InternalMemberCluster.
    pub fn message(&self, imc_uid: &str, imc_generation: i64) -> PropertiesReport {
        let mut conditions = self.conditions.clone();
        let collected = self.collected.clone();
        let succeeded = collected.is_some();
        let Collected {
            properties,
            usage,
            namespaces,
            conditions: of_provider,
        } = collected.unwrap_or_default();
        conditions.extend(of_provider);
        PropertiesReport {
            imc_uid: imc_uid.to_owned(),
            imc_generation,
            properties,
            usage,
            namespaces,
            conditions,
            collected: succeeded,
        }
    }

    /// A collection that failed.
    fn failed(state: &impl ConditionState) -> Self {
        Self {
            collected: None,
            conditions: vec![said(state)],
        }
    }
}

/// Tells people on the hub.
pub type Recorder = Arc<dyn Fn(InternalMemberClusterEvent) + Send + Sync>;

/// Collects with every heartbeat and whenever something changed that placement cares about, for ever.
pub async fn run(
    mut collector: Collector,
    changed: Arc<Notify>,
    beat: Arc<Notify>,
    clock: Clock,
    report: watch::Sender<Option<Arc<ClusterReport>>>,
) {
    let mut cadence = Cadence::default();
    cadence.changed(Change::Structural);
    collector.first_start().await;
    loop {
        let now = clock.steady();
        let wait = cadence
            .due(now)
            .map(|due| Duration::try_from(due.duration_since(now)).unwrap_or_default());
        tokio::select! {
            () = sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            () = beat.notified() => {}
            () = changed.notified() => {
                cadence.changed(Change::Structural);
                continue;
            }
            () = collector.start_changed() => {
                cadence.changed(Change::Structural);
                continue;
            }
        }
        let new = collector.collect().await;
        cadence.reported(clock.steady());
        report.send_replace(Some(Arc::new(new)));
    }
}

#[cfg(test)]
mod tests;
