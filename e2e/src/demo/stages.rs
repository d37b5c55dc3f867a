//! A staged rollout: one cluster first, and the others after somebody has approved. That is left to whoever watches.

use std::path::Path;

use anyhow::{Result, ensure};
use fleet_api::conditions;
use fleet_api::placement::{ClusterScoped, Scope};
use kube::api::Api;
use kube::core::object::HasStatus as _;

use super::{say, step};
use crate::agents;
use crate::fleet::Fleet;
use crate::plugin;
use crate::wait;

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/demo/shop.yaml");
const RUN: &str = "shop-1";
const REQUEST: &str = "shop-1-after-canary";

type Run = <ClusterScoped as Scope>::UpdateRun;

/// Rolls an application out to the first stage. Safe to repeat.
pub(super) async fn show(fleet: &Fleet) -> Result<()> {
    let hub = &fleet.clusters()[0];
    let mut members = fleet.members();
    let Some(first) = members.next() else {
        return Ok(());
    };
    let label = |environment| format!("environment={environment}");
    let (canary, production) = (label("canary"), label("production"));
    let args = ["label", "membercluster", &first.name, &canary, "--overwrite"];
    step(fleet, hub, "one cluster goes first", &args).await?;
    let others: Vec<&str> = members.map(|member| member.name.as_str()).collect();
    if !others.is_empty() {
        let args = [&["label", "membercluster"], &others[..], &[&production, "--overwrite"]].concat();
        step(fleet, hub, "the others follow", &args).await?;
    }
    let applied = fleet.kubectl(&hub.name)?.ok(&["apply", "-f", MANIFESTS]).await?;
    let command = "apply -f docs/examples/demo/shop.yaml";
    say(
        "an application that is rolled out stage by stage",
        hub,
        command,
        &applied,
    );
    let runs: Api<Run> = Api::all(fleet.client(&hub.name).await?);
    wait::until_present(runs, RUN, "waits for approval, or is done", |run| {
        let conditions = run.status().map_or(&[][..], |status| &status.conditions);
        let is = |type_, reason: &str| conditions::find(conditions, type_).is_some_and(|found| found.reason == reason);
        is("Progressing", "UpdateRunWaiting") || is("Succeeded", "UpdateRunSucceeded")
    })
    .await?;
    let get = ["get", "clusterstagedupdaterun", RUN];
    step(fleet, hub, "the first stage is done, and the run waits", &get).await?;
    let get = ["get", "clusterapprovalrequest", REQUEST];
    step(fleet, hub, "for this", &get).await
}

/// Something to try next.
struct Try {
    title: &'static str,
    /// What is typed after `kubectl fleet`.
    lines: Vec<String>,
    /// Whether nothing changes by it, and it ends by itself.
    reads: bool,
}

/// How to go on with it. What only reads is tried out here: a line that is printed works.
pub(super) async fn how_to_go_on(fleet: &Fleet) -> Result<()> {
    let Ok(program) = agents::program("kubectl-fleet") else {
        return Ok(());
    };
    let tries = tries(fleet);
    for (number, next) in tries.iter().enumerate() {
        println!("\n== {} ==", next.title);
        if let Some(dir) = program.parent().filter(|_| number == 0) {
            println!("export PATH={}:$PATH", dir.display());
        }
        for line in &next.lines {
            println!("kubectl fleet {line}");
        }
    }
    for line in tries.iter().filter(|next| next.reads).flat_map(|next| &next.lines) {
        let words: Vec<_> = line.split(' ').collect();
        let said = plugin::run(fleet.state().kubeconfig.as_deref(), &words).await?;
        ensure!(
            matches!(said.code, 0 | 3),
            "`kubectl fleet {line}` does not work: {said:?}"
        );
    }
    Ok(())
}

fn tries(fleet: &Fleet) -> Vec<Try> {
    let context = &fleet.clusters()[0].context;
    let mut how = vec![
        format!("status --context {context}"),
        format!("why csur/{RUN} --context {context}"),
    ];
    how.extend(fleet.members().next().map(|member| {
        let (name, member) = (&member.name, &member.context);
        format!("why deployment/web {name} -n web --context {context} --member-context {member}")
    }));
    vec![
        Try {
            title: "what to try next: how the fleet is, and why",
            lines: how,
            reads: true,
        },
        Try {
            title: "what a change would do, before it is made: another image, and only where environment=production",
            lines: vec![format!("plan -f docs/examples/demo/web-next.yaml --context {context}")],
            // From the repository, as `make demo` runs.
            reads: Path::new("docs/examples/demo/web-next.yaml").exists(),
        },
        Try {
            title: "let the rollout go on, and watch it",
            lines: vec![
                format!("approve clusterapprovalrequest --name {REQUEST} --hub-cluster-context {context}"),
                format!("rollout watch csur/{RUN} --context {context}"),
            ],
            reads: false,
        },
        Try {
            title: "the same in the browser: the drift, the run, and a button that approves it",
            lines: vec![format!("dashboard --context {context}")],
            reads: false,
        },
    ]
}
