//! `kubectl fleet uncordon`: takes a drained cluster back, and says what still keeps placements away from it.

use std::{collections::BTreeSet, ops::ControlFlow, time::Duration};

use anyhow::{Context as _, Result};
use fleet_api::{
    cluster::{MemberCluster, Taint},
    conditions::{self, member_cluster::Healthy},
};
use serde::Serialize;
use tokio::time::Instant;

use crate::{
    cordon, drain,
    evictions::{self, Eviction},
    exit::Exit,
    hub::{Hub, Named, News},
    old,
    output::{self, Shown, Table},
    problem::Failure,
    terminal::{self, Say},
};

/// Take a drained member cluster back.
///
/// Takes the cordon off, so that placements may be placed there again. Taints that others have set stay and are named, and so
/// are evictions that the hub may still carry out.
///
/// Exit status: 0 done, 1 error, 2 usage, 3 an eviction is left, 4 refused, 124 timeout.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  kubectl fleet uncordon east\n  kubectl fleet uncordon east --cleanup -o json")]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,
    /// How long to try
    #[arg(long, default_value = "5m", value_parser = old::timeout)]
    timeout: Duration,
    #[command(flatten)]
    target: drain::Target,
}

#[derive(Debug, Clone, Copy, Default, clap::Args)]
struct Options {
    /// Change nothing: say what would become of it
    #[arg(long)]
    dry_run: bool,
    /// Wait until the evictions have ended that drains of this cluster have left
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// Delete the evictions that drains of this cluster have left
    #[arg(long, conflicts_with = "dry_run")]
    cleanup: bool,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Args {
        options,
        timeout,
        target,
    } = args;
    let drain::Target {
        member: cluster,
        output,
        globals,
    } = target;
    let hub = Hub::connect(&globals).await?;
    let uncordoning = uncordon(&hub, &cluster, options, &terminal::note);
    let Ok(report) = tokio::time::timeout_at(Instant::now() + timeout, uncordoning).await else {
        terminal::note(&format!(
            "the time is up, and {cluster} may still be cordoned: see --timeout"
        ));
        return Ok(Exit::TimedOut);
    };
    let report = report?;
    output::print(&report, output)?;
    Ok(if report.evictions.is_empty() {
        Exit::Done
    } else {
        Exit::Left
    })
}

/// What became of it, as it is printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct UncordonSummary {
    cluster: String,
    dry_run: bool,
    outcome: UncordonOutcome,
    /// Taints that others have set.
    taints: Vec<Taint>,
    /// Evictions that the hub may still carry out.
    evictions: Vec<String>,
    /// Why nothing can be placed there anyway; empty if nothing is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    unhealthy: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum UncordonOutcome {
    Uncordoned,
    /// There was no cordon.
    NotCordoned,
    WouldBeUncordoned,
}

impl UncordonOutcome {
    const fn words(self) -> &'static str {
        match self {
            Self::Uncordoned => "uncordoned",
            Self::NotCordoned => "not cordoned",
            Self::WouldBeUncordoned => "would be uncordoned",
        }
    }
}

impl Shown for UncordonSummary {
    fn table(&self) -> Table {
        let taints = self.taints.iter().map(|taint| {
            let value = if taint.value.is_empty() {
                String::new()
            } else {
                format!("={}", taint.value)
            };
            format!("taint {}{value}:{}", taint.key, taint.effect.as_str())
        });
        let evictions = self.evictions.iter();
        let evictions =
            evictions.map(|name| format!("eviction {name}, which the hub may still carry out (--cleanup deletes it)"));
        let unhealthy = Some(&self.unhealthy).filter(|text| !text.is_empty()).cloned();
        let kept_away: Vec<_> = taints.chain(evictions).chain(unhealthy).collect();
        let mut table = Table::new(&["CLUSTER", "OUTCOME", "KEPT AWAY BY"]);
        table.row([
            self.cluster.clone(),
            self.outcome.words().to_owned(),
            kept_away.join("\n"),
        ]);
        table
    }

    fn names(&self) -> Vec<String> {
        vec![format!("membercluster/{}", self.cluster)]
    }
}

async fn uncordon(hub: &Hub, cluster: &str, options: Options, say: Say<'_>) -> Result<UncordonSummary> {
    let Some(member) = hub.find::<MemberCluster>(cluster).await? else {
        return Err(Failure::no_member(cluster));
    };
    let is_cordoned = member.spec.taints.contains(&Taint::cordon());
    let outcome = if !is_cordoned {
        UncordonOutcome::NotCordoned
    } else if options.dry_run {
        UncordonOutcome::WouldBeUncordoned
    } else {
        let removed = cordon::remove(hub, cluster).await.map_err(anyhow::Error::from);
        removed.with_context(|| format!("failed to uncordon cluster {cluster}"))?;
        UncordonOutcome::Uncordoned
    };
    let is_ours = |it: &Eviction| it.spec.cluster_name == cluster && evictions::is_of_drain(it);
    let listed = hub.list("", is_ours).await?;
    let mut open = BTreeSet::new();
    for eviction in listed.items {
        let is_open = evictions::end(&eviction).is_none();
        let name = eviction.metadata.name.unwrap_or_default();
        if options.cleanup {
            let named = Named {
                namespace: None,
                name: &name,
            };
            hub.delete::<Eviction>(named).await?;
            say(&format!("deleted eviction {name}"));
        } else if is_open {
            open.insert(name);
        }
    }
    if options.wait && !open.is_empty() {
        say("waiting for the evictions that drains have left");
        let mut version = listed.version;
        hub.follow(&mut version, is_ours, |news| {
            heard(&mut open, news);
            if open.is_empty() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .await?;
    }
    let conditions = member.status.map(|status| status.conditions).unwrap_or_default();
    let health = conditions::find(&conditions, Healthy::TYPE);
    let unhealthy = health.filter(|said| conditions::Status::of(said) != conditions::Status::True);
    Ok(UncordonSummary {
        cluster: cluster.to_owned(),
        dry_run: options.dry_run,
        outcome,
        taints: member
            .spec
            .taints
            .into_iter()
            .filter(|taint| *taint != Taint::cordon())
            .collect(),
        evictions: open.into_iter().collect(),
        unhealthy: unhealthy.map(|said| said.message.clone()).unwrap_or_default(),
    })
}

/// Takes out what has ended or is gone.
fn heard(open: &mut BTreeSet<String>, news: News<Eviction>) {
    let name = |it: &Eviction| it.metadata.name.clone().unwrap_or_default();
    match news {
        News::Is(eviction) if evictions::end(&eviction).is_none() => {}
        News::Is(eviction) | News::Gone(eviction) => _ = open.remove(&name(&eviction)),
        News::All(all) => {
            let still: BTreeSet<_> = all.iter().filter(|it| evictions::end(it).is_none()).map(name).collect();
            open.retain(|name| still.contains(name));
        }
    }
}

#[cfg(test)]
mod tests;
