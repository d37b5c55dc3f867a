//! Placements of a scenario, of either scope, as their users see them.
//!
//! Conditions are compared as lines, `Type=Status Reason: message`, with the type as clusters have it (`Scheduled`, not
//! `ClusterResourcePlacementScheduled`), so that one story serves both scopes.

mod made;
mod specs;

use std::fmt::Debug;
use std::marker::PhantomData;

use anyhow::{Context as _, Result};
use fleet_api::kind::Kind;
use fleet_api::placement::{ClusterScoped, Namespaced, PlacementStatus, Scope};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource as _;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::object::HasStatus as _;
use serde_json::{Value, json};

pub use made::bound;
pub use specs::{
    change, config_map, core_selector, furnished, namespace_selector, nothing, nowhere, place, rolling, seen, spec,
    whole_namespace,
};

use crate::events::Events;
use crate::harness::{Ctx, Made};
use crate::wait;

/// A ClusterResourcePlacement.
pub type Crp = Placement<ClusterScoped>;
/// A ResourcePlacement.
pub type Rp = Placement<Namespaced>;

/// A placement and everything that is made for it.
#[derive(Clone, Debug)]
pub struct Placement<S: Scope> {
    ctx: Ctx,
    namespace: Option<String>,
    /// Its name.
    pub name: String,
    scope: PhantomData<S>,
}

impl Crp {
    /// Creates one; its name begins with the scenario's.
    pub async fn create(ctx: &Ctx, word: &str, spec: &Value) -> Result<Self> {
        Self::make(ctx, None, &ctx.name(word), spec).await
    }

    /// Creates one of this very name.
    pub async fn create_called(ctx: &Ctx, name: &str, spec: &Value) -> Result<Self> {
        Self::make(ctx, None, name, spec).await
    }

    /// One that is made in another way, or will be.
    pub fn named(ctx: &Ctx, name: &str) -> Self {
        Self::at(ctx, None, name)
    }
}

impl Rp {
    /// Creates one in a namespace.
    pub async fn create(ctx: &Ctx, namespace: &str, word: &str, spec: &Value) -> Result<Self> {
        Self::make(ctx, Some(namespace), &ctx.name(word), spec).await
    }

    /// Creates one of this very name.
    pub async fn create_called(ctx: &Ctx, namespace: &str, name: &str, spec: &Value) -> Result<Self> {
        Self::make(ctx, Some(namespace), name, spec).await
    }

    /// One that is made in another way, or will be.
    pub fn named(ctx: &Ctx, namespace: &str, name: &str) -> Self {
        Self::at(ctx, Some(namespace), name)
    }
}

impl<S: Scope> Placement<S> {
    fn at(ctx: &Ctx, namespace: Option<&str>, name: &str) -> Self {
        Self {
            ctx: ctx.clone(),
            namespace: namespace.map(ToOwned::to_owned),
            name: name.to_owned(),
            scope: PhantomData,
        }
    }

    async fn make(ctx: &Ctx, namespace: Option<&str>, name: &str, spec: &Value) -> Result<Self> {
        let placement = Self::at(ctx, namespace, name);
        let kind = ApiResource::erase::<S::Placement>(&());
        let mut object = DynamicObject::new(name, &kind).data(json!({ "spec": spec }));
        object.metadata.namespace.clone_from(&placement.namespace);
        let api = placement.api::<S::Placement>().await?;
        let created = api.create(&kube::api::PostParams::default(), &object).await;
        created.with_context(|| format!("cannot create {} {name}", kind.kind))?;
        ctx.made(Made {
            cluster: "hub".to_owned(),
            kind,
            namespace: placement.namespace.clone(),
            name: name.to_owned(),
        });
        Ok(placement)
    }

    /// The objects of a kind beside this placement: in its namespace, or in the cluster.
    pub async fn api<K: Kind>(&self) -> Result<Api<DynamicObject>> {
        let (hub, kind) = (self.ctx.hub().await?, ApiResource::erase::<K>(&()));
        Ok(match &self.namespace {
            Some(namespace) => Api::namespaced_with(hub, namespace, &kind),
            None => Api::all_with(hub, &kind),
        })
    }

    /// The placement now.
    pub async fn get(&self) -> Result<S::Placement> {
        typed(&self.api::<S::Placement>().await?.get(&self.name).await?)
    }

    /// Its status now.
    pub async fn status(&self) -> Result<PlacementStatus> {
        Ok(self.get().await?.status().cloned().unwrap_or_default())
    }

    /// Changes it by a merge patch.
    pub async fn patch(&self, patch: &Value) -> Result<S::Placement> {
        let api = self.api::<S::Placement>().await?;
        let params = PatchParams::default();
        typed(&api.patch(&self.name, &params, &Patch::Merge(patch)).await?)
    }

    /// Changes its spec by a merge patch.
    pub async fn edit(&self, spec: Value) -> Result<S::Placement> {
        self.patch(&json!({ "spec": spec })).await
    }

    /// Asks for its deletion.
    pub async fn delete(&self) -> Result<()> {
        let api = self.api::<S::Placement>().await?;
        api.delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until neither it nor anything that was made for it is left.
    pub async fn until_gone(&self) -> Result<()> {
        wait::until_gone(self.api::<S::Placement>().await?, &self.name).await?;
        self.until_made::<S::Binding>("no binding", <[_]>::is_empty).await?;
        self.until_made::<S::PolicySnapshot>("no policy snapshot", <[_]>::is_empty)
            .await?;
        self.until_made::<S::ResourceSnapshot>("no resource snapshot", <[_]>::is_empty)
            .await?;
        self.until_works("no Work", <[_]>::is_empty).await?;
        Ok(())
    }

    /// Deletes it and waits until nothing of it is left.
    pub async fn remove(&self) -> Result<()> {
        self.delete().await?;
        self.until_gone().await
    }

    /// Waits for a state of it.
    pub async fn until(&self, what: &str, mut wanted: impl FnMut(&S::Placement) -> bool) -> Result<S::Placement> {
        let api = self.api::<S::Placement>().await?;
        let found = wait::until_present(api, &self.name, what, |object| {
            typed(object).is_ok_and(|placement| wanted(&placement))
        })
        .await?;
        typed(&found)
    }

    /// Waits until it says these lines about its current generation.
    pub async fn until_says(&self, lines: &[&str]) -> Result<PlacementStatus> {
        let what = lines.join("\n");
        let found = self
            .until(&what, |placement| {
                let said = fresh_lines::<S>(placement);
                lines.iter().all(|line| said.iter().any(|said| said == line))
            })
            .await?;
        Ok(found.status().cloned().unwrap_or_default())
    }

    /// Waits until a step has a status for its current generation, whatever the words.
    pub async fn until_step(&self, step: &str, status: &str) -> Result<PlacementStatus> {
        let begin = format!("{step}={status} ");
        let found = self
            .until(&begin, |placement| {
                fresh_lines::<S>(placement).iter().any(|line| line.starts_with(&begin))
            })
            .await?;
        Ok(found.status().cloned().unwrap_or_default())
    }

    /// The same; gives what the step says.
    pub async fn until_condition(&self, step: &str, status: &str) -> Result<Condition> {
        let found = self.until_step(step, status).await?.conditions;
        let said = found.into_iter().find(|condition| short(&condition.type_) == step);
        said.context("waited for it")
    }

    /// Waits until everything is there, with the content of this resource index.
    pub async fn until_available(&self, index: u64) -> Result<PlacementStatus> {
        let index = index.to_string();
        let found = self
            .until(&format!("Available with index {index}"), |placement| {
                let status = placement.status();
                status.is_some_and(|status| status.observed_resource_index == index)
                    && fresh_lines::<S>(placement)
                        .iter()
                        .any(|line| line.starts_with("Available=True "))
            })
            .await?;
        Ok(found.status().cloned().unwrap_or_default())
    }

    /// Its Events so far.
    pub async fn events(&self) -> Result<Vec<Event>> {
        self.told().await?.list().await
    }

    /// Waits for an Event about it; gives all that there are then.
    pub async fn until_event(&self, reason: &str) -> Result<Vec<Event>> {
        self.told().await?.until(reason, &[]).await
    }

    /// Waits until an Event says what holds it, with all of these words.
    pub async fn until_held(&self, words: &[&str]) -> Result<()> {
        self.told().await?.until("PlacementHeld", words).await.map(drop)
    }

    async fn told(&self) -> Result<Events> {
        Events::about(&self.ctx, self.namespace.as_deref(), S::Placement::KIND, &self.name).await
    }
}

fn typed<K: Kind>(object: &DynamicObject) -> Result<K> {
    Ok(object.clone().try_parse()?)
}

/// A condition's type as clusters have it, whatever the placement's scope.
fn short(type_: &str) -> &str {
    let type_ = type_.strip_prefix("Cluster").unwrap_or(type_);
    type_.strip_prefix("ResourcePlacement").unwrap_or(type_)
}

/// What conditions say, one line each.
pub fn lines(list: &[Condition]) -> Vec<String> {
    let line = |c: &Condition| format!("{}={} {}: {}", short(&c.type_), c.status, c.reason, c.message);
    list.iter().map(line).collect()
}

fn fresh_lines<S: Scope>(placement: &S::Placement) -> Vec<String> {
    let generation = placement.meta().generation;
    let list = placement.status().map(|status| status.conditions.clone());
    let mut list = list.unwrap_or_default();
    list.retain(|condition| condition.observed_generation == generation);
    lines(&list)
}

/// What is selected, as `Kind namespace/name` or `Kind name`.
pub fn selected(status: &PlacementStatus) -> Vec<String> {
    let resources = status.selected_resources.iter();
    resources
        .map(|r| match r.namespace.as_str() {
            "" => format!("{} {}", r.kind, r.name),
            namespace => format!("{} {namespace}/{}", r.kind, r.name),
        })
        .collect()
}
