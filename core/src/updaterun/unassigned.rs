//! Clusters that are in no stage of the strategy.

use fleet_api::annotations::ROLLOUT;
use fleet_api::conditions::update_run::Abort;
use fleet_api::placement::{Stage, UpdateRunStatus};

use super::options::{Options, Source, Sources, Unassigned};
use super::stages;
use super::world::Run;

/// The stage that they form with `Last`.
const STAGE: &str = "unassigned";
/// As many stages as the schema admits.
const STAGES_MAX: usize = 31;

/// Deals with the clusters that are in no stage as the run's settings say; without any, the run fails. All of them are
/// recorded, sorted, if the run has settings at all: without, its status is upstream's.
pub(super) fn settle(
    run: &Run<'_>,
    clusters: Vec<String>,
    targets: usize,
    sources: &Sources,
    status: &mut UpdateRunStatus,
) -> Result<(), Abort> {
    if clusters.is_empty() {
        return Ok(());
    }
    let wish = Options::of(status.options.as_ref())?.unassigned;
    if let Some(options) = &mut status.options {
        options.unassigned.clone_from(&clusters);
    }
    let max = match wish {
        Unassigned::Fail => return Err(Abort::ClustersNotInStages { clusters }),
        Unassigned::Ignore(max) => max.map(|max| max.of(targets)),
        Unassigned::Last => None,
    };
    match (wish, max) {
        (_, Some(max)) if clusters.len() > max => Err(Abort::TooManyUnassigned {
            count: clusters.len(),
            max,
            clusters: clusters[..clusters.len().min(10)].join(", "),
        }),
        (Unassigned::Last, _) => last(&clusters, status).map_err(|why| {
            let source = sources.get("unassigned-clusters").copied().unwrap_or(Source::Run);
            source.invalid(run, &format!("{ROLLOUT}unassigned-clusters"), why)
        }),
        _ => Ok(()),
    }
}

/// Makes a stage of them, which comes last and takes one at a time.
fn last(clusters: &[String], status: &mut UpdateRunStatus) -> Result<(), String> {
    let Some(strategy) = &mut status.staged_update_strategy_snapshot else {
        return Ok(());
    };
    if strategy.stages.iter().any(|stage| stage.name == STAGE) {
        return Err(format!("the strategy has a stage named {STAGE} already"));
    }
    if strategy.stages.len() >= STAGES_MAX {
        return Err(format!("the strategy has {STAGES_MAX} stages already, no other fits"));
    }
    strategy.stages.push(Stage {
        name: STAGE.to_owned(),
        ..Stage::default()
    });
    status
        .stages_status
        .push(stages::of(STAGE, clusters.iter().map(String::as_str)));
    Ok(())
}
