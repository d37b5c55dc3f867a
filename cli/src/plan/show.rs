//! A plan on paper.

use std::fmt::Write as _;

use fleet_core::plan::{Action, Change, Cluster, Kind, ObjectChange, Plan, StageLeft};
use serde::Serialize;

use crate::output::{self, Mark, Style, Table};

/// Clusters that are not picked are shown one by one up to so many.
const NOT_PICKED_MAX: usize = 20;
/// Names in one line.
const NAMES_MAX: usize = 5;

/// A plan, as it is printed. Its JSON is an interface: fields are only added.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::plan) struct Shown {
    /// Whether anything would change.
    pub(in crate::plan) differs: bool,
    #[serde(flatten)]
    pub(in crate::plan) plan: Plan,
    /// What could not be taken into account.
    pub(in crate::plan) notes: Vec<String>,
}

impl Shown {
    pub(in crate::plan) fn new(plan: Plan, notes: Vec<String>) -> Self {
        Self {
            differs: plan.differs(),
            plan,
            notes,
        }
    }
}

impl output::Shown for Shown {
    fn table(&self) -> Table {
        clusters(&self.plan)
    }

    fn names(&self) -> Vec<String> {
        let placing = &self.plan.placement;
        vec![match &placing.namespace {
            None => format!("clusterresourceplacement/{}", placing.name),
            Some(_) => format!("resourceplacement/{}", placing.name),
        }]
    }

    fn text(&self, style: &Style) -> String {
        let mut text = String::new();
        self.write(&mut text, style).expect("a string grows");
        text
    }
}

impl Shown {
    fn write(&self, out: &mut String, style: &Style) -> std::fmt::Result {
        let plan = &self.plan;
        let placing = &plan.placement;
        let name = match &placing.namespace {
            Some(namespace) => format!("{namespace}/{}", placing.name),
            None => placing.name.clone(),
        };
        let new = if placing.is_new { ", which is new" } else { "" };
        writeln!(out, "{} {name}{new}", placing.kind)?;
        if let Some(why) = &plan.refused {
            return writeln!(out, "\nThe hub would do nothing: {why}");
        }
        if !self.differs {
            writeln!(out, "Nothing would change.")?;
        }
        self.resources(out)?;
        self.picked(out)?;
        self.differences(out)?;
        self.rollout(out, style)?;
        self.run(out)
    }

    fn resources(&self, out: &mut String) -> std::fmt::Result {
        let resources = &self.plan.resources;
        let state = if resources.is_new { "new" } else { "as it is" };
        writeln!(
            out,
            "\nRESOURCES   {}, {}, snapshot {} ({state})",
            count(resources.objects.len(), "object"),
            size(resources.bytes),
            resources.snapshot
        )?;
        let objects = resources.objects.iter();
        let mut table = Table::new(&["KIND", "NAME", "SIZE"]);
        for object in objects {
            table.row([
                object.kind.clone(),
                slashed(&object.namespace, &object.name),
                size(object.bytes),
            ]);
        }
        write!(out, "{table}")
    }

    fn picked(&self, out: &mut String) -> std::fmt::Result {
        let (plan, policy) = (&self.plan, &self.plan.policy);
        let of = |change| plan.clusters.iter().filter(|cluster| cluster.change == change).count();
        let state = if policy.is_new { "new" } else { "as it is" };
        write!(
            out,
            "\nCLUSTERS   {} added, {} kept, {} removed, {} not picked; policy snapshot {} ({state})",
            of(Change::Added),
            of(Change::Kept),
            of(Change::Removed),
            of(Change::NotPicked),
            policy.snapshot
        )?;
        writeln!(out, "{}", if policy.fulfilled { "" } else { ", which asks for more" })?;
        if let Some(problem) = &policy.problem {
            writeln!(out, "no cluster can be picked: {problem}")?;
        }
        write!(out, "{}", clusters(plan))?;
        let more = of(Change::NotPicked).saturating_sub(NOT_PICKED_MAX);
        if more > 0 {
            writeln!(out, "and {more} more that are not picked (-o json lists them)")?;
        }
        Ok(())
    }

    fn differences(&self, out: &mut String) -> std::fmt::Result {
        for difference in &self.plan.differences {
            let names = few(&difference.clusters);
            let on = count(difference.clusters.len(), "cluster");
            writeln!(out, "\nON {on}: {names}")?;
            for object in &difference.objects {
                writeln!(out, "{}", heading(object))?;
                out.push_str(&object.diff);
            }
        }
        Ok(())
    }

    fn rollout(&self, out: &mut String, style: &Style) -> std::fmt::Result {
        let mark = style.bare_mark(Mark::Note);
        let rollout = &self.plan.rollout;
        if rollout.external {
            return writeln!(
                out,
                "\nROLLOUT   by update runs alone (type External){}",
                if self.plan.run.is_none() {
                    ": --strategy NAME shows one"
                } else {
                    ""
                }
            );
        }
        writeln!(
            out,
            "\nROLLOUT   maxUnavailable {}, maxSurge {}: {}",
            rollout.max_unavailable,
            rollout.max_surge,
            count(rollout.waves.len(), "wave")
        )?;
        for (number, wave) in rollout.waves.iter().enumerate() {
            for (action, word) in [
                (Action::Remove, "remove from"),
                (Action::Update, "update"),
                (Action::Place, "place on"),
            ] {
                let turns = wave.clusters.iter().filter(|turn| turn.action == action);
                let names: Vec<_> = turns.map(|turn| turn.cluster.clone()).collect();
                if !names.is_empty() {
                    writeln!(out, "{:>3}. {word} {}", number + 1, few(&names))?;
                }
            }
        }
        for blocked in &rollout.blocked {
            writeln!(
                out,
                "  {mark} {} never gets its turn: {}",
                blocked.cluster, blocked.reason
            )?;
        }
        Ok(())
    }

    fn run(&self, out: &mut String) -> std::fmt::Result {
        let Some(run) = &self.plan.run else { return Ok(()) };
        writeln!(out, "\nUPDATE RUN   with strategy {}", run.strategy)?;
        if let Some(outline) = &run.outline {
            let mut table = Table::new(&["STAGE", "CLUSTER", "HAS NOW"]);
            let stages = outline.stages.iter();
            let planned = stages.flat_map(|stage| stage.clusters.iter().map(|cluster| (stage.name.as_str(), cluster)));
            let unassigned = outline.unassigned.iter().map(|cluster| ("(none)", cluster));
            let leaving = outline.leaving.iter().map(|cluster| ("(removed)", cluster));
            for (stage, cluster) in planned.chain(unassigned).chain(leaving) {
                let has = if cluster.has.snapshot.is_empty() {
                    "nothing"
                } else {
                    &cluster.has.snapshot
                };
                table.row([stage.to_owned(), cluster.cluster.clone(), has.to_owned()]);
            }
            write!(out, "{table}")?;
        }
        if let Some(problem) = &run.problem {
            writeln!(out, "a run would fail: {problem}")?;
        }
        if !run.hash.is_empty() {
            writeln!(out, "hash: {}", run.hash)?;
        }
        Ok(())
    }
}

fn clusters(plan: &Plan) -> Table {
    let mut table = Table::new(&["CLUSTER", "CHANGE", "AFFINITY", "SPREAD", "OVERRIDES", "WHY"]);
    let mut not_picked = 0;
    for cluster in &plan.clusters {
        if cluster.change == Change::NotPicked {
            not_picked += 1;
            if not_picked > NOT_PICKED_MAX {
                continue;
            }
        }
        table.row(row(cluster));
    }
    table
}

fn row(cluster: &Cluster) -> [String; 6] {
    let word = match cluster.change {
        Change::Added => "added",
        Change::Kept => "kept",
        Change::Removed => "removed",
        Change::NotPicked => "not picked",
    };
    let score = |of: fn(&fleet_core::plan::Score) -> i32| {
        cluster.score.as_ref().map(|it| of(it).to_string()).unwrap_or_default()
    };
    let overrides: Vec<_> = cluster
        .overrides
        .iter()
        .map(|it| slashed(&it.namespace, &it.name))
        .collect();
    let mut why = if cluster.change.has_it() {
        String::new()
    } else {
        cluster.reason.clone()
    };
    for line in cluster
        .problem
        .iter()
        .map(|it| format!("it cannot get it: {it}"))
        .chain(cluster.hint.iter().map(|it| format!("next: {it}")))
    {
        if !why.is_empty() {
            why.push('\n');
        }
        why.push_str(&line);
    }
    [
        cluster.name.clone(),
        word.to_owned(),
        score(|it| it.affinity),
        score(|it| it.spread),
        overrides.join("\n"),
        why,
    ]
}

fn heading(object: &ObjectChange) -> String {
    let word = match object.change {
        Kind::Added => "is new",
        Kind::Changed => "changes",
        Kind::Removed => "is removed",
    };
    format!("{} {} {word}", object.kind, slashed(&object.namespace, &object.name))
}

fn slashed(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

fn few(names: &[String]) -> String {
    match names.len().checked_sub(NAMES_MAX) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..NAMES_MAX].join(", ")),
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{} MiB", bytes.div_ceil(1_048_576)),
    }
}

/// What a run still has to do, as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::plan) struct Left {
    #[serde(skip)]
    kind: String,
    run: String,
    placement: String,
    index: String,
    stages: Vec<StageLeft>,
}

impl Left {
    pub(in crate::plan) fn new(kind: &str, run: &str, placement: &str, index: &str, stages: Vec<StageLeft>) -> Self {
        Self {
            kind: kind.to_lowercase(),
            run: run.to_owned(),
            placement: placement.to_owned(),
            index: index.to_owned(),
            stages,
        }
    }

    /// Whether nothing is left.
    pub(in crate::plan) fn is_done(&self) -> bool {
        self.stages
            .iter()
            .all(|stage| stage.updating.is_empty() && stage.waiting.is_empty())
    }
}

impl output::Shown for Left {
    fn names(&self) -> Vec<String> {
        vec![format!("{}/{}", self.kind, self.run)]
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&["STAGE", "DONE", "UNDER WAY", "STILL TO COME", "WAITS FOR"]);
        for stage in &self.stages {
            table.row([
                stage.name.clone(),
                stage.done.to_string(),
                few(&stage.updating),
                few(&stage.waiting),
                stage.tasks.join("\n"),
            ]);
        }
        table
    }
}
