//! The webhook server: HTTPS on every replica.
//!
//! Whoever reaches the port can connect, so everything has a bound: connections, bytes, and time. Where there are too many
//! connections one goes that has not asked anything yet, and never one whose request is being answered; the memory for what
//! is being read is shared by source: who only holds a place keeps nobody out.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::{Bytes, Incoming},
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
    bodies::{Bodies, Paid},
    callers::{Caller, Callers},
    decoded::Decoded,
    hooks::Hook,
    judge::Judge,
    review,
};
use crate::certificates::Tls;

/// An object and its old self, each of which the API server stores, with what is around them in a review. The library that
/// most webhooks are made with takes as much.
const BODY_MAX: usize = 7 * 1024 * 1024;
/// The API server has sent all of it within milliseconds.
const BODY_TIMEOUT: Duration = Duration::from_secs(2);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// The API server waits no longer for an answer.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection on which nothing is asked for so long is closed; the API server itself closes its own after 90 s.
const IDLE_TIMEOUT: Duration = Duration::from_mins(2);
/// After `accept` fails (out of file descriptors), wait for connections to close instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What every connection shares.
struct Shared {
    judge: Judge,
    bodies: Bodies,
    decoded: Decoded,
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
        bodies: Bodies::default(),
        decoded: Decoded::default(),
    });
    let callers = Callers::default();
    loop {
        let place = tokio::select! {
            () = stop.cancelled() => return,
            place = callers.place() => place,
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "Could not accept a connection for the webhooks");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(tls) = tls.borrow().clone() else {
            continue; // closed: there is no certificate yet
        };
        let caller = place.taken_from(peer.ip());
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
    let caller = Arc::new(caller);
    let service = service_fn(move |request| {
        let (shared, caller) = (shared.clone(), caller.clone());
        async move {
            let answer = timeout(REQUEST_TIMEOUT, shared.respond(request, &caller)).await;
            let answer = answer.unwrap_or_else(|_| Err(late("the request took too long\n")));
            Ok::<_, Infallible>(answer.unwrap_or_else(Refusal::answer))
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

/// What is answered to whoever asks for something else, or in another way, than the API server.
struct Refusal(StatusCode, String);

impl Refusal {
    fn new(status: StatusCode, words: &str) -> Self {
        Self(status, words.to_owned())
    }

    fn answer(self) -> Response<Full<Bytes>> {
        let Self(status, words) = self;
        let mut response = Response::new(Full::from(words));
        *response.status_mut() = status;
        response
    }
}

impl Shared {
    async fn respond(&self, request: Request<Incoming>, caller: &Caller) -> Result<Response<Full<Bytes>>, Refusal> {
        let hook = asked(&request)?;
        let mut paid = self.bodies.of(caller.source());
        let body = timeout(BODY_TIMEOUT, read(request.into_body(), &mut paid)).await;
        let body = body.unwrap_or_else(|_| Err(late("the body took too long\n")))?;
        let _busy = caller.busy();
        let Some(_decoded) = self.decoded.take(caller.source(), &body).await else {
            let words = "the AdmissionReview has too many entries\n";
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, words));
        };
        let (version, request) =
            review::read(&body).map_err(|why| Refusal::new(StatusCode::BAD_REQUEST, &format!("{why}\n")))?;
        let answer = self.judge.answer(hook, &request).await;
        if let review::Answer::Failed(_, why) = &answer {
            tracing::info!(webhook = hook.name(), why, "A request could not be judged");
        }
        let answer = answer.to_review(&version, &request.uid).to_string();
        let mut response = Response::new(Full::from(answer));
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        Ok(response)
    }
}

fn asked(request: &Request<Incoming>) -> Result<Hook, Refusal> {
    let Some(hook) = Hook::at(request.uri().path()) else {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "there is no webhook at this path\n",
        ));
    };
    if request.method() != Method::POST {
        return Err(Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "webhooks are asked by POST\n",
        ));
    }
    let is_json = |value: &http::HeaderValue| value.as_bytes().starts_with(b"application/json");
    if !request.headers().get(CONTENT_TYPE).is_some_and(is_json) {
        let words = "an AdmissionReview is application/json\n";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, words));
    }
    Ok(hook)
}

/// All of a body. Paid for as it comes: who sends slowly holds only what was sent.
async fn read(mut body: Incoming, paid: &mut Paid) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, "the body ended early\n"))?;
        let Ok(data) = frame.into_data() else { continue };
        let length = bytes.len() + data.len();
        if length > BODY_MAX {
            return Err(Refusal::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the AdmissionReview is too large\n",
            ));
        }
        if !paid.covers(length) {
            let words = "too many large requests at one time\n";
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, words));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

fn late(words: &str) -> Refusal {
    Refusal::new(StatusCode::REQUEST_TIMEOUT, words)
}
