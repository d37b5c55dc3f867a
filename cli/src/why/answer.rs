//! An explanation, as it is printed.

use std::fmt::Write as _;

use fleet_core::explain::{Chain, Lineage, Verdict};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use crate::{
    chain,
    exit::Exit,
    output::{Shown, Style, Table},
    reading::Hidden,
};

/// The answer to one question.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    #[serde(flatten)]
    pub(crate) chain: Chain,
    /// Of an object: where it comes from, on each member that has it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) origins: Vec<Origin>,
    /// What could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) hidden: Vec<Hidden>,
    #[serde(skip)]
    now: Timestamp,
}

/// Where an object on a member comes from, and what it was before.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Origin {
    #[serde(flatten)]
    pub(crate) lineage: Lineage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<Before>,
    /// As it is on the member, where a context of it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) live: Option<Live>,
}

/// What an object was in the snapshot before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Before {
    pub(crate) snapshot: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) taken_at: Option<Time>,
    /// Whether it was in that snapshot at all.
    pub(crate) existed: bool,
    pub(crate) changes: Vec<Change>,
}

/// A field that a snapshot has changed. Values of secrets are not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Change {
    pub(crate) path: String,
    pub(crate) before: String,
    pub(crate) now: String,
}

/// An object on its member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Live {
    pub(crate) exists: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created_at: Option<Time>,
    /// Field managers with the last time that each wrote.
    pub(crate) managers: Vec<Manager>,
    /// AppliedWorks and others that own it.
    pub(crate) owners: Vec<String>,
}

/// Who has written fields of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Manager {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<Time>,
}

impl Answer {
    pub(crate) fn new(chain: Chain, hidden: Vec<Hidden>, now: Timestamp) -> Self {
        Self {
            chain,
            origins: Vec::new(),
            hidden,
            now,
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        let is_missing = |chain: &Chain| {
            let first = chain.steps.first();
            first.is_some_and(|step| step.verdict == Verdict::Failed)
        };
        let unmet = self
            .origins
            .iter()
            .any(|origin| origin.lineage.chain.first_unmet().is_some());
        if is_missing(&self.chain) {
            Exit::Error
        } else if unmet || self.chain.first_unmet().is_some() {
            Exit::Left
        } else {
            Exit::Done
        }
    }
}

impl Shown for Answer {
    fn table(&self) -> Table {
        Table::new(&[])
    }

    fn names(&self) -> Vec<String> {
        vec![self.chain.subject.clone()]
    }

    fn text(&self, style: &Style) -> String {
        let mut out = chain::text(&self.chain, style, "", self.now);
        for origin in &self.origins {
            out.push_str(&origin.text(style, self.now));
        }
        out.push_str(&chain::hidden(&self.hidden, style));
        out
    }
}

impl Origin {
    fn text(&self, style: &Style, now: Timestamp) -> String {
        let Lineage {
            cluster,
            work,
            placement,
            binding,
            snapshot,
            taken_at,
            overrides,
            run,
            envelope,
            chain: steps,
        } = &self.lineage;
        let mut out = format!("on {cluster}\n");
        let mut line = |name: &str, value: &str| {
            if !value.is_empty() {
                let text = style.wrapped(value, 14, 14);
                _ = writeln!(out, "  {name:10}  {text}");
            }
        };
        let taken = taken_at
            .as_ref()
            .map(|at| format!(" (taken {} ago)", chain::ago(at.0, now)));
        line("placement", placement);
        line("snapshot", &format!("{snapshot}{}", taken.unwrap_or_default()));
        line("overrides", &overrides.join(", "));
        line("run", run);
        line("envelope", envelope);
        line("binding", binding);
        line("work", &format!("{work} -n fleet-member-{cluster}"));
        if let Some(before) = &self.before {
            line("before", &before.words(now));
        }
        if let Some(live) = &self.live {
            line("on member", &live.words(now));
        }
        out.push_str(&chain::steps(steps, style, "  ", now));
        out
    }
}

impl Before {
    fn words(&self, now: Timestamp) -> String {
        /// More are counted.
        const SHOWN: usize = 5;
        let taken = self
            .taken_at
            .as_ref()
            .map(|at| format!(" (taken {} ago)", chain::ago(at.0, now)));
        let lead = format!("{}{}", self.snapshot, taken.unwrap_or_default());
        if !self.existed {
            return format!("{lead} did not have it");
        }
        if self.changes.is_empty() {
            return format!("{lead} had it as it is now");
        }
        let shown = |value: &str| {
            if value.is_empty() {
                "absent".to_owned()
            } else {
                value.to_owned()
            }
        };
        let changes = self.changes.iter().take(SHOWN);
        let changes: Vec<_> = changes
            .map(|change| {
                format!(
                    "{} was {}, is {}",
                    change.path,
                    shown(&change.before),
                    shown(&change.now)
                )
            })
            .collect();
        let more = match self.changes.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        format!("{lead}: {}{more}", changes.join("; "))
    }
}

impl Live {
    fn words(&self, now: Timestamp) -> String {
        if !self.exists {
            return "it is not there".to_owned();
        }
        let made = self
            .created_at
            .as_ref()
            .map(|at| format!("made {} ago", chain::ago(at.0, now)));
        let owners = Some(format!("owned by {}", self.owners.join(", "))).filter(|_| !self.owners.is_empty());
        let managers = self.managers.iter().map(|manager| {
            let at = manager.at.as_ref().map(|at| format!(" {} ago", chain::ago(at.0, now)));
            format!("{}{}", manager.name, at.unwrap_or_default())
        });
        let managers: Vec<_> = managers.collect();
        let managers = Some(format!("written by {}", managers.join(", "))).filter(|_| !managers.is_empty());
        let parts: Vec<_> = made.into_iter().chain(owners).chain(managers).collect();
        parts.join("; ")
    }
}
