//! Clusters of a scenario's own to place things onto: members without a cluster behind them, whose Works are answered by
//! the test. A label tells them from everybody else's, so that scenarios which pick by label run side by side.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use fleet_api::placement::Work;
use futures::StreamExt as _;
use futures::future::try_join_all;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::Ctx;
use crate::members::Member;
use crate::played::{LABEL, affinity};

/// What a cluster says about a Work: its status, or nothing yet.
pub type Answer = Arc<dyn Fn(&Work) -> Option<Value> + Send + Sync>;

/// The clusters of a scenario. They answer as long as this lives.
pub struct Targets {
    ctx: Ctx,
    /// Their MemberClusters, in the order of their names.
    pub members: Vec<Member>,
    answers: Arc<Mutex<BTreeMap<String, Answer>>>,
    _tasks: JoinSet<()>,
}

impl fmt::Debug for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Targets")
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

impl Targets {
    /// So many members join, named after the scenario and numbered from 1. At first they apply everything at once.
    pub async fn join(ctx: &Ctx, count: usize) -> Result<Self> {
        let joining = (1..=count).map(|n| async move {
            let member = Member::create(ctx, &format!("m{n}")).await?;
            member
                .patch(&json!({ "metadata": { "labels": { LABEL: ctx.prefix() } } }))
                .await?;
            member.join_scripted().await?;
            anyhow::Ok(member)
        });
        let members = try_join_all(joining).await?;
        let answers = Arc::new(Mutex::new(BTreeMap::new()));
        let mut tasks = JoinSet::new();
        for member in &members {
            set(&answers, &member.name, Arc::new(available));
            tasks.spawn(play(ctx.hub().await?, member.clone(), answers.clone()));
        }
        Ok(Self {
            ctx: ctx.clone(),
            members,
            answers,
            _tasks: tasks,
        })
    }

    /// The name of the n-th, from 1.
    pub fn name(&self, n: usize) -> String {
        self.members[n - 1].name.clone()
    }

    /// The scheduling policy that picks all of them and nobody else.
    pub fn all(&self) -> Value {
        json!({ "placementType": "PickAll", "affinity": self.affinity() })
    }

    /// The affinity that only they have.
    pub fn affinity(&self) -> Value {
        affinity(&[(LABEL, self.ctx.prefix())])
    }

    /// Makes the n-th answer differently from now on, also about the Works that it has.
    pub async fn answer(
        &self,
        n: usize,
        answer: impl Fn(&Work) -> Option<Value> + Send + Sync + 'static,
    ) -> Result<()> {
        let member = &self.members[n - 1];
        let answer: Answer = Arc::new(answer);
        set(&self.answers, &member.name, answer.clone());
        let works: Api<Work> = Api::namespaced(self.ctx.hub().await?, &member.namespace());
        for work in works.list(&ListParams::default()).await? {
            say(&works, &work, &answer).await.context("cannot answer a Work")?;
        }
        Ok(())
    }
}

fn set(answers: &Mutex<BTreeMap<String, Answer>>, member: &str, answer: Answer) {
    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    answers.insert(member.to_owned(), answer);
}

/// Answers every new generation of every Work, and lets go of those that are being deleted.
async fn play(client: Client, member: Member, answers: Arc<Mutex<BTreeMap<String, Answer>>>) {
    let works: Api<Work> = Api::namespaced(client, &member.namespace());
    let states = watcher(works.clone(), watcher::Config::default());
    let mut states = Box::pin(states.default_backoff().touched_objects());
    while let Some(state) = states.next().await {
        let Ok(work) = state else { continue };
        if work.metadata.deletion_timestamp.is_some() {
            let release = json!({ "metadata": { "finalizers": null } });
            let _ = works
                .patch(&work.name_any(), &PatchParams::default(), &Patch::Merge(release))
                .await;
            continue;
        }
        let known = work
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        if known
            .iter()
            .any(|condition| condition.observed_generation == work.metadata.generation)
        {
            continue;
        }
        let answer = answers.lock().unwrap_or_else(PoisonError::into_inner)[&member.name].clone();
        // A Work that has changed meanwhile comes again.
        let _ = say(&works, &work, &answer).await;
    }
}

async fn say(works: &Api<Work>, work: &Work, answer: &Answer) -> Result<()> {
    let Some(status) = answer(work) else { return Ok(()) };
    let patch = Patch::Merge(json!({ "status": status }));
    works
        .patch_status(&work.name_any(), &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// Everything is applied and available.
pub fn available(work: &Work) -> Option<Value> {
    Some(json!({ "conditions": [
        condition(work, "Applied", "True", "WorkAppliedCompleted"),
        condition(work, "Available", "True", "WorkAvailable"),
    ], "manifestConditions": [] }))
}

/// Everything is applied, and not yet available.
pub fn applied(work: &Work) -> Option<Value> {
    Some(json!({ "conditions": [
        condition(work, "Applied", "True", "WorkAppliedCompleted"),
        condition(work, "Available", "False", "WorkNotAvailableYet"),
    ], "manifestConditions": [] }))
}

/// No word.
pub fn silent(_: &Work) -> Option<Value> {
    None
}

/// The first `count` manifests cannot be applied.
pub fn failing(work: &Work, count: usize) -> Option<Value> {
    let manifests = work.spec.workload.manifests.iter().take(count).enumerate();
    let failed = manifests.map(|(ordinal, manifest)| {
        json!({
            "identifier": identifier(ordinal, &manifest.to_value()),
            "conditions": [condition(work, "Applied", "False", "ManifestApplyFailed")],
        })
    });
    Some(json!({
        "conditions": [condition(work, "Applied", "False", "WorkNotAllManifestsApplied")],
        "manifestConditions": failed.collect::<Vec<_>>(),
    }))
}

/// Everything is applied and available, and each object of a kind has this status.
pub fn mirrored(work: &Work, kind: &str, status: &Value) -> Option<Value> {
    let mut answer = available(work)?;
    let entries = work.spec.workload.manifests.iter().enumerate();
    let entries = entries.filter_map(|(ordinal, manifest)| {
        let object = manifest.to_value();
        let shown = json!({ "apiVersion": object["apiVersion"], "kind": kind, "status": status });
        (object["kind"] == kind).then(|| {
            json!({
                "identifier": identifier(ordinal, &object),
                "conditions": [],
                "backReportedStatus": { "observedStatus": shown, "observationTime": "2026-01-01T00:00:00Z" },
            })
        })
    });
    answer["manifestConditions"] = entries.collect();
    Some(answer)
}

fn identifier(ordinal: usize, object: &Value) -> Value {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
    json!({
        "ordinal": ordinal, "group": group, "version": version, "kind": text("/kind"),
        "name": text("/metadata/name"), "namespace": text("/metadata/namespace"),
    })
}

/// A condition about a Work as it is now.
pub fn condition(work: &Work, type_: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": "",
        "observedGeneration": work.metadata.generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}
