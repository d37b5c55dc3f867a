//! The manifests of a round, wave by wave.

use std::time::Duration;

use fleet_api::{conditions::manifest::ApplyFailure, events::WorkEvent};
use fleet_core::{
    apply::{
        identify::{Manifest, ObjectKey},
        waves::waves,
    },
    session::seen::Subject,
};
use fleet_proto::convert::MemberMessage;
use futures::{StreamExt as _, stream};
use tokio::time::sleep;

use super::{
    Applying, Failure,
    held::Held,
    leftovers,
    manifest::{Done, Job, Tools, carry_out},
    report,
    round::{Before, Common, reference},
};

/// Manifests of one Work at the same time. Requests have a limit of their own, which all Works share.
const AT_ONCE: usize = 16;
/// A round that takes longer says that it has begun.
const PREPARING_AFTER: Duration = Duration::from_secs(1);

impl Applying {
    /// All waves; if they take long, the hub is told that they have begun.
    pub(super) async fn announced(
        &self,
        common: &Common<'_>,
        batch: &[Manifest],
        before: &Before,
        full: bool,
    ) -> Result<Vec<Done>, Failure> {
        let waves = self.waves(common, batch, before);
        tokio::pin!(waves);
        tokio::select! {
            done = &mut waves => return done,
            () = sleep(PREPARING_AFTER), if full && !common.report_diff() && !self.has_said(common.work) => {}
        }
        // It replaces what the hub has: the result is told whether or not it is the same as before.
        self.again.lock().insert(common.work.name().to_owned());
        let good = batch
            .iter()
            .filter(|manifest| manifest.object.is_ok())
            .map(|manifest| &manifest.id);
        let message = report::preparing(reference(common.work), common.work.generation(), good);
        self.outgoing.report(
            Subject::Work(common.work.name().to_owned()),
            MemberMessage::WorkStatus(message),
        );
        waves.await
    }

    pub(super) async fn waves(
        &self,
        common: &Common<'_>,
        batch: &[Manifest],
        before: &Before,
    ) -> Result<Vec<Done>, Failure> {
        let good: Vec<&Manifest> = batch.iter().filter(|manifest| manifest.object.is_ok()).collect();
        let mut all = Vec::with_capacity(good.len());
        for wave in waves(good.iter().map(|manifest| &manifest.id), common.report_diff()).into_values() {
            let done: Vec<Option<Done>> = stream::iter(wave)
                .map(|at| self.one(common, good[at], before))
                .buffer_unordered(AT_ONCE)
                .collect()
                .await;
            if !self.gate.is_open() {
                return Err(Failure::Interrupted);
            }
            all.extend(done.into_iter().flatten());
        }
        Ok(all)
    }

    async fn one(&self, common: &Common<'_>, manifest: &Manifest, before: &Before) -> Option<Done> {
        // Told to stop: what is not begun is not begun.
        if !self.gate.is_open() {
            return None;
        }
        let object = manifest.object.as_ref().ok()?;
        let key = ObjectKey::of(&manifest.id);
        let work_exists = |name: &str| self.work_exists(name);
        let tools = Tools {
            objects: &self.objects,
            rules: &self.rules,
            work_exists: &work_exists,
            reserved: self.reserved,
        };
        let place = match leftovers::place(&self.kinds, &manifest.id) {
            Ok(place) => place,
            // Another Work has just found that it is not served any more.
            Err(error) => {
                let failure = ApplyFailure::UnknownKind { error };
                let lost = Manifest {
                    object: Err(failure),
                    ..manifest.clone()
                };
                return Some(Done::failed(&lost));
            }
        };
        let job = Job {
            id: &manifest.id,
            manifest: object,
            place,
            strategy: &common.strategy,
            owner: common.owner,
            generation: common.work.generation(),
            mirror: common.mirror,
            before: key.as_ref().and_then(|key| before.kept.get(key)),
            is_new: key.as_ref().is_some_and(|key| before.new.contains(key)),
            now: common.now,
        };
        let done = carry_out(tools, job).await;
        if let Some(key) = done.kept.key() {
            self.watches.noted(&key, done.version);
        }
        Some(done)
    }

    pub(super) fn keep(&self, common: &Common<'_>, held: &mut Held, all: Vec<Done>) {
        for done in all {
            if done.unserved {
                self.kinds.forget(&leftovers::gvk(&done.kept.id));
            }
            if let Some(hold) = &done.contested {
                let id = &done.kept.id;
                let event = WorkEvent::Contested {
                    object: leftovers::describe(id),
                    manager: hold.manager.clone().unwrap_or_else(|| "somebody".to_owned()),
                };
                self.announce(common.work, &event);
            }
            let at = usize::try_from(done.kept.id.ordinal).unwrap_or(usize::MAX);
            if let Some(kept) = held.kept.get_mut(at) {
                *kept = done.kept;
            }
        }
    }
}
