//! Envelopes: what a binding says while the Work of one is new.

use super::*;

impl Hub {
    /// What a binding says about applying today's content.
    fn applied(&self, cluster: &str) -> String {
        let binding = self.binding(cluster);
        let said = binding.status.as_ref().map(|status| status.conditions.as_slice());
        let generation = binding.metadata.generation.unwrap_or_default();
        let applied = conditions::fresh(said.unwrap_or_default(), "Applied", generation);
        applied
            .map(|applied| format!("{} {}", applied.status, applied.reason))
            .unwrap_or_default()
    }

    fn works_on(&self, cluster: &str) -> usize {
        let namespace = format!("fleet-member-{cluster}");
        let works = self.api.all("works").0;
        works
            .iter()
            .filter(|work| work["metadata"]["namespace"] == *namespace)
            .count()
    }
}

#[tokio::test(start_paused = true)]
async fn while_one_of_several_works_is_new_all_of_them_are_being_applied() {
    let all_at_once = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "100%" } });
    let hub = Hub::new(&json!({ "strategy": all_at_once })).await;
    hub.settle().await;
    hub.report();
    hub.settle().await;
    for cluster in CLUSTERS {
        assert_eq!(hub.works_on(cluster), 1, "{cluster}");
        assert_eq!(hub.applied(cluster), "True AllWorkHaveBeenApplied", "{cluster}");
    }
    let envelope = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ResourceEnvelope",
        "metadata": { "name": "wrapped" },
        "data": { "inner.yaml": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "inner", "namespace": "app" },
        } },
    });
    hub.api.name_own_kinds();
    hub.api.put("namespaces/app/resourceenvelopes", envelope);
    // The watch of envelopes is not there, so another process has to see it.
    let hub = Hub::start(hub.api.clone()).await;
    hub.settle().await;
    for cluster in CLUSTERS {
        assert_eq!(hub.works_on(cluster), 2, "{cluster}");
        assert_eq!(
            hub.applied(cluster),
            "False ApplyInProgress",
            "{cluster}: one is answered"
        );
    }
    // So says an agent that has not written the second one itself.
    hub.api.writes();
    let hub = Hub::start(hub.api.clone()).await;
    hub.settle().await;
    assert_eq!(hub.api.writes(), Vec::<String>::new());
    hub.report();
    hub.settle().await;
    for cluster in CLUSTERS {
        assert_eq!(hub.applied(cluster), "True AllWorkHaveBeenApplied", "{cluster}");
    }
}
