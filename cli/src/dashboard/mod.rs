//! `kubectl fleet dashboard`: the fleet in the browser, on this machine and with the user's own rights.

mod actor;
mod open;

use std::sync::Arc;

use anyhow::{Context as _, Result};
use fleet_api::names::is_dns_label;
use fleet_dashboard::{Actor, Flags, Hub as Seen, Options, serve};
use fleet_runtime::{
    clock::Clock,
    shutdown::{self, Tasks},
};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{Api, Client, api::PostParams};
use nix::sys::signal::{SigSet, Signal};

use crate::{clusters, exit::Exit, globals::Globals, hub::Hub, output, terminal};
use actor::Commands;

/// Open the fleet in the browser.
///
/// Listens on 127.0.0.1 only and shows what your own rights let you see; what you do there is done as you. The link that is
/// printed works once; press Enter for another one. Runs until it is interrupted.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl fleet dashboard\n  kubectl fleet dashboard --read-only --no-open --port 8080\n  \
                  kubectl fleet dashboard --context hub\n  kubectl fleet dashboard -n shop"
)]
pub(crate) struct Args {
    /// The port on 127.0.0.1 [default: any that is free]
    #[arg(long)]
    port: Option<u16>,
    /// Print the link, and do not start a browser
    #[arg(long)]
    no_open: bool,
    /// Change nothing, whatever you may do
    #[arg(long)]
    read_only: bool,
    /// Look at placements, runs and Events of this namespace alone, as rights in one namespace allow [default: all namespaces]
    #[arg(long, short, value_name = "NAMESPACE", value_parser = namespace, help_heading = "Options of kubectl")]
    namespace: Option<String>,
    #[command(flatten)]
    globals: Globals,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Args {
        port,
        no_open,
        read_only,
        namespace,
        globals,
    } = args;
    let (config, context) = clusters::config(&globals).await?;
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let agent = concat!("kubectl-fleet-dashboard/", env!("CARGO_PKG_VERSION"));
    let client = fleet_runtime::client::build(config, agent).with_context(|| format!("cannot reach {server}"))?;
    let stop = shutdown::on_signal().context("cannot hear signals")?;
    let mut tasks = Tasks::new(stop.clone());
    let clock = Clock::system();
    let user = who(&client).await;
    let seen = Seen::watch(client.clone(), namespace.as_deref(), clock, &mut tasks);
    let actor = (!read_only).then(|| Arc::new(Commands::new(Hub::new(client.clone()))) as Arc<dyn Actor>);
    let options = Options {
        port: port.unwrap_or_default(),
        context: context.clone(),
        server: server.clone(),
        user: user.clone().unwrap_or_default(),
        flags: given(&globals),
        actor,
    };
    let dashboard = serve(client, seen, options, &mut tasks).await?;
    let as_user = user.map(|user| format!(" as {user}")).unwrap_or_default();
    terminal::note(&format!("the fleet of context {context} ({server}){as_user}"));
    let link = dashboard.door.link().context("cannot make secrets")?;
    output::line(&link)?;
    terminal::note("the link works once: press Enter for another, Ctrl-C to end");
    // As long as the file is there, the browser finds what it is to open.
    let opened = if no_open { None } else { open::browser(&link) };
    if opened.is_some() {
        terminal::note("if the browser shows nothing, open the link there: some may not read files of others");
    }
    let door = dashboard.door.clone();
    // A thread of its own: a read from a terminal cannot be taken back, and must not keep the process alive.
    std::thread::spawn(move || {
        // In the background the terminal is somebody else's: the read fails then, and does not stop the whole program.
        let mut stops = SigSet::empty();
        stops.add(Signal::SIGTTIN);
        if stops.thread_block().is_err() {
            return;
        }
        for _ in std::io::stdin().lines().map_while(Result::ok) {
            if let Ok(link) = door.link() {
                // A reader who has gone reads no links.
                let _ = output::line(&link);
            }
        }
    });
    tasks.join().await?;
    drop(opened);
    Ok(Exit::Done)
}

/// Reads the name of a namespace: it becomes a part of URLs.
fn namespace(text: &str) -> Result<String, String> {
    if is_dns_label(text) {
        return Ok(text.to_owned());
    }
    Err("want the name of a namespace".to_owned())
}

/// The flags that say which hub, and who asks: commands that pages show need them too.
fn given(globals: &Globals) -> Flags {
    let file_of = |file: Option<&std::path::PathBuf>| file.map(|file| file.display().to_string());
    let file = file_of(globals.kubeconfig.as_ref());
    // No page shows a token: who types the commands has one.
    let all = [
        ("context", globals.context.clone()),
        ("kubeconfig", file),
        ("cluster", globals.cluster.clone()),
        ("user", globals.user.clone()),
        ("as", globals.as_user.clone()),
        ("server", globals.server.clone()),
        ("tls-server-name", globals.tls_server_name.clone()),
        ("certificate-authority", file_of(globals.certificate_authority.as_ref())),
        ("client-certificate", file_of(globals.client_certificate.as_ref())),
        ("client-key", file_of(globals.client_key.as_ref())),
    ];
    let groups = globals.as_group.iter().map(|group| ("as-group", group.clone()));
    let all = all.into_iter().filter_map(|(name, value)| Some((name, value?)));
    all.chain(groups).collect()
}

/// Who the API server says we are; older ones do not say.
async fn who(client: &Client) -> Option<String> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let asked = async { api.create(&PostParams::default(), &SelfSubjectReview::default()).await };
    let answer = fleet_runtime::client::answered(asked).await.ok()?;
    answer.status?.user_info?.username
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_namespace_is_one_that_there_can_be() {
        let parsed = |line: &[&str]| Line::try_parse_from(line).map(|line| line.args.namespace);
        assert_eq!(parsed(&["dashboard", "-n", "shop"]).unwrap().as_deref(), Some("shop"));
        assert_eq!(parsed(&["dashboard"]).unwrap(), None);
        for odd in ["", "a/b", "../x", "A"] {
            assert!(parsed(&["dashboard", "-n", odd]).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn the_flags_that_were_given_go_on_to_commands() {
        let line = [
            "dashboard",
            "--context",
            "prod",
            "--as",
            "alice",
            "--as-group",
            "a",
            "--as-group",
            "b",
        ];
        let globals = Line::parse_from(line).args.globals;
        let flags = [
            ("context", "prod"),
            ("as", "alice"),
            ("as-group", "a"),
            ("as-group", "b"),
        ];
        assert_eq!(given(&globals), flags.map(|(name, value)| (name, value.to_owned())));
        assert_eq!(given(&Line::parse_from(["dashboard"]).args.globals), Flags::new());
    }
}
