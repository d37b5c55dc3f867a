//! A run takes back what it did: every cluster that it started gets what it had before, newest first.
//!
//! What set it off is the failure of a stage, which is stored before anything is taken back. How far it has come is told by
//! the bindings: one that names what was recorded and bears the run's signature has been given back.

use fleet_api::annotations::REQUESTED;
use fleet_api::conditions;
use fleet_api::conditions::Status;
use fleet_api::conditions::update_run::{Abort, Progressing};
use fleet_api::conditions::update_stage::Succeeded;
use fleet_api::events::{Event as _, UpdateRunEvent};
use fleet_api::placement::{ClusterUpdatingStatus, PreviousContent, UpdateRunState, UpdateRunStatus};
use jiff::{SignedDuration, Timestamp};

use super::clusters;
use super::names::index_of;
use super::options::Options;
use super::pass::{Pass, Verdict};
use super::put::write;
use super::standing::{Progress, Wish};
use super::state::ClusterEntry as _;
use super::step::{Content, Put, Stamp, sentence};
use super::validate::max_concurrency;
use super::world::{Binding, World};
use super::{later, number, patience};
use crate::overrides::choose::Lists;

fn content(previous: &PreviousContent) -> Content {
    Content {
        snapshot: previous.resource_snapshot_name.clone(),
        overrides: Lists {
            cluster_wide: previous.cluster_resource_override_snapshots.clone(),
            namespaced: previous.resource_override_snapshots.clone(),
        },
        apply_strategy: previous.apply_strategy.clone().unwrap_or_default(),
    }
}

/// Why a run with this status takes back what it did; none if it does not.
pub(super) fn trigger<'a>(status: &'a UpdateRunStatus, options: &Options) -> Option<&'a str> {
    if !options.rollback {
        return None;
    }
    let stages = status.stages_status.iter().chain(&status.deletion_stage_status);
    let ends = stages.filter_map(|stage| conditions::find(&stage.conditions, Succeeded::TYPE));
    let mut failed = ends.filter(|end| Status::of(end) == Status::False);
    failed.next().map(|end| end.message.as_str())
}

/// Tells a user who asks for a rollback that there will be none, once for each change of the annotation.
pub(super) fn tell_ignored(pass: &mut Pass<'_>) {
    const SUBJECT: &str = "rollback";
    let Some(asked) = pass.run.asks_of_rollback() else {
        pass.memory.told.remove(SUBJECT);
        return;
    };
    let why = if asked != REQUESTED {
        format!("{asked:?} is not {REQUESTED}")
    } else if !pass.options.rollback {
        "the run was initialized without on-failure: Rollback".to_owned()
    } else {
        pass.memory.told.remove(SUBJECT);
        return;
    };
    let event = UpdateRunEvent::RollbackIgnored { why };
    if pass.memory.tells(SUBJECT, event.message()) {
        pass.step.tell(event);
    }
}

/// How many clusters are to be given back what they had, as far as the status tells.
pub(super) fn count(status: &UpdateRunStatus) -> usize {
    let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    clusters
        .filter(|cluster| cluster.previous.is_some() && cluster.is_started())
        .count()
}

/// How a cluster fares.
enum Standing {
    /// It has what it had, and that works.
    Restored,
    /// It has been given it.
    Busy,
    /// It has yet to be given it.
    ToDo,
    /// It has been given it, and does not work in time. What its binding says.
    Late(String),
    /// It is not to be touched, or nothing more can be done.
    Left(String),
}

/// One cluster of the run.
struct Entry<'a> {
    cluster: &'a ClusterUpdatingStatus,
    stage: usize,
    started: Timestamp,
}

/// The next step back.
pub(super) fn go_on(pass: &mut Pass<'_>, status: &mut UpdateRunStatus, why: String) -> Verdict {
    mark_snapshot(pass);
    if adopt(pass, status) {
        pass.step.look_at(pass.now());
        let of = count(status);
        return doing(pass, Progressing::RollingBack { restored: 0, of });
    }
    let limits = limits(status);
    let entries = newest_first(status);
    let mut under_way = vec![0; status.stages_status.len()];
    let (mut restored, mut waiting, mut left) = (0, Vec::new(), Vec::new());
    let mut late = Vec::new();
    for entry in &entries {
        let name = &entry.cluster.cluster_name;
        match look(pass, entry.cluster) {
            Standing::Restored => restored += 1,
            Standing::Busy => under_way[entry.stage] += 1,
            Standing::ToDo => waiting.push(entry),
            Standing::Late(obstacle) => {
                let within = number::shown_duration(patience_for(pass));
                left.push(format!("{name} (not available again within {within}: {obstacle})"));
                late.push(clusters::still_busy(pass, name, &obstacle));
            }
            Standing::Left(why) => left.push(format!("{name} ({why})")),
        }
    }
    let stopping = is_stopping(pass);
    let all_waiting = waiting.len();
    for entry in waiting {
        // Stages do not overlap on the way back either.
        let newer: usize = under_way[entry.stage + 1..].iter().sum();
        if stopping || newer > 0 || under_way[entry.stage] >= limits[entry.stage] {
            break;
        }
        under_way[entry.stage] += 1;
        give_back(pass, entry.cluster);
    }
    let busy: usize = under_way.iter().sum();
    let of = entries.len();
    if stopping && busy > 0 {
        return Verdict::Doing(Progressing::Stopping);
    }
    if stopping {
        if !late.is_empty() {
            let message = format!(
                "The update run was stopped with clusters that do not work yet with what they had before; {}",
                late.join(", ")
            );
            pass.step.tell(UpdateRunEvent::Stuck { message });
        }
        return Verdict::Doing(Progressing::Stopped);
    }
    if busy > 0 || all_waiting > 0 {
        return Verdict::Doing(Progressing::RollingBack { restored, of });
    }
    pass.step.tell(UpdateRunEvent::RolledBack {
        restored,
        of,
        left: left.join(", "),
    });
    Verdict::Failed(Abort::RolledBack {
        error: why,
        restored,
        of,
    })
}

fn doing(pass: &Pass<'_>, words: Progressing) -> Verdict {
    Verdict::Doing(if is_stopping(pass) {
        Progressing::Stopping
    } else {
        words
    })
}

fn is_stopping(pass: &Pass<'_>) -> bool {
    pass.run.spec.state == UpdateRunState::Stop
}

/// How long a cluster may take to work again. A stop waits no longer than it does for other clusters.
fn patience_for(pass: &Pass<'_>) -> SignedDuration {
    let deadline = pass.options.cluster_deadline.unwrap_or(pass.threshold());
    if is_stopping(pass) {
        deadline.min(pass.threshold())
    } else {
        deadline
    }
}

/// Later runs are warned of a version that has been taken back. The first run that did it stays the one that is named: two
/// that do it at once would else wake one another for ever.
fn mark_snapshot(pass: &mut Pass<'_>) {
    let snapshot = pass.world.snapshot;
    if snapshot.is_some_and(|snapshot| snapshot.failed_in.is_none_or(str::is_empty)) {
        pass.step.mark_snapshot = true;
    }
}

/// A start that a crash kept from the status: it is stored first, so that it is given back, too.
fn adopt(pass: &Pass<'_>, status: &mut UpdateRunStatus) -> bool {
    let mut any = false;
    for cluster in status.stages_status.iter_mut().flat_map(|stage| &mut stage.clusters) {
        let unknown = cluster.previous.is_some() && !cluster.is_started() && cluster.outcome().is_none();
        let Some(binding) = pass.binding(&cluster.cluster_name).filter(|_| unknown) else {
            continue;
        };
        let content = pass.content(cluster);
        if content.is_in(binding.spec) && is_ours(pass, binding) {
            let at = pass.wish(&content).started_at(binding).unwrap_or(pass.now());
            cluster.start(pass.pen, at);
            any = true;
        }
    }
    any
}

fn is_ours(pass: &Pass<'_>, binding: &Binding<'_>) -> bool {
    binding.update_run == Some(pass.signature.annotation.as_str())
}

/// How many clusters of each stage may be under way.
fn limits(status: &UpdateRunStatus) -> Vec<usize> {
    let strategy = status.staged_update_strategy_snapshot.as_ref();
    let specs = strategy.map(|strategy| strategy.stages.as_slice()).unwrap_or_default();
    let limit = |(place, stage)| {
        let spec = specs.get(place);
        spec.and_then(|spec| max_concurrency(spec, stage).ok()).unwrap_or(1)
    };
    status.stages_status.iter().enumerate().map(limit).collect()
}

fn newest_first(status: &UpdateRunStatus) -> Vec<Entry<'_>> {
    let stages = status.stages_status.iter().enumerate();
    let clusters = stages.flat_map(|(stage, entry)| entry.clusters.iter().map(move |cluster| (stage, cluster)));
    let entries = clusters.filter(|(_, cluster)| cluster.previous.is_some());
    let mut entries: Vec<_> = entries
        .filter_map(|(stage, cluster)| {
            let started = cluster.started_at()?;
            Some(Entry {
                cluster,
                stage,
                started,
            })
        })
        .collect();
    // The plan's order turned round, and by the clock where that knows better.
    entries.reverse();
    entries.sort_by_key(|entry| std::cmp::Reverse((entry.stage, entry.started)));
    entries
}

fn look(pass: &mut Pass<'_>, cluster: &ClusterUpdatingStatus) -> Standing {
    let Some(previous) = &cluster.previous else {
        return Standing::Left("nothing was recorded".to_owned());
    };
    let left = |why: &str| Standing::Left(why.to_owned());
    let Some(binding) = pass
        .binding(&cluster.cluster_name)
        .filter(|binding| binding.is_picked())
    else {
        return left("no longer selected");
    };
    if previous.resource_snapshot_name.is_empty() {
        return left("had nothing before");
    }
    if !is_ours(pass, binding) {
        let run = binding.update_run.and_then(|signed| signed.split('/').next());
        return match run.filter(|run| !run.is_empty()) {
            Some(run) => Standing::Left(format!("taken over by update run {run}")),
            None => left("picked again or changed by somebody else"),
        };
    }
    let (before, planned) = (content(previous), pass.content(cluster));
    let text = restored_sentence(pass, &before);
    let wish = Wish {
        content: &before,
        annotation: &pass.signature.annotation,
        sentence: &text,
    };
    if before.is_in(binding.spec) {
        pass.memory.refused_since.remove(&cluster.cluster_name);
        return restored(pass, cluster, binding, &wish);
    }
    if !planned.is_in(binding.spec) {
        return left("changed by somebody else");
    }
    if let Some(gone) = missing(pass, &before) {
        return Standing::Left(format!("its {gone} is gone"));
    }
    to_do(pass, cluster, binding)
}

/// What a cluster had, as far as it is not there any more.
fn missing(pass: &Pass<'_>, before: &Content) -> Option<String> {
    let World {
        missing_snapshots,
        missing_overrides,
        ..
    } = pass.world;
    if missing_snapshots.contains(&before.snapshot) {
        return Some(format!("resource snapshot {}", before.snapshot));
    }
    let mut overrides = before.overrides.shown();
    let gone = overrides.find(|name| missing_overrides.contains(name))?;
    Some(format!("override snapshot {gone}"))
}

/// A cluster that has yet to be given back what it had. One whose binding cannot be written holds up the others no longer
/// than one that does not become available.
fn to_do(pass: &mut Pass<'_>, cluster: &ClusterUpdatingStatus, binding: &Binding<'_>) -> Standing {
    if !pass.is_refused(binding) {
        return Standing::ToDo;
    }
    let deadline = pass.options.cluster_deadline.unwrap_or(pass.threshold());
    let since = pass
        .memory
        .refused_since
        .entry(cluster.cluster_name.clone())
        .or_default();
    let Some(until) = patience(since, deadline, pass.at) else {
        let within = number::shown_duration(deadline);
        return Standing::Left(format!("could not be written within {within}"));
    };
    pass.step.look_at(until);
    Standing::ToDo
}

/// A cluster that has been given back what it had.
fn restored(pass: &mut Pass<'_>, cluster: &ClusterUpdatingStatus, binding: &Binding<'_>, wish: &Wish<'_>) -> Standing {
    match wish.progress(Some(binding)) {
        Progress::Done => Standing::Restored,
        Progress::Unstamped => {
            let at = wish.started_at(binding).unwrap_or(pass.now());
            let put = put(wish, at, None);
            write(pass, binding, put);
            Standing::Busy
        }
        Progress::Busy(obstacle) => {
            let given = wish.started_at(binding).unwrap_or(pass.now());
            let since = pass.since(&format!("back {}", cluster.cluster_name), given);
            let end = later(since, patience_for(pass));
            if end > pass.now() {
                pass.step.look_at(end);
                return Standing::Busy;
            }
            Standing::Late(obstacle)
        }
        Progress::Gone | Progress::Preempted => Standing::Left("no longer selected".to_owned()),
    }
}

fn give_back(pass: &mut Pass<'_>, cluster: &ClusterUpdatingStatus) {
    let (Some(previous), Some(binding)) = (&cluster.previous, pass.binding(&cluster.cluster_name)) else {
        return;
    };
    let before = content(previous);
    let text = restored_sentence(pass, &before);
    let wish = Wish {
        content: &before,
        annotation: &pass.signature.annotation,
        sentence: &text,
    };
    let put = put(&wish, pass.now(), Some(pass.signature.annotation.clone()));
    write(pass, binding, put);
}

fn put(wish: &Wish<'_>, at: Timestamp, annotation: Option<String>) -> Put {
    Put {
        content: wish.content.clone(),
        annotation,
        stamp: Stamp {
            message: wish.sentence.to_owned(),
            at,
        },
    }
}

/// It names the old index, and this run.
fn restored_sentence(pass: &Pass<'_>, before: &Content) -> String {
    let index = index_of(&pass.run.spec.placement_name, &before.snapshot);
    sentence(index, pass.run.name)
}
