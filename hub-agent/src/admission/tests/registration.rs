//! What the API server is told about the webhooks, and who else writes it.

use super::{
    super::register::{Owner, Registration, Stores},
    *,
};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

#[tokio::test(start_paused = true)]
async fn whoever_changes_the_registration_is_answered_once_a_second() {
    let api = Server::new();
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/hub-agent-role";
    let uid = api.put(role, json!({}))["metadata"]["uid"].clone();
    let mut tasks = Tasks::new(CancellationToken::new());
    let stores = Stores::new();
    tasks.spawn_endless("watches", stores.clone().watch(api.client(), Era::default()));
    let registration = Registration {
        client: api.client(),
        stores,
        at: At::Address("127.0.0.1:1".into()),
        owner: Owner::ClusterRole("hub-agent-role".into()),
        networking: false,
        injected_from: None,
    };
    let (_ca, ca) = watch::channel(Some("pem".to_owned()));
    let (_leading, leading) = watch::channel(true);
    tasks.spawn_endless("registration", registration.run(ca, leading));
    let path = format!("{ADMISSION}/validatingwebhookconfigurations/fleet-validating-webhook-configuration");
    let policy = || {
        api.get(&path)
            .map(|there| there["webhooks"][0]["failurePolicy"].clone())
    };
    while policy().is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let other = format!("{ADMISSION}/mutatingwebhookconfigurations/fleet-mutating-webhook-configuration");
    for path in [&path, &other] {
        assert_eq!(api.get(path).unwrap()["metadata"]["ownerReferences"][0]["uid"], uid);
    }
    api.forget_writes();
    for _ in 0..1000 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        api.edit(&path, |there| there["webhooks"][0]["failurePolicy"] = json!("Ignore"));
    }
    let writes = api.writes().len();
    assert!((10..=30).contains(&writes), "{writes}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(policy(), Some(json!("Fail")));
}
