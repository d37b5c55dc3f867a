//! What the roll-up keeps of each placement between two looks, so that a binding's change costs one entry.

use std::{collections::HashMap, sync::Arc};

use fleet_api::placement::{BindingStatus, ResourceIdentifier, Scope};
use fleet_core::{
    rollup::{Origin, Pace, Rollup},
    selection::ObjectId,
};
use fleet_runtime::Key;
use kube::core::object::HasSpec as _;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::pipeline::Pipeline;

/// What the roll-up remembers of each placement.
pub(crate) struct RollupMemory<S: Scope> {
    placements: Mutex<HashMap<Key, Arc<Mutex<Remembered<S>>>>>,
    /// Times are counted from here.
    pub(super) began: Instant,
}

/// What is remembered of one placement.
pub(super) struct Remembered<S: Scope> {
    pub(super) pace: Pace,
    pub(super) rollup: Rollup<BindingVersion<S>>,
    pub(super) content: GroupContent<S>,
    stored: Option<(Arc<S::Placement>, Origin)>,
}

/// One version of a binding, with what it is about to say. What is kept alive here cannot be mistaken for another.
pub(super) struct BindingVersion<S: Scope> {
    pub(super) binding: Arc<S::Binding>,
    pub(super) ahead: Option<Arc<BindingStatus>>,
    /// The index of the snapshot that it names.
    pub(super) index: String,
}

/// What a group of snapshots holds. They never change, so it is read once.
pub(super) struct GroupContent<S: Scope> {
    group: Vec<Arc<S::ResourceSnapshot>>,
    list: Vec<ResourceIdentifier>,
}

impl<S: Scope> RollupMemory<S> {
    pub(super) fn of(&self, placement: &Key) -> Arc<Mutex<Remembered<S>>> {
        self.placements.lock().entry(placement.clone()).or_default().clone()
    }

    /// The placement is gone.
    pub(super) fn forget(&self, placement: &Key) {
        self.placements.lock().remove(placement);
    }
}

impl<S: Scope> Remembered<S> {
    /// Where the status that the placement has comes from, seen from the last look.
    pub(super) fn origin(&self, placement: &S::Placement) -> Origin {
        match &self.stored {
            Some((known, origin)) if std::ptr::eq(Arc::as_ptr(known), placement) => *origin,
            _ => Origin::Other,
        }
    }

    /// A look at this placement was taken; none if it may be another one by now.
    pub(super) fn looked(&mut self, placement: Option<Arc<S::Placement>>) {
        self.stored = placement.map(|placement| (placement, Origin::Same));
    }

    /// What the last look gave was written, and this was the answer.
    pub(super) fn wrote(&mut self, placement: Arc<S::Placement>) {
        self.stored = Some((placement, Origin::Ours));
    }
}

impl<S: Scope> GroupContent<S> {
    /// What the group with this index holds, in order.
    pub(super) fn of(&mut self, ctx: &Pipeline<S>, placement: &Key, index: &str) -> &[ResourceIdentifier] {
        let group = ctx.group(placement, index);
        let known = self.group.len() == group.len() && self.group.iter().zip(&group).all(|(a, b)| Arc::ptr_eq(a, b));
        if !known {
            self.list = identifiers::<S>(&group);
            self.group = group;
        }
        &self.list
    }
}

/// What a group of snapshots holds, in order.
pub(super) fn identifiers<S: Scope>(group: &[Arc<S::ResourceSnapshot>]) -> Vec<ResourceIdentifier> {
    let texts = group.iter().flat_map(|snapshot| &snapshot.spec().selected_resources);
    let objects = texts.filter_map(|text| ObjectId::of(text).ok());
    objects.map(|object| object.to_identifier()).collect()
}

impl<S: Scope> PartialEq for BindingVersion<S> {
    fn eq(&self, other: &Self) -> bool {
        let ahead = match (&self.ahead, &other.ahead) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        ahead && Arc::ptr_eq(&self.binding, &other.binding) && self.index == other.index
    }
}

impl<S: Scope> Clone for BindingVersion<S> {
    fn clone(&self) -> Self {
        Self {
            binding: self.binding.clone(),
            ahead: self.ahead.clone(),
            index: self.index.clone(),
        }
    }
}

impl<S: Scope> Default for RollupMemory<S> {
    fn default() -> Self {
        Self {
            placements: Mutex::default(),
            began: Instant::now(),
        }
    }
}

impl<S: Scope> Default for Remembered<S> {
    fn default() -> Self {
        Self {
            pace: Pace::default(),
            rollup: Rollup::default(),
            content: GroupContent::default(),
            stored: None,
        }
    }
}

impl<S: Scope> Default for GroupContent<S> {
    fn default() -> Self {
        Self {
            group: Vec::new(),
            list: Vec::new(),
        }
    }
}
