use fleet_testkit::{Fault, Server};

use super::*;
use crate::{
    output::Format,
    testing::{
        PLACEMENT_API,
        shown::{assert_fits, assert_golden, binding, drifted, entry, hub, narrow, now, piped, place, placement},
    },
};

async fn of(line: &str) -> Differences {
    let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
    read(&place(&hub()), &words, now()).await.expect(line)
}

#[tokio::test]
async fn fields_are_shown_with_both_values_and_since_when() {
    let differences = of("rp/api").await;
    assert_golden("diff.txt", &piped(&differences));
    assert_eq!(differences.exit(), Exit::Left);
    assert_fits(
        &output::rendered(&differences, Format::Table, &narrow()).expect("it can be printed"),
        40,
    );
    assert_eq!(of("api east").await.objects.len(), 1);
}

/// The status of a placement on many clusters has no room for what differs.
#[tokio::test]
async fn one_drift_on_a_thousand_clusters_is_found() {
    let server = Server::new();
    let clusters: Vec<_> = (0..1000).map(|number| format!("member-{number}")).collect();
    let entries: Vec<_> = clusters.iter().map(|cluster| entry(cluster, None)).collect();
    server.put(
        &format!("{PLACEMENT_API}/clusterresourceplacements/web"),
        placement("web", "ClusterResourcePlacement", None, &entries),
    );
    for cluster in &clusters {
        let mut bound = binding("web", cluster, None);
        if cluster == "member-471" {
            bound["status"]["driftedPlacements"] = drifted();
        }
        server.put(&format!("{PLACEMENT_API}/clusterresourcebindings/web-{cluster}"), bound);
    }
    let place = place(&server);
    let differences = read(&place, &["crp/web".to_owned()], now()).await.expect("it is there");
    assert_eq!(differences.exit(), Exit::Left);
    let [row] = differences.objects.as_slice() else {
        panic!("one differs: {differences:?}")
    };
    assert_eq!((row.cluster.as_str(), row.fields.len()), ("member-471", 1));
    let reader = Reader::new(&place.hub);
    let detail = status::must(&reader, &Key::new("", "web"), now())
        .await
        .expect("it is there");
    let text = piped(&detail);
    assert!(text.contains("member-471") && text.contains("has drifted"), "{text}");
    assert_eq!(detail.placement.drifted, 1);
    // Who may not read bindings is told so.
    server.fail(Fault::new("/clusterresourcebindings", 403));
    let blind = read(&place, &["crp/web".to_owned()], now()).await.expect("it is there");
    assert!(
        piped(&blind).contains("hidden: clusterresourcebindings"),
        "{}",
        piped(&blind)
    );
    assert_eq!(
        blind.exit(),
        Exit::Left,
        "what nobody could look at is not known to be well"
    );
}

#[tokio::test]
async fn where_nothing_differs_nothing_is_to_be_done() {
    for line in ["crp/web", "rp/api west"] {
        let differences = of(line).await;
        assert_eq!(differences.exit(), Exit::Done, "{line}");
        assert!(piped(&differences).starts_with("no difference is known of "), "{line}");
    }
}
