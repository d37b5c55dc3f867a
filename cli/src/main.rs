//! `kubectl fleet`: says how the fleet is and why, joins clusters to it, drains them and takes them back, approves what update
//! runs wait for. Data goes to stdout, everything else to stderr.
//!
//! One file is one command. They share:
//!
//! | what | in |
//! |---|---|
//! | kubectl's own flags; kubeconfig and contexts | `globals`, `clusters`, `common` |
//! | requests to the hub: pages, watches, conflicts | `hub` |
//! | what explanations are made from, read with few requests | `reading` |
//! | errors, what to type next, and the right that is missing | `problem`, `rights` |
//! | tables, texts, JSON and YAML | `output`, `chain` |
//! | what is asked about | `subject` |
//! | screens that follow the hub, and keys | `live` |
//! | the exit status; that something still goes on | `exit`, `progress` |
//! | what KubeFleet's plugin has too | `old` |

mod approve;
mod chain;
mod check;
mod clusters;
mod common;
mod complete;
mod cordon;
mod dashboard;
mod diff;
mod drain;
mod draincluster;
mod events;
mod evictions;
mod exit;
mod globals;
mod hub;
mod join;
mod leave;
mod live;
mod manual;
mod old;
mod output;
mod plan;
mod problem;
mod progress;
mod reading;
mod rights;
mod rollout;
mod status;
mod subject;
mod support_bundle;
mod terminal;
#[cfg(test)]
mod testing;
mod top;
mod tree;
mod uncordon;
mod uncordoncluster;
mod version;
mod why;

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, Parser, Subcommand};

use exit::Exit;

#[derive(Debug, Parser)]
#[command(
    name = "kubectl-fleet",
    bin_name = "kubectl fleet",
    version,
    about = "Manage a Flotilla fleet from its hub",
    after_help = "Flags that kubectl has too (--context, --server, -n ...) may stand before the command or after it.\n\n\
                  Examples:\n  kubectl fleet check\n  kubectl fleet plan -f placement.yaml\n  kubectl fleet drain east --dry-run"
)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

// What a command is for stands at its arguments: a comment here would take the place of its whole help.
#[derive(Debug, Subcommand)]
enum Command {
    Join(join::Args),
    Status(status::Args),
    Why(why::Args),
    Rollout(rollout::Args),
    Top(top::Args),
    Tree(tree::Args),
    Events(events::Args),
    Diff(diff::Args),
    Leave(leave::Args),
    Check(check::Args),
    Plan(plan::Args),
    Cordon(cordon::Args),
    Drain(drain::Args),
    Uncordon(uncordon::Args),
    Approve(approve::Args),
    Dashboard(dashboard::Args),
    #[command(name = "draincluster")]
    DrainCluster(draincluster::Args),
    #[command(name = "uncordoncluster")]
    UncordonCluster(uncordoncluster::Args),
    SupportBundle(support_bundle::Args),
    Completion(complete::Args),
    Manual(manual::Args),
    /// Say which version this is
    Version,
    /// What kubectl asks for `kubectl fleet <TAB>`
    #[command(name = "__complete", hide = true, disable_help_flag = true)]
    Answer {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // The only provider compiled in; installing it twice is the only way to fail.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut line: Vec<_> = std::env::args_os().collect();
    let program = line.first().map(std::path::Path::new).and_then(|path| path.file_name());
    if program.is_some_and(|name| name == complete::PROGRAM) {
        line.insert(1, "__complete".into());
    }
    let line = globals::after_the_command(line);
    let word = line
        .get(1)
        .and_then(|word| word.to_str())
        .unwrap_or_default()
        .to_owned();
    let old = old::COMMANDS.into_iter().find(|name| *name == word);
    let command = match (Args::try_parse_from(line), old) {
        (Ok(Args { command }), _) => command,
        (Err(error), Some(name)) if error.use_stderr() => {
            return old::refuse(&old::words(&error), help(name).as_deref());
        }
        (Err(error), _) => {
            // Nowhere to say it is no reason to say it otherwise.
            let _ = error.print();
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            return exit.into();
        }
    };
    match (Box::pin(run(command)).await, old) {
        (Ok(exit), _) => exit.into(),
        (Err(error), Some(name)) => old::refuse(&format!("{error:#}"), help(name).as_deref()),
        (Err(error), None) => {
            terminal::note(&format!("Error: {error:#}"));
            terminal::note(&format!("next: {}", problem::next(&error, &word)));
            problem::exit_of(&error).into()
        }
    }
}

async fn run(command: Command) -> Result<Exit> {
    match command {
        Command::Status(args) => return status::run(args).await,
        Command::Rollout(args) => return rollout::run(args).await,
        Command::Top(args) => return top::run(args).await,
        Command::Tree(args) => return tree::run(args).await,
        Command::Events(args) => return events::run(args).await,
        Command::Diff(args) => return diff::run(args).await,
        Command::Why(args) => return why::run(args).await,
        Command::Join(args) => return join::run(args).await,
        Command::Leave(args) => return leave::run(args).await,
        Command::Check(args) => return check::run(args).await,
        Command::Plan(args) => return Box::pin(plan::run(args)).await,
        Command::Cordon(args) => return cordon::run(args).await,
        Command::Drain(args) => return drain::run(args).await,
        Command::Uncordon(args) => return uncordon::run(args).await,
        Command::Approve(args) => approve::run(args).await?,
        Command::Dashboard(args) => return Box::pin(dashboard::run(args)).await,
        Command::DrainCluster(args) => draincluster::run(args).await?,
        Command::UncordonCluster(args) => uncordoncluster::run(args).await?,
        Command::SupportBundle(args) => return support_bundle::run(args).await,
        Command::Completion(args) => complete::run(&args, Args::command())?,
        Command::Manual(args) => return manual::run(&args, Args::command()),
        Command::Answer { words } => return complete::answer(&words, &Args::command()),
        Command::Version => version::print(),
    }
    Ok(Exit::Done)
}

/// How a command is used.
fn help(name: &str) -> Option<String> {
    let mut command = Args::command();
    command.build();
    let command = command.find_subcommand_mut(name)?;
    Some(command.render_help().to_string())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Args::command().debug_assert();
    }

    #[test]
    fn flags_that_there_are_not_are_named_as_kubefleets_plugin_names_them() {
        for (line, words) in [
            ("draincluster --nothing", "unknown flag: --nothing"),
            ("uncordoncluster --nothing=x", "unknown flag: --nothing"),
            ("approve clusterapprovalrequest -z", "unknown shorthand flag: 'z' in -z"),
            ("draincluster --cluster-name", "flag needs an argument: --cluster-name"),
        ] {
            let words_of = |line: &str| {
                let line = ["kubectl-fleet"].into_iter().chain(line.split(' '));
                let error = <super::Args as clap::Parser>::try_parse_from(line).expect_err("it is refused");
                super::old::words(&error)
            };
            assert_eq!(words_of(line), words, "{line}");
        }
    }
}
