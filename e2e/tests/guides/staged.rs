//! "Troubleshooting ClusterStagedUpdateRun", of 2026: every output that it shows. That of 2025 shows the same ones in the words
//! of its time (`of_2025`).

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{
    ClusterApprovalRequest, ClusterResourceBinding, ClusterStagedUpdateRun, ClusterStagedUpdateStrategy,
};
use fleet_e2e::agents::with_hub_flags;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, bound, config_map, whole_namespace};
use fleet_e2e::played::affinity;
use fleet_e2e::plugin;
use fleet_e2e::runs::line;
use fleet_e2e::wait;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::concepts::label;
use crate::sample;

const RUNS: &str = "clusterstagedupdateruns.v1beta1.placement.kubernetes-fleet.io";
const BINDINGS: &str = "clusterresourcebindings.v1beta1.placement.kubernetes-fleet.io";
const REQUESTS: &str = "clusterapprovalrequests.v1beta1.placement.kubernetes-fleet.io";

/// The guide's namespace, strategy and placement, with both members.
pub(crate) struct Guide {
    ctx: Ctx,
    pub(crate) crp: Crp,
    /// What the guide has instead of our names.
    pub(crate) names: Vec<(String, String)>,
}

/// A Deployment that never becomes available: no node has what it asks for.
pub(crate) fn nginx(name: &str) -> Value {
    let labels = json!({ "app": "nginx" });
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name }, "spec": {
        "replicas": 3, "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": {
            "nodeSelector": { "example.com/none": "none" }, "containers": [{ "name": "nginx", "image": "nginx" }],
        } },
    } })
}

impl Guide {
    pub(crate) async fn new(ctx: &Ctx, staging: &Value) -> Result<Self> {
        for (member, stage) in [("member-1", "canary"), ("member-2", "staging")] {
            label(ctx, member, &json!({ "guide": ctx.prefix(), "stage": stage })).await?;
        }
        let namespace = ctx.another_namespace("hub", "test-namespace").await?;
        ctx.create_in("hub", &namespace, config_map("settings", "one")).await?;
        let stage = |name: &str| json!({ "name": name, "labelSelector": { "matchLabels": { "stage": name } } });
        let staging = fleet_api::patch::applied(stage("staging"), staging);
        let strategy = json!({
            "metadata": { "name": ctx.name("example-strategy") }, "spec": { "stages": [staging, stage("canary")] },
        });
        ctx.create::<ClusterStagedUpdateStrategy>("hub", serde_json::from_value(strategy)?)
            .await?;
        let spec = json!({
            "resourceSelectors": whole_namespace(&namespace), "strategy": { "type": "External" },
            "policy": { "placementType": "PickAll", "affinity": affinity(&[("guide", ctx.prefix())]) },
        });
        let crp = Crp::create(ctx, "example-placement", &spec).await?;
        let mut bindings = crp.until_bindings("two", |all| all.len() == 2).await?;
        bindings.sort_by_key(|binding| binding.spec.target_cluster.clone());
        let theirs = [
            "example-placement-member1-9a1ee3a0",
            "example-placement-member2-e1a567da",
        ];
        let mut names: Vec<_> = bindings
            .iter()
            .map(kube::ResourceExt::name_any)
            .zip(theirs.map(str::to_owned))
            .collect();
        names.push((format!("{}-", ctx.prefix()), String::new()));
        names.extend(["1", "2"].map(|n| (format!("member-{n}"), format!("member{n}"))));
        Ok(Self {
            ctx: ctx.clone(),
            crp,
            names,
        })
    }

    fn names(&self) -> Vec<(&str, &str)> {
        self.names
            .iter()
            .map(|(from, to)| (from.as_str(), to.as_str()))
            .collect()
    }

    pub(crate) async fn run(&self, word: &str, more: &Value) -> Result<String> {
        let spec = json!({
            "placementName": self.crp.name, "stagedRolloutStrategyName": self.ctx.name("example-strategy"),
        });
        let run = json!({
            "metadata": { "name": self.ctx.name(word) }, "spec": fleet_api::patch::applied(spec, more),
        });
        let run: ClusterStagedUpdateRun = self.ctx.create("hub", serde_json::from_value(run)?).await?;
        Ok(run.name_any())
    }

    async fn set_state(&self, run: &str, state: &str) -> Result<()> {
        let runs = Api::<ClusterStagedUpdateRun>::all(self.ctx.hub().await?);
        let patch = Patch::Merge(json!({ "spec": { "state": state } }));
        runs.patch(run, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Waits until a run says this.
    pub(crate) async fn until(&self, run: &str, wanted: &str) -> Result<ClusterStagedUpdateRun> {
        let runs = Api::<ClusterStagedUpdateRun>::all(self.ctx.hub().await?);
        wait::until_present(runs, run, wanted, |run| {
            let said = run.status.as_ref().map(|status| status.conditions.as_slice());
            said.unwrap_or_default()
                .iter()
                .any(|condition| line(condition) == wanted)
        })
        .await
    }

    /// A run without an index makes the first snapshot.
    async fn snapshot(&self, word: &str) -> Result<()> {
        let run = self.run(word, &json!({})).await?;
        self.until(&run, "Initialized=True UpdateRunInitializedSuccessfully")
            .await?;
        Ok(())
    }

    /// Something that never becomes available.
    async fn breaks(&self) -> Result<()> {
        let namespace = self.ctx.name("test-namespace");
        self.ctx
            .create_in::<Deployment>("hub", &namespace, serde_json::from_value(nginx("nginx-deployment"))?)
            .await?;
        Ok(())
    }

    /// Waits until the placement shows what has failed.
    pub(crate) async fn until_failed(&self) -> Result<()> {
        self.crp
            .until("the failed Deployment", |crp| {
                let entries = crp.status.iter().flat_map(|status| &status.placement_statuses);
                entries.into_iter().any(|entry| !entry.failed_placements.is_empty())
            })
            .await?;
        Ok(())
    }

    async fn yaml(&self, kind: &str, name: &str) -> Result<String> {
        self.ctx.kubectl("hub")?.ok(&["get", kind, name, "-o", "yaml"]).await
    }

    async fn shows(&self, kind: &str, name: &str, sample: &str) -> Result<()> {
        sample::shows_part(&self.yaml(kind, name).await?, sample, &self.names())
    }

    pub(crate) async fn describes(&self, kind: &str, name: &str, sample: &str) -> Result<()> {
        let printed = self.ctx.kubectl("hub")?.ok(&["describe", kind, name]).await?;
        sample::describes_part(&printed, sample, &self.names())
    }

    async fn tabulates(&self, args: &[&str], sample: &str) -> Result<()> {
        let printed = self.ctx.kubectl("hub")?.ok(&[&["get"], args].concat()).await?;
        sample::tabulates(&printed, sample, &self.names())
    }

    /// What the guide is for, said by one command.
    pub(crate) async fn why(&self, object: &str, words: &[&str]) -> Result<()> {
        let said = plugin::fleet(&self.ctx, &["why", object]).await?;
        said.ends_with(3)?.shows(words)?;
        Ok(())
    }

    pub(crate) async fn end(self) -> Result<()> {
        let none = json!({ "guide": null, "stage": null });
        label(&self.ctx, "member-1", &none).await?;
        label(&self.ctx, "member-2", &none).await
    }
}

#[test]
fn before_and_at_the_beginning_of_a_run() {
    scenario("guide-begin", |ctx| async move {
        let guide = Guide::new(&ctx, &json!({})).await?;
        guide.crp.until_step("RolloutStarted", "Unknown").await?;
        guide
            .describes("crp", &guide.crp.name, include_str!("samples/external.describe.txt"))
            .await?;
        let cause = "the strategy is External: nothing is rolled out until somebody creates an update run";
        let crp = format!("crp/{}", guide.crp.name);
        guide.why(&crp, &[cause, "next: kubectl create -f - <<< "]).await?;
        guide.snapshot("first").await?;
        let run = guide
            .run("example-run", &json!({ "resourceSnapshotIndex": "1" }))
            .await?;
        guide
            .until(&run, "Initialized=False UpdateRunInitializedFailed")
            .await?;
        guide
            .tabulates(&["csur", &run], include_str!("samples/run-not-initialized.get.txt"))
            .await?;
        guide
            .describes(RUNS, &run, include_str!("samples/run-not-initialized.describe.txt"))
            .await?;
        let cause = "the placement has no resource snapshot of that index";
        let next = format!("next: kubectl get clusterresourcesnapshots -l {}", guide.crp.selector());
        guide.why(&format!("csur/{run}"), &[cause, &next]).await?;

        let index = |state: &str| json!({ "resourceSnapshotIndex": "0", "state": state });
        let run = guide.run("initialize", &index("Initialize")).await?;
        guide
            .until(&run, "Initialized=True UpdateRunInitializedSuccessfully")
            .await?;
        guide
            .shows(RUNS, &run, include_str!("samples/run-initialize.yaml"))
            .await?;
        let resume = |run: &str| format!("next: kubectl patch csur/{run} --type merge --patch ");
        let cause = "the run has its plan and waits for spec.state: Run";
        guide.why(&format!("csur/{run}"), &[cause, &resume(&run)]).await?;
        let run = guide.run("stop", &index("Stop")).await?;
        let stopped = guide.until(&run, "Progressing=False UpdateRunStopped").await?;
        guide.shows(RUNS, &run, include_str!("samples/run-stop.yaml")).await?;
        let cause = "somebody has stopped the run";
        guide.why(&format!("csur/{run}"), &[cause, &resume(&run)]).await?;
        let said = stopped.status.unwrap_or_default().conditions;
        ensure!(said[0].last_transition_time == said[1].last_transition_time, "{said:?}");
        guide.end().await
    });
}

#[test]
fn a_placement_that_is_deleted_under_a_run() {
    scenario("guide-failed", |ctx| async move {
        let gate = json!({ "beforeStageTasks": [{ "type": "Approval" }] });
        let guide = Guide::new(&ctx, &gate).await?;
        guide.snapshot("first").await?;
        let run = guide
            .run("example-run", &json!({ "resourceSnapshotIndex": "0" }))
            .await?;
        guide
            .until(&run, "Initialized=True UpdateRunInitializedSuccessfully")
            .await?;
        guide.set_state(&run, "Run").await?;
        guide.until(&run, "Progressing=False UpdateRunWaiting").await?;
        guide.crp.delete().await?;
        guide.until(&run, "Succeeded=False UpdateRunFailed").await?;
        guide.shows(RUNS, &run, include_str!("samples/run-failed.yaml")).await?;
        guide
            .tabulates(&["csur", &run], include_str!("samples/run-failed.get.txt"))
            .await?;
        let words = [
            "the placement does not exist any more",
            "the run cannot go on: create another",
            "next: kubectl get crp; kubectl get rp -A",
        ];
        guide.why(&format!("csur/{run}"), &words).await?;
        guide.end().await
    });
}

#[test]
fn another_run_takes_a_cluster_over() {
    scenario("guide-preempted", |ctx| async move {
        let guide = Guide::new(&ctx, &json!({})).await?;
        guide.breaks().await?;
        let run = guide.run("example-run", &json!({ "state": "Run" })).await?;
        guide.until(&run, "Progressing=True UpdateRunProgressing").await?;
        guide.crp.until_works("started", |works| works.len() == 1).await?;
        guide_change(&guide).await?;
        let other = guide.run("example-run-1", &json!({ "state": "Run" })).await?;
        guide.until(&run, "Succeeded=False UpdateRunFailed").await?;
        guide
            .shows(RUNS, &run, include_str!("samples/run-preempted.yaml"))
            .await?;
        let next = format!("next: kubectl fleet why csur/{other}");
        let words = ["the run cannot go on: create another", &next];
        guide.why(&format!("csur/{run}"), &words).await?;
        let applied = |binding: &ClusterResourceBinding| bound(binding, "Applied").is_some_and(|c| c.status == "True");
        let bindings = guide
            .crp
            .until_bindings("applied on member-2", |all| all.iter().any(applied))
            .await?;
        let selector = guide.crp.selector();
        let table = [BINDINGS, "--selector", &selector, "--sort-by", ".spec.targetCluster"];
        guide
            .tabulates(&table, include_str!("samples/bindings.get.txt"))
            .await?;
        let binding = bindings.into_iter().find(applied).context("the binding of member-2")?;
        guide
            .shows(
                BINDINGS,
                &binding.name_any(),
                include_str!("samples/binding-preempted.yaml"),
            )
            .await?;
        guide.end().await
    });
}

/// Another version of what is placed.
async fn guide_change(guide: &Guide) -> Result<()> {
    let maps = Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(
        guide.ctx.hub().await?,
        &guide.ctx.name("test-namespace"),
    );
    let patch = Patch::Merge(json!({ "data": { "key": "two" } }));
    maps.patch("settings", &PatchParams::default(), &patch).await?;
    Ok(())
}

#[test]
fn a_run_that_is_stuck() {
    scenario("guide-stuck", |ctx| async move {
        with_hub_flags(ctx.fleet(), &["--update-run-stuck-threshold=5s"], async || {
            let guide = Guide::new(&ctx, &json!({})).await?;
            guide.snapshot("first").await?;
            guide.breaks().await?;
            let run = guide.run("example-run", &json!({})).await?;
            guide
                .until(&run, "Initialized=True UpdateRunInitializedSuccessfully")
                .await?;
            guide.set_state(&run, "Run").await?;
            guide.until(&run, "Progressing=False UpdateRunStuck").await?;
            guide.shows(RUNS, &run, include_str!("samples/run-stuck.yaml")).await?;
            guide.until_failed().await?;
            let sample = include_str!("samples/stuck-placement.describe.txt");
            guide.describes("crp", &guide.crp.name, sample).await?;
            let namespace = ctx.name("test-namespace");
            let next =
                format!("next: kubectl --context member-2 describe deployment.apps/nginx-deployment -n {namespace}");
            let words = [
                "FAILED stage staging",
                "stuck: member-2",
                "applied, but not available yet",
                &next,
            ];
            guide.why(&format!("csur/{run}"), &words).await?;
            guide.end().await
        })
        .await
    });
}

#[test]
fn an_approval_of_another_generation() {
    scenario("guide-approval", |ctx| async move {
        let gate = json!({ "afterStageTasks": [{ "type": "Approval" }] });
        let guide = Guide::new(&ctx, &gate).await?;
        let run = guide.run("example-run", &json!({ "state": "Run" })).await?;
        let request = format!("{run}-after-staging");
        let requests = Api::<ClusterApprovalRequest>::all(ctx.hub().await?);
        wait::until_present(requests.clone(), &request, "asked for", |_| true).await?;
        let approved = json!({ "status": { "conditions": [{
            "type": "Approved", "status": "True", "reason": "approved", "message": "approved", "observedGeneration": 0,
            "lastTransitionTime": fleet_e2e::now(),
        }] } });
        requests
            .patch_status(&request, &PatchParams::default(), &Patch::Merge(approved))
            .await?;
        guide.until(&run, "Progressing=False UpdateRunWaiting").await?;
        guide
            .shows(RUNS, &run, include_str!("samples/run-waiting.yaml"))
            .await?;
        guide
            .shows(REQUESTS, &request, include_str!("samples/approval-stale.yaml"))
            .await?;
        let cause = format!(
            "the approval of {request} does not count: it is for generation 0, and the request has generation 1"
        );
        let next = format!("next: kubectl fleet approve clusterapprovalrequest --name {request}");
        guide.why(&format!("csur/{run}"), &[&cause, &next]).await?;
        let right = json!({ "status": { "conditions": [{
            "type": "Approved", "status": "True", "reason": "approved", "message": "approved", "observedGeneration": 1,
            "lastTransitionTime": fleet_e2e::now(),
        }] } });
        requests
            .patch_status(&request, &PatchParams::default(), &Patch::Merge(right))
            .await?;
        guide.until(&run, "Succeeded=True UpdateRunSucceeded").await?;
        guide.end().await
    });
}
