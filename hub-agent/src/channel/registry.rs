//! Who is connected to this replica, and who has to go.
//!
//! The InternalMemberCluster's annotation is what counts across replicas: whoever accepts a session writes it there
//! first, and every replica closes the session that it no longer names. This registry only finds the local one.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use fleet_api::{
    cluster::{InternalMemberCluster, MemberCluster},
    names::ClusterName,
};
use fleet_core::session::{
    epoch::{SessionId, Standing, standing, stored},
    hello::may_continue,
    identity::Caller,
};
use fleet_proto::convert::RejectCode;
use fleet_runtime::{
    Key,
    cache::Store,
    dump::{self, Dump, Section},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use super::{
    allowance::{Allowance, Allowances},
    close::Close,
};

/// A session of this replica, as others see it.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) id: SessionId,
    pub(crate) imc_uid: String,
    pub(crate) caller: Caller,
    pub(crate) cluster: ClusterName,
    /// What its MemberCluster may cost, over all its sessions.
    pub(crate) allowance: Arc<Allowance>,
    since: Instant,
    closing: watch::Sender<Option<Close>>,
    /// Its InternalMemberCluster has changed.
    pub(crate) changed: Notify,
}

impl Live {
    pub(crate) fn new(
        id: SessionId,
        imc_uid: String,
        caller: Caller,
        cluster: ClusterName,
        allowance: Arc<Allowance>,
    ) -> Self {
        Self {
            id,
            imc_uid,
            caller,
            cluster,
            allowance,
            since: Instant::now(),
            closing: watch::Sender::new(None),
            changed: Notify::new(),
        }
    }

    /// Asks the session to end. The first reason stays.
    pub(crate) fn close(&self, why: Close) {
        self.closing.send_if_modified(|closing| {
            let first = closing.is_none();
            if first {
                *closing = Some(why);
            }
            first
        });
    }

    pub(crate) fn closing(&self) -> watch::Receiver<Option<Close>> {
        self.closing.subscribe()
    }
}

/// The local sessions, by member.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry(Arc<Mutex<HashMap<String, Arc<Live>>>>);

impl Registry {
    /// Puts a session in. The older one of the same member ends, which two that were opened at once may not agree on.
    pub(crate) fn insert(&self, live: &Arc<Live>) {
        let mut sessions = self.0.lock();
        let place = sessions.entry(live.cluster.as_str().to_owned());
        let (older, newer) = match place {
            Entry::Vacant(place) => {
                place.insert(live.clone());
                return;
            }
            Entry::Occupied(place) if place.get().id.session > live.id.session => (live.clone(), place.get().clone()),
            Entry::Occupied(mut place) => (place.insert(live.clone()), live.clone()),
        };
        drop(sessions);
        older.close(superseded(&older.id, &newer.id));
    }

    /// Takes a session out, unless a newer one has taken its place.
    pub(crate) fn remove(&self, live: &Arc<Live>) {
        let mut sessions = self.0.lock();
        if sessions
            .get(live.cluster.as_str())
            .is_some_and(|other| Arc::ptr_eq(other, live))
        {
            sessions.remove(live.cluster.as_str());
        }
    }

    /// Lets people who debug see who is connected to this replica.
    pub(super) fn show_in(&self, dump: &Dump) {
        dump.add(Section::Sessions, "members", &self.0, |sessions, look| {
            let sessions = sessions.lock();
            look.list(sessions.iter(), |live| {
                dump::fields(json!({
                    "session": live.id.session,
                    "leaseTransitions": live.id.lease_transitions,
                    "seconds": dump::seconds(live.since.elapsed()),
                    "closing": live.closing.borrow().as_ref().map(|close| &close.message),
                }))
            })
        });
    }

    fn get(&self, member: &str) -> Option<Arc<Live>> {
        self.0.lock().get(member).cloned()
    }

    /// Ends the sessions that MemberClusters and InternalMemberClusters no longer allow. Never ends itself.
    pub(crate) async fn watch(
        self,
        members: Store<MemberCluster>,
        internals: Store<InternalMemberCluster>,
        allowances: Arc<Allowances>,
    ) {
        let (mut of_members, mut of_internals) = (members.subscribe(), internals.subscribe());
        loop {
            let name = tokio::select! {
                change = of_members.next() => change.key.name().to_owned(),
                change = of_internals.next() => change.key.name().to_owned(),
            };
            if members.get(&Key::cluster(name.as_str())).is_none() {
                allowances.forget(&name);
            }
            let Some(live) = self.get(&name) else { continue };
            match verdict(&live, &members, &internals) {
                Some(close) => live.close(close),
                None => live.changed.notify_one(),
            }
        }
    }
}

/// Whether a session has to end, as the stores stand now.
pub(crate) fn verdict(
    live: &Live,
    members: &Store<MemberCluster>,
    internals: &Store<InternalMemberCluster>,
) -> Option<Close> {
    let mc = members.get(&Key::cluster(live.cluster.as_str()));
    if mc.is_none() {
        return Some(Close::new(RejectCode::NotMember, "the MemberCluster is gone"));
    }
    if !may_continue(&live.caller, &live.cluster, mc.as_deref()) {
        return Some(Close::new(
            RejectCode::PermissionDenied,
            "the MemberCluster's spec.identity has changed",
        ));
    }
    let Some(imc) = internals.get(&imc_key(&live.cluster)) else {
        return Some(Close::new(RejectCode::NotMember, "the InternalMemberCluster is gone"));
    };
    // Opened again, the session gets its place in the new object, and the member reports everything to it.
    let again = |message| {
        Some(Close {
            retry_after: Duration::from_millis(100),
            ..Close::new(RejectCode::Unavailable, message)
        })
    };
    if imc.metadata.uid.as_deref() != Some(live.imc_uid.as_str()) {
        return again("the InternalMemberCluster was created anew");
    }
    let named = stored(&imc);
    if named.is_none() {
        return again("the InternalMemberCluster no longer names the session");
    }
    match standing(&live.id, named) {
        Standing::Current => None,
        Standing::Fenced(other) => Some(match other {
            Some(other) => superseded(&live.id, &other),
            None => Close::new(RejectCode::Superseded, "another session speaks for this member"),
        }),
    }
}

fn superseded(mine: &SessionId, other: &SessionId) -> Close {
    Close {
        // A process that reconnects supersedes itself; only a newer leader means "stop applying".
        fenced: (other.lease_transitions > mine.lease_transitions).then(|| other.clone()),
        ..Close::new(
            RejectCode::Superseded,
            format!("session {} speaks for this member now", other.session),
        )
    }
}

/// The key of a member's InternalMemberCluster.
pub(crate) fn imc_key(cluster: &ClusterName) -> Key {
    Key::namespaced(cluster.namespace(), cluster.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(session: u64) -> Arc<Live> {
        let id = SessionId {
            cluster_uid: "c".to_owned(),
            lease_transitions: 1,
            session,
        };
        let caller = Caller {
            user: "u".to_owned(),
            groups: vec![],
        };
        let cluster = ClusterName::new("a").unwrap();
        let rates = super::super::allowance::rates(&fleet_proto::convert::SessionLimits::default());
        let allowance = Arc::new(Allowance::new("a", "mc", rates, jiff::Timestamp::UNIX_EPOCH));
        Arc::new(Live::new(id, "imc".to_owned(), caller, cluster, allowance))
    }

    #[test]
    fn people_see_who_is_connected_and_no_credential() {
        let (registry, dump, live) = (Registry::default(), Dump::default(), live(7));
        registry.show_in(&dump);
        registry.insert(&live);
        live.close(Close::new(RejectCode::NotMember, "gone"));
        let all = dump.read("sessions", "").unwrap();
        let shown = &all["sessions"]["members"]["shown"][0];
        assert_eq!(
            (&shown["name"], &shown["session"], &shown["closing"]),
            (&"a".into(), &7.into(), &"gone".into())
        );
        assert!(shown.get("caller").is_none());
    }

    #[test]
    fn of_two_sessions_the_older_ends_in_whichever_order_they_come() {
        for (first, second) in [(1, 2), (2, 1)] {
            let (registry, first, second) = (Registry::default(), live(first), live(second));
            registry.insert(&first);
            registry.insert(&second);
            for session in [&first, &second] {
                let closed = session.closing().borrow().is_some();
                assert_eq!(closed, session.id.session == 1);
                registry.remove(session);
            }
            assert!(registry.get("a").is_none());
        }
    }
}
