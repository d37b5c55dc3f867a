//! What a plan says is what then happens.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{ClusterResourcePlacement, ClusterScoped};
use fleet_e2e::agents::program;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, config_map, furnished, rolling, seen, spec, whole_namespace};
use fleet_e2e::played::{Cast, affinity};
use fleet_e2e::plugin::fleet;
use fleet_e2e::runs::{Story, stage};
use kube::ResourceExt as _;
use kube::api::Api;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

/// A file that holds this.
fn file(manifest: &Value) -> Result<NamedTempFile> {
    let file = NamedTempFile::new()?;
    std::fs::write(&file, manifest.to_string())?;
    Ok(file)
}

fn path(file: &NamedTempFile) -> Result<&str> {
    file.path().to_str().context("the path is no text")
}

fn with(plan: &Value, change: &str) -> Vec<String> {
    let clusters = plan["clusters"].as_array().into_iter().flatten();
    let those = clusters.filter(|cluster| cluster["change"] == change);
    those
        .filter_map(|cluster| cluster["name"].as_str().map(str::to_owned))
        .collect()
}

async fn bound(placement: &Crp) -> Result<Vec<String>> {
    let bindings = placement.bindings().await?;
    let mut on: Vec<_> = bindings
        .iter()
        .map(|binding| binding.spec.target_cluster.clone())
        .collect();
    on.sort();
    Ok(on)
}

async fn exists(ctx: &Ctx, name: &str) -> Result<bool> {
    let placements = Api::<ClusterResourcePlacement>::all(ctx.hub().await?);
    Ok(placements.get_opt(name).await?.is_some())
}

#[test]
fn a_new_placement_gets_what_was_planned_for_its_file() {
    scenario("plan-new", |ctx| async move {
        let cast = Cast::new(&ctx, &["one", "two", "three"]).await?;
        let namespace = furnished(&ctx).await?;
        let name = ctx.name("web");
        let wanted = spec(&whole_namespace(&namespace), &cast.some(2));
        let file = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
            "metadata": { "name": name }, "spec": wanted,
        });
        let file = self::file(&file)?;
        let said = fleet(&ctx, &["plan", "-f", path(&file)?, "-o", "json"]).await?;
        let plan = said.ends_with(3)?.json()?;
        ensure!(!exists(&ctx, &name).await?, "a plan has written something");
        ensure!(plan["placement"]["isNew"] == true, "{plan}");

        let placement = Crp::create_called(&ctx, &name, &wanted).await?;
        let status = placement.until_available(0).await?;
        let mut added = with(&plan, "added");
        added.sort();
        ensure!(
            bound(&placement).await? == added,
            "planned {added:?}, is {:?}",
            bound(&placement).await?
        );
        let selected = |list: &Value| -> Vec<String> {
            let all = list.as_array().into_iter().flatten();
            let mut names: Vec<_> = all.map(|it| format!("{} {}", it["kind"], it["name"])).collect();
            names.sort();
            names
        };
        let (planned, is) = (
            selected(&plan["resources"]["objects"]),
            selected(&serde_json::to_value(&status.selected_resources)?),
        );
        ensure!(planned == is, "planned {planned:?}, is {is:?}");

        let again = fleet(&ctx, &["plan", &name, "-o", "json"]).await?;
        ensure!(again.ends_with(0)?.json()?["differs"] == false, "{again:?}");
        Ok(())
    });
}

#[test]
fn a_changed_object_changes_where_and_how_it_was_planned() {
    scenario("plan-change", |ctx| async move {
        let cast = Cast::new(&ctx, &["two"]).await?;
        cast.join("one", json!({ "place": ctx.prefix() })).await?;
        let namespace = furnished(&ctx).await?;
        let placement = Crp::create(&ctx, "web", &spec(&whole_namespace(&namespace), &cast.everywhere())).await?;
        placement.until_available(0).await?;
        let name = placement.get().await?.name_any();

        let mut map = serde_json::to_value(config_map("settings", "another"))?;
        map["apiVersion"] = "v1".into();
        map["kind"] = "ConfigMap".into();
        map["metadata"]["namespace"] = namespace.clone().into();
        let map = file(&map)?;
        let said = fleet(&ctx, &["plan", &name, "-f", path(&map)?, "-o", "json"]).await?;
        let plan = said.ends_with(3)?.json()?;
        ensure!(plan["resources"]["index"] == 1, "{plan}");
        let [difference] = plan["differences"].as_array().context("no differences")?.as_slice() else {
            anyhow::bail!("one difference for both clusters: {plan}");
        };
        ensure!(difference["objects"][0]["name"] == "settings", "{difference}");
        ensure!(
            difference["objects"][0]["diff"]
                .as_str()
                .unwrap_or_default()
                .contains("another"),
            "{difference}"
        );
        ensure!(
            difference["clusters"].as_array().map(Vec::len) == Some(2),
            "{difference}"
        );

        fleet_e2e::placements::change(&ctx, "another").await?;
        placement.until_available(1).await?;
        placement.until_text_on("another", &cast.names(&["one", "two"])).await?;
        fleet(&ctx, &["plan", &name]).await?.ends_with(0)?;

        let there = affinity(&[("place", ctx.prefix())]);
        placement.edit(json!({ "policy": { "affinity": there } })).await?;
        placement.until_on(&cast.names(&["one"])).await?;
        placement.until_available(1).await?;
        let plan = fleet(&ctx, &["plan", &name, "-o", "json"]).await?;
        let plan = plan.ends_with(0)?.json()?;
        ensure!(with(&plan, "kept") == cast.names(&["one"]), "{plan}");
        Ok(())
    });
}

#[test]
fn what_an_edited_file_drops_goes_as_with_kubectl_apply() {
    scenario("plan-dropped", |ctx| async move {
        let cast = Cast::new(&ctx, &["one", "two"]).await?;
        let namespace = furnished(&ctx).await?;
        let name = ctx.name("web");
        let deployment = |containers: &[&str]| {
            let containers = containers.iter();
            let containers: Vec<_> = containers
                .map(|name| json!({ "name": name, "image": "registry.k8s.io/pause:3.10" }))
                .collect();
            let labels = json!({ "app": "web" });
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": namespace },
                "spec": {
                    "replicas": 1, "selector": { "matchLabels": labels },
                    "template": { "metadata": { "labels": labels }, "spec": { "containers": containers } },
                },
            })
        };
        let placed = |strategy: Value| {
            let mut spec = spec(&whole_namespace(&namespace), &cast.everywhere());
            spec["strategy"] = strategy;
            json!({
                "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
                "metadata": { "name": name }, "spec": spec,
            })
        };
        let kubectl = ctx.kubectl("hub")?;
        let before = file(&deployment(&["web", "old"]))?;
        kubectl.ok(&["apply", "-f", path(&before)?]).await?;
        seen(&ctx, &whole_namespace(&namespace), 3).await?;
        let before = file(&placed(rolling(&json!(1), &json!(1))))?;
        kubectl.ok(&["apply", "-f", path(&before)?]).await?;
        let thinner = json!({ "type": "RollingUpdate", "rollingUpdate": { "unavailablePeriodSeconds": 0 } });
        let items = [deployment(&["web"]), placed(thinner)];
        let after = file(&json!({ "apiVersion": "v1", "kind": "List", "items": items }))?;
        let placement = Crp::named(&ctx, &name);
        placement.until_available(0).await?;

        let said = fleet(&ctx, &["plan", "-f", path(&after)?, "-o", "json"]).await?;
        let plan = said.ends_with(3)?.json()?;
        let objects = plan["differences"][0]["objects"]
            .as_array()
            .context("nothing changes")?;
        let [deployment] = objects.as_slice() else {
            anyhow::bail!("only the Deployment changes: {plan}");
        };
        let diff = deployment["diff"].as_str().unwrap_or_default();
        ensure!(
            diff.lines()
                .any(|line| line.starts_with('-') && line.contains("name: old")),
            "{diff}"
        );
        ensure!(
            plan["rollout"]["maxUnavailable"] == "25%",
            "the default is back: {plan}"
        );

        kubectl.ok(&["apply", "-f", path(&after)?]).await?;
        placement.until_available(1).await?;
        fleet(&ctx, &["plan", "-f", path(&after)?]).await?.ends_with(0)?;
        Ok(())
    });
}

#[test]
fn a_run_with_the_hash_of_a_plan_does_what_was_planned() {
    scenario("plan-run", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        for (word, name) in [("one", "first"), ("two", "second")] {
            cast.join(word, json!({ "stage": name })).await?;
        }
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        story
            .strategy(&json!([stage("first", &json!({})), stage("second", &json!({}))]))
            .await?;
        story.placement.until_bindings("two", |all| all.len() == 2).await?;

        let strategy = ctx.name("strategy");
        let args = ["plan", &story.placement.name, "--strategy", &strategy, "-o", "json"];
        let plan = fleet(&ctx, &args).await?.ends_with(3)?.json()?;
        let hash = plan["run"]["hash"].as_str().context("the plan has no hash")?.to_owned();
        let stages = plan["run"]["outline"]["stages"].as_array().into_iter().flatten();
        let planned: Vec<_> = stages
            .flat_map(|stage| stage["clusters"].as_array().into_iter().flatten())
            .map(|cluster| cluster["cluster"].as_str().unwrap_or_default().to_owned())
            .collect();
        ensure!(planned == cast.names(&["one", "two"]), "{plan}");

        let run = story.run_with(&ctx.name("run"), &[("plan", &hash)], &json!({})).await?;
        let status = story.until_succeeded(&run).await?;
        let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
        let updated: Vec<_> = clusters.map(|cluster| cluster.cluster_name.clone()).collect();
        ensure!(updated == planned, "planned {planned:?}, updated {updated:?}");
        fleet(&ctx, &["plan", "--from-run", &run]).await?.ends_with(0)?;
        // Another plan is none that anybody has approved.
        let other = story
            .run_with(&ctx.name("other"), &[("plan", &hash)], &json!({}))
            .await?;
        story
            .until(&other, "Initialized=False UpdateRunInitializedFailed")
            .await?;
        let why = fleet(&ctx, &["why", &format!("csur/{other}")]).await?;
        why.ends_with(3)?
            .shows(&["the plan is another than the one that was approved"])?;
        Ok(())
    });
}

#[test]
fn the_hub_is_reached_through_a_proxy() {
    scenario("plan-proxy", |ctx| async move {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (seen, mut asked) = tokio::sync::mpsc::unbounded_channel();
        let proxy = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(tunnel(client, seen.clone()));
            }
        });
        let kubeconfig = ctx.fleet().state().kubeconfig.clone().context("this fleet has none")?;
        let mut command = Command::new(program("kubectl-fleet")?);
        command
            .env("KUBECONFIG", kubeconfig)
            .env("HTTPS_PROXY", format!("http://{address}"))
            .env_remove("NO_PROXY")
            .env_remove("no_proxy")
            .args(["check", "-o", "json", "--context", &ctx.fleet().cluster("hub")?.context])
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = command.output().await?;
        let report: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("{output:?}"))?;
        let lines = report["lines"].as_array().context("it has lines")?;
        let answers = |line: &Value| line["check"] == "hub API server" && line["verdict"] == "ok";
        ensure!(
            lines.iter().any(answers),
            "the hub has not answered through it: {report}"
        );
        let target = asked.try_recv().context("nothing went through the proxy")?;
        ensure!(target.contains(':'), "{target}");
        proxy.abort();
        Ok(())
    });
}

/// What an HTTP proxy does with CONNECT.
async fn tunnel(client: TcpStream, seen: tokio::sync::mpsc::UnboundedSender<String>) -> Result<()> {
    let mut client = BufReader::new(client);
    let mut line = String::new();
    client.read_line(&mut line).await?;
    let target = line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    loop {
        let mut header = String::new();
        if client.read_line(&mut header).await? == 0 || header == "\r\n" {
            break;
        }
    }
    let mut server = TcpStream::connect(&target).await?;
    let _ = seen.send(target);
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    copy_bidirectional(&mut client, &mut server).await?;
    let _ = client.read(&mut [0]).await;
    Ok(())
}
