//! Where a user's object is, and what is known of it without asking.

use std::sync::Arc;

use fleet_core::selection::ObjectId;
use fleet_runtime::{Key, answer, client::is_not_found};
use kube::{
    Resource as _,
    api::GetParams,
    core::{ApiResource, Request},
};
use serde_json::Value;

use super::{
    UserResources,
    kinds::{Gvk, Served},
    light::Light,
};

/// No API server stores a larger object.
const OBJECT_MAX: usize = 32 * 1024 * 1024;

/// What requests about an object need to know.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) api: ApiResource,
    pub(crate) key: Key,
    /// Whether its status can be written by itself.
    pub(crate) has_status: bool,
}

impl Place {
    /// The path of the collection that it is in.
    pub(crate) fn path(&self) -> String {
        Light::url_path(&self.api, self.key.namespace())
    }

    /// `deployments.apps`, for the core group `services`.
    pub(crate) fn resource(&self) -> String {
        match self.api.group.as_str() {
            "" => self.api.plural.clone(),
            group => format!("{}.{group}", self.api.plural),
        }
    }
}

impl UserResources {
    /// Where an object is, if the hub serves its kind.
    pub(crate) fn place(&self, object: &ObjectId) -> Option<Place> {
        let Served {
            api,
            cluster_scoped,
            has_status,
        } = self.served(&Gvk::of(object))?;
        let key = if cluster_scoped {
            Key::cluster(object.name.as_str())
        } else {
            Key::namespaced(object.namespace.as_str(), object.name.as_str())
        };
        Some(Place { api, key, has_status })
    }

    /// Whether objects of this kind have no namespace; none if the hub does not know the kind. By group and kind: a kind
    /// has one scope, also in versions that the hub does not serve.
    pub(crate) fn is_cluster_scoped(&self, object: &ObjectId) -> Option<bool> {
        let kinds = self.0.kinds.read();
        let of_group = kinds.served.range(Gvk::new(&object.group, "", "")..);
        let mut versions = of_group
            .take_while(|(gvk, _)| gvk.group == object.group)
            .filter(|(gvk, _)| gvk.kind == object.kind)
            .map(|(_, served)| served.cluster_scoped)
            .peekable();
        versions.peek()?;
        Some(versions.any(|cluster_scoped| cluster_scoped))
    }

    /// The uid of an object, as the watch of its kind has it.
    pub(crate) fn uid(&self, object: &ObjectId, place: &Place) -> Option<String> {
        self.light(&Gvk::of(object), &place.key)?.metadata.uid.clone()
    }

    /// Reads an object; none if it is not there.
    pub(crate) async fn read(&self, place: &Place) -> kube::Result<Option<Value>> {
        let request = Request::new(place.path())
            .get(place.key.name(), &GetParams::default())
            .map_err(kube::Error::BuildRequest)?;
        match answer::read(&self.client(), request, OBJECT_MAX).await {
            Ok(text) => serde_json::from_slice(text.bytes())
                .map(Some)
                .map_err(kube::Error::SerdeError),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The version of an object, as the watch has it.
    pub(super) fn version(&self, object: &ObjectId, place: &Place) -> Option<String> {
        let light = self.light(&Gvk::of(object), &place.key)?;
        light
            .metadata
            .resource_version
            .as_deref()
            .map(|version| self.of_era(version))
    }

    /// A version that is told apart from the same one of a time before the hub was restored from a backup.
    pub(super) fn of_era(&self, version: &str) -> String {
        format!("{}/{version}", self.0.era.number())
    }

    fn light(&self, gvk: &Gvk, key: &Key) -> Option<Arc<Light>> {
        let watched = self.0.watched.lock().get(gvk).cloned()?;
        watched.store.get(key)
    }

    fn served(&self, gvk: &Gvk) -> Option<Served> {
        self.0.kinds.read().served.get(gvk).cloned()
    }
}
