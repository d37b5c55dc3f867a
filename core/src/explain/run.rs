//! Why an update run does not go on.

mod gate;
mod left;
mod taken;
mod task;

pub(super) use gate::waiting as waiting_gate;
pub(super) use task::approve;

use fleet_api::conditions::update_run::{Initialized, Progressing, Succeeded};
use fleet_api::conditions::update_stage::{ClusterStarted, ClusterSucceeded, Succeeded as StageSucceeded};
use fleet_api::conditions::{self, Status};
use fleet_api::placement::{ClusterUpdatingStatus, RolloutStrategyType, StageStatus, UpdateRunState, UpdateRunStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::chain::{Cause, Chain, Step, Verdict};
use super::cluster::placement_on;
use super::fleet::{Fleet, Run, holds};
use super::names::{Names, clusters, few};
use super::{aborts, reasons};
use crate::updaterun::{self, Failures};

/// Explains an update run.
pub fn run(fleet: &Fleet<'_>, name: &str) -> Chain {
    let names = Names {
        run: name,
        ..fleet.names()
    };
    let mut chain = Chain::new(names.fill("{run}"));
    let Some(run) = fleet.run(name) else {
        let text = names.fill("there is no {run}");
        chain.push(Step::failed(
            "Found",
            Cause::new(text, "kubectl get csur; kubectl get sur -A"),
        ));
        return chain;
    };
    let names = Names {
        placement: &run.spec.placement_name,
        ..names
    };
    chain.push(Step::done("Found", "").since(run.meta.creation_timestamp.as_ref()));
    chain.push(initialized(fleet, &run, &names));
    let Some(status) = run.status else {
        return chain;
    };
    chain.push(ended(fleet, &run, status, &names));
    chain.push(asked_to_run(&run, status, &names));
    for (i, stage) in status.stages_status.iter().enumerate() {
        let later = status.stages_status.len() - i - 1;
        stage_steps(fleet, &run, stage, later, &names, &mut chain);
    }
    if let Some(deletion) = &status.deletion_stage_status {
        chain.push(updated(
            fleet,
            deletion,
            "clusters that are no longer picked",
            How::default(),
            &names,
        ));
    }
    if chain.first_unmet().is_none() {
        chain.push(match conditions::find(&status.conditions, Succeeded::TYPE) {
            Some(condition) => reasons::step(Succeeded::TYPE, condition, &names),
            None => Step::waiting(
                Succeeded::TYPE,
                Cause::new(
                    "the run is about to end",
                    names.fill("kubectl fleet rollout watch {run}{n}"),
                ),
            ),
        });
    }
    chain
}

fn initialized(fleet: &Fleet<'_>, run: &Run<'_>, names: &Names<'_>) -> Step {
    let list = run
        .status
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let name = Initialized::TYPE;
    let condition = conditions::find(list, name);
    match condition.map(Status::of) {
        Some(Status::True) => {
            let index = run
                .status
                .map_or("", |status| status.resource_snapshot_index_used.as_str());
            Step::done(name, format!("resource snapshot {index}")).since(condition.map(|c| &c.last_transition_time))
        }
        Some(Status::False) => {
            let message = condition
                .map(|condition| condition.message.as_str())
                .unwrap_or_default();
            Step::failed(name, aborts::cause(message, names)).since(condition.map(|c| &c.last_transition_time))
        }
        _ => Step::waiting(name, not_initialized(fleet, run, names)),
    }
}

/// What a run without a plan waits for.
fn not_initialized(fleet: &Fleet<'_>, run: &Run<'_>, names: &Names<'_>) -> Cause {
    match fleet.placement(&run.spec.placement_name) {
        None => Cause::new(
            names.fill("there is no {placement}, which the run is about"),
            "kubectl get crp; kubectl get rp -A",
        ),
        Some(placement) if placement.spec.rollout_type() != RolloutStrategyType::External => Cause::new(
            names.fill("the strategy of {placement} is not External, so no run may update it"),
            names.fill("kubectl edit {placement}{n}"),
        ),
        Some(_) => match fleet.event(kind(names), run.name(), "UpdateRunInitializationWaiting") {
            Some(event) => Cause::new(
                event.message.clone().unwrap_or_default(),
                names.fill("kubectl fleet why {placement}{n}"),
            ),
            None => Cause::new(
                "the hub agent has not made the run's plan yet",
                "kubectl -n fleet-system logs deploy/hub-agent",
            ),
        },
    }
}

fn kind(names: &Names<'_>) -> &'static str {
    match names.scope() {
        fleet_api::names::Scope::Cluster => "ClusterStagedUpdateRun",
        fleet_api::names::Scope::Namespaced => "StagedUpdateRun",
    }
}

/// A run that has failed never goes on.
fn ended(fleet: &Fleet<'_>, run: &Run<'_>, status: &UpdateRunStatus, names: &Names<'_>) -> Step {
    let failed = conditions::find(&status.conditions, Succeeded::TYPE);
    match failed.filter(|condition| Status::of(condition) == Status::False) {
        Some(condition) => {
            let cause = taken::cause(fleet, run, condition, names);
            let mut cause = cause.unwrap_or_else(|| aborts::cause(&condition.message, names));
            cause
                .text
                .push_str(&left::alone(fleet, run, status, &condition.message));
            Step::failed("Alive", cause).since(Some(&condition.last_transition_time))
        }
        None => Step::done("Alive", ""),
    }
}

fn asked_to_run(run: &Run<'_>, status: &UpdateRunStatus, names: &Names<'_>) -> Step {
    let name = "Running";
    let progressing = conditions::find(&status.conditions, Progressing::TYPE);
    let said = |reason: &str| progressing.is_some_and(|condition| condition.reason == reason);
    if holds(&status.conditions, Succeeded::TYPE) {
        return Step::done(name, "");
    }
    let patch = names.fill("kubectl patch {run}{n} --type merge --patch '{\"spec\":{\"state\":\"Run\"}}'");
    let left = remaining(status);
    match run.spec.state {
        UpdateRunState::Run if is_rolling_back(status) => Step::waiting(name, rolling_back(status, progressing, names)),
        UpdateRunState::Run => Step::done(name, ""),
        UpdateRunState::Initialize => Step::waiting(
            name,
            Cause::new("the run has its plan and waits for spec.state: Run", patch).holding(left),
        ),
        UpdateRunState::Stop if said("UpdateRunStopped") => {
            Step::waiting(name, Cause::new("somebody has stopped the run", patch).holding(left))
        }
        UpdateRunState::Stop => Step::waiting(
            name,
            Cause::new(
                "the run is stopping, once clusters that are being updated are done",
                names.fill("kubectl fleet rollout watch {run}{n}"),
            )
            .holding(left),
        ),
    }
    .since(progressing.map(|condition| &condition.last_transition_time))
}

/// What a run says that takes back what it did, and what set it off.
fn rolling_back(status: &UpdateRunStatus, progressing: Option<&Condition>, names: &Names<'_>) -> Cause {
    let says = progressing.map(|said| said.message.as_str()).unwrap_or_default();
    let stages = status.stages_status.iter().chain(&status.deletion_stage_status);
    let ends = stages.filter_map(|stage| conditions::find(&stage.conditions, StageSucceeded::TYPE));
    let mut failed = ends.filter(|end| Status::of(end) == Status::False);
    let why = failed.next().map(|end| end.message.as_str()).unwrap_or_default();
    let why = why.trim_start_matches("cannot continue the updateRun: ");
    Cause::new(
        format!("{says}, because {why}"),
        names.fill("kubectl fleet rollout watch {run}{n}"),
    )
}

/// How many clusters the run has not updated yet.
fn remaining(status: &UpdateRunStatus) -> String {
    let all = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    match all.filter(|cluster| !is_updated(cluster)).count() {
        0 => String::new(),
        count => clusters(count),
    }
}

fn is_updated(cluster: &ClusterUpdatingStatus) -> bool {
    holds(&cluster.conditions, ClusterSucceeded::TYPE)
}

fn stage_steps(
    fleet: &Fleet<'_>,
    run: &Run<'_>,
    stage: &StageStatus,
    later: usize,
    names: &Names<'_>,
    chain: &mut Chain,
) {
    let held = match later {
        0 => format!("the end of stage {}", stage.stage_name),
        later => format!("stage {} and {later} after it", stage.stage_name),
    };
    let begun = stage.start_time.is_some();
    for step in task::before(fleet, stage, names)
        .into_iter()
        .chain(gate::steps(run, stage, "before", begun))
    {
        chain.push(holding(step, &held));
    }
    let how = How {
        stuck: run.status.is_some_and(|status| is_stuck(status, stage)),
        counts: run.status.and_then(updaterun::failures).is_some(),
    };
    let clusters = updated(fleet, stage, &format!("stage {}", stage.stage_name), how, names);
    let clusters = budget(run, stage, window(run, stage, clusters));
    chain.push(holding(clusters, &held));
    let ended = stage.end_time.is_some();
    for step in task::after(fleet, run, stage, names)
        .into_iter()
        .chain(gate::steps(run, stage, "after", ended))
    {
        chain.push(holding(step, &held));
    }
}

/// Whether a run takes back what it did.
pub(super) fn is_rolling_back(status: &UpdateRunStatus) -> bool {
    let said = conditions::find(&status.conditions, Progressing::TYPE);
    said.is_some_and(|said| said.reason == "UpdateRunRollingBack")
}

/// Whether a run says that clusters of this stage have been updating for too long.
pub(super) fn is_stuck(status: &UpdateRunStatus, stage: &StageStatus) -> bool {
    let said = conditions::find(&status.conditions, Progressing::TYPE);
    let of_stage = format!(" in stage {} ", stage.stage_name);
    said.is_some_and(|said| said.reason == "UpdateRunStuck" && said.message.contains(&of_stage))
}

/// What a run says whose stage waits for windows of its clusters.
pub(super) fn window_said<'a>(status: &'a UpdateRunStatus, stage: &StageStatus) -> Option<&'a Condition> {
    let said = conditions::find(&status.conditions, Progressing::TYPE)?;
    let of_stage = format!(" cluster(s) in stage {}, ", stage.stage_name);
    (said.message.contains(" waiting for the window of ") && said.message.contains(&of_stage)).then_some(said)
}

/// A stage none of whose clusters may be started now says until when.
fn window(run: &Run<'_>, stage: &StageStatus, mut step: Step) -> Step {
    let said = run.status.and_then(|status| window_said(status, stage));
    if let (Some(said), Some(cause)) = (said, step.cause.as_mut()) {
        said.message.clone_into(&mut cause.text);
        "kubectl get memberclusters -o yaml | grep rollout.kubernetes-fleet.io/window".clone_into(&mut cause.next);
    }
    step
}

/// How much of the run's failure budget is used, where there is one: said of the stage at hand.
fn budget(run: &Run<'_>, stage: &StageStatus, mut step: Step) -> Step {
    let Some(status) = run.status else { return step };
    let mut open = status
        .stages_status
        .iter()
        .filter(|stage| !holds(&stage.conditions, StageSucceeded::TYPE));
    let is_at_hand = open.next().is_some_and(|open| open.stage_name == stage.stage_name);
    let Some(failures) = updaterun::failures(status).filter(|_| is_at_hand) else {
        return step;
    };
    let used = used_budget(&failures);
    match &mut step.cause {
        Some(cause) => cause.text = format!("{}; {used}", cause.text),
        None if step.says.is_empty() => step.says = used,
        None => step.says = format!("{}; {used}", step.says),
    }
    step
}

/// `2 clusters may fail, 1 has: east`.
pub(super) fn used_budget(failures: &Failures<'_>) -> String {
    let may = match failures.max {
        0 => "no cluster may fail".to_owned(),
        max => format!("{} may fail", clusters(max)),
    };
    match failures.clusters[..] {
        [] => format!("{may}, none has"),
        [name] => format!("{may}, 1 has: {name}"),
        ref all => format!("{may}, {} have: {}", all.len(), few(all.iter().copied())),
    }
}

fn holding(mut step: Step, held: &str) -> Step {
    if let Some(cause) = step.cause.as_mut()
        && cause.holds_back.is_empty()
    {
        held.clone_into(&mut cause.holds_back);
    }
    step
}

/// How a run takes its clusters.
#[derive(Debug, Clone, Copy, Default)]
struct How {
    /// It says itself that they take too long.
    stuck: bool,
    /// It counts those that fail, and goes on.
    counts: bool,
}

/// The clusters of a stage. The first that is under way and not done tells why.
fn updated(fleet: &Fleet<'_>, stage: &StageStatus, name: &str, how: How, names: &Names<'_>) -> Step {
    let all = stage.clusters.len();
    let ended =
        conditions::find(&stage.conditions, StageSucceeded::TYPE).is_some_and(|end| Status::of(end) == Status::True);
    // What may fail and has failed is done with.
    let is_over =
        |cluster: &ClusterUpdatingStatus| is_updated(cluster) || how.counts && failure(&cluster.conditions).is_some();
    let open = stage.clusters.iter().filter(|cluster| !ended && !is_over(cluster));
    let open: Vec<_> = open.collect();
    let done = stage.clusters.iter().filter(|cluster| is_updated(cluster)).count();
    let since = stage.start_time.as_ref();
    if open.is_empty() {
        return Step::done(name, clusters(all)).since(stage.end_time.as_ref());
    }
    let said =
        |cluster: &&&ClusterUpdatingStatus, type_name| conditions::find(&cluster.conditions, type_name).is_some();
    let started: Vec<_> = open
        .iter()
        .filter(|cluster| said(cluster, ClusterStarted::TYPE))
        .collect();
    let watch = names.fill("kubectl fleet rollout watch {run}{n}");
    let Some(first) = started.first() else {
        let text = format!(
            "not begun yet: {}",
            few(open.iter().map(|cluster| cluster.cluster_name.as_str()))
        );
        return Step::waiting(name, Cause::new(text, watch)).since(since);
    };
    let cluster = first.cluster_name.as_str();
    if let Some(failed) = failure(&first.conditions) {
        return Step::failed(name, aborts::cause(&failed.message, names)).since(Some(&failed.last_transition_time));
    }
    let others = few(started.iter().map(|cluster| cluster.cluster_name.as_str()));
    let begun =
        conditions::find(&first.conditions, ClusterStarted::TYPE).map(|condition| condition.last_transition_time.0);
    let for_ = begun
        .map(|begun| format!(", for {}", fleet.ago(begun)))
        .unwrap_or_default();
    let (word, verdict) = if how.stuck {
        ("stuck", Verdict::Failed)
    } else {
        ("under way", Verdict::Waiting)
    };
    let lead = format!("{done} of {} updated, {word}: {others}{for_}", clusters(all));
    let chain = placement_on(fleet, names.placement, cluster);
    match chain.first_unmet().map(|step| (step.verdict, step.cause.as_ref())) {
        Some((its @ (Verdict::Failed | Verdict::Waiting), Some(cause))) => {
            let verdict = if how.stuck { verdict } else { its };
            let text = if cause.text.starts_with(cluster) {
                format!("{lead}. {}", cause.text)
            } else {
                format!("{lead}. {cluster}: {}", cause.text)
            };
            Step::unmet(name, verdict, Cause::new(text, cause.next.clone())).since(since)
        }
        _ => Step::unmet(name, verdict, Cause::new(lead, watch)).since(since),
    }
}

fn failure(list: &[Condition]) -> Option<&Condition> {
    conditions::find(list, ClusterSucceeded::TYPE).filter(|condition| Status::of(condition) == Status::False)
}
