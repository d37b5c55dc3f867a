//! The gRPC server: accepts streams and hands each to a task of its own.

use std::{
    marker::PhantomData,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use fleet_proto::{
    pb,
    pb::fleet_channel_server::{FleetChannel, FleetChannelServer},
};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Response, Status, Streaming, codegen::Service, server::NamedService};

use super::{
    Deps, authenticate,
    hello::Credential,
    intake::{Intake, PaidBody},
    listener::{self, Peer},
    memory::Pools,
    metrics::Measures,
    openings,
    outgoing::Outgoing,
    registry::Registry,
    reviews::Reviews,
    shared::Shared,
    stream::{self, READ_MAX, Stream},
    talk::Messages,
};
use crate::certificates::Tls;

/// Hellos whose Works are compared with what is stored at once: it computes, and others want the cores too.
const COMPARISONS_MAX: usize = 2;
/// Streams on one connection: a member has one.
const STREAMS_MAX: u32 = 1;
/// What a peer may send before it is read: the rest waits on its side. Nothing is read of a stranger.
const WINDOW_BYTES: u32 = 64 * 1024;
/// Headers: a token with many claims fits.
const HEADER_BYTES: u32 = 32 * 1024;
/// A peer that does not answer a keep-alive ping by then is gone.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

struct Channel<M> {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    /// Who takes the messages.
    taken_by: PhantomData<fn() -> M>,
}

#[tonic::async_trait]
impl<M: Messages> FleetChannel for Channel<M> {
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
        let (Some(connection), Some(intake)) = (connection, request.extensions().get::<Arc<Intake>>()) else {
            return Err(Status::internal("the stream has no connection"));
        };
        let chain = connection
            .tls
            .peer_certs()
            .map(|chain| chain.to_vec())
            .unwrap_or_default();
        let (out, receiver) = Outgoing::new(self.shared.deps.settings.send_timeout);
        let credential = Credential::new(token, chain, Some(connection.door.source()));
        let stream = Stream {
            peer: connection.tls.get_ref().remote_addr(),
            door: connection.door.clone(),
            intake: intake.clone(),
            out,
        };
        // The answer's headers go out at once; the session's verdict follows as the first message.
        let session = stream::run::<M>(self.shared.clone(), request.into_inner(), credential, stream);
        self.tasks.spawn(session);
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// Serves members on `listener` until told to stop; then lets reports that are under way finish, and tells every member
/// to come back. Connections that come while `tls` has no certificate are refused. What a session says is taken by an `M`
/// of its own.
///
/// # Errors
/// If the listener fails for good.
pub(crate) async fn serve<M: Messages>(
    deps: Deps,
    listener: TcpListener,
    tls: watch::Receiver<Option<Tls>>,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let settings = deps.settings.clone();
    let shared = Arc::new(Shared {
        measures: Measures::new(&deps.metrics),
        registry: Registry::default(),
        allowances: Arc::default(),
        reviews: Reviews::default(),
        tls: tls.clone(),
        places: Semaphore::new(settings.sessions_max),
        comparisons: Semaphore::new(COMPARISONS_MAX),
        openings: openings::Openings::default(),
        strangers: Arc::new(Pools::of_strangers()),
        stop: stop.clone(),
        deps,
    });
    shared.registry.show_in(shared.deps.metrics.dump());
    let tasks = TaskTracker::new();
    let service = FleetChannelServer::new(Channel::<M> {
        shared: shared.clone(),
        tasks: tasks.clone(),
        taken_by: PhantomData,
    })
    .max_decoding_message_size(READ_MAX);
    let service = Metered {
        inner: service,
        all: Arc::new(Pools::of_process()),
    };
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
    let registry =
        shared
            .registry
            .clone()
            .watch(deps.members.clone(), deps.internals.clone(), shared.allowances.clone());
    let ended = tokio::select! {
        ended = serve_to_end(server, &stop, settings.drain) => ended,
        () = registry => Ok(()), // never
    };
    tasks.close();
    let _ = tokio::time::timeout(settings.drain + Duration::from_secs(2), tasks.wait()).await;
    ended
}

/// Has a service pay for what it reads.
#[derive(Clone)]
struct Metered<S> {
    inner: S,
    all: Arc<Pools>,
}

impl<S: NamedService> NamedService for Metered<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B> Service<http::Request<B>> for Metered<S>
where
    S: Service<http::Request<PaidBody<B>>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<B>) -> S::Future {
        let intake = Arc::new(Intake::new(self.all.clone()));
        request.extensions_mut().insert(intake.clone());
        self.inner.call(request.map(|body| PaidBody::new(body, intake)))
    }
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
