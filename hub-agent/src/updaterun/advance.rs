//! One pass over a run that has a plan: bindings and approval requests first, then the run in one write.

use fleet_api::placement::Scope;
use fleet_core::updaterun::{Moment, Refused, Step, World, advance};
use fleet_runtime::{Key, queue::Next};
use futures::future::join_all;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{UpdateRuns, approvals, gather::Seen, metrics, tell, view, write_status};
use crate::{
    binding::{self, Unwritten},
    cache::runs::placement_of,
    pipeline::{Error, Pipeline},
};

/// What could not be written in a pass, and what follows from that.
#[derive(Default)]
struct Outcome {
    refused: Refused,
    again: bool,
    error: Option<Error>,
}

impl Outcome {
    fn add(&mut self, failure: Unwritten) {
        match failure {
            Unwritten::Overtaken => self.again = true,
            Unwritten::Held => {}
            Unwritten::Failed(error) => self.error = Some(error),
        }
    }
}

pub(super) async fn pass<S: Scope>(ctx: &UpdateRuns<S>, key: &Key) -> Result<Next, Error> {
    let (at, began, mut outcome) = (ctx.moment(), Instant::now(), Outcome::default());
    let (run, step) = loop {
        let Some(run) = ctx.family.updates.runs.get(key) else {
            return Ok(Next::Wait);
        };
        let step = decide(ctx, key, &run, &outcome.refused, at);
        if carry_out(ctx, &run, &step, at.now, &mut outcome).await {
            break (run, step);
        }
    };
    if let Some(status) = &step.status
        && !write_status(ctx, key, &run, status).await?
    {
        // Its user was faster. What was started counts as started all the same.
        return Ok(Next::At(Instant::now()));
    }
    if let Some(status) = &step.status {
        if !step.bindings.is_empty() {
            ctx.memory.measures.wrote_starts(began.elapsed());
        }
        metrics::moved::<S>(&ctx.memory.measures, &run, status, at.now);
    }
    ctx.memory.keep(key, &view::<S>(&run), step.memory.clone());
    tell(ctx, &run, &step.events);
    match outcome.error {
        Some(error) => Err(error),
        None if outcome.again => Ok(Next::At(Instant::now())),
        None => Ok(ctx.next(step.look_again)),
    }
}

fn decide<S: Scope>(ctx: &UpdateRuns<S>, key: &Key, run: &S::UpdateRun, refused: &Refused, at: Moment) -> Step {
    let view = view::<S>(run);
    let seen = Seen::of(ctx, &view, &placement_of::<S>(run));
    let (policies, bindings, approvals) = (seen.policies(), seen.bindings(), seen.approvals());
    let world = World {
        placement: seen.placement(),
        policies: &policies,
        bindings: &bindings,
        snapshot: seen.snapshot(),
        approvals: &approvals,
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
    outcome: &mut Outcome,
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
            outcome.refused.approvals.insert(request.name().to_owned());
            outcome.add(failure);
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
            outcome.refused.bindings.insert(change.binding.clone());
            outcome.add(failure);
        }
    }
    complete
}
