//! Scenario tests on a running fleet.
//!
//! ```no_run
//! use fleet_e2e::harness::scenario;
//!
//! #[test]
//! fn a_namespace_can_be_made() {
//!     scenario("a-namespace", |ctx| async move {
//!         let namespace = ctx.namespace("hub").await?;
//!         ctx.kubectl("hub")?.ok(&["get", "namespace", &namespace]).await?;
//!         Ok(())
//!     });
//! }
//! ```
//!
//! Each scenario has its own names, so all of them run in parallel on one fleet. When one fails, it prints the objects it
//! made, the Events of its namespaces and the ends of the logs; when it succeeds, it removes what it made.

mod context;
mod wreck;

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use anyhow::Result;
use futures::FutureExt as _;

use crate::fleet::Fleet;
use crate::process::State;
pub use context::{Ctx, Made};

/// Whether failed scenarios stay for somebody to look at (`FLEET_KEEP=1`).
pub fn keep_wrecks() -> bool {
    std::env::var("FLEET_KEEP").is_ok_and(|v| !v.is_empty() && v != "0")
}

/// Runs a scenario on the fleet that `FLEET_DIR` names; panics if it fails, as a test does.
///
/// The name is a short word in lower case with dashes; names of objects begin with it.
pub fn scenario<F, Fut>(name: &str, story: F)
where
    F: FnOnce(Ctx) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    let seed = seed();
    fastrand::seed(seed);
    // One thread per scenario is plenty: they wait most of the time.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    let outcome = runtime.block_on(async {
        let fleet = Fleet::attach_from_env().map_err(|error| format!("{error:#}"))?;
        tell(fleet, name, story).await
    });
    if let Err(why) = outcome {
        panic!("scenario {name}: {why}\nchance had the seed {seed}: FLEET_SEED={seed} repeats it");
    }
}

/// What all chance of a scenario comes from (`FLEET_SEED`).
fn seed() -> u64 {
    let given = std::env::var("FLEET_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| fastrand::u64(..))
}

async fn tell<F, Fut>(fleet: Fleet, name: &str, story: F) -> Result<(), String>
where
    F: FnOnce(Ctx) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    let ctx = Ctx::new(fleet, name);
    // A panic (a failed assert) shows the wreck as well.
    let why = match AssertUnwindSafe(story(ctx.clone())).catch_unwind().await {
        Ok(Ok(())) => {
            return ctx
                .clean_up()
                .await
                .map_err(|error| format!("the story held, but cleaning up failed: {error:#}"));
        }
        Ok(Err(error)) => format!("{error:#}"),
        Err(panic) => panic_text(&*panic),
    };
    eprintln!("{}", wreck::describe(&ctx).await);
    if keep_wrecks() {
        eprintln!("FLEET_KEEP is set: the objects of {} stay", ctx.prefix());
    } else {
        let mended = mend(ctx.fleet()).await;
        if let Err(error) = mended.and(ctx.clean_up().await) {
            eprintln!("cleaning up failed: {error:#}");
        }
    }
    Err(why)
}

/// Sets the fleet's own processes going again that a failed scenario left dead or frozen: one failure shall not become those
/// of all scenarios after it.
async fn mend(fleet: &Fleet) -> Result<()> {
    // What others need comes first.
    const OWN: [&str; 7] = [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kwok",
        "hub-agent",
        "member-agent",
    ];
    let rank = |name: &str| OWN.iter().position(|own| name.rsplit('/').next() == Some(own));
    let mut processes = fleet.status().await?;
    processes.sort_by_key(|process| rank(&process.name));
    for process in processes.into_iter().filter(|process| rank(&process.name).is_some()) {
        match process.state {
            State::Running { .. } => {}
            State::Paused { .. } => fleet.resume(&process.name).await?,
            State::Stopped | State::Died { .. } => fleet.start_again(&process.name).await?,
        }
    }
    Ok(())
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a panic without text".to_owned())
}

/// For benchmarks and other programs that are not tests: the same without panicking.
pub async fn scenario_in<F, Fut>(fleet: Fleet, name: &str, story: F) -> ExitCode
where
    F: FnOnce(Ctx) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    match tell(fleet, name, story).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{name}: {why}");
            ExitCode::FAILURE
        }
    }
}
