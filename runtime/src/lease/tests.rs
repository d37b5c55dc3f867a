use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::testing::{self, Asked};

/// One lease on an API server, with optimistic concurrency.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<(u64, Option<Value>)>>);

impl Server {
    fn answer(&self, asked: &Asked) -> (u16, String) {
        let (version, stored) = &mut *self.0.lock();
        let mut new = asked.body.clone();
        if !asked.line.starts_with("GET") {
            let based = new["metadata"]["resourceVersion"].as_str().map(ToOwned::to_owned);
            let current = stored
                .as_ref()
                .map(|lease| lease["metadata"]["resourceVersion"].as_str().unwrap().to_owned());
            if based != current {
                return testing::failure(409, "Conflict");
            }
            *version += 1;
            new["metadata"]["resourceVersion"] = json!(version.to_string());
            *stored = Some(new);
        }
        match stored {
            Some(lease) => (200, lease.to_string()),
            None => testing::failure(404, "NotFound"),
        }
    }

    fn spec(&self, field: &str) -> Value {
        self.0.lock().1.as_ref().unwrap()["spec"][field].clone()
    }
}

struct Candidate {
    state: watch::Receiver<State>,
    stop: CancellationToken,
    cut: Arc<AtomicBool>,
    run: tokio::task::JoinHandle<()>,
}

/// Somebody who takes part, with the member agent's times, and whose connection can be cut.
fn candidate(server: &Server, identity: &str) -> Candidate {
    let (server, cut) = (server.clone(), Arc::new(AtomicBool::new(false)));
    let down = cut.clone();
    let client = testing::client(move |asked| {
        let (server, down) = (server.clone(), down.clone());
        async move {
            if down.load(Ordering::SeqCst) {
                return std::future::pending().await;
            }
            server.answer(&asked)
        }
    });
    let config = Config {
        namespace: "kube-system".to_owned(),
        name: "lease".to_owned(),
        identity: identity.to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    // Its clock is wrong by decades, which must not matter.
    let (elector, state) = Elector::new(
        client,
        config,
        Clock::manual(jiff::Timestamp::UNIX_EPOCH),
        Era::default(),
    );
    let stop = CancellationToken::new();
    Candidate {
        state,
        run: tokio::spawn(elector.run(stop.clone())),
        stop,
        cut,
    }
}

impl Candidate {
    async fn leads(&mut self) -> Term {
        match &*self
            .state
            .wait_for(|state| matches!(state, State::Leading(_)))
            .await
            .unwrap()
        {
            State::Leading(term) => term.clone(),
            State::Standby => unreachable!("it was waited for"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_the_next_begins() {
    let server = Server::default();
    let mut first = candidate(&server, "first");
    let term = first.leads().await;
    let mut second = candidate(&server, "second");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(!term.token().is_cancelled(), "it renews");
    assert!(matches!(&*second.state.borrow(), State::Standby));

    let start = Instant::now();
    first.cut.store(true, Ordering::SeqCst);
    term.token().cancelled().await;
    let lost = start.elapsed();
    assert!(lost <= Duration::from_secs(10), "{lost:?}");
    let next = second.leads().await;
    let gained = start.elapsed();
    assert!(
        gained >= lost + Duration::from_secs(3) && gained < Duration::from_secs(18),
        "{lost:?}, {gained:?}"
    );
    assert_eq!(next.transitions(), term.transitions() + 1);

    // Back again, it waits like anybody else.
    first.cut.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!next.token().is_cancelled());
    assert_eq!(server.spec("holderIdentity"), "second");
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_the_leaders_tasks_and_gives_the_lease_back() {
    let server = Server::default();
    let mut first = candidate(&server, "first");
    let term = first.leads().await;
    let mut second = candidate(&server, "second");
    tokio::time::sleep(Duration::from_secs(5)).await;

    let token = term.token().clone();
    let task = term.spawn(async move {
        token.cancelled().await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        Instant::now()
    });
    let start = Instant::now();
    first.stop.cancel();
    let next = second.leads().await;
    let gained = Instant::now();
    assert!(gained >= task.await.unwrap(), "not before the last write");
    assert!(
        start.elapsed() < Duration::from_secs(7),
        "long before it would have run out: {:?}",
        start.elapsed()
    );
    assert_eq!(next.transitions(), 1);
    first.run.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_away_ends_the_term_at_the_next_renewal() {
    let server = Server::default();
    let mut first = candidate(&server, "first");
    let term = first.leads().await;
    {
        let (version, stored) = &mut *server.0.lock();
        *version += 1;
        let lease = stored.as_mut().unwrap();
        lease["metadata"]["resourceVersion"] = json!(version.to_string());
        lease["spec"]["holderIdentity"] = json!("somebody");
    }
    let start = Instant::now();
    term.token().cancelled().await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_made_again_and_terms_go_on() {
    let server = Server::default();
    let mut first = candidate(&server, "first");
    first.leads().await;
    first.stop.cancel();
    let mut second = candidate(&server, "second");
    let term = second.leads().await;
    assert_eq!(term.transitions(), 1);
    server.0.lock().1 = None;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!term.token().is_cancelled());
    assert_eq!(
        (server.spec("holderIdentity"), server.spec("leaseTransitions")),
        (json!("second"), json!(1))
    );
}

#[tokio::test(start_paused = true)]
async fn the_leaders_work_runs_once_per_term() {
    let server = Server::default();
    let Candidate { state, stop, cut, .. } = candidate(&server, "first");
    let (begun, mut terms) = tokio::sync::mpsc::unbounded_channel();
    let work = tokio::spawn(lead(state, stop.clone(), move |term| {
        let begun = begun.clone();
        async move {
            begun.send(term.transitions()).unwrap();
            term.token().cancelled().await;
        }
    }));
    assert_eq!(terms.recv().await, Some(0));
    cut.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(30)).await;
    cut.store(false, Ordering::SeqCst);
    assert_eq!(terms.recv().await, Some(0), "nobody else had it meanwhile");
    stop.cancel();
    assert_eq!(work.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn work_that_ends_by_itself_is_an_error() {
    let stop = CancellationToken::new();
    let ended = lead(always(&stop), stop, |_| async {}).await;
    assert_eq!(
        ended.unwrap_err().to_string(),
        "the leader's work ended: nobody had asked for it"
    );
}

#[tokio::test]
async fn without_an_election_we_always_lead() {
    let stop = CancellationToken::new();
    let state = always(&stop);
    let State::Leading(term) = state.borrow().clone() else {
        panic!("standby")
    };
    stop.cancel();
    assert!(term.token().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_went_back_in_time_makes_no_second_leader() {
    let server = Server::default();
    let mut first = candidate(&server, "first");
    first.leads().await;
    let backup = server.0.lock().clone();
    let mut second = candidate(&server, "second");
    tokio::time::sleep(Duration::from_secs(5)).await;
    first.cut.store(true, Ordering::SeqCst);
    let term = second.leads().await;
    first.cut.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(15)).await;

    // The restored lease names the first, which has led long ago; the second is cut off and leads on until its deadline.
    second.cut.store(true, Ordering::SeqCst);
    *server.0.lock() = backup;
    let next = tokio::select! {
        next = first.leads() => next,
        () = term.token().cancelled() => first.leads().await,
    };
    assert!(term.token().is_cancelled(), "two lead");
    assert!(next.transitions() > term.transitions(), "terms go on");
}
