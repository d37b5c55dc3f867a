//! A member that says exactly what a test wants, over the real channel: TLS with the CA that the hub announces, and a
//! token that the hub's API server issued. It needs no cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use fleet_api::cluster::AgentType;
use fleet_api::conditions::Status;
use fleet_core::session::Outcome;
use fleet_core::session::cluster::AgentReport;
use fleet_core::session::condition::ReportedCondition;
use fleet_proto::convert::{Accept, Ack, FromMember, Hello, HubMessage, MemberMessage, RejectCode};
use fleet_proto::pb;
use fleet_proto::pb::fleet_channel_client::FleetChannelClient;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Request, Streaming};

/// How long the hub may take to answer. It writes to a real API server on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// One stream.
#[derive(Debug)]
pub struct ScriptedMember {
    send: mpsc::Sender<pb::MemberMessage>,
    receive: Streaming<pb::HubMessage>,
    seq: u64,
    /// Goes into every message; the session, once accepted.
    pub epoch: u64,
    /// The InternalMemberCluster as the hub knows it, once accepted.
    pub imc_uid: String,
    /// Its generation.
    pub imc_generation: i64,
}

/// Where the channel is, and how its server proves itself.
#[derive(Debug, Clone)]
pub struct Address {
    /// `host:port`.
    pub endpoint: String,
    /// PEM.
    pub ca: String,
}

impl ScriptedMember {
    /// Opens a stream on which nothing has been said.
    pub async fn dial(address: &Address, token: Option<&str>) -> Result<Self> {
        Self::dial_with(address, token, None).await
    }

    /// The same with a client certificate and its key, PEM.
    pub async fn dial_with(address: &Address, token: Option<&str>, certificate: Option<(&str, &str)>) -> Result<Self> {
        crate::install_crypto_provider();
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(address.ca.as_bytes()) {
            roots.add(certificate?)?;
        }
        let config = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match certificate {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
                config.with_client_auth_cert(chain?, PrivateKeyDer::from_pem_slice(key.as_bytes())?)?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let (connector, endpoint) = (
            tokio_rustls::TlsConnector::from(Arc::new(config)),
            address.endpoint.clone(),
        );
        let connect = tower::service_fn(move |_: http::Uri| {
            let (connector, endpoint) = (connector.clone(), endpoint.clone());
            async move {
                let host = endpoint.rsplit_once(':').map_or(endpoint.as_str(), |(host, _)| host);
                let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
                let tcp = TcpStream::connect(&endpoint).await?;
                connector.connect(name, tcp).await.map(TokioIo::new)
            }
        });
        let channel = Endpoint::from_static("http://hub")
            .connect_with_connector(connect)
            .await?;
        let (send, messages) = mpsc::channel(4096);
        let mut request = Request::new(ReceiverStream::new(messages));
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse()?;
            request.metadata_mut().insert("authorization", value);
        }
        let mut client = FleetChannelClient::new(channel).max_encoding_message_size(64 << 20);
        let receive = client.session(request).await?.into_inner();
        Ok(Self {
            send,
            receive,
            seq: 0,
            epoch: 0,
            imc_uid: String::new(),
            imc_generation: 0,
        })
    }

    /// Hands a message to the network, and waits until there is room for it.
    pub async fn push(&mut self, message: pb::MemberMessage) {
        self.raw(message).await;
        // Whatever was handed over before has gone out when the queue is empty.
        while self.send.capacity() < self.send.max_capacity() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Sends anything at all. The hub may have ended the stream already; what it said can still be read.
    pub async fn raw(&self, message: pb::MemberMessage) {
        let _ = self.send.send(message).await;
    }

    /// Says something; gives its number.
    pub async fn say(&mut self, body: MemberMessage) -> u64 {
        self.seq += 1;
        let (seq, epoch) = (self.seq, self.epoch);
        self.raw(FromMember { seq, epoch, body }.into()).await;
        seq
    }

    /// The next message; none at the end of the stream.
    pub async fn next(&mut self) -> Result<Option<HubMessage>> {
        let message = timeout(PATIENCE, self.receive.message())
            .await
            .context("the hub does not answer")??;
        Ok(message.map(HubMessage::try_from).transpose()?)
    }

    /// Says Hello and expects to be let in.
    pub async fn open(&mut self, hello: Hello) -> Result<Accept> {
        self.say(MemberMessage::Hello(hello)).await;
        match self.next().await? {
            Some(HubMessage::Accept(accept)) => {
                self.epoch = accept.session;
                self.imc_uid.clone_from(&accept.imc_uid);
                self.imc_generation = accept.imc_generation;
                Ok(accept)
            }
            other => bail!("not accepted: {other:?}"),
        }
    }

    /// Says Hello and expects to be refused.
    pub async fn open_refused(&mut self, hello: Hello) -> Result<(RejectCode, String)> {
        self.say(MemberMessage::Hello(hello)).await;
        self.refused().await
    }

    /// Says something and waits for its answer.
    pub async fn ask(&mut self, body: MemberMessage) -> Result<Outcome> {
        let seq = self.say(body).await;
        Ok(self.answer(seq).await?.outcome)
    }

    /// The answer to a message.
    pub async fn answer(&mut self, seq: u64) -> Result<Ack> {
        loop {
            match self.next().await? {
                Some(HubMessage::Ack(ack)) if ack.seq == seq => return Ok(ack),
                Some(HubMessage::Ack(_)) => {}
                other => bail!("no answer to message {seq}: {other:?}"),
            }
        }
    }

    /// The end of the stream, and why.
    pub async fn refused(&mut self) -> Result<(RejectCode, String)> {
        loop {
            match self.next().await? {
                Some(HubMessage::Reject(reject)) => {
                    let more = self.next().await?;
                    ensure!(more.is_none(), "the stream goes on: {more:?}");
                    return Ok((reject.code, reject.message));
                }
                Some(HubMessage::Accept(_)) | None => bail!("not refused"),
                Some(_) => {}
            }
        }
    }

    /// Alive.
    pub async fn beat(&mut self) -> u64 {
        self.say(MemberMessage::Heartbeat).await
    }

    /// Says Joined and Healthy, and waits until both are stored.
    pub async fn report_joined(&mut self) -> Result<()> {
        self.beat().await;
        let report = self.agent_status(vec![
            condition("Joined", Status::True, "InternalMemberClusterJoined"),
            condition("Healthy", Status::True, "InternalMemberClusterHealthy"),
        ]);
        let outcome = self.ask(report).await?;
        ensure!(
            matches!(outcome, Outcome::Persisted | Outcome::Unchanged),
            "not stored: {outcome:?}"
        );
        Ok(())
    }

    /// A report of these conditions for the InternalMemberCluster of this session.
    pub fn agent_status(&self, conditions: Vec<ReportedCondition>) -> MemberMessage {
        MemberMessage::AgentStatus(AgentReport {
            imc_uid: self.imc_uid.clone(),
            imc_generation: self.imc_generation,
            conditions,
        })
    }
}

/// The Hello of a first agent of a cluster.
pub fn hello(member: &str) -> Hello {
    Hello {
        member_cluster: member.to_owned(),
        agent_type: AgentType::MemberAgent,
        protocol_version: 1,
        build_version: "scripted".to_owned(),
        instance_id: "scripted".to_owned(),
        lease_transitions: 1,
        cluster_uid: format!("cluster-{member}"),
        platform_labels: BTreeMap::new(),
        works: vec![],
        orphaned_applied_works: vec![],
    }
}

/// A condition as a member reports it.
pub fn condition(type_: &str, status: Status, reason: &str) -> ReportedCondition {
    ReportedCondition {
        type_: type_.to_owned(),
        status,
        reason: reason.to_owned(),
        message: String::new(),
        observed_generation: 0,
    }
}
