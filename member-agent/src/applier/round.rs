//! A round over a Work: what it looks at, and what its phases share.

use std::collections::{BTreeSet, HashMap, HashSet};

use fleet_api::placement::{ApplyStrategy, ApplyStrategyType, ReportBackStrategyType};
use fleet_core::apply::{
    identify::{Manifest, ObjectKey},
    owners::Owner,
};
use jiff::Timestamp;

use super::{
    memory::{ManifestMemory, WorkMemory},
    owners,
    works::HubWork,
};

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RoundFailure {
    #[error(transparent)]
    Owner(#[from] owners::Error),
    #[error("the AppliedWork could not be read")]
    OwnerUnknown,
    #[error("the Work could not be read: {0}")]
    Work(String),
    #[error("manifest processing has been interrupted")]
    Interrupted,
    #[error("what the hub may have forgotten could not be kept: {0}")]
    NotKept(String),
}

/// What a round looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Extent {
    /// Everything.
    All,
    /// The manifests at these places.
    Some(BTreeSet<usize>),
}

/// What all manifests of a round share.
pub(super) struct Common<'a> {
    pub(super) work: &'a HubWork,
    /// The AppliedWork.
    pub(super) owner: Owner,
    pub(super) spec_digest: String,
    pub(super) strategy: ApplyStrategy,
    pub(super) mirror: bool,
    pub(super) now: Timestamp,
}

impl<'a> Common<'a> {
    pub(super) fn new(work: &'a HubWork, memory: &WorkMemory, now: Timestamp) -> Self {
        let back = work.spec.report_back_strategy.as_ref();
        Self {
            work,
            owner: Owner {
                name: work.name().to_owned(),
                uid: memory.ledger.owner_uid.clone(),
            },
            spec_digest: memory.version.spec_digest.clone(),
            strategy: work.spec.apply_strategy.clone().unwrap_or_default(),
            mirror: back.is_some_and(|strategy| strategy.type_ == ReportBackStrategyType::Mirror),
            now,
        }
    }

    /// Whether objects are only compared.
    pub(super) fn report_diff(&self) -> bool {
        self.strategy.type_ == ApplyStrategyType::ReportDiff
    }
}

/// What is known of objects before they are looked at.
#[derive(Default)]
pub(super) struct Before {
    pub(super) manifests: HashMap<ObjectKey, ManifestMemory>,
    /// Never written down before: most likely they do not exist.
    pub(super) new: HashSet<ObjectKey>,
}

impl Before {
    /// Takes what is known of all manifests, whose places may have changed since.
    pub(super) fn all(manifests: &mut Vec<ManifestMemory>) -> Self {
        Self::of(std::mem::take(manifests).into_iter())
    }

    /// What is known of these manifests.
    pub(super) fn some(manifests: &[ManifestMemory], batch: &[Manifest]) -> Self {
        Self::of(batch.iter().map(|manifest| manifests[place_of(manifest)].clone()))
    }

    fn of(known: impl Iterator<Item = ManifestMemory>) -> Self {
        let mut before = Self::default();
        for memory in known {
            if let Some(key) = memory.key() {
                // Of two manifests with one object only the first was carried out.
                before.manifests.entry(key).or_insert(memory);
            }
        }
        before
    }
}

/// Where a manifest stands in its Work.
pub(super) fn place_of(manifest: &Manifest) -> usize {
    usize::try_from(manifest.id.ordinal).unwrap_or_default()
}
