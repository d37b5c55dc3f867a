//! The manifests of a Work, decoded: which object each one names, and whether this cluster serves its kind.

use std::{collections::BTreeSet, time::Duration};

use fleet_api::conditions::manifest::ApplyFailure;
use fleet_core::apply::{
    clean::strip_finalizers,
    identify::{Manifest, Served, decode},
};
use tokio::time::{Instant, sleep};

use super::{
    member_api::{
        gvk,
        kinds::{Gvk, Kinds},
    },
    round::{Extent, place_of},
    works::HubWork,
};

/// How long the kinds that a Work itself defines are waited for.
const OWN_CRDS_MAX: Duration = Duration::from_secs(5);

/// Decodes manifests.
pub(super) struct Decoder {
    pub(super) kinds: Kinds,
    /// Whether objects get the finalizers that their manifests have.
    pub(super) keep_finalizers: bool,
}

impl Decoder {
    /// The manifests in question, decoded.
    pub(super) async fn decode(&self, work: &HubWork, extent: &Extent) -> Vec<Manifest> {
        let mut manifests = match extent {
            Extent::All => self.all(work).await,
            Extent::Some(places) => self.some(work, places).await,
        };
        let objects = manifests
            .iter_mut()
            .filter_map(|manifest| manifest.object.as_mut().ok());
        if !self.keep_finalizers {
            objects.for_each(strip_finalizers);
        }
        manifests
    }

    async fn all(&self, work: &HubWork) -> Vec<Manifest> {
        let (raw, within) = (&work.spec.workload.manifests, work.bounds());
        let served = |group: &str, version: &str, kind: &str| self.served(group, version, kind);
        self.kinds.learn(raw.iter().filter_map(Gvk::of)).await;
        let decoded = decode(raw, &within, served);
        let odd = decoded.iter().filter(|manifest| {
            let failure = manifest.object.as_ref().err();
            failure.is_some_and(ApplyFailure::is_about_scope)
        });
        let doubted: Vec<Gvk> = odd.map(|manifest| gvk(&manifest.id)).collect();
        if doubted.is_empty() {
            return decoded;
        }
        // The kind may have been defined anew, with another scope.
        self.kinds.learn_again(doubted).await;
        decode(raw, &within, served)
    }

    async fn some(&self, work: &HubWork, places: &BTreeSet<usize>) -> Vec<Manifest> {
        let (raw, within) = (&work.spec.workload.manifests, work.bounds());
        let served = |group: &str, version: &str, kind: &str| self.served(group, version, kind);
        let some = places.iter().filter_map(|at| Some((*at, raw.get(*at)?)));
        self.kinds.learn(some.clone().filter_map(|(_, raw)| Gvk::of(raw))).await;
        some.flat_map(|(at, raw)| {
            let mut one = decode(std::slice::from_ref(raw), &within, served);
            for manifest in &mut one {
                manifest.id.ordinal = i64::try_from(at).unwrap_or(i64::MAX);
            }
            one
        })
        .collect()
    }

    fn served(&self, group: &str, version: &str, kind: &str) -> Result<Served, String> {
        let gvk = Gvk {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        };
        self.kinds.find(&gvk).map(|kind| Served {
            resource: kind.resource.plural,
            namespaced: kind.namespaced,
        })
    }

    /// Waits for the definitions that this Work itself brought, and decodes again what needs them. Whether that helped.
    pub(super) async fn own_kinds(&self, work: &HubWork, batch: &mut [Manifest], late: &[usize]) -> bool {
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
        for manifest in self.decode(work, &Extent::Some(places)).await {
            found |= manifest.object.is_ok();
            let at = place_of(&manifest);
            batch[at] = manifest;
        }
        found
    }
}
