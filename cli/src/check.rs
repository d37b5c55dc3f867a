//! `kubectl fleet check`: whether the fleet is installed and well, line by line, each with what to do about it.

mod fleet;
mod hub;
mod installation;
mod member;
#[cfg(test)]
mod tests;

use std::{fmt, fmt::Write as _};

use anyhow::Result;
use serde::Serialize;

use crate::{
    clusters,
    exit::Exit,
    globals::Globals,
    output::{self, Format, Style, Table},
};

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
struct Report {
    healthy: bool,
    lines: Vec<Line>,
    #[serde(skip)]
    short: bool,
}

impl Report {
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

    /// Something that this user may not read, or that could not be read.
    fn unread(&mut self, check: &'static str, error: &impl fmt::Display) {
        self.warn(check, format!("cannot be told: {error}"), "kubectl auth can-i --list");
    }

    fn conclude(&mut self) {
        self.healthy = self.lines.iter().all(|line| line.verdict != Verdict::Failed);
    }
}

impl output::Shown for Report {
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
        let marks = if style.unicode {
            ["√", "‼", "×"]
        } else {
            ["ok", "!!", "xx"]
        };
        self.lines_with(marks)
    }
}

impl Report {
    fn lines_with(&self, [ok, warning, failed]: [&str; 3]) -> String {
        let mut text = String::new();
        let mut section = "";
        let lines = self.lines.iter();
        for line in lines.filter(|line| !self.short || line.verdict != Verdict::Ok) {
            if line.check != section {
                section = line.check;
                writeln!(text, "{section}").expect("a string grows");
            }
            let mark = match line.verdict {
                Verdict::Ok => ok,
                Verdict::Warning => warning,
                Verdict::Failed => failed,
            };
            writeln!(text, "  {mark} {}", line.text).expect("a string grows");
            if !line.hint.is_empty() {
                writeln!(text, "      next: {}", line.hint).expect("a string grows");
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

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Args {
        pre,
        member_context,
        globals,
        output,
    } = args;
    let hub = clusters::connect_with(&globals).await?;
    let mut report = Report {
        short: output == How::Short,
        ..Report::default()
    };
    hub::check(&hub.client, &mut report).await;
    installation::check(&hub.client, pre, &mut report).await;
    if !pre {
        fleet::check(&hub.client, &mut report).await;
    }
    for context in &member_context {
        match clusters::connect_with(&globals.of_member(context)).await {
            Ok(member) => member::check(&member.client, context, &hub, &mut report).await,
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
