//! A plan on paper.

use std::fmt::Write as _;

use fleet_core::{
    explain::quoted,
    plan::{Action, Change, Kind, ObjectChange, Plan, PlannedCluster},
    text,
};
use serde::Serialize;

use crate::{
    chain,
    exit::Exit,
    output::{self, Mark, Style, Table},
    reading::Hidden,
};

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
    /// Kinds that the user may not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::plan) hidden: Vec<Hidden>,
}

impl Shown {
    pub(in crate::plan) fn new(plan: Plan, notes: Vec<String>, hidden: Vec<Hidden>) -> Self {
        Self {
            differs: plan.differs(),
            plan,
            notes,
            hidden,
        }
    }

    /// Nobody can say that nothing would change who has not seen all of it.
    pub(in crate::plan) fn exit(&self) -> Exit {
        if self.differs || !self.hidden.is_empty() {
            Exit::Left
        } else {
            Exit::Done
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
        line(out, style, &format!("{} {name}{new}", placing.kind))?;
        out.push_str(&chain::hidden(&self.hidden, style));
        if let Some(why) = &plan.refused {
            out.push('\n');
            line(out, style, &format!("The hub would do nothing: {why}"))?;
            return out.write_str(&chain::next(&self.mend(), 2));
        }
        if !self.differs {
            let seen = if self.hidden.is_empty() {
                ""
            } else {
                ", as far as it can be seen"
            };
            line(out, style, &format!("Nothing would change{seen}."))?;
        }
        self.resources(out, style)?;
        self.picked(out, style)?;
        self.differences(out, style)?;
        self.rollout(out, style)?;
        self.run(out, style)
    }

    /// The command with which what is wrong with the placement is mended. What is not there yet is in a file.
    fn mend(&self) -> String {
        let placing = &self.plan.placement;
        match &placing.namespace {
            _ if placing.is_new => format!("kubectl explain {}.spec", placing.kind.to_lowercase()),
            Some(namespace) => format!("kubectl edit rp/{} -n {namespace}", placing.name),
            None => format!("kubectl edit crp/{}", placing.name),
        }
    }

    fn resources(&self, out: &mut String, style: &Style) -> std::fmt::Result {
        let resources = &self.plan.resources;
        let state = if resources.is_new { "new" } else { "as it is" };
        let objects = count(resources.objects.len(), "object");
        let (bytes, snapshot) = (size(resources.bytes), &resources.snapshot);
        out.push('\n');
        line(
            out,
            style,
            &format!("RESOURCES   {objects}, {bytes}, snapshot {snapshot} ({state})"),
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
        write!(out, "{}", table.fitting(style))
    }

    fn picked(&self, out: &mut String, style: &Style) -> std::fmt::Result {
        let (plan, policy) = (&self.plan, &self.plan.policy);
        let of = |change| plan.clusters.iter().filter(|cluster| cluster.change == change).count();
        let state = if policy.is_new { "new" } else { "as it is" };
        let fulfilled = if policy.fulfilled { "" } else { ", which asks for more" };
        let said = format!(
            "CLUSTERS   {} added, {} kept, {} removed, {} not picked; policy snapshot {} ({state}){fulfilled}",
            of(Change::Added),
            of(Change::Kept),
            of(Change::Removed),
            of(Change::NotPicked),
            policy.snapshot
        );
        out.push('\n');
        line(out, style, &said)?;
        if let Some(problem) = &policy.problem {
            line(out, style, &format!("no cluster can be picked: {problem}"))?;
            out.push_str(&chain::next(&self.mend(), 2));
        }
        clusters_fitting(plan, out, style)?;
        let more = of(Change::NotPicked).saturating_sub(NOT_PICKED_MAX);
        if more > 0 {
            line(
                out,
                style,
                &format!("and {more} more that are not picked (-o json lists them)"),
            )?;
        }
        Ok(())
    }

    fn differences(&self, out: &mut String, style: &Style) -> std::fmt::Result {
        for difference in &self.plan.differences {
            let names = few(&difference.clusters);
            let on = count(difference.clusters.len(), "cluster");
            out.push('\n');
            line(out, style, &format!("ON {on}: {names}"))?;
            for object in &difference.objects {
                line(out, style, &heading(object))?;
                out.push_str(&object.diff);
            }
        }
        Ok(())
    }

    fn rollout(&self, out: &mut String, style: &Style) -> std::fmt::Result {
        let mark = style.bare_mark(Mark::Note);
        let rollout = &self.plan.rollout;
        out.push('\n');
        if rollout.external {
            let none = self.plan.run.is_none();
            let hint = if none { ": --strategy NAME shows one" } else { "" };
            return line(
                out,
                style,
                &format!("ROLLOUT   by update runs alone (type External){hint}"),
            );
        }
        let (unavailable, surge) = (&rollout.max_unavailable, &rollout.max_surge);
        let waves = count(rollout.waves.len(), "wave");
        let said = format!("ROLLOUT   maxUnavailable {unavailable}, maxSurge {surge}: {waves}");
        line(out, style, &said)?;
        for (number, wave) in rollout.waves.iter().enumerate() {
            for (action, word) in [
                (Action::Remove, "remove from"),
                (Action::Update, "update"),
                (Action::Place, "place on"),
            ] {
                let turns = wave.clusters.iter().filter(|turn| turn.action == action);
                let names: Vec<_> = turns.map(|turn| turn.cluster.clone()).collect();
                if !names.is_empty() {
                    line(out, style, &format!("{:>3}. {word} {}", number + 1, few(&names)))?;
                }
            }
        }
        for blocked in &rollout.blocked {
            let said = format!("  {mark} {} never gets its turn: {}", blocked.cluster, blocked.reason);
            line(out, style, &said)?;
        }
        if !rollout.blocked.is_empty() {
            out.push_str(&chain::next(&self.mend(), 4));
        }
        Ok(())
    }

    fn run(&self, out: &mut String, style: &Style) -> std::fmt::Result {
        let Some(run) = &self.plan.run else { return Ok(()) };
        out.push('\n');
        line(out, style, &format!("UPDATE RUN   with strategy {}", run.strategy))?;
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
            write!(out, "{}", table.fitting(style))?;
        }
        if let Some(problem) = &run.problem {
            line(out, style, &format!("a run would fail: {problem}"))?;
            let flag = self
                .plan
                .placement
                .namespace
                .as_ref()
                .map(|namespace| format!(" -n {namespace}"));
            let kind = if flag.is_some() { "sus" } else { "csus" };
            let look = format!(
                "kubectl get {kind} {}{} -o yaml",
                quoted(&run.strategy),
                flag.unwrap_or_default()
            );
            out.push_str(&chain::next(&look, 2));
        }
        if !run.hash.is_empty() {
            writeln!(out, "hash: {}", run.hash)?;
        }
        Ok(())
    }
}

/// A line, or several where one does not fit.
fn line(out: &mut String, style: &Style, text: &str) -> std::fmt::Result {
    let fits = style.width.is_none_or(|width| text.chars().count() <= width);
    if fits {
        writeln!(out, "{text}")
    } else {
        writeln!(out, "{}", style.wrapped(text, 0, 2))
    }
}

/// The clusters. Where there is no room for the last column, what it says stands below, one cluster after the other.
fn clusters_fitting(plan: &Plan, out: &mut String, style: &Style) -> std::fmt::Result {
    let whole = clusters(plan);
    let text = whole.to_string();
    let fits = |line: &str| style.width.is_none_or(|width| line.chars().count() <= width);
    if text.lines().all(fits) {
        return out.write_str(&text);
    }
    out.push_str(&whole.without_last().fitting(style));
    for cluster in listed(plan) {
        let [name, .., why] = row(cluster);
        for (number, said) in why.lines().enumerate() {
            let said = if number == 0 {
                format!("{name}: {said}")
            } else {
                format!("  {said}")
            };
            // A command stays whole, so that it can be copied.
            if said.contains("next: ") {
                writeln!(out, "{said}")?;
            } else {
                line(out, style, &said)?;
            }
        }
    }
    Ok(())
}

/// Those that are shown: of clusters that are not picked not all.
fn listed(plan: &Plan) -> impl Iterator<Item = &PlannedCluster> {
    let mut not_picked = 0;
    plan.clusters.iter().filter(move |cluster| {
        not_picked += usize::from(cluster.change == Change::NotPicked);
        cluster.change != Change::NotPicked || not_picked <= NOT_PICKED_MAX
    })
}

fn clusters(plan: &Plan) -> Table {
    let mut table = Table::new(&["CLUSTER", "CHANGE", "AFFINITY", "SPREAD", "OVERRIDES", "WHY"]);
    for cluster in listed(plan) {
        table.row(row(cluster));
    }
    table
}

fn row(cluster: &PlannedCluster) -> [String; 6] {
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

pub(super) fn few(names: &[String]) -> String {
    text::few(names, NAMES_MAX)
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
