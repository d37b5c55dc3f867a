//! The applier: how soon a Work is applied, available, gone; how soon drift is seen; a Work of a thousand objects; memory
//! beside many objects that are none of its business.

use std::time::Duration;

use anyhow::{Context as _, Result};
use fleet_api::conditions;
use fleet_api::placement::Work;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::figures::{Aim, Row, mib, percentile};
use super::hub::Hub;
use super::times::{Wanted, times};
use super::usage::Watched;
use super::{Part, progress};
use crate::agents::member_agent;

const NAMESPACE: &str = "bench-applier";
const ROUNDS: usize = 20;
const MANY: usize = 1000;
const OTHERS: usize = 20_000;
/// Memory that is no longer used goes back by then.
const SETTLED: Duration = Duration::from_secs(15);

struct Site {
    works: Api<Work>,
    configs: Api<ConfigMap>,
    agent: String,
}

/// All of it, on the first member.
pub async fn measure(hub: &Hub) -> Result<Vec<Row>> {
    let member = hub.fleet.members().next().context("no member")?.name.clone();
    let client = hub.fleet.client(&member).await?;
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &namespace).await?;
    let site = Site {
        works: Api::namespaced(hub.client.clone(), &format!("fleet-member-{member}")),
        configs: Api::namespaced(client, NAMESPACE),
        agent: member_agent(&member),
    };
    let mut rows = site.small().await?;
    rows.extend(site.memory(hub).await?);
    Ok(rows)
}

fn config(name: &str, value: &str) -> Value {
    let metadata = json!({"name": name, "namespace": NAMESPACE});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": value}})
}

fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}},
    })
}

fn is(work: &Work, condition: &str, status: &str) -> bool {
    let generation = work.metadata.generation.unwrap_or_default();
    let found = work.status.as_ref();
    found.is_some_and(|s| conditions::fresh(&s.conditions, condition, generation).is_some_and(|c| c.status == status))
}

impl Site {
    async fn create(&self, name: &str, strategy: &Value, manifests: &[Value]) -> Result<Work> {
        let spec = json!({"workload": {"manifests": manifests}, "applyStrategy": strategy});
        let work = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
        Ok(self.works.create(&PostParams::default(), &work).await?)
    }

    async fn delete(&self, name: &str) -> Result<f64> {
        let act = async {
            self.works.delete(name, &DeleteParams::default()).await?;
            Ok(())
        };
        Ok(times(self.works.clone(), name, [&|work| work.is_none()], act).await?[0])
    }

    /// Small Works, one after the other.
    async fn small(&self) -> Result<Vec<Row>> {
        progress(&format!("{ROUNDS} Works, one after the other"));
        let applied: Wanted<'_, Work> = &|work| work.is_some_and(|w| is(w, "Applied", "True"));
        let available: Wanted<'_, Work> = &|work| work.is_some_and(|w| is(w, "Available", "True"));
        let drifted: Wanted<'_, Work> = &|work| work.is_some_and(|w| is(w, "Applied", "False"));
        let mut series: [Vec<f64>; 4] = Default::default();
        for round in 0..ROUNDS {
            let name = format!("small-{round}");
            let manifests = [config(&name, "1"), deployment(&name)];
            let strategy = json!({"whenToApply": "IfNotDrifted"});
            let create = async {
                self.create(&name, &strategy, &manifests).await?;
                Ok(())
            };
            let [to_applied, to_available] = times(self.works.clone(), &name, [applied, available], create).await?;
            let tamper = async {
                let patch = json!({"data": {"a": "theirs"}});
                self.configs
                    .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
                    .await?;
                Ok(())
            };
            let [to_drift] = times(self.works.clone(), &name, [drifted], tamper).await?;
            let to_gone = self.delete(&name).await?;
            for (all, time) in series.iter_mut().zip([to_applied, to_available, to_drift, to_gone]) {
                all.push(time);
            }
        }
        let figures = [
            ("Work created → Applied on the hub", 0.15, Some(0.90)),
            ("Work created → Available on the hub", 1.0, Some(5.97)),
            ("changed on the member → drift on the hub", 2.0, Some(900.0)),
            ("Work deleted → gone, with its objects", 0.15, Some(0.63)),
        ];
        let mut rows = Vec::new();
        for ((what, aim, kubefleet), mut all) in figures.into_iter().zip(series) {
            all.sort_by(f64::total_cmp);
            let row = Row::new(Part::Apply, format!("{what}, p50"), percentile(&all, 50), "s").aim(Aim::Below(aim));
            rows.push(Row { kubefleet, ..row });
            rows.push(Row::new(Part::Apply, format!("{what}, p99"), percentile(&all, 99), "s"));
        }
        Ok(rows)
    }

    /// One Work of many objects, on a cluster with many more.
    async fn memory(&self, hub: &Hub) -> Result<Vec<Row>> {
        let resident = || async {
            tokio::time::sleep(SETTLED).await;
            Ok::<f64, anyhow::Error>(mib(Watched::begin(&hub.fleet, &self.agent)
                .await?
                .end()?
                .memory
                .resident))
        };
        let before = resident().await?;
        progress(&format!("{MANY} objects in one Work"));
        let manifests: Vec<Value> = (0..MANY).map(|i| config(&format!("many-{i:04}"), "1")).collect();
        let applied: Wanted<'_, Work> = &|work| work.is_some_and(|w| is(w, "Applied", "True"));
        let create = async {
            self.create("many", &json!({}), &manifests).await?;
            Ok(())
        };
        let [time] = times(self.works.clone(), "many", [applied], create).await?;
        let with_many = resident().await?;
        progress(&format!("{OTHERS} other objects"));
        let params = PostParams::default();
        stream::iter(0..OTHERS)
            .map(|i| {
                let params = &params;
                async move {
                    let other = serde_json::from_value(config(&format!("other-{i:05}"), "theirs"))?;
                    self.configs.create(params, &other).await?;
                    Ok::<_, anyhow::Error>(())
                }
            })
            .buffer_unordered(16)
            .try_collect::<()>()
            .await?;
        let with_others = resident().await?;
        let gone = self.delete("many").await?;
        let row = |what: String, value, unit| Row::new(Part::Apply, what, value, unit);
        Ok(vec![
            row(format!("{MANY} manifests in one Work: created → Applied"), time, "s"),
            row(format!("{MANY} manifests in one Work: deleted → gone"), gone, "s"),
            row(
                format!("member agent with {MANY} applied objects: resident memory"),
                with_many,
                "MiB",
            )
            .note(format!("{before:.1} before")),
            row(
                format!("… beside {OTHERS} others: more memory"),
                with_others - with_many,
                "MiB",
            )
            .aim(Aim::Below(2.0)),
        ])
    }
}
