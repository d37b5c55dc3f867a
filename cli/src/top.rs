//! `kubectl fleet top`: members, placements and update runs as they are now, what is in trouble first.

use std::{fmt::Write as _, time::Duration};

use anyhow::Result;
use jiff::Timestamp;

use crate::{
    exit::Exit,
    globals::{Globals, InNamespace},
    hub::{Hub, Place},
    live::{self, Action, Picture, Source},
    old,
    output::{Shown as _, Style},
    problem::Problem,
    reading::Reader,
    status::{self, Overview},
    subject::Key,
};

/// Show members, placements and update runs on a live screen.
///
/// Keys: up and down choose, w says why, a approves what a run waits for, q quits. Where stdout is no terminal, a line is
/// printed for each change.
///
/// Exit status: 0 done, 1 error, 2 usage, 4 refused, 124 timeout.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  kubectl fleet top\n  kubectl fleet top -n shop --interval 2s")]
pub(crate) struct Args {
    /// How long to wait before everything is read again
    #[arg(long, default_value = "5s", value_parser = old::timeout)]
    interval: Duration,
    /// How long to show it [default: until somebody quits]
    #[arg(long, value_parser = old::timeout)]
    timeout: Option<Duration>,
    #[command(flatten)]
    namespace: InNamespace,
    #[command(flatten)]
    globals: Globals,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Args {
        interval,
        timeout,
        namespace,
        globals,
    } = args;
    let place = Hub::reach(&globals, &namespace).await?;
    let mut top = Top {
        place: &place,
        namespace: namespace.namespace.unwrap_or_default(),
        interval: interval.max(Duration::from_secs(1)),
    };
    live::show(&mut top, &place, timeout).await
}

struct Top<'a> {
    place: &'a Place,
    /// Empty for all.
    namespace: String,
    interval: Duration,
}

impl Source for Top<'_> {
    async fn read(&mut self, now: Timestamp) -> Result<Picture, Problem> {
        let reader = Reader::new(&self.place.hub);
        Ok(picture(status::overview(&reader, &self.namespace, now).await?))
    }

    /// Heartbeats change all the time: whoever looks at a screen wants it read every few seconds and not more often.
    async fn changed(&mut self) -> Result<(), Problem> {
        tokio::time::sleep(self.interval).await;
        Ok(())
    }
}

fn picture(overview: Overview) -> Picture {
    let line = overview.summary(&Style::default());
    let line = line
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let approvals = overview.runs.iter().filter_map(|run| approval(&run.next));
    Picture {
        line: line.collect::<Vec<_>>().join("; "),
        ended: None,
        subjects: overview.names_in_order(),
        actions: approvals.map(Action::Approve).collect(),
        body: Box::new(move |style| {
            let mut out = overview.summary(style);
            for table in [
                overview.placements_table(style),
                overview.runs_table(style),
                overview.members_table(style),
            ] {
                let text = table.fitting(style);
                if !text.is_empty() {
                    _ = write!(out, "\n{text}");
                }
            }
            out
        }),
    }
}

/// The request that a command approves.
pub(crate) fn approval(command: &str) -> Option<Key> {
    let (_, rest) = command.split_once("kubectl fleet approve ")?;
    let (_, name) = rest.split_once(" --name ")?;
    let (name, namespace) = name.split_once(" -n ").unwrap_or((name, ""));
    Some(Key::new(namespace, name))
}

impl Overview {
    /// Everything that can be asked about, in the order of the screen.
    fn names_in_order(&self) -> Vec<String> {
        let mut names = self.names();
        let members = names.iter().filter(|name| name.starts_with("membercluster/")).count();
        names.rotate_left(members);
        names
    }
}
