use serde_json::json;

use super::*;
use crate::testing::{CLUSTERS, Fake};

#[tokio::test]
async fn every_cordon_goes_others_taints_stay_and_without_one_nothing_is_written() {
    let (own, other) = (
        json!({ "key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule" }),
        json!({ "key": "gpu", "effect": "NoSchedule" }),
    );
    let rows = [
        (json!(null), json!(null), 0),
        (json!([other]), json!([other]), 0),
        (json!([own, other, own]), json!([other]), 1),
    ];
    for (before, after, writes) in rows {
        let hub = Fake::new();
        let east = format!("{CLUSTERS}/east");
        hub.server
            .edit(&east, |cluster| cluster["spec"]["taints"] = before.clone());
        let client = Hub::new(hub.server.client());
        uncordon(&client, "east", Duration::from_secs(5), &hub.say())
            .await
            .expect("it is uncordoned");
        assert_eq!(
            hub.server.get(&east).expect("it is there")["spec"]["taints"],
            after,
            "{before}"
        );
        assert_eq!(hub.server.writes().len(), writes, "{before}");
        assert_eq!(hub.said(), ["uncordoned member cluster east"]);
    }
}

#[tokio::test]
async fn a_cluster_that_is_not_there_is_an_error() {
    let hub = Fake::new();
    let client = Hub::new(hub.server.client());
    let error = uncordon(&client, "west", Duration::from_secs(5), &hub.say()).await;
    let error = error.expect_err("there is none");
    assert_eq!(format!("{error:#}"), "failed to uncordon cluster west: no such object");
}
