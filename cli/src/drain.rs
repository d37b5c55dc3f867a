//! `kubectl fleet drain`: cordons a member cluster, takes every placement off that may go, and says what holds up the rest.

mod evict;
mod explain;
mod finish;
mod look;
mod report;
mod state;
mod survey;
mod work;

use std::time::Duration;

use anyhow::Result;

use crate::{
    exit::Exit,
    globals::Globals,
    hub::Hub,
    output::{self, Format},
    terminal::{self, Say},
};
pub(crate) use report::{DrainOutcome, DrainSummary};
use state::{Cut, Drain, Options};

/// Take all placements off a member cluster, and say what holds it up.
///
/// Cordons the cluster, so that nothing new is placed there, and asks the hub to evict each ClusterResourcePlacement.
/// Disruption budgets are respected. What cannot be evicted (PickFixed placements, ResourcePlacements) is named. Running it
/// again is harmless.
///
/// Exit status: 0 done, 1 error, 2 usage, 3 something is left, 4 refused, 124 timeout.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl fleet drain east --dry-run\n  kubectl fleet drain east --wait --timeout 30m --cleanup\n  \
                  kubectl fleet uncordon east"
)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    target: Target,
}

/// A member cluster, the hub that knows it, and how to print what became of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// The member cluster
    // Not `cluster`, which is a flag of kubectl.
    #[arg(value_name = "CLUSTER")]
    pub(crate) member: String,
    /// How to print what became of it
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) globals: Globals,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Args { options, target } = args;
    let Target {
        member: cluster,
        output,
        globals,
    } = target;
    let hub = Hub::connect(&globals).await?;
    let interrupted = async {
        // Without signals there is nothing to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let (report, ended) = drain(&hub, &cluster, &options, interrupted, &terminal::note).await;
    output::print(&report, output)?;
    ended
}

/// A drain that nobody watches in a terminal.
pub(crate) struct Quiet {
    pub(crate) report: DrainSummary,
    /// What it would have said.
    pub(crate) notes: Vec<String>,
    /// Whether it has come to its end, and nothing is left.
    pub(crate) is_done: bool,
}

/// Drains without saying anything. Waits for the hub's answers, and for nothing else.
pub(crate) async fn quietly(hub: &Hub, cluster: &str, dry_run: bool) -> Result<Quiet> {
    const PATIENCE: Duration = Duration::from_secs(20);
    let options = Options {
        dry_run,
        timeout: PATIENCE,
        ..Options::default()
    };
    let said = parking_lot::Mutex::new(Vec::new());
    let say = |line: &str| said.lock().push(line.to_owned());
    let (report, ended) = drain(hub, cluster, &options, std::future::pending(), &say).await;
    let is_done = ended? == Exit::Done;
    Ok(Quiet {
        report,
        notes: said.into_inner(),
        is_done,
    })
}

/// What became of it, and how the command ends.
async fn drain(
    hub: &Hub,
    cluster: &str,
    options: &Options,
    interrupted: impl Future<Output = ()>,
    say: Say<'_>,
) -> (DrainSummary, Result<Exit>) {
    let mut drain = Drain::new(hub, cluster, options, say);
    let (cut, failed) = tokio::select! {
        worked = Box::pin(drain.work()) => (None, worked.err()),
        () = tokio::time::sleep(options.timeout) => (Some(Cut::Timeout), None),
        () = interrupted => (Some(Cut::Interrupted), None),
    };
    Box::pin(drain.finish(cut, failed.as_ref())).await;
    let report = drain.report();
    let exit = match (failed, cut) {
        (Some(error), _) => return (report, Err(error)),
        (None, Some(Cut::Timeout)) => Exit::TimedOut,
        (None, _) if report.complete => Exit::Done,
        (None, _) => Exit::Left,
    };
    (report, Ok(exit))
}

#[cfg(test)]
mod tests;
