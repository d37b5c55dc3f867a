//! The examples of gates: a Job that begins when its stage is reached, and an object that somebody patches.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::ClusterScoped;
use fleet_e2e::harness::{Ctx, Made, scenario};
use fleet_e2e::played::Cast;
use fleet_e2e::runs::{Story, stage};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, ApiResource, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/gates/job.yaml");
const BY_HAND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/gates/by-hand.yaml");

/// The example's objects, for this run and with names of this scenario. Nobody but the test carries the Job out.
fn example(ctx: &Ctx, run: &str) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(EXAMPLE)?;
    // The run's name goes in last: it may have the word "checks" in it, as this scenario's does.
    let text = text.replace("checks", &ctx.name("checks")).replace("shop-2", run);
    let mut objects: Vec<Value> = serde_saphyr::from_slice_multiple(text.as_bytes())?;
    let job = objects.last_mut().context("a Job")?;
    job["spec"]["managedBy"] = json!("example.com/by-hand");
    Ok(objects)
}

async fn apply(ctx: &Ctx, objects: &[Value]) -> Result<()> {
    for object in objects {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        ctx.made(Made {
            cluster: "hub".to_owned(),
            kind: ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind)),
            namespace: Some(text("/metadata/namespace")).filter(|namespace| !namespace.is_empty()),
            name: text("/metadata/name"),
        });
    }
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    ctx.kubectl("hub")?.apply(&list.to_string()).await?;
    Ok(())
}

/// What the example's Pod waits for with kubectl, in order, but no longer than this.
fn waits(objects: &[Value], timeout: &str) -> Result<Vec<Vec<String>>> {
    let job = objects.last().context("a Job")?;
    let containers = job
        .pointer("/spec/template/spec/initContainers")
        .and_then(Value::as_array);
    let containers = containers.context("what it waits for")?.iter();
    let waits: Vec<Vec<String>> = containers
        .map(|container| serde_json::from_value(container["args"].clone()))
        .collect::<Result<_, _>>()?;
    let shortened = waits.into_iter().map(|args| {
        let args = args.into_iter();
        let args = args.map(|arg| {
            if arg.starts_with("--timeout=") {
                format!("--timeout={timeout}")
            } else {
                arg
            }
        });
        args.collect()
    });
    Ok(shortened.collect())
}

fn strs(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

#[test]
fn the_examples_check_begins_when_its_stage_is_reached_and_the_run_waits_for_it() {
    scenario("run-checks", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("a", json!({ "stage": "canary" })).await?;
        cast.join("b", json!({ "stage": "production" })).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        let approval = json!({ "beforeStageTasks": [{ "type": "Approval" }] });
        story
            .strategy(&json!([stage("canary", &approval), stage("production", &json!({}))]))
            .await?;
        let gate = json!([{
            "stage": "canary", "when": "after", "apiVersion": "batch/v1", "kind": "Job", "namespace": ctx.name("checks"),
            "name": "{run}-{stage}", "condition": "Complete", "failOn": "Failed",
        }]);
        let (run, gate) = (ctx.name("run"), gate.to_string());
        story.run_with(&run, &[("gates", &gate)], &json!({})).await?;
        let request = format!("{run}-before-canary");
        story.until_asked(&request).await?;
        story.until(&run, "Progressing=False UpdateRunWaiting").await?;
        let objects = example(&ctx, &run)?;
        apply(&ctx, &objects).await?;
        // Nothing is updated yet, though the stage says that it waits.
        let kubectl = ctx.kubectl("hub")?;
        let soon = waits(&objects, "2s")?;
        ensure!(soon.len() == 2, "{soon:?}");
        let complaint = kubectl.fails(&strs(&soon[0])).await?;
        ensure!(complaint.contains("timed out"), "{complaint}");
        story.approve(&request, 1).await?;
        for wait in waits(&objects, "60s")? {
            kubectl.ok(&strs(&wait)).await?;
        }
        story.placement.until_text_on("\"one\"", &cast.names(&["a"])).await?;
        let events = story.events(&run).await?;
        events.until("UpdateRunGateWaiting", &["Complete is not True"]).await?;
        let status = story.status(&run).await?;
        ensure!(status.stages_status[1].start_time.is_none(), "{status:?}");
        complete(&ctx, &format!("{run}-canary")).await?;
        story.until_succeeded(&run).await?;
        Ok(())
    });
}

/// The Job has done its work, as the one that carries it out says.
async fn complete(ctx: &Ctx, name: &str) -> Result<()> {
    let jobs: Api<Job> = Api::namespaced(ctx.hub().await?, &ctx.name("checks"));
    let now = fleet_e2e::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let says = |type_name: &str| json!({ "type": type_name, "status": "True", "reason": "ByHand", "message": "", "lastTransitionTime": now });
    let status = json!({
        "startTime": now, "completionTime": now, "succeeded": 1,
        "conditions": [says("SuccessCriteriaMet"), says("Complete")],
    });
    let patch = Patch::Merge(json!({ "status": status }));
    jobs.patch_status(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// What the example tells its reader to type, by its first words.
fn command(text: &str, first: &str) -> Result<Vec<String>> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("#   kubectl "));
    let line = lines.find(|line| line.starts_with(first)).context("a command")?;
    let (words, quoted) = line.split_once('\'').context("a patch")?;
    let words = words.split_whitespace().map(ToOwned::to_owned);
    Ok(words.chain([quoted.trim_end_matches('\'').to_owned()]).collect())
}

#[test]
fn a_gate_is_opened_by_hand_as_the_example_says() {
    scenario("run-by-hand", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("a", json!({ "stage": "canary" })).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        story.strategy(&json!([stage("canary", &json!({}))])).await?;
        let run = ctx.name("run");
        let text = std::fs::read_to_string(BY_HAND)?.replace("shop-2", &run);
        let mut objects: Vec<Value> = serde_saphyr::from_slice_multiple(text.as_bytes())?;
        let object = objects.last_mut().context("a run")?;
        object["spec"]["placementName"] = json!(story.placement.name);
        object["spec"]["stagedRolloutStrategyName"] = json!(ctx.name("strategy"));
        apply(&ctx, &objects).await?;
        let events = story.events(&run).await?;
        let waits = format!("the gate ClusterApprovalRequest {run}-check: Approved is not True");
        events.until("UpdateRunGateWaiting", &[&waits]).await?;
        let patch = command(&text, "patch")?;
        ctx.kubectl("hub")?.ok(&strs(&patch)).await?;
        story.until_succeeded(&run).await?;
        Ok(())
    });
}

/// Runs what the example's Pod asks with, where `curl` does this; its exit code.
fn ask(curl: &str) -> Result<Option<i32>> {
    use std::os::unix::fs::PermissionsExt as _;
    let objects: Vec<Value> = serde_saphyr::from_slice_multiple(std::fs::read_to_string(EXAMPLE)?.as_bytes())?;
    let job = objects.last().context("a Job")?;
    let ask = job.pointer("/spec/template/spec/containers/0").context("a container")?;
    let mut command: Vec<String> = serde_json::from_value(ask["command"].clone())?;
    command.extend(serde_json::from_value::<Vec<String>>(ask["args"].clone())?);
    let tools = tempfile::tempdir()?;
    for (name, text) in [("sleep", ":"), ("curl", curl)] {
        let tool = tools.path().join(name);
        std::fs::write(&tool, format!("#!/bin/sh\n{text}\n"))?;
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755))?;
    }
    let path = format!("{}:/usr/bin:/bin", tools.path().display());
    let (program, args) = command.split_first().context("a command")?;
    let status = std::process::Command::new(program)
        .args(args)
        .env("PATH", path)
        .status()?;
    Ok(status.code())
}

#[test]
fn what_the_examples_check_is_told_decides_and_what_it_is_not_told_is_asked_again() -> Result<()> {
    let answer = |result: &str| {
        format!("echo '{{\"status\":\"success\",\"data\":{{\"resultType\":\"vector\",\"result\":[{result}]}}}}'")
    };
    let good = ask(&answer("{\"metric\":{},\"value\":[1763000000,\"0.001\"]}"))?;
    ensure!(good == Some(0), "few errors: {good:?}");
    let bad = ask(&answer(""))?;
    ensure!(bad == Some(42), "too many errors, or no traffic: {bad:?}");
    let away = ask("exit 7")?;
    ensure!(away == Some(7), "nobody answers: {away:?}");
    Ok(())
}
