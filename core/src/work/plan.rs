//! What has to be written so that a cluster's namespace holds the Works that its binding asks for.

use std::collections::{BTreeMap, BTreeSet};

use super::owner::Owner;
use super::render::{Piece, Rendering};
use super::wanted::{Patch, WantedWork, envelope_labels};
use super::{Existing, WorkFailure};
use crate::envelope;
use crate::selection::ObjectId;

/// What to write. First all creates, then the patches wave by wave, then the deletes.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Works to create.
    pub creates: Vec<WantedWork>,
    /// Works to change.
    pub patches: Vec<Patch>,
    /// Works to delete, once the writes above are answered.
    pub deletes: Vec<String>,
    /// Works to delete once the Works that take over their objects have been applied: each with those Works. An object
    /// that moves would otherwise vanish from the member for a moment.
    pub deletes_later: BTreeMap<String, Vec<String>>,
    /// What keeps single Works from being written now. The others are written all the same.
    pub failures: Vec<WorkFailure>,
}

impl Plan {
    /// Whether nothing has to be written, now or later.
    pub fn is_settled(&self) -> bool {
        self.creates.is_empty()
            && self.patches.is_empty()
            && self.deletes.is_empty()
            && self.deletes_later.is_empty()
            && self.failures.is_empty()
    }

    /// Whether the member has to act again because of this plan: then its word of before does not count.
    pub fn changes_content(&self) -> bool {
        !self.creates.is_empty() || !self.deletes.is_empty() || self.patches.iter().any(|p| p.manifests || p.strategy)
    }
}

/// What makes `existing` into what `rendering` wants. `existing` are the Works of this binding, and those in the
/// cluster's namespace that have one of the wanted names, whoever they belong to.
pub fn plan(owner: &Owner<'_>, rendering: &Rendering, existing: &[Existing]) -> Plan {
    let (own, others): (Vec<_>, Vec<_>) = existing.iter().partition(|work| work.belongs_to(owner));
    let mut plan = Plan::default();
    let mut kept = BTreeSet::new();
    let mut taken_over: BTreeMap<&ObjectId, String> = BTreeMap::new();
    for piece in &rendering.pieces {
        let found = match find(piece, &own) {
            Ok(found) => found,
            Err(failure) => {
                // None of them is deleted: only a person can tell which is the right one.
                let WorkFailure::DuplicateEnvelope { works, .. } = &failure else {
                    continue;
                };
                kept.extend(works.iter().cloned());
                plan.failures.push(failure);
                continue;
            }
        };
        let wanted = WantedWork::new(owner, piece, found.map(|work| work.name.clone()));
        kept.insert(wanted.name.clone());
        taken_over.extend(piece.objects.iter().map(|object| (object, wanted.name.clone())));
        match found {
            Some(work) if work.deleting => plan.failures.push(WorkFailure::Terminating { work: wanted.name }),
            Some(work) => plan.patches.extend(Patch::between(work, wanted)),
            None => match others.iter().find(|work| work.name == wanted.name) {
                Some(work) if work.deleting => plan.failures.push(WorkFailure::Terminating { work: wanted.name }),
                Some(work) => {
                    plan.failures.push(WorkFailure::NameTaken {
                        work: wanted.name,
                        owner: work.owner_text(),
                    });
                }
                None => plan.creates.push(wanted),
            },
        }
    }
    plan.order_patches(&own, &taken_over);
    for work in own.iter().filter(|work| !work.deleting && !kept.contains(&work.name)) {
        let successors: BTreeSet<_> = work.holds.iter().filter_map(|object| taken_over.get(object)).collect();
        let unsettled: Vec<String> = successors
            .into_iter()
            .filter(|name| !own.iter().any(|w| w.name == **name && w.answered) || plan.touches(name))
            .cloned()
            .collect();
        if unsettled.is_empty() {
            plan.deletes.push(work.name.clone());
        } else {
            plan.deletes_later.insert(work.name.clone(), unsettled);
        }
    }
    plan
}

impl Plan {
    /// Puts those who take an object over before those who give it away. Of two that swap, one has to be first.
    fn order_patches(&mut self, own: &[&Existing], taken_over: &BTreeMap<&ObjectId, String>) {
        let gives = |name: &str| -> BTreeSet<&str> {
            let holds = own.iter().filter(|work| work.name == name).flat_map(|work| &work.holds);
            let takers = holds.filter_map(|object| taken_over.get(object));
            takers.map(String::as_str).filter(|taker| *taker != name).collect()
        };
        let names: Vec<String> = self.patches.iter().map(|patch| patch.wanted.name.clone()).collect();
        let gives: BTreeMap<&str, BTreeSet<&str>> = names.iter().map(|name| (name.as_str(), gives(name))).collect();
        let mut waves = BTreeMap::new();
        for patch in &mut self.patches {
            patch.wave = wave(&patch.wanted.name, &gives, &mut waves);
        }
    }

    fn touches(&self, name: &str) -> bool {
        self.creates.iter().any(|wanted| wanted.name == name)
            || self
                .patches
                .iter()
                .any(|patch| patch.wanted.name == name && patch.manifests)
    }
}

/// One more than the latest of those who take something over from it.
fn wave<'a>(name: &str, gives: &BTreeMap<&'a str, BTreeSet<&'a str>>, known: &mut BTreeMap<&'a str, usize>) -> usize {
    let Some((name, takers)) = gives.get_key_value(name) else {
        return 0;
    };
    if let Some(wave) = known.get(name) {
        return *wave;
    }
    // Whoever comes back here on the way is in a circle.
    known.insert(*name, 0);
    let mut own = 0;
    for taker in takers.iter().filter(|taker| gives.contains_key(**taker)) {
        own = own.max(wave(taker, gives, known) + 1);
    }
    known.insert(*name, own);
    own
}

/// The existing Work for a piece: by name, for envelopes by label, since older releases gave them random names.
fn find<'a>(piece: &Piece, own: &[&'a Existing]) -> Result<Option<&'a Existing>, WorkFailure> {
    let Some((kind, object)) = &piece.envelope else {
        return Ok(own
            .iter()
            .find(|work| work.name == piece.name && !work.is_envelope())
            .copied());
    };
    let labels = envelope_labels(*kind, object);
    let found: Vec<_> = own
        .iter()
        .filter(|work| !work.deleting && labels.iter().all(|(k, v)| work.label(k) == Some(v)))
        .copied()
        .collect();
    match found.as_slice() {
        [] => Ok(own.iter().find(|work| work.name == piece.name).copied()),
        [one] => Ok(Some(one)),
        several => {
            let mut works: Vec<_> = several.iter().map(|work| work.name.clone()).collect();
            works.sort();
            Err(WorkFailure::DuplicateEnvelope {
                envelope: envelope::reference(object),
                works,
            })
        }
    }
}
