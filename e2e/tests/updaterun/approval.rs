//! Who approves, with what, and what counts as an approval.

use std::path::PathBuf;
use std::process::Output;

use anyhow::{Context as _, Result, ensure};
use fleet_api::conditions;
use fleet_api::kind::Kind;
use fleet_api::placement::{ApprovalRequestStatus, ClusterScoped, Namespaced, Scope};
use fleet_e2e::agents::{self, NAMESPACE, program};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::played::Cast;
use fleet_e2e::runs::{Story, stage};
use fleet_e2e::wait;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tokio::process::Command;

/// Somebody who has the chart's role for approving, and nothing else.
struct Approver {
    kubeconfig: PathBuf,
    client: Client,
    namespace: Option<String>,
}

impl Approver {
    async fn new(ctx: &Ctx, namespace: Option<&str>) -> Result<Self> {
        let name = ctx.name("approver");
        let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        ctx.create_in("hub", NAMESPACE, account).await?;
        let binding = json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "fleet-approver" },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": NAMESPACE }],
        });
        match namespace {
            None => {
                ctx.create::<ClusterRoleBinding>("hub", serde_json::from_value(binding)?)
                    .await?;
            }
            Some(namespace) => {
                ctx.create_in::<RoleBinding>("hub", namespace, serde_json::from_value(binding)?)
                    .await?;
            }
        }
        let kubeconfig = agents::kubeconfig_of(ctx.fleet(), "hub", &name, &name).await?;
        let config =
            Config::from_custom_kubeconfig(Kubeconfig::read_from(&kubeconfig)?, &KubeConfigOptions::default()).await?;
        Ok(Self {
            kubeconfig,
            client: Client::try_from(config)?,
            namespace: namespace.map(str::to_owned),
        })
    }

    /// Objects of a kind, as the approver sees them.
    fn api<K: Kind>(&self) -> Api<DynamicObject> {
        let (client, kind) = (self.client.clone(), ApiResource::erase::<K>(&()));
        match &self.namespace {
            None => Api::all_with(client, &kind),
            Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        }
    }

    /// `kubectl fleet approve`.
    async fn approve(&self, args: &[&str]) -> Result<Output> {
        let mut command = Command::new(program("kubectl-fleet")?);
        command.env("KUBECONFIG", &self.kubeconfig).arg("approve").args(args);
        if let Some(namespace) = &self.namespace {
            command.args(["--namespace", namespace]);
        }
        Ok(command.kill_on_drop(true).output().await?)
    }
}

fn is_forbidden<T>(answer: kube::Result<T>) -> Result<()> {
    let refused = answer.err().context("the approver may do more than approve")?;
    ensure!(refused.to_string().contains("forbidden"), "{refused}");
    Ok(())
}

fn said(request: &DynamicObject) -> Result<ApprovalRequestStatus> {
    let status = request.data.get("status").cloned().unwrap_or_else(|| json!({}));
    Ok(serde_json::from_value(status)?)
}

async fn approved_by_the_command<S: Scope>(story: &Story<S>, kind: &str, title: &str) -> Result<()> {
    let gate = json!({ "beforeStageTasks": [{ "type": "Approval" }] });
    story.strategy(&json!([stage("all", &gate)])).await?;
    let run = story.run("run", &json!({})).await?;
    let request = format!("{run}-before-all");
    story.until_asked(&request).await?;
    let approver = Approver::new(&story.ctx, story.namespace.as_deref()).await?;
    let requests = approver.api::<S::ApprovalRequest>();
    // The API server takes new rights up a moment later.
    wait::until_list(requests.clone(), "the approver may read requests", |_| true).await?;

    // What is not there is said, as scripts know it.
    let output = approver.approve(&[kind, "--name", "none"]).await?;
    let complaint = String::from_utf8(output.stderr)?;
    let missing = title.replace("{}", "none");
    let error = format!("failed to approve {missing}: failed to get {missing}: ");
    ensure!(output.status.code() == Some(1), "{:?}", output.status);
    ensure!(complaint.starts_with(&format!("Error: {error}")), "{complaint}");
    ensure!(complaint.contains("\"none\" not found"), "{complaint}");
    let last = complaint.lines().last().unwrap_or_default();
    ensure!(
        last.contains(&format!(" Error executing command: {error}")),
        "{complaint}"
    );

    // An approval by hand of another generation counts for nothing; the command makes it right.
    story.approve(&request, 0).await?;
    let told = ["observedGeneration 0, want 1"];
    let events = story.events_of(&request).await?;
    events.until("UpdateRunApprovalStale", &told).await?;
    let output = approver.approve(&[kind, "--name", &request]).await?;
    let printed = String::from_utf8(output.stderr)?;
    ensure!(output.status.success() && output.stdout.is_empty(), "{printed}");
    let line = format!(" {} approved successfully", title.replace("{}", &request));
    ensure!(
        printed.lines().count() == 1 && printed.trim_end().ends_with(&line),
        "{printed}"
    );
    story.until_succeeded(&run).await?;
    let object = requests.get(&request).await?;
    let status = said(&object)?;
    let reason = format!("{}Approved", S::ApprovalRequest::KIND);
    let condition = conditions::fresh(&status.conditions, "Approved", 1).context("Approved")?;
    ensure!(condition.reason == reason, "{condition:?}");
    ensure!(
        conditions::is_true(&status.conditions, "ApprovalAccepted", 1),
        "{status:?}"
    );

    // And nothing else.
    let annotate = Patch::Merge(json!({ "metadata": { "annotations": { "example.com/note": "mine" } } }));
    let params = PatchParams::default();
    is_forbidden(requests.patch(&request, &params, &annotate).await)?;
    is_forbidden(requests.delete(&request, &DeleteParams::default()).await)?;
    let mut another = DynamicObject::new("another", &ApiResource::erase::<S::ApprovalRequest>(&()));
    another.data = json!({ "spec": { "parentStageRollout": run, "targetStage": "all" } });
    is_forbidden(requests.create(&PostParams::default(), &another).await)?;
    let stop = Patch::Merge(json!({ "spec": { "state": "Stop" } }));
    is_forbidden(approver.api::<S::UpdateRun>().patch(&run, &params, &stop).await)?;
    is_forbidden(
        approver
            .api::<S::UpdateRun>()
            .patch_status(&run, &params, &annotate)
            .await,
    )?;
    is_forbidden(approver.api::<S::Binding>().list(&ListParams::default()).await)?;
    is_forbidden(approver.api::<S::Placement>().list(&ListParams::default()).await)?;
    Ok(())
}

async fn one_cluster(ctx: &Ctx) -> Result<Cast> {
    let cast = Cast::new(ctx, &[]).await?;
    cast.join("a", json!({ "stage": "all" })).await?;
    Ok(cast)
}

#[test]
fn who_may_only_approve_approves_with_the_command_and_does_nothing_else() {
    scenario("run-approver", |ctx| async move {
        let cast = one_cluster(&ctx).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        approved_by_the_command(&story, "careq", "ClusterApprovalRequest \"{}\"").await
    });
}

#[test]
fn the_same_in_a_namespace() {
    scenario("run-narrow-approver", |ctx| async move {
        let cast = one_cluster(&ctx).await?;
        let story = Story::<Namespaced>::new(&ctx, cast.everywhere()).await?;
        let title = format!("ApprovalRequest \"{{}}\" in namespace {:?}", ctx.prefix());
        approved_by_the_command(&story, "ApprovalRequest", &title).await
    });
}

#[test]
fn an_accepted_approval_cannot_be_taken_back() {
    scenario("run-accepted", |ctx| async move {
        let cast = one_cluster(&ctx).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        let gates = json!({
            "beforeStageTasks": [{ "type": "Approval" }], "afterStageTasks": [{ "type": "Approval" }],
        });
        story.strategy(&json!([stage("all", &gates)])).await?;
        let run = story.run("run", &json!({})).await?;
        let (before, after) = (format!("{run}-before-all"), format!("{run}-after-all"));
        story.until_asked(&before).await?;
        story.approve(&before, 1).await?;
        story.until_asked(&after).await?;
        let requests = story
            .placement
            .api::<<ClusterScoped as Scope>::ApprovalRequest>()
            .await?;
        // Neither by reverting it nor by deleting the request.
        let reverted = json!({ "status": { "conditions": [] } });
        requests
            .patch_status(&before, &PatchParams::default(), &Patch::Merge(reverted))
            .await?;
        requests.delete(&before, &DeleteParams::default()).await?;
        story.approve(&after, 1).await?;
        story.until_succeeded(&run).await?;
        ensure!(requests.get_opt(&before).await?.is_none(), "it was asked for again");
        Ok(())
    });
}

#[test]
fn a_request_of_that_name_for_something_else_ends_the_run() {
    scenario("run-foreign", |ctx| async move {
        let cast = one_cluster(&ctx).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        let gate = json!({ "beforeStageTasks": [{ "type": "Approval" }] });
        story.strategy(&json!([stage("all", &gate)])).await?;
        let request = format!("{}-before-all", ctx.name("run"));
        let foreign = json!({ "parentStageRollout": "somebody", "targetStage": "prod" });
        story.request(&request, foreign).await?;
        let run = story.run("run", &json!({})).await?;
        let status = story.until(&run, "Succeeded=False UpdateRunFailed").await?;
        let said = format!(
            "cannot continue the updateRun: unexpected behavior which cannot be handled by the controller: the approval \
             request task `/{request}` is targeting update run `/somebody` and stage `prod`, want target update run `/{run} \
             and stage `all`"
        );
        ensure!(status.conditions[2].message == said, "{:?}", status.conditions);
        let stage = &status.stages_status[0];
        ensure!(
            stage.clusters[0].conditions.is_empty() && stage.start_time.is_none(),
            "{stage:?}"
        );
        let task = &stage.before_stage_task_status[0].conditions;
        ensure!(
            matches!(&task[..], [created] if created.type_ == "ApprovalRequestCreated" && created.status == "True"),
            "{task:?}"
        );
        story.placement.until_text_on("\"one\"", &[]).await?;
        // It is somebody else's, and stays.
        story.delete(&run).await?;
        let requests = story
            .placement
            .api::<<ClusterScoped as Scope>::ApprovalRequest>()
            .await?;
        ensure!(
            requests.get_opt(&request).await?.is_some(),
            "it was deleted with the run"
        );
        Ok(())
    });
}
