//! One pass over a run that has a plan: bindings and approval requests first, then the run in one write.

use fleet_api::{annotations, placement::Scope};
use fleet_core::updaterun::{
    BindingAction, BindingWrite, GateObject, Moment, Phase, Refused, Run, Step, World, advance, snapshot_name,
};
use fleet_runtime::{Key, queue::Next};
use futures::future::join_all;
use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _, core::object::HasSpec as _};
use serde_json::json;
use tokio::time::Instant;

use super::{UpdateRuns, approvals, gates, gather::Seen, metrics, tell, view, write_status};
use crate::{
    binding::{self, Unwritten},
    cache::{family::beside, runs::placement_of},
    pipeline::{Error, Pipeline},
    writer::Part,
};

/// What could not be written in a pass, and what follows from that.
#[derive(Default)]
struct PassFailures {
    refused: Refused,
    again: bool,
    error: Option<Error>,
    /// The snapshot does not say yet that it was taken back, and may come to.
    unmarked: bool,
}

impl PassFailures {
    fn add(&mut self, failure: Unwritten) {
        match failure {
            Unwritten::Overtaken => self.again = true,
            Unwritten::Held => {}
            Unwritten::Failed(error) => self.error = Some(error),
        }
    }
}

pub(super) async fn pass<S: Scope>(ctx: &UpdateRuns<S>, key: &Key) -> Result<Next, Error> {
    let (at, began, mut failures) = (ctx.moment(), Instant::now(), PassFailures::default());
    let mut ask_again;
    let (run, step) = loop {
        let Some(run) = ctx.family.updates.runs.get(key) else {
            return Ok(Next::Wait);
        };
        let gates;
        (gates, ask_again) = gates::objects(ctx, key, &view::<S>(&run)).await;
        let step = decide(ctx, key, &run, &gates, &failures.refused, at);
        if carry_out(ctx, &run, &step, at.now, &mut failures).await {
            break (run, step);
        }
    };
    if let Some(status) = step.status.as_ref().filter(|_| failures.unmarked)
        && Run::of(run.meta(), run.spec(), Some(status)).phase() == Phase::Finished
        && let Some(error) = failures.error.take()
    {
        // Nobody looks at a run again that has ended.
        return Err(error);
    }
    if let Some(status) = &step.status
        && !write_status(ctx, key, &run, status).await?
    {
        // Its user was faster. What was started counts as started all the same.
        return Ok(Next::At(Instant::now()));
    }
    if let Some(status) = &step.status {
        // Re-stamps and deletions start nothing.
        let starts =
            |change: &BindingWrite| matches!(&change.action, BindingAction::Put(put) if put.annotation.is_some());
        if step.bindings.iter().any(starts) {
            ctx.memory.measures.wrote_starts(began.elapsed());
        }
        metrics::moved::<S>(&ctx.memory.measures, &run, status, at.now);
    }
    ctx.memory.keep(key, &view::<S>(&run), step.memory.clone());
    tell(ctx, &run, &step.events);
    match failures.error {
        Some(error) => Err(error),
        None if failures.again => Ok(Next::At(Instant::now())),
        None => Ok(ask_again.map_or(Next::Wait, Next::At).sooner(ctx.next(step.look_again))),
    }
}

fn decide<S: Scope>(
    ctx: &UpdateRuns<S>,
    key: &Key,
    run: &S::UpdateRun,
    gates: &[Option<GateObject>],
    refused: &Refused,
    at: Moment,
) -> Step {
    let view = view::<S>(run);
    let seen = Seen::of(ctx, &view, &placement_of::<S>(run));
    let (policies, bindings, approvals) = (seen.policies(), seen.bindings(), seen.approvals());
    let runs = seen.runs();
    let world = World {
        placement: seen.placement(),
        policies: &policies,
        bindings: &bindings,
        snapshot: seen.snapshot(),
        runs: &runs,
        approvals: &approvals,
        clusters: &seen.facts(),
        gates,
        missing_snapshots: &seen.missing,
        missing_overrides: &seen.missing_overrides,
        stuck_threshold: ctx.shared.settings.stuck_threshold,
        refused,
    };
    advance(&view, &world, &ctx.memory.of(key, &view), at)
}

/// Writes approval requests, then bindings side by side. False if something could not be written: then the rest is decided
/// anew, without it.
async fn carry_out<S: Scope>(
    ctx: &Pipeline<S>,
    run: &S::UpdateRun,
    step: &Step,
    now: Timestamp,
    failures: &mut PassFailures,
) -> bool {
    let placement = placement_of::<S>(run);
    let requests = step
        .approvals
        .iter()
        .map(|request| approvals::write(ctx, &placement, request, now));
    let mut complete = true;
    for (request, written) in step.approvals.iter().zip(join_all(requests).await) {
        if let Err(failure) = written {
            complete = false;
            failures.refused.approvals.insert(request.name().to_owned());
            failures.add(failure);
        }
    }
    if !complete {
        return false;
    }
    let bindings = step
        .bindings
        .iter()
        .map(|change| binding::update(ctx, &placement, change));
    for (change, written) in step.bindings.iter().zip(join_all(bindings).await) {
        if let Err(failure) = written {
            complete = false;
            failures.refused.bindings.insert(change.binding.clone());
            failures.add(failure);
        }
    }
    if complete
        && step.mark_snapshot
        && let Err(error) = mark_snapshot(ctx, run, &placement).await
    {
        // A later run is not warned yet; this one goes on all the same.
        failures.unmarked = matches!(&error, Error::Write(error) if error.may_pass());
        failures.error = Some(error);
    }
    complete
}

/// Says on the snapshot that this run has taken it back.
async fn mark_snapshot<S: Scope>(ctx: &Pipeline<S>, run: &S::UpdateRun, placement: &Key) -> Result<(), Error> {
    let view = view::<S>(run);
    let (snapshots, key) = (&ctx.family.snapshots, beside(placement, &snapshot_name(&view)));
    let body = |found: &S::ResourceSnapshot| {
        let marked = found
            .annotations()
            .get(annotations::FAILED_IN)
            .is_some_and(|by| !by.is_empty());
        (!marked).then(|| json!({ "metadata": { "annotations": { annotations::FAILED_IN: view.name } } }))
    };
    let writer = &ctx.shared.writer;
    writer.patch(snapshots, &key, placement, Part::Object, body).await?;
    Ok(())
}
