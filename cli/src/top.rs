//! `kubectl fleet top`: members, placements and update runs as they are now, what is in trouble first.

use std::{fmt::Write as _, time::Duration};

use anyhow::Result;
use jiff::Timestamp;

use crate::{
    chain,
    exit::Exit,
    globals::{Globals, InNamespace},
    hub::{Hub, Place},
    live::{self, Action, Offer, Picture, Source},
    old,
    output::Style,
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
    let offers = overview.runs.iter().filter_map(|run| {
        let action = Action::Approve(approval(&run.next)?);
        let of = run.name.clone();
        Some(Offer { of, action })
    });
    Picture {
        line: line.collect::<Vec<_>>().join("; "),
        ended: None,
        subjects: overview.names_in_order(),
        offers: offers.collect(),
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
            out.push_str(&chain::hidden(&overview.hidden, style));
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
    /// Everything that is shown, in the order of the screen.
    fn names_in_order(&self) -> Vec<String> {
        let placements = self.placements.iter().map(|row| row.name.clone());
        let runs = self.runs.iter().map(|row| row.name.clone());
        let members = self.members_shown(false);
        let members = members.map(|row| format!("membercluster/{}", row.name));
        placements.chain(runs).chain(members).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shown::{assert_golden, hub, now, place};

    #[tokio::test]
    async fn the_screen_has_what_waits_for_somebody_first() {
        let place = place(&hub());
        let overview = status::overview(&Reader::new(&place.hub), "", now()).await;
        let picture = picture(overview.expect("it can be read"));
        assert_golden("top.txt", &Style::default().finish(&(picture.body)(&Style::default())));
        let offers: Vec<_> = picture.offers.iter().map(|offer| offer.of.as_str()).collect();
        assert_eq!(offers, ["csur/release"]);
    }
}
