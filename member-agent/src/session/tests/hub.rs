//! A hub that does what a test says: tonic over real TLS on loopback.

use std::{net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use fleet_core::session::Outcome;
use fleet_proto::{
    convert::{Accept, Ack, FromMember, Hello, HubMessage, MemberMessage, Reject, RejectCode, SessionLimits},
    pb::{
        self,
        fleet_channel_server::{FleetChannel, FleetChannelServer},
    },
};
use futures::Stream;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, metadata::MetadataMap, transport::Server};

/// Long enough for a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// A CA, and a server certificate for localhost that it signed.
pub(super) struct Certificates {
    pub(super) ca_pem: String,
    config: Arc<ServerConfig>,
}

impl Certificates {
    pub(super) fn new() -> Self {
        fleet_runtime::tls::install();
        let mut ca = CertificateParams::new(vec![]).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.distinguished_name.push(DnType::CommonName, "test CA");
        let ca_key = KeyPair::generate().unwrap();
        let ca_cert = ca.self_signed(&ca_key).unwrap();
        let issuer = Issuer::new(ca, ca_key);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self {
            ca_pem: ca_cert.pem(),
            config: Arc::new(config),
        }
    }
}

/// One stream of a member.
pub(super) struct Peer {
    pub(super) metadata: MetadataMap,
    pub(super) receive: Streaming<pb::MemberMessage>,
    pub(super) send: mpsc::Sender<Result<pb::HubMessage, Status>>,
}

impl Peer {
    /// The next message.
    pub(super) async fn next(&mut self) -> FromMember {
        let message = timeout(PATIENCE, self.receive.message())
            .await
            .expect("a message in time");
        let message = message.expect("a stream without error").expect("a stream that goes on");
        FromMember::try_from(message).expect("a valid message")
    }

    /// The next message that is not a heartbeat.
    pub(super) async fn report(&mut self) -> FromMember {
        loop {
            let message = self.next().await;
            if !matches!(message.body, MemberMessage::Heartbeat) {
                return message;
            }
        }
    }

    pub(super) async fn hello(&mut self) -> Hello {
        match self.next().await.body {
            MemberMessage::Hello(hello) => hello,
            other => panic!("first came {other:?}"),
        }
    }

    pub(super) async fn say(&self, message: HubMessage) {
        self.send.send(Ok(message.into())).await.unwrap();
    }

    pub(super) async fn accept(&mut self, session: u64) -> Hello {
        let hello = self.hello().await;
        self.say(HubMessage::Accept(Accept {
            session,
            protocol_version: 1,
            hub_time: None,
            imc_uid: "u".into(),
            imc_generation: 1,
            limits: SessionLimits::default(),
            resend_works: vec![],
            build_version: "test".into(),
        }))
        .await;
        hello
    }

    pub(super) async fn ack(&self, message: &FromMember, outcome: Outcome) {
        self.say(HubMessage::Ack(Ack {
            seq: message.seq,
            work: None,
            outcome,
            reason: String::new(),
        }))
        .await;
    }

    pub(super) async fn reject(&self, code: RejectCode) {
        self.say(HubMessage::Reject(Reject {
            code,
            message: "because".into(),
            retry_after_ms: 0,
        }))
        .await;
    }
}

struct Service(mpsc::Sender<Peer>);

#[tonic::async_trait]
impl FleetChannel for Service {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<pb::HubMessage, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<pb::MemberMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (send, messages) = mpsc::channel(16);
        let metadata = request.metadata().clone();
        let receive = request.into_inner();
        let peer = Peer {
            metadata,
            receive,
            send,
        };
        self.0.send(peer).await.map_err(|_| Status::unavailable("over"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
    }
}

/// A hub that listens.
pub(super) struct Hub {
    pub(super) address: SocketAddr,
    peers: mpsc::Receiver<Peer>,
}

impl Hub {
    pub(super) async fn listen(certificates: &Certificates) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (send, peers) = mpsc::channel(4);
        let (handshakes, connections) = mpsc::channel::<std::io::Result<TlsStream<TcpStream>>>(4);
        let acceptor = TlsAcceptor::from(certificates.config.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                if let Ok(stream) = acceptor.accept(stream).await {
                    let _ = handshakes.send(Ok(stream)).await;
                }
            }
        });
        tokio::spawn(
            Server::builder()
                .add_service(FleetChannelServer::new(Service(send)))
                .serve_with_incoming(ReceiverStream::new(connections)),
        );
        Self { address, peers }
    }

    /// The next member that opens a stream.
    pub(super) async fn peer(&mut self) -> Peer {
        timeout(PATIENCE, self.peers.recv())
            .await
            .expect("a member in time")
            .unwrap()
    }

    /// Whether no member opens a stream for so long.
    pub(super) async fn is_alone(&mut self, time: Duration) -> bool {
        timeout(time, self.peers.recv()).await.is_err()
    }
}

/// A proxy that can stop forwarding without closing anything. While it is stopped it takes no new connections.
pub(super) async fn proxy(to: SocketAddr, frozen: tokio::sync::watch::Receiver<bool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut inward, _) = listener.accept().await.unwrap();
            if *frozen.borrow() {
                continue;
            }
            let mut outward = TcpStream::connect(to).await.unwrap();
            let mut frozen = frozen.clone();
            tokio::spawn(async move {
                let stopped = async { frozen.wait_for(|frozen| *frozen).await.map(|_| ()) };
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut inward, &mut outward) => return,
                    _ = stopped => {}
                }
                // Both stay open, and nothing passes any more.
                std::future::pending::<()>().await;
            });
        }
    });
    address
}

/// A proxy through which every byte takes this long, in each direction.
pub(super) async fn slow_line(to: SocketAddr, delay: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (inward, _) = listener.accept().await.unwrap();
            let outward = TcpStream::connect(to).await.unwrap();
            let ((in_read, in_write), (out_read, out_write)) = (inward.into_split(), outward.into_split());
            tokio::spawn(carry(in_read, out_write, delay));
            tokio::spawn(carry(out_read, in_write, delay));
        }
    });
    address
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
    let (send, mut on_the_way) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let reading = async move {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            let _ = send.send((Instant::now() + delay, buffer[..read].to_vec()));
        }
    };
    let writing = async move {
        while let Some((at, bytes)) = on_the_way.recv().await {
            tokio::time::sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(reading, writing);
}
