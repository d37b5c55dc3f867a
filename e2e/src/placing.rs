//! ClusterResourcePlacements of a scenario, with the bindings and Works that follow from them.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use fleet_api::conditions;
use fleet_api::placement::{
    BindingState, ClusterResourceBinding, ClusterResourcePlacement, ClusterResourceSnapshot,
    ClusterSchedulingPolicySnapshot, ResourceEnvelope, Work,
};
use fleet_api::{labels, names};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::watcher;
use serde_json::{Value, json};

use crate::harness::Ctx;
use crate::wait;

/// A placement and what belongs to it.
#[derive(Debug, Clone)]
pub struct Placed {
    ctx: Ctx,
    /// Its name.
    pub name: String,
    /// The index of the first snapshot that counts.
    base: u64,
}

/// A ConfigMap with one value.
pub fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "key": value } })).unwrap_or_default()
}

/// Selects a namespace and what is in it.
pub fn whole_namespace(name: &str) -> Value {
    json!([{ "group": "", "version": "v1", "kind": "Namespace", "name": name }])
}

/// A rolling update; what cannot be tracked counts as available at once.
pub fn rolling(max_unavailable: &Value, max_surge: &Value) -> Value {
    json!({
        "type": "RollingUpdate",
        "rollingUpdate": {
            "maxUnavailable": max_unavailable, "maxSurge": max_surge, "unavailablePeriodSeconds": 0,
        },
    })
}

/// The scenario's namespace on the hub with a ConfigMap `settings`, placed by this policy and strategy.
pub async fn place(ctx: &Ctx, policy: Value, strategy: Value) -> Result<Placed> {
    let namespace = ctx.namespace("hub").await?;
    ctx.create_in("hub", &namespace, config_map("settings", "one")).await?;
    // Under External only an update run takes snapshots.
    let by_runs = strategy["type"] == "External";
    let spec = json!({ "resourceSelectors": whole_namespace(&namespace), "policy": policy, "strategy": strategy });
    let placed = Placed::create(ctx, &ctx.name("crp"), spec).await?;
    if by_runs { Ok(placed) } else { placed.settled().await }
}

/// Gives the ConfigMap of [`place`] another value.
pub async fn change(ctx: &Ctx, value: &str) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(ctx.hub().await?, ctx.prefix());
    let patch = Patch::Merge(json!({ "data": { "key": value } }));
    maps.patch("settings", &PatchParams::default(), &patch).await?;
    Ok(())
}

impl Placed {
    /// Creates a placement with this spec.
    pub async fn create(ctx: &Ctx, name: &str, spec: Value) -> Result<Self> {
        let object = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec }))?;
        ctx.create::<ClusterResourcePlacement>("hub", object).await?;
        Ok(Self::named(ctx, name))
    }

    /// One that was made in another way, or will be.
    pub fn named(ctx: &Ctx, name: &str) -> Self {
        Self {
            ctx: ctx.clone(),
            name: name.to_owned(),
            base: 0,
        }
    }

    /// Waits until the latest snapshot has what the scenario's namespace has, and counts from there. The hub's watches of
    /// different kinds do not keep step: what it sees a moment later makes one snapshot more.
    pub async fn settled(mut self) -> Result<Self> {
        let (hub, all) = (self.ctx.hub().await?, ListParams::default());
        let maps = Api::<ConfigMap>::namespaced(hub.clone(), self.ctx.prefix());
        let envelopes = Api::<ResourceEnvelope>::namespaced(hub.clone(), self.ctx.prefix());
        let maps = maps.list(&all).await?.items.into_iter().map(|map| map.name_any());
        let envelopes = envelopes.list(&all).await?.items.into_iter().map(|e| e.name_any());
        let names = maps.chain(envelopes).filter(|name| name != "kube-root-ca.crt");
        let names: Vec<_> = names.map(|name| format!("\"name\":\"{name}\"")).collect();
        let selector = watcher::Config::default().labels(&self.selector());
        let snapshots = Api::<ClusterResourceSnapshot>::all(hub);
        let found = wait::until_list_where(snapshots, selector, "a snapshot of everything", |all| {
            let text = latest(all).map(|(_, text)| text).unwrap_or_default();
            !text.is_empty() && names.iter().all(|name| text.contains(name))
        })
        .await?;
        self.base = latest(&found).map(|(index, _)| index).unwrap_or_default();
        Ok(self)
    }

    /// The index of the snapshot after so many changes.
    pub fn index(&self, changes: u64) -> String {
        (self.base + changes).to_string()
    }

    /// The name of the master snapshot after so many changes.
    pub fn snapshot(&self, changes: u64) -> String {
        format!("{}-{}-snapshot", self.name, self.index(changes))
    }

    /// Placements.
    pub async fn api(&self) -> Result<Api<ClusterResourcePlacement>> {
        Ok(Api::all(self.ctx.hub().await?))
    }

    /// Bindings.
    pub async fn bindings_api(&self) -> Result<Api<ClusterResourceBinding>> {
        Ok(Api::all(self.ctx.hub().await?))
    }

    /// The placement now.
    pub async fn get(&self) -> Result<ClusterResourcePlacement> {
        Ok(self.api().await?.get(&self.name).await?)
    }

    /// Changes the spec by a merge patch.
    pub async fn edit(&self, spec: Value) -> Result<ClusterResourcePlacement> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        Ok(self
            .api()
            .await?
            .patch(&self.name, &PatchParams::default(), &patch)
            .await?)
    }

    /// Waits for a state of the placement.
    pub async fn until(
        &self,
        what: &str,
        wanted: impl FnMut(&ClusterResourcePlacement) -> bool,
    ) -> Result<ClusterResourcePlacement> {
        wait::until_present(self.api().await?, &self.name, what, wanted).await
    }

    /// Waits until one of its conditions, `Scheduled` say, has a status for the spec as it is.
    pub async fn until_condition(&self, word: &str, status: &str) -> Result<Condition> {
        let type_ = format!("ClusterResourcePlacement{word}");
        let crp = self
            .until(&format!("{word} {status}"), |crp| {
                says(crp, &type_).is_some_and(|condition| condition.status == status)
            })
            .await?;
        says(&crp, &type_).cloned().context("waited for it")
    }

    /// Waits until everything is available with the snapshot after so many changes.
    pub async fn until_available(&self, changes: u64) -> Result<ClusterResourcePlacement> {
        let index = self.index(changes);
        let type_ = "ClusterResourcePlacementAvailable";
        self.until(&format!("Available with snapshot {index}"), |crp| {
            let observed = crp
                .status
                .as_ref()
                .map(|status| status.observed_resource_index.as_str());
            observed == Some(index.as_str()) && says(crp, type_).is_some_and(|condition| condition.status == "True")
        })
        .await
    }

    /// Its bindings now.
    pub async fn bindings(&self) -> Result<Vec<ClusterResourceBinding>> {
        let list = ListParams::default().labels(&self.selector());
        Ok(self.bindings_api().await?.list(&list).await?.items)
    }

    /// The binding for a cluster; of two the one that stays.
    pub async fn binding(&self, cluster: &str) -> Result<ClusterResourceBinding> {
        let all = self.bindings().await?;
        let live = all
            .into_iter()
            .find(|b| b.spec.target_cluster == cluster && b.metadata.deletion_timestamp.is_none());
        live.with_context(|| format!("{} has no binding for {cluster}", self.name))
    }

    /// Waits for a state of all its bindings together.
    pub async fn until_bindings(
        &self,
        what: &str,
        wanted: impl FnMut(&[ClusterResourceBinding]) -> bool,
    ) -> Result<Vec<ClusterResourceBinding>> {
        let selector = watcher::Config::default().labels(&self.selector());
        wait::until_list_where(self.bindings_api().await?, selector, what, wanted).await
    }

    /// Waits until it has exactly these bindings: clusters and states, none of them deleting.
    pub async fn until_states(&self, wanted: &[(String, BindingState)]) -> Result<Vec<ClusterResourceBinding>> {
        let wanted: BTreeMap<_, _> = wanted.iter().cloned().collect();
        let what = format!("bindings {wanted:?}");
        self.until_bindings(&what, |all| {
            let found = all
                .iter()
                .map(|b| (b.spec.target_cluster.clone(), b.spec.state.clone()));
            all.iter().all(|b| b.metadata.deletion_timestamp.is_none())
                && all.len() == wanted.len()
                && found.collect::<BTreeMap<_, _>>() == wanted
        })
        .await
    }

    /// Changes a binding by a merge patch.
    pub async fn patch_binding(&self, name: &str, patch: Value) -> Result<ClusterResourceBinding> {
        let patch = Patch::Merge(patch);
        Ok(self
            .bindings_api()
            .await?
            .patch(name, &PatchParams::default(), &patch)
            .await?)
    }

    /// Deletes a binding, as an eviction does.
    pub async fn evict(&self, binding: &str) -> Result<()> {
        self.bindings_api()
            .await?
            .delete(binding, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Its Works now.
    pub async fn works(&self) -> Result<Vec<Work>> {
        let works: Api<Work> = Api::all(self.ctx.hub().await?);
        Ok(works.list(&ListParams::default().labels(&self.selector())).await?.items)
    }

    /// Waits for a state of all its Works together.
    pub async fn until_works(&self, what: &str, wanted: impl FnMut(&[Work]) -> bool) -> Result<Vec<Work>> {
        let selector = watcher::Config::default().labels(&self.selector());
        wait::until_list_where(Api::all(self.ctx.hub().await?), selector, what, wanted).await
    }

    /// Waits until exactly these clusters have Works with a text in them, and no others.
    pub async fn until_text_on(&self, text: &str, clusters: &[String]) -> Result<Vec<Work>> {
        let mut wanted = clusters.to_vec();
        wanted.sort();
        let what = format!("{text:?} on {wanted:?} only");
        self.until_works(&what, |works| {
            let mut found: Vec<_> = works.iter().filter(|w| contains(w, text)).map(cluster_of).collect();
            found.sort();
            found.dedup();
            found == wanted
        })
        .await
    }

    /// The latest policy snapshot.
    pub async fn policy(&self) -> Result<ClusterSchedulingPolicySnapshot> {
        let api: Api<ClusterSchedulingPolicySnapshot> = Api::all(self.ctx.hub().await?);
        let selector = format!("{},{}=true", self.selector(), labels::IS_LATEST_SNAPSHOT);
        let list = api.list(&ListParams::default().labels(&selector)).await?;
        list.items.into_iter().next().context("it has a policy snapshot")
    }

    /// Asks for its deletion, and waits until it and everything of it are gone.
    pub async fn remove(&self) -> Result<()> {
        self.api().await?.delete(&self.name, &DeleteParams::default()).await?;
        wait::until_gone(self.api().await?, &self.name).await?;
        self.until_bindings("none left", <[_]>::is_empty).await?;
        self.until_works("none left", <[_]>::is_empty).await?;
        Ok(())
    }

    /// Selects what belongs to it.
    pub fn selector(&self) -> String {
        format!("{}={}", labels::PARENT_PLACEMENT, self.name)
    }
}

/// The highest index of these snapshots, and the text of all that have it.
fn latest(snapshots: &[ClusterResourceSnapshot]) -> Option<(u64, String)> {
    let index = |snapshot: &ClusterResourceSnapshot| -> Option<u64> {
        snapshot.labels().get(labels::RESOURCE_INDEX)?.parse().ok()
    };
    let highest = snapshots.iter().filter_map(index).max()?;
    let group = snapshots.iter().filter(|snapshot| index(snapshot) == Some(highest));
    let texts = group.map(|snapshot| serde_json::to_string(&snapshot.spec).unwrap_or_default());
    Some((highest, texts.collect()))
}

/// A condition of a placement about its spec as it is.
pub fn says<'a>(crp: &'a ClusterResourcePlacement, type_: &str) -> Option<&'a Condition> {
    let list = crp.status.as_ref().map(|status| status.conditions.as_slice());
    conditions::fresh(
        list.unwrap_or_default(),
        type_,
        crp.metadata.generation.unwrap_or_default(),
    )
}

/// A condition of a binding about its spec as it is.
pub fn bound<'a>(binding: &'a ClusterResourceBinding, type_: &str) -> Option<&'a Condition> {
    let list = binding.status.as_ref().map(|status| status.conditions.as_slice());
    let generation = binding.metadata.generation.unwrap_or_default();
    conditions::fresh(list.unwrap_or_default(), type_, generation)
}

/// Whether a Work's manifests have a text in them.
pub fn contains(work: &Work, text: &str) -> bool {
    manifests(work)
        .iter()
        .any(|manifest| manifest.to_string().contains(text))
}

/// A Work's manifests.
pub fn manifests(work: &Work) -> Vec<Value> {
    let manifests = work.spec.workload.manifests.iter();
    manifests.map(|m| serde_json::to_value(m).unwrap_or_default()).collect()
}

/// A Work's manifest by kind and name.
pub fn manifest(work: &Work, kind: &str, name: &str) -> Option<Value> {
    let is = |object: &Value| object["kind"] == kind && object["metadata"]["name"] == name;
    manifests(work).into_iter().find(is)
}

/// The cluster that a Work is for.
pub fn cluster_of(work: &Work) -> String {
    let namespace = work.namespace().unwrap_or_default();
    let name = namespace.strip_prefix(names::MEMBER_NAMESPACE_PREFIX);
    name.unwrap_or_default().to_owned()
}
