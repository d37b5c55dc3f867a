//! Which kinds a cluster serves, with the words that kubectl takes for them; and objects of any kind.

use anyhow::{Context as _, Result};
use kube::{
    api::{Api, ApiResource, DynamicObject},
    core::discovery::v2::{APIGroupDiscoveryList, APIResourceDiscovery},
};

use super::Hub;

/// A kind that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServedKind {
    pub(crate) resource: ApiResource,
    pub(crate) is_namespaced: bool,
    singular: String,
    short_names: Vec<String>,
}

impl ServedKind {
    /// Whether kubectl takes this word for it: `deployments`, `deployment.apps`, `deploy`.
    pub(crate) fn is(&self, word: &str) -> bool {
        let own = |name: &str| {
            let group = &self.resource.group;
            name == word
                || (!group.is_empty() && word.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')) == Some(group))
        };
        let kind = self.resource.kind.to_lowercase();
        let names = [self.resource.plural.as_str(), &self.singular, &kind];
        names.into_iter().any(own) || self.short_names.iter().any(|name| own(name))
    }
}

impl Hub {
    /// The kinds that are served, in order of priority; two requests.
    pub(crate) async fn kinds(&self) -> Result<Vec<ServedKind>> {
        let (core, groups) = futures::try_join!(
            self.client.list_core_api_versions_aggregated(),
            self.client.list_api_groups_aggregated(),
        )
        .context("cannot ask the cluster which kinds it has (`kubectl api-resources` lists them)")?;
        Ok(served(core).chain(served(groups)).collect())
    }

    /// The kind that kubectl takes this word for. None if the cluster serves none.
    pub(crate) async fn kind(&self, word: &str) -> Result<Option<ServedKind>> {
        Ok(self.kinds().await?.into_iter().find(|kind| kind.is(word)))
    }

    /// An object of any kind, with everything that it has; none if it is not there.
    pub(crate) async fn object(
        &self,
        kind: &ServedKind,
        namespace: &str,
        name: &str,
    ) -> kube::Result<Option<DynamicObject>> {
        let api: Api<DynamicObject> = if kind.is_namespaced {
            Api::namespaced_with(self.client.clone(), namespace, &kind.resource)
        } else {
            Api::all_with(self.client.clone(), &kind.resource)
        };
        api.get_opt(name).await
    }
}

/// The kinds of each group's preferred version, in order of priority.
fn served(list: APIGroupDiscoveryList) -> impl Iterator<Item = ServedKind> {
    list.items.into_iter().flat_map(|group| {
        let name = group.metadata.and_then(|meta| meta.name).unwrap_or_default();
        let preferred = group.versions.into_iter().next();
        preferred.into_iter().flat_map(move |version| {
            let (name, version_name) = (name.clone(), version.version.unwrap_or_default());
            let resources = version.resources.into_iter();
            resources.filter_map(move |resource| kind(resource, &name, &version_name))
        })
    })
}

fn kind(resource: APIResourceDiscovery, group: &str, version: &str) -> Option<ServedKind> {
    let gvk = resource.response_kind.as_ref()?;
    let own = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let (group, version) = (
        own(&gvk.group).unwrap_or_else(|| group.to_owned()),
        own(&gvk.version).unwrap_or_else(|| version.to_owned()),
    );
    let api_version = if group.is_empty() {
        version.clone()
    } else {
        format!("{group}/{version}")
    };
    Some(ServedKind {
        is_namespaced: resource.scope.as_deref() == Some("Namespaced"),
        singular: resource.singular_resource.unwrap_or_default(),
        short_names: resource.short_names,
        resource: ApiResource {
            kind: gvk.kind.clone()?,
            plural: resource.resource?,
            group,
            version,
            api_version,
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_are_known_by_all_words_that_kubectl_takes() {
        let list = serde_json::from_value(json!({ "items": [{ "metadata": { "name": "apps" }, "versions": [
            { "version": "v1", "resources": [{
                "resource": "deployments", "responseKind": { "group": "", "version": "", "kind": "Deployment" },
                "scope": "Namespaced", "singularResource": "deployment", "shortNames": ["deploy"], "verbs": ["get"],
            }] },
            { "version": "v1beta1", "resources": [] },
        ] }] }));
        let kinds: Vec<_> = served(list.expect("it is a list")).collect();
        let [deployment] = kinds.as_slice() else {
            panic!("one kind is served: {kinds:?}")
        };
        assert_eq!(deployment.resource.api_version, "apps/v1");
        assert!(deployment.is_namespaced);
        for word in ["deployment", "deployments", "deploy", "deployment.apps", "deploy.apps"] {
            assert!(deployment.is(word), "{word}");
        }
        for word in ["deployments.", "deployment.batch", "deployme", ""] {
            assert!(!deployment.is(word), "{word}");
        }
    }
}
