//! `kubectl fleet plan`: what the hub would do with a placement, before anything is written. The decisions are the hub's own
//! ([`fleet_core::plan`]); here their world is read, with what a file would change laid over it.

mod gather;
mod kinds;
mod known;
mod manifests;
mod selected;
mod show;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use anyhow::{Result, bail};
use fleet_api::{
    names::{PlacementKey, Scope as ScopeName},
    placement::{ClusterScoped, Namespaced},
};

use self::{gather::Asked, manifests::Manifests, show::Shown};
use crate::{
    clusters,
    exit::Exit,
    globals::Globals,
    output::{self, Format},
    progress, terminal,
};

/// Say what the hub would do with a placement. Nothing is written.
///
/// Without a file: what is still to come of the placement as it is. With one: what would come of it if the file were applied;
/// it may hold the placement, overrides, an update strategy and objects that the placement selects. The API server is asked to
/// complete them, as for `kubectl diff`.
///
/// Exit status: 0 nothing would change, 1 error, 2 usage, 3 something would, 4 refused.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl fleet plan web\n  kubectl fleet plan -f placement.yaml\n  \
                  kubectl fleet plan web -f deployment.yaml -o json\n  \
                  kubectl fleet plan shop --strategy slow --index 3\n  kubectl fleet plan --from-run release-7"
)]
pub(crate) struct Args {
    /// The placement: its name, or `crp/NAME`, `rp/NAME`
    #[arg(value_name = "PLACEMENT", required_unless_present_any = ["filename", "from_run"])]
    placement: Option<String>,
    /// What would be applied; `-` for stdin, may be repeated
    #[arg(long, short = 'f', value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// The update strategy of a staged run of it
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,
    /// The index of the resources that the run rolls out [default: what is selected now]
    #[arg(long, value_name = "N", requires = "strategy")]
    index: Option<u64>,
    /// Say what this update run still has to do
    #[arg(long, value_name = "RUN", conflicts_with_all = ["placement", "filename", "strategy"])]
    from_run: Option<String>,
    /// The namespace of a ResourcePlacement, or of its run
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    globals: Globals,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Args {
        placement,
        filename,
        strategy,
        index,
        from_run,
        namespace,
        globals,
        output,
    } = args;
    let manifests = Manifests::read(&filename)?;
    let hub = clusters::connect_with(&globals).await?;
    let client = hub.client;
    if let Some(run) = from_run {
        let left = match &namespace {
            None => gather::left::<ClusterScoped>(&client, None, &run).await?,
            Some(namespace) => gather::left::<Namespaced>(&client, Some(namespace), &run).await?,
        };
        output::print(&left, output)?;
        return Ok(if left.is_done() { Exit::Done } else { Exit::Left });
    }
    let key = match placement {
        Some(text) => named(&text, namespace.as_deref())?,
        None => manifests.placement(namespace.as_deref())?,
    };
    let asked = Asked {
        key: &key,
        manifests: &manifests,
        strategy: strategy.as_deref(),
        index,
    };
    let planned = Box::pin(planned(&client, &asked));
    let shown = progress::shown("reading the hub", planned).await?;
    for note in &shown.notes {
        terminal::note(&format!("note: {note}"));
    }
    output::print(&shown, output)?;
    Ok(if shown.differs { Exit::Left } else { Exit::Done })
}

/// The plan, and what could not be taken into account.
async fn planned(client: &kube::Client, asked: &Asked<'_>) -> Result<Shown> {
    match asked.key.scope() {
        ScopeName::Cluster => gather::plan::<ClusterScoped>(client, asked).await,
        ScopeName::Namespaced => gather::plan::<Namespaced>(client, asked).await,
    }
}

/// `web`, `crp/web`, or with a namespace `rp/web`.
fn named(text: &str, namespace: Option<&str>) -> Result<PlacementKey> {
    let (kind, name) = match text.split_once('/') {
        Some((kind, name)) => (kind.to_lowercase(), name),
        None => (String::new(), text),
    };
    let namespace = match (kind.as_str(), namespace) {
        ("", namespace) => namespace,
        ("crp" | "clusterresourceplacement" | "clusterresourceplacements", _) => None,
        ("rp" | "resourceplacement" | "resourceplacements", Some(namespace)) => Some(namespace),
        ("rp" | "resourceplacement" | "resourceplacements", None) => {
            bail!("which namespace is ResourcePlacement {name:?} in? (--namespace)")
        }
        (kind, _) => bail!("{kind:?} is no placement: want `crp/NAME`, or `rp/NAME` with --namespace"),
    };
    Ok(PlacementKey::new(namespace, name)?)
}
