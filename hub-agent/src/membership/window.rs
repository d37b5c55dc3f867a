//! When a member may be changed, as its annotation says. One that cannot be read keeps every change away, so it is told to
//! whoever wrote it, long before a rollout meets it.

use fleet_api::{annotations, cluster::MemberCluster, events::MemberClusterEvent, names::Scope};
use fleet_core::window::Windows;
use fleet_runtime::Key;
use kube::ResourceExt as _;

use super::Membership;
use crate::writer::record;

/// The annotation.
pub(super) fn of(member: &MemberCluster) -> Option<&String> {
    member.annotations().get(annotations::WINDOW)
}

/// Tells once what is wrong with it.
pub(super) fn tell_unreadable(ctx: &Membership, key: &Key, member: &MemberCluster) {
    let wrong = of(member).and_then(|text| Windows::parse(text).err());
    let told = ctx.seen.lock().get(key).and_then(|seen| seen.window.clone());
    if wrong == told {
        return;
    }
    ctx.remember(key, |seen| seen.window.clone_from(&wrong));
    if let Some(why) = wrong {
        record(
            &ctx.events,
            Scope::Cluster,
            member,
            &MemberClusterEvent::WindowUnreadable { why },
        );
    }
}
