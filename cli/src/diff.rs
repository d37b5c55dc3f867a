//! `kubectl fleet diff`: fields that are not the same on the hub and on members, since when, from what the bindings of the
//! placement record.

use std::fmt::Write as _;

use anyhow::Result;
use fleet_api::names::Scope;
use fleet_core::explain::{self, DiffRow};
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    chain,
    common::Common,
    exit::Exit,
    hub::Place,
    output::{self, Shown, Style, Table},
    progress::{self, READING},
    reading::{Hidden, Reader},
    status,
    subject::{self, Key, Subject},
    terminal::now,
};

/// Show what differs between the hub and members.
///
/// Fields that somebody changed on a member after they were applied (drifts), and fields that were different before (with
/// whenToTakeOver: IfNoDiff, or the strategy ReportDiff). Values of Secrets are not shown.
///
/// Exit status: 0 no difference is known, 1 error, 2 usage, 3 something differs, 4 refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  kubectl fleet diff crp/web\n  kubectl fleet diff rp/api east -n shop -o json")]
pub(crate) struct Args {
    /// A placement, as kubectl takes it (crp/web, rp/web -n shop), or only its name; then a cluster
    #[arg(value_name = "PLACEMENT [CLUSTER]", required = true, num_args = 1..=3)]
    words: Vec<String>,
    #[command(flatten)]
    common: Common,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Args { words, common } = args;
    subject::placement(&words, "default")?;
    let place = common.reach().await?;
    let differences = progress::shown(READING, read(&place, &words, now())).await?;
    output::print(&differences, common.output)?;
    Ok(differences.exit())
}

/// What is known to differ.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Differences {
    placement: String,
    objects: Vec<DiffRow>,
    #[serde(skip)]
    next: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hidden: Vec<Hidden>,
    #[serde(skip)]
    now: Timestamp,
}

async fn read(place: &Place, words: &[String], now: Timestamp) -> Result<Differences> {
    let (subject, cluster) = subject::placement(words, &place.namespace)?;
    let reader = Reader::new(&place.hub);
    let key = match subject {
        Subject::Placement(key) => key,
        _ => status::named(&reader, &place.namespace, &words[0]).await?,
    };
    let objects = status::whole(&reader, &key).await?;
    let fleet = objects.fleet(&key.namespace, now);
    Ok(Differences {
        placement: key.placement(),
        objects: explain::diff_rows(&fleet, &key.name, cluster.as_deref()),
        next: next(&key, cluster.as_deref()),
        hidden: reader.hidden(),
        now,
    })
}

/// What says how it came about, and who did it.
fn next(key: &Key, cluster: Option<&str>) -> String {
    let (kind, namespace) = match key.scope() {
        Scope::Cluster => ("crp", String::new()),
        Scope::Namespaced => ("rp", format!(" -n {}", key.namespace)),
    };
    let cluster = cluster.map(|cluster| format!(" {cluster} --member-context {cluster}"));
    format!(
        "kubectl fleet why {kind}/{}{}{namespace}",
        key.name,
        cluster.unwrap_or_default()
    )
}

impl Differences {
    fn exit(&self) -> Exit {
        if self.objects.is_empty() && self.hidden.is_empty() {
            Exit::Done
        } else {
            Exit::Left
        }
    }
}

impl Shown for Differences {
    fn table(&self) -> Table {
        let mut table = Table::new(&["CLUSTER", "OBJECT", "PATH", "HUB", "MEMBER"]);
        let shown = |value: &str| if value.is_empty() { "(absent)" } else { value }.to_owned();
        for row in &self.objects {
            for field in &row.fields {
                table.row([
                    row.cluster.clone(),
                    row.object.clone(),
                    field.path.clone(),
                    shown(&field.value_in_hub),
                    shown(&field.value_in_member),
                ]);
            }
        }
        table
    }

    fn names(&self) -> Vec<String> {
        self.objects.iter().map(|row| row.object.clone()).collect()
    }

    fn text(&self, style: &Style) -> String {
        if self.objects.is_empty() {
            return format!("no difference is known of {}\n", self.placement) + &chain::hidden(&self.hidden, style);
        }
        let mut out = String::new();
        for row in &self.objects {
            let what = if row.drifted { "drifted" } else { "differs" };
            let (since, looked) = (chain::ago(row.since.0, self.now), chain::ago(row.observed.0, self.now));
            let head = format!(
                "{} on {}: {what}, for {since} (looked at {looked} ago)",
                row.object, row.cluster
            );
            _ = writeln!(out, "{}", style.wrapped(&head, 0, 2));
            for field in &row.fields {
                let shown = |value: &str| if value.is_empty() { "(absent)" } else { value }.to_owned();
                let (hub, member) = (shown(&field.value_in_hub), shown(&field.value_in_member));
                _ = writeln!(out, "  {}", field.path);
                _ = writeln!(out, "    hub     {}", style.wrapped(&hub, 12, 12));
                _ = writeln!(out, "    member  {}", style.wrapped(&member, 12, 12));
            }
        }
        out + &chain::next(&self.next, 0) + &chain::hidden(&self.hidden, style)
    }
}

#[cfg(test)]
mod tests;
