//! What may come to exist is written down, and watched, before anything is changed: a crash at any point loses nothing.

use std::collections::BTreeSet;

use fleet_api::events::WorkEvent;
use fleet_core::apply::{
    identify::{Manifest, ObjectKey},
    inventory::Inventory,
    owners::Owner,
};
use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::core::ApiResource;
use serde_json::json;

use super::{
    handles::Handles,
    leftovers,
    member_api::gvk,
    memory::{Ledger, is_unknown},
    round::{Before, Common, RoundFailure},
    works::HubWork,
};

/// Prepares a round.
pub(super) struct WriteAhead {
    pub(super) handles: Handles,
}

impl WriteAhead {
    /// Before a round over everything: what the hub may have forgotten is let go, what may come is written down, and what
    /// is left over makes room.
    pub(super) async fn begin(
        &self,
        common: &Common<'_>,
        ledger: &mut Ledger,
        batch: &[Manifest],
        before: &mut Before,
    ) -> Result<(), RoundFailure> {
        let (work, owner) = (common.work, &common.owner);
        let applies = !common.report_diff();
        if applies && !self.handles.records.goes_on(work, &ledger.inventory.attempt) {
            self.keep_forgotten(work, owner, &mut ledger.inventory, batch).await?;
        }
        self.write(common, ledger, batch, before).await?;
        if applies && self.handles.barrier.is_open() {
            leftovers::make_room(&self.handles.api, owner, &mut ledger.inventory, batch).await;
        }
        Ok(())
    }

    /// Writes down what may come to exist, and begins to watch it.
    pub(super) async fn write(
        &self,
        common: &Common<'_>,
        ledger: &mut Ledger,
        batch: &[Manifest],
        before: &mut Before,
    ) -> Result<(), RoundFailure> {
        let work = common.work;
        let inventory = &mut ledger.inventory;
        // What is only compared lets go of nothing, so that has to wait.
        let attempt = if common.report_diff() && !self.handles.records.goes_on(work, &inventory.attempt) {
            inventory.attempt.clone()
        } else {
            self.handles.records.next(work, &common.spec_digest, &inventory.attempt)
        };
        let keys = batch.iter().filter_map(|manifest| ObjectKey::of(&manifest.id));
        let new = keys.filter(|key| !inventory.entries.contains_key(key));
        before.new.extend(new);
        if inventory.intend(&attempt, batch) {
            // What is stored of appliedResources stays as it is; naming some of them again does no harm.
            let known = &before.manifests;
            let listed = |key: &ObjectKey| known.get(key).is_some_and(|known| known.verdict.is_applied());
            let status = json!({"inventory": inventory.to_store(listed)});
            self.handles
                .owners
                .write(work.name(), &common.owner.uid, &status)
                .await?;
            self.handles.records.note(work.name(), &inventory.attempt);
            ledger.written.clear();
        }
        self.watch(work, &ledger.inventory, batch).await;
        Ok(())
    }

    async fn watch(&self, work: &HubWork, inventory: &Inventory, batch: &[Manifest]) {
        self.handles.api.learn(inventory.entries.values()).await;
        let mine = inventory.entries.iter().filter_map(|(key, id)| {
            let kind = self.handles.api.kinds.find(&gvk(id)).ok()?;
            Some((kind.resource, key.clone()))
        });
        let objects = mine.chain(namespaces_of(batch)).collect();
        let unknown = batch
            .iter()
            .any(|manifest| manifest.object.as_ref().is_err_and(is_unknown));
        let definitions = ApiResource::erase::<CustomResourceDefinition>(&());
        let whole = if unknown { vec![definitions] } else { Vec::new() };
        self.handles.watches.follow(work.name(), objects, &whole).await;
    }

    /// Lets go of everything in the inventory that no manifest names, after a hub that went back in time: it may have
    /// forgotten that it named them, and nobody has asked to remove them. All of it, or the round does not begin: what is
    /// written down afterwards is taken for the Work's own, and removed when it is left over.
    pub(super) async fn keep_forgotten(
        &self,
        work: &HubWork,
        owner: &Owner,
        inventory: &mut Inventory,
        manifests: &[Manifest],
    ) -> Result<(), RoundFailure> {
        let left: Vec<_> = inventory.unnamed(manifests).into_iter().cloned().collect();
        let outcome = leftovers::release(&self.handles.api, owner, inventory, left).await;
        for object in outcome.released {
            tracing::warn!(work = work.name(), object, "Kept what the hub may have forgotten");
            self.handles.reporter.record(work, &WorkEvent::LeftoverKept { object });
        }
        match outcome.failures.into_iter().next() {
            Some((object, error)) => Err(RoundFailure::NotKept(format!("{object}: {error}"))),
            None => Ok(()),
        }
    }
}

/// The namespaces that manifests need: what fails for the lack of one is tried again when it comes.
fn namespaces_of(batch: &[Manifest]) -> impl Iterator<Item = (ApiResource, ObjectKey)> {
    let names: BTreeSet<&str> = batch.iter().map(|manifest| &*manifest.id.namespace).collect();
    names.into_iter().filter(|name| !name.is_empty()).map(|name| {
        let key = ObjectKey {
            group: String::new(),
            kind: "Namespace".to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
        };
        (ApiResource::erase::<Namespace>(&()), key)
    })
}
