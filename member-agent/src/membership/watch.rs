//! Reads this cluster's InternalMemberCluster from the hub.

use std::{sync::Arc, time::Duration};

use fleet_api::{cluster::InternalMemberCluster, guard::Guarded, names::ClusterName};
use fleet_runtime::{
    Key,
    backoff::Backoff,
    cache::{Era, Reason, Selection, State, Store, prune},
    health::Check,
};
use kube::{Api, Client};
use tokio::sync::watch::Sender;

use super::{Imc, KnownImc};
use crate::measures::Measures;

/// Before the MemberCluster exists the hub refuses us, and somebody waits for us to notice that it does.
const PATIENCE: Backoff = Backoff {
    min: Duration::from_millis(500),
    max: Duration::from_secs(5),
};

/// The store for the one InternalMemberCluster. Its status, which changes with each heartbeat, is not kept.
pub fn store() -> Store<InternalMemberCluster> {
    Store::<InternalMemberCluster>::builder("internalmemberclusters")
        .prune(|imc: &mut InternalMemberCluster| {
            prune(imc);
            imc.status = None;
        })
        .build()
}

/// Keeps the store like the hub, for ever.
pub async fn watch(store: Store<InternalMemberCluster>, hub: Client, era: Era, cluster: ClusterName) {
    let api: Api<Guarded<InternalMemberCluster>> = Api::namespaced(hub, &cluster.namespace());
    let selection = Selection {
        fields: Some(format!("metadata.name={cluster}")),
        backoff: PATIENCE,
        ..Selection::all(&era)
    };
    store
        .watch(api, selection, |guarded| guarded.0.map_err(|e| e.error))
        .await;
}

/// Publishes what the store has, and how the watch is doing, for ever.
pub async fn follow(
    store: Store<InternalMemberCluster>,
    cluster: ClusterName,
    seen: Sender<KnownImc>,
    check: Check,
    measures: Measures,
) {
    let key = Key::namespaced(cluster.namespace(), cluster.as_str());
    let (mut changes, mut state) = (store.subscribe(), store.state());
    loop {
        let new = match store.get(&key) {
            Some(object) => KnownImc::Present(Arc::new(Imc::from(&*object))),
            None if store.is_synced() => KnownImc::Absent,
            None => KnownImc::NotYet,
        };
        seen.send_if_modified(|known| {
            let differs = *known != new;
            if differs {
                log(known, &new, &cluster);
                *known = new;
            }
            differs
        });
        let doing = state.borrow_and_update().clone();
        measures.hub_watch(doing == State::Watching);
        match (reason(&doing, &cluster), &*seen.borrow()) {
            (Some(reason), _) => check.not_ready(reason),
            (None, KnownImc::NotYet) => check.not_ready("reading the InternalMemberCluster"),
            (None, KnownImc::Absent) => check.not_ready(format!("there is no MemberCluster {cluster} on the hub")),
            (None, KnownImc::Present(_)) => check.ready(),
        }
        tokio::select! {
            _ = changes.next() => {}
            Ok(()) = state.changed() => {}
            () = store.synced(), if matches!(*seen.borrow(), KnownImc::NotYet) => {}
        }
    }
}

fn reason(state: &State, cluster: &ClusterName) -> Option<String> {
    match state {
        State::Watching | State::Starting => None,
        State::Failing { reason, message } => Some(match reason {
            Reason::Forbidden => {
                format!("the hub refuses us: no MemberCluster {cluster} with our identity yet? ({message})")
            }
            Reason::NotFound => format!("the hub does not serve InternalMemberClusters ({message})"),
            Reason::Unauthorized => format!(
                "the hub does not accept our credential ({message}); if it has ended or was revoked, run `kubectl fleet \
                 join {cluster}` again"
            ),
            Reason::Unavailable => format!("the hub cannot be read ({message})"),
        }),
    }
}

fn log(before: &KnownImc, now: &KnownImc, cluster: &ClusterName) {
    match (before.imc(), now) {
        (None, KnownImc::Present(imc)) => {
            tracing::info!(member = %cluster, uid = imc.uid, state = ?imc.wanted, "Read the InternalMemberCluster");
        }
        (Some(old), KnownImc::Present(imc)) if old.uid != imc.uid => {
            tracing::info!(member = %cluster, uid = imc.uid, "The InternalMemberCluster is a new one");
        }
        (Some(_), KnownImc::Absent) => tracing::warn!(member = %cluster, "The InternalMemberCluster is gone"),
        (None, KnownImc::Absent) => tracing::info!(member = %cluster, "There is no MemberCluster on the hub yet"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use fleet_api::{cluster::ClusterState, kind::SpecKind};
    use fleet_runtime::{cache::Event, health::Health, metrics::Metrics};
    use kube::core::ObjectMeta;

    use super::*;
    use crate::membership::WantedState;

    fn imc(uid: &str, version: u64, state: ClusterState) -> InternalMemberCluster {
        let metadata = ObjectMeta {
            name: Some("east".into()),
            namespace: Some("fleet-member-east".into()),
            uid: Some(uid.into()),
            resource_version: Some(version.to_string()),
            generation: Some(1),
            ..ObjectMeta::default()
        };
        let mut imc =
            InternalMemberCluster::from_spec(metadata, fleet_api::cluster::InternalMemberClusterSpec::default());
        imc.spec.state = state;
        imc.spec.heartbeat_period_seconds = 0;
        imc.status = Some(fleet_api::cluster::InternalMemberClusterStatus::default());
        imc
    }

    #[tokio::test]
    async fn presence_absence_and_another_uid_are_told_apart() {
        let (store, health) = (store(), Health::default());
        let (sender, mut seen) = tokio::sync::watch::channel(KnownImc::NotYet);
        let cluster: ClusterName = "east".parse().unwrap();
        let measures = Measures::new(&Metrics::new());
        tokio::spawn(follow(store.clone(), cluster, sender, health.check("hub"), measures));
        tokio::task::yield_now().await;
        assert_eq!(*seen.borrow(), KnownImc::NotYet);

        store.feed(Event::Restarted);
        store.feed(Event::ListDone { version: 1 });
        seen.changed().await.unwrap();
        assert_eq!(*seen.borrow_and_update(), KnownImc::Absent);
        assert!(health.report().1.contains("there is no MemberCluster east on the hub"));

        store.feed(Event::Applied(imc("u1", 2, ClusterState::Join)));
        seen.changed().await.unwrap();
        let first = seen.borrow_and_update().imc().unwrap().clone();
        assert_eq!(
            (first.uid.as_str(), &first.wanted, first.period.as_secs()),
            ("u1", &WantedState::Join, 1)
        );
        assert!(store.all()[0].status.is_none(), "nobody reads the status");

        // What only the status says wakes nobody.
        store.feed(Event::Applied(imc("u1", 3, ClusterState::Join)));
        tokio::task::yield_now().await;
        assert!(!seen.has_changed().unwrap());

        store.feed(Event::deleted(&imc("u1", 4, ClusterState::Join)));
        seen.changed().await.unwrap();
        assert_eq!(*seen.borrow_and_update(), KnownImc::Absent);
        store.feed(Event::Applied(imc("u2", 5, ClusterState::from("Pause"))));
        seen.changed().await.unwrap();
        let last = seen.borrow_and_update().imc().unwrap().clone();
        assert_eq!(
            (last.uid.as_str(), &last.wanted),
            ("u2", &WantedState::Unknown("Pause".into()))
        );
    }
}
