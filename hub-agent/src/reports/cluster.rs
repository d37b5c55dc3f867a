//! What a member says about itself: heartbeats, agent status, properties, each the newest only, written as few times as
//! possible.
//!
//! One task per session does all of it, so that nothing is written twice at once. A beat that changes nothing is one
//! write of the MemberCluster by the leader. Content goes to the InternalMemberCluster, from where the membership
//! controller copies it. The last reports are kept: if somebody overwrites what they said, it is written again.

mod beats;
mod plan;

use std::{sync::Arc, time::Duration};

use fleet_api::{
    cluster::InternalMemberCluster,
    conditions::{Status, Words as _, member_agent},
    patch,
};
use fleet_core::session::{
    Answer, Outcome,
    beat::{Beat, Write},
    budget::{self, Budget},
    cluster::{AgentReport, PropertiesReport},
    condition::ReportedCondition,
    epoch,
    trim::count,
};
use fleet_runtime::{Key, backoff::Backoff, cache::Store, writes::Lane};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{sync::Notify, time::Instant};

use self::plan::{Kept, Plan, State};
use crate::{
    channel::{Live, Outgoing, Shared, imc_key, refusal_word},
    writer::{About, Edit, ToDo, WriteFailure},
};

const RETRY: Backoff = Backoff {
    min: Duration::from_millis(250),
    max: Duration::from_secs(10),
};
/// Somebody who keeps overwriting a status is answered ever more slowly.
const REPAIR: Backoff = Backoff {
    min: Duration::from_secs(1),
    max: Duration::from_mins(1),
};

/// The writer of one session.
pub(super) struct ClusterReports {
    shared: Arc<Shared>,
    live: Arc<Live>,
    out: Outgoing,
    imc: Key,
    member: Key,
    state: Mutex<State>,
    wake: Notify,
}

enum Next {
    Wait,
    Again,
    At(Instant),
}

impl ClusterReports {
    pub(super) fn new(shared: Arc<Shared>, live: Arc<Live>, out: Outgoing) -> Arc<Self> {
        Arc::new(Self {
            imc: imc_key(&live.cluster),
            member: Key::cluster(live.cluster.as_str()),
            shared,
            live,
            out,
            state: Mutex::default(),
            wake: Notify::new(),
        })
    }

    /// A heartbeat arrived.
    pub(super) fn heartbeat(&self) {
        let beat = self.beat();
        let mut state = self.state.lock();
        state.beats.received(beat);
        state.arrived.get_or_insert(beat.steady);
        drop(state);
        self.wake.notify_one();
    }

    /// Joined and Healthy. Returns the sequence number of a report that this one replaces before it was answered.
    pub(super) fn agent_status(&self, seq: u64, report: AgentReport) -> Option<u64> {
        let mut state = self.state.lock();
        state.beats.received(self.beat());
        state.repairs = 0;
        state.repair_at = None;
        let before = state.agent.replace(Kept { seq: Some(seq), report });
        drop(state);
        self.wake.notify_one();
        before.and_then(|kept| kept.seq)
    }

    /// About the cluster.
    pub(super) fn properties(&self, seq: u64, report: PropertiesReport) -> Option<u64> {
        let mut state = self.state.lock();
        state.beats.received(self.beat());
        state.repairs = 0;
        state.repair_at = None;
        let before = state.properties.replace(Kept { seq: Some(seq), report });
        drop(state);
        self.wake.notify_one();
        before.and_then(|kept| kept.seq)
    }

    /// The member has stopped for good and its Works are free: as good as its own word that it has left.
    pub(super) fn left(&self, imc_uid: String, imc_generation: i64) {
        let said = ReportedCondition {
            type_: member_agent::Joined::TYPE.to_owned(),
            status: Status::False,
            reason: member_agent::Joined::Left.reason().to_owned(),
            message: member_agent::Joined::Left.message(),
            observed_generation: imc_generation,
        };
        let mut state = self.state.lock();
        state.beats.received(self.beat());
        // A report that waits for its answer is the member's newer word.
        if state.agent.as_ref().is_some_and(|kept| kept.seq.is_some()) {
            return;
        }
        let mut conditions = state
            .agent
            .take()
            .map(|kept| kept.report.conditions)
            .unwrap_or_default();
        conditions.retain(|c| c.type_ != said.type_);
        conditions.push(said);
        state.agent = Some(Kept {
            seq: None,
            report: AgentReport {
                imc_uid,
                imc_generation,
                conditions,
            },
        });
        drop(state);
        self.wake.notify_one();
    }

    /// Writes until the session ends, and drops it.
    pub(super) async fn run(self: Arc<Self>) {
        let mut failures = 0;
        loop {
            match self.pass().await {
                Ok(next) => {
                    failures = 0;
                    match next {
                        Next::Again => {}
                        Next::Wait => self.woken().await,
                        Next::At(at) => {
                            let _ = tokio::time::timeout_at(at, self.woken()).await;
                        }
                    }
                }
                Err(error) => {
                    failures += 1;
                    let (member, error) = (self.live.cluster.as_str(), format!("{error:?}"));
                    if failures == 1 {
                        tracing::warn!(member, error, "What a member says about itself could not be stored");
                    } else {
                        tracing::debug!(member, error, failures, "It could still not be stored");
                    }
                    tokio::time::sleep(RETRY.delay(failures)).await;
                }
            }
        }
    }

    async fn woken(&self) {
        tokio::select! {
            () = self.wake.notified() => {}
            () = self.live.changed.notified() => {}
        }
    }

    async fn pass(&self) -> Result<Next, WriteFailure> {
        let deps = &self.shared.deps;
        let Some(imc) = deps.internals.get(&self.imc).filter(|imc| self.is_mine(imc)) else {
            return Ok(Next::Wait); // the registry is about to close the session
        };
        let mut plan = self.plan(&imc, false);
        if plan.read_again {
            let live = self.read().await?;
            plan = self.plan(&live, true);
        }
        self.answer(std::mem::take(&mut plan.answers)).await;
        let written = match plan.due {
            Write::Member(at) => self.write_member(at).await,
            Write::Both(_) | Write::Internal(_) => self.write_internal().await,
            Write::Nothing => return Ok(plan.repair_at.map_or(Next::Wait, Next::At)),
            Write::Later(at) => {
                let wait = at.duration_since(deps.clock.steady()).unsigned_abs();
                let at = Instant::now() + wait;
                return Ok(Next::At(plan.repair_at.map_or(at, |repair| repair.min(at))));
            }
        };
        match written {
            // Something may have come meanwhile; a pass that finds nothing costs nothing.
            Ok(true) => Ok(Next::Again),
            Ok(false) => Ok(Next::Wait),
            Err(WriteFailure::Held(wait)) => Ok(Next::At(Instant::now() + wait)),
            Err(failure) => Err(failure),
        }
    }

    /// Whether the object still names this session.
    fn is_mine(&self, imc: &InternalMemberCluster) -> bool {
        imc.metadata.uid.as_deref() == Some(self.live.imc_uid.as_str())
            && epoch::stored(imc).is_some_and(|id| id == self.live.id)
    }

    async fn read(&self) -> Result<Arc<InternalMemberCluster>, WriteFailure> {
        let deps = &self.shared.deps;
        let read = deps.writer.read(&deps.internals, &self.imc).await?;
        read.ok_or(WriteFailure::Gone)
    }

    /// An object of this member, written among the heartbeats.
    fn about<'a, K>(&'a self, store: &'a Store<K>, key: &'a Key) -> About<'a, K> {
        About {
            store,
            key,
            group: &self.member,
            lane: Lane::Heartbeat,
        }
    }

    /// Content, or a refresh: the InternalMemberCluster's status. True if a write was made or proved unnecessary.
    async fn write_internal(&self) -> Result<bool, WriteFailure> {
        let deps = &self.shared.deps;
        let mut planned = None;
        let decide = |imc: Option<&InternalMemberCluster>, _| {
            planned = None;
            let Some(imc) = imc.filter(|imc| self.is_mine(imc)) else {
                return ToDo::Nothing(());
            };
            let plan = self.plan(imc, false);
            if plan.read_again || !matches!(plan.due, Write::Both(_) | Write::Internal(_)) {
                return ToDo::Nothing(());
            }
            let before = imc.status.clone().unwrap_or_default();
            let changes = patch::between(&before, &plan.status).ok().flatten();
            // Stored here and, copied, on the MemberCluster; the properties on the ClusterProfile as well.
            let bytes = 2 * count(&plan.status) + count(&plan.status.properties);
            let content = plan.content;
            planned = Some(plan);
            // None: somebody else's write has it all.
            let Some(changes) = changes else {
                return ToDo::Nothing(());
            };
            let paid = self.ask(|budget, now| {
                if content {
                    budget.cluster(bytes, now)
                } else {
                    budget.beat(bytes, now)
                }
            });
            if let Err(wait) = paid {
                return ToDo::later(wait);
            }
            let patch = patch::pinned(json!({ "status": changes }), imc);
            ToDo::Write(Edit::Status(patch), ())
        };
        let about = self.about(&deps.internals, &self.imc);
        match deps.writer.decide(&about, decide).await {
            Ok(((), Some(_))) => self.shared.measures.persisted("internal_member_cluster"),
            Ok(((), None)) => {}
            Err(WriteFailure::Conflict) => return Ok(true),
            Err(WriteFailure::Gone) => return Ok(false),
            Err(WriteFailure::Invalid(why) | WriteFailure::TooLarge(why)) => {
                self.unacceptable(planned, &why).await;
                return Ok(true);
            }
            Err(failure) => return Err(failure),
        }
        // Decided anew: the state has changed while it waited.
        let Some(plan) = planned else { return Ok(true) };
        self.stored(plan.due, plan.repair);
        self.answer(plan.included).await;
        Ok(true)
    }

    /// The API server will never take it. The member must not send the same again and again.
    async fn unacceptable(&self, planned: Option<Plan>, why: &str) {
        tracing::warn!(
            member = self.live.cluster.as_str(),
            error = why,
            "A member's report was refused"
        );
        let Some(plan) = planned else { return };
        {
            let mut state = self.state.lock();
            let refused: Vec<u64> = plan.included.iter().map(|(seq, _)| *seq).collect();
            let keep = |seq: Option<u64>| seq.is_some_and(|seq| !refused.contains(&seq));
            state.agent = state.agent.take().filter(|kept| keep(kept.seq));
            state.properties = state.properties.take().filter(|kept| keep(kept.seq));
            // The beat itself is as true as before; it goes with the next one.
            state.beats.stored(plan.due);
        }
        let answers = plan
            .included
            .into_iter()
            .map(|(seq, _)| (seq, Answer::because(Outcome::Invalid, why)));
        self.answer(answers.collect()).await;
    }

    fn beat(&self) -> Beat {
        let clock = &self.shared.deps.clock;
        Beat {
            at: clock.now(),
            steady: clock.steady(),
        }
    }

    fn ask(&self, question: impl FnOnce(&mut Budget, Timestamp) -> Result<(), budget::Wait>) -> Result<(), Duration> {
        self.live.allowance.ask(&self.shared, question)
    }

    fn stored(&self, write: Write, repair: bool) {
        let now = self.shared.deps.clock.steady();
        let mut state = self.state.lock();
        state.beats.stored(write);
        if let Some(arrived) = state.arrived.take() {
            self.shared.measures.heartbeat_stored(now.duration_since(arrived));
        }
        if repair {
            state.repairs = state.repairs.saturating_add(1);
            state.repair_at = Some(Instant::now() + REPAIR.delay(state.repairs));
        }
    }

    /// Says what became of reports, which from then on are kept for repairs only.
    async fn answer(&self, answers: Vec<(u64, Answer)>) {
        for (seq, answer) in answers {
            {
                let mut state = self.state.lock();
                let forget = !matches!(answer.outcome, Outcome::Persisted | Outcome::Unchanged);
                if let Some(kept) = state.agent.as_mut().filter(|kept| kept.seq == Some(seq)) {
                    kept.seq = None;
                    if forget {
                        state.agent = None;
                    }
                } else if let Some(kept) = state.properties.as_mut().filter(|kept| kept.seq == Some(seq)) {
                    kept.seq = None;
                    if forget {
                        state.properties = None;
                    }
                }
            }
            if let Some(word) = refusal_word(answer.outcome) {
                self.shared.measures.refused(word);
            }
            if let Err(unreachable) = self.out.ack(seq, None, answer).await {
                self.live.close(unreachable.into());
            }
        }
    }
}
