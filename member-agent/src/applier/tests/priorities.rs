//! Which Work goes first.

use super::*;

#[tokio::test(start_paused = true)]
async fn urgent_works_go_first_when_asked() {
    let (hub, member) = (cluster(), cluster());
    let stage = Stage::with(hub, member, &["--enable-work-applier-priority-queue=true"]);
    let work = |name: &str, generation: i64, well_at: i64, minutes_old: i64| {
        let created = stage.clock.now() - jiff::SignedDuration::from_mins(minutes_old);
        let condition = |type_: &str| {
            json!({"type": type_, "status": "True", "reason": "R", "message": "", "observedGeneration": well_at,
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let work: fleet_api::placement::Work = serde_json::from_str(
            &json!({
                "metadata": {"name": name, "namespace": "fleet-member-east", "uid": name, "generation": generation,
                    "resourceVersion": (generation * 10).to_string(), "creationTimestamp": created.to_string()},
                "spec": {"workload": {"manifests": []}},
                "status": {"conditions": [condition("Applied"), condition("Available")], "manifestConditions": []},
            })
            .to_string(),
        )
        .unwrap();
        HubWork::from(work)
    };
    let change = |old: Option<HubWork>, new: Option<HubWork>| fleet_runtime::cache::Change {
        key: Key::namespaced("fleet-member-east", "w"),
        old: old.map(Arc::new),
        new: new.map(Arc::new),
    };
    let priority = |old, new| stage.applier.admission.priority(&change(old, new));
    let (well, ill) = (|age| work("w", 1, 1, age), |age| work("w", 1, 0, age));
    assert_eq!(priority(None, Some(ill(0))), 100);
    assert_eq!(priority(None, Some(well(60))), -1, "listed, and as it should be");
    let changed = |age| Some(work("w", 2, 1, age));
    assert_eq!(
        [0, 5, 33, 34].map(|age| priority(Some(well(age)), changed(age))),
        [100, 85, 1, 0]
    );
    assert_eq!(priority(Some(ill(60)), changed(60)), 100);
    assert_eq!(priority(Some(well(60)), None), 100);
}
