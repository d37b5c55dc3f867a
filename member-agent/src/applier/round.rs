//! One round over a Work: write ahead, apply wave by wave, remove leftovers, report.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};

use fleet_api::{
    conditions::manifest::ApplyFailure,
    placement::{ApplyStrategy, ApplyStrategyType, ReportBackStrategyType},
};
use fleet_core::apply::{
    identify::{Manifest, ObjectKey, decode, waiting_for_own_crds},
    inventory::Attempt,
    owners::Owner,
};
use fleet_proto::convert::WorkRef;
use fleet_runtime::queue::Next;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::core::ApiResource;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    Applying, Failure,
    held::{Held, Kept},
    kinds::Gvk,
    leftovers,
    works::Seen,
};

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
pub(super) struct Common<'a> {
    pub(super) work: &'a Seen,
    pub(super) owner: &'a Owner,
    pub(super) strategy: ApplyStrategy,
    pub(super) mirror: bool,
    pub(super) now: Timestamp,
}

/// What is known of objects before they are looked at.
#[derive(Default)]
pub(super) struct Before {
    pub(super) kept: HashMap<ObjectKey, Kept>,
    /// Never written down before: most likely they do not exist.
    pub(super) new: HashSet<ObjectKey>,
}

impl Common<'_> {
    pub(super) fn report_diff(&self) -> bool {
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
        let mut before = Before::default();
        if full {
            for kept in std::mem::take(&mut held.kept) {
                if let Some(key) = kept.key() {
                    before.kept.entry(key).or_insert(kept);
                }
            }
            held.kept = batch.iter().map(Kept::failed).collect();
            self.write_ahead(&common, held, &batch, &mut before).await?;
        } else {
            for manifest in &batch {
                let kept = &held.kept[place_of(manifest)];
                if let Some(key) = kept.key() {
                    before.kept.entry(key).or_insert_with(|| kept.clone());
                }
            }
        }
        let done = self.announced(&common, &batch, &before, full).await?;
        self.keep(&common, held, done);
        if full {
            let late = waiting_for_own_crds(&batch);
            if !late.is_empty() && self.own_kinds(work, &mut batch, &late).await {
                self.write_ahead(&common, held, &batch, &mut before).await?;
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
    async fn write_ahead(
        &self,
        common: &Common<'_>,
        held: &mut Held,
        batch: &[Manifest],
        before: &mut Before,
    ) -> Result<(), Failure> {
        let work = common.work;
        let attempt = Attempt {
            work_uid: work.uid().to_owned(),
            generation: work.generation(),
            spec_digest: held.spec_digest.clone(),
        };
        let keys = batch.iter().filter_map(|manifest| ObjectKey::of(&manifest.id));
        let new = keys.filter(|key| !held.inventory.entries.contains_key(key));
        before.new.extend(new);
        if held.inventory.intend(&attempt, batch) {
            // What is stored of appliedResources stays as it is; naming some of them again does no harm.
            let listed = |key: &ObjectKey| before.kept.get(key).is_some_and(|kept| kept.verdict.is_applied());
            let status = json!({"inventory": held.inventory.to_store(listed)});
            self.owners.write(work.name(), &common.owner.uid, &status).await?;
            held.written.clear();
        }
        self.kinds
            .learn(held.inventory.entries.values().map(leftovers::gvk))
            .await;
        let mine = held.inventory.entries.iter().filter_map(|(key, id)| {
            let kind = self.kinds.find(&leftovers::gvk(id)).ok()?;
            Some((kind.resource, key.clone()))
        });
        let objects = mine.chain(namespaces_of(batch)).collect();
        let unknown = batch
            .iter()
            .any(|manifest| matches!(manifest.object, Err(ApplyFailure::UnknownKind { .. })));
        let definitions = ApiResource::erase::<CustomResourceDefinition>(&());
        let whole = if unknown { vec![definitions] } else { Vec::new() };
        self.watches.follow(work.name(), objects, &whole).await;
        Ok(())
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
