//! The webhook server: HTTPS on every replica.
//!
//! Whoever reaches the port can connect, so everything has a bound: connections, memory, and time. Where there are too many
//! connections the one that has been silent longest goes, and one whose request is being answered only where most are of
//! its source: who only holds a place keeps nobody out.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::{Body as _, Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{
    callers::{Caller, Callers},
    hooks::Hook,
    judge::Judge,
    memory::{Memory, Share},
    review,
};
use crate::{certificates::Tls, channel::Source};

/// An object and its old self, each of which the API server stores, with what is around them in a review. The library that
/// most webhooks are made with takes as much.
const BODY_MAX: usize = 7 * 1024 * 1024;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// The API server waits no longer for an answer.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Who has begun to send goes on.
const FRAME_TIMEOUT: Duration = Duration::from_secs(1);
/// A connection on which nothing is asked for so long is closed; the API server itself closes its own after 90 s.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);
/// After `accept` fails (out of file descriptors), wait for connections to close instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What every connection shares.
struct Shared {
    judge: Judge,
    memory: Memory,
}

/// Serves until told to stop.
pub(super) async fn serve(
    judge: Judge,
    listener: TcpListener,
    tls: watch::Receiver<Option<Tls>>,
    stop: CancellationToken,
) {
    let shared = Arc::new(Shared {
        judge,
        memory: Memory::default(),
    });
    let callers = Callers::default();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, source) = match accepted {
            Ok((stream, address)) => (stream, Source::from(address.ip())),
            Err(error) => {
                tracing::warn!(%error, "Could not accept a connection for the webhooks");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(tls) = tls.borrow().clone() else {
            continue; // closed: there is no certificate yet
        };
        let caller = tokio::select! {
            () = stop.cancelled() => return,
            caller = callers.enter(source) => caller,
        };
        let (shared, stop) = (shared.clone(), stop.clone());
        tokio::spawn(async move {
            let ended = caller.ended();
            tokio::select! {
                () = ended.cancelled() => {}
                done = attend(shared, stream, tls, caller, stop) => if let Err(error) = done {
                    tracing::debug!(error, "A connection to the webhooks ended");
                }
            }
        });
    }
}

/// One connection.
async fn attend(
    shared: Arc<Shared>,
    stream: TcpStream,
    tls: Tls,
    caller: Caller,
    stop: CancellationToken,
) -> Result<(), String> {
    let _ = stream.set_nodelay(true);
    let shaken = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(tls.config).accept(stream)).await;
    let stream = shaken
        .map_err(|_| "the TLS handshake took too long".to_owned())?
        .map_err(|error: io::Error| format!("TLS handshake: {error}"))?;
    let (share, caller) = (Arc::new(shared.memory.share(caller.source())), Arc::new(caller));
    let service = service_fn(move |request| {
        let (shared, share, caller) = (shared.clone(), share.clone(), caller.clone());
        async move {
            let _busy = caller.busy();
            let answer = timeout(REQUEST_TIMEOUT, shared.respond(request, &share)).await;
            let late = || text(StatusCode::REQUEST_TIMEOUT, "the request took too long\n");
            Ok::<_, Infallible>(answer.unwrap_or_else(|_| late()))
        }
    });
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE_TIMEOUT)
            .max_buf_size(64 * 1024)
            .serve_connection(TokioIo::new(stream), service)
    );
    tokio::select! {
        done = connection.as_mut() => return done.map_err(|error| error.to_string()),
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    // What was asked is answered, and nothing else.
    let _ = timeout(REQUEST_TIMEOUT, connection).await;
    Ok(())
}

impl Shared {
    async fn respond(&self, request: Request<Incoming>, share: &Share) -> Response<Full<Bytes>> {
        let Some(hook) = Hook::at(request.uri().path()) else {
            return text(StatusCode::NOT_FOUND, "there is no webhook at this path\n");
        };
        if request.method() != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, "webhooks are asked by POST\n");
        }
        let is_json = |value: &http::HeaderValue| value.as_bytes().starts_with(b"application/json");
        if !request.headers().get(CONTENT_TYPE).is_some_and(is_json) {
            return text(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "an AdmissionReview is application/json\n",
            );
        }
        let mut body = request.into_body();
        // Who says how much it is waits until there is room for all of it, and holds nothing meanwhile.
        let said = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
        let mut held = vec![share.body(said.unwrap_or_default().min(BODY_MAX)).await];
        let mut bytes = Vec::new();
        loop {
            let Ok(frame) = timeout(FRAME_TIMEOUT, body.frame()).await else {
                return text(StatusCode::REQUEST_TIMEOUT, "the body does not come\n");
            };
            let Some(frame) = frame else { break };
            let Ok(frame) = frame else {
                return text(StatusCode::BAD_REQUEST, "the body ended early\n");
            };
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > BODY_MAX {
                return text(StatusCode::PAYLOAD_TOO_LARGE, "the AdmissionReview is too large\n");
            }
            if said.is_none() {
                held.push(share.body(data.len()).await);
            }
            bytes.extend_from_slice(&data);
        }
        let Some(_decoded) = share.decoded(&bytes).await else {
            return text(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the AdmissionReview has too many entries\n",
            );
        };
        let (version, request) = match review::read(&bytes) {
            Ok(read) => read,
            Err(why) => return text(StatusCode::BAD_REQUEST, &format!("{why}\n")),
        };
        let answer = self.judge.answer(hook, &request).await;
        if let review::Answer::Failed(_, why) = &answer {
            tracing::info!(webhook = hook.name(), why, "A request could not be judged");
        }
        let answer = answer.to_review(&version, &request.uid).to_string();
        let mut response = Response::new(Full::from(answer));
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    }
}

fn text(status: StatusCode, words: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(words.to_owned()));
    *response.status_mut() = status;
    response
}
