//! This cluster's API: the kinds that it serves, and its objects of any kind.

pub(super) mod json;
pub(super) mod kinds;
pub(super) mod objects;

use fleet_api::placement::WorkResourceIdentifier;
use kube::Client;

use self::{
    kinds::{Gvk, Kind, Kinds},
    objects::{Objects, Place},
};

/// What the phases of a round reach this cluster by. Cheap to clone.
#[derive(Clone)]
pub(super) struct MemberApi {
    pub(super) objects: Objects,
    pub(super) kinds: Kinds,
}

impl MemberApi {
    pub(super) fn new(client: Client) -> Self {
        Self {
            kinds: Kinds::new(client.clone()),
            objects: Objects::new(client),
        }
    }

    /// Where an object is, if its kind is known.
    pub(super) fn place(&self, id: &WorkResourceIdentifier) -> Result<Place, String> {
        Ok(place_in(self.kinds.find(&gvk(id))?, id))
    }

    /// Reads what is not known yet of the kinds of these objects.
    pub(super) async fn learn(&self, ids: impl IntoIterator<Item = &WorkResourceIdentifier>) {
        self.kinds.learn(ids.into_iter().map(gvk)).await;
    }
}

/// The kind of an object, as its manifest named it.
pub(super) fn gvk(id: &WorkResourceIdentifier) -> Gvk {
    Gvk {
        group: id.group.clone(),
        version: id.version.clone(),
        kind: id.kind.clone(),
    }
}

/// Where an object is, in a kind that is served.
pub(super) fn place_in(kind: Kind, id: &WorkResourceIdentifier) -> Place {
    Place {
        kind,
        namespace: id.namespace.clone(),
        name: id.name.clone(),
    }
}

/// An object as people name it.
pub(super) fn describe(id: &WorkResourceIdentifier) -> String {
    if id.namespace.is_empty() {
        format!("{} {}", id.kind, id.name)
    } else {
        format!("{} {}/{}", id.kind, id.namespace, id.name)
    }
}
