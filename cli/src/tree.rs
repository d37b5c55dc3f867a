//! `kubectl fleet tree`: what belongs to a placement.

use anyhow::Result;
use fleet_api::{
    conditions::{self, Status, update_run},
    labels::{PARENT_BINDING, PARENT_PLACEMENT, PARENT_PLACEMENT_NAMESPACE},
    names::MEMBER_NAMESPACE_PREFIX,
    placement::Work,
};
use fleet_core::explain::{Binding, Fleet, Objects};
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    chain,
    common::Common,
    exit::Exit,
    hub::Place,
    output::{self, Mark, Node, Shown, Style, Table},
    problem::Failure,
    progress::{self, READING},
    reading::{Hidden, Reader},
    status,
    subject::{self, Key, Subject},
    terminal::now,
    why,
};

/// Show what belongs to a placement: snapshots, update runs, bindings and their Works.
///
/// Exit status: 0 done, 1 error, 2 usage, 4 refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  kubectl fleet tree crp/web\n  kubectl fleet tree rp/api -n shop -o name")]
pub(crate) struct Args {
    /// A placement, as kubectl takes it (crp/web, rp/web -n shop), or only its name
    #[arg(value_name = "PLACEMENT", required = true, num_args = 1..=2)]
    words: Vec<String>,
    #[command(flatten)]
    common: Common,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Args { words, common } = args;
    subject::placement(&words, "default")?;
    let place = common.reach().await?;
    let tree = progress::shown(READING, Box::pin(read(&place, &words, now()))).await?;
    output::print(&tree, common.output)?;
    Ok(Exit::Done)
}

/// An object that belongs to a placement, with those that belong to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Owned {
    /// As kubectl takes it.
    object: String,
    says: String,
    #[serde(skip)]
    mark: Option<Mark>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    owns: Vec<Owned>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tree {
    #[serde(flatten)]
    root: Owned,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hidden: Vec<Hidden>,
}

async fn read(place: &Place, asked: &[String], now: Timestamp) -> Result<Tree> {
    let (subject, _) = subject::placement(asked, &place.namespace)?;
    let reader = Reader::new(&place.hub);
    let key = match subject {
        Subject::Placement(key) => key,
        _ => status::named(&reader, &place.namespace, &asked[0]).await?,
    };
    let own = format!("{PARENT_PLACEMENT}={}", key.name);
    let (mut objects, works) = futures::try_join!(why::family(&reader, &key), reader.work_names(None, &own))?;
    let is_own = |work: &Work| label(work, PARENT_PLACEMENT_NAMESPACE) == key.namespace;
    objects.works = works.into_iter().filter(is_own).collect();
    let Some(root) = owned(&objects, &key, now) else {
        let text = format!("there is no {}", key.placement());
        return Err(Failure::error(text, "kubectl get crp; kubectl get rp -A"));
    };
    Ok(Tree {
        root,
        hidden: reader.hidden(),
    })
}

fn label<'a>(work: &'a Work, key: &str) -> &'a str {
    let found = work.metadata.labels.as_ref().and_then(|labels| labels.get(key));
    found.map(String::as_str).unwrap_or_default()
}

fn leaf(object: String, says: String) -> Owned {
    Owned {
        object,
        says,
        mark: None,
        owns: Vec::new(),
    }
}

fn owned(objects: &Objects, key: &Key, now: Timestamp) -> Option<Owned> {
    let fleet = objects.fleet(&key.namespace, now);
    let placement = fleet.placement(&key.name)?;
    let of = |name: &str| Key::new(&key.namespace, name);
    let age = |meta: &kube::core::ObjectMeta| {
        let made = meta.creation_timestamp.as_ref();
        made.map(|at| format!("{} old", chain::ago(at.0, now)))
            .unwrap_or_default()
    };
    let mut owns = Vec::new();
    for policy in &fleet.policies {
        let object = of(policy.name()).shown("clusterschedulingpolicysnapshot", "schedulingpolicysnapshot");
        owns.push(leaf(object, age(policy.meta)));
    }
    let latest = fleet.latest_snapshot(&key.name);
    let mut snapshots = fleet.snapshots.clone();
    snapshots.sort_by_key(|meta| meta.creation_timestamp.clone());
    for meta in snapshots {
        let name = meta.name.as_deref().unwrap_or_default();
        let users = fleet
            .bindings
            .iter()
            .filter(|binding| binding.spec.resource_snapshot_name == name)
            .count();
        let latest = if latest == Some(name) { ", the latest" } else { "" };
        let users = match users {
            0 => String::new(),
            users => format!(", on {users} clusters"),
        };
        owns.push(leaf(
            of(name).shown("clusterresourcesnapshot", "resourcesnapshot"),
            format!("{}{latest}{users}", age(meta)),
        ));
    }
    for run in &fleet.runs {
        let status = run
            .status
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let ended = conditions::find(status, update_run::Succeeded::TYPE).map(Status::of);
        let says = match ended {
            Some(Status::True) => "succeeded",
            Some(Status::False) => "failed",
            _ => "under way",
        };
        owns.push(leaf(
            of(run.name()).shown("csur", "sur"),
            format!("{says}, {}", age(run.meta)),
        ));
    }
    let mut bindings = fleet.bindings.clone();
    bindings.sort_by(|a, b| a.spec.target_cluster.cmp(&b.spec.target_cluster));
    owns.extend(
        bindings
            .iter()
            .map(|binding| bound(&fleet, binding, &of(binding.name()))),
    );
    Some(Owned {
        owns,
        ..leaf(key.placement(), age(placement.meta))
    })
}

fn bound(fleet: &Fleet<'_>, binding: &Binding<'_>, key: &Key) -> Owned {
    let spec = binding.spec;
    let works = fleet
        .works
        .iter()
        .filter(|work| label(work, PARENT_BINDING) == binding.name());
    let works = works.map(|work| {
        let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
        let name = work.metadata.name.as_deref().unwrap_or_default();
        let member = namespace.strip_prefix(MEMBER_NAMESPACE_PREFIX).unwrap_or(namespace);
        let deleting = work.metadata.deletion_timestamp.is_some();
        let says = if deleting { "being deleted" } else { "" };
        leaf(
            format!("work/{name} -n {MEMBER_NAMESPACE_PREFIX}{member}"),
            says.to_owned(),
        )
    });
    let is_true = |type_name| {
        binding
            .fresh(type_name)
            .is_some_and(|it| Status::of(it) == Status::True)
    };
    let is_done = is_true("Available") || is_true("DiffReported");
    let snapshot = Some(spec.resource_snapshot_name.as_str())
        .filter(|name| !name.is_empty())
        .unwrap_or("no snapshot yet");
    let deleting = if binding.deleting() { ", being deleted" } else { "" };
    Owned {
        object: key.shown("clusterresourcebinding", "resourcebinding"),
        says: format!("{}, {}, {snapshot}{deleting}", spec.target_cluster, spec.state.as_str()),
        mark: Some(if is_done { Mark::Done } else { Mark::Waiting }),
        owns: works.collect(),
    }
}

impl Owned {
    fn node(&self) -> Node {
        let says = match self.says.as_str() {
            "" => String::new(),
            says => format!("  ({says})"),
        };
        let mut node = Node::new(format!("{}{says}", self.object));
        node.mark = self.mark;
        node.below = self.owns.iter().map(Self::node).collect();
        node
    }

    fn names(&self) -> Vec<String> {
        let below = self.owns.iter().flat_map(Self::names);
        std::iter::once(self.object.clone()).chain(below).collect()
    }
}

impl Shown for Tree {
    fn table(&self) -> Table {
        Table::new(&[])
    }

    fn names(&self) -> Vec<String> {
        self.root.names()
    }

    fn text(&self, style: &Style) -> String {
        self.root.node().text(style) + &chain::hidden(&self.hidden, style)
    }
}

#[cfg(test)]
mod tests;
