//! Leader election by a Lease, as a state to watch.
//!
//! # Contract
//! - [`State::Leading`] carries a [`Term`]. Whoever writes as the leader runs inside it ([`Term::spawn`]) and stops when
//!   its token is cancelled.
//! - The token is cancelled when the renew deadline has passed without a renewal, counted from before the last request
//!   that renewed; that is before others may take over, by the difference between lease duration and renew deadline.
//! - On a stop the token is cancelled, tasks of the term are waited for, and only then is the lease given back. If they
//!   take too long it is left to run out: two leaders would be worse than a late one.
//! - Terms are numbered by the lease's transitions, which grow with every change of holder.

mod decide;
#[cfg(test)]
mod tests;

use std::{future::Future, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::decide::{Action, Observed, Record, decide};
use crate::{
    clock::Clock,
    logs,
    options::{Defaults, LeaseArgs},
    shutdown::{Ended, panic_text},
};

/// Which lease, and who wants it.
#[derive(Clone, Debug)]
pub struct Config {
    /// The lease's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who we are; every process another, also on the same host.
    pub identity: String,
    /// How long others wait after our last renewal.
    pub lease_duration: Duration,
    /// How long we try to renew before we give up.
    pub renew_deadline: Duration,
    /// How long to wait between two tries.
    pub retry_period: Duration,
}

impl Config {
    /// The lease that the options describe.
    pub fn new<D: Defaults>(args: &LeaseArgs<D>, name: &str) -> Self {
        // A Pod's host name is its name; the number tells two processes with one host name apart.
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            namespace: args.leader_election_namespace.clone(),
            name: name.to_owned(),
            identity: format!("{}_{:016x}", host.trim(), fastrand::u64(..)),
            lease_duration: args.leader_lease_duration,
            renew_deadline: args.leader_renew_deadline,
            retry_period: args.leader_retry_period,
        }
    }
}

/// Whether we lead.
#[derive(Clone, Debug)]
pub enum State {
    /// Somebody else leads, or nobody.
    Standby,
    /// We lead.
    Leading(Term),
}

/// A time of leadership.
#[derive(Clone, Debug)]
pub struct Term {
    transitions: i32,
    previous_renewed: Option<Timestamp>,
    token: CancellationToken,
    tasks: TaskTracker,
}

impl Term {
    /// The number of this term.
    pub fn transitions(&self) -> i32 {
        self.transitions
    }

    /// When the leader before last renewed, by its own clock; none if there was no other.
    pub fn previous_renewed(&self) -> Option<Timestamp> {
        self.previous_renewed
    }

    /// Cancelled when the term is over.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Runs a task of the leader. It should end soon after the token is cancelled; until then the lease is kept.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.tasks.spawn(task)
    }
}

/// The state to watch, for agents that do not take part in elections: they always lead, in term 0, until told to stop.
pub fn always(stop: &CancellationToken) -> watch::Receiver<State> {
    let term = Term {
        transitions: 0,
        previous_renewed: None,
        token: stop.child_token(),
        tasks: TaskTracker::new(),
    };
    let (sender, receiver) = watch::channel(State::Leading(term));
    // An open channel that never changes, as others would see it.
    let stop = stop.clone();
    tokio::spawn(async move {
        stop.cancelled().await;
        drop(sender);
    });
    receiver
}

/// Runs the leader's work in every term until told to stop. The work ends when the term's token is cancelled.
///
/// # Errors
/// If the work ends by itself, or panics: the process would hold the lease and do nothing.
pub async fn lead<W>(
    mut state: watch::Receiver<State>,
    stop: CancellationToken,
    work: impl Fn(Term) -> W,
) -> Result<(), Ended>
where
    W: Future<Output = ()> + Send + 'static,
{
    const TASK: &str = "the leader's work";
    loop {
        let term = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            leading = state.wait_for(|state| matches!(state, State::Leading(term) if !term.token.is_cancelled())) => {
                match leading.as_deref() {
                    Ok(State::Leading(term)) => term.clone(),
                    // The elector has gone; whoever supervises it says why.
                    Ok(State::Standby) | Err(_) => return Ok(()),
                }
            }
        };
        let ended = term.spawn(work(term.clone())).await;
        match ended {
            Ok(()) if term.token.is_cancelled() => {}
            Ok(()) => return Err(Ended::new(TASK, "nobody had asked for it")),
            Err(error) => return Err(Ended::new(TASK, panic_text(error))),
        }
    }
}

/// Takes part in an election.
#[derive(Debug)]
pub struct Elector {
    config: Config,
    api: Api<Lease>,
    clock: Clock,
    state: watch::Sender<State>,
    observed: Option<Observed>,
    /// The lease as last seen, so that fields and annotations of others survive.
    lease: Lease,
    /// When the request that last renewed was sent.
    renewed: Instant,
    /// What is left of the last term.
    ending: TaskTracker,
}

impl Elector {
    /// An elector and the state to watch. Nothing happens before [`Elector::run`].
    pub fn new(client: Client, config: Config, clock: Clock) -> (Self, watch::Receiver<State>) {
        let api = Api::namespaced(client, &config.namespace);
        let (state, receiver) = watch::channel(State::Standby);
        let ending = TaskTracker::new();
        ending.close();
        let (lease, renewed) = (Lease::default(), Instant::now());
        (
            Self {
                config,
                api,
                clock,
                state,
                observed: None,
                lease,
                renewed,
                ending,
            },
            receiver,
        )
    }

    /// Takes part until told to stop. Errors of the API server are logged and tried again.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut failing = false;
        while !stop.is_cancelled() {
            if self.leads() && Instant::now() >= self.deadline() {
                self.lose("the renew deadline has passed");
            }
            // No two terms at once, not even our own.
            tokio::select! {
                () = self.ending.wait() => {}
                () = stop.cancelled() => break,
            }
            let deadline = self.deadline();
            // A leader that hears nothing gives up in time, even in the middle of a request.
            let tried = tokio::select! {
                tried = timeout(deadline.saturating_duration_since(Instant::now()), self.attempt()) => tried,
                () = stop.cancelled() => break,
            };
            let wait = match tried {
                Ok(Ok(until)) => {
                    if std::mem::take(&mut failing) {
                        tracing::info!(lease = self.config.name, "Lease can be reached again");
                    }
                    Some(until)
                }
                Ok(Err(error)) => {
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(lease = self.config.name, error = %logs::chain(&error), "Lease not renewed");
                    }
                    // What we know of it may be old: look before the next write.
                    if matches!(&error, kube::Error::Api(status) if status.is_conflict() || status.is_not_found()) {
                        self.forget();
                        None
                    } else {
                        Some(self.pause())
                    }
                }
                Err(_) => None,
            };
            if let Some(until) = wait {
                let until = if self.leads() {
                    until.min(self.deadline())
                } else {
                    until
                };
                tokio::select! {
                    () = tokio::time::sleep_until(until) => {}
                    () = stop.cancelled() => {}
                }
            } else {
                // Conflicts in a row must not become a storm.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        self.release().await;
    }

    fn leads(&self) -> bool {
        matches!(&*self.state.borrow(), State::Leading(_))
    }

    /// When to give up: the leader's term, or a single try of somebody who waits.
    fn deadline(&self) -> Instant {
        if self.leads() {
            self.renewed + self.config.renew_deadline
        } else {
            Instant::now() + self.config.renew_deadline
        }
    }

    /// The next try. A little random, so that those who wait do not ask in step.
    fn pause(&self) -> Instant {
        let extra = if self.leads() { 0.0 } else { fastrand::f64() / 5.0 };
        Instant::now() + self.config.retry_period.mul_f64(1.0 + extra)
    }

    /// One try; says when to come back.
    async fn attempt(&mut self) -> kube::Result<Instant> {
        // The leader knows the version that it wrote last: one request per renewal.
        if !self.leads() || self.observed.is_none() {
            self.look().await?;
        }
        let sent = Instant::now();
        match decide(self.observed.as_ref(), &self.config.identity, sent) {
            Action::Create => {
                // If somebody deleted it, terms go on where they were, as far as we know.
                let known = self.lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
                let transitions = known.map_or(0, |known| if self.leads() { known } else { known.saturating_add(1) });
                self.lease = Lease {
                    metadata: ObjectMeta {
                        name: Some(self.config.name.clone()),
                        ..ObjectMeta::default()
                    },
                    spec: None,
                };
                self.write(transitions, sent, true).await?;
            }
            Action::Renew { transitions } | Action::Take { transitions } => {
                self.write(transitions, sent, false).await?;
            }
            Action::Wait { until } => {
                if self.leads() {
                    self.lose("somebody else has taken the lease");
                }
                return Ok(self.pause().min(until));
            }
        }
        Ok(self.pause())
    }

    async fn look(&mut self) -> kube::Result<()> {
        match self.api.get_opt(&self.config.name).await? {
            Some(lease) => self.note(lease),
            None => self.observed = None,
        }
        Ok(())
    }

    fn note(&mut self, lease: Lease) {
        let spec = lease.spec.clone().unwrap_or_default();
        let record = Record {
            holder: spec.holder_identity.unwrap_or_default(),
            transitions: spec.lease_transitions.unwrap_or_default(),
            duration: Duration::from_secs(
                spec.lease_duration_seconds
                    .unwrap_or_default()
                    .max(0)
                    .unsigned_abs()
                    .into(),
            ),
        };
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        self.observed = Some(Observed::note(self.observed.take(), record, version, Instant::now()));
        self.lease = lease;
    }

    /// Writes that we hold it. With the version that was seen, so that of two who try one fails.
    async fn write(&mut self, transitions: i32, sent: Instant, create: bool) -> kube::Result<()> {
        let now = MicroTime(self.clock.now());
        let mut lease = self.lease.clone();
        let before = lease.spec.take().unwrap_or_default();
        let ours = before.holder_identity.as_deref() == Some(&self.config.identity);
        let previous_renewed = before.renew_time.as_ref().map(|time| time.0);
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.config.identity.clone()),
            lease_duration_seconds: i32::try_from(self.config.lease_duration.as_secs()).ok(),
            lease_transitions: Some(transitions),
            acquire_time: if ours { before.acquire_time } else { Some(now.clone()) },
            renew_time: Some(now),
            ..before
        });
        let params = PostParams::default();
        let answer = if create {
            self.api.create(&params, &lease).await?
        } else {
            self.api.replace(&self.config.name, &params, &lease).await?
        };
        self.note(answer);
        self.renewed = sent;
        if !self.leads() {
            let term = Term {
                transitions,
                previous_renewed,
                token: CancellationToken::new(),
                tasks: TaskTracker::new(),
            };
            tracing::info!(lease = self.config.name, transitions, "Became leader");
            self.state.send_replace(State::Leading(term));
        }
        Ok(())
    }

    /// Keeps since when the record has been what it is, so that looking again does not start the wait anew; but a
    /// leader's next try begins with a look.
    fn forget(&mut self) {
        if self.leads() {
            self.observed = None;
        }
    }

    fn lose(&mut self, why: &str) {
        let State::Leading(term) = self.state.send_replace(State::Standby) else {
            return;
        };
        tracing::warn!(
            lease = self.config.name,
            transitions = term.transitions,
            why,
            "Not the leader any more"
        );
        term.token.cancel();
        term.tasks.close();
        self.ending = term.tasks;
    }

    /// Gives the lease back once nobody writes any more.
    async fn release(mut self) {
        let deadline = self.deadline();
        if !self.leads() {
            return;
        }
        self.lose("stopping");
        let give_back = async {
            self.ending.wait().await;
            // The stop may have cut off a renewal that the server has done.
            self.look().await?;
            if self
                .observed
                .as_ref()
                .is_none_or(|observed| observed.record.holder != self.config.identity)
            {
                return Ok(());
            }
            let now = MicroTime(self.clock.now());
            let mut lease = self.lease.clone();
            lease.spec = Some(LeaseSpec {
                holder_identity: Some(String::new()),
                lease_duration_seconds: Some(1),
                renew_time: Some(now.clone()),
                acquire_time: Some(now),
                ..lease.spec.unwrap_or_default()
            });
            self.api
                .replace(&self.config.name, &PostParams::default(), &lease)
                .await
                .map(drop)
        };
        match tokio::time::timeout_at(deadline, give_back).await {
            Ok(Ok(())) => tracing::info!(lease = self.config.name, "Gave the lease back"),
            Ok(Err(error)) => {
                tracing::warn!(lease = self.config.name, error = %logs::chain(&error), "Could not give the lease back");
            }
            Err(_) => tracing::warn!(
                lease = self.config.name,
                "Tasks of the leader did not end; the lease will run out"
            ),
        }
    }
}
