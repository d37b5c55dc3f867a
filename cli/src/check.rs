//! `kubectl fleet check`: whether the fleet is installed and well, line by line, each with what to do about it.

mod agent;
mod certificates;
mod fleet;
mod hub;
mod installation;
mod member;
mod rights;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;

use crate::{
    chain,
    clusters::{self, KnownCluster},
    exit::Exit,
    globals::Globals,
    hub::Hub,
    output::{self, Format, Style, Table},
    problem::{Problem, said},
    progress::{self, READING},
    terminal::now,
};

/// Lines of one section that are not well; the rest is counted. Programs get all.
const LINES_MAX: usize = 20;

/// Check that the fleet is installed and well.
///
/// Each line says √ (well), ‼ (look at it) or × (broken), with a hint. What this user may not read is said and not guessed.
///
/// Exit status: 0 well, 1 error, 2 usage, 3 something is not well, 4 refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  kubectl fleet check\n  kubectl fleet check --pre\n  \
                  kubectl fleet check --member-context east -o short")]
pub(crate) struct Args {
    /// Before an installation or a migration: whether the hub is ready for it
    #[arg(long)]
    pre: bool,
    /// The kubeconfig context of a member, to look at its side too; may be repeated
    #[arg(long, value_name = "NAME")]
    member_context: Vec<String>,
    #[command(flatten)]
    globals: Globals,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    output: How,
}

/// How it is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum How {
    /// Every line
    #[default]
    Table,
    /// Only lines that are not well
    Short,
    /// For programs
    Json,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
enum Verdict {
    Ok,
    /// Nothing is broken yet, or it cannot be told.
    Warning,
    Failed,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    /// What was looked at, in a fixed word or two.
    check: &'static str,
    verdict: Verdict,
    text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
}

/// All lines.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckResults {
    healthy: bool,
    lines: Vec<Line>,
    #[serde(skip)]
    short: bool,
}

impl CheckResults {
    fn ok(&mut self, check: &'static str, text: impl Into<String>) {
        self.add(check, Verdict::Ok, text, "");
    }

    fn warn(&mut self, check: &'static str, text: impl Into<String>, hint: impl Into<String>) {
        self.add(check, Verdict::Warning, text, hint);
    }

    fn fail(&mut self, check: &'static str, text: impl Into<String>, hint: impl Into<String>) {
        self.add(check, Verdict::Failed, text, hint);
    }

    fn add(&mut self, check: &'static str, verdict: Verdict, text: impl Into<String>, hint: impl Into<String>) {
        self.lines.push(Line {
            check,
            verdict,
            text: text.into(),
            hint: hint.into(),
        });
    }

    /// Objects of the fleet that this user may not read, or that could not be read.
    fn unread(&mut self, check: &'static str, problem: &Problem) {
        self.warn(check, format!("cannot be told: {}", problem.brief()), problem.next());
    }

    /// The same of other kinds: `right` is what `kubectl auth can-i` takes.
    fn unread_core(&mut self, check: &'static str, kubectl: &str, right: &str, error: &kube::Error) {
        let code = match error {
            kube::Error::Api(status) => status.code,
            _ => 0,
        };
        let (text, hint) = match code {
            403 => (format!("no right to {right}"), format!("{kubectl} auth can-i {right}")),
            401 => (said(error), format!("{kubectl} auth whoami")),
            _ => (said(error), format!("{kubectl} cluster-info")),
        };
        self.warn(check, format!("cannot be told: {text}"), hint);
    }

    fn conclude(&mut self) {
        self.healthy = self.lines.iter().all(|line| line.verdict != Verdict::Failed);
    }
}

impl output::Shown for CheckResults {
    fn table(&self) -> Table {
        let mut table = Table::new(&["CHECK", "VERDICT", "TEXT"]);
        for line in &self.lines {
            let verdict = format!("{:?}", line.verdict).to_lowercase();
            table.row([line.check.to_owned(), verdict, line.text.clone()]);
        }
        table
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn text(&self, style: &Style) -> String {
        let mut text = String::new();
        let mut lines = self
            .lines
            .iter()
            .filter(|line| !self.short || line.verdict != Verdict::Ok);
        let mut next = lines.next();
        while let Some(first) = next {
            writeln!(text, "{}", first.check).expect("a string grows");
            let (mut shown, mut more) = (0, Vec::new());
            while let Some(line) = next.filter(|line| line.check == first.check) {
                if line.verdict != Verdict::Ok && shown == LINES_MAX {
                    more.push(line.verdict);
                } else {
                    shown += usize::from(line.verdict != Verdict::Ok);
                    text.push_str(&line.shown(style));
                }
                next = lines.next();
            }
            if let Some(verdict) = more.iter().max() {
                let rest = Line {
                    check: first.check,
                    verdict: *verdict,
                    text: format!("and {} more", more.len()),
                    hint: "kubectl fleet check -o json".to_owned(),
                };
                text.push_str(&rest.shown(style));
            }
        }
        let of = |verdict| self.lines.iter().filter(|line| line.verdict == verdict).count();
        writeln!(
            text,
            "{} well, {} to look at, {} broken",
            of(Verdict::Ok),
            of(Verdict::Warning),
            of(Verdict::Failed)
        )
        .expect("a string grows");
        text
    }
}

impl Line {
    fn shown(&self, style: &Style) -> String {
        let marks = if style.unicode {
            ["√", "‼", "×"]
        } else {
            ["ok", "!!", "xx"]
        };
        let mark = match self.verdict {
            Verdict::Ok => marks[0],
            Verdict::Warning => marks[1],
            Verdict::Failed => marks[2],
        };
        let lead = format!("  {mark} ");
        let below = lead.chars().count();
        let mut text = format!("{lead}{}\n", style.wrapped(&self.text, below, below + 2));
        if !self.hint.is_empty() {
            text.push_str(&chain::next(&self.hint, 6));
        }
        text
    }
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Args {
        pre,
        member_context,
        globals,
        output,
    } = args;
    let hub = clusters::connect_with(&globals).await?;
    let mut report = CheckResults {
        short: output == How::Short,
        ..CheckResults::default()
    };
    progress::shown(READING, look(&hub, pre, &mut report)).await;
    for context in &member_context {
        match clusters::connect_with(&globals.of_member(context)).await {
            Ok(member) => {
                let looking = member::check(&member.client, context, &hub, &mut report);
                progress::shown(&format!("reading {context}"), looking).await;
            }
            Err(error) => report.fail("member", format!("{error:#}"), "kubectl config get-contexts"),
        }
    }
    report.conclude();
    let format = if output == How::Json {
        Format::Json
    } else {
        Format::Table
    };
    output::print(&report, format)?;
    Ok(if report.healthy { Exit::Done } else { Exit::Left })
}

async fn look(hub: &KnownCluster, pre: bool, report: &mut CheckResults) {
    // A hub that does not answer has nothing more to say, and takes its time not to say it.
    if !hub::check(&hub.client, report).await {
        return;
    }
    installation::check(&hub.client, pre, report).await;
    if !pre {
        fleet::check(&Hub::of(hub), now(), report).await;
    }
}
