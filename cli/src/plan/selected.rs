//! What the placement selects: the objects of the kinds that its selectors are about, read at once, with those of a file laid
//! over them. The selection itself is the hub's own.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use anyhow::Result;
use fleet_api::{
    names::{PlacementKey, Scope},
    placement::{ResourceSelector, SelectionScope},
    raw::RawJson,
};
use fleet_core::selection::{self, Hub, KindInfo, Object as Meta, ObjectId, Rules, services};
use futures::{StreamExt as _, stream};
use kube::{
    Client,
    api::{Api, DynamicObject, ListParams},
    core::gvk::GroupVersionKind,
};
use serde_json::Value;

use super::{
    kinds::{Gvk, Kinds, Served},
    manifests::Object,
};

/// Requests at the same time.
const TOGETHER: usize = 8;
/// Objects of a page.
const PAGE: u32 = 500;

/// A list that is asked for: one kind, in one namespace or all, perhaps one object by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Ask {
    gvk: Gvk,
    namespace: Option<String>,
    name: Option<String>,
    /// Of a list over all namespaces, those that matter; all if there are none.
    only: Rc<BTreeSet<String>>,
}

impl Ask {
    fn wants(&self, namespace: &str) -> bool {
        let here = self.namespace.as_ref().is_none_or(|here| here == namespace);
        here && (self.only.is_empty() || self.only.contains(namespace))
    }

    /// The same namespace by namespace, for somebody who may not list all of them.
    fn apart(&self) -> impl Iterator<Item = Self> {
        self.only.iter().map(|namespace| Self {
            namespace: Some(namespace.clone()),
            only: Rc::default(),
            ..self.clone()
        })
    }
}

/// What is known of the hub's objects.
pub(super) struct Objects<'k> {
    kinds: &'k Kinds,
    namespaced: Vec<Gvk>,
    metas: BTreeMap<Gvk, Vec<Meta>>,
    values: BTreeMap<ObjectId, Value>,
}

/// What the selectors come to.
pub(super) type Selected = Result<Vec<RawJson>, String>;

/// Reads and selects. Kinds that the user may not list are taken from `frozen`, the newest snapshot.
pub(super) async fn select(
    client: &Client,
    kinds: &Kinds,
    key: &PlacementKey,
    selectors: &[ResourceSelector],
    over: &[Object],
    frozen: &[RawJson],
    notes: &mut Vec<String>,
) -> Result<Selected> {
    let mut objects = Objects {
        kinds,
        namespaced: Vec::new(),
        metas: BTreeMap::new(),
        values: BTreeMap::new(),
    };
    objects
        .read(client, first(kinds, key, selectors), frozen, notes)
        .await?;
    objects.lay_over(over);
    let rules = Rules::default();
    let inside = inside(&objects, key, selectors);
    if !inside.is_empty() {
        objects.namespaced = kinds.namespaced.iter().cloned().collect();
        // One list of a kind, however many namespaces there are.
        let (one, only) = match inside.first() {
            Some(one) if inside.len() == 1 => (Some(one.clone()), Rc::default()),
            _ => (None, Rc::new(inside)),
        };
        let asks = kinds.namespaced.iter().map(|gvk| Ask {
            gvk: gvk.clone(),
            namespace: one.clone(),
            name: None,
            only: Rc::clone(&only),
        });
        objects.read(client, asks.collect(), frozen, notes).await?;
        objects.lay_over(over);
    }
    Ok(match selection::select(key, selectors, &rules, &objects) {
        Ok(ids) => Ok(ids.iter().filter_map(|id| objects.text(id)).collect()),
        Err(error) => Err(error.to_string()),
    })
}

/// The lists that the selectors themselves ask for.
fn first(kinds: &Kinds, key: &PlacementKey, selectors: &[ResourceSelector]) -> BTreeSet<Ask> {
    let mut asks = BTreeSet::new();
    let only = selectors.iter().find(|selector| {
        selector.kind == "Namespace" && selector.selection_scope == SelectionScope::NamespaceWithResourceSelectors
    });
    let home = match key.scope() {
        Scope::Namespaced => key.namespace().map(str::to_owned),
        Scope::Cluster => only
            .map(|selector| selector.name.clone())
            .filter(|name| !name.is_empty()),
    };
    for selector in selectors {
        for selector in std::iter::once(selector.clone()).chain(services(selector)) {
            let Some(served) = kinds.served(&selector.group, &selector.version, &selector.kind) else {
                continue;
            };
            asks.insert(Ask {
                gvk: (selector.group, selector.version, selector.kind),
                namespace: home.clone().filter(|_| !served.cluster_scoped),
                name: Some(selector.name).filter(|name| !name.is_empty()),
                only: Rc::default(),
            });
        }
    }
    asks
}

/// The namespaces of which everything may be selected.
fn inside(objects: &Objects<'_>, key: &PlacementKey, selectors: &[ResourceSelector]) -> BTreeSet<String> {
    if key.scope() == Scope::Namespaced {
        return BTreeSet::new();
    }
    let whole = selectors.iter().filter(|it| {
        it.group.is_empty() && it.kind == "Namespace" && it.selection_scope == SelectionScope::NamespaceWithResources
    });
    let mut found = BTreeSet::new();
    for selector in whole {
        let only = ResourceSelector {
            selection_scope: SelectionScope::NamespaceOnly,
            ..selector.clone()
        };
        // A mistake in it is said when everything is selected.
        let ids = selection::select(key, &[only], &Rules::default(), objects).unwrap_or_default();
        found.extend(ids.into_iter().map(|id| id.name));
    }
    found
}

impl Objects<'_> {
    async fn read(
        &mut self,
        client: &Client,
        asks: BTreeSet<Ask>,
        frozen: &[RawJson],
        notes: &mut Vec<String>,
    ) -> Result<()> {
        let refused = self.read_once(client, asks, frozen, notes).await?;
        let apart: BTreeSet<Ask> = refused.iter().flat_map(Ask::apart).collect();
        self.read_once(client, apart, frozen, notes).await?;
        Ok(())
    }

    /// Answers with lists over all namespaces that the user may not have.
    async fn read_once(
        &mut self,
        client: &Client,
        asks: BTreeSet<Ask>,
        frozen: &[RawJson],
        notes: &mut Vec<String>,
    ) -> Result<Vec<Ask>> {
        let kinds = self.kinds;
        let each = asks.into_iter().filter_map(|ask| {
            let served = kinds.served(&ask.gvk.0, &ask.gvk.1, &ask.gvk.2)?;
            Some(async move {
                let answer = list(client, served, &ask).await;
                (ask, answer)
            })
        });
        let mut refused = Vec::new();
        let mut answers = stream::iter(each.collect::<Vec<_>>()).buffer_unordered(TOGETHER);
        while let Some((ask, answer)) = answers.next().await {
            match answer {
                Ok(found) => {
                    self.metas.entry(ask.gvk.clone()).or_default();
                    for value in found {
                        self.put(&ask.gvk, value);
                    }
                }
                Err(kube::Error::Api(status)) if status.code == 403 && !ask.only.is_empty() => refused.push(ask),
                Err(kube::Error::Api(status)) if matches!(status.code, 403..=405) => {
                    let (group, _, kind) = &ask.gvk;
                    let note = format!(
                        "{kind}{}{group} cannot be listed ({}): taken as in the newest snapshot",
                        if group.is_empty() { "" } else { "." },
                        status.message
                    );
                    if !notes.contains(&note) {
                        notes.push(note);
                    }
                    self.metas.entry(ask.gvk.clone()).or_default();
                    self.put_frozen(&ask, frozen);
                }
                Err(error) => return Err(anyhow::Error::new(error).context(format!("cannot list {}", ask.gvk.2))),
            }
        }
        Ok(refused)
    }

    fn put_frozen(&mut self, ask: &Ask, frozen: &[RawJson]) {
        for text in frozen {
            let Ok(id) = ObjectId::of(text) else { continue };
            if (&id.group, &id.version, &id.kind) == (&ask.gvk.0, &ask.gvk.1, &ask.gvk.2) && ask.wants(&id.namespace) {
                self.put(&ask.gvk, text.to_value());
            }
        }
    }

    /// The objects of a file, instead of those that the hub has, in every version that was read.
    fn lay_over(&mut self, over: &[Object]) {
        let gvks: Vec<Gvk> = self.metas.keys().cloned().collect();
        for object in over {
            let same = |gvk: &&Gvk| gvk.0 == object.id.group && gvk.2 == object.id.kind;
            for gvk in gvks.iter().filter(same) {
                self.put(gvk, object.value.clone());
            }
        }
    }

    fn put(&mut self, gvk: &Gvk, mut value: Value) {
        let gvk_of = GroupVersionKind::gvk(&gvk.0, &gvk.1, &gvk.2);
        value["apiVersion"] = gvk_of.api_version().into();
        value["kind"] = gvk.2.clone().into();
        let Ok(id) = ObjectId::of(&(&value).into()) else { return };
        let meta = Meta {
            labels: serde_json::from_value(value["metadata"]["labels"].clone()).unwrap_or_default(),
            deleting: value["metadata"]["deletionTimestamp"].is_string(),
            owned: value["metadata"]["ownerReferences"]
                .as_array()
                .is_some_and(|owners| !owners.is_empty()),
            secret_type: value["type"].as_str().unwrap_or_default().to_owned(),
            id: id.clone(),
        };
        let metas = self.metas.entry(gvk.clone()).or_default();
        if self.values.insert(id.clone(), value).is_some() {
            metas.retain(|known| known.id != id);
        }
        metas.push(meta);
    }

    fn text(&self, id: &ObjectId) -> Option<RawJson> {
        self.values.get(id).map(|value| selection::stored(value.clone()))
    }
}

impl Hub for Objects<'_> {
    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<KindInfo> {
        let Served { api, cluster_scoped } = self.kinds.served(group, version, kind)?;
        Some(KindInfo {
            plural: api.plural.clone(),
            cluster_scoped: *cluster_scoped,
            synced: true,
        })
    }

    fn objects(&self, group: &str, version: &str, kind: &str, namespace: Option<&str>) -> Vec<&Meta> {
        let gvk = (group.to_owned(), version.to_owned(), kind.to_owned());
        let all = self.metas.get(&gvk).into_iter().flatten();
        all.filter(|object| namespace.is_none_or(|namespace| object.id.namespace == namespace))
            .collect()
    }

    fn namespaced_kinds(&self) -> Vec<Gvk> {
        self.namespaced.clone()
    }
}

/// All objects that are asked for.
async fn list(client: &Client, served: &Served, ask: &Ask) -> kube::Result<Vec<Value>> {
    let api: Api<DynamicObject> = match &ask.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &served.api),
        None => Api::all_with(client.clone(), &served.api),
    };
    let mut params = ListParams::default().limit(PAGE);
    if let Some(name) = &ask.name {
        params = params.fields(&format!("metadata.name={name}"));
    }
    let mut found = Vec::new();
    loop {
        let page = api.list(&params).await?;
        let wanted = |object: &DynamicObject| ask.wants(object.metadata.namespace.as_deref().unwrap_or_default());
        for mut object in page.items.into_iter().filter(wanted) {
            object.metadata.managed_fields = None;
            found.push(serde_json::to_value(object).map_err(kube::Error::SerdeError)?);
        }
        let Some(next) = page.metadata.continue_.filter(|token| !token.is_empty()) else {
            return Ok(found);
        };
        params = params.continue_token(&next);
    }
}
