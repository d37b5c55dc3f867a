//! A hub that went back in time, because its etcd was restored from a backup: who it is noticed for is marked, and
//! nothing of theirs is deleted until somebody has said to go on.

use std::sync::Arc;

use fleet_api::{
    annotations::WENT_BACK_AT,
    cluster::{InternalMemberCluster, MemberCluster},
    events::MemberClusterEvent,
    names::{ClusterName, Scope},
};
use fleet_core::session::recovery::Recovery;
use fleet_runtime::{
    Key,
    cache::{Era, Store},
    clock::Clock,
    events::Recorder,
    logs,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;

use crate::{
    cache::in_namespace,
    writer::{Part, Writer, record},
};

/// When this process last noticed that the hub's versions went back.
#[derive(Clone, Default)]
pub(crate) struct Noticed(Arc<Mutex<Option<Timestamp>>>);

impl Noticed {
    /// Notes it, for ever.
    pub(crate) async fn follow(self, era: Era, clock: Clock) {
        let mut number = era.number();
        loop {
            number = era.over(number).await;
            *self.0.lock() = Some(whole(clock.now()));
        }
    }

    /// Marks every member that it is news for. Done by the leader, before it decides anything.
    pub(crate) async fn mark_all(
        &self,
        internals: &Store<InternalMemberCluster>,
        members: &Store<MemberCluster>,
        writer: &Writer,
        events: &Recorder,
        now: Timestamp,
    ) -> bool {
        let Some(at) = *self.0.lock() else { return true };
        let mut done = true;
        for imc in internals.all() {
            let recovery = Recovery::of(imc.metadata.annotations.as_ref());
            if recovery.covers(at, now) || recovery.went_back_at >= Some(at) {
                continue;
            }
            let key = Key::of(&*imc);
            let body = |_: &InternalMemberCluster| Some(annotation(at));
            match writer.patch(internals, &key, &key, Part::Object, body).await {
                Ok(_) => {
                    if let Some(mc) = members.get(&Key::cluster(key.name())) {
                        record_went_back(events, &mc, "its versions are lower than before");
                    }
                }
                Err(error) => {
                    tracing::warn!(member = key.name(), error = %logs::chain(&error), "Not marked");
                    done = false;
                }
            }
        }
        done
    }
}

/// The mark, as a patch.
fn annotation(at: Timestamp) -> serde_json::Value {
    json!({ "metadata": { "annotations": { WENT_BACK_AT: stamp(at) } } })
}

/// A time as annotations have it.
pub(crate) fn stamp(at: Timestamp) -> String {
    whole(at).to_string()
}

/// Says it where the owner of a member looks.
pub(crate) fn record_went_back(events: &Recorder, mc: &MemberCluster, why: &str) {
    let event = MemberClusterEvent::HubWentBack { why: why.to_owned() };
    record(events, Scope::Cluster, mc, &event);
}

/// Whether nothing of this member may be deleted.
pub(crate) fn is_held(internals: &Store<InternalMemberCluster>, cluster: &ClusterName, now: Timestamp) -> bool {
    let imc = internals.get(&in_namespace(&cluster.namespace(), cluster.as_str()));
    imc.is_some_and(|imc| Recovery::of(imc.metadata.annotations.as_ref()).is_held(now))
}

/// Times of annotations have whole seconds.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
