//! What selection may look at, taken at one moment.

use std::collections::BTreeMap;

use fleet_core::selection::{Hub, KindInfo, Object};

use super::kinds::Gvk;

#[derive(Debug, Default)]
pub(crate) struct View {
    pub(super) kinds: BTreeMap<Gvk, KindInfo>,
    pub(super) namespaced: Vec<Gvk>,
    pub(super) objects: BTreeMap<Gvk, Vec<Object>>,
    /// Kinds that are left out of namespaces because the hub does not list them, and what it says.
    pub(super) left_out: Vec<String>,
}

impl View {
    /// Kinds of namespaced objects that nothing is known of now.
    pub(super) fn wait_for(&mut self, unheard: impl Iterator<Item = Gvk>) {
        for gvk in unheard {
            let info = KindInfo {
                plural: format!("{}s", gvk.kind.to_lowercase()),
                cluster_scoped: false,
                synced: false,
            };
            if self.kinds.insert(gvk.clone(), info).is_none() {
                self.namespaced.push(gvk);
            }
        }
    }

    /// What is left out, in words.
    pub(crate) fn left_out(&self) -> Option<String> {
        (!self.left_out.is_empty()).then(|| format!("nothing is selected of {}", self.left_out.join("; ")))
    }
}

impl Hub for View {
    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<KindInfo> {
        self.kinds.get(&Gvk::new(group, version, kind)).cloned()
    }

    fn objects(&self, group: &str, version: &str, kind: &str, namespace: Option<&str>) -> Vec<&Object> {
        let objects = self.objects.get(&Gvk::new(group, version, kind));
        let inside = |object: &&Object| namespace.is_none_or(|namespace| object.id.namespace == namespace);
        objects.into_iter().flatten().filter(inside).collect()
    }

    fn namespaced_kinds(&self) -> Vec<(String, String, String)> {
        let parts = |gvk: &Gvk| (gvk.group.clone(), gvk.version.clone(), gvk.kind.clone());
        self.namespaced.iter().map(parts).collect()
    }
}
