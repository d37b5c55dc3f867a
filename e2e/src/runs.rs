//! A placement that update runs control, its strategies, runs and approvals, of either scope.

use crate::events::Events;
use crate::harness::{Ctx, Made};
use crate::placements::{Crp, Placement, Rp, core_selector, furnished, whole_namespace};
use crate::played::{Act, Cast};
use crate::wait;
use crate::works::cluster_of;
use anyhow::{Context as _, Result, ensure};
use fleet_api::annotations;
use fleet_api::conditions;
use fleet_api::kind::Kind;
use fleet_api::placement::{ClusterScoped, ClusterUpdatingStatus, Namespaced, Scope, UpdateRunStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One placement and what is about it.
#[derive(Clone, Debug)]
pub struct Story<S: Scope> {
    /// The scenario's.
    pub ctx: Ctx,
    /// The placement.
    pub placement: Placement<S>,
    /// Its namespace, unless it is cluster-scoped.
    pub namespace: Option<String>,
}

impl Story<ClusterScoped> {
    /// The furnished namespace, placed by this policy.
    pub async fn new(ctx: &Ctx, policy: Value) -> Result<Self> {
        let story = Self::without_placement(ctx).await?;
        story.place(policy).await?;
        Ok(story)
    }

    /// The furnished namespace, not placed yet.
    pub async fn without_placement(ctx: &Ctx) -> Result<Self> {
        furnished(ctx).await?;
        Ok(Self {
            ctx: ctx.clone(),
            placement: Crp::named(ctx, &ctx.name("crp")),
            namespace: None,
        })
    }

    /// Places it.
    pub async fn place(&self, policy: Value) -> Result<()> {
        let spec = external(&whole_namespace(self.ctx.prefix()), &policy);
        Crp::create(&self.ctx, "crp", &spec).await?;
        Ok(())
    }
}

impl Story<Namespaced> {
    /// The ConfigMap of the furnished namespace, placed by this policy.
    pub async fn new(ctx: &Ctx, policy: Value) -> Result<Self> {
        let namespace = furnished(ctx).await?;
        let spec = external(&json!([core_selector("ConfigMap", "settings")]), &policy);
        let placement = Rp::create(ctx, &namespace, "rp", &spec).await?;
        Ok(Self {
            ctx: ctx.clone(),
            placement,
            namespace: Some(namespace),
        })
    }
}

fn external(selectors: &Value, policy: &Value) -> Value {
    json!({ "resourceSelectors": selectors, "policy": policy, "strategy": { "type": "External" } })
}

/// A run over these clusters in one stage, one after the other, of which the first has got its resources and says nothing.
pub async fn under_way(ctx: &Ctx, words: &[&str]) -> Result<(Cast, Story<ClusterScoped>, String)> {
    let cast = Cast::new(ctx, &[]).await?;
    for word in words {
        cast.join(word, json!({ "stage": "all" })).await?;
    }
    let story = Story::<ClusterScoped>::new(ctx, cast.everywhere()).await?;
    story.strategy(&json!([stage("all", &json!({}))])).await?;
    cast.act(words, Act::Silent);
    let run = story.run("run", &json!({})).await?;
    story
        .placement
        .until_text_on("\"one\"", &cast.names(&words[..1]))
        .await?;
    Ok((cast, story, run))
}

/// A stage of the clusters with this label.
pub fn stage(name: &str, more: &Value) -> Value {
    let selector = json!({ "matchLabels": { "stage": name } });
    fleet_api::patch::applied(json!({ "name": name, "labelSelector": selector }), more)
}

/// A condition as a line: `Type=Status Reason`.
pub fn line(condition: &Condition) -> String {
    format!("{}={} {}", condition.type_, condition.status, condition.reason)
}

impl<S: Scope> Story<S> {
    /// Creates an object beside the placement.
    async fn create<K: Kind>(&self, word: &str, spec: Value) -> Result<String> {
        self.create_called::<K>(self.ctx.name(word), spec, &[]).await
    }

    async fn create_called<K: Kind>(&self, name: String, spec: Value, settings: &[(&str, &str)]) -> Result<String> {
        let kind = ApiResource::erase::<K>(&());
        let mut object = DynamicObject::new(&name, &kind).data(json!({ "spec": spec }));
        object.metadata.namespace.clone_from(&self.namespace);
        let settings = settings.iter();
        let settings = settings.map(|(key, value)| (format!("{}{key}", annotations::ROLLOUT), (*value).to_owned()));
        object.metadata.annotations = Some(settings.collect());
        let api = self.placement.api::<K>().await?;
        let created = api.create(&PostParams::default(), &object).await;
        created.with_context(|| format!("cannot create {} {name}", kind.kind))?;
        self.ctx.made(Made {
            cluster: "hub".to_owned(),
            kind,
            namespace: self.namespace.clone(),
            name: name.clone(),
        });
        Ok(name)
    }

    /// A strategy with these stages.
    pub async fn strategy(&self, stages: &Value) -> Result<()> {
        self.another_strategy("strategy", stages).await?;
        Ok(())
    }

    /// A strategy beside that one; gives its name.
    pub async fn another_strategy(&self, word: &str, stages: &Value) -> Result<String> {
        self.create::<S::UpdateStrategy>(word, json!({ "stages": stages }))
            .await
    }

    /// A run of the placement by that strategy.
    pub async fn run(&self, word: &str, more: &Value) -> Result<String> {
        self.run_called(&self.ctx.name(word), more).await
    }

    /// A run of this very name.
    pub async fn run_called(&self, name: &str, more: &Value) -> Result<String> {
        self.run_with(name, &[], more).await
    }

    /// A run of this very name with settings, whose keys have no prefix.
    pub async fn run_with(&self, name: &str, settings: &[(&str, &str)], more: &Value) -> Result<String> {
        let spec = json!({
            "placementName": self.placement.name,
            "stagedRolloutStrategyName": self.ctx.name("strategy"),
            "state": "Run",
        });
        self.create_called::<S::UpdateRun>(name.to_owned(), fleet_api::patch::applied(spec, more), settings)
            .await
    }

    /// Edits what a run says, as somebody would who may write its status.
    pub async fn tamper(&self, run: &str, edit: impl FnOnce(&mut Value)) -> Result<()> {
        let runs = self.runs().await?;
        let mut object = runs.get(run).await?;
        edit(&mut object.data["status"]);
        runs.replace_status(run, &PostParams::default(), &object).await?;
        Ok(())
    }

    /// The runs beside the placement.
    pub async fn runs(&self) -> Result<Api<DynamicObject>> {
        self.placement.api::<S::UpdateRun>().await
    }

    /// What a run says now.
    pub async fn status(&self, run: &str) -> Result<UpdateRunStatus> {
        status(&self.runs().await?.get(run).await?)
    }

    /// Changes the state of a run.
    pub async fn set_state(&self, run: &str, state: &str) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": { "state": state } }));
        self.runs().await?.patch(run, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Waits until a run's conditions have this line.
    pub async fn until(&self, run: &str, wanted: &str) -> Result<UpdateRunStatus> {
        let found = wait::until_present(self.runs().await?, run, wanted, |object| {
            let said = status(object).unwrap_or_default().conditions;
            said.iter().any(|condition| line(condition) == wanted)
        })
        .await?;
        status(&found)
    }

    /// Waits until it has succeeded.
    pub async fn until_succeeded(&self, run: &str) -> Result<UpdateRunStatus> {
        self.until(run, "Succeeded=True UpdateRunSucceeded").await
    }

    /// An approval request that no run has made.
    pub async fn request(&self, name: &str, spec: Value) -> Result<()> {
        self.create_called::<S::ApprovalRequest>(name.to_owned(), spec, &[])
            .await?;
        Ok(())
    }

    /// Waits until an approval is asked for.
    pub async fn until_asked(&self, request: &str) -> Result<DynamicObject> {
        let api = self.placement.api::<S::ApprovalRequest>().await?;
        wait::until_present(api, request, "asked for", |_| true).await
    }

    /// Approves a request for this generation.
    pub async fn approve(&self, request: &str, generation: i64) -> Result<()> {
        let approved = json!({
            "type": "Approved", "status": "True", "reason": "Played", "message": "", "observedGeneration": generation,
            "lastTransitionTime": crate::now(),
        });
        let api = self.placement.api::<S::ApprovalRequest>().await?;
        let patch = Patch::Merge(json!({ "status": { "conditions": [approved] } }));
        api.patch_status(request, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Events about an approval request.
    pub async fn events_of(&self, request: &str) -> Result<Events> {
        Events::about(&self.ctx, self.namespace.as_deref(), S::ApprovalRequest::KIND, request).await
    }

    /// Events about a run.
    pub async fn events(&self, run: &str) -> Result<Events> {
        Events::about(&self.ctx, self.namespace.as_deref(), S::UpdateRun::KIND, run).await
    }

    /// Deletes a run and waits until it is gone.
    pub async fn delete(&self, run: &str) -> Result<()> {
        let runs = self.runs().await?;
        runs.delete(run, &DeleteParams::default()).await?;
        wait::until_gone(runs, run).await
    }
}

/// Whether never more than `max` clusters of a stage were under way at a time: from the start that the run says to the answer
/// of the member. The run says the end of a cluster later where its write is refused and tried again, and the binding where
/// it is made anew; the answer has its time once. All of them are whole seconds, so what shares one with the next start is
/// taken for done.
pub async fn within<S: Scope>(placement: &Placement<S>, status: &UpdateRunStatus, max: usize) -> Result<()> {
    let mut answered = BTreeMap::<String, i64>::new();
    for work in placement.works().await? {
        let said = work.status.as_ref().context("the member has answered")?;
        let available = conditions::find(&said.conditions, "Available").context("Available")?;
        let end = answered.entry(cluster_of(&work)).or_insert(i64::MIN);
        *end = (*end).max(available.last_transition_time.0.as_second());
    }
    for stage in &status.stages_status {
        let started = |cluster: &ClusterUpdatingStatus| {
            let condition = conditions::find(&cluster.conditions, "Started");
            condition.map(|condition| condition.last_transition_time.0.as_second())
        };
        for cluster in &stage.clusters {
            let at = started(cluster).context("Started")?;
            let others = stage.clusters.iter().filter(|other| {
                let end = answered.get(&other.cluster_name);
                started(other).is_some_and(|began| began <= at) && end.is_none_or(|end| *end > at)
            });
            let others = others.filter(|other| other.cluster_name != cluster.cluster_name);
            let count = others.count() + 1;
            ensure!(count <= max, "{count} at once, not {max}: {stage:?} {answered:?}");
        }
    }
    Ok(())
}

fn status(run: &DynamicObject) -> Result<UpdateRunStatus> {
    Ok(serde_json::from_value(
        run.data.get("status").cloned().unwrap_or_else(|| json!({})),
    )?)
}
