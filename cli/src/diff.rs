//! `kubectl fleet diff`: fields that are not the same on the hub and on members, since when, from what the status of the
//! placement records.

use std::fmt::Write as _;

use anyhow::Result;
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
    reading::Reader,
    status,
    subject::{self, Subject},
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
    now: Timestamp,
}

async fn read(place: &Place, words: &[String], now: Timestamp) -> Result<Differences> {
    let (subject, cluster) = subject::placement(words, &place.namespace)?;
    let reader = Reader::new(&place.hub);
    let key = match subject {
        Subject::Placement(key) => key,
        _ => status::named(&reader, &place.namespace, &words[0]).await?,
    };
    let objects = status::alone(&reader, &key).await?;
    let fleet = objects.fleet(&key.namespace, now);
    Ok(Differences {
        placement: key.placement(),
        objects: explain::diff_rows(&fleet, &key.name, cluster.as_deref()),
        now,
    })
}

impl Differences {
    fn exit(&self) -> Exit {
        if self.objects.is_empty() {
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
            return format!("no difference is known of {}\n", self.placement);
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
        out
    }
}

#[cfg(test)]
mod tests;
