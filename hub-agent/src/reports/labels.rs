//! Labels that a member's platform gave it, on its MemberCluster.

use std::{collections::BTreeMap, time::Duration};

use fleet_api::cluster::MemberCluster;
use fleet_core::membership::validate::fillable_labels;
use fleet_runtime::{Key, writes::Lane};
use serde_json::json;

use crate::{
    channel::Shared,
    writer::{About, Edit, ToDo},
};

/// Between two tries.
const PAUSE: Duration = Duration::from_secs(5);

/// Fills in the labels that a member's platform gave it, once this replica leads: only the leader writes MemberClusters.
/// They are for people and schedulers, so failures are tried again without hurry.
pub(super) async fn fill_labels(shared: &Shared, member: &str, labels: &BTreeMap<String, String>) {
    let deps = &shared.deps;
    let key = Key::cluster(member);
    let about = About {
        store: &deps.members,
        key: &key,
        group: &key,
        lane: Lane::Objects,
    };
    let mut leading = deps.leading.clone();
    loop {
        if leading.wait_for(|leading| *leading).await.is_err() {
            return;
        }
        let decide = |mc: Option<&MemberCluster>, _| {
            let Some(mc) = mc else { return ToDo::Nothing(()) };
            let fillable: serde_json::Map<_, _> = fillable_labels(labels, mc.metadata.labels.as_ref())
                .map(|(key, value)| (key.to_owned(), json!(value)))
                .collect();
            if fillable.is_empty() {
                return ToDo::Nothing(());
            }
            let patch = json!({ "metadata": { "labels": fillable, "resourceVersion": mc.metadata.resource_version } });
            ToDo::Write(Edit::Object(patch), ())
        };
        match deps.writer.decide(&about, decide).await {
            Ok(_) => return,
            Err(failure) => {
                tracing::debug!(member, ?failure, "Platform labels not filled in");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
