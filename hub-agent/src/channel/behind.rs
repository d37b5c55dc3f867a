//! Whether the hub is behind what a member says that it has applied.

use fleet_api::{names::ClusterName, placement::Work};
use fleet_core::session::digest::KnownWork;
use fleet_proto::convert::Hello;
use fleet_runtime::{Key, client::answered};
use kube::{Api, core::PartialObjectMeta};

use super::shared::Shared;
use crate::recovery;

/// Whether the member has applied a newer generation of one of its Works than the hub has: the hub went back in time. A
/// cache may be behind, so that is only believed of what the API server says now. And it is not believed of a member that
/// is to leave: what it claims would keep it.
pub(super) async fn is_behind(shared: &Shared, hello: &Hello, cluster: &ClusterName) -> bool {
    let mc = shared.deps.members.get(&Key::cluster(cluster.as_str()));
    if mc.is_none_or(|mc| mc.metadata.deletion_timestamp.is_some()) {
        return false;
    }
    let namespace = cluster.namespace();
    let Some(known) = suspect(shared, hello, namespace.clone()).await else {
        return false;
    };
    let api: Api<PartialObjectMeta<Work>> = Api::namespaced(shared.deps.client.clone(), &namespace);
    match answered(api.get_metadata(&known.name)).await {
        Ok(now) => {
            let back = now.metadata.uid.as_deref() == Some(&*known.uid)
                && now.metadata.generation.unwrap_or_default() < known.generation;
            if back {
                let (member, work) = (cluster.as_str(), &known.name);
                tracing::error!(
                    member,
                    work,
                    "The member has applied a newer Work: the hub went back in time"
                );
                if let Some(mc) = shared.deps.members.get(&Key::cluster(member)) {
                    let why = format!("the member cluster has applied a newer Work {work}");
                    recovery::record_went_back(&shared.deps.events, &mc, &why);
                }
            }
            back
        }
        Err(_) => false,
    }
}

/// A Work that the member knows newer than the cache does. Beside the other tasks and in turn: a member may name thousands.
async fn suspect(shared: &Shared, hello: &Hello, namespace: String) -> Option<KnownWork> {
    if hello.works.is_empty() {
        return None;
    }
    let (works, mut known) = (shared.deps.works.clone(), hello.works.clone());
    let compare = move || {
        let is_newer = |known: &KnownWork| {
            let work = works.get(&Key::namespaced(namespace.as_str(), known.name.as_str()));
            work.is_some_and(|work| {
                work.metadata.uid.as_deref() == Some(&*known.uid)
                    && work.metadata.generation.unwrap_or_default() < known.generation
            })
        };
        let at = known.iter().position(is_newer)?;
        Some(known.swap_remove(at))
    };
    let _turn = shared.comparisons.acquire().await.ok()?;
    tokio::task::spawn_blocking(compare).await.ok().flatten()
}
