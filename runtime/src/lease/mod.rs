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
//! - An API server that was restored from a backup shows an old lease. Who does not lead waits then as long as if it had
//!   just been renewed, whoever it names; and everybody is told ([`Era`]), for the leader looks here most often.

mod decide;
mod show;
mod term;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

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

pub use self::term::{State, Term, always, lead};
use self::{
    decide::{Action, Observed, Record, decide},
    show::Shown,
};
use crate::{
    cache::{Era, is_before},
    clock::Clock,
    logs,
    options::{Defaults, LeaseArgs},
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
    era: Era,
    /// The version of the lease that was last seen, also where it is to be looked at again.
    version: String,
    /// The highest number of a term that was seen.
    transitions: i32,
    /// For people who debug.
    shown: Arc<Shown>,
}

impl Elector {
    /// An elector and the state to watch. Nothing happens before [`Elector::run`].
    pub fn new(client: Client, config: Config, clock: Clock, era: Era) -> (Self, watch::Receiver<State>) {
        let api = Api::namespaced(client, &config.namespace);
        let (state, receiver) = watch::channel(State::Standby);
        let ending = TaskTracker::new();
        ending.close();
        let (lease, renewed) = (Lease::default(), Instant::now());
        let shown = Arc::new(Shown::new(&config.identity, receiver.clone()));
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
                era,
                version: String::new(),
                transitions: 0,
                shown,
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
        match decide(self.observed.as_ref(), &self.config.identity, self.leads(), sent) {
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
            // Of a backup the numbers are old ones.
            Action::Renew { transitions } => self.write(transitions.max(self.transitions), sent, false).await?,
            Action::Take { transitions } => {
                let next = self.transitions.saturating_add(1);
                self.write(transitions.max(next), sent, false).await?;
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
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let restored = is_before(&version, &self.version);
        if restored {
            tracing::warn!(lease = self.config.name, "The lease went back to an older version");
            self.era.end(self.era.number());
        }
        self.version.clone_from(&version);
        let mut record = Record {
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
        if restored {
            // One that was given back, say, asks nobody to wait.
            record.duration = record.duration.max(self.config.lease_duration);
        }
        self.transitions = self.transitions.max(record.transitions);
        self.shown.note(&record);
        let before = self.observed.take();
        self.observed = Some(Observed::note(before, record, version, Instant::now(), restored));
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
