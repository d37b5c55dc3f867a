//! Placements of a scenario, of either scope, as their users see them.
//!
//! Conditions are compared as lines, `Type=Status Reason: message`, with the type as clusters have it (`Scheduled`, not
//! `ClusterResourcePlacementScheduled`), so that one story serves both scopes.

use std::fmt::Debug;
use std::marker::PhantomData;

use anyhow::{Context as _, Result};
use fleet_api::kind::Kind;
use fleet_api::labels::PARENT_PLACEMENT;
use fleet_api::placement::{ClusterScoped, Namespaced, PlacementStatus, Scope, Work};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::object::HasStatus as _;
use kube::runtime::watcher;
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};

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
}

impl Rp {
    /// Creates one in a namespace.
    pub async fn create(ctx: &Ctx, namespace: &str, word: &str, spec: &Value) -> Result<Self> {
        Self::make(ctx, Some(namespace), &ctx.name(word), spec).await
    }
}

impl<S: Scope> Placement<S> {
    async fn make(ctx: &Ctx, namespace: Option<&str>, name: &str, spec: &Value) -> Result<Self> {
        let placement = Self {
            ctx: ctx.clone(),
            namespace: namespace.map(ToOwned::to_owned),
            name: name.to_owned(),
            scope: PhantomData,
        };
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
        Ok(beside::<K>(self.ctx.hub().await?, self.namespace.as_deref()))
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

    /// Waits until everything is there, with the content of this resource index.
    pub async fn until_available(&self, index: &str) -> Result<PlacementStatus> {
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

    /// Its bindings or snapshots now, by name.
    pub async fn made<K: Kind>(&self) -> Result<Vec<K>> {
        let selector = ListParams::default().labels(&self.label());
        let list = self.api::<K>().await?.list(&selector).await?;
        list.iter().map(typed).collect()
    }

    /// Waits for a state of its bindings or snapshots.
    pub async fn until_made<K: Kind>(&self, what: &str, mut wanted: impl FnMut(&[K]) -> bool) -> Result<Vec<K>> {
        let what = format!("{}: {what}", self.name);
        let selector = watcher::Config::default().labels(&self.label());
        let parse = |list: &[DynamicObject]| list.iter().map(typed).collect::<Result<Vec<K>>>();
        let found = wait::until_list_where(self.api::<K>().await?, selector, &what, |list| {
            parse(list).is_ok_and(|list| wanted(&list))
        })
        .await?;
        parse(&found)
    }

    /// Waits for a state of its Works, in whatever namespaces they are.
    pub async fn until_works(&self, what: &str, mut wanted: impl FnMut(&[Work]) -> bool) -> Result<Vec<Work>> {
        let ours = |list: &[Work]| -> Vec<Work> {
            let ours = list.iter().filter(|work| {
                let namespace = work.labels().get("kubernetes-fleet.io/parent-placement-namespace");
                namespace.cloned().unwrap_or_default() == self.namespace.clone().unwrap_or_default()
            });
            ours.cloned().collect()
        };
        let selector = watcher::Config::default().labels(&self.label());
        let what = format!("{}: {what}", self.name);
        let works: Api<Work> = Api::all(self.ctx.hub().await?);
        let found = wait::until_list_where(works, selector, &what, |list| wanted(&ours(list))).await?;
        Ok(ours(&found))
    }

    /// Its Events, in the order in which they were written.
    pub async fn events(&self) -> Result<Vec<Event>> {
        let namespace = self.namespace.as_deref().unwrap_or("default");
        let api: Api<Event> = Api::namespaced(self.ctx.hub().await?, namespace);
        let list = api.list(&ListParams::default().fields(&self.event_fields())).await?;
        Ok(in_order(list.items))
    }

    /// Waits for an Event about it.
    pub async fn until_event(&self, reason: &str) -> Result<Vec<Event>> {
        let namespace = self.namespace.as_deref().unwrap_or("default");
        let api: Api<Event> = Api::namespaced(self.ctx.hub().await?, namespace);
        let selector = watcher::Config::default().fields(&self.event_fields());
        let what = format!("Event {reason} of {}", self.name);
        let found = wait::until_list_where(api, selector, &what, |list: &[Event]| {
            list.iter().any(|event| event.reason.as_deref() == Some(reason))
        })
        .await?;
        Ok(in_order(found))
    }

    fn event_fields(&self) -> String {
        let kind = S::Placement::KIND;
        format!("involvedObject.kind={kind},involvedObject.name={}", self.name)
    }

    fn label(&self) -> String {
        format!("{PARENT_PLACEMENT}={}", self.name)
    }
}

/// The objects of a kind in a namespace, or in the cluster.
fn beside<K: Kind>(client: Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let kind = ApiResource::erase::<K>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    }
}

fn typed<K: Kind>(object: &DynamicObject) -> Result<K> {
    Ok(object.clone().try_parse()?)
}

fn in_order(mut events: Vec<Event>) -> Vec<Event> {
    let version = |event: &Event| {
        let text = event.metadata.resource_version.as_deref().unwrap_or_default();
        text.parse::<u64>().unwrap_or_default()
    };
    events.sort_by_key(version);
    events
}

/// What conditions say, one line each.
pub fn lines(list: &[Condition]) -> Vec<String> {
    let short = |type_: &str| {
        let type_ = type_.strip_prefix("Cluster").unwrap_or(type_);
        type_.strip_prefix("ResourcePlacement").unwrap_or(type_).to_owned()
    };
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

/// A selector of core objects.
pub fn core_selector(kind: &str, name: &str) -> Value {
    json!({ "group": "", "version": "v1", "kind": kind, "name": name })
}

/// A selector of a namespace with this scope.
pub fn namespace_selector(name: &str, scope: &str) -> Value {
    json!({ "group": "", "version": "v1", "kind": "Namespace", "name": name, "selectionScope": scope })
}
