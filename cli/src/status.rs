//! `kubectl fleet status`: the fleet in one screen, or one placement with its clusters and the objects in trouble on them.

mod fleet;
mod hub_agent;
mod placement;

use anyhow::Result;

use crate::{
    common::Common,
    exit::Exit,
    output,
    progress::{self, READING},
    reading::Reader,
    subject::{self, Subject},
    terminal::now,
};

pub(crate) use fleet::{Overview, read as overview};
#[cfg(test)]
pub(crate) use placement::must;
pub(crate) use placement::{detail, named, whole};

/// Show the fleet in one screen, or one placement with its clusters.
///
/// Without a name: the hub agent, the members and the placements, those in trouble first. With a placement: its clusters, and
/// on each the objects that are not as they should be.
///
/// Exit status: 0 all is well, 1 error, 2 usage, 3 something is not, 4 refused.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl fleet status\n  kubectl fleet status -n shop -o wide\n  kubectl fleet status crp/web"
)]
pub(crate) struct Args {
    /// A placement, as kubectl takes it (crp/web, rp/web -n shop), or only its name
    #[arg(value_name = "PLACEMENT", num_args = 0..=2)]
    words: Vec<String>,
    /// Placements of all namespaces: the default unless -n is given
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    common: Common,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Args {
        words,
        all_namespaces: _,
        common,
    } = args;
    let only = common.namespace.namespace.clone().unwrap_or_default();
    if !words.is_empty() {
        subject::placement(&words, &only)?;
    }
    let place = common.reach().await?;
    let reader = Reader::new(&place.hub);
    if words.is_empty() {
        let overview = progress::shown(READING, Box::pin(fleet::read(&reader, &only, now()))).await?;
        output::print(&overview, common.output)?;
        return Ok(overview.exit());
    }
    let (subject, _) = subject::placement(&words, &place.namespace)?;
    let reading = async {
        let key = match subject {
            Subject::Placement(key) => key,
            _ => placement::named(&reader, &place.namespace, &words[0]).await?,
        };
        placement::must(&reader, &key, now()).await
    };
    let detail = progress::shown(READING, reading).await?;
    output::print(&detail, common.output)?;
    Ok(detail.exit())
}

#[cfg(test)]
mod tests;
