//! `kubectl fleet rollout watch`: how a placement or an update run gets on, until it is done.

use std::time::Duration;

use anyhow::Result;
use fleet_api::{
    conditions::{self, Status, update_stage},
    kind::Kind,
    names::Scope as Which,
    placement::{
        ClusterResourcePlacement, ClusterStagedUpdateRun, Gate, ResourcePlacement, StageStatus, StagedUpdateRun,
        UpdateRunStatus,
    },
};
use fleet_core::{
    explain::{self, Objects, RunRow, Verdict},
    updaterun,
};
use jiff::Timestamp;

use crate::{
    chain,
    exit::Exit,
    globals::{Globals, InNamespace},
    hub::{Hub, Place},
    live::{self, Action, Offer, Picture, Source},
    old,
    output::{Mark, Node, Shown as _},
    problem::{Failure, Problem},
    reading::Reader,
    status,
    subject::{self, Key, Subject},
    top,
};

/// Watch a placement or an update run until it is done.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Watch a placement or an update run until it is done
    ///
    /// Keys: w says why, a approves what the run waits for, s stops the run, q quits. Where stdout is no terminal, a line is
    /// printed for each change.
    ///
    /// Exit status: 0 it is done (or somebody quit), 1 error, 2 usage, 3 it has failed, 4 refused, 124 timeout.
    #[command(
        after_help = "Examples:\n  kubectl fleet rollout watch crp/web\n  kubectl fleet rollout watch csur/release-7 --timeout 30m"
    )]
    Watch(Watch),
}

/// So often it is read again even if nothing is heard: what belongs to it changes too, and a frozen API server says nothing.
const AGAIN: Duration = Duration::from_secs(15);

#[derive(Debug, clap::Args)]
struct Watch {
    /// A placement or an update run, as kubectl takes it (crp/web, csur/release), or a placement's name
    #[arg(value_name = "OBJECT", required = true, num_args = 1..=2)]
    words: Vec<String>,
    /// How long to watch [default: until it is done]
    #[arg(long, value_parser = old::timeout)]
    timeout: Option<Duration>,
    #[command(flatten)]
    namespace: InNamespace,
    #[command(flatten)]
    globals: Globals,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Command::Watch(Watch {
        words,
        timeout,
        namespace,
        globals,
    }) = args.command;
    subject::parse(&words, "default")?;
    let place = Hub::reach(&globals, &namespace).await?;
    let mut rollout = Rollout::of(&place, &words).await?;
    live::show(&mut rollout, &place, timeout).await
}

/// What is watched.
pub(crate) struct Rollout {
    hub: Hub,
    key: Key,
    is_run: bool,
    /// Where the watch of its kind goes on.
    version: String,
}

impl Rollout {
    pub(crate) async fn of(place: &Place, words: &[String]) -> Result<Self> {
        let (subject, _) = subject::parse(words, &place.namespace)?;
        let (key, is_run) = match subject {
            Subject::Placement(key) => (key, false),
            Subject::Run(key) => (key, true),
            Subject::Name(name) => {
                let reader = Reader::new(&place.hub);
                (status::named(&reader, &place.namespace, &name).await?, false)
            }
            _ => {
                let text = format!("{:?} is neither a placement nor an update run", words[0]);
                return Err(Failure::usage(text, "kubectl fleet rollout watch --help"));
            }
        };
        Ok(Self {
            hub: place.hub.watching(&key.namespace, &key.name),
            key,
            is_run,
            version: String::new(),
        })
    }

    async fn version_of<K: Kind>(&mut self) -> Result<(), Problem> {
        self.version = self.hub.version::<K>().await?;
        Ok(())
    }

    async fn until_changed<K: Kind>(&mut self) -> Result<(), Problem> {
        let Self { hub, key, version, .. } = self;
        let own = |object: &K| {
            let meta = object.meta();
            meta.name.as_deref() == Some(key.name.as_str())
                && meta.namespace.as_deref().unwrap_or_default() == key.namespace
        };
        hub.follow(version, own, |_| std::ops::ControlFlow::Break(())).await
    }
}

impl Source for Rollout {
    async fn read(&mut self, now: Timestamp) -> Result<Picture, Problem> {
        // The version comes first: what happens after it is not missed.
        match (self.is_run, self.key.scope()) {
            (true, Which::Cluster) => self.version_of::<ClusterStagedUpdateRun>().await?,
            (true, Which::Namespaced) => self.version_of::<StagedUpdateRun>().await?,
            (false, Which::Cluster) => self.version_of::<ClusterResourcePlacement>().await?,
            (false, Which::Namespaced) => self.version_of::<ResourcePlacement>().await?,
        }
        let reader = Reader::new(&self.hub);
        if self.is_run {
            return of_run(&reader, &self.key, now).await;
        }
        of_placement(&reader, &self.key, now).await
    }

    async fn changed(&mut self) -> Result<(), Problem> {
        let changed = async {
            match (self.is_run, self.key.scope()) {
                (true, Which::Cluster) => self.until_changed::<ClusterStagedUpdateRun>().await,
                (true, Which::Namespaced) => self.until_changed::<StagedUpdateRun>().await,
                (false, Which::Cluster) => self.until_changed::<ClusterResourcePlacement>().await,
                (false, Which::Namespaced) => self.until_changed::<ResourcePlacement>().await,
            }
        };
        tokio::time::timeout(AGAIN, changed).await.unwrap_or(Ok(()))
    }
}

/// Something that is not there ends the watch.
fn gone(name: &str) -> Picture {
    let text = format!("there is no {name}");
    Picture {
        line: text.clone(),
        body: Box::new(move |_| format!("{text}\nnext: kubectl fleet status\n")),
        ended: Some(Exit::Error),
        subjects: Vec::new(),
        offers: Vec::new(),
    }
}

async fn of_placement(reader: &Reader<'_>, key: &Key, now: Timestamp) -> Result<Picture, Problem> {
    let Some(detail) = status::detail(reader, key, now).await? else {
        return Ok(gone(&key.placement()));
    };
    let row = &detail.placement;
    let text = if row.text.is_empty() { "done" } else { row.text.as_str() };
    let behind = if row.behind.is_empty() {
        String::new()
    } else {
        format!(" ({})", row.behind)
    };
    Ok(Picture {
        line: format!(
            "{}: {} of {} clusters ready, {}: {text}{behind}",
            row.name, row.ready, row.clusters, row.step
        ),
        ended: (row.verdict == Verdict::Done).then_some(Exit::Done),
        subjects: vec![row.name.clone()],
        offers: Vec::new(),
        body: Box::new(move |style| detail.text(style)),
    })
}

async fn of_run(reader: &Reader<'_>, key: &Key, now: Timestamp) -> Result<Picture, Problem> {
    let mut objects = Objects::default();
    match key.scope() {
        Which::Cluster => objects.cluster.runs.extend(reader.one("", &key.name).await?),
        Which::Namespaced => objects
            .namespaced
            .runs
            .extend(reader.one(&key.namespace, &key.name).await?),
    }
    let fleet = objects.fleet(&key.namespace, now);
    let rows = explain::run_rows(&fleet);
    let (Some(row), Some(run)) = (rows.first(), fleet.run(&key.name)) else {
        return Ok(gone(&key.shown("csur", "sur")));
    };
    let stage = if row.stage.is_empty() {
        String::new()
    } else {
        format!(", stage {}", row.stage)
    };
    let line = format!(
        "{}: {} of {} clusters updated{stage}: {}",
        row.name, row.updated, row.clusters, row.text
    );
    let offer = |action| Offer {
        of: row.name.clone(),
        action,
    };
    let approval = top::approval(&row.next).map(Action::Approve);
    let mut offers: Vec<_> = approval.map(offer).into_iter().collect();
    let ended = match (row.ended, row.verdict) {
        (false, _) => {
            offers.push(offer(Action::Stop(key.clone())));
            None
        }
        (true, Verdict::Done) => Some(Exit::Done),
        (true, _) => Some(Exit::Left),
    };
    let tree = stages(row, run.status, &line, now);
    Ok(Picture {
        line,
        ended,
        subjects: vec![row.name.clone(), row.placement.clone()],
        offers,
        body: Box::new(move |style| tree.text(style)),
    })
}

/// A run with its stages, and the clusters of each.
fn stages(row: &RunRow, status: Option<&UpdateRunStatus>, line: &str, now: Timestamp) -> Node {
    let mut root = Node::marked(chain::mark(row.verdict), line);
    let stages = status
        .into_iter()
        .flat_map(|status| status.stages_status.iter().chain(&status.deletion_stage_status));
    let counts = status.and_then(updaterun::failures).is_some();
    let options = status.and_then(|status| status.options.as_ref());
    let gates = options.map(|options| options.gates.as_slice()).unwrap_or_default();
    root.below = stages.map(|stage| of_stage(stage, gates, counts, now)).collect();
    root.next = Some(row.next.clone()).filter(|next| !next.is_empty());
    root
}

/// A stage; `counts` if clusters may fail, so that not each that does is its end.
fn of_stage(stage: &StageStatus, gates: &[Gate], counts: bool, now: Timestamp) -> Node {
    let said = |list: &[_], type_name| conditions::find(list, type_name).map(Status::of);
    let succeeded = |list: &[_]| said(list, update_stage::ClusterSucceeded::TYPE);
    let done = stage
        .clusters
        .iter()
        .filter(|it| succeeded(&it.conditions) == Some(Status::True))
        .count();
    let has_failed = said(&stage.conditions, update_stage::Succeeded::TYPE) == Some(Status::False)
        || !counts
            && stage
                .clusters
                .iter()
                .any(|it| succeeded(&it.conditions) == Some(Status::False));
    let mark = match (&stage.start_time, &stage.end_time) {
        _ if has_failed => Mark::Failed,
        (_, Some(_)) => Mark::Done,
        (Some(_), None) => Mark::Waiting,
        (None, None) => Mark::NotReached,
    };
    let since = stage.start_time.as_ref().filter(|_| stage.end_time.is_none());
    let since = since
        .map(|at| format!(", for {}", chain::ago(at.0, now)))
        .unwrap_or_default();
    let mut node = Node::marked(
        mark,
        format!(
            "{}: {done} of {} updated{since}",
            stage.stage_name,
            stage.clusters.len()
        ),
    );
    let under_way = stage.clusters.iter().filter(|it| {
        let has_begun = said(&it.conditions, update_stage::ClusterStarted::TYPE).is_some();
        has_begun && succeeded(&it.conditions) != Some(Status::True)
    });
    let clusters = under_way.map(|it| {
        let mark = if succeeded(&it.conditions) == Some(Status::False) {
            Mark::Failed
        } else {
            Mark::Waiting
        };
        Node::marked(mark, it.cluster_name.clone())
    });
    node.below = clusters.collect();
    let tasks = stage
        .before_stage_task_status
        .iter()
        .chain(&stage.after_stage_task_status);
    for task in tasks.filter(|task| !task.approval_request_name.is_empty()) {
        let approved = said(&task.conditions, update_stage::ApprovalRequestApproved::TYPE) == Some(Status::True);
        let mark = match (approved, mark) {
            (true, _) => Mark::Done,
            (false, Mark::NotReached) => Mark::NotReached,
            (false, _) => Mark::Waiting,
        };
        node.below
            .push(Node::marked(mark, format!("approval {}", task.approval_request_name)));
    }
    for gate in gates.iter().filter(|gate| gate.stage == stage.stage_name) {
        let mark = match (&gate.passed, mark) {
            (Some(_), _) => Mark::Done,
            (None, Mark::NotReached) => Mark::NotReached,
            (None, _) => Mark::Waiting,
        };
        let text = format!(
            "gate {}: {} of {}",
            gate.when,
            gate.condition,
            updaterun::shown_gate(gate)
        );
        node.below.push(Node::marked(mark, text));
    }
    node
}

#[cfg(test)]
mod tests;
