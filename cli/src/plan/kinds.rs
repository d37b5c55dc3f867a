//! Which kinds the hub serves.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use fleet_core::selection::{ObjectId, apis::Apis};
use kube::{
    Client,
    core::ApiResource,
    discovery::{Discovery, Scope, verbs},
};

/// Group, version and kind.
pub(super) type Gvk = (String, String, String);

/// A kind that is served.
#[derive(Debug, Clone)]
pub(super) struct Served {
    pub(super) api: ApiResource,
    pub(super) cluster_scoped: bool,
}

/// All kinds that can be listed.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    served: BTreeMap<Gvk, Served>,
    /// The version in which the hub agent looks at each namespaced kind that may be placed.
    pub(super) namespaced: BTreeSet<Gvk>,
}

impl Kinds {
    /// Asks the hub: two requests where it knows how to answer together.
    pub(super) async fn discover(client: &Client, apis: &Apis) -> Result<Self> {
        let found = match Discovery::new(client.clone()).run_aggregated().await {
            Ok(found) => found,
            Err(_) => Discovery::new(client.clone())
                .run()
                .await
                .context("cannot ask the hub which kinds it has (`kubectl api-resources` lists them)")?,
        };
        let mut kinds = Self::default();
        for group in found.groups() {
            let versions: BTreeSet<&str> = group.versions().collect();
            for version in versions {
                for (api, can) in group.versioned_resources(version) {
                    if can.supports_operation(verbs::LIST) && can.supports_operation(verbs::WATCH) {
                        let cluster_scoped = can.scope == Scope::Cluster;
                        kinds.served.insert(gvk(&api), Served { api, cluster_scoped });
                    }
                }
            }
            let recommended = group.recommended_resources().into_iter();
            let mut seen = BTreeSet::new();
            for (api, _) in recommended.chain(group.resources_by_stability()) {
                if !seen.insert(api.kind.clone()) {
                    continue;
                }
                let placeable = apis.is_enabled(&api.group, &api.version, &api.kind);
                if placeable
                    && kinds
                        .served
                        .get(&gvk(&api))
                        .is_some_and(|served| !served.cluster_scoped)
                {
                    kinds.namespaced.insert(gvk(&api));
                }
            }
        }
        Ok(kinds)
    }

    pub(super) fn served(&self, group: &str, version: &str, kind: &str) -> Option<&Served> {
        self.served
            .get(&(group.to_owned(), version.to_owned(), kind.to_owned()))
    }

    pub(super) fn get(&self, id: &ObjectId) -> Option<&Served> {
        self.served(&id.group, &id.version, &id.kind)
    }

    /// Whether objects of this kind have no namespace; none if the hub does not know the kind. A kind has one scope in all
    /// versions.
    pub(super) fn is_cluster_scoped(&self, id: &ObjectId) -> Option<bool> {
        let from = (id.group.clone(), String::new(), String::new());
        let of_group = self
            .served
            .range(from..)
            .take_while(|((group, ..), _)| *group == id.group);
        let mut of_kind = of_group.filter(|((_, _, kind), _)| *kind == id.kind).peekable();
        of_kind.peek()?;
        Some(of_kind.any(|(_, served)| served.cluster_scoped))
    }
}

fn gvk(api: &ApiResource) -> Gvk {
    (api.group.clone(), api.version.clone(), api.kind.clone())
}
