//! Scripted members over real TLS on loopback, against a hub whose API server is in memory.

mod api;
mod budgets;
mod certificates;
mod faults;
mod heartbeats;
mod opening;
mod strangers;
mod works;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use fleet_api::{cluster::AgentType, conditions::Status, names::field_managers};
use fleet_core::session::{Outcome, WorkRef, cluster::AgentReport, condition::ReportedCondition};
use fleet_proto::{
    convert::{Ack, FromMember, Hello, HubMessage, MemberMessage, RejectCode},
    pb,
    pb::fleet_channel_client::FleetChannelClient,
};
use fleet_runtime::{clock::Clock, events::Recorder, metrics::Metrics, writes::Writes};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{
    Request, Streaming,
    transport::{Channel, Endpoint},
};

use self::api::{FakeApi, Stores, imc_path, mc_path, work_path};
use crate::{
    certificates::{CHANNEL, issue as certificate},
    channel::{ChannelSettings, Deps, serve},
    reports::SessionReports,
    writer::Writer,
};

const PATIENCE: Duration = Duration::from_secs(30);

/// A hub agent's channel.
struct Hub {
    api: FakeApi,
    stores: Arc<Stores>,
    address: SocketAddr,
    ca: String,
    ca_key: String,
    serving: certificate::Serving,
    tls: watch::Sender<Option<certificate::Tls>>,
    metrics: Metrics,
    leading: watch::Sender<bool>,
    stop: CancellationToken,
    served: tokio::task::JoinHandle<()>,
}

impl Hub {
    /// The Events, once there are so many.
    async fn events(&self, at_least: usize) -> Vec<String> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let events = self.api.events();
            if events.len() >= at_least {
                return events;
            }
            assert!(tokio::time::Instant::now() < deadline, "{events:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn start() -> Self {
        Self::with(ChannelSettings::default()).await
    }

    async fn with(settings: ChannelSettings) -> Self {
        Self::replica(FakeApi::default(), Stores::new(), settings).await
    }

    /// Another replica on the same API server.
    async fn replica(api: FakeApi, stores: Arc<Stores>, settings: ChannelSettings) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let data = certificate::make(
            &CHANNEL,
            &BTreeMap::new(),
            &["127.0.0.1".to_owned()],
            Clock::system().now(),
        )
        .unwrap();
        let serving = certificate::Serving::from_data(&CHANNEL, &data).unwrap();
        let (current, tls) = watch::channel(Some(serving.tls(Some(&serving.ca)).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (metrics, client, clock) = (Metrics::new(), api.client(&stores), Clock::system());
        let writes = Writes::new("hub", &metrics);
        let (events, sender) = Recorder::new(client.clone(), writes.clone(), clock.clone(), "hub-agent-0", &metrics);
        tokio::spawn(sender.run());
        let (leading, leads) = watch::channel(true);
        let stop = CancellationToken::new();
        let deps = Deps {
            clock,
            members: stores.members.clone(),
            members_by_identity: stores.members_by_identity.clone(),
            internals: stores.internals.clone(),
            namespaces: stores.namespaces.clone(),
            works: stores.works.store.clone(),
            works_in: stores.works.by_namespace.clone(),
            writer: Writer::new(client.clone(), writes, field_managers::HUB_AGENT),
            client,
            events,
            metrics: metrics.clone(),
            leading: leads,
            settings,
        };
        let address = listener.local_addr().unwrap();
        let stopped = stop.clone();
        let served = tokio::spawn(async move { serve::<SessionReports>(deps, listener, tls, stopped).await.unwrap() });
        Self {
            api,
            stores,
            address,
            ca: serving.ca.clone(),
            serving,
            tls: current,
            ca_key: String::from_utf8(data["ca.key"].0.clone()).unwrap(),
            metrics,
            leading,
            stop,
            served,
        }
    }

    /// A member that may connect with the token `token-<name>`.
    fn member(&self, name: &str) {
        self.api.allow(&format!("token-{name}"), &format!("user-{name}"));
        self.api.put(
            &format!("/api/v1/namespaces/fleet-member-{name}"),
            json!({ "apiVersion": "v1", "kind": "Namespace",
                "metadata": { "name": format!("fleet-member-{name}"), "uid": format!("ns-{name}") } }),
        );
        self.api.put(
            &mc_path(name),
            json!({ "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
                "metadata": { "name": name, "uid": format!("mc-{name}"), "generation": 1 },
                "spec": { "identity": { "kind": "User", "name": format!("user-{name}") }, "heartbeatPeriodSeconds": 1 } }),
        );
        self.api.put(
            &imc_path(name),
            json!({ "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "InternalMemberCluster",
                "metadata": { "name": name, "namespace": format!("fleet-member-{name}"), "uid": format!("imc-{name}"),
                    "generation": 1 },
                "spec": { "state": "Join", "heartbeatPeriodSeconds": 1 } }),
        );
    }

    /// A Work with one ConfigMap.
    fn work(&self, member: &str, name: &str, finalizers: &[&str]) {
        self.api.put(
            &work_path(member, name),
            json!({ "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work",
                "metadata": { "name": name, "namespace": format!("fleet-member-{member}"), "uid": format!("uid-{name}"),
                    "generation": 1, "finalizers": finalizers },
                "spec": { "workload": { "manifests": [
                    { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c", "namespace": "n" } } ] } } }),
        );
    }

    async fn connect(&self, name: &str) -> Member {
        let mut member = self.dial(Some(&format!("token-{name}"))).await;
        member.hello(hello(name)).await;
        member.accepted().await;
        member
    }

    /// A stream on which nothing has been said.
    async fn dial(&self, token: Option<&str>) -> Member {
        self.dial_with(token, None).await
    }

    /// The same with a client certificate for this user, which the hub's client CA has signed.
    async fn dial_as(&self, user: &str) -> Member {
        let certificate = client_certificate(user, &self.ca, &self.ca_key);
        self.dial_with(None, Some(certificate)).await
    }

    async fn dial_with(&self, token: Option<&str>, certificate: Option<Certificate>) -> Member {
        self.try_dial(token, certificate).await.unwrap()
    }

    async fn try_dial(
        &self,
        token: Option<&str>,
        certificate: Option<Certificate>,
    ) -> Result<Member, Box<dyn std::error::Error>> {
        let channel = self.channel(certificate).await?;
        let (send, messages) = mpsc::channel(4096);
        let request = with_token(Request::new(ReceiverStream::new(messages)), token);
        let mut client = FleetChannelClient::new(channel).max_encoding_message_size(64 << 20);
        let receive = client.session(request).await?.into_inner();
        Ok(Member {
            send,
            receive,
            seq: 0,
            epoch: 0,
        })
    }

    /// A connection.
    async fn channel(&self, certificate: Option<Certificate>) -> Result<Channel, Box<dyn std::error::Error>> {
        let mut roots = RootCertStore::empty();
        let ca = rustls::pki_types::pem::PemObject::from_pem_slice(self.ca.as_bytes()).unwrap();
        roots.add(ca).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match certificate {
            Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let (connector, address) = (tokio_rustls::TlsConnector::from(Arc::new(config)), self.address);
        let connect = tower::service_fn(move |_: http::Uri| {
            let connector = connector.clone();
            async move {
                let tcp = TcpStream::connect(address).await?;
                let name = ServerName::try_from("127.0.0.1").unwrap();
                connector.connect(name, tcp).await.map(TokioIo::new)
            }
        });
        // A small window, so that a member which reads nothing is felt.
        let endpoint = Endpoint::from_static("http://hub").initial_stream_window_size(16 * 1024);
        Ok(endpoint.connect_with_connector(connect).await?)
    }

    /// Waits until what is stored is as it should be.
    async fn eventually(&self, what: &str, path: &str, check: impl Fn(&Value) -> bool) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !check(&self.api.get(path)) {
            assert!(
                tokio::time::Instant::now() < deadline,
                "{what}: {:#}",
                self.api.get(path)
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn metric(&self, line: &str) -> bool {
        self.metrics.encode().lines().any(|l| l == line)
    }
}

fn with_token<T>(mut request: Request<T>, token: Option<&str>) -> Request<T> {
    if let Some(token) = token {
        let value = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", value);
    }
    request
}

type Certificate = (
    rustls::pki_types::CertificateDer<'static>,
    rustls::pki_types::PrivateKeyDer<'static>,
);

/// A client certificate for this user, signed by this CA.
fn client_certificate(user: &str, ca: &str, ca_key: &str) -> Certificate {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, user);
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let issuer = rcgen::Issuer::from_ca_cert_pem(ca, rcgen::KeyPair::from_pem(ca_key).unwrap()).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().der().clone();
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    (certificate, key)
}

/// A scripted member.
struct Member {
    send: mpsc::Sender<pb::MemberMessage>,
    receive: Streaming<pb::HubMessage>,
    seq: u64,
    epoch: u64,
}

impl Member {
    async fn raw(&self, message: pb::MemberMessage) {
        // The hub may have ended the stream already; what it said can still be read.
        let _ = self.send.send(message).await;
    }

    async fn hello(&mut self, hello: Hello) {
        self.say(MemberMessage::Hello(hello)).await;
    }

    async fn say(&mut self, body: MemberMessage) -> u64 {
        self.seq += 1;
        let (seq, epoch) = (self.seq, self.epoch);
        self.raw(FromMember { seq, epoch, body }.into()).await;
        seq
    }

    async fn next(&mut self) -> Option<HubMessage> {
        let message = tokio::time::timeout(PATIENCE, self.receive.message())
            .await
            .expect("an answer in time");
        message.unwrap().map(|message| HubMessage::try_from(message).unwrap())
    }

    async fn accepted(&mut self) -> fleet_proto::convert::Accept {
        match self.next().await {
            Some(HubMessage::Accept(accept)) => {
                self.epoch = accept.session;
                accept
            }
            other => panic!("not accepted: {other:?}"),
        }
    }

    async fn ack(&mut self) -> Ack {
        match self.next().await {
            Some(HubMessage::Ack(ack)) => ack,
            other => panic!("no answer: {other:?}"),
        }
    }

    /// Says something and waits for its answer.
    async fn ask(&mut self, body: MemberMessage) -> Outcome {
        let seq = self.say(body).await;
        let ack = self.ack().await;
        assert_eq!(ack.seq, seq, "{ack:?}");
        ack.outcome
    }

    /// The end of the stream, and why.
    async fn rejected(&mut self) -> (RejectCode, String) {
        loop {
            match self.next().await {
                Some(HubMessage::Reject(reject)) => {
                    assert_eq!(self.next().await, None, "the stream ends");
                    return (reject.code, reject.message);
                }
                Some(HubMessage::Ack(_)) => {}
                other => panic!("not rejected: {other:?}"),
            }
        }
    }
}

fn hello(name: &str) -> Hello {
    Hello {
        member_cluster: name.to_owned(),
        agent_type: AgentType::MemberAgent,
        protocol_version: 1,
        build_version: "test".to_owned(),
        instance_id: "i".to_owned(),
        lease_transitions: 1,
        cluster_uid: format!("cluster-{name}"),
        platform_labels: BTreeMap::new(),
        works: vec![],
        orphaned_applied_works: vec![],
    }
}

fn condition(type_: &str, status: Status) -> ReportedCondition {
    ReportedCondition {
        type_: type_.to_owned(),
        status,
        reason: "Reason".to_owned(),
        message: String::new(),
        observed_generation: 0,
    }
}

fn joined(name: &str) -> MemberMessage {
    MemberMessage::AgentStatus(AgentReport {
        imc_uid: format!("imc-{name}"),
        imc_generation: 1,
        conditions: vec![condition("Joined", Status::True), condition("Healthy", Status::True)],
    })
}

fn work_ref(name: &str) -> WorkRef {
    WorkRef {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
    }
}
