//! What the API server is told about the webhooks, and who else writes it.

use std::sync::Arc;

use super::{
    super::{
        configuration::{MUTATING, VALIDATING},
        register::{Owner, Registration, Stores, follow},
    },
    *,
};
use crate::certificates::Tls;

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

/// What a replica serves and says, as its certificate and the registration change.
struct Replica {
    api: Server,
    stores: Stores,
    tls: watch::Sender<Option<Tls>>,
    ca: watch::Sender<Option<String>>,
    served: watch::Receiver<Option<Tls>>,
    health: Health,
    tasks: Tasks,
}

impl Replica {
    fn start(injected: bool) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (api, health, stores) = (Server::new(), Health::default(), Stores::new());
        let mut tasks = Tasks::new(CancellationToken::new());
        tasks.spawn_endless("watches", stores.clone().watch(api.client(), Era::default()));
        let ((tls, new), (ca, authority)) = (watch::channel(None), watch::channel(None));
        let (passed_on, served) = watch::channel(None);
        let check = health.check("webhook-server");
        let following = follow(stores.clone(), (new, authority), injected, passed_on, check);
        tasks.spawn_endless("readiness", following);
        Self {
            api,
            stores,
            tls,
            ca,
            served,
            health,
            tasks,
        }
    }

    /// There is a new certificate, of this CA.
    fn provide(&self, ca: &str) -> Tls {
        let hosts = ["127.0.0.1".to_owned()];
        let data = issue::make(&CERTIFICATE, &BTreeMap::new(), &hosts, Clock::system().now()).unwrap();
        let tls = issue::Serving::from_data(&CERTIFICATE, &data)
            .unwrap()
            .tls(None)
            .unwrap();
        self.ca.send_replace(Some(ca.to_owned()));
        self.tls.send_replace(Some(tls.clone()));
        tls
    }

    /// The API server is told to trust this.
    fn trust(&self, pem: &str) {
        let configuration = Configuration {
            at: At::Address("127.0.0.1:1".into()),
            trust: Trust::Bundle(pem.to_owned()),
            owner: owner(&ClusterRole::default()),
            networking: false,
        };
        self.api.put(&object("mutating", MUTATING), configuration.mutating());
        self.api
            .put(&object("validating", VALIDATING), configuration.validating());
    }

    async fn is_ready(&self) -> Result<(), String> {
        tokio::time::sleep(Duration::from_secs(5)).await;
        self.health.get("webhook-server").unwrap()
    }

    fn serves(&self, tls: &Tls) -> bool {
        let served = self.served.borrow();
        served
            .as_ref()
            .is_some_and(|served| Arc::ptr_eq(&served.config, &tls.config))
    }
}

fn object(kind: &str, name: &str) -> String {
    format!("{ADMISSION}/{kind}webhookconfigurations/{name}")
}

#[tokio::test(start_paused = true)]
async fn a_replica_is_ready_once_it_is_trusted_and_serves_what_is_new_no_sooner() {
    let replica = Replica::start(false);
    let says = |text: &str| Err(text.to_owned());
    assert_eq!(replica.is_ready().await, says("there is no serving certificate yet"));
    // The first is served at once: nothing better can be.
    let first = replica.provide("first");
    let untrusted = says("the webhook configurations do not trust the serving certificate yet");
    assert_eq!(replica.is_ready().await, untrusted);
    assert!(replica.serves(&first));
    replica.trust("another");
    assert_eq!(replica.is_ready().await, untrusted);
    replica.trust("first");
    assert_eq!(replica.is_ready().await, Ok(()));

    let second = replica.provide("second");
    assert_eq!(replica.is_ready().await, Ok(()));
    assert!(replica.serves(&first), "nobody trusts the second");
    replica.trust("second first");
    assert_eq!(replica.is_ready().await, Ok(()));
    assert!(replica.serves(&second));

    replica.api.delete(&object("mutating", MUTATING));
    assert_eq!(
        replica.is_ready().await,
        Ok(()),
        "it is written again, and is served meanwhile"
    );
}

#[tokio::test(start_paused = true)]
async fn with_cert_manager_somebody_else_says_whom_to_trust() {
    let mut replica = Replica::start(true);
    replica.api.put(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/hub-agent-role",
        json!({}),
    );
    let registration = Registration {
        client: replica.api.client(),
        stores: replica.stores.clone(),
        at: At::Address("127.0.0.1:1".into()),
        owner: Owner::ClusterRole("hub-agent-role".into()),
        networking: false,
        injected_from: Some("fleet-system/fleet-webhook-certificate".into()),
    };
    let (leading, follower) = watch::channel(true);
    replica
        .tasks
        .spawn_endless("registration", registration.run(replica.ca.subscribe(), follower));
    let own = replica.provide("from the files");
    assert!(replica.is_ready().await.is_err(), "nobody has said whom to trust");
    assert!(replica.serves(&own));
    // This server's apply is a merge, which would take away what others have filled in.
    leading.send_replace(false);
    for (kind, name) in [("mutating", MUTATING), ("validating", VALIDATING)] {
        let path = object(kind, name);
        let there = replica.api.get(&path).unwrap();
        let from = &there["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
        assert_eq!(from, "fleet-system/fleet-webhook-certificate");
        for hook in there["webhooks"].as_array().unwrap() {
            assert!(hook["clientConfig"]["caBundle"].is_null(), "{hook}");
        }
        replica.api.edit(&path, |there| {
            for hook in there["webhooks"].as_array_mut().unwrap() {
                hook["clientConfig"]["caBundle"] = json!(BASE64_STANDARD.encode("injected"));
            }
        });
    }
    assert_eq!(replica.is_ready().await, Ok(()));
}
