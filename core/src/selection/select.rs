//! From selectors to objects.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::conditions::selection::InvalidSelection;
use fleet_api::labels::ENDPOINT_SLICE_MANAGED_BY;
use fleet_api::names::{PlacementKey, Scope, is_reserved_namespace};
use fleet_api::placement::{ResourceSelector, SelectionScope};

use super::apis::Apis;
use super::{ObjectId, order};
use crate::scheduler::Selector;

/// An object on the hub, without its content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Object {
    /// Which one.
    pub id: ObjectId,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it has an owner.
    pub owned: bool,
    /// For Secrets: `type`.
    pub secret_type: String,
}

/// What the hub's API says about a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindInfo {
    /// Its name in URLs.
    pub plural: String,
    /// Whether its objects have no namespace.
    pub cluster_scoped: bool,
    /// Whether its objects are all known.
    pub synced: bool,
}

/// What selection asks of the hub's caches.
pub trait Hub {
    /// A kind, from all versions that are served; none if the hub does not know it.
    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<KindInfo>;
    /// The objects of a kind, in one namespace or in all.
    fn objects(&self, group: &str, version: &str, kind: &str, namespace: Option<&str>) -> Vec<&Object>;
    /// All watched namespaced kinds: group, version and kind.
    fn namespaced_kinds(&self) -> Vec<(String, String, String)>;
}

/// What the flags say.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Which kinds can be placed.
    pub apis: Apis,
    /// Further namespaces that are not placed.
    pub skipped_namespaces: BTreeSet<String>,
    /// Whether the hub runs workloads, so that its claims are its own.
    pub workload_enabled: bool,
}

/// Why there is no selection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The user has to change the selectors.
    #[error(transparent)]
    Invalid(#[from] InvalidSelection),
    /// Not all objects of a kind are known yet; it goes away by itself.
    #[error("informer cache for {resource} is not synced yet")]
    NotSynced {
        /// The resource.
        resource: String,
    },
}

/// Whether nothing is placed from this namespace.
pub fn is_forbidden(namespace: &str, rules: &Rules) -> bool {
    is_reserved_namespace(namespace) || namespace == "default" || rules.skipped_namespaces.contains(namespace)
}

/// The objects that the selectors select, in order. Selectors of kinds that cannot be placed select nothing.
pub fn select(
    placement: &PlacementKey,
    selectors: &[ResourceSelector],
    rules: &Rules,
    hub: &dyn Hub,
) -> Result<Vec<ObjectId>, Error> {
    let run = Run { placement, rules, hub };
    // First, so that its place in the list does not matter.
    let inside = selectors
        .iter()
        .find(|s| is_namespace(s) && s.selection_scope == SelectionScope::NamespaceWithResourceSelectors);
    let inside = inside
        .filter(|s| placement.scope() == Scope::Cluster && run.is_enabled(s))
        .map(|s| run.one_namespace(s))
        .transpose()?;

    let mut found: Vec<ObjectId> = Vec::new();
    let mut seen = BTreeSet::new();
    for selector in selectors.iter().filter(|selector| run.is_enabled(selector)) {
        for object in run.one(selector, inside.as_deref())? {
            if !seen.insert(object.clone()) {
                let ObjectId {
                    group,
                    version,
                    kind,
                    namespace,
                    name,
                } = object;
                return Err(InvalidSelection::Duplicate {
                    group,
                    version,
                    kind,
                    name,
                    namespace,
                }
                .into());
            }
            found.push(object);
        }
    }
    order::sort(&mut found);
    Ok(found)
}

struct Run<'a> {
    placement: &'a PlacementKey,
    rules: &'a Rules,
    hub: &'a dyn Hub,
}

impl Run<'_> {
    fn is_enabled(&self, selector: &ResourceSelector) -> bool {
        self.rules
            .apis
            .is_enabled(&selector.group, &selector.version, &selector.kind)
    }

    fn one(&self, selector: &ResourceSelector, inside: Option<&str>) -> Result<Vec<ObjectId>, Error> {
        let placement = || self.placement.with_slash();
        if is_namespace(selector) {
            return match self.placement.scope() {
                Scope::Namespaced => {
                    let resource = "Namespace".to_owned();
                    Err(InvalidSelection::ClusterScoped {
                        placement: placement(),
                        resource,
                    }
                    .into())
                }
                Scope::Cluster => self.namespaces(selector),
            };
        }
        let Some(info) = self.hub.kind(&selector.group, &selector.version, &selector.kind) else {
            let version = api_version(&selector.group, &selector.version);
            return Err(InvalidSelection::UnknownKind {
                placement: placement(),
                kind: selector.kind.clone(),
                version,
            }
            .into());
        };
        let resource = resource(&selector.group, &selector.version, &info.plural);
        let namespace = match (self.placement.namespace(), info.cluster_scoped, inside) {
            (None, true, _) => None,
            (None, false, Some(inside)) => Some(inside),
            (None, false, None) => {
                return Err(InvalidSelection::Namespaced {
                    placement: placement(),
                    resource,
                }
                .into());
            }
            (Some(_), true, _) => {
                return Err(InvalidSelection::ClusterScoped {
                    placement: placement(),
                    resource,
                }
                .into());
            }
            (Some(namespace), false, _) => Some(namespace),
        };
        if !info.synced {
            return Err(Error::NotSynced { resource });
        }
        // A Service takes the Endpoints of its name.
        if let Some(services) = services(selector) {
            self.check_synced(&services.group, &services.version, &services.kind)?;
        }
        let objects = self.matching(selector, namespace)?;
        Ok(objects.into_iter().map(|object| object.id.clone()).collect())
    }

    /// Objects that a selector matches and that can be placed.
    fn matching(&self, selector: &ResourceSelector, namespace: Option<&str>) -> Result<Vec<&Object>, Error> {
        let labels = selector.label_selector.as_ref().map(Selector::new).transpose();
        let labels = labels.map_err(|error| InvalidSelection::LabelSelector {
            placement: self.placement.with_slash(),
            kind: selector.kind.clone(),
            error: error.to_string(),
        })?;
        let mut objects = self
            .hub
            .objects(&selector.group, &selector.version, &selector.kind, namespace);
        objects.retain(|object| {
            (selector.name.is_empty() || selector.name == object.id.name)
                && labels.as_ref().is_none_or(|labels| labels.matches(&object.labels))
                && !self.is_left_out(object)
        });
        Ok(objects)
    }

    fn is_left_out(&self, object: &Object) -> bool {
        object.deleting
            || is_never_selected(object, self.rules, &|namespace, name| {
                self.service_exists(namespace, name)
            })
    }

    fn service_exists(&self, namespace: &str, name: &str) -> bool {
        self.hub
            .objects("", "v1", "Service", Some(namespace))
            .iter()
            .any(|service| service.id.name == name)
    }

    /// What is not known to be complete proves nothing: an object that is left out would be deleted on members.
    fn check_synced(&self, group: &str, version: &str, kind: &str) -> Result<(), Error> {
        match self.hub.kind(group, version, kind) {
            Some(info) if info.synced => Ok(()),
            info => {
                let plural = info.map_or_else(|| format!("{}s", kind.to_lowercase()), |info| info.plural);
                let resource = resource(group, version, &plural);
                Err(Error::NotSynced { resource })
            }
        }
    }

    fn namespaces(&self, selector: &ResourceSelector) -> Result<Vec<ObjectId>, Error> {
        let forbidden = |name: &str| InvalidSelection::ForbiddenNamespace {
            placement: self.placement.name().into(),
            namespace: name.into(),
        };
        // By name it is a mistake whether or not the namespace is there.
        if selector.selection_scope != SelectionScope::NamespaceWithResourceSelectors
            && !selector.name.is_empty()
            && is_forbidden(&selector.name, self.rules)
        {
            return Err(forbidden(&selector.name).into());
        }
        self.check_synced(&selector.group, &selector.version, &selector.kind)?;
        let mut found = Vec::new();
        for namespace in self.matching(selector, None)? {
            let name = namespace.id.name.as_str();
            match selector.selection_scope {
                SelectionScope::NamespaceWithResources if is_forbidden(name, self.rules) => {
                    return Err(forbidden(name).into());
                }
                // "All namespaces" cannot mean the system's own, and need not fail for them.
                SelectionScope::NamespaceOnly if is_forbidden(name, self.rules) => {}
                SelectionScope::NamespaceWithResources => {
                    found.push(namespace.id.clone());
                    found.extend(self.contents(name)?);
                }
                SelectionScope::NamespaceOnly | SelectionScope::NamespaceWithResourceSelectors => {
                    found.push(namespace.id.clone());
                }
            }
        }
        Ok(found)
    }

    fn one_namespace(&self, selector: &ResourceSelector) -> Result<String, Error> {
        let none = || InvalidSelection::NoNamespace {
            placement: self.placement.name().into(),
        };
        self.check_synced(&selector.group, &selector.version, &selector.kind)?;
        let found = self.matching(selector, None)?;
        match found.as_slice() {
            [one] if !is_forbidden(&one.id.name, self.rules) => Ok(one.id.name.clone()),
            _ => Err(none().into()),
        }
    }

    fn contents(&self, namespace: &str) -> Result<Vec<ObjectId>, Error> {
        let mut found = Vec::new();
        for (group, version, kind) in self.hub.namespaced_kinds() {
            if !self.rules.apis.is_enabled(&group, &version, &kind) {
                continue;
            }
            self.check_synced(&group, &version, &kind)?;
            let objects = self.hub.objects(&group, &version, &kind, Some(namespace));
            found.extend(
                objects
                    .into_iter()
                    .filter(|object| !self.is_left_out(object))
                    .map(|object| object.id.clone()),
            );
        }
        Ok(found)
    }
}

/// Whether an object is one that clusters make by themselves. Being deleted is another matter.
pub fn is_never_selected(object: &Object, rules: &Rules, service_exists: &dyn Fn(&str, &str) -> bool) -> bool {
    let ObjectId {
        group,
        version,
        kind,
        namespace,
        name,
    } = &object.id;
    match (group.as_str(), version.as_str(), kind.as_str()) {
        ("apps", "v1", "ReplicaSet" | "ControllerRevision") => object.owned,
        ("", "v1", "ConfigMap") => name == "kube-root-ca.crt",
        ("", "v1", "ServiceAccount") => name == "default",
        ("", "v1", "Secret") => object.secret_type == "kubernetes.io/service-account-token",
        ("", "v1", "PersistentVolumeClaim") => rules.workload_enabled,
        ("", "v1", "Endpoints") => service_exists(namespace, name),
        ("discovery.k8s.io", "v1", "EndpointSlice") => object.labels.contains_key(ENDPOINT_SLICE_MANAGED_BY),
        _ => false,
    }
}

/// Whether a changed object may concern a placement with these selectors. What the placement's status lists concerns it
/// anyway. `parent` is the object's Namespace, if it is in one and that is known.
///
/// Group and kind decide, not the version: changes are seen in the version that the watch speaks. A selector that
/// cannot be used matches nothing here; selecting reports it.
pub fn touches(scope: Scope, selectors: &[ResourceSelector], object: &Object, parent: Option<&Object>) -> bool {
    let alike = |selector: &ResourceSelector, object: &Object| {
        selector.group == object.id.group
            && selector.kind == object.id.kind
            && (selector.name.is_empty() || selector.name == object.id.name)
            && selector
                .label_selector
                .as_ref()
                .is_none_or(|labels| Selector::new(labels).is_ok_and(|selector| selector.matches(&object.labels)))
    };
    let matches = |selector: &ResourceSelector, object: &Object| {
        alike(selector, object) || services(selector).is_some_and(|services| alike(&services, object))
    };
    if scope == Scope::Namespaced || object.id.namespace.is_empty() {
        return selectors.iter().any(|selector| matches(selector, object));
    }
    parent.is_some_and(|parent| {
        let whole = selectors
            .iter()
            .filter(|selector| selector.selection_scope != SelectionScope::NamespaceOnly);
        whole.into_iter().any(|selector| matches(selector, parent))
    })
}

/// Endpoints are selected while no Service has their name: these are the Services that matter to a selector.
pub fn services(selector: &ResourceSelector) -> Option<ResourceSelector> {
    let is_endpoints = selector.group.is_empty() && selector.kind == "Endpoints";
    is_endpoints.then(|| ResourceSelector {
        kind: "Service".to_owned(),
        label_selector: None,
        ..selector.clone()
    })
}

fn is_namespace(selector: &ResourceSelector) -> bool {
    selector.group.is_empty() && selector.version == "v1" && selector.kind == "Namespace"
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.into()
    } else {
        format!("{group}/{version}")
    }
}

fn resource(group: &str, version: &str, plural: &str) -> String {
    format!("{group}/{version}, Resource={plural}")
}
