//! One placement: its clusters, and on each the objects that are not as they should be. How the clusters are is in its status:
//! one request. Which objects are meant is in its bindings, where there is room for it: another.

use anyhow::Result;
use fleet_api::{
    labels::PARENT_PLACEMENT,
    names::Scope as Which,
    placement::{ClusterResourcePlacement, ResourcePlacement},
};
use fleet_core::explain::{self, ClusterRow, Objects, PlacementRow, Verdict};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use crate::{
    chain,
    exit::Exit,
    hub::Ask,
    output::{Mark, Node, Shown, Style, Table},
    problem::{Failure, Problem},
    reading::{Hidden, LARGE_PAGE, Reader},
    subject::Key,
};

/// Of more clusters than this, only those in trouble are shown.
const CLUSTERS_SHOWN: usize = 40;

/// A placement in detail.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Detail {
    #[serde(flatten)]
    pub(crate) placement: PlacementRow,
    pub(crate) on: Vec<ClusterRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) hidden: Vec<Hidden>,
    #[serde(skip)]
    now: Timestamp,
}

/// The placement with this name: a cluster-scoped one if there is one.
pub(crate) async fn named(reader: &Reader<'_>, namespace: &str, name: &str) -> Result<Key> {
    if reader.one::<ClusterResourcePlacement>("", name).await?.is_some() {
        return Ok(Key::new("", name));
    }
    if reader.has::<ResourcePlacement>(namespace, name).await? {
        return Ok(Key::new(namespace, name));
    }
    Err(Failure::error(
        format!(
            "there is no ClusterResourcePlacement {name}, and no ResourcePlacement {name} in namespace {namespace}"
        ),
        "kubectl fleet status",
    ))
}

/// A placement alone, as what explanations are made from. It has none if there is no such placement.
async fn maybe(reader: &Reader<'_>, key: &Key) -> Result<Objects, Problem> {
    let mut objects = Objects::default();
    match key.scope() {
        Which::Cluster => objects.cluster.placements.extend(reader.one("", &key.name).await?),
        Which::Namespaced => objects
            .namespaced
            .placements
            .extend(reader.one(&key.namespace, &key.name).await?),
    }
    Ok(objects)
}

fn missing(key: &Key) -> anyhow::Error {
    let text = format!("there is no {}", key.placement());
    Failure::error(text, "kubectl get crp; kubectl get rp -A")
}

/// A placement that has to be there, with its bindings.
pub(crate) async fn whole(reader: &Reader<'_>, key: &Key) -> Result<Objects> {
    let own = format!("{PARENT_PLACEMENT}={}", key.name);
    let ask = Ask {
        namespace: &key.namespace,
        labels: &own,
        page: Some(LARGE_PAGE),
        ..Ask::default()
    };
    let (mut objects, (wide, namespaced)) = futures::try_join!(maybe(reader, key), async {
        match key.scope() {
            Which::Cluster => Ok((reader.may(ask, |_| true).await?, Vec::new())),
            Which::Namespaced => Ok((Vec::new(), reader.may(ask, |_| true).await?)),
        }
    })?;
    if objects.cluster.placements.is_empty() && objects.namespaced.placements.is_empty() {
        return Err(missing(key));
    }
    (objects.cluster.bindings, objects.namespaced.bindings) = (wide, namespaced);
    Ok(objects)
}

/// A placement in detail as far as its status has it, if there is one: for screens that are read again and again.
pub(crate) async fn detail(reader: &Reader<'_>, key: &Key, now: Timestamp) -> Result<Option<Detail>, Problem> {
    Ok(of(reader, key, &maybe(reader, key).await?, now))
}

fn of(reader: &Reader<'_>, key: &Key, objects: &Objects, now: Timestamp) -> Option<Detail> {
    let fleet = objects.fleet(&key.namespace, now);
    let mut on = explain::cluster_rows(&fleet, &key.name);
    on.sort_by(|a, b| {
        let rank = |row: &ClusterRow| (row.verdict == Verdict::Done, row.verdict != Verdict::Failed);
        rank(a).cmp(&rank(b)).then_with(|| a.cluster.cmp(&b.cluster))
    });
    let mut placement = explain::placement_rows(&fleet).into_iter().next()?;
    let differing = explain::diff_rows(&fleet, &key.name, None);
    placement.drifted = differing.iter().filter(|row| row.drifted).count();
    placement.differing = differing.len() - placement.drifted;
    Some(Detail {
        placement,
        on,
        hidden: reader.hidden(),
        now,
    })
}

/// A placement in detail, which has to be there.
pub(crate) async fn must(reader: &Reader<'_>, key: &Key, now: Timestamp) -> Result<Detail> {
    let objects = whole(reader, key).await?;
    of(reader, key, &objects, now).ok_or_else(|| missing(key))
}

impl Detail {
    pub(crate) fn exit(&self) -> Exit {
        if self.placement.verdict == Verdict::Done {
            Exit::Done
        } else {
            Exit::Left
        }
    }

    fn cluster(&self, row: &ClusterRow) -> Node {
        let name = if row.cluster.is_empty() {
            "(no cluster)"
        } else {
            &row.cluster
        };
        let text = match (row.verdict, row.text.as_str()) {
            (Verdict::Done, _) => row.step.clone(),
            (_, text) => format!("{}: {text}{}", row.step, self.since(row.since.as_ref())),
        };
        let snapshot = if row.snapshot.is_empty() {
            String::new()
        } else {
            format!("snapshot {}, ", row.snapshot)
        };
        let mut node = Node::marked(chain::mark(row.verdict), format!("{name}: {snapshot}{text}"));
        let objects = row.objects.iter().map(|object| {
            let words = format!("{}: {}{}", object.name, object.text, self.since(object.since.as_ref()));
            let is_well = object.verdict == Verdict::Done;
            let mark = if is_well {
                Mark::Note
            } else {
                chain::mark(object.verdict)
            };
            let mut node = Node::marked(mark, words);
            node.next = Some(object.next.clone());
            node
        });
        node.below = objects.collect();
        if row.objects.is_empty() && row.verdict != Verdict::Done {
            node.next = Some(row.next.clone());
        }
        node
    }

    fn since(&self, since: Option<&Time>) -> String {
        since
            .map(|at| format!(" ({})", chain::ago(at.0, self.now)))
            .unwrap_or_default()
    }
}

impl Shown for Detail {
    fn table(&self) -> Table {
        Table::new(&[])
    }

    fn names(&self) -> Vec<String> {
        vec![self.placement.name.clone()]
    }

    fn text(&self, style: &Style) -> String {
        let row = &self.placement;
        let text = match row.text.as_str() {
            "" => String::new(),
            text => format!(", {}: {text}", row.step),
        };
        let snapshot = if row.snapshot.is_empty() {
            String::new()
        } else {
            format!(", snapshot {}", row.snapshot)
        };
        let head = format!(
            "{}: {} of {} clusters ready{snapshot}{text}",
            row.name, row.ready, row.clusters
        );
        let mut root = Node::marked(chain::mark(row.verdict), head);
        let all = style.wide || self.on.len() <= CLUSTERS_SHOWN;
        // One that is well may still have drifted.
        let shown = self
            .on
            .iter()
            .filter(|row| all || row.verdict != Verdict::Done || !row.objects.is_empty());
        root.below = shown.map(|row| self.cluster(row)).collect();
        let left = self.on.len() - root.below.len();
        if left > 0 {
            root.below
                .push(Node::new(format!("{left} more are well (-o wide shows them)")));
        }
        if row.verdict != Verdict::Done {
            root.next = Some(row.next.clone());
        }
        root.text(style) + &chain::hidden(&self.hidden, style)
    }
}
