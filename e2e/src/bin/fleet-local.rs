//! The launcher of local fleets: real control planes on loopback for the demo, the tests and the benchmarks.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};
use fleet_e2e::cluster::spec::Label;
use fleet_e2e::cluster::{ClusterSpec, NodeSpec};
use fleet_e2e::fleet::Fleet;
use fleet_e2e::fleet::state::Kind;
use fleet_e2e::launcher::{Signals, external, run, supervise, up};
use fleet_e2e::process::State;
use fleet_e2e::{agents, binaries, demo};

/// Real Kubernetes control planes on this machine, without containers: a hub and its members.
#[derive(Debug, Parser)]
#[command(name = "fleet-local", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a fleet that stays; use the one that runs already.
    Up(UpArgs),
    /// Stop the fleet and remove everything that belongs to it.
    Down {
        #[command(flatten)]
        dir: DirArg,
        /// Existing clusters only: also remove the CRDs that were installed, with all their objects.
        #[arg(long)]
        delete_crds: bool,
    },
    /// Show what runs.
    Status {
        #[command(flatten)]
        dir: DirArg,
    },
    /// Start one more member in a running fleet.
    AddMember {
        /// Its name.
        name: String,
        #[command(flatten)]
        nodes: NodeArgs,
        #[command(flatten)]
        dir: DirArg,
    },
    /// Stop a member and remove everything of it.
    RemoveMember {
        /// Its name.
        name: String,
        #[command(flatten)]
        dir: DirArg,
    },
    /// Run a command in a fleet of its own (FLEET_DIR and KUBECONFIG are set), and remove that fleet afterwards.
    Run {
        #[command(flatten)]
        fleet: FleetArgs,
        /// The command.
        #[arg(required = true, last = true)]
        command: Vec<String>,
    },
    /// Start or reuse a fleet, and show it.
    Demo(UpArgs),
    /// Start the agents and let every member join.
    Agents {
        #[command(flatten)]
        dir: DirArg,
    },
    /// Find or build the control-plane binaries.
    Binaries {
        /// Also helm, for charts.
        #[arg(long)]
        helm: bool,
    },
    /// Use existing clusters instead of local ones: install the CRDs there, start nothing.
    Use {
        #[command(flatten)]
        contexts: ContextArgs,
        #[command(flatten)]
        dir: DirArg,
    },
    /// Own a fleet; started by `up`.
    #[command(hide = true)]
    Supervise,
}

#[derive(Debug, Args)]
struct DirArg {
    /// Where the fleet's files are.
    #[arg(long, env = "FLEET_DIR", default_value = ".fleet")]
    dir: PathBuf,
}

#[derive(Debug, Args)]
struct FleetArgs {
    /// How many members.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=50))]
    members: u32,
    /// Nodes per cluster, the hub first (e.g. 1,2,3,4); the last number counts for all further ones.
    #[arg(long, value_delimiter = ',')]
    nodes: Vec<u32>,
    /// Write an audit log of every API server (level Metadata).
    #[arg(long)]
    audit: bool,
}

#[derive(Debug, Args)]
struct UpArgs {
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    dir: DirArg,
    #[command(flatten)]
    contexts: ContextArgs,
}

#[derive(Debug, Args)]
struct ContextArgs {
    /// The kubeconfig context of an existing hub.
    #[arg(long, env = "FLEET_HUB_CONTEXT")]
    hub_context: Option<String>,
    /// The kubeconfig contexts of its existing members.
    #[arg(long, env = "FLEET_MEMBER_CONTEXTS", value_delimiter = ',')]
    member_contexts: Vec<String>,
    /// Replace CRDs of the same names that somebody else installed on existing clusters.
    #[arg(long)]
    replace_crds: bool,
}

#[derive(Debug, Args)]
struct NodeArgs {
    /// How many nodes.
    #[arg(long, default_value_t = 1)]
    nodes: u32,
    /// CPU of each node.
    #[arg(long, default_value = "8")]
    cpu: String,
    /// Memory of each node.
    #[arg(long, default_value = "32Gi")]
    memory: String,
    /// A label on each node, key=value; may be repeated.
    #[arg(long = "label")]
    labels: Vec<Label>,
}

/// Single-threaded: children die with the thread that started them (see `fleet_e2e::process`).
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // kube's own complaints about a server that is starting or stopping are expected here.
    fleet_e2e::log_to_stderr("info,kube_client=off,kube_runtime=off");
    fleet_e2e::install_crypto_provider();
    match execute(Cli::parse().command).await {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("fleet-local: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn execute(command: Command) -> Result<u8> {
    match command {
        // These two own processes and stop them in order when a signal comes.
        Command::Supervise => supervise::supervise().await.map(|()| 0),
        Command::Run { fleet, command } => run::run(&fleet.clusters(), &command).await,
        other => {
            let mut signals = Signals::listen()?;
            tokio::select! {
                done = Box::pin(short(other)) => done.map(|()| 0),
                signal = signals.next() => bail!("{signal}"),
            }
        }
    }
}

async fn short(command: Command) -> Result<()> {
    match command {
        Command::Up(args) => {
            let fleet = args.up().await?;
            demo::how_to_reach(&fleet);
        }
        Command::Demo(args) => {
            let fleet = args.up().await?;
            if let Kind::Local { .. } = fleet.state().kind {
                start_agents(&fleet).await?;
            }
            demo::show(&fleet).await?;
        }
        Command::Agents { dir: DirArg { dir } } => start_agents(&Fleet::attach(&dir)?).await?,
        Command::Down {
            dir: DirArg { dir },
            delete_crds,
        } => down(&dir, delete_crds).await?,
        Command::Status { dir: DirArg { dir } } => status(&Fleet::attach(&dir)?).await?,
        Command::AddMember {
            name,
            nodes,
            dir: DirArg { dir },
        } => {
            let mut spec = ClusterSpec::member(name, nodes.nodes);
            spec.nodes = nodes.spec();
            let name = spec.name.clone();
            Fleet::attach(&dir)?.add_member(spec).await?;
            println!("{name} is ready: kubectl --context {name} get nodes");
        }
        Command::RemoveMember {
            name,
            dir: DirArg { dir },
        } => {
            Fleet::attach(&dir)?.remove_member(&name).await?;
            println!("{name} is gone");
        }
        Command::Binaries { helm } => {
            let found = binaries::find_or_build().await?;
            println!("{}", serde_json::to_string_pretty(&found)?);
            if helm {
                println!("{}", binaries::find_or_build_helm().await?.display());
            }
        }
        Command::Use {
            contexts:
                ContextArgs {
                    hub_context,
                    member_contexts,
                    replace_crds,
                },
            dir: DirArg { dir },
        } => {
            let Some(hub) = hub_context else {
                bail!("name the hub with --hub-context or FLEET_HUB_CONTEXT")
            };
            let fleet = external::point_at(&dir, &hub, &member_contexts, replace_crds).await?;
            demo::how_to_reach(&fleet);
        }
        Command::Run { .. } | Command::Supervise => unreachable!("handled by the caller"),
    }
    Ok(())
}

async fn start_agents(fleet: &Fleet) -> Result<()> {
    let begun = std::time::Instant::now();
    agents::ensure(fleet, |line| eprintln!("  {line}")).await?;
    eprintln!("the agents are ready after {:.1} s", begun.elapsed().as_secs_f32());
    Ok(())
}

impl FleetArgs {
    fn clusters(&self) -> Vec<ClusterSpec> {
        let mut clusters = ClusterSpec::fleet(self.members);
        for (i, cluster) in clusters.iter_mut().enumerate() {
            cluster.audit = self.audit;
            if let Some(count) = self.nodes.get(i).or(self.nodes.last()) {
                cluster.nodes.count = *count;
            }
        }
        clusters
    }
}

impl UpArgs {
    async fn up(&self) -> Result<Fleet> {
        let Self {
            fleet,
            dir: DirArg { dir },
            contexts:
                ContextArgs {
                    hub_context,
                    member_contexts,
                    replace_crds,
                },
        } = self;
        match hub_context {
            Some(hub) => external::point_at(dir, hub, member_contexts, *replace_crds).await,
            None if !member_contexts.is_empty() => bail!("members without a hub: set FLEET_HUB_CONTEXT too"),
            None => up::up(dir, &fleet.clusters()).await,
        }
    }
}

impl NodeArgs {
    fn spec(self) -> NodeSpec {
        let Self {
            nodes,
            cpu,
            memory,
            labels,
        } = self;
        let labels = labels.into_iter().map(|Label(key, value)| (key, value)).collect();
        NodeSpec {
            count: nodes,
            cpu,
            memory,
            labels,
            ..NodeSpec::default()
        }
    }
}

async fn down(dir: &std::path::Path, delete_crds: bool) -> Result<()> {
    if let Ok(fleet) = Fleet::attach(dir)
        && let Kind::External { .. } = fleet.state().kind
    {
        return external::let_go(fleet.dir(), &fleet, delete_crds).await;
    }
    if up::down(dir).await? {
        eprintln!("stopped the fleet in {}", dir.display());
    } else {
        eprintln!("no fleet runs in {}", dir.display());
    }
    Ok(())
}

async fn status(fleet: &Fleet) -> Result<()> {
    if let Kind::Local { .. } = fleet.state().kind {
        println!("{:<40} {:<10} {:>8}  LOG", "PROCESS", "STATE", "PID");
        for process in fleet.status().await? {
            let (state, pid) = match &process.state {
                State::Running { pid } => ("running".to_owned(), pid.to_string()),
                State::Paused { pid } => ("paused".to_owned(), pid.to_string()),
                State::Stopped => ("stopped".to_owned(), String::new()),
                State::Died { how } => (format!("died ({how})"), String::new()),
            };
            println!("{:<40} {state:<10} {pid:>8}  {}", process.name, process.log.display());
        }
    }
    for cluster in fleet.clusters() {
        let ready = if fleet.is_ready(&cluster.name).await {
            "ready"
        } else {
            "does not answer"
        };
        println!("{:<40} {ready}", cluster.name);
    }
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

    #[test]
    fn node_counts_go_to_the_clusters_in_order() {
        let args = FleetArgs {
            members: 3,
            nodes: vec![1, 5],
            audit: true,
        };
        let counts = args.clusters().iter().map(|c| c.nodes.count).collect::<Vec<_>>();
        assert_eq!(counts, [1, 5, 5, 5]);
    }
}
