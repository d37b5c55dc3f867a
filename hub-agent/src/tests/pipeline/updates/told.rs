//! Events of a run and of its placement.

use super::*;

#[tokio::test(start_paused = true)]
async fn no_event_is_about_a_cluster_that_is_updated_as_it_should() {
    let hub = Hub::with_run().await;
    hub.api.take_events();
    let sender = hub.sender.lock().take().unwrap();
    let sending = tokio::spawn(sender.run());
    let key = Key::cluster("crp");
    for _ in 0..60 {
        if hub.has_ended() {
            break;
        }
        hub.go().await;
        check(rollup::pass(&hub.rollup, &key).await);
        hub.sync();
    }
    hub.check_end();
    for _ in 0..10 {
        check(rollup::pass(&hub.rollup, &key).await);
        hub.sync();
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    sending.abort();
    let told = hub.api.all("events").0.into_iter();
    let mut told: Vec<_> = told
        .map(|event| {
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (kind, reason) = (word(&event["involvedObject"]["kind"]), word(&event["reason"]));
            format!("{kind} {reason} x{}", event["count"])
        })
        .collect();
    told.sort();
    assert_eq!(
        told,
        [
            "ClusterResourcePlacement PlacementApplied x1",
            "ClusterResourcePlacement PlacementAvailable x1",
            "ClusterResourcePlacement PlacementOverriddenSucceeded x1",
            "ClusterResourcePlacement PlacementRolloutCompleted x1",
            "ClusterResourcePlacement PlacementRolloutStarted x1",
            "ClusterResourcePlacement PlacementWorkSynchronized x1",
            "ClusterStagedUpdateRun StageUpdatingStarted x1",
            "ClusterStagedUpdateRun StageUpdatingSucceeded x1",
            "ClusterStagedUpdateRun StageUpdatingSucceeded x1",
            "ClusterStagedUpdateRun UpdateRunInitializedSuccessfully x1",
            "ClusterStagedUpdateRun UpdateRunSucceeded x1",
        ]
    );
}
