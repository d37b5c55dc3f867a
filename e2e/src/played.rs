//! Members without an agent: a scenario plays their part through the hub's API. Health, age of heartbeats, availability
//! and failures are then exactly what it says, whatever a real agent would make of the manifests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use fleet_api::cluster::MemberCluster;
use fleet_api::placement::{ApplyStrategyType, BindingState, Work};
use futures::StreamExt as _;
use futures::future::try_join_all;
use jiff::SignedDuration;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::agents;
use crate::harness::Ctx;
use crate::members::Member;
use crate::now;
use crate::works::manifests;

/// The label by which a scenario's placements find its own members.
pub const LABEL: &str = "scenario";

/// So many objects of a Work are named one by one, whatever there is to say of them.
const MANY: usize = 500;

/// When to say again what the hub's API server did not take: it was away.
const TRY_AGAIN: Duration = Duration::from_millis(250);

/// What a member does with its Works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Act {
    /// Applies everything, and all of it is available; reports no difference if it is asked to.
    #[default]
    Available,
    /// Applies everything; nobody can tell whether it is available.
    Untrackable,
    /// Applies everything; nothing becomes available.
    Unavailable,
    /// Cannot apply anything.
    Broken,
    /// Cannot apply the first so many objects.
    Failing(usize),
    /// Applies everything, and somebody has changed all of it.
    Drifted,
    /// Reports a difference for every object.
    Different,
    /// Says nothing.
    Silent,
}

/// The members of a scenario, and the one who plays them.
#[derive(Clone)]
pub struct Cast {
    ctx: Ctx,
    script: Arc<Script>,
    _player: Arc<Player>,
}

#[derive(Default)]
struct Script {
    acts: Mutex<BTreeMap<String, Act>>,
    shown: Mutex<Option<Shown>>,
    changed: Notify,
}

/// The status that the live objects of a kind have.
#[derive(Debug, Clone, PartialEq)]
struct Shown {
    kind: String,
    status: Value,
}

struct Player(JoinHandle<()>);

impl Drop for Player {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl fmt::Debug for Cast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cast").field("ctx", &self.ctx).finish_non_exhaustive()
    }
}

impl Script {
    fn acts(&self) -> MutexGuard<'_, BTreeMap<String, Act>> {
        self.acts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(&self) -> Option<Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn act_in(&self, namespace: &str) -> Option<Act> {
        self.acts().get(namespace).copied()
    }
}

impl Cast {
    /// Members of these names, healthy and obedient.
    pub async fn new(ctx: &Ctx, words: &[&str]) -> Result<Self> {
        let script = Arc::<Script>::default();
        let player = tokio::spawn(play(ctx.hub().await?, script.clone()));
        let cast = Self {
            ctx: ctx.clone(),
            script,
            _player: Arc::new(Player(player)),
        };
        try_join_all(words.iter().map(|word| cast.join(word, json!({})))).await?;
        Ok(cast)
    }

    /// One more member, with these labels.
    pub async fn join(&self, word: &str, labels: Value) -> Result<Member> {
        self.join_saying(word, labels, &report(SignedDuration::ZERO, true))
            .await
    }

    /// One more member, whose InternalMemberCluster has this status.
    pub async fn join_saying(&self, word: &str, mut labels: Value, status: &Value) -> Result<Member> {
        labels[LABEL] = json!(self.ctx.prefix());
        let member = Member::named(&self.ctx, &self.name(word));
        let identity = json!({"kind": "ServiceAccount", "name": member.account, "namespace": agents::NAMESPACE});
        let object = json!({
            "metadata": { "name": member.name, "labels": labels },
            "spec": { "identity": identity, "heartbeatPeriodSeconds": 60 },
        });
        self.script.acts().insert(member.namespace(), Act::default());
        self.ctx
            .create::<MemberCluster>("hub", serde_json::from_value(object)?)
            .await?;
        member.ready().await?;
        self.say(word, status).await?;
        member
            .until("its report", |mc| {
                mc.status.as_ref().is_some_and(|status| !status.agent_status.is_empty())
            })
            .await?;
        Ok(member)
    }

    /// Changes what a member's InternalMemberCluster says.
    pub async fn say(&self, word: &str, status: &Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "status": status }));
        let member = self.member(word);
        let internals = member.internals().await?;
        internals
            .patch_status(&member.name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// A member has said nothing for so long, whatever it said before: on both objects that have the time.
    pub async fn silence(&self, word: &str, age: SignedDuration) -> Result<()> {
        let status = report(age, true);
        self.say(word, &status).await?;
        let member = self.member(word);
        let patch = Patch::Merge(json!({ "status": status }));
        let members = member.api().await?;
        members
            .patch_status(&member.name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// A member.
    pub fn member(&self, word: &str) -> Member {
        Member::named(&self.ctx, &self.name(word))
    }

    /// A member's name.
    pub fn name(&self, word: &str) -> String {
        self.ctx.name(word)
    }

    /// Members' names.
    pub fn names(&self, words: &[&str]) -> Vec<String> {
        words.iter().map(|word| self.name(word)).collect()
    }

    /// Members' names with the state that their bindings are to have.
    pub fn in_state(&self, words: &[&str], state: &BindingState) -> Vec<(String, BindingState)> {
        let names = self.names(words).into_iter();
        names.map(|name| (name, state.clone())).collect()
    }

    /// What a member does from now on, also with the Works that it has.
    pub fn act(&self, words: &[&str], act: Act) {
        let mut acts = self.script.acts();
        for word in words {
            acts.insert(self.member(word).namespace(), act);
        }
        drop(acts);
        self.script.changed.notify_one();
    }

    /// The status that objects of a kind have on all members from now on.
    pub fn show(&self, kind: &str, status: &Value) {
        self.set_shown(Some(Shown {
            kind: kind.to_owned(),
            status: status.clone(),
        }));
    }

    /// No object has a status any more.
    pub fn hide(&self) {
        self.set_shown(None);
    }

    fn set_shown(&self, shown: Option<Shown>) {
        *self.script.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
        self.script.changed.notify_one();
    }

    /// Everything onto all of them.
    pub fn everywhere(&self) -> Value {
        json!({ "placementType": "PickAll", "affinity": self.ours() })
    }

    /// Onto so many of them.
    pub fn some(&self, number: u32) -> Value {
        json!({ "placementType": "PickN", "numberOfClusters": number, "affinity": self.ours() })
    }

    /// Onto these.
    pub fn only(&self, words: &[&str]) -> Value {
        json!({ "placementType": "PickFixed", "clusterNames": self.names(words) })
    }

    /// The required affinity to this scenario's members.
    pub fn ours(&self) -> Value {
        affinity(&[(LABEL, self.ctx.prefix())])
    }
}

/// A required affinity to clusters with these labels.
pub fn affinity(labels: &[(&str, &str)]) -> Value {
    let labels: BTreeMap<_, _> = labels.iter().copied().collect();
    json!({ "clusterAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "clusterSelectorTerms": [{ "labelSelector": { "matchLabels": labels } }],
    } } })
}

/// What a joined member says, with a heartbeat of that age.
pub fn report(age: SignedDuration, healthy: bool) -> Value {
    let at = now() - age;
    let condition = |type_: &str, status: bool| {
        json!({
            "type": type_, "status": if status { "True" } else { "False" }, "reason": "Played", "message": "",
            "lastTransitionTime": at,
        })
    };
    json!({ "agentStatus": [{
        "type": "MemberAgent",
        "lastReceivedHeartbeat": at,
        "conditions": [condition("Joined", true), condition("Healthy", healthy)],
    }] })
}

/// Answers every Work of the script's members, once for each generation and act.
async fn play(client: Client, script: Arc<Script>) {
    let works = Api::<Work>::all(client.clone());
    let mut events = Box::pin(
        watcher(works, watcher::Config::default())
            .default_backoff()
            .applied_objects(),
    );
    let mut known = BTreeMap::<(String, String), (Work, Option<(i64, Act, Option<Shown>)>)>::new();
    let mut unsaid = false;
    loop {
        tokio::select! {
            // A watch that goes on where it was shows nothing again of what could not be answered meanwhile.
            () = tokio::time::sleep(TRY_AGAIN), if unsaid => {}
            event = events.next() => match event {
                Some(Ok(work)) => {
                    let Some(namespace) = work.namespace().filter(|n| script.act_in(n).is_some()) else { continue };
                    let entry = known.entry((namespace, work.name_any()));
                    let entry = entry.or_insert_with(|| (work.clone(), None));
                    if entry.0.uid() != work.uid() {
                        entry.1 = None;
                    }
                    entry.0 = work;
                }
                Some(Err(_)) => continue,
                None => return,
            },
            () = script.changed.notified() => {}
        }
        unsaid = false;
        for ((namespace, _), (work, answered)) in &mut known {
            let Some(act) = script.act_in(namespace) else { continue };
            let wanted = Some((work.metadata.generation.unwrap_or_default(), act, script.shown()));
            if act == Act::Silent || work.metadata.deletion_timestamp.is_some() || *answered == wanted {
                continue;
            }
            match say(&client, work, act, script.shown().as_ref()).await {
                Ok(()) => *answered = wanted,
                Err(error) => unsaid |= !is_refused(&error),
            }
        }
    }
}

/// Whether the API server has answered, and will answer the same again: the Work is gone, say.
fn is_refused(error: &anyhow::Error) -> bool {
    let answer = error.downcast_ref::<kube::Error>();
    answer.is_some_and(|error| matches!(error, kube::Error::Api(status) if [404, 422].contains(&status.code)))
}

/// Says for a member what has become of a Work.
pub async fn answer(client: &Client, work: &Work, act: Act) -> Result<()> {
    say(client, work, act, None).await
}

async fn say(client: &Client, work: &Work, act: Act, shown: Option<&Shown>) -> Result<()> {
    let status = status(work, act, shown);
    let namespace = work.namespace().unwrap_or_default();
    let api: Api<Work> = Api::namespaced(client.clone(), &namespace);
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(&work.name_any(), &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

fn status(work: &Work, act: Act, shown: Option<&Shown>) -> Value {
    let strategy = work.spec.apply_strategy.as_ref();
    let diffs = strategy.is_some_and(|strategy| strategy.type_ == ApplyStrategyType::ReportDiff);
    let (generation, since) = (work.metadata.generation, now());
    let condition = |(type_, status, reason): &(&str, &str, &str)| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": "", "observedGeneration": generation,
            "lastTransitionTime": since,
        })
    };
    let all = |list: &[(&str, &str, &str)]| list.iter().map(condition).collect::<Vec<_>>();
    let (applied, object_applied) = (
        ("Applied", "True", "WorkAppliedCompletely"),
        ("Applied", "True", "Applied"),
    );
    let failed = (
        all(&[("Applied", "False", "WorkNotAppliedCompletely")]),
        all(&[("Applied", "False", "FailedToApply")]),
    );
    let (whole, objects) = match act {
        _ if diffs => (
            all(&[("DiffReported", "True", "WorkDiffReportedCompleted")]),
            all(&[("DiffReported", "True", "ObjectDiffReportCompleted")]),
        ),
        Act::Broken | Act::Failing(_) => failed,
        Act::Unavailable => (
            all(&[applied, ("Available", "False", "WorkNotAvailableYet")]),
            all(&[object_applied, ("Available", "False", "NotYetAvailable")]),
        ),
        Act::Untrackable => (
            all(&[applied, ("Available", "True", "WorkNotTrackable")]),
            all(&[object_applied]),
        ),
        Act::Available | Act::Drifted | Act::Different | Act::Silent => (
            all(&[applied, ("Available", "True", "WorkAvailable")]),
            all(&[object_applied, ("Available", "True", "Available")]),
        ),
    };
    let differs = json!([{ "path": "/data/key", "valueInMember": "member", "valueInHub": "hub" }]);
    let manifests = manifests(work).into_iter().enumerate().map(|(ordinal, object)| {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
        let mut entry = json!({
            "identifier": {
                "ordinal": ordinal, "group": group, "version": version, "kind": text("/kind"),
                "name": text("/metadata/name"), "namespace": text("/metadata/namespace"),
            },
            "conditions": objects,
        });
        let details = |observed: &str, first: &str| {
            json!({
                "observationTime": since, "observedInMemberClusterGeneration": 2, first: since, observed: differs,
            })
        };
        match act {
            Act::Failing(count) if ordinal >= count => entry["conditions"] = json!(all(&[object_applied])),
            Act::Drifted => entry["driftDetails"] = details("observedDrifts", "firstDriftedObservedTime"),
            Act::Different => entry["diffDetails"] = details("observedDiffs", "firstDiffedObservedTime"),
            _ => {}
        }
        if let Some(Shown { kind, status }) = shown.filter(|shown| object["kind"] == shown.kind) {
            let observed = json!({ "apiVersion": object["apiVersion"], "kind": kind, "status": status });
            entry["backReportedStatus"] = json!({ "observedStatus": observed, "observationTime": since });
        }
        entry
    });
    // Of thousands of objects that are all well it would not fit.
    let few = work.spec.workload.manifests.len() <= MANY;
    let worth_a_word = |entry: &Value| few || act != Act::Available || entry.get("backReportedStatus").is_some();
    let manifests: Vec<_> = manifests.filter(worth_a_word).collect();
    json!({ "conditions": whole, "manifestConditions": manifests })
}
