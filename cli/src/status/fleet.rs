//! The fleet in one screen.

use std::{collections::BTreeMap, fmt::Write as _};

use fleet_api::{
    cluster::MemberCluster,
    kind::Kind,
    placement::{ClusterResourcePlacement, ClusterScoped, Namespaced, ResourcePlacement},
};
use fleet_core::explain::{self, Family, MemberRow, Objects, PlacementRow, RunRow, Verdict};
use jiff::Timestamp;
use serde::Serialize;

use super::hub_agent::{HubAgent, hub_agent};
use crate::{
    chain,
    exit::Exit,
    output::{Mark, Shown, Style, Table},
    problem::Problem,
    reading::{Hidden, Reader},
};

/// Of more members than this, only those in trouble are shown.
const MEMBERS_SHOWN: usize = 40;

/// What the screen shows.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Overview {
    pub(crate) hub_agent: HubAgent,
    pub(crate) members: Vec<MemberRow>,
    pub(crate) placements: Vec<PlacementRow>,
    pub(crate) runs: Vec<RunRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) hidden: Vec<Hidden>,
    #[serde(skip)]
    pub(crate) now: Timestamp,
}

/// Reads it: ten requests for a thousand members and a hundred placements.
pub(crate) async fn read(reader: &Reader<'_>, namespace: &str, now: Timestamp) -> Result<Overview, Problem> {
    let wide = async {
        match namespace {
            "" => reader.overview::<ClusterScoped>("").await,
            _ => Ok(Family::default()),
        }
    };
    let lease = async { Ok::<_, Problem>(hub_agent(reader, now).await) };
    let (members, cluster, namespaced, hub_agent) =
        futures::try_join!(reader.members(), wide, reader.overview::<Namespaced>(namespace), lease,)?;
    let objects = Objects {
        members: members.0,
        internals: members.1,
        cluster,
        namespaced,
        ..Objects::default()
    };
    let mut overview = Overview {
        hub_agent,
        members: explain::member_rows(&objects.fleet("", now)),
        placements: Vec::new(),
        runs: Vec::new(),
        hidden: reader.hidden(),
        now,
    };
    for namespace in objects.namespaces() {
        let fleet = objects.fleet(namespace, now);
        overview.placements.extend(explain::placement_rows(&fleet));
        overview.runs.extend(explain::run_rows(&fleet));
        if !namespace.is_empty() {
            overview.add_placed(&explain::member_rows(&fleet));
        }
    }
    overview.drop_what_is_over();
    overview.sort();
    Ok(overview)
}

impl Overview {
    fn add_placed(&mut self, rows: &[MemberRow]) {
        for (row, more) in self.members.iter_mut().zip(rows) {
            row.placed += more.placed;
        }
    }

    /// A run that has ended well is no news, nor is one that a newer run of its placement has followed.
    fn drop_what_is_over(&mut self) {
        let age = |run: &RunRow| (run.created.clone(), run.name.clone());
        let mut newest = BTreeMap::new();
        for run in &self.runs {
            let newest = newest.entry(run.placement.clone()).or_insert_with(|| age(run));
            *newest = age(run).max(newest.clone());
        }
        self.runs.retain(|run| {
            !run.ended || run.verdict == Verdict::Failed && newest.get(&run.placement) == Some(&age(run))
        });
    }

    /// What is in trouble comes first.
    fn sort(&mut self) {
        let rank = |verdict: Verdict| match verdict {
            Verdict::Failed => 0,
            Verdict::Waiting | Verdict::NotReached => 1,
            Verdict::Done => 2,
        };
        self.members
            .sort_by(|a, b| rank(a.verdict).cmp(&rank(b.verdict)).then_with(|| a.name.cmp(&b.name)));
        self.placements
            .sort_by(|a, b| rank(a.verdict).cmp(&rank(b.verdict)).then_with(|| a.name.cmp(&b.name)));
        self.runs
            .sort_by(|a, b| rank(a.verdict).cmp(&rank(b.verdict)).then_with(|| a.name.cmp(&b.name)));
    }

    pub(crate) fn exit(&self) -> Exit {
        let mut verdicts = self
            .members
            .iter()
            .map(|it| it.verdict)
            .chain(self.placements.iter().map(|it| it.verdict));
        // A run that goes on or waits for somebody is as it should be.
        let has_failed = self.runs.iter().any(|run| run.verdict == Verdict::Failed);
        if self.unread_members() && self.unread_placements() && self.members.is_empty() && self.placements.is_empty() {
            Exit::Refused
        } else if self.hub_agent.verdict == Verdict::Failed
            || verdicts.any(|verdict| verdict != Verdict::Done)
            || has_failed
            || self.unread_members()
            || self.unread_placements()
        {
            // What nobody could look at is not known to be well.
            Exit::Left
        } else {
            Exit::Done
        }
    }

    fn hides<K: Kind>(&self) -> Option<&Hidden> {
        self.hidden.iter().find(|it| it.what == K::CRD.plural)
    }

    /// Whether nobody can say which members there are.
    fn unread_members(&self) -> bool {
        self.hides::<MemberCluster>().is_some()
    }

    /// Whether there may be placements that are not shown. A hub may have no namespaced ones.
    fn unread_placements(&self) -> bool {
        let narrow = self.hides::<ResourcePlacement>();
        self.hides::<ClusterResourcePlacement>().is_some() || narrow.is_some_and(|it| !it.is_unserved)
    }

    /// The members that a table shows.
    pub(crate) fn members_shown(&self, wide: bool) -> impl Iterator<Item = &MemberRow> {
        let all = wide || self.members.len() <= MEMBERS_SHOWN;
        self.members
            .iter()
            .filter(move |row| all || row.verdict != Verdict::Done)
    }

    /// The members, in a table.
    pub(crate) fn members_table(&self, style: &Style) -> Table {
        let mut table = if style.wide {
            Table::new(&[
                "",
                "MEMBER",
                "HEALTH",
                "HEARTBEAT",
                "PLACED",
                "AGENT",
                "VERSION",
                "NODES",
                "CPU FREE",
                "MEMORY FREE",
            ])
        } else {
            Table::new(&[
                "",
                "MEMBER",
                "HEALTH",
                "HEARTBEAT",
                "PLACED",
                "AGENT",
                "CPU FREE",
                "MEMORY FREE",
            ])
        };
        for row in self.members_shown(style.wide) {
            let heartbeat = row.heartbeat.as_ref().map(|at| chain::ago(at.0, self.now));
            let cordoned = if row.cordoned { ", cordoned" } else { "" };
            let mut cells = vec![
                style.bare_mark(chain::mark(row.verdict)).to_owned(),
                row.name.clone(),
                format!("{}{cordoned}", row.health),
                heartbeat.unwrap_or_else(|| "never".to_owned()),
                row.placed.to_string(),
            ];
            cells.push(row.agent.clone());
            if style.wide {
                cells.extend([row.version.clone(), row.nodes.clone()]);
            }
            cells.extend([row.free_cpu.clone(), row.free_memory.clone()]);
            table.row(cells);
        }
        table
    }

    /// The placements, in a table.
    pub(crate) fn placements_table(&self, style: &Style) -> Table {
        let mut table = Table::new(&["", "PLACEMENT", "CLUSTERS", "SNAPSHOT", "STEP", "DRIFTED"]);
        for row in &self.placements {
            let count = |count: usize| if count == 0 { "-".to_owned() } else { count.to_string() };
            table.row([
                style.bare_mark(chain::mark(row.verdict)).to_owned(),
                row.name.clone(),
                format!("{}/{}", row.ready, row.clusters),
                row.snapshot.clone(),
                row.step.clone(),
                count(row.drifted + row.differing),
            ]);
        }
        table
    }

    /// The runs that have not ended well, in a table.
    pub(crate) fn runs_table(&self, style: &Style) -> Table {
        let mut table = Table::new(&["", "RUN", "PLACEMENT", "UPDATED", "STAGE", "STATE"]);
        for row in &self.runs {
            table.row([
                style.bare_mark(chain::mark(row.verdict)).to_owned(),
                row.name.clone(),
                row.placement.clone(),
                format!("{}/{}", row.updated, row.clusters),
                row.stage.clone(),
                row.text.clone(),
            ]);
        }
        table
    }

    /// What to do about what is in trouble.
    fn advice(&self, style: &Style) -> String {
        /// More would be read by nobody.
        const SHOWN: usize = 5;
        let members = self.members.iter().filter(|row| row.verdict != Verdict::Done);
        let members = members.map(|row| {
            let next = format!("kubectl fleet why membercluster/{}", row.name);
            (row.verdict, format!("{}: {}", row.name, row.health), next)
        });
        let placements = self.placements.iter().filter(|row| row.verdict != Verdict::Done);
        let placements = placements.map(|row| {
            let behind = if row.behind.is_empty() {
                String::new()
            } else {
                format!(" ({})", row.behind)
            };
            (
                row.verdict,
                format!("{}: {}{behind}", row.name, row.text),
                row.next.clone(),
            )
        });
        let runs = self.runs.iter().filter(|row| !row.next.is_empty());
        let runs = runs.map(|row| (row.verdict, format!("{}: {}", row.name, row.text), row.next.clone()));
        let hub = (self.hub_agent.verdict == Verdict::Failed).then(|| {
            let next = "kubectl -n fleet-system get pods,lease".to_owned();
            (Verdict::Failed, self.hub_agent.text.clone(), next)
        });
        let mut all: Vec<_> = hub.into_iter().chain(placements).chain(runs).chain(members).collect();
        all.sort_by_key(|(verdict, ..)| *verdict != Verdict::Failed);
        let mut out = String::new();
        for (verdict, text, next) in all.iter().take(SHOWN) {
            let lead = format!("{} ", style.mark(chain::mark(*verdict)));
            let below = lead.chars().count();
            _ = write!(
                out,
                "{lead}{}\n{}",
                style.wrapped(text, below, below + 2),
                chain::next(next, below + 2)
            );
        }
        if all.len() > SHOWN {
            let lead = format!("{} ", style.mark(Mark::Note));
            _ = writeln!(out, "{lead}{} more are in trouble", all.len() - SHOWN);
            out.push_str(&chain::next("kubectl fleet status -o json", lead.chars().count() + 2));
        }
        out
    }

    /// The first lines: how many there are, and how they are.
    pub(crate) fn summary(&self, style: &Style) -> String {
        let well = |verdicts: &[Verdict], is_unread: bool| {
            let all = verdicts.len();
            let bad = verdicts.iter().filter(|verdict| **verdict != Verdict::Done).count();
            match (all, bad) {
                (0, _) if is_unread => "cannot be read".to_owned(),
                (_, 0) if is_unread => format!("{all} are well, others cannot be read"),
                (_, _) if is_unread => format!("{all}, {bad} in trouble, others cannot be read"),
                (_, 0) => format!("{all}, all well"),
                (_, _) => format!("{all}, {bad} in trouble"),
            }
        };
        let mut out = format!(
            "{} hub agent    {}\n",
            style.mark(chain::mark(self.hub_agent.verdict)),
            self.hub_agent.text
        );
        let worst = |verdicts: &[Verdict], is_unread: bool| {
            if verdicts.contains(&Verdict::Failed) {
                Verdict::Failed
            } else if verdicts.contains(&Verdict::Waiting) || is_unread {
                Verdict::Waiting
            } else {
                Verdict::Done
            }
        };
        let members: Vec<_> = self.members.iter().map(|row| row.verdict).collect();
        let placements: Vec<_> = self.placements.iter().map(|row| row.verdict).collect();
        for (name, verdicts, is_unread) in [
            ("members", members, self.unread_members()),
            ("placements", placements, self.unread_placements()),
        ] {
            let mark = style.mark(chain::mark(worst(&verdicts, is_unread)));
            _ = writeln!(out, "{mark} {name:11}  {}", well(&verdicts, is_unread));
        }
        let runs: Vec<_> = self.runs.iter().map(|row| row.verdict).collect();
        if !runs.is_empty() {
            let failed = runs.iter().filter(|verdict| **verdict == Verdict::Failed).count();
            let text = match (runs.len() - failed, failed) {
                (open, 0) => format!("{open} not done"),
                (0, failed) => format!("{failed} in trouble"),
                (open, failed) => format!("{open} not done, {failed} in trouble"),
            };
            _ = writeln!(
                out,
                "{} update runs  {text}",
                style.mark(chain::mark(worst(&runs, false)))
            );
        }
        out
    }
}

impl Shown for Overview {
    fn table(&self) -> Table {
        self.placements_table(&Style::default())
    }

    fn names(&self) -> Vec<String> {
        let members = self.members.iter().map(|row| format!("membercluster/{}", row.name));
        let placements = self.placements.iter().map(|row| row.name.clone());
        members
            .chain(placements)
            .chain(self.runs.iter().map(|row| row.name.clone()))
            .collect()
    }

    fn text(&self, style: &Style) -> String {
        let mut out = self.summary(style);
        let tables = [
            self.members_table(style),
            self.placements_table(style),
            self.runs_table(style),
        ];
        for table in tables {
            let text = table.fitting(style);
            if !text.is_empty() {
                out.push('\n');
                out.push_str(&text);
            }
        }
        let advice = self.advice(style);
        if !advice.is_empty() {
            out.push('\n');
            out.push_str(&advice);
        }
        out.push_str(&chain::hidden(&self.hidden, style));
        out
    }
}
