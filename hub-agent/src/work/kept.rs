//! Renderings that are kept for the next cluster on which the overrides do the same.
//!
//! Where an override names its cluster, no two clusters share one, and each has its own copy of what is patched. So all
//! of them together have a bound in bytes, above which the one that was used longest ago goes.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use fleet_core::work::Rendering;
use fleet_runtime::Key;
use parking_lot::Mutex;

/// What all renderings come to, beside the texts that they share with snapshots.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// What the identity of an object takes.
const OBJECT_BYTES: usize = 256;

/// Renderings by placement, and there by class. Those of an older snapshot are dropped with the first of a newer one.
#[derive(Default)]
pub(super) struct Kept(Mutex<All>);

#[derive(Default)]
struct All {
    placements: HashMap<Key, Placement>,
    bytes: usize,
    uses: u64,
    /// By when they were used last.
    order: BTreeMap<u64, (Key, Arc<str>)>,
}

#[derive(Default)]
struct Placement {
    snapshot: String,
    by_class: HashMap<Arc<str>, Entry>,
}

struct Entry {
    rendering: Arc<Rendering>,
    bytes: usize,
    used: u64,
}

impl Kept {
    pub(super) fn get(&self, placement: &Key, snapshot: &str, class: &str) -> Option<Arc<Rendering>> {
        let mut guard = self.0.lock();
        let all = &mut *guard;
        let known = all.placements.get_mut(placement);
        let entry = known
            .filter(|known| known.snapshot == snapshot)?
            .by_class
            .get_mut(class)?;
        all.uses += 1;
        let place = all.order.remove(&entry.used)?;
        entry.used = all.uses;
        all.order.insert(all.uses, place);
        Some(entry.rendering.clone())
    }

    pub(super) fn insert(&self, placement: &Key, snapshot: &str, class: String, rendering: &Arc<Rendering>) {
        let objects: usize = rendering.pieces.iter().map(|piece| piece.objects.len()).sum();
        let bytes = rendering.patched_bytes + class.len() + (objects + 1) * OBJECT_BYTES;
        let mut guard = self.0.lock();
        let all = &mut *guard;
        if all
            .placements
            .get(placement)
            .is_some_and(|known| known.snapshot != snapshot)
        {
            all.forget(placement);
        }
        let class: Arc<str> = class.into();
        all.drop_one(placement, &class);
        if bytes > BYTES_MAX {
            return;
        }
        while all.bytes + bytes > BYTES_MAX
            && let Some((_, (placement, class))) = all.order.pop_first()
        {
            all.drop_one(&placement, &class);
        }
        all.uses += 1;
        all.bytes += bytes;
        all.order.insert(all.uses, (placement.clone(), class.clone()));
        let entry = Entry {
            rendering: rendering.clone(),
            bytes,
            used: all.uses,
        };
        let known = all.placements.entry(placement.clone()).or_default();
        snapshot.clone_into(&mut known.snapshot);
        known.by_class.insert(class, entry);
    }

    /// Forgets a placement that is gone.
    pub(super) fn forget(&self, placement: &Key) {
        self.0.lock().forget(placement);
    }
}

impl All {
    fn forget(&mut self, placement: &Key) {
        for entry in self
            .placements
            .remove(placement)
            .into_iter()
            .flat_map(|known| known.by_class.into_values())
        {
            self.bytes -= entry.bytes;
            self.order.remove(&entry.used);
        }
    }

    fn drop_one(&mut self, placement: &Key, class: &str) {
        let Some(known) = self.placements.get_mut(placement) else {
            return;
        };
        if let Some(entry) = known.by_class.remove(class) {
            self.bytes -= entry.bytes;
            self.order.remove(&entry.used);
        }
        if known.by_class.is_empty() {
            self.placements.remove(placement);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendering(patched_bytes: usize) -> Arc<Rendering> {
        let pieces = Vec::new();
        Arc::new(Rendering { pieces, patched_bytes })
    }

    fn holds(kept: &Kept) -> (usize, usize) {
        let all = kept.0.lock();
        let count = all.placements.values().map(|known| known.by_class.len()).sum();
        assert_eq!(count, all.order.len());
        (count, all.bytes)
    }

    #[test]
    fn clusters_that_all_get_something_else_stay_within_the_bound() {
        let kept = Kept::default();
        let (shared, web) = (Key::cluster("shared"), Key::namespaced("team", "web"));
        kept.insert(&shared, "s", "all".into(), &rendering(0));
        for i in 0..100 {
            kept.insert(&web, "s", format!("cluster {i}"), &rendering(1024 * 1024));
            assert!(kept.get(&shared, "s", "all").is_some(), "in use, so it stays");
        }
        let (count, bytes) = holds(&kept);
        assert!(count == 16 && bytes <= BYTES_MAX, "{count} with {bytes} bytes");
        assert!(kept.get(&web, "s", "cluster 99").is_some() && kept.get(&web, "s", "cluster 0").is_none());
        kept.insert(&web, "s", "large".into(), &rendering(BYTES_MAX));
        assert!(kept.get(&web, "s", "large").is_none());
        kept.insert(&web, "s", "cluster 99".into(), &rendering(0));
        kept.insert(&web, "s2", "cluster 1".into(), &rendering(0));
        assert!(kept.get(&web, "s", "cluster 99").is_none() && kept.get(&web, "s2", "cluster 1").is_some());
        kept.forget(&web);
        kept.forget(&shared);
        assert_eq!(holds(&kept), (0, 0));
    }
}
