//! Staged update runs: on three real members, one a stage; on simulated ones, a hundred a stage, and back again; and over
//! all of them.

mod back;
mod crowd;
mod real;

use std::time::Duration;

use anyhow::Result;
use fleet_api::annotations::ROLLOUT;
use fleet_api::conditions;
use fleet_api::placement::{ClusterScoped, Scope, UpdateRunStatus};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::object::HasStatus as _;
use kube::{Client, Resource as _};
use serde_json::{Value, json};

use super::application::{Application, State, is};
use super::figures::Row;
use super::hub::Hub;
use super::simulated::STAGE;
use super::times::times;
use super::{Part, Settings};

type Run = <ClusterScoped as Scope>::UpdateRun;
type Strategy = <ClusterScoped as Scope>::UpdateStrategy;
type Approval = <ClusterScoped as Scope>::ApprovalRequest;

/// What follows at once (statuses, Events) is done by then.
const AFTERMATH: Duration = Duration::from_secs(2);

/// All of it.
pub async fn measure(hub: &Hub, settings: Settings) -> Result<Vec<Row>> {
    let mut rows = real::measure(hub).await?;
    rows.extend(crowd::measure(hub, settings).await?);
    Ok(rows)
}

fn row(what: impl Into<String>, value: f64, unit: &str) -> Row {
    Row::new(Part::Run, what, value, unit)
}

/// A stage of the clusters with this label.
fn stage(name: &str, more: &Value) -> Value {
    let stage = json!({"name": name, "labelSelector": {"matchLabels": {STAGE: name}}});
    fleet_api::patch::applied(stage, more)
}

/// A task that waits for somebody's approval.
fn approval() -> Value {
    json!([{"type": "Approval"}])
}

/// Strategies, runs and approvals on the hub.
struct Runs {
    client: Client,
}

impl Runs {
    fn api(&self) -> Api<Run> {
        Api::all(self.client.clone())
    }

    /// A strategy with these stages.
    async fn strategy(&self, name: &str, stages: &Value) -> Result<()> {
        self.strategy_with(name, stages, &[]).await
    }

    /// A strategy with these stages and settings.
    async fn strategy_with(&self, name: &str, stages: &Value, settings: &[(&str, &str)]) -> Result<()> {
        let settings = settings
            .iter()
            .map(|(key, value)| (format!("{ROLLOUT}{key}"), json!(value)));
        let settings: serde_json::Map<_, _> = settings.collect();
        let metadata = json!({"name": name, "annotations": settings});
        let object: Strategy = serde_json::from_value(json!({"metadata": metadata, "spec": {"stages": stages}}))?;
        Api::all(self.client.clone())
            .create(&PostParams::default(), &object)
            .await?;
        Ok(())
    }

    /// Creates a run of a placement, and says when each of these was seen of it.
    async fn begin<const N: usize>(
        &self,
        name: &str,
        placement: &str,
        strategy: &str,
        wanted: [&(dyn Fn(&UpdateRunStatus) -> bool + Sync); N],
    ) -> Result<[f64; N]> {
        self.times(name, wanted, self.create(name, placement, strategy, "Run"))
            .await
    }

    async fn create(&self, name: &str, placement: &str, strategy: &str, state: &str) -> Result<()> {
        let spec = json!({"placementName": placement, "stagedRolloutStrategyName": strategy, "state": state});
        let object: Run = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
        self.api().create(&PostParams::default(), &object).await?;
        Ok(())
    }

    /// When each of these was first seen of a run, in seconds since `act` began.
    async fn times<const N: usize>(
        &self,
        name: &str,
        wanted: [&(dyn Fn(&UpdateRunStatus) -> bool + Sync); N],
        act: impl Future<Output = Result<()>>,
    ) -> Result<[f64; N]> {
        let seen =
            wanted.map(|wanted| move |run: Option<&Run>| run.is_some_and(|run| run.status().is_some_and(wanted)));
        let seen = seen.each_ref().map(|seen| seen as super::times::Wanted<'_, Run>);
        times(self.api(), name, seen, act).await
    }

    /// Changes the state of a run.
    async fn set_state(&self, name: &str, state: &str) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"state": state}}));
        self.api().patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Approves a request.
    async fn approve(&self, request: &str) -> Result<()> {
        let api: Api<Approval> = Api::all(self.client.clone());
        let generation = api.get(request).await?.meta().generation.unwrap_or_default();
        let condition = json!({
            "type": "Approved", "status": "True", "reason": "bench", "message": "go on",
            "observedGeneration": generation, "lastTransitionTime": super::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        });
        let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        api.patch_status(request, &PatchParams::default(), &patch).await?;
        Ok(())
    }
}

/// An application that update runs place, once clusters are picked for it.
async fn placed(hub: &Hub, name: String, policy: &Value, deployment: bool) -> Result<Application> {
    let app = Application::create(&hub.client, name, deployment).await?;
    let scheduled: &(dyn Fn(State<'_>) -> bool + Sync) = &|state| is(state, "Scheduled");
    let strategy = json!({"type": "External"});
    app.times([scheduled], app.place_by(policy, &strategy)).await?;
    Ok(app)
}

/// Whether a run has its plan.
fn is_initialized(status: &UpdateRunStatus) -> bool {
    conditions::find(&status.conditions, "Initialized").is_some_and(|condition| condition.status == "True")
}

/// Whether a run has ended well.
fn has_succeeded(status: &UpdateRunStatus) -> bool {
    let found = conditions::find(&status.conditions, "Succeeded");
    found.is_some_and(|condition| condition.status == "True")
}

/// Whether the run says this of its progress.
fn is_progressing(status: &UpdateRunStatus, reason: &str) -> bool {
    let found = conditions::find(&status.conditions, "Progressing");
    found.is_some_and(|condition| condition.reason == reason)
}

/// Whether a stage has begun a cluster.
fn has_begun(status: &UpdateRunStatus, stage: usize) -> bool {
    let clusters = status.stages_status.get(stage).map_or(&[][..], |stage| &stage.clusters);
    clusters
        .iter()
        .any(|cluster| conditions::find(&cluster.conditions, "Started").is_some_and(|c| c.status == "True"))
}
