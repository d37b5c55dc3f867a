//! The clusters of a stage: how those that are under way fare, and which come next.

use fleet_api::conditions::update_run::Abort;
use fleet_api::conditions::update_stage::ClusterSucceeded;
use fleet_api::events::UpdateRunEvent;
use fleet_api::placement::{ClusterUpdatingStatus, StageStatus};
use jiff::{SignedDuration, Timestamp};

use super::blame::may_have_given;
use super::later;
use super::pass::Pass;
use super::put::write;
use super::standing::{Progress, Turn, was_started_by};
use super::state::ClusterEntry as _;
use super::step::Given;
use super::world::{Binding, Run};

/// A cluster that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Busy {
    /// Its place in the stage.
    place: usize,
    pub(super) cluster: String,
    /// Since when, by today's clock; none for one whose start could not be written.
    since: Option<Timestamp>,
    /// Whether it works, only not for long enough: then it cannot be stuck.
    works: bool,
    /// What its binding says.
    obstacle: String,
}

/// The clusters of a stage that are under way, and what ends the run.
#[derive(Debug, Clone, Default)]
pub(super) struct Flight {
    busy: Vec<Busy>,
    /// Clusters that will be started once what they have is recorded.
    reserved: usize,
    pub(super) aborts: Vec<Abort>,
}

impl Flight {
    /// Nothing under way, for these reasons.
    pub(super) fn failed(aborts: Vec<Abort>) -> Self {
        Self {
            aborts,
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.taken() == 0
    }

    /// How many may not be started beside those under way.
    fn taken(&self) -> usize {
        self.busy.len() + self.reserved
    }

    pub(super) fn add(&mut self, place: usize, cluster: &str, since: Option<Timestamp>, obstacle: String) {
        let cluster = cluster.to_owned();
        self.busy.push(Busy {
            place,
            cluster,
            since,
            works: false,
            obstacle,
        });
    }

    fn add_settling(&mut self, place: usize, cluster: &str, since: Timestamp, obstacle: String) {
        let cluster = cluster.to_owned();
        self.busy.push(Busy {
            place,
            cluster,
            since: Some(since),
            works: true,
            obstacle,
        });
    }

    /// A stop waits no longer for those that work already.
    pub(super) fn count_settling(&mut self) {
        for busy in &mut self.busy {
            busy.works = false;
        }
    }

    /// Those that have been under way for too long, in the stage's order.
    pub(super) fn stuck(&self, threshold: SignedDuration, now: Timestamp) -> Vec<&Busy> {
        let mut stuck: Vec<_> = self.busy.iter().filter(|busy| busy.is_stuck(threshold, now)).collect();
        stuck.sort_by_key(|busy| busy.place);
        stuck
    }

    /// Whether some are under way, and all of them for too long.
    pub(super) fn all_stuck(&self, threshold: SignedDuration, now: Timestamp) -> bool {
        !self.is_empty() && self.stuck(threshold, now).len() == self.taken()
    }

    /// When the next of them will have been under way for too long.
    pub(super) fn next_threshold(&self, threshold: SignedDuration, now: Timestamp) -> Option<Timestamp> {
        let ends = self
            .busy
            .iter()
            .filter(|busy| !busy.works)
            .filter_map(|busy| busy.since);
        ends.map(|since| later(since, threshold)).filter(|end| *end > now).min()
    }
}

impl Busy {
    fn is_stuck(&self, threshold: SignedDuration, now: Timestamp) -> bool {
        !self.works && self.since.is_some_and(|since| later(since, threshold) <= now)
    }
}

/// The Event's sentence about clusters that are stuck: the condition's, and what is in the way of each.
pub(super) fn stuck_event(sentence: &str, stuck: &[&Busy], pass: &Pass<'_>) -> UpdateRunEvent {
    let each = stuck.iter().map(|busy| still_busy(pass, &busy.cluster, &busy.obstacle));
    let each = each.collect::<Vec<_>>().join(", ");
    UpdateRunEvent::Stuck {
        message: format!("{sentence}; {each}"),
    }
}

/// A cluster, and what is in its way.
pub(super) fn still_busy(pass: &Pass<'_>, cluster: &str, obstacle: &str) -> String {
    let binding = pass.binding(cluster).map_or("none", |binding| binding.name);
    format!("{cluster} (binding {binding}): {obstacle}")
}

/// How the clusters fare that this run has started. Nothing is started here.
pub(super) fn look(pass: &mut Pass<'_>, stage: &mut StageStatus, max: usize) -> Flight {
    let mut flight = Flight::default();
    let name = stage.stage_name.clone();
    for (place, cluster) in stage.clusters.iter_mut().enumerate() {
        match cluster.outcome() {
            Some(true) => {}
            Some(false) if pass.counts_failures() => {}
            Some(false) => {
                flight.aborts.push(Abort::ClusterFailed {
                    cluster: cluster.cluster_name.clone(),
                    stage: name.clone(),
                });
                flight.add(place, &cluster.cluster_name, None, "failed".to_owned());
            }
            None => {
                if let Some(since) = cluster.started_at() {
                    judge(pass, &name, place, cluster, since, &mut flight);
                }
            }
        }
    }
    // A start that a crash kept from the status. The status never names more than may be under way: another one that had
    // been available when this one was started may have broken since.
    for (place, cluster) in stage.clusters.iter_mut().enumerate() {
        if cluster.outcome().is_none() && !cluster.is_started() {
            adopt(pass, &name, place, cluster, max, &mut flight);
        }
    }
    flight
}

fn judge(
    pass: &mut Pass<'_>,
    stage: &str,
    place: usize,
    cluster: &mut ClusterUpdatingStatus,
    since: Timestamp,
    flight: &mut Flight,
) {
    let binding = pass.binding(&cluster.cluster_name);
    let content = pass.content(cluster);
    let wish = pass.wish(&content);
    match wish.progress(binding) {
        Progress::Gone => cluster.end(pass.pen, &ClusterSucceeded::SkippedNotSelected),
        Progress::Done => {
            let settles = binding.and_then(|b| pass.settles(&cluster.cluster_name, b, wish.done(), since));
            let obstacle = format!("{}=True for too short a time", wish.done());
            if settles.is_none() {
                cluster.end(pass.pen, &ClusterSucceeded::Succeeded);
                return;
            }
            let since = pass.since(&cluster.cluster_name, since);
            match pass.is_settling_late(since, &obstacle) {
                Some(failed) => cluster.end(pass.pen, &failed),
                None => flight.add_settling(place, &cluster.cluster_name, since, obstacle),
            }
        }
        Progress::Busy(obstacle) => {
            let since = pass.since(&cluster.cluster_name, since);
            match pass.is_late(since, &obstacle) {
                Some(failed) => cluster.end(pass.pen, &failed),
                None => flight.add(place, &cluster.cluster_name, Some(since), obstacle),
            }
        }
        Progress::Unstamped => {
            if let Some(binding) = binding {
                let put = wish.stamp_again(binding, since);
                write(pass, binding, put);
            }
            let since = pass.since(&cluster.cluster_name, since);
            // One that is written says in a moment how it fares.
            let refused = binding.is_some_and(|binding| pass.is_refused(binding));
            let obstacle = if refused {
                "RolloutStarted cannot be written"
            } else {
                "RolloutStarted is written again"
            };
            match refused.then(|| pass.is_late(since, obstacle)).flatten() {
                Some(failed) => cluster.end(pass.pen, &failed),
                None => flight.add(place, &cluster.cluster_name, Some(since), obstacle.to_owned()),
            }
        }
        Progress::Preempted => {
            let abort = Abort::Preempted {
                cluster: cluster.cluster_name.clone(),
                stage: stage.to_owned(),
                binding: binding.map(|binding| pass.shown(binding.name)).unwrap_or_default(),
            };
            let error = abort.to_cluster_error();
            cluster.end(pass.pen, &ClusterSucceeded::Failed { error });
            if let Some(binding) = binding {
                tell_taken_over(pass, stage, binding, since);
            }
            flight.add(place, &cluster.cluster_name, Some(since), "taken over".to_owned());
            flight.aborts.push(abort);
        }
    }
}

/// The condition's text is published and does not say who it was.
fn tell_taken_over(pass: &mut Pass<'_>, stage: &str, binding: &Binding<'_>, since: Timestamp) {
    let (cluster, stage) = (binding.spec.target_cluster.clone(), stage.to_owned());
    let index = pass.index_of(&binding.spec.resource_snapshot_name);
    let own = pass.signature.annotation == binding.update_run.unwrap_or_default();
    let run = binding.update_run.and_then(|annotation| annotation.split('/').next());
    let run = run.filter(|run| !run.is_empty() && !own && may_be_of(pass, binding, run, since));
    let event = match run {
        Some(run) => UpdateRunEvent::Preempted {
            cluster,
            stage,
            run: run.to_owned(),
            index,
        },
        None => UpdateRunEvent::Changed { cluster, stage, index },
    };
    pass.step.tell(event);
}

/// Whether the run that signed a binding may have given it what it names now. One that had started the cluster before gave
/// it what this run found there, whatever has been stamped since.
fn may_be_of(pass: &Pass<'_>, binding: &Binding<'_>, run: &str, since: Timestamp) -> bool {
    let signed = |other: &&Run<'_>| binding.update_run == Some(other.annotation().as_str());
    let known = pass.world.runs.iter().find(signed);
    let snapshot = &binding.spec.resource_snapshot_name;
    !was_started_by(binding, run, since) && known.is_none_or(|known| may_have_given(known, snapshot, since))
}

fn adopt(
    pass: &mut Pass<'_>,
    stage: &str,
    place: usize,
    cluster: &mut ClusterUpdatingStatus,
    max: usize,
    flight: &mut Flight,
) {
    let Some(binding) = pass.binding(&cluster.cluster_name) else {
        return;
    };
    let content = pass.content(cluster);
    let wish = pass.wish(&content);
    if wish.turn(Some(binding)) != Turn::Own {
        return;
    }
    let since = wish.started_at(binding).unwrap_or(pass.now());
    let missing = wish.complete(binding, since);
    let refused = missing.is_some() && pass.is_refused(binding);
    if flight.taken() < max && !refused {
        cluster.start(pass.pen, since);
        if missing.is_none() {
            return judge(pass, stage, place, cluster, since, flight);
        }
    }
    flight.add(place, &cluster.cluster_name, Some(since), "just started".to_owned());
    if let Some(put) = missing {
        write(pass, binding, put);
    }
}

/// Starts clusters in the stage's order for as long as fewer than `max` are under way. A cluster that is no longer picked is
/// skipped here and no sooner: it may be back when its turn comes.
///
/// In a stage without order a cluster whose window is open overtakes one whose is not.
pub(super) fn start(pass: &mut Pass<'_>, stage: &mut StageStatus, order: Order, max: usize, flight: &mut Flight) {
    let mut ahead = 0;
    for (place, cluster) in stage.clusters.iter_mut().enumerate() {
        if flight.taken() >= max {
            // What the next ones have is recorded in time, so that their start needs no write before it.
            if !pass.options.rollback || ahead >= max {
                return;
            }
            if cluster.outcome().is_none() && !cluster.is_started() {
                ahead += 1;
                record_previous(pass, cluster);
            }
            continue;
        }
        if cluster.outcome().is_some() || cluster.is_started() {
            continue;
        }
        let binding = pass.binding(&cluster.cluster_name);
        let content = pass.content(cluster);
        let wish = pass.wish(&content);
        let turn = wish.turn(binding);
        let Some(binding) = binding.filter(|_| turn != Turn::Gone) else {
            cluster.end(pass.pen, &ClusterSucceeded::SkippedNotSelected);
            continue;
        };
        if !pass.is_open(&cluster.cluster_name) {
            match order {
                Order::Kept => return,
                Order::Free => continue,
            }
        }
        if pass.is_to_be_skipped(&cluster.cluster_name) {
            cluster.end(pass.pen, &ClusterSucceeded::SkippedUnhealthy);
            continue;
        }
        match turn {
            Turn::Own | Turn::Gone => {}
            Turn::There => {
                // Nothing of it is this run's to give back.
                cluster.previous = None;
                cluster.start(pass.pen, pass.now());
                match wish.result(binding) {
                    Progress::Done if pass.options.min_success_time.is_zero() => {
                        cluster.end(pass.pen, &ClusterSucceeded::Succeeded);
                    }
                    _ => begin(pass, place, cluster, flight),
                }
            }
            Turn::Start if pass.is_refused(binding) => {
                flight.add(place, &cluster.cluster_name, None, "could not be written".to_owned());
            }
            Turn::Start if pass.options.rollback && record_previous(pass, cluster) => {
                flight.reserved += 1;
                pass.step.look_at(pass.now());
            }
            Turn::Start => {
                let put = wish.start(pass.now());
                write(pass, binding, put);
                cluster.start(pass.pen, pass.now());
                begin(pass, place, cluster, flight);
            }
        }
    }
}

/// Whether a stage's clusters may overtake one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Kept,
    Free,
}

/// Records what a cluster has that is to be started, for the case that it is to be given back. True if that is not stored
/// yet: the start has to wait until it is, since afterwards nobody could tell.
fn record_previous(pass: &Pass<'_>, cluster: &mut ClusterUpdatingStatus) -> bool {
    let Some(binding) = pass.binding(&cluster.cluster_name) else {
        return false;
    };
    let has = Given::by(binding.update_run, binding.spec).content();
    if cluster.previous.as_ref() == Some(&has) {
        return false;
    }
    cluster.previous = Some(has);
    true
}

fn begin(pass: &mut Pass<'_>, place: usize, cluster: &ClusterUpdatingStatus, flight: &mut Flight) {
    let since = cluster
        .started_at()
        .map(|since| pass.since(&cluster.cluster_name, since));
    flight.add(place, &cluster.cluster_name, since, "just started".to_owned());
}
