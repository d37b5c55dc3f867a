//! Brings together what the rules ask for: the request, the stores, and the kinds that the hub serves.

use std::{borrow::Cow, sync::Arc};

use fleet_api::{
    cluster::MemberCluster,
    names::MEMBER_NAMESPACE_PREFIX,
    placement::{
        ClusterResourceOverride, ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction,
        ClusterScoped, Namespaced, ResourceOverride, Scope,
    },
};
use fleet_core::{
    admission::{
        Verdict, defaults, eviction, member,
        overrides::{self, Others, Selected},
        placement::{self, Kinds},
    },
    selection::apis::Apis,
};
use fleet_runtime::{Key, cache::Store, client::answered, logs};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::ListParams,
    core::{ApiResource, DynamicObject, object::HasSpec},
};
use parking_lot::Mutex;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::{
    hooks::Hook,
    recent::Recent,
    review::{Answer, Request},
};
use crate::cache::{
    family::Placements,
    overrides::{OverrideStores, another},
    user::Catalogue,
};

/// Answers questions. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Judge {
    pub(crate) client: Client,
    pub(crate) stores: Placements,
    pub(crate) kinds: Catalogue,
    pub(crate) apis: Apis,
    /// Whether members are asked what they export before they leave.
    pub(crate) networking: bool,
    pub(super) recent: Arc<Latest>,
}

/// What was let in last, by kind.
#[derive(Debug, Default)]
pub(super) struct Latest {
    cluster_wide: Mutex<Recent>,
    namespaced: Mutex<Recent>,
}

impl Judge {
    pub(super) async fn answer(&self, hook: Hook, request: &Request<'_>) -> Answer {
        if !request.sub_resource.is_empty() || !hook.operations().contains(&request.operation.as_str()) {
            return Answer::Judged(Verdict::allowed("nothing is judged here"));
        }
        let answer = match hook {
            Hook::DefaultClusterPlacement | Hook::DefaultPlacement => fill(request),
            Hook::ClusterPlacement => self.placement::<ClusterScoped>(request).await,
            Hook::Placement => self.placement::<Namespaced>(request).await,
            Hook::ClusterOverride => self.cluster_override(request).await,
            Hook::Override => self.namespaced_override(request).await,
            Hook::Eviction => self.eviction(request),
            Hook::Budget => self.budget(request),
            Hook::Member => self.member(request).await,
        };
        answer.unwrap_or_else(|failed| failed)
    }

    async fn placement<S: Scope>(&self, request: &Request<'_>) -> Result<Answer, Answer> {
        let new: S::Placement = request.new_object()?;
        let old: Option<S::Placement> = request.old_object();
        let selectors = &new.spec().resource_selectors;
        let kinds = self.kinds.known(selectors).await;
        let context = Kinds {
            kind: &|group, version, kind| kinds.get(group, version, kind),
            apis: &self.apis,
        };
        let old = old.as_ref().map(HasSpec::spec);
        let verdict = placement::judge(S::SCOPE, &name(request, &new), new.spec(), old, &context);
        Ok(Answer::Judged(verdict))
    }

    async fn cluster_override(&self, request: &Request<'_>) -> Result<Answer, Answer> {
        let new: ClusterResourceOverride = request.new_object()?;
        let old: Option<ClusterResourceOverride> = request.old_object();
        let OverrideStores {
            cluster_wide: store,
            cluster_wide_selecting: selecting,
            ..
        } = &self.stores.overrides;
        let own = Key::cluster(&*name(request, &new));
        let selected = overrides::selected_cluster_wide(&new.spec);
        let api = Api::<ClusterResourceOverride>::all(self.client.clone());
        confirm(&self.recent.cluster_wide, store, &api, (&own, &selected)).await;
        let mut recent = self.recent.cluster_wide.lock();
        recent.sweep(|key| version(store, key));
        let others = Others {
            count: store.len() + recent.new_in(None, &own),
            selecting: &|selected| another(selecting.keys(selected), &own).or_else(|| recent.selecting(selected, &own)),
        };
        let old = old.as_ref().map(|old| &old.spec);
        let verdict = overrides::cluster_wide(own.name(), &new.spec, old, &others);
        note(&mut recent, request, &verdict, own, selected, store);
        Ok(Answer::Judged(verdict))
    }

    async fn namespaced_override(&self, request: &Request<'_>) -> Result<Answer, Answer> {
        let new: ResourceOverride = request.new_object()?;
        let old: Option<ResourceOverride> = request.old_object();
        let OverrideStores {
            namespaced: store,
            namespaced_selecting: selecting,
            namespaced_in: inside,
            ..
        } = &self.stores.overrides;
        let namespace = new.namespace().unwrap_or_else(|| request.namespace.clone());
        let own = Key::namespaced(&*namespace, &*name(request, &new));
        let selected = overrides::selected_in(&namespace, &new.spec);
        let api = Api::<ResourceOverride>::namespaced(self.client.clone(), &namespace);
        confirm(&self.recent.namespaced, store, &api, (&own, &selected)).await;
        let mut recent = self.recent.namespaced.lock();
        recent.sweep(|key| version(store, key));
        let others = Others {
            count: inside.count(&namespace) + recent.new_in(Some(&namespace), &own),
            selecting: &|selected| another(selecting.keys(selected), &own).or_else(|| recent.selecting(selected, &own)),
        };
        let old = old.as_ref().map(|old| &old.spec);
        let verdict = overrides::namespaced((&namespace, own.name()), &new.spec, old, &others);
        note(&mut recent, request, &verdict, own, selected, store);
        Ok(Answer::Judged(verdict))
    }

    fn eviction(&self, request: &Request<'_>) -> Result<Answer, Answer> {
        let new: ClusterResourcePlacementEviction = request.new_object()?;
        let stored = self
            .stores
            .cluster
            .placements
            .get(&Key::cluster(&*new.spec.placement_name));
        let placement = stored.as_deref().map(|placement| eviction::Placement {
            name: &new.spec.placement_name,
            spec: &placement.spec,
            deleting: placement.metadata.deletion_timestamp.is_some(),
        });
        Ok(Answer::Judged(eviction::eviction(placement)))
    }

    fn budget(&self, request: &Request<'_>) -> Result<Answer, Answer> {
        let new: ClusterResourcePlacementDisruptionBudget = request.new_object()?;
        let old: Option<ClusterResourcePlacementDisruptionBudget> = request.old_object();
        let name = name(request, &new);
        let stored = self.stores.cluster.placements.get(&Key::cluster(&*name));
        let placement = stored.as_deref().map(|placement| eviction::Placement {
            name: &name,
            spec: &placement.spec,
            deleting: placement.metadata.deletion_timestamp.is_some(),
        });
        let old = old.as_ref().map(|old| &old.spec);
        Ok(Answer::Judged(eviction::budget(&new.spec, old, placement)))
    }

    async fn member(&self, request: &Request<'_>) -> Result<Answer, Answer> {
        let old: MemberCluster = request.deleted_object()?;
        if let Err(verdict) = member::asks_for_exports(&old.spec, self.networking) {
            return Ok(Answer::Judged(verdict));
        }
        let kind = ApiResource {
            group: "networking.fleet.azure.com".into(),
            version: "v1alpha1".into(),
            api_version: "networking.fleet.azure.com/v1alpha1".into(),
            kind: "InternalServiceExport".into(),
            plural: "internalserviceexports".into(),
        };
        let namespace = format!("{MEMBER_NAMESPACE_PREFIX}{}", name(request, &old));
        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), &namespace, &kind);
        let listed = answered(api.list(&ListParams::default())).await.map_err(|error| {
            let why = logs::chain(&error);
            Answer::Failed(
                500,
                format!("failed to list internalServiceExportList, please retry the request: {why}"),
            )
        })?;
        let staying = listed
            .items
            .iter()
            .filter(|export| export.metadata.deletion_timestamp.is_none());
        let names = staying.map(|export| {
            let reference = export.data.pointer("/spec/serviceReference/namespacedName");
            reference.and_then(|name| name.as_str()).unwrap_or_default()
        });
        Ok(Answer::Judged(member::deletion(names)))
    }
}

/// The object's name; the request has it where it is not made up by the API server later on.
fn name<'a, K: Resource>(request: &'a Request<'_>, object: &'a K) -> Cow<'a, str> {
    match object.meta().name.as_deref() {
        Some(name) if !name.is_empty() => Cow::Borrowed(name),
        _ => Cow::Borrowed(&request.name),
    }
}

fn fill(request: &Request<'_>) -> Result<Answer, Answer> {
    /// What is around the spec is never decoded, and the spec itself only if it is short.
    #[derive(Deserialize)]
    struct Sketch {
        #[serde(default)]
        spec: Option<Box<RawValue>>,
    }
    let object: Sketch = request.new_object()?;
    let spec = object.spec.as_deref().map(RawValue::get);
    Ok(Answer::Filled(spec.map(defaults::patch).unwrap_or_default()))
}

/// Asks for those that were let in a moment ago, are in the way, and are shown by no store: something after us may have
/// refused them. Nobody pays for it but whoever meets one.
async fn confirm<K>(recent: &Mutex<Recent>, store: &Store<K>, api: &Api<K>, (own, selected): (&Key, &[Selected]))
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    let rivals = {
        let mut recent = recent.lock();
        recent.sweep(|key| version(store, key));
        recent.rivals(selected, own)
    };
    for rival in rivals {
        tokio::time::sleep_until(rival.is_settled_at()).await;
        let found = answered(api.get_metadata_opt(rival.key.name())).await;
        let version = found.map(|found| found.and_then(|found| found.metadata.resource_version));
        if version.is_ok_and(|version| version == rival.before) {
            recent.lock().forget(&rival);
        }
    }
}

fn version<K: Resource + Send + Sync + 'static>(store: &Store<K>, key: &Key) -> Option<String> {
    store.get(key)?.meta().resource_version.clone()
}

fn note<K: Resource + Send + Sync + 'static>(
    recent: &mut Recent,
    request: &Request<'_>,
    verdict: &Verdict,
    own: Key,
    selected: Vec<Selected>,
    store: &Store<K>,
) {
    // Of a name that the API server makes up we do not know when it is there.
    if verdict.is_allowed() && request.dry_run != Some(true) && !own.name().is_empty() {
        let before = version(store, &own);
        recent.note(own, selected, before);
    }
}
