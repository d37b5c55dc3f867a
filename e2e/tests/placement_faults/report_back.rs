//! Reporting back on hubs of different sorts: without controllers of its own for what is placed, with them, and with an
//! agent that may not.

use anyhow::{Result, ensure};
use fleet_e2e::agents::with_hub_values;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, core_selector};
use fleet_e2e::played::Cast;
use fleet_e2e::wait;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::CronJob;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

const CONTROLLERS: &str = "hub/kube-controller-manager";

fn spec(namespace: &str, cluster: &str) -> Value {
    json!({
        "resourceSelectors": [core_selector("Namespace", namespace)],
        "policy": { "placementType": "PickFixed", "clusterNames": [cluster] },
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": { "maxUnavailable": "100%", "unavailablePeriodSeconds": 0 },
            "reportBackStrategy": { "type": "Mirror", "destination": "OriginalResource" },
        },
    })
}

fn deployment(replicas: i32) -> Result<Deployment> {
    let labels = json!({ "app": "web" });
    let pod = json!({ "containers": [{ "name": "main", "image": "example.com/image:1" }] });
    Ok(serde_json::from_value(json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": pod },
        },
    }))?)
}

async fn deployments(ctx: &Ctx, cluster: &str, namespace: &str) -> Result<Api<Deployment>> {
    Ok(Api::namespaced(ctx.client(cluster).await?, namespace))
}

/// Waits until so many replicas run on the member, and the hub says the same in the same words.
async fn until_alike(ctx: &Ctx, namespace: &str, replicas: i32) -> Result<()> {
    let there = deployments(ctx, "member-1", namespace).await?;
    let settled = |deployment: &Deployment| {
        let status = deployment.status.clone().unwrap_or_default();
        let mut conditions = status.conditions.unwrap_or_default().into_iter();
        status.available_replicas == Some(replicas)
            && status.observed_generation == deployment.metadata.generation
            && conditions.any(|c| c.reason.as_deref() == Some("NewReplicaSetAvailable"))
    };
    let what = format!("{replicas} replicas");
    let there = wait::until_present(there, "web", &what, settled).await?;
    let here = deployments(ctx, "hub", namespace).await?;
    wait::until_present(here, "web", &format!("{what} on the hub"), |here| {
        here.status == there.status
    })
    .await?;
    Ok(())
}

async fn scale(ctx: &Ctx, namespace: &str, replicas: i32) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    let here = deployments(ctx, "hub", namespace).await?;
    here.patch("web", &PatchParams::default(), &patch).await?;
    Ok(())
}

/// A hub that manages a fleet runs no workloads. Here its controllers are asleep for a while; once they wake up they see to
/// the Deployment themselves, and whoever placed it is told who writes beside the agent.
#[test]
fn a_deployment_shows_its_members_status_until_somebody_else_writes_it() {
    scenario("report-workload", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        ctx.fleet().kill(CONTROLLERS).await?;
        let story = async || {
            ctx.create_in("hub", &namespace, deployment(2)?).await?;
            let crp = Crp::create(&ctx, "crp", &spec(&namespace, "member-1")).await?;
            until_alike(&ctx, &namespace, 2).await?;
            scale(&ctx, &namespace, 3).await?;
            until_alike(&ctx, &namespace, 3).await?;
            anyhow::Ok(crp)
        };
        let outcome = story().await;
        ctx.fleet().start_again(CONTROLLERS).await?;
        let crp = outcome?;

        let here = deployments(&ctx, "hub", &namespace).await?;
        wait::until_present(here, "web", "seen to by the hub's own controller", |deployment| {
            let fields = deployment.managed_fields().iter();
            let status = fields.filter(|entry| entry.subresource.as_deref() == Some("status"));
            status
                .into_iter()
                .any(|e| e.manager.as_deref() == Some("kube-controller-manager"))
        })
        .await?;
        scale(&ctx, &namespace, 4).await?;
        let events = crp.until_event("PlacementStatusContested").await?;
        let expected = format!(
            "kube-controller-manager also writes the status of Deployment \"web\" in namespace \"{namespace}\" on the hub; \
             let only one of the two do so"
        );
        ensure!(
            events.iter().any(|event| event.message.as_deref() == Some(&expected)),
            "{events:?}"
        );
        Ok(())
    });
}

#[test]
fn an_agent_without_the_right_to_report_back_says_so_and_does_once_it_has_it() {
    scenario("report-right", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let pod =
            json!({ "restartPolicy": "Never", "containers": [{ "name": "main", "image": "example.com/image:1" }] });
        let job: CronJob = serde_json::from_value(json!({ "metadata": { "name": "web" }, "spec": {
            "schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": { "spec": { "template": { "spec": pod } } },
        } }))?;
        ctx.create_in("hub", &namespace, job).await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        let status = json!({ "lastScheduleTime": "2026-01-01T00:00:00Z" });
        cast.show("CronJob", &status);
        // As in a new release.
        let off = json!({ "reportBack": null });
        with_hub_values(ctx.fleet(), &off, &[] as &[&str], async || {
            let crp = Crp::create(&ctx, "crp", &spec(&namespace, &cast.name("a"))).await?;
            crp.until_step("Available", "True").await?;
            let events = crp.until_event("PlacementStatusNotReportedBack").await?;
            let said: Vec<_> = events.iter().filter_map(|event| event.message.as_deref()).collect();
            let parts = [
                format!(
                    "Cannot report status back to CronJob \"web\" in namespace \"{namespace}\": the hub agent may not: "
                ),
                "cannot patch resource \"cronjobs/status\" in API group \"batch\"".to_owned(),
                "install its chart with reportBack.originalResource=true, or grant \"patch\" on cronjobs.batch/status"
                    .to_owned(),
            ];
            let complete = |said: &&str| parts.iter().all(|part| said.contains(part.as_str()));
            ensure!(said.iter().any(complete), "{said:?}");
            Ok(())
        })
        .await?;
        // The fleet's own agent may.
        let jobs: Api<CronJob> = Api::namespaced(ctx.hub().await?, &namespace);
        wait::until_present(jobs, "web", "the status that was reported", |job| {
            serde_json::to_value(&job.status).is_ok_and(|shown| shown == status)
        })
        .await?;
        Ok(())
    });
}
