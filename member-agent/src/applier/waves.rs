//! The manifests of a round, wave by wave.

use std::time::Duration;

use fleet_api::{conditions::manifest::ApplyFailure, events::WorkEvent};
use fleet_core::apply::{
    clean::ReservedKeys,
    identify::{Manifest, ObjectKey, misplaced},
    waves::waves,
};
use fleet_runtime::clock::Clock;
use futures::{StreamExt as _, stream};
use tokio::time::sleep;

use super::{
    barrier::Barrier,
    manifest::{Done, Job, Tools, carry_out, rules::MergeRules},
    member_api::{MemberApi, describe, gvk},
    memory::ManifestMemory,
    report::Reporter,
    round::{Before, Common, RoundFailure},
    watches::Watches,
    works::Works,
};

/// Manifests of one Work at the same time. Requests have a limit of their own, which all Works share.
const AT_ONCE: usize = 16;
/// A round that takes longer says that it has begun.
const PREPARING_AFTER: Duration = Duration::from_secs(1);

/// Applies or compares the manifests of a round.
pub(super) struct Waves {
    pub(super) api: MemberApi,
    pub(super) rules: MergeRules,
    pub(super) works: Works,
    pub(super) barrier: Barrier,
    pub(super) watches: Watches,
    pub(super) reporter: Reporter,
    /// Which labels and annotations comparisons leave out.
    pub(super) reserved: ReservedKeys,
    pub(super) clock: Clock,
}

impl Waves {
    /// All waves; if they take long, the hub is told that they have begun.
    pub(super) async fn announced(
        &self,
        common: &Common<'_>,
        batch: &[Manifest],
        before: &Before,
        full: bool,
    ) -> Result<Vec<Done>, RoundFailure> {
        let waves = self.run(common, batch, before);
        tokio::pin!(waves);
        tokio::select! {
            done = &mut waves => return done,
            () = sleep(PREPARING_AFTER), if full && !common.report_diff() && !self.reporter.has_said(common.work) => {}
        }
        let good = batch
            .iter()
            .filter(|manifest| manifest.object.is_ok())
            .map(|manifest| &manifest.id);
        self.reporter.preparing(common.work, good);
        waves.await
    }

    /// All waves, one after the other.
    pub(super) async fn run(
        &self,
        common: &Common<'_>,
        batch: &[Manifest],
        before: &Before,
    ) -> Result<Vec<Done>, RoundFailure> {
        let good: Vec<&Manifest> = batch.iter().filter(|manifest| manifest.object.is_ok()).collect();
        let mut all = Vec::with_capacity(good.len());
        for wave in waves(good.iter().map(|manifest| &manifest.id), common.report_diff()).into_values() {
            let done: Vec<Option<Done>> = stream::iter(wave)
                .map(|at| self.one(common, good[at], before))
                .buffer_unordered(AT_ONCE)
                .collect()
                .await;
            if !self.barrier.is_open() {
                return Err(RoundFailure::Interrupted);
            }
            all.extend(done.into_iter().flatten());
        }
        Ok(all)
    }

    async fn one(&self, common: &Common<'_>, manifest: &Manifest, before: &Before) -> Option<Done> {
        // Told to stop: what is not begun is not begun.
        if !self.barrier.is_open() {
            return None;
        }
        let object = manifest.object.as_ref().ok()?;
        let key = ObjectKey::of(&manifest.id);
        let work_exists = |name: &str| self.works.exists(name);
        let tools = Tools {
            objects: &self.api.objects,
            rules: &self.rules,
            work_exists: &work_exists,
            reserved: self.reserved,
        };
        let lost = |failure| {
            let object = Err(failure);
            Some(Done::failed(&Manifest {
                object,
                ..manifest.clone()
            }))
        };
        let place = match self.api.place(&manifest.id) {
            Ok(place) => place,
            // Another Work has just found that it is not served any more.
            Err(error) => return lost(ApplyFailure::UnknownKind { error }),
        };
        // Or that it has another scope by now.
        if let Some(failure) = misplaced(&manifest.id, place.kind.namespaced, &common.work.bounds()) {
            return lost(failure);
        }
        let job = Job {
            id: &manifest.id,
            manifest: object,
            place,
            strategy: &common.strategy,
            owner: &common.owner,
            generation: common.work.generation(),
            mirror: common.mirror,
            before: key.as_ref().and_then(|key| before.manifests.get(key)),
            is_new: key.as_ref().is_some_and(|key| before.new.contains(key)),
            now: self.clock.steady(),
        };
        let done = carry_out(tools, job).await;
        if let Some(key) = done.memory.key() {
            self.watches.noted(common.work.name(), &key, done.version);
        }
        Some(done)
    }

    /// Remembers what came of manifests, and tells people of those that are fought over.
    pub(super) fn keep(&self, common: &Common<'_>, manifests: &mut [ManifestMemory], all: Vec<Done>) {
        for done in all {
            let id = &done.memory.id;
            if done.unserved {
                self.api.kinds.forget(&gvk(id));
            }
            if let Some(hold) = &done.contested {
                let event = WorkEvent::Contested {
                    object: describe(id),
                    manager: hold.manager.clone().unwrap_or_else(|| "somebody".to_owned()),
                };
                self.reporter.record(common.work, &event);
            }
            let at = usize::try_from(id.ordinal).unwrap_or(usize::MAX);
            if let Some(known) = manifests.get_mut(at) {
                *known = done.memory;
            }
        }
    }
}
