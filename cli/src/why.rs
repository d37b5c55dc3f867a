//! `kubectl fleet why`: how far something has come, the first step that is not done, its cause, and what to type next.

mod answer;
mod gather;
mod history;
mod object;
mod on_member;

use anyhow::Result;
use fleet_core::explain;
use jiff::Timestamp;

use crate::{
    common::Common,
    exit::Exit,
    hub::{Hub, Place},
    output,
    problem::Failure,
    progress::{self, READING},
    reading::Reader,
    subject::{self, Subject},
    terminal::now,
};
use answer::Answer;
pub(crate) use gather::family;
use object::Wanted;

/// Say what is wrong, why, what it holds back, and what to do.
///
/// Asks about a placement (on one cluster, if one is named), an update run, a member, an eviction, or any object that is
/// placed: for those it also says which placement, snapshot, overrides and run put them there, and what they looked like before.
///
/// Exit status: 0 all is well, 1 error, 2 usage, 3 something is not done, 4 refused, 124 timeout.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl fleet why crp/web\n  kubectl fleet why crp/web east\n  kubectl fleet why csur/release-7\n  \
                  kubectl fleet why membercluster/east\n  kubectl fleet why deployment.apps/api east -n shop --member-context east"
)]
pub(crate) struct Args {
    /// What is asked about, as kubectl takes it (crp/web, csur/release, membercluster/east, deployment/api), or only its name;
    /// then a cluster
    #[arg(value_name = "OBJECT [CLUSTER]", required = true, num_args = 1..=3)]
    words: Vec<String>,
    /// The kubeconfig context of the member: who changed objects there, and what its agent says, is read from it
    #[arg(long, value_name = "NAME")]
    member_context: Option<String>,
    #[command(flatten)]
    common: Common,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Args {
        words,
        member_context,
        common,
    } = args;
    // What makes no sense is said before anybody is asked.
    subject::parse(&words, common.namespace.namespace.as_deref().unwrap_or("default"))?;
    let place = common.reach().await?;
    let member = match &member_context {
        None => None,
        Some(context) => Some(Hub::of_member(&common.globals, context).await?),
    };
    let asking = ask(&place, &words, member.as_ref(), now());
    let answer = progress::shown(READING, asking).await?;
    output::print(&answer, common.output)?;
    Ok(answer.exit())
}

/// The answer to a question.
pub(crate) async fn ask(place: &Place, words: &[String], member: Option<&Hub>, now: Timestamp) -> Result<Answer> {
    let (subject, cluster) = subject::parse(words, &place.namespace)?;
    let reader = Reader::new(&place.hub);
    Box::pin(answer_to(
        &reader,
        &place.namespace,
        subject,
        cluster.as_deref(),
        member,
        now,
    ))
    .await
}

async fn answer_to(
    reader: &Reader<'_>,
    namespace: &str,
    subject: Subject,
    cluster: Option<&str>,
    member: Option<&Hub>,
    now: Timestamp,
) -> Result<Answer> {
    let subject = match subject {
        Subject::Name(name) => gather::named(reader, namespace, &name).await?,
        subject => subject,
    };
    if member.is_some() {
        takes_member(&subject, cluster)?;
    }
    let chain = match subject {
        Subject::Placement(key) => Box::pin(gather::placement(reader, &key, cluster, member, now)).await?,
        Subject::Run(key) => Box::pin(gather::run(reader, &key, now)).await?,
        Subject::Member(name) => gather::member(reader, &name, member, now).await?,
        Subject::Eviction(name) => gather::eviction(reader, &name, now).await?,
        Subject::Approval(key) => {
            let run = gather::run_of_approval(reader, &key).await?;
            Box::pin(gather::run(reader, &run, now)).await?
        }
        Subject::Binding(key) => {
            let (placement, cluster) = gather::placement_of_binding(reader, &key).await?;
            Box::pin(gather::placement(reader, &placement, Some(&cluster), member, now)).await?
        }
        Subject::Work { cluster, name } => {
            let key = gather::placement_of_work(reader, &cluster, &name).await?;
            if gather::is_gone(reader, &key).await? {
                explain::orphan(&cluster, &name, &key.namespace, &key.name)
            } else {
                Box::pin(gather::placement(reader, &key, Some(&cluster), member, now)).await?
            }
        }
        Subject::Object { kind, namespace, name } => {
            let wanted = Wanted {
                kind: &kind,
                namespace: &namespace,
                name: &name,
                cluster,
            };
            return object::explain(reader, &wanted, member, now).await;
        }
        Subject::Name(name) => return Err(gather::nothing(&name)),
    };
    Ok(Answer::new(chain, reader.hidden(), now))
}

/// The context of a member is of use only where one member is looked at.
fn takes_member(subject: &Subject, cluster: Option<&str>) -> Result<()> {
    let why = match subject {
        Subject::Placement(_) | Subject::Object { .. } if cluster.is_none() => {
            "--member-context needs the name of its cluster after what is asked about"
        }
        Subject::Run(_) | Subject::Approval(_) => "--member-context says nothing about an update run",
        Subject::Eviction(_) => "--member-context says nothing about an eviction",
        _ => return Ok(()),
    };
    Err(Failure::usage(why, "kubectl fleet why --help"))
}

#[cfg(test)]
mod tests;
