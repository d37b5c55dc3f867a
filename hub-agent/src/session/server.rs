//! The gRPC server: accepts streams and hands each to a task of its own.

use std::{sync::Arc, time::Duration};

use fleet_proto::{
    limits, pb,
    pb::fleet_channel_server::{FleetChannel, FleetChannelServer},
};
use rustls::ServerConfig;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Response, Status, Streaming};

use super::{
    Deps, authenticate,
    hello::Credential,
    listener::{self, Peer},
    metrics::Measures,
    openings,
    outgoing::Outgoing,
    registry::Registry,
    stream,
};

/// Token reviews at once. A thousand members that return together are through in seconds.
const REVIEWS_MAX: usize = 16;
/// Streams on one connection: a member has one, and one that is ending.
const STREAMS_MAX: u32 = 4;
/// What a peer may send before it is read, per stream: the rest waits on its side.
const WINDOW_BYTES: u32 = 256 * 1024;
/// Headers: a token with many claims fits.
const HEADER_BYTES: u32 = 64 * 1024;
/// A message over the limit is still read, up to here, so that it can be answered and the session lives on.
const READ_MAX: usize = 2 * limits::MESSAGE_BYTES;
/// A peer that does not answer a keep-alive ping by then is gone.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// What all sessions of this replica share.
pub(super) struct Shared {
    pub(super) deps: Deps,
    pub(super) measures: Measures,
    pub(super) registry: Registry,
    pub(super) reviews: Semaphore,
    pub(super) places: Semaphore,
    pub(super) openings: openings::Openings,
    pub(super) stop: CancellationToken,
}

struct Service {
    shared: Arc<Shared>,
    tasks: TaskTracker,
}

#[tonic::async_trait]
impl FleetChannel for Service {
    type SessionStream = ReceiverStream<Result<pb::HubMessage, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<pb::MemberMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let token = request
            .metadata()
            .get("authorization")
            .and_then(|value| authenticate::bearer(value.to_str().ok()?))
            .map(str::to_owned);
        let connection = request.extensions().get::<Peer>();
        let certificate = connection
            .and_then(|peer| peer.tls.peer_certs())
            .and_then(|chain| chain.first().cloned());
        let peer = connection.and_then(|peer| peer.tls.get_ref().remote_addr());
        let admitted = connection.map(|peer| peer.admitted.clone()).unwrap_or_default();
        let (out, receiver) = Outgoing::new(self.shared.deps.settings.send_timeout);
        let credential = Credential::new(token, certificate);
        // The answer's headers go out at once; the session's verdict follows as the first message.
        let session = stream::run(
            self.shared.clone(),
            request.into_inner(),
            credential,
            out,
            peer,
            admitted,
        );
        self.tasks.spawn(session);
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// Serves members on `listener` until told to stop; then lets reports that are under way finish, and tells every member
/// to come back. Connections that come while `tls` has no certificate are refused.
///
/// # Errors
/// If the listener fails for good.
pub async fn serve(
    deps: Deps,
    listener: TcpListener,
    tls: watch::Receiver<Option<Arc<ServerConfig>>>,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let settings = deps.settings.clone();
    let shared = Arc::new(Shared {
        measures: Measures::new(&deps.metrics),
        registry: Registry::default(),
        reviews: Semaphore::new(REVIEWS_MAX),
        places: Semaphore::new(settings.sessions_max),
        openings: openings::Openings::default(),
        stop: stop.clone(),
        deps,
    });
    let tasks = TaskTracker::new();
    let service = FleetChannelServer::new(Service {
        shared: shared.clone(),
        tasks: tasks.clone(),
    })
    .max_decoding_message_size(READ_MAX);
    let server = tonic::transport::Server::builder()
        .http2_keepalive_interval(Some(settings.keep_alive))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(2 * WINDOW_BYTES)
        .http2_max_header_list_size(HEADER_BYTES)
        .add_service(service)
        .serve_with_incoming_shutdown(listener::accept(listener, tls), stop.clone().cancelled_owned());
    let deps = &shared.deps;
    let registry = shared
        .registry
        .clone()
        .watch(deps.members.clone(), deps.internals.clone());
    let ended = tokio::select! {
        ended = serve_to_end(server, &stop, settings.drain) => ended,
        () = registry => Ok(()), // never
    };
    tasks.close();
    let _ = tokio::time::timeout(settings.drain + Duration::from_secs(2), tasks.wait()).await;
    ended
}

/// A peer that does not close its connection must not keep the process alive.
async fn serve_to_end(
    server: impl Future<Output = Result<(), tonic::transport::Error>>,
    stop: &CancellationToken,
    drain: Duration,
) -> Result<(), tonic::transport::Error> {
    let overdue = async {
        stop.cancelled().await;
        tokio::time::sleep(drain + Duration::from_secs(2)).await;
    };
    tokio::select! {
        ended = server => ended,
        () = overdue => Ok(()),
    }
}
