//! Figures, on fleets of its own.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use fleet_e2e::agents;
use fleet_e2e::bench::figures::{self, Row};
use fleet_e2e::bench::{self, Part, Settings, Site};
use fleet_e2e::fleet::Fleet;
use fleet_e2e::launcher::run;

/// Measures the agents on local control planes, and prints each figure beside its aim.
///
/// Times and CPU depend on the machine and on what else runs there; counts and ratios hardly do.
#[derive(Debug, Parser)]
#[command(name = "fleet-bench", version, max_term_width = 100)]
struct Cli {
    /// What to measure; everything if nothing is named.
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// Simulated members.
    #[arg(long, env = "FLEET_BENCH_MEMBERS", default_value_t = 1000,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=4000))]
    members: usize,
    /// Heartbeat periods (15 s) for which they are watched.
    #[arg(long, env = "FLEET_BENCH_PERIODS", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=40))]
    periods: u32,
    /// Seconds for which the idle agents are watched.
    #[arg(long, env = "FLEET_BENCH_WINDOW", default_value_t = 75, value_parser = clap::value_parser!(u64).range(15..=600))]
    window: u64,
    /// Where the figures go as JSON.
    #[arg(long, default_value = "target/bench/figures.json")]
    json: PathBuf,
    /// Used by the program itself: measure in the fleet that FLEET_DIR names, and write the figures here.
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

/// Single-threaded: children die with the thread that started them (see `fleet_e2e::process`).
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    fleet_e2e::log_to_stderr("warn,kube_client=off,kube_runtime=off");
    fleet_e2e::install_crypto_provider();
    let cli = Cli::parse();
    let outcome = match &cli.inside {
        Some(path) => Box::pin(inside(&cli, path)).await,
        None => Box::pin(outside(&cli)).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fleet-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Starts a fleet for each kind of measurement, and itself in it.
async fn outside(cli: &Cli) -> Result<()> {
    for name in ["hub-agent", "member-agent", "kubectl-fleet"] {
        agents::program(name)?;
    }
    let wanted = |part: &Part| cli.parts.is_empty() || cli.parts.contains(part);
    let scratch = tempfile::tempdir()?;
    let mut rows: Vec<Row> = Vec::new();
    let mut failed = false;
    for site in Site::ALL {
        let parts: Vec<_> = Part::ALL
            .into_iter()
            .filter(|part| wanted(part) && part.site() == site)
            .collect();
        if parts.is_empty() {
            continue;
        }
        let results = scratch.path().join(format!("{site:?}.json"));
        let command = command(cli, &parts, &results)?;
        match run::run(&bench::clusters(site), &command).await {
            Ok(0) => rows.extend(serde_json::from_slice::<Vec<Row>>(&std::fs::read(&results)?)?),
            Ok(code) => {
                eprintln!("fleet-bench: measuring ended with {code}");
                failed = true;
            }
            Err(error) => return Err(error),
        }
    }
    print!("{}", figures::table(&rows));
    figures::write(&cli.json, &rows)?;
    eprintln!("also in {}", cli.json.display());
    if failed {
        bail!("some parts could not be measured");
    }
    Ok(())
}

fn command(cli: &Cli, parts: &[Part], results: &Path) -> Result<Vec<String>> {
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path is not UTF-8");
    let mut command = vec![
        text(&std::env::current_exe()?)?,
        format!("--inside={}", text(results)?),
        format!("--members={}", cli.members),
        format!("--periods={}", cli.periods),
        format!("--window={}", cli.window),
    ];
    command.extend(parts.iter().map(Part::to_string));
    Ok(command)
}

async fn inside(cli: &Cli, results: &Path) -> Result<()> {
    let settings = Settings {
        members: cli.members,
        periods: cli.periods,
        window: Duration::from_secs(cli.window),
    };
    let fleet = Fleet::attach_from_env()?;
    let measuring = Box::pin(bench::measure(&fleet, &cli.parts, settings));
    let rows = tokio::time::timeout(bench::PATIENCE, measuring)
        .await
        .context("measuring took too long")??;
    std::fs::write(results, serde_json::to_vec(&rows)?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
