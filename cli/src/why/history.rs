//! What an object was before: the resource snapshots of its placement are its history.

use std::collections::BTreeMap;

use anyhow::Result;
use fleet_api::{
    labels::{PARENT_PLACEMENT, RESOURCE_INDEX},
    names::Scope as Which,
    placement::{ClusterScoped, Namespaced, Scope},
};
use fleet_core::{apply::diff, explain::Objects, selection::ObjectId};
use kube::core::{ObjectMeta, object::HasSpec as _};
use serde_json::Value;

use super::answer::{Before, Change};
use crate::{hub::Ask, problem::Problem, reading::Reader, subject::Key};

/// The snapshots of one placement, read when they are asked for, each once.
pub(super) struct History<'a> {
    reader: &'a Reader<'a>,
    key: &'a Key,
    snapshots: &'a [ObjectMeta],
    known: BTreeMap<u64, Option<Value>>,
}

impl<'a> History<'a> {
    pub(super) fn new(reader: &'a Reader<'a>, key: &'a Key, objects: &'a Objects) -> Self {
        let snapshots = match key.scope() {
            Which::Cluster => &objects.cluster.snapshots,
            Which::Namespaced => &objects.namespaced.snapshots,
        };
        Self {
            reader,
            key,
            snapshots,
            known: BTreeMap::new(),
        }
    }

    /// What the object was before the snapshot of this name; none if that snapshot does not have it, as those in envelopes,
    /// or if there is none before it.
    pub(super) async fn before(
        &mut self,
        snapshot: &str,
        is: impl Fn(&ObjectId) -> bool,
    ) -> Result<Option<Before>, Problem> {
        let named = |meta: &&ObjectMeta| meta.name.as_deref() == Some(snapshot);
        let Some(index) = self.snapshots.iter().find(named).and_then(index) else {
            return Ok(None);
        };
        let earlier = self
            .snapshots
            .iter()
            .filter(|meta| self::index(meta).is_some_and(|it| it < index));
        let Some(last) = earlier.max_by_key(|meta| self::index(meta)) else {
            return Ok(None);
        };
        let Some(then) = self::index(last) else {
            return Ok(None);
        };
        self.read(index, &is).await?;
        self.read(then, &is).await?;
        let (now, before) = (self.known.get(&index).cloned(), self.known.get(&then).cloned());
        let Some(now) = now.flatten() else {
            return Ok(None);
        };
        let before = before.flatten();
        let changes = before.as_ref().map(|before| diff::differences(before, &now).details);
        let changes = changes.into_iter().flatten().map(|detail| Change {
            path: detail.path,
            before: detail.value_in_hub,
            now: detail.value_in_member,
        });
        Ok(Some(Before {
            snapshot: last.name.clone().unwrap_or_default(),
            taken_at: last.creation_timestamp.clone(),
            existed: before.is_some(),
            changes: changes.collect(),
        }))
    }

    async fn read(&mut self, index: u64, is: &impl Fn(&ObjectId) -> bool) -> Result<(), Problem> {
        if self.known.contains_key(&index) {
            return Ok(());
        }
        let found = match self.key.scope() {
            Which::Cluster => self.find::<ClusterScoped>(index, is).await?,
            Which::Namespaced => self.find::<Namespaced>(index, is).await?,
        };
        self.known.insert(index, found);
        Ok(())
    }

    async fn find<S: Scope>(&self, index: u64, is: &impl Fn(&ObjectId) -> bool) -> Result<Option<Value>, Problem> {
        let labels = format!("{PARENT_PLACEMENT}={},{RESOURCE_INDEX}={index}", self.key.name);
        let ask = Ask {
            namespace: &self.key.namespace,
            labels: &labels,
            ..Ask::default()
        };
        let snapshots = self.reader.may::<S::ResourceSnapshot>(ask, |_| true).await?;
        let mut manifests = snapshots
            .iter()
            .flat_map(|snapshot| &snapshot.spec().selected_resources);
        let found = manifests.find(|manifest| ObjectId::of(manifest).is_ok_and(|id| is(&id)));
        Ok(found.and_then(|manifest| manifest.parse().ok()))
    }
}

fn index(meta: &ObjectMeta) -> Option<u64> {
    meta.labels.as_ref()?.get(RESOURCE_INDEX)?.parse().ok()
}
