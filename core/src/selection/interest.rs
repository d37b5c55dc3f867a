//! Which placements a change of an object may concern.
//!
//! A hub's objects change all the time, and nearly always no placement selects them. Selectors are indexed by kind,
//! namespace and name, and by labels where they have them, so that the work grows with whom a change concerns and not
//! with the number of placements.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use fleet_api::names::Scope;
use fleet_api::placement::{ResourceSelector, SelectionScope};

use super::Object;
use super::select::services;
use crate::scheduler::Selector;

/// The selectors of all placements of one scope, by what they may match. `P` names a placement.
#[derive(Debug, Clone)]
pub struct Interests<P> {
    scope: Scope,
    kinds: HashMap<Place, Matchers<P>>,
    /// Where each placement is listed.
    listed: HashMap<P, BTreeSet<Place>>,
}

/// Group and kind, and for placements in a namespace that. Not the version: changes are seen in the version that the watch
/// speaks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Place {
    namespace: Option<String>,
    group: String,
    kind: String,
}

#[derive(Debug, Clone)]
struct Matchers<P> {
    by_name: HashMap<String, BTreeMap<P, Reach>>,
    by_labels: BTreeMap<P, Vec<(Selector, Reach)>>,
}

impl<P> Default for Matchers<P> {
    fn default() -> Self {
        Self {
            by_name: HashMap::new(),
            by_labels: BTreeMap::new(),
        }
    }
}

/// Whether what is inside of a selected namespace is selected too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Itself,
    Contents,
}

impl<P: Clone + Ord + Hash> Interests<P> {
    /// None yet.
    pub fn new(scope: Scope) -> Self {
        Self {
            scope,
            kinds: HashMap::new(),
            listed: HashMap::new(),
        }
    }

    /// Takes the selectors of a placement, instead of those that it had. `namespace` is the placement's own. A selector that
    /// cannot be used matches nothing; selecting reports it.
    pub fn set(&mut self, placement: &P, namespace: Option<&str>, selectors: &[ResourceSelector]) {
        self.remove(placement);
        let services = selectors.iter().filter_map(services);
        for selector in selectors.iter().cloned().chain(services) {
            let kind = Place {
                namespace: namespace.map(Into::into),
                group: selector.group.clone(),
                kind: selector.kind.clone(),
            };
            let reach = match selector.selection_scope {
                SelectionScope::NamespaceOnly => Reach::Itself,
                _ => Reach::Contents,
            };
            let labels = selector
                .label_selector
                .as_ref()
                .map_or(Ok(Selector::default()), Selector::new);
            let Ok(labels) = labels else { continue };
            let matchers = self.kinds.entry(kind.clone()).or_default();
            if selector.name.is_empty() {
                let list = matchers.by_labels.entry(placement.clone()).or_default();
                list.push((labels, reach));
            } else {
                let named = matchers.by_name.entry(selector.name.clone()).or_default();
                let known = named.entry(placement.clone()).or_insert(reach);
                *known = reach.max(*known);
            }
            self.listed.entry(placement.clone()).or_default().insert(kind);
        }
    }

    /// Forgets a placement.
    pub fn remove(&mut self, placement: &P) {
        for kind in self.listed.remove(placement).into_iter().flatten() {
            let Some(matchers) = self.kinds.get_mut(&kind) else {
                continue;
            };
            matchers.by_labels.remove(placement);
            matchers.by_name.retain(|_, named| {
                named.remove(placement);
                !named.is_empty()
            });
            if matchers.by_labels.is_empty() && matchers.by_name.is_empty() {
                self.kinds.remove(&kind);
            }
        }
    }

    /// The placements that a change of this object may concern. `parent` is its Namespace, if it is in one and that is
    /// known.
    pub fn concerned(&self, object: &Object, parent: Option<&Object>) -> BTreeSet<P> {
        let namespace = object.id.namespace.as_str();
        match (self.scope, namespace.is_empty(), parent) {
            (Scope::Namespaced, _, _) => self.matching(Some(namespace), object, Reach::Itself),
            (Scope::Cluster, true, _) => self.matching(None, object, Reach::Itself),
            (Scope::Cluster, false, Some(parent)) => self.matching(None, parent, Reach::Contents),
            (Scope::Cluster, false, None) => BTreeSet::new(),
        }
    }

    fn matching(&self, namespace: Option<&str>, object: &Object, reach: Reach) -> BTreeSet<P> {
        let kind = Place {
            namespace: namespace.map(Into::into),
            group: object.id.group.clone(),
            kind: object.id.kind.clone(),
        };
        let Some(matchers) = self.kinds.get(&kind) else {
            return BTreeSet::new();
        };
        let named = matchers.by_name.get(&object.id.name).into_iter().flatten();
        let named = named.filter(|(_, own)| **own >= reach).map(|(placement, _)| placement);
        let labelled = matchers.by_labels.iter().filter(|(_, list)| {
            list.iter()
                .any(|(labels, own)| *own >= reach && labels.matches(&object.labels))
        });
        named.chain(labelled.map(|(placement, _)| placement)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use fleet_api::placement::ResourceSelector;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::selection::{ObjectId, touches};

    fn selector() -> impl Strategy<Value = ResourceSelector> {
        let kind = prop_oneof![
            Just("Namespace"),
            Just("ConfigMap"),
            Just("ClusterRole"),
            Just("Endpoints")
        ];
        let what = prop_oneof![
            prop_oneof![Just("a"), Just("b")].prop_map(|name| json!({ "name": name })),
            prop_oneof![Just("red"), Just("blue")]
                .prop_map(|team| json!({ "labelSelector": { "matchLabels": { "team": team } } })),
            Just(json!({ "labelSelector": { "matchExpressions": [{ "key": "team", "operator": "Odd" }] } })),
            Just(json!({})),
        ];
        let reach = prop_oneof![
            Just("NamespaceOnly"),
            Just("NamespaceWithResources"),
            Just("NamespaceWithResourceSelectors")
        ];
        (kind, what, reach).prop_map(|(kind, mut what, reach)| {
            what["group"] = json!("");
            what["version"] = json!("v1");
            what["kind"] = json!(kind);
            what["selectionScope"] = json!(reach);
            serde_json::from_value(what).unwrap()
        })
    }

    fn object(kind: &'static str, namespace: impl Strategy<Value = &'static str>) -> impl Strategy<Value = Object> {
        let name = prop_oneof![Just("a"), Just("b"), Just("c")];
        let team = prop_oneof![Just(None), Just(Some("red")), Just(Some("blue"))];
        (namespace, name, team).prop_map(move |(namespace, name, team)| Object {
            id: ObjectId {
                group: String::new(),
                version: "v1".into(),
                kind: kind.into(),
                namespace: namespace.into(),
                name: name.into(),
            },
            labels: team.map(|team| ("team".into(), team.into())).into_iter().collect(),
            ..Object::default()
        })
    }

    fn objects() -> impl Strategy<Value = (Object, Option<Object>)> {
        let parent = prop::option::of(object("Namespace", Just(""))).boxed();
        prop_oneof![
            (object("ConfigMap", prop_oneof![Just("a"), Just("b")]), parent.clone()),
            (object("Service", prop_oneof![Just("a"), Just("b")]), parent),
            (object("ClusterRole", Just("")), Just(None)),
            (object("Namespace", Just("")), Just(None)),
        ]
    }

    proptest! {
        /// The index finds exactly those whom a look at every placement finds.
        #[test]
        fn it_finds_whom_a_change_touches(
            namespaced in any::<bool>(),
            before in prop::collection::btree_map(0..4u8, prop::collection::vec(selector(), 0..4), 0..4),
            after in prop::collection::btree_map(0..4u8, prop::collection::vec(selector(), 0..4), 0..4),
            (object, parent) in objects(),
        ) {
            let scope = if namespaced { Scope::Namespaced } else { Scope::Cluster };
            let home = |placement: u8| namespaced.then_some(if placement.is_multiple_of(2) { "a" } else { "b" });
            let mut interests = Interests::new(scope);
            for (placement, selectors) in &before {
                interests.set(placement, home(*placement), selectors);
            }
            for placement in before.keys().filter(|placement| !after.contains_key(placement)) {
                interests.remove(placement);
            }
            for (placement, selectors) in &after {
                interests.set(placement, home(*placement), selectors);
            }
            let touched = after.iter().filter(|(placement, selectors)| {
                home(**placement).is_none_or(|home| home == object.id.namespace)
                    && touches(scope, selectors, &object, parent.as_ref())
            });
            let touched: BTreeSet<u8> = touched.map(|(placement, _)| *placement).collect();
            prop_assert_eq!(interests.concerned(&object, parent.as_ref()), touched);
            for placement in after.keys() {
                interests.remove(placement);
            }
            prop_assert!(interests.kinds.is_empty() && interests.listed.is_empty());
        }
    }
}
