//! What is made for a placement: snapshots, bindings, Works.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use fleet_api::kind::Kind;
use fleet_api::placement::{BindingState, Scope, Work};
use fleet_api::{annotations, conditions, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::object::{HasSpec as _, HasStatus};
use kube::runtime::watcher;
use kube::{Resource, ResourceExt as _};
use serde_json::Value;

use super::{Placement, typed};
use crate::wait;
use crate::works::{cluster_of, contains};

impl<S: Scope> Placement<S> {
    /// Selects what belongs to it, by label.
    pub fn selector(&self) -> String {
        format!("{}={}", labels::PARENT_PLACEMENT, self.name)
    }

    /// The name of the first resource snapshot with this index.
    pub fn snapshot(&self, index: u64) -> String {
        format!("{}-{index}-snapshot", self.name)
    }

    /// Its bindings or snapshots now, by name.
    pub async fn made<K: Kind>(&self) -> Result<Vec<K>> {
        let selector = ListParams::default().labels(&self.selector());
        let list = self.api::<K>().await?.list(&selector).await?;
        list.iter().map(typed).collect()
    }

    /// Waits for a state of its bindings or snapshots.
    pub async fn until_made<K: Kind>(&self, what: &str, mut wanted: impl FnMut(&[K]) -> bool) -> Result<Vec<K>> {
        let what = format!("{}: {what}", self.name);
        let selector = watcher::Config::default().labels(&self.selector());
        let parse = |list: &[DynamicObject]| list.iter().map(typed).collect::<Result<Vec<K>>>();
        let found = wait::until_list_where(self.api::<K>().await?, selector, &what, |list| {
            parse(list).is_ok_and(|list| wanted(&list))
        })
        .await?;
        parse(&found)
    }

    /// The latest policy snapshot, once it shows what was decided about the placement as it is.
    pub async fn policy(&self) -> Result<S::PolicySnapshot> {
        let generation = self.get().await?.meta().generation.unwrap_or_default();
        let decided = |policy: &S::PolicySnapshot| {
            let status = policy.status();
            is_latest(policy) && status.is_some_and(|status| status.observed_crp_generation >= generation)
        };
        let all = self.until_made::<S::PolicySnapshot>("its decisions", |all| all.iter().any(decided));
        let mut all = all.await?.into_iter();
        all.find(decided).context("it has a policy snapshot")
    }

    /// Its bindings now.
    pub async fn bindings(&self) -> Result<Vec<S::Binding>> {
        self.made().await
    }

    /// The binding for a cluster; of two the one that stays.
    pub async fn binding(&self, cluster: &str) -> Result<S::Binding> {
        let all = self.bindings().await?;
        let live = all
            .into_iter()
            .find(|b| b.spec().target_cluster == cluster && b.meta().deletion_timestamp.is_none());
        live.with_context(|| format!("{} has no binding for {cluster}", self.name))
    }

    /// Waits for a state of all its bindings together.
    pub async fn until_bindings(
        &self,
        what: &str,
        wanted: impl FnMut(&[S::Binding]) -> bool,
    ) -> Result<Vec<S::Binding>> {
        self.until_made(what, wanted).await
    }

    /// Waits until it has exactly these bindings: clusters and states, none of them deleting.
    pub async fn until_states(&self, wanted: &[(String, BindingState)]) -> Result<Vec<S::Binding>> {
        let wanted: BTreeMap<_, _> = wanted.iter().cloned().collect();
        self.until_bindings(&format!("bindings {wanted:?}"), |all| {
            let found = all
                .iter()
                .map(|b| (b.spec().target_cluster.clone(), b.spec().state.clone()));
            all.iter().all(|b| b.meta().deletion_timestamp.is_none())
                && all.len() == wanted.len()
                && found.collect::<BTreeMap<_, _>>() == wanted
        })
        .await
    }

    /// Waits until it has bindings for exactly these clusters, whatever their states.
    pub async fn until_on(&self, clusters: &[String]) -> Result<Vec<S::Binding>> {
        self.until_bindings(&format!("bindings for {clusters:?}"), |all| {
            let mut found: Vec<_> = all.iter().map(|b| b.spec().target_cluster.clone()).collect();
            found.sort();
            found == clusters
        })
        .await
    }

    /// Changes a binding by a merge patch.
    pub async fn patch_binding(&self, name: &str, patch: Value) -> Result<S::Binding> {
        let api = self.api::<S::Binding>().await?;
        typed(&api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// Deletes a binding, as an eviction does.
    pub async fn evict(&self, binding: &str) -> Result<()> {
        let api = self.api::<S::Binding>().await?;
        api.delete(binding, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Its Works now.
    pub async fn works(&self) -> Result<Vec<Work>> {
        let works: Api<Work> = Api::all(self.ctx.hub().await?);
        let list = works.list(&ListParams::default().labels(&self.selector())).await?;
        Ok(self.own(&list.items))
    }

    /// Waits for a state of its Works, in whatever namespaces they are.
    pub async fn until_works(&self, what: &str, mut wanted: impl FnMut(&[Work]) -> bool) -> Result<Vec<Work>> {
        let selector = watcher::Config::default().labels(&self.selector());
        let what = format!("{}: {what}", self.name);
        let works: Api<Work> = Api::all(self.ctx.hub().await?);
        let found = wait::until_list_where(works, selector, &what, |list| wanted(&self.own(list))).await?;
        Ok(self.own(&found))
    }

    /// Those of these Works that are not a namesake's.
    fn own(&self, works: &[Work]) -> Vec<Work> {
        let is_own = |work: &&Work| {
            let namespace = work.labels().get(labels::PARENT_PLACEMENT_NAMESPACE);
            namespace.map(String::as_str).unwrap_or_default() == self.namespace.as_deref().unwrap_or_default()
        };
        works.iter().filter(is_own).cloned().collect()
    }

    /// Waits until exactly these clusters have Works with a text in them, and no others.
    pub async fn until_text_on(&self, text: &str, clusters: &[String]) -> Result<Vec<Work>> {
        let mut wanted = clusters.to_vec();
        wanted.sort();
        self.until_works(&format!("{text:?} on {wanted:?} only"), |works| {
            let mut found: Vec<_> = works.iter().filter(|w| contains(w, text)).map(cluster_of).collect();
            found.sort();
            found.dedup();
            found == wanted
        })
        .await
    }

    /// Versions of it and of all that was made for it: alike if nothing was written in between.
    pub async fn versions(&self) -> Result<Vec<Option<String>>> {
        let mut found = vec![self.get().await?.resource_version()];
        found.extend(versions(&self.made::<S::PolicySnapshot>().await?));
        found.extend(versions(&self.made::<S::ResourceSnapshot>().await?));
        found.extend(versions(&self.bindings().await?));
        found.extend(versions(&self.works().await?));
        Ok(found)
    }

    /// Nothing twice, nothing half: one latest snapshot of each kind, whole groups, one binding for each cluster.
    pub async fn is_whole(&self, clusters: usize) -> Result<()> {
        let policies = self.made::<S::PolicySnapshot>().await?;
        let latest = policies.iter().filter(|s| is_latest(*s)).count();
        ensure!(latest == 1, "{latest} policy snapshots are the latest: {policies:?}");
        let snapshots = self.made::<S::ResourceSnapshot>().await?;
        let masters: Vec<_> = snapshots
            .iter()
            .filter(|s| s.annotations().contains_key(annotations::RESOURCE_HASH))
            .collect();
        let latest = masters.iter().filter(|s| is_latest(**s)).count();
        ensure!(latest == 1, "{latest} resource snapshots are the latest");
        for master in masters {
            let index = &master.labels()[labels::RESOURCE_INDEX];
            let group = snapshots
                .iter()
                .filter(|s| s.labels()[labels::RESOURCE_INDEX] == *index);
            let count = master.annotations()[annotations::NUMBER_OF_RESOURCE_SNAPSHOTS].parse::<usize>()?;
            ensure!(group.count() == count, "group {index} is not whole");
        }
        let bindings = self.bindings().await?;
        let mut on: Vec<_> = bindings.iter().map(|b| b.spec().target_cluster.clone()).collect();
        on.sort();
        on.dedup();
        ensure!(
            bindings.len() == clusters && on.len() == clusters,
            "{} bindings for {on:?}, not {clusters}",
            bindings.len()
        );
        Ok(())
    }
}

fn versions<K: Resource>(list: &[K]) -> impl Iterator<Item = Option<String>> {
    list.iter().map(kube::ResourceExt::resource_version)
}

fn is_latest<K: Resource>(snapshot: &K) -> bool {
    let value = snapshot
        .meta()
        .labels
        .as_ref()
        .and_then(|labels| labels.get(labels::IS_LATEST_SNAPSHOT));
    value.is_some_and(|value| value == labels::TRUE)
}

/// A condition of a binding about its spec as it is.
pub fn bound<'a, B>(binding: &'a B, type_: &str) -> Option<&'a Condition>
where
    B: Resource + HasStatus<Status = fleet_api::placement::BindingStatus>,
{
    let list = binding.status().map(|status| status.conditions.as_slice());
    let generation = binding.meta().generation.unwrap_or_default();
    conditions::fresh(list.unwrap_or_default(), type_, generation)
}
