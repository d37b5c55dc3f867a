//! `kubectl fleet events`: what happened to something of the fleet and to what belongs to it, the latest last.

use std::fmt::Write as _;

use anyhow::Result;
use fleet_api::{
    names::Scope as Which,
    placement::{ClusterStagedUpdateRun, StagedUpdateRun},
};
use fleet_core::explain::happened;
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Event, apimachinery::pkg::apis::meta::v1::Time};
use serde::Serialize;

use crate::{
    chain,
    common::Common,
    exit::Exit,
    hub::{Ask, Place},
    output::{self, Shown, Style, Table},
    problem::Problem,
    progress::{self, READING},
    reading::{Hidden, Reader},
    subject::{self, Key, Subject},
    terminal::now,
};

/// Runs of a placement whose Events are read too, the latest first.
const RUNS_MAX: usize = 5;
const OF_FLEET: &str = ".kubernetes-fleet.io/";

/// Show what happened to a placement, an update run, a member, an eviction or an object, and to what belongs to it.
///
/// Exit status: 0 done, 1 error, 2 usage, 4 refused.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl fleet events crp/web\n  kubectl fleet events membercluster/east\n  \
                  kubectl fleet events csur/release-7 -o json"
)]
pub(crate) struct Args {
    /// What is asked about, as kubectl takes it (crp/web, csur/release, membercluster/east), or only its name
    #[arg(value_name = "OBJECT", required = true, num_args = 1..=2)]
    words: Vec<String>,
    #[command(flatten)]
    common: Common,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Args { words, common } = args;
    subject::parse(&words, "default")?;
    let place = common.reach().await?;
    let happened = progress::shown(READING, read(&place, &words, now())).await?;
    output::print(&happened, common.output)?;
    Ok(Exit::Done)
}

#[derive(Debug, Clone, Serialize)]
struct Happened {
    events: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hidden: Vec<Hidden>,
    #[serde(skip)]
    now: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Time>,
    count: i32,
    #[serde(rename = "type")]
    type_: String,
    reason: String,
    /// As kubectl takes it.
    object: String,
    message: String,
}

async fn read(place: &Place, words: &[String], now: Timestamp) -> Result<Happened> {
    let (subject, _) = subject::parse(words, &place.namespace)?;
    let reader = Reader::new(&place.hub);
    // Events about cluster-scoped objects are in the namespace default.
    let mut about: Vec<(String, String)> = Vec::new();
    let mut kind = None;
    match subject {
        Subject::Placement(key) => {
            about.push((key.namespace.clone(), key.name.clone()));
            about.extend(runs_of(&reader, &key).await?);
        }
        Subject::Run(key) | Subject::Approval(key) | Subject::Binding(key) => about.push((key.namespace, key.name)),
        Subject::Name(name) | Subject::Member(name) | Subject::Eviction(name) => about.push((String::new(), name)),
        Subject::Work { cluster, name } => about.push((crate::reading::member_namespace(&cluster), name)),
        Subject::Object {
            kind: word,
            namespace,
            name,
        } => {
            kind = Some(word);
            about.push((namespace, name));
        }
    }
    let mut found = Vec::new();
    for (namespace, name) in about {
        found.extend(reader.events(&namespace, &format!("involvedObject.name={name}")).await);
    }
    found.retain(|event| match &kind {
        // A Deployment may be called as the placement is.
        None => event
            .involved_object
            .api_version
            .as_deref()
            .is_none_or(|version| version.contains(OF_FLEET)),
        Some(word) => {
            let kind = event.involved_object.kind.as_deref().unwrap_or_default().to_lowercase();
            let word = word.split('.').next().unwrap_or_default();
            word == kind || word == format!("{kind}s")
        }
    });
    found.sort_by_key(happened);
    found.dedup_by(|a, b| a.metadata.uid.is_some() && a.metadata.uid == b.metadata.uid);
    Ok(Happened {
        events: found.iter().map(row).collect(),
        hidden: reader.hidden(),
        now,
    })
}

async fn runs_of(reader: &Reader<'_>, key: &Key) -> Result<Vec<(String, String)>, Problem> {
    let ask = Ask {
        namespace: &key.namespace,
        ..Ask::default()
    };
    let mut metas: Vec<_> = match key.scope() {
        Which::Cluster => {
            let runs = reader
                .may(ask, |run: &ClusterStagedUpdateRun| run.spec.placement_name == key.name)
                .await?;
            runs.into_iter().map(|run| run.metadata).collect()
        }
        Which::Namespaced => {
            let runs = reader
                .may(ask, |run: &StagedUpdateRun| run.spec.placement_name == key.name)
                .await?;
            runs.into_iter().map(|run| run.metadata).collect()
        }
    };
    metas.sort_by(|a, b| b.creation_timestamp.cmp(&a.creation_timestamp));
    let names = metas.into_iter().take(RUNS_MAX).filter_map(|meta| meta.name);
    Ok(names.map(|name| (key.namespace.clone(), name)).collect())
}

fn row(event: &Event) -> Row {
    let object = &event.involved_object;
    let namespace = object.namespace.as_ref().map(|namespace| format!(" -n {namespace}"));
    let (kind, name) = (
        object.kind.as_deref().unwrap_or_default(),
        object.name.as_deref().unwrap_or_default(),
    );
    let series = event.series.as_ref().and_then(|series| series.count);
    Row {
        last: happened(event).map(Time),
        count: event.count.or(series).unwrap_or(1),
        type_: event.type_.clone().unwrap_or_default(),
        reason: event.reason.clone().unwrap_or_default(),
        object: format!("{}/{name}{}", kind.to_lowercase(), namespace.unwrap_or_default()),
        message: event.message.clone().unwrap_or_default(),
    }
}

impl Shown for Happened {
    fn table(&self) -> Table {
        let mut table = Table::new(&["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
        for row in &self.events {
            let last = row
                .last
                .as_ref()
                .map(|at| chain::ago(at.0, self.now))
                .unwrap_or_default();
            let times = if row.count > 1 {
                format!(" (x{})", row.count)
            } else {
                String::new()
            };
            table.row([
                format!("{last}{times}"),
                row.type_.clone(),
                row.reason.clone(),
                row.object.clone(),
                row.message.split_whitespace().collect::<Vec<_>>().join(" "),
            ]);
        }
        table
    }

    fn names(&self) -> Vec<String> {
        self.events.iter().map(|row| row.object.clone()).collect()
    }

    fn text(&self, style: &Style) -> String {
        let mut out = String::new();
        if style.width.is_some_and(|width| width < 100) {
            for row in &self.events {
                let last = row
                    .last
                    .as_ref()
                    .map(|at| chain::ago(at.0, self.now))
                    .unwrap_or_default();
                let text = format!("{last} {} {}: {}", row.reason, row.object, row.message);
                _ = writeln!(out, "{}", style.wrapped(&text, 0, 2));
            }
        } else {
            out.push_str(&self.table().to_string());
        }
        if self.events.is_empty() {
            out.push_str("no Events (they are kept for an hour)\n");
        }
        out.push_str(&chain::hidden(&self.hidden, style));
        out
    }
}

#[cfg(test)]
mod tests;
