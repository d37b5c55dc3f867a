//! One round over a Work: write ahead, apply wave by wave, remove leftovers, report.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use fleet_api::{
    conditions::{self, manifest::ApplyFailure, work as words},
    events::WorkEvent,
    placement::{ApplyStrategy, ApplyStrategyType, ReportBackStrategyType, WorkStatus},
};
use fleet_core::{
    apply::{
        identify::{Manifest, ObjectKey, decode, waiting_for_own_crds},
        inventory::{self, Attempt, State},
        owners::Owner,
        status::{ManifestReport, Round, status},
        waves::waves,
    },
    session::seen::Subject,
};
use fleet_proto::convert::{MemberMessage, WorkRef};
use fleet_runtime::queue::Next;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::core::ApiResource;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    Applying, Failure,
    held::{Held, Kept},
    kinds::Gvk,
    leftovers,
    manifest::{Done, Job, Tools, carry_out},
    objects::Place,
    owners, report,
    works::Seen,
};

/// Manifests of one Work at the same time.
const AT_ONCE: usize = 8;
/// A round that takes longer says that it has begun.
const PREPARING_AFTER: Duration = Duration::from_secs(1);
/// How long the kinds that a Work itself defines are waited for.
const OWN_CRDS_MAX: Duration = Duration::from_secs(5);

/// What a round looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everything.
    All,
    /// The manifests at these places.
    Some(BTreeSet<usize>),
}

/// What all manifests of a round share.
struct Common<'a> {
    work: &'a Seen,
    owner: &'a Owner,
    strategy: ApplyStrategy,
    mirror: bool,
    now: Timestamp,
}

impl Common<'_> {
    fn report_diff(&self) -> bool {
        self.strategy.type_ == ApplyStrategyType::ReportDiff
    }
}

impl Applying {
    /// Does a round, and says when to do the next.
    pub(super) async fn round(
        &self,
        work: &Seen,
        held: &mut Held,
        owner: &Owner,
        scope: Scope,
    ) -> Result<Next, Failure> {
        let strategy = work.spec.report_back_strategy.as_ref();
        let common = Common {
            work,
            owner,
            strategy: work.spec.apply_strategy.clone().unwrap_or_default(),
            mirror: strategy.is_some_and(|strategy| strategy.type_ == ReportBackStrategyType::Mirror),
            now: self.clock.now(),
        };
        let full = scope == Scope::All;
        let mut batch = self.decoded(work, &scope).await;
        let mut before: HashMap<ObjectKey, Kept> = HashMap::new();
        if full {
            for kept in std::mem::take(&mut held.kept) {
                if let Some(key) = kept.key() {
                    before.entry(key).or_insert(kept);
                }
            }
            held.kept = batch.iter().map(Kept::failed).collect();
            self.write_ahead(&common, held, &batch).await?;
        } else {
            for manifest in &batch {
                let kept = &held.kept[place_of(manifest)];
                if let Some(key) = kept.key() {
                    before.entry(key).or_insert_with(|| kept.clone());
                }
            }
        }
        let done = self.announced(&common, &batch, &before, full).await?;
        self.keep(&common, held, done);
        if full {
            let late = waiting_for_own_crds(&batch);
            if !late.is_empty() && self.own_kinds(work, &mut batch, &late).await {
                self.write_ahead(&common, held, &batch).await?;
                let ready: Vec<Manifest> = late.iter().map(|at| batch[*at].clone()).collect();
                let done = self.waves(&common, &ready, &before).await?;
                self.keep(&common, held, done);
            }
        }
        // What is of no use without its manifest: say why it failed.
        for manifest in batch.iter().filter(|manifest| manifest.object.is_err()) {
            held.kept[place_of(manifest)] = Kept::failed(manifest);
        }
        if full {
            held.full_at = Some(Instant::now());
        }
        self.conclude(&common, held).await
    }

    /// The manifests in question, decoded.
    async fn decoded(&self, work: &Seen, scope: &Scope) -> Vec<Manifest> {
        let raw = &work.spec.workload.manifests;
        let resource_of = |group: &str, version: &str, kind: &str| {
            let gvk = Gvk {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: kind.to_owned(),
            };
            self.kinds.find(&gvk).map(|kind| kind.resource.plural)
        };
        match scope {
            Scope::All => {
                self.kinds.learn(raw.iter().filter_map(Gvk::of)).await;
                decode(raw, resource_of)
            }
            Scope::Some(places) => {
                let some = places.iter().filter_map(|at| Some((*at, raw.get(*at)?)));
                self.kinds.learn(some.clone().filter_map(|(_, raw)| Gvk::of(raw))).await;
                some.flat_map(|(at, raw)| {
                    let mut one = decode(std::slice::from_ref(raw), resource_of);
                    for manifest in &mut one {
                        manifest.id.ordinal = i64::try_from(at).unwrap_or(i64::MAX);
                    }
                    one
                })
                .collect()
            }
        }
    }

    /// Writes down what may come to exist, and begins to watch it, before anything is changed.
    async fn write_ahead(&self, common: &Common<'_>, held: &mut Held, batch: &[Manifest]) -> Result<(), Failure> {
        let work = common.work;
        let attempt = Attempt {
            work_uid: work.uid().to_owned(),
            generation: work.generation(),
            spec_digest: held.spec_digest.clone(),
        };
        if let Some(next) = held.inventory.intend(&attempt, batch) {
            let status = json!({"inventory": next});
            self.owners.write(work.name(), &common.owner.uid, &status).await?;
            held.inventory = next;
            held.written.clear();
        }
        self.kinds
            .learn(held.inventory.entries.iter().map(leftovers::gvk))
            .await;
        let entries = held.inventory.entries.iter();
        let objects = entries.filter_map(|entry| {
            let kind = self.kinds.find(&leftovers::gvk(entry)).ok()?;
            Some((kind.resource, ObjectKey::of(&entry.id)?))
        });
        let objects = objects.collect();
        let unknown = batch
            .iter()
            .any(|manifest| matches!(manifest.object, Err(ApplyFailure::UnknownKind { .. })));
        let whole = if unknown { vec![definitions()] } else { Vec::new() };
        self.watches.follow(work.name(), objects, &whole).await;
        Ok(())
    }

    /// All waves; if they take long, the hub is told that they have begun.
    async fn announced(
        &self,
        common: &Common<'_>,
        batch: &[Manifest],
        before: &HashMap<ObjectKey, Kept>,
        full: bool,
    ) -> Result<Vec<Done>, Failure> {
        let waves = self.waves(common, batch, before);
        tokio::pin!(waves);
        tokio::select! {
            done = &mut waves => return done,
            () = sleep(PREPARING_AFTER), if full && !self.has_said(common.work) => {}
        }
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

    async fn waves(
        &self,
        common: &Common<'_>,
        batch: &[Manifest],
        before: &HashMap<ObjectKey, Kept>,
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

    async fn one(&self, common: &Common<'_>, manifest: &Manifest, before: &HashMap<ObjectKey, Kept>) -> Option<Done> {
        // Told to stop: what is not begun is not begun.
        if !self.gate.is_open() {
            return None;
        }
        let object = manifest.object.as_ref().ok()?;
        let gvk = Gvk {
            group: manifest.id.group.clone(),
            version: manifest.id.version.clone(),
            kind: manifest.id.kind.clone(),
        };
        let work_exists = |name: &str| self.work_exists(name);
        let tools = Tools {
            objects: &self.objects,
            rules: &self.rules,
            work_exists: &work_exists,
        };
        let job = Job {
            id: &manifest.id,
            manifest: object,
            place: Place {
                kind: self.kinds.find(&gvk).ok()?,
                namespace: manifest.id.namespace.clone(),
                name: manifest.id.name.clone(),
            },
            strategy: &common.strategy,
            owner: common.owner,
            generation: common.work.generation(),
            mirror: common.mirror,
            before: ObjectKey::of(&manifest.id).and_then(|key| before.get(&key)),
            now: common.now,
        };
        let done = carry_out(tools, job).await;
        if let Some(key) = done.kept.key() {
            self.watches.noted(&key, done.version);
        }
        Some(done)
    }

    fn keep(&self, common: &Common<'_>, held: &mut Held, all: Vec<Done>) {
        for done in all {
            if done.unserved {
                self.kinds.forget();
            }
            if let Some(hold) = &done.contested {
                let id = &done.kept.id;
                let event = WorkEvent::Contested {
                    object: format!("{} {}/{}", id.kind, id.namespace, id.name),
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

    /// Waits for the definitions that this Work itself brought, and decodes again what needs them.
    async fn own_kinds(&self, work: &Seen, batch: &mut [Manifest], late: &[usize]) -> bool {
        let began = Instant::now();
        let raw = &work.spec.workload.manifests;
        let wanted: Vec<Gvk> = late.iter().filter_map(|at| Gvk::of(&raw[*at])).collect();
        let mut pause = Duration::from_millis(50);
        loop {
            self.kinds.learn(wanted.iter().cloned()).await;
            if wanted.iter().all(|gvk| self.kinds.find(gvk).is_ok()) || began.elapsed() > OWN_CRDS_MAX {
                break;
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
        let places: BTreeSet<usize> = late.iter().copied().collect();
        let mut found = false;
        for manifest in self.decoded(work, &Scope::Some(places)).await {
            found |= manifest.object.is_ok();
            let at = place_of(&manifest);
            batch[at] = manifest;
        }
        found
    }

    /// Leftovers, status, report, and when to come back.
    async fn conclude(&self, common: &Common<'_>, held: &mut Held) -> Result<Next, Failure> {
        let work = common.work;
        own(held);
        let left = self.leftovers(common, held).await;
        let left = (!left.is_empty()).then(|| left.join("; "));
        let reports: Vec<ManifestReport> = held.kept.iter().map(Kept::report).collect();
        let round = Round {
            generation: work.generation(),
            report_diff: common.report_diff(),
            mirror: common.mirror,
            degraded_counts: false,
            leftovers: left.as_deref(),
            now: common.now,
        };
        // Times are the hub's to keep, so nothing of an older status is needed.
        let status = status(&WorkStatus::default(), &reports, &round);
        self.measures.round(&status);
        self.say(work, &status, &reports, common.now);
        self.write_result(work, held, common.owner, &reports).await?;
        Ok(self.next(work, held, &status, left.is_some()))
    }

    async fn leftovers(&self, common: &Common<'_>, held: &mut Held) -> Vec<String> {
        if common.report_diff() {
            return Vec::new();
        }
        let manifests: Vec<Manifest> = held.kept.iter().map(Kept::outline_manifest).collect();
        let current: BTreeSet<String> = held
            .kept
            .iter()
            .filter_map(|kept| kept.owned.as_deref().map(str::to_owned))
            .collect();
        let failures = leftovers::remove(
            &self.objects,
            &self.kinds,
            common.owner,
            &mut held.inventory,
            &manifests,
            &current,
        )
        .await;
        let mut texts = Vec::new();
        for (object, error) in failures {
            texts.push(format!("{object} could not be removed: {error}"));
            self.announce(common.work, &WorkEvent::LeftoverNotRemoved { object, error });
        }
        texts
    }

    async fn write_result(
        &self,
        work: &Seen,
        held: &mut Held,
        owner: &Owner,
        reports: &[ManifestReport],
    ) -> Result<(), Failure> {
        let status = owners::status(&held.inventory, &inventory::applied_resources(reports));
        let digest = report::digest_of(&status.to_string());
        if held.written != digest {
            self.owners.write(work.name(), &owner.uid, &status).await?;
            held.written = digest;
        }
        Ok(())
    }

    fn next(&self, work: &Seen, held: &mut Held, status: &WorkStatus, left: bool) -> Next {
        let reason = |list: &[_], names: [&str; 2]| {
            let found = names.iter().find_map(|name| conditions::find(list, name));
            found.map(|condition| condition.reason.clone()).unwrap_or_default()
        };
        let results = status.manifest_conditions.iter().map(|entry| {
            let result = reason(&entry.conditions, ["Applied", "DiffReported"]);
            (result, reason(&entry.conditions, ["Available", "Available"]))
        });
        let is = |name| conditions::is_true(&status.conditions, name, work.generation());
        let good = is(words::Available::TYPE) || is(words::DiffReported::TYPE);
        let mut delay = held
            .quiet
            .next(&self.delays, work.generation(), results.collect(), good && !left);
        if good && !left && self.watches.sees_all_of(work.name()) {
            // Nothing changes unseen, so there is nothing to look for in a hurry.
            delay = jiff::SignedDuration::from_secs_f64(self.delays.fast_max_secs);
        }
        let now = self.clock.now();
        let held_until = held.kept.iter().filter_map(|kept| kept.until).min();
        let delay = held_until.map_or(delay, |until| delay.min(until.duration_since(now)));
        let due = Instant::now() + Duration::try_from(delay).unwrap_or_default();
        held.due = Some(due);
        Next::At(due)
    }
}

/// Notes in the inventory what is ours now.
fn own(held: &mut Held) {
    let mine: HashMap<ObjectKey, &str> = held
        .kept
        .iter()
        .filter_map(|kept| Some((kept.key()?, kept.owned.as_deref()?)))
        .collect();
    for entry in &mut held.inventory.entries {
        if let Some(uid) = ObjectKey::of(&entry.id).and_then(|key| mine.get(&key).copied())
            && (entry.state != State::Owned || entry.uid != uid)
        {
            entry.state = State::Owned;
            uid.clone_into(&mut entry.uid);
        }
    }
}

fn place_of(manifest: &Manifest) -> usize {
    usize::try_from(manifest.id.ordinal).unwrap_or_default()
}

/// The Work as messages name it.
pub(super) fn reference(work: &Seen) -> WorkRef {
    WorkRef {
        name: work.name().to_owned(),
        uid: work.uid().to_owned(),
    }
}

fn definitions() -> ApiResource {
    ApiResource::erase::<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition>(
        &(),
    )
}
