//! What a page changes is done by the commands that do the same.

use anyhow::{Context as _, Result};
use fleet_api::placement::{ClusterStagedUpdateRun, StagedUpdateRun, UpdateRunState};
use fleet_dashboard::{Act, Actor, Effect, Name, Outcome as Meant, Row};
use futures::future::BoxFuture;
use kube::api::DynamicObject;
use serde_json::json;

use crate::{
    approve, cordon,
    drain::{self, DrainOutcome},
    hub::{Hub, Named, Part},
};

/// The commands on one hub.
pub(super) struct Commands {
    hub: Hub,
}

impl Commands {
    pub(super) fn new(hub: Hub) -> Self {
        Self { hub }
    }

    async fn look(&self, act: &Act) -> Result<Effect> {
        Ok(match act {
            Act::Approve { request, .. } => says(&[
                format!(
                    "Sets the condition Approved of {} to True, for the generation that it has now.",
                    request.shown()
                ),
                "It cannot be taken back.".into(),
            ]),
            Act::Stop(run) => says(&[
                format!("Sets the state of {} to Stop.", run.shown()),
                "Clusters that are being updated are finished, and no more are started. It can be resumed.".into(),
            ]),
            Act::Start(run) => says(&[
                format!("Sets the state of {} to Run.", run.shown()),
                "It begins with its first stage, as planned. It can be stopped.".into(),
            ]),
            Act::Resume(run) => says(&[
                format!("Sets the state of {} to Run.", run.shown()),
                "It goes on where it was stopped; clusters that are done stay as they are.".into(),
            ]),
            Act::Cordon(cluster) => says(&[format!(
                "Sets a taint on {cluster}: nothing new is placed there. What is there stays."
            )]),
            Act::Uncordon(cluster) => says(&[format!(
                "Takes the cordon off {cluster}: placements may be placed there again. Other taints stay."
            )]),
            Act::Drain(cluster) => {
                let mut effect = self.drain(cluster, true).await?;
                let first = format!(
                    "Cordons {cluster}, and asks the hub to evict every placement that its disruption budget lets go."
                );
                effect.says.insert(0, first);
                effect
            }
        })
    }

    async fn carry_out(&self, act: &Act) -> Result<Effect> {
        Ok(match act {
            Act::Approve { request, .. } => {
                approve::Target::new(request.name.clone(), namespace(request))
                    .approve(&self.hub)
                    .await?;
                says(&[format!("{} is approved.", request.shown())])
            }
            Act::Stop(run) => self.state(run, UpdateRunState::Stop).await?,
            Act::Start(run) | Act::Resume(run) => self.state(run, UpdateRunState::Run).await?,
            Act::Cordon(cluster) => {
                let is_new = cordon::add(&self.hub, cluster).await?;
                says(&[format!(
                    "{cluster} is cordoned{}.",
                    if is_new { "" } else { " already" }
                )])
            }
            Act::Uncordon(cluster) => {
                let was = cordon::remove(&self.hub, cluster).await?;
                says(&[format!(
                    "{cluster} is {} cordoned.",
                    if was { "no longer" } else { "not" }
                )])
            }
            Act::Drain(cluster) => self.drain(cluster, false).await?,
        })
    }

    async fn state(&self, run: &Name, state: UpdateRunState) -> Result<Effect> {
        let change = |object: &mut DynamicObject| {
            let spec = object.data.get_mut("spec").context("the run has no spec")?;
            let is_new = spec["state"] != json!(state);
            spec["state"] = json!(state);
            Ok(is_new)
        };
        let named = Named {
            namespace: Some(run.namespace.as_str()).filter(|namespace| !namespace.is_empty()),
            name: &run.name,
        };
        let changed = match named.namespace {
            None => {
                self.hub
                    .change::<ClusterStagedUpdateRun>(named, Part::Object, change)
                    .await?
            }
            Some(_) => self.hub.change::<StagedUpdateRun>(named, Part::Object, change).await?,
        };
        let already = if changed { "" } else { " already" };
        Ok(says(&[format!(
            "The state of {} is {}{already}.",
            run.shown(),
            json!(state).as_str().unwrap_or_default()
        )]))
    }

    async fn drain(&self, cluster: &str, dry_run: bool) -> Result<Effect> {
        let drain::Quiet { report, notes, is_done } = drain::quietly(&self.hub, cluster, dry_run).await?;
        let rows = report.placements.into_iter().map(|row| Row {
            word: row.outcome.word().to_owned(),
            outcome: meant(row.outcome),
            why: row
                .held_up_by
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; "),
            name: Name::new(row.namespace.unwrap_or_default(), row.name),
        });
        Ok(Effect {
            rows: rows.collect(),
            says: notes,
            left: !is_done,
        })
    }
}

impl Actor for Commands {
    fn preview<'a>(&'a self, act: &'a Act) -> BoxFuture<'a, Result<Effect, String>> {
        Box::pin(async move { self.look(act).await.map_err(|error| format!("{error:#}")) })
    }

    fn perform<'a>(&'a self, act: &'a Act) -> BoxFuture<'a, Result<Effect, String>> {
        Box::pin(async move { self.carry_out(act).await.map_err(|error| format!("{error:#}")) })
    }
}

fn says(lines: &[String]) -> Effect {
    Effect {
        says: lines.to_vec(),
        ..Effect::default()
    }
}

fn namespace(name: &Name) -> Option<String> {
    Some(name.namespace.clone()).filter(|namespace| !namespace.is_empty())
}

fn meant(outcome: DrainOutcome) -> Meant {
    match outcome {
        DrainOutcome::Waiting | DrainOutcome::Undecided => Meant::Held,
        outcome if outcome.is_left() => Meant::Refused,
        _ => Meant::Good,
    }
}
