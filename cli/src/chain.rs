//! An explanation as text: a line for each step with a mark, and below the first that is not done its cause, what it holds
//! back and the command to type next.

use std::fmt::Write as _;

use fleet_core::explain::{Cause, Chain, Note, Step, Verdict};
use jiff::Timestamp;

use crate::{
    output::{Mark, Style},
    reading::Hidden,
};

/// The mark of a verdict.
pub(crate) fn mark(verdict: Verdict) -> Mark {
    match verdict {
        Verdict::Done => Mark::Done,
        Verdict::Waiting => Mark::Waiting,
        Verdict::Failed => Mark::Failed,
        Verdict::NotReached => Mark::NotReached,
    }
}

/// A chain. Each line begins with `indent`.
pub(crate) fn text(chain: &Chain, style: &Style, indent: &str, now: Timestamp) -> String {
    let mut out = format!("{indent}{}\n", chain.subject);
    out.push_str(&steps(chain, style, &format!("{indent}  "), now));
    out
}

/// The steps and notes of a chain, without its subject.
pub(crate) fn steps(chain: &Chain, style: &Style, indent: &str, now: Timestamp) -> String {
    let widest = chain
        .steps
        .iter()
        .map(|step| step.name.chars().count())
        .max()
        .unwrap_or(0);
    // On a narrow terminal the words begin right after the name.
    let widest = if style.width.is_some_and(|width| width < 60) {
        0
    } else {
        widest
    };
    let mut out = String::new();
    for step in &chain.steps {
        out.push_str(&one(step, style, indent, widest, now));
    }
    for note in &chain.notes {
        out.push_str(&noted(note, style, indent));
    }
    out
}

fn one(step: &Step, style: &Style, indent: &str, widest: usize, now: Timestamp) -> String {
    let lead = format!("{indent}{} ", style.mark(mark(step.verdict)));
    let below = lead.chars().count();
    let name = format!("{:widest$}", step.name);
    let since = step.since.as_ref().map(|since| format!(" ({})", ago(since.0, now)));
    let since = since
        .filter(|_| style.wide || step.verdict != Verdict::Done)
        .unwrap_or_default();
    let says = match &step.cause {
        Some(cause) => format!("{}{since}", cause.text),
        None => format!("{}{since}", step.says),
    };
    let mut out = format!("{lead}{name}");
    if !says.trim().is_empty() {
        out.push_str("  ");
        let begun = below + name.chars().count() + 2;
        out.push_str(&style.wrapped(&says, begun, below + 2));
    }
    let mut out = out.trim_end().to_owned() + "\n";
    if let Some(cause) = &step.cause {
        out.push_str(&after(cause, style, below + 2));
    }
    out
}

fn after(cause: &Cause, style: &Style, indent: usize) -> String {
    let mut out = String::new();
    if !cause.holds_back.is_empty() {
        let text = style.wrapped(&format!("holds back: {}", cause.holds_back), indent, indent + 2);
        _ = writeln!(out, "{:indent$}{text}", "");
    }
    out.push_str(&next(&cause.next, indent));
    out
}

/// The command to type next, on a line of its own and never broken, so that it can be copied.
pub(crate) fn next(command: &str, indent: usize) -> String {
    format!("{:indent$}next: {command}\n", "")
}

fn noted(note: &Note, style: &Style, indent: &str) -> String {
    let lead = format!("{indent}{} ", style.mark(Mark::Note));
    let below = lead.chars().count();
    let text = style.wrapped(&note.text, below, below + 2);
    format!("{lead}{text}\n{}", next(&note.next, below + 2))
}

/// What could not be read, for the end of every output.
pub(crate) fn hidden(hidden: &[Hidden], style: &Style) -> String {
    let mut out = String::new();
    for it in hidden {
        let lead = format!("{} ", style.mark(Mark::Note));
        let text = format!("hidden: {} ({})", it.what, it.why);
        let below = lead.chars().count();
        _ = write!(
            out,
            "{lead}{}\n{}",
            style.wrapped(&text, below, below + 2),
            next(&it.next, below + 2)
        );
    }
    out
}

/// How long ago that was: `45s`, `12m`, `3h20m`, `2d`.
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    fleet_core::explain::span(now.duration_since(then))
}
