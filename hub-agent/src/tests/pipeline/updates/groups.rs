//! Runs that name an index whose snapshots are several.

use fleet_api::labels;

use super::super::overrides::{cluster_wide, namespace, snapshot};
use super::*;

impl Hub {
    /// A hub with a run of index 0, of which there are two parts. The first is there.
    async fn with_first_part() -> Self {
        let hub = Self::new(&json!({ "strategy": { "type": "External" } })).await;
        hub.begin_run(&json!({}));
        let named = json!({ "metadata": { "name": RUN }, "spec": { "resourceSnapshotIndex": "0" } });
        hub.api.put("clusterstagedupdateruns", named);
        let first = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "app" } });
        let about = json!({ annotations::RESOURCE_HASH: "hash", annotations::NUMBER_OF_RESOURCE_SNAPSHOTS: "2" });
        hub.put_part("crp-0-snapshot", &about, &json!([first]));
        hub
    }

    fn put_second_part(&self) {
        let mut settings = config_map("one");
        settings["metadata"]["namespace"] = json!("app");
        let elsewhere = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "elsewhere" } });
        let about = json!({ annotations::SUBINDEX_OF_RESOURCE_SNAPSHOT: "0" });
        self.put_part("crp-0-0", &about, &json!([settings, elsewhere]));
    }

    fn put_part(&self, name: &str, annotations: &Value, resources: &Value) {
        let mut labels = json!({ labels::PARENT_PLACEMENT: "crp", labels::RESOURCE_INDEX: "0" });
        if name == "crp-0-snapshot" {
            labels[labels::IS_LATEST_SNAPSHOT] = json!(labels::TRUE);
        }
        let part = json!({
            "metadata": { "name": name, "labels": labels, "annotations": annotations },
            "spec": { "selectedResources": resources },
        });
        self.api.put("clusterresourcesnapshots", part);
        self.sync();
    }

    /// One override of each scope, of what only the second part has.
    fn put_overrides(&self) {
        let stores = &self.ctx.shared.overrides;
        let empty = json!({ "metadata": { "name": "wide" }, "spec": { "policy": {} } });
        self.api.put("clusterresourceoverrides", empty);
        self.list(&stores.cluster_wide, "clusterresourceoverrides");
        self.put_snapshot(cluster_wide("wide", 0, &namespace("elsewhere"), &json!(null)));
        let empty = json!({ "metadata": { "name": "narrow" }, "spec": { "policy": {} } });
        self.api.put("namespaces/app/resourceoverrides", empty);
        self.list(&stores.namespaced, "resourceoverrides");
        let settings = json!({ "group": "", "version": "v1", "kind": "ConfigMap", "name": "settings" });
        let narrow = snapshot("narrow", 0, "resourceSelectors", &settings, &json!(null));
        self.api.put("namespaces/app/resourceoverridesnapshots", narrow);
        self.list(&stores.namespaced_snapshots, "resourceoverridesnapshots");
    }

    fn initialized(&self) -> Option<(String, String)> {
        let status = self.run_status();
        let said = conditions::find(&status.conditions, "Initialized")?;
        Some((said.status.clone(), said.message.clone()))
    }
}

#[tokio::test(start_paused = true)]
async fn overrides_of_every_part_are_recorded_once_all_parts_are_there() {
    let hub = Hub::with_first_part().await;
    hub.put_overrides();
    for _ in 0..5 {
        hub.go().await;
    }
    assert_eq!(hub.initialized(), None, "it waits for the second part");
    hub.put_second_part();
    for _ in 0..60 {
        if hub.has_ended() {
            break;
        }
        hub.go().await;
    }
    let status = hub.run_status();
    assert_eq!(status.resource_snapshot_index_used, "0", "{status:?}");
    assert!(hub.has_ended(), "{status:?}");
    assert_eq!(status.stages_status[0].clusters.len(), CLUSTERS.len(), "{status:?}");
    for cluster in &status.stages_status[0].clusters {
        let spec = &hub.binding(&cluster.cluster_name).spec;
        for (wide, narrow) in [
            (
                &cluster.cluster_resource_override_snapshots,
                &cluster.resource_override_snapshots,
            ),
            (
                &spec.cluster_resource_override_snapshots,
                &spec.resource_override_snapshots,
            ),
        ] {
            assert_eq!(*wide, ["wide-0"], "{cluster:?}");
            let narrow: Vec<_> = narrow
                .iter()
                .map(|it| format!("{}/{}", it.namespace, it.name))
                .collect();
            assert_eq!(narrow, ["app/narrow-0"], "{cluster:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_whose_parts_do_not_come_ends_the_run_with_its_text() {
    let hub = Hub::with_first_part().await;
    hub.go().await;
    hub.go().await;
    assert_eq!(hub.initialized(), None, "it waits for the second part");
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    hub.go().await;
    let (status, message) = hub.initialized().unwrap();
    assert_eq!(status, "False", "{message}");
    let missing = "not all resource snapshot in the same index group are created: resource snapshots are still being \
                   created for the masterResourceSnapshot crp-0-snapshot, total snapshot in the index group = 2, num Of \
                   existing snapshot in the group= 1, placement = crp";
    assert!(message.contains(missing), "{message}");
    // Too late: it never goes on.
    hub.put_second_part();
    hub.go().await;
    assert_eq!(hub.initialized(), Some((status, message)));
    let bindings = hub.ctx.family.bindings.all();
    assert!(
        bindings
            .iter()
            .all(|binding| binding.spec.state == BindingState::Scheduled),
        "{bindings:?}"
    );
}
