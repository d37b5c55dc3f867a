//! What a member says about itself: heartbeats, agent status, properties, each the newest only, written as few times as
//! possible.
//!
//! One task per session does all of it, so that nothing is written twice at once. A beat that changes nothing is one
//! write of the MemberCluster by the leader. Content goes to the InternalMemberCluster, from where the membership
//! controller copies it. The last reports are kept: if somebody overwrites what they said, it is written again.

mod plan;

use std::{sync::Arc, time::Duration};

use fleet_api::{
    cluster::{AgentType, InternalMemberCluster, MemberCluster},
    conditions::{Status, Words as _, member_agent},
    patch,
};
use fleet_core::{
    membership::heartbeat,
    session::{
        Answer, Outcome,
        beat::Write,
        cluster::{AgentReport, PropertiesReport},
        epoch,
        said::{Said, whole_second},
    },
};
use fleet_runtime::{
    Key,
    backoff::Backoff,
    client::answered,
    writes::{Lane, Target},
};
use jiff::Timestamp;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{sync::Notify, time::Instant};

use self::plan::{Kept, Plan, State};
use super::{
    convert::refusal_word,
    outgoing::Outgoing,
    registry::{Close, Live, imc_key},
    server::Shared,
    write::{Failure, after_conflict, json_patch_status},
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
pub(super) struct Cluster {
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

impl Cluster {
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

    /// A heartbeat arrived at this time of the hub's.
    pub(super) fn heartbeat(&self, now: Timestamp) {
        let mut state = self.state.lock();
        state.alive(now);
        state.arrived.get_or_insert(now);
        drop(state);
        self.wake.notify_one();
    }

    /// Joined and Healthy. Returns the sequence number of a report that this one replaces before it was answered.
    pub(super) fn agent_status(&self, seq: u64, report: AgentReport, now: Timestamp) -> Option<u64> {
        let mut state = self.state.lock();
        state.alive(now);
        state.repairs = 0;
        state.repair_at = None;
        let before = state.agent.replace(Kept { seq: Some(seq), report });
        drop(state);
        self.wake.notify_one();
        before.and_then(|kept| kept.seq)
    }

    /// About the cluster.
    pub(super) fn properties(&self, seq: u64, report: PropertiesReport, now: Timestamp) -> Option<u64> {
        let mut state = self.state.lock();
        state.alive(now);
        state.repairs = 0;
        state.repair_at = None;
        let before = state.properties.replace(Kept { seq: Some(seq), report });
        drop(state);
        self.wake.notify_one();
        before.and_then(|kept| kept.seq)
    }

    /// The member has stopped for good and its Works are free: as good as its own word that it has left.
    pub(super) fn left(&self, imc_uid: String, imc_generation: i64) {
        let now = self.shared.deps.clock.now();
        let said = Said {
            type_: member_agent::Joined::TYPE.to_owned(),
            status: Status::False,
            reason: member_agent::Joined::Left.reason().to_owned(),
            message: member_agent::Joined::Left.message(),
            observed_generation: imc_generation,
        };
        let mut state = self.state.lock();
        state.alive(now);
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

    async fn pass(&self) -> Result<Next, Failure> {
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
        let done = match plan.due {
            Write::Member(at) => self.write_member(at).await?,
            Write::Both(_) | Write::Internal(_) => self.write_internal().await?,
            Write::Nothing => return Ok(plan.repair_at.map_or(Next::Wait, Next::At)),
            Write::Later(at) => {
                let wait = at.duration_since(deps.clock.now()).unsigned_abs();
                let at = Instant::now() + wait;
                return Ok(Next::At(plan.repair_at.map_or(at, |repair| repair.min(at))));
            }
        };
        // Something may have come meanwhile; a pass that finds nothing costs nothing.
        Ok(if done { Next::Again } else { Next::Wait })
    }

    /// Whether the object still names this session.
    fn is_mine(&self, imc: &InternalMemberCluster) -> bool {
        imc.metadata.uid.as_deref() == Some(self.live.imc_uid.as_str())
            && epoch::stored(imc).is_some_and(|id| id == self.live.id)
    }

    async fn read(&self) -> Result<Arc<InternalMemberCluster>, Failure> {
        let api: Api<InternalMemberCluster> =
            Api::namespaced(self.shared.deps.client.clone(), &self.live.cluster.namespace());
        let read = answered(api.get(self.live.cluster.as_str())).await;
        let imc = read.map_err(|error| Failure::of(&error))?;
        Ok(self.shared.deps.internals.wrote(imc))
    }

    /// The MemberCluster and the place of this agent's entry in it.
    fn member_entry(&self) -> Option<(Arc<MemberCluster>, usize)> {
        let mc = self.shared.deps.members.get(&self.member)?;
        let agents = &mc.status.as_ref()?.agent_status;
        let at = agents.iter().position(|agent| agent.type_ == AgentType::MemberAgent)?;
        Some((mc, at))
    }

    /// Content, or a refresh: the InternalMemberCluster's status. True if a write was made or proved unnecessary.
    async fn write_internal(&self) -> Result<bool, Failure> {
        let deps = &self.shared.deps;
        let api: Api<InternalMemberCluster> = Api::namespaced(deps.client.clone(), &self.live.cluster.namespace());
        let (mut version, mut planned) = (None, None);
        let request = || {
            let imc = deps.internals.get(&self.imc).filter(|imc| self.is_mine(imc))?;
            let plan = self.plan(&imc, false);
            if plan.read_again || !matches!(plan.due, Write::Both(_) | Write::Internal(_)) {
                return None;
            }
            let before = imc.status.clone().unwrap_or_default();
            let changes = patch::between(&before, &plan.status).ok().flatten();
            version.clone_from(&imc.metadata.resource_version);
            planned = Some(plan);
            let patch = patch::pinned(json!({ "status": changes? }), &*imc);
            let (api, name) = (&api, self.live.cluster.as_str());
            Some(async move {
                api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
                    .await
            })
        };
        let target = Target::new("InternalMemberCluster", self.imc.clone());
        let result = deps.writes.write(Lane::Heartbeat, target, &self.member, request).await;
        match result {
            Some(Ok(imc)) => {
                deps.internals.wrote(imc);
                self.shared.measures.persisted("internal_member_cluster");
            }
            Some(Err(error)) => match Failure::of(&error) {
                Failure::Conflict => {
                    after_conflict(&deps.internals, version.as_deref()).await;
                    return Ok(true);
                }
                Failure::Gone => return Ok(false),
                Failure::Invalid(why) | Failure::TooLarge(why) => {
                    self.unacceptable(planned, &why).await;
                    return Ok(true);
                }
                failure @ Failure::Unavailable(_) => return Err(failure),
            },
            // Nothing left to write: somebody else's write has it all.
            None => {}
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

    /// A beat that changed nothing: its time alone, on the MemberCluster.
    async fn write_member(&self, at: Timestamp) -> Result<bool, Failure> {
        let deps = &self.shared.deps;
        let mut version = None;
        let mut stored_at = at;
        let request = || {
            if !*deps.leading.borrow() || !deps.internals.get(&self.imc).is_some_and(|imc| self.is_mine(&imc)) {
                return None;
            }
            let (mc, index) = self.member_entry()?;
            let agent = mc.status.as_ref()?.agent_status.get(index)?;
            // Beats that came while this one waited.
            if let Write::Member(newest) = self.due_now(&mc) {
                stored_at = newest;
            }
            let time = whole_second(stored_at);
            if agent
                .last_received_heartbeat
                .as_ref()
                .is_some_and(|before| before.0 >= time.0)
            {
                version = Some(String::new());
                return None;
            }
            let op = if agent.last_received_heartbeat.is_some() {
                "replace"
            } else {
                "add"
            };
            let operations = json!([
                { "op": "replace", "path": "/metadata/resourceVersion", "value": mc.metadata.resource_version },
                { "op": op, "path": format!("/status/agentStatus/{index}/lastReceivedHeartbeat"), "value": time },
            ]);
            version.clone_from(&mc.metadata.resource_version);
            let (client, name) = (&deps.client, self.live.cluster.as_str());
            Some(async move { json_patch_status::<MemberCluster>(client, name, &operations).await })
        };
        let target = Target::new("MemberCluster", self.member.clone());
        match deps.writes.write(Lane::Heartbeat, target, &self.member, request).await {
            Some(Ok(mc)) => {
                deps.members.wrote(mc);
                self.shared.measures.persisted("member_cluster");
            }
            Some(Err(error)) => match Failure::of(&error) {
                // The path of a list that has become shorter is "invalid"; it is a conflict all the same.
                Failure::Conflict | Failure::Invalid(_) => {
                    after_conflict(&deps.members, version.as_deref()).await;
                    return Ok(true);
                }
                Failure::Gone => return Ok(false),
                failure => return Err(failure),
            },
            None if version.is_some() => {}
            // Not the leader any more, or the entry has gone: decide anew.
            None => return Ok(true),
        }
        self.stored(Write::Member(stored_at), false);
        Ok(true)
    }

    fn due_now(&self, mc: &MemberCluster) -> Write {
        let period = heartbeat::period(mc.spec.heartbeat_period_seconds);
        self.state.lock().beats.due(true, period, self.shared.deps.clock.now())
    }

    fn stored(&self, write: Write, repair: bool) {
        let now = self.shared.deps.clock.now();
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
            if self.out.ack(seq, None, answer).await.is_err() {
                self.live.close(Close::new(
                    fleet_proto::convert::RejectCode::Misbehaved,
                    "the member does not read its answers",
                ));
            }
        }
    }
}
