use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use tokio::sync::{Notify, watch as channel};

use super::*;
use crate::applier::Known;

fn present(uid: &str, generation: i64, wanted: WantedState) -> KnownImc {
    KnownImc::Present(Arc::new(Imc {
        wanted,
        ..Imc::for_tests(uid, generation)
    }))
}

#[test]
fn every_state_has_its_stance() {
    let barred = Barred {
        imc_uid: "u".into(),
        why: "fenced".into(),
    };
    let join = present("u", 1, WantedState::Join);
    let KnownImc::Present(imc) = &join else { unreachable!() };
    assert_eq!(stance(&KnownImc::NotYet, None), Stance::Unchanged);
    assert_eq!(stance(&KnownImc::Absent, None), Stance::Pause);
    assert_eq!(stance(&join, None), Stance::Join(imc.clone()));
    assert_eq!(stance(&join, Some(&barred)), Stance::Pause);
    assert!(matches!(
        stance(&present("new", 1, WantedState::Join), Some(&barred)),
        Stance::Join(_)
    ));
    assert!(matches!(
        stance(&present("u", 2, WantedState::Leave), Some(&barred)),
        Stance::Leave(_)
    ));
    assert_eq!(
        stance(&present("u", 2, WantedState::Unknown("Pause".into())), None),
        Stance::Unchanged
    );
}

/// An applier whose rounds end when told.
#[derive(Default)]
struct Slow {
    opened: AtomicUsize,
    closing: Notify,
    finished: Notify,
}

impl Applier for Slow {
    fn open(&self, _: &str, _: Recovery) {
        self.opened.fetch_add(1, Ordering::SeqCst);
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.closing.notify_one();
            self.finished.notified().await;
        })
    }

    fn known(&self) -> Known {
        Known::default()
    }

    fn resend(&self, _: Vec<String>) {}

    fn answered(&self, _: &fleet_proto::convert::Ack) {}
}

#[tokio::test]
async fn leaving_waits_for_the_round_in_flight() {
    let (seen, seen_rx) = channel::channel(KnownImc::NotYet);
    let (barred, barred_rx) = channel::channel(None);
    let (phase, mut phases) = channel::channel(Phase::Idle);
    let applier = Arc::new(Slow::default());
    tokio::spawn(run(seen_rx, barred_rx, applier.clone(), phase));

    seen.send_replace(present("u", 1, WantedState::Join));
    phases.changed().await.unwrap();
    assert!(matches!(&*phases.borrow_and_update(), Phase::Joined(imc) if imc.generation == 1));
    assert_eq!(applier.opened.load(Ordering::SeqCst), 1);

    seen.send_replace(present("u", 2, WantedState::Unknown("Pause".into())));
    tokio::task::yield_now().await;
    assert!(
        !phases.has_changed().unwrap(),
        "a state that nobody knows changes nothing"
    );

    seen.send_replace(present("u", 3, WantedState::Leave));
    applier.closing.notified().await;
    tokio::task::yield_now().await;
    assert!(!phases.has_changed().unwrap(), "a round is still in flight");
    applier.finished.notify_one();
    phases.changed().await.unwrap();
    assert!(matches!(&*phases.borrow_and_update(), Phase::Stopped(imc) if imc.generation == 3));

    // The MemberCluster is created anew: another membership, without a restart.
    applier.finished.notify_one();
    seen.send_replace(KnownImc::Absent);
    phases.changed().await.unwrap();
    assert_eq!(*phases.borrow_and_update(), Phase::Idle);
    seen.send_replace(present("v", 1, WantedState::Join));
    phases.changed().await.unwrap();
    assert!(matches!(&*phases.borrow_and_update(), Phase::Joined(imc) if imc.uid == "v"));

    applier.finished.notify_one();
    barred.send_replace(Some(Barred {
        imc_uid: "v".into(),
        why: "superseded".into(),
    }));
    phases.changed().await.unwrap();
    assert_eq!(*phases.borrow_and_update(), Phase::Idle, "somebody else applies");
}
