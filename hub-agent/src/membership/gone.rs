//! A member namespace whose MemberCluster is gone although our finalizer never ran (somebody took it off by hand):
//! nothing is recreated, the owner reference removes the namespace, and Works that hold it up are released in time.

use fleet_api::names::ClusterName;
use fleet_core::membership::leave::{Action, orphaned_namespace};
use fleet_runtime::{Key, queue::Next};
use jiff::SignedDuration;

use super::{Error, Membership, works};

pub(super) async fn pass(ctx: &Membership, key: &Key) -> Result<Next, Error> {
    let Ok(cluster) = ClusterName::new(key.name()) else {
        return Ok(Next::Wait);
    };
    let name = cluster.namespace();
    let Some(namespace) = ctx.caches.namespaces.get(&Key::cluster(name.clone())) else {
        return Ok(Next::Wait);
    };
    let going = namespace.metadata.deletion_timestamp.as_ref();
    let put_forward = going.map_or(SignedDuration::ZERO, |going| ctx.clock.put_forward_since(going.0));
    let wait = ctx.settings.force_delete_wait.saturating_add(put_forward);
    let Some(plan) = orphaned_namespace(&namespace, wait, ctx.now()) else {
        return Ok(Next::Wait);
    };
    if let Action::AwaitNamespace { strip_works: true, .. } = plan.action {
        works::release_all(ctx, key, &name).await?;
    }
    Ok(ctx.next(plan.look_again))
}
