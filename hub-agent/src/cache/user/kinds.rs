//! Which kinds the hub serves, also those that come later.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fleet_core::selection::{ObjectId, apis::Apis};
use fleet_runtime::{
    cache::{Selection, plain},
    client::answered,
    logs,
};
use kube::{
    Api, Client,
    core::ApiResource,
    discovery::{Discovery, Scope, verbs},
};
use tokio::{select, time::sleep};

use super::UserResources;

/// A new CRD shows up in several changes, and in what the hub says it serves a moment after it is established.
const SETTLE: Duration = Duration::from_millis(100);
/// The longest pause between two questions about a kind that should be served by now.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Gvk {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

impl Gvk {
    pub(super) fn new(group: &str, version: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    pub(super) fn of(object: &ObjectId) -> Self {
        Self::new(&object.group, &object.version, &object.kind)
    }

    pub(super) fn namespace() -> Self {
        Self::new("", "v1", "Namespace")
    }

    pub(super) fn is_secret(&self) -> bool {
        self.group.is_empty() && self.kind == "Secret"
    }

    /// Kubernetes gives a PriorityClass a generation and never counts it up.
    pub(super) fn has_constant_generation(&self) -> bool {
        self.group == "scheduling.k8s.io" && self.kind == "PriorityClass"
    }
}

impl From<&ApiResource> for Gvk {
    fn from(api: &ApiResource) -> Self {
        Self::new(&api.group, &api.version, &api.kind)
    }
}

/// What the hub serves.
#[derive(Clone, Default)]
pub(super) struct Kinds {
    /// Every version that can be watched.
    pub(super) served: BTreeMap<Gvk, Served>,
    /// The preferred version of each namespaced kind that may be placed.
    pub(super) namespaced: BTreeSet<Gvk>,
    /// Every group, also those of which nothing can be watched.
    groups: BTreeSet<String>,
}

/// What the hub should serve and does not: an API server that has just started, or one behind it that does not answer.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    groups: BTreeSet<String>,
    kinds: BTreeSet<(String, String)>,
}

impl Unheard {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.kinds.is_empty()
    }

    /// Whether objects of this kind may well be there although the hub does not serve it.
    pub(super) fn contains(&self, gvk: &Gvk) -> bool {
        self.groups.contains(&gvk.group) || self.kinds.contains(&(gvk.group.clone(), gvk.kind.clone()))
    }
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) api: ApiResource,
    pub(super) cluster_scoped: bool,
    /// Whether its status is written by itself.
    pub(super) has_status: bool,
}

impl Kinds {
    /// Asks the hub.
    pub(super) async fn discover(client: &Client, apis: &Apis) -> kube::Result<Self> {
        let found = match answered(Discovery::new(client.clone()).run_aggregated()).await {
            Ok(found) => found,
            Err(_) => answered(Discovery::new(client.clone()).run()).await?,
        };
        let mut kinds = Self::default();
        for group in found.groups() {
            kinds.groups.insert(group.name().to_owned());
            let versions: BTreeSet<&str> = group.versions().collect();
            for version in versions {
                for (api, can) in group.versioned_resources(version) {
                    if can.supports_operation(verbs::LIST) && can.supports_operation(verbs::WATCH) {
                        let served = Served {
                            cluster_scoped: can.scope == Scope::Cluster,
                            has_status: can.subresources.iter().any(|(part, _)| part.plural == "status"),
                            api,
                        };
                        kinds.served.insert(Gvk::from(&served.api), served);
                    }
                }
            }
            // The group's preferred version, but for kinds that are not in it: of envelopes there is no `v1`.
            let recommended = group.recommended_resources().into_iter();
            let mut seen = BTreeSet::new();
            for (api, _) in recommended.chain(group.resources_by_stability()) {
                if !seen.insert(api.kind.clone()) {
                    continue;
                }
                let gvk = Gvk::from(&api);
                let placeable = apis.is_enabled(&gvk.group, &gvk.version, &gvk.kind);
                if placeable && kinds.served.get(&gvk).is_some_and(|served| !served.cluster_scoped) {
                    kinds.namespaced.insert(gvk);
                }
            }
        }
        Ok(kinds)
    }

    /// The kinds that are not served alike.
    pub(super) fn difference(&self, other: &Self) -> BTreeSet<Gvk> {
        let all = self.served.keys().chain(other.served.keys());
        let differs = |gvk: &&Gvk| {
            self.served.get(gvk) != other.served.get(gvk)
                || self.namespaced.contains(*gvk) != other.namespaced.contains(*gvk)
        };
        all.filter(differs).cloned().collect()
    }
}

impl UserResources {
    /// Whether the hub says of all of these that it serves them, with or without a status of their own.
    fn serves_as_defined(&self, expected: impl IntoIterator<Item = (Gvk, bool)>) -> bool {
        let kinds = self.0.kinds.read();
        expected.into_iter().all(|(gvk, has_status)| {
            let served = kinds.served.get(&gvk);
            served.is_some_and(|served| served.has_status == has_status)
        })
    }

    /// What the hub says that it has, and does not serve in any version.
    pub(super) fn unheard(&self, kinds: &Kinds) -> Unheard {
        let served: BTreeSet<(&str, &str)> = kinds.served.keys().map(|gvk| (&*gvk.group, &*gvk.kind)).collect();
        let services = self.0.services.all();
        let of_others = services.iter().filter(|service| service.spec.service.is_some());
        let definitions = self.0.definitions.all();
        let defined = definitions.iter().flat_map(|definition| definition.kinds());
        Unheard {
            groups: of_others
                .map(|service| service.spec.group.clone())
                .filter(|group| !kinds.groups.contains(group))
                .collect(),
            kinds: defined
                .map(|(gvk, _)| (gvk.group, gvk.kind))
                .filter(|(group, kind)| !served.contains(&(group, kind)))
                .collect(),
        }
    }

    /// Waits until it is known which kinds there are. Needs [`follow_kinds`](Self::follow_kinds).
    pub(crate) async fn discovered(&self) {
        let _ = self.0.discovered.subscribe().wait_for(|known| *known).await;
    }

    /// Asks which kinds there are until that is answered.
    async fn refreshed(&self) {
        let mut pause = SETTLE;
        while let Err(error) = self.refresh().await {
            tracing::warn!(error = %logs::chain(&error), "Could not ask which kinds the hub serves");
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Keeps what is known of the hub's kinds up to date. Never ends.
    pub(crate) async fn follow_kinds(&self) {
        let client = self.client();
        let (definitions, services) = (&self.0.definitions, &self.0.services);
        let watches = async {
            let (all, every) = (Api::all(client.clone()), Api::all(client.clone()));
            tokio::join!(
                definitions.clone().watch(all, Selection::all(&self.0.era), plain),
                services.clone().watch(every, Selection::all(&self.0.era), plain),
            )
        };
        let follow = async {
            // Without the right to list them one can do no better than without them.
            tokio::join!(definitions.settled(), services.settled(), self.refreshed());
            self.0.discovered.send_replace(true);
            let (mut defined, mut served) = (definitions.subscribe(), services.subscribe());
            let mut pause = SETTLE;
            loop {
                sleep(pause).await;
                while defined.try_next().is_some() || served.try_next().is_some() {}
                self.refreshed().await;
                let expected = definitions.all().into_iter().flat_map(|definition| definition.kinds());
                pause = if self.serves_as_defined(expected) {
                    select! {
                        _ = defined.next() => {}
                        _ = served.next() => {}
                    }
                    SETTLE
                } else {
                    (pause * 2).min(PAUSE_MAX)
                };
            }
        };
        tokio::join!(watches, follow);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::definitions::Definition, *};

    #[test]
    fn a_definition_is_served_once_it_is_established() {
        let make = |established: &str, subresources: serde_json::Value| -> Definition {
            serde_json::from_value(json!({
                "metadata": { "name": "widgets.example.com" },
                "spec": {
                    "group": "example.com",
                    "names": { "kind": "Widget", "plural": "widgets" },
                    "versions": [
                        { "name": "v1", "served": true, "subresources": subresources },
                        { "name": "v1alpha1", "served": false },
                    ],
                },
                "status": { "conditions": [{ "type": "Established", "status": established }] },
            }))
            .unwrap()
        };
        let widget = || Gvk::new("example.com", "v1", "Widget");
        for (subresources, has_status) in [
            (json!(null), false),
            (json!({}), false),
            (json!({ "scale": {} }), false),
            (json!({ "status": {} }), true),
        ] {
            assert_eq!(make("True", subresources).kinds(), [(widget(), has_status)]);
        }
        assert!(make("False", json!(null)).kinds().is_empty());
        let mut new = json!({ "group": "example.com", "names": { "kind": "Widget" }, "versions": [] });
        new = json!({ "spec": new, "status": { "conditions": null, "storedVersions": ["v1"] } });
        let new: Definition = serde_json::from_value(new).unwrap();
        assert!(new.kinds().is_empty(), "as the first event shows it");
    }

    #[test]
    fn kinds_differ_by_what_is_served_and_by_what_is_preferred() {
        let kind = |version: &str| {
            let api = ApiResource {
                group: "g".into(),
                version: version.into(),
                api_version: format!("g/{version}"),
                kind: "K".into(),
                plural: "ks".into(),
            };
            let served = Served {
                api,
                cluster_scoped: false,
                has_status: true,
            };
            (Gvk::new("g", version, "K"), served)
        };
        let one = Kinds {
            served: [kind("v1")].into(),
            namespaced: [Gvk::new("g", "v1", "K")].into(),
            ..Kinds::default()
        };
        let two = Kinds {
            served: [kind("v1"), kind("v2")].into(),
            namespaced: [Gvk::new("g", "v2", "K")].into(),
            ..Kinds::default()
        };
        assert!(one.difference(&one).is_empty());
        let both = [Gvk::new("g", "v1", "K"), Gvk::new("g", "v2", "K")];
        assert_eq!(one.difference(&two), BTreeSet::from(both));
    }
}
