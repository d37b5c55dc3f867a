//! `kubectl fleet`: join clusters to the fleet, approve what update runs wait for. Data goes to stdout, everything else to
//! stderr.

mod approve;
mod clusters;
mod join;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use jiff::{Timestamp, Zoned};

#[derive(Debug, Parser)]
#[command(
    name = "kubectl-fleet",
    bin_name = "kubectl fleet",
    version,
    about = "Manage a Flotilla fleet from its hub"
)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Let a cluster join the fleet: identity, MemberCluster and the member's configuration in one go
    Join(join::Args),
    /// Approve what an update run waits for
    Approve(approve::Args),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // The only provider compiled in; installing it twice is the only way to fail.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let is_known = std::env::args().nth(1).is_some_and(|word| word == APPROVE);
    match Args::try_parse() {
        Ok(Args { command }) => match command {
            Command::Join(args) => match join::run(args).await {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("Error: {error:#}");
                    ExitCode::FAILURE
                }
            },
            Command::Approve(args) => match approve::run(args).await {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => refuse(&format!("{error:#}")),
            },
        },
        Err(error) if is_known && error.use_stderr() => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            refuse(first.trim_start_matches("error: "))
        }
        Err(error) => error.exit(),
    }
}

/// The command whose lines scripts know from KubeFleet's plugin.
const APPROVE: &str = "approve";

/// How KubeFleet's plugin ends when it fails.
fn refuse(error: &str) -> ExitCode {
    eprintln!("Error: {error}");
    let mut command = Args::command();
    command.build();
    if let Some(command) = command.find_subcommand_mut(APPROVE) {
        eprintln!("{}", command.render_help());
    }
    log(&format!("Error executing command: {error}"));
    ExitCode::FAILURE
}

/// The time, as the API stores it.
#[expect(
    clippy::disallowed_methods,
    reason = "a command has no other clock; what decides gets the time passed in"
)]
fn now() -> Timestamp {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default()
}

/// A line with the time before it, as KubeFleet's plugin prints them.
fn log(line: &str) {
    eprintln!("{} {line}", Zoned::now().strftime("%Y/%m/%d %H:%M:%S"));
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Args::command().debug_assert();
    }
}
