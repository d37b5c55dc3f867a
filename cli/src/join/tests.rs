use super::*;
use crate::{
    problem,
    testing::{Fake, shown::assert_golden},
};

#[tokio::test]
async fn a_dry_run_says_what_would_be_written_and_prints_the_values() {
    let fake = Fake::new();
    let client = fake.server.client();
    let hub = clusters::KnownCluster {
        watches: client.clone(),
        client,
        server: "https://hub.example:6443".to_owned(),
        ca: Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned()),
        namespace: "default".to_owned(),
    };
    let mut text = String::new();
    for (name, namespace) in [("west", FLEET_SYSTEM_NAMESPACE), ("east", "fleet-agents")] {
        let name = cluster(name).expect("a name");
        let foreseen = foreseen(&hub.client, &name, namespace, false, &fake.say()).await;
        foreseen.expect("it can be told");
        let values = values(&hub, None, &name, namespace.to_owned());
        text += &rendered(&values, &How::Yaml).expect("yaml");
    }
    assert_golden("join-dry-run.txt", &(fake.said().join("\n") + "\n" + &text));
    assert!(fake.server.writes().is_empty());
    let odd = cluster("no/name").expect_err("a slash");
    assert_eq!(problem::exit_of(&odd), Exit::Usage);
}

#[test]
fn urls_that_lead_back_are_noticed() {
    for url in ["https://127.0.0.1:6443", "https://localhost", "https://[::1]:6443/api"] {
        assert!(is_loopback(url), "{url}");
    }
    for url in ["https://10.0.0.1:6443", "https://hub.example.com", "nonsense url"] {
        assert!(!is_loopback(url), "{url}");
    }
}
