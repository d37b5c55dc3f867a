//! MemberCluster status: judged and written in one place.

use fleet_api::{cluster::InternalMemberCluster, events::MemberClusterEvent, names::Scope, patch};
use fleet_core::membership::{heartbeat, status::judge};
use fleet_runtime::Key;
use jiff::Timestamp;

use super::{Error, Membership};
use crate::writer::{Part, record};

/// Writes what the MemberCluster should say, if it says anything else. Returns when that changes by time alone.
///
/// `imc` is what was there when the pass began: an InternalMemberCluster made by this very pass has said nothing yet.
pub(super) async fn write(
    ctx: &Membership,
    key: &Key,
    imc: Option<&InternalMemberCluster>,
    not_ready: Option<&str>,
) -> Result<Option<Timestamp>, Error> {
    let previous = ctx.seen.lock().get(key).and_then(|seen| seen.internal.clone());
    let (mut look_again, mut events) = (None, Vec::new());
    let wrote = ctx
        .writer
        .try_patch(&ctx.caches.members, key, key, Part::Status, |mc| {
            let judged = judge(
                mc,
                imc,
                previous.as_deref(),
                not_ready,
                &ctx.settings.status(ctx.clock.put_forward_since(heartbeat::last_of(mc))),
                ctx.now(),
            );
            look_again = judged.look_again;
            events = judged.events;
            let before = mc.status.clone().unwrap_or_default();
            patch::between_statuses(&before, &judged.status)
        })
        .await?;
    if let Some(uid) = imc.and_then(|imc| imc.metadata.uid.clone()) {
        ctx.remember(key, |seen| seen.internal = Some(uid));
    }
    if let Some(mc) = wrote {
        for event in events {
            match event {
                MemberClusterEvent::Joined => ctx.results.count_joined(),
                MemberClusterEvent::Left => ctx.results.count_left(),
                _ => {}
            }
            tracing::info!(member = %key, event = ?event, "Member cluster changed");
            record(&ctx.events, Scope::Cluster, &*mc, &event);
        }
    }
    Ok(look_again)
}
