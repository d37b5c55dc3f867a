//! MemberCluster status: judged and written in one place.

use fleet_api::{cluster::InternalMemberCluster, events::MemberClusterEvent, patch};
use fleet_core::membership::status::judge;
use fleet_runtime::Key;
use jiff::Timestamp;
use serde_json::json;

use super::{Context, Error, tell};
use crate::writer::Part;

/// Writes what the MemberCluster should say, if it says anything else. Returns when that changes by time alone.
///
/// `imc` is what was there when the pass began: an InternalMemberCluster made by this very pass has said nothing yet.
pub(super) async fn write(
    ctx: &Context,
    key: &Key,
    imc: Option<&InternalMemberCluster>,
    not_ready: Option<&str>,
) -> Result<Option<Timestamp>, Error> {
    let previous = ctx.seen.lock().get(key).and_then(|seen| seen.internal.clone());
    let (mut look_again, mut events, mut failed) = (None, Vec::new(), None);
    let wrote = ctx
        .writer
        .patch(&ctx.caches.members, key, key, Part::Status, |mc| {
            let judged = judge(
                mc,
                imc,
                previous.as_deref(),
                not_ready,
                &ctx.settings.status(),
                ctx.now(),
            );
            look_again = judged.look_again;
            events = judged.events;
            let before = mc.status.clone().unwrap_or_default();
            match patch::between(&before, &judged.status) {
                Ok(patch) => patch.map(|status| json!({ "status": status })),
                Err(error) => {
                    failed = Some(error);
                    None
                }
            }
        })
        .await?;
    if let Some(error) = failed {
        return Err(Error::Compare(key.to_string(), error));
    }
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
            tell(&ctx.events, &*mc, &event);
        }
    }
    Ok(look_again)
}
