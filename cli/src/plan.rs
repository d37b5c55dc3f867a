//! `kubectl fleet plan`: what the hub would do with a placement, before anything is written. The decisions are the hub's own
//! ([`fleet_core::plan`]); here their world is read, with what a file would change laid over it.

mod asked;
mod gather;
mod kinds;
mod known;
mod left;
mod manifests;
mod read;
mod runs;
mod selected;
mod show;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use anyhow::Result;
use fleet_api::{
    names::{PlacementKey, Scope as ScopeName},
    placement::{ClusterResourcePlacement, ClusterScoped, Namespaced, ResourcePlacement},
};

use self::{asked::Asked, left::Left, manifests::Manifests, show::Shown};
use crate::{
    clusters,
    exit::Exit,
    globals::{Globals, InNamespace},
    output::{self, Format},
    problem::Failure,
    progress,
    subject::{self, Subject},
    terminal,
};

/// Say what the hub would do with a placement. Nothing is written.
///
/// Without a file: what is still to come of the placement as it is. With one: what would come of it if the file were applied;
/// it may hold the placement, overrides, an update strategy, an update run and objects that the placement selects. The API
/// server is asked to complete them, as for `kubectl diff`; what a file no longer says goes, as with `kubectl apply`.
///
/// Exit status: 0 nothing would change, 1 error, 2 usage, 3 something would, or not all could be read, 4 refused.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl fleet plan web\n  kubectl fleet plan -f placement.yaml\n  \
                  kubectl fleet plan web -f deployment.yaml -o json\n  \
                  kubectl fleet plan shop --strategy slow --index 3\n  kubectl fleet plan -f run.yaml\n  \
                  kubectl fleet plan --from-run release-7"
)]
pub(crate) struct Args {
    /// The placement: its name, or `crp/NAME`, `rp/NAME`
    #[arg(value_name = "PLACEMENT", num_args = 1..=2, required_unless_present_any = ["filename", "from_run"])]
    placement: Vec<String>,
    /// What would be applied; `-` for stdin, may be repeated
    #[arg(long, short = 'f', value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// The update strategy of a staged run of it
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,
    /// The index of the resources that the run rolls out [default: what is selected now]
    #[arg(long, value_name = "N", requires = "strategy")]
    index: Option<u64>,
    /// Say what this update run still has to do: its name, or `csur/NAME`, `sur/NAME`
    #[arg(long, value_name = "RUN", conflicts_with_all = ["placement", "filename", "strategy"])]
    from_run: Option<String>,
    #[command(flatten)]
    namespace: InNamespace,
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
    let given = namespace.namespace.filter(|namespace| !namespace.is_empty());
    let place = Place {
        client: hub.client,
        namespace: given.unwrap_or(hub.namespace),
    };
    if let Some(run) = from_run {
        let left = place.left(&run).await?;
        output::print(&left, output)?;
        return Ok(if left.is_done() { Exit::Done } else { Exit::Left });
    }
    let key = if placement.is_empty() {
        manifests.placement(&place.namespace)?
    } else {
        place.named(&placement, &manifests).await?
    };
    let asked = Asked {
        key: &key,
        namespace: &place.namespace,
        manifests: &manifests,
        strategy: strategy.as_deref(),
        index,
    };
    let planned = Box::pin(planned(&place.client, &asked));
    let shown = progress::shown("reading the hub", planned).await?;
    for note in &shown.notes {
        terminal::note(&format!("note: {note}"));
    }
    output::print(&shown, output)?;
    Ok(shown.exit())
}

/// The plan, and what could not be taken into account.
async fn planned(client: &kube::Client, asked: &Asked<'_>) -> Result<Shown> {
    match asked.key.scope() {
        ScopeName::Cluster => gather::plan::<ClusterScoped>(client, asked).await,
        ScopeName::Namespaced => gather::plan::<Namespaced>(client, asked).await,
    }
}

/// The hub, and the namespace in which names without one are looked for, as for `kubectl apply`.
struct Place {
    client: kube::Client,
    namespace: String,
}

impl Place {
    /// `web`, `crp/web`, `rp/web`. A name alone is that of a placement of the files, of the hub, or of this namespace.
    async fn named(&self, words: &[String], manifests: &Manifests) -> Result<PlacementKey> {
        let name = match subject::placement(words, &self.namespace)? {
            (_, Some(more)) => {
                let text = format!("what is {more:?}? A plan is about all clusters of a placement");
                return Err(Failure::usage(text, "kubectl fleet plan --help"));
            }
            (Subject::Placement(key), None) => {
                let namespace = Some(key.namespace.as_str()).filter(|namespace| !namespace.is_empty());
                return Ok(PlacementKey::new(namespace, &key.name)?);
            }
            (Subject::Name(name), None) => name,
            (_, None) => return Err(no_placement(&words.join(" "))),
        };
        if let Some(key) = manifests.called(&name, &self.namespace)? {
            return Ok(key);
        }
        let wide = read::find::<ClusterResourcePlacement>(&self.client, None, &name).await;
        let wide = match wide {
            Ok(Some(_)) => return Ok(PlacementKey::new(None, &name)?),
            Ok(None) => Ok(()),
            Err(problem) if problem.is_forbidden() => Err(problem),
            Err(problem) => return Err(problem.into()),
        };
        match read::find::<ResourcePlacement>(&self.client, Some(&self.namespace), &name).await {
            Ok(Some(_)) => Ok(PlacementKey::new(Some(&self.namespace), &name)?),
            Err(problem) if !problem.is_forbidden() && !problem.is_unserved() => Err(problem.into()),
            // Whether there is one is not known where one may not look.
            _ => Err(wide.err().map_or_else(|| no_placement(&name), Into::into)),
        }
    }

    /// What the update run of this name still has to do.
    async fn left(&self, run: &str) -> Result<Left> {
        let namespace = Some(self.namespace.as_str());
        let found = match subject::parse(&[run.to_owned()], &self.namespace)?.0 {
            Subject::Run(key) if key.namespace.is_empty() => {
                runs::left::<ClusterScoped>(&self.client, None, &key.name).await?
            }
            Subject::Run(key) => runs::left::<Namespaced>(&self.client, namespace, &key.name).await?,
            Subject::Name(name) => match runs::left::<ClusterScoped>(&self.client, None, &name).await? {
                None => runs::left::<Namespaced>(&self.client, namespace, &name).await?,
                found => found,
            },
            _ => {
                let text = format!("{run:?} is no update run: want csur/NAME or sur/NAME");
                return Err(Failure::usage(text, "kubectl fleet plan --help"));
            }
        };
        found.ok_or_else(|| {
            let text = format!("there is no update run {run:?}");
            Failure::error(text, "kubectl get csur; kubectl get sur --all-namespaces")
        })
    }
}

fn no_placement(name: &str) -> anyhow::Error {
    let text = format!("there is no placement {name:?} (`-f` takes one that is only a file)");
    Failure::error(text, "kubectl get crp; kubectl get rp --all-namespaces")
}
