//! What is watched in one namespace where somebody has named one: who has rights there alone sees what is there.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, Resource, core::NamespaceResourceScope};
use serde::Deserialize;

/// A `W`, asked for in a namespace or in all. Families of placements do not say in their types which of both they are.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Within<W>(pub(super) W);

impl<W: Resource<DynamicType = ()>> Within<W> {
    /// Those of a namespace, or all.
    pub(super) fn api(client: &Client, namespace: Option<&str>) -> Api<Self> {
        match namespace {
            None => Api::all(client.clone()),
            Some(namespace) => Api::namespaced(client.clone(), namespace),
        }
    }
}

impl<W: Resource<DynamicType = ()>> Resource for Within<W> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        W::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        W::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        W::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        W::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}
