//! `kubectl fleet`: join clusters to the fleet. Data goes to stdout, everything else to stderr.

mod clusters;
mod join;

use clap::{Parser, Subcommand};

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
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    // The only provider compiled in; installing it twice is the only way to fail.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let answer = match Args::parse().command {
        Command::Join(args) => join::run(args).await,
    };
    match answer {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Args::command().debug_assert();
    }
}
