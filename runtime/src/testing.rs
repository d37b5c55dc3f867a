//! A scripted API server for this crate's tests.

use std::{
    convert::Infallible,
    future::Future,
    sync::{Arc, atomic::AtomicUsize},
};

use futures::stream;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;

/// A body that begins and never says anything, as that of a watch.
pub(crate) const OPEN: &str = "open";

/// What a request was: `GET /api/v1/…?…` and its body.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) body: serde_json::Value,
}

/// A client whose requests `answer` answers with a status and a body.
pub(crate) fn client<F, A>(answer: F) -> kube::Client
where
    F: Fn(Asked) -> A + Send + Sync + 'static,
    A: Future<Output = (u16, String)> + Send + 'static,
{
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let line = format!("{} {}", request.method(), request.uri());
            let bytes = request.into_body().collect().await?.to_bytes();
            let body = serde_json::from_slice(&bytes).unwrap_or_default();
            let (status, body) = answer(Asked { line, body }).await;
            let body = if body == OPEN {
                StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>()).boxed_unsync()
            } else {
                Full::from(body).boxed_unsync()
            };
            let mut response = Response::new(body);
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok::<_, kube::Error>(response)
        }
    });
    kube::Client::new(service, "default")
}

/// The body of an error answer.
pub(crate) fn failure(code: u16, reason: &str) -> (u16, String) {
    let status = kube::core::Status::failure(reason, reason).with_code(code);
    (code, serde_json::to_string(&status).unwrap())
}

/// Counts calls.
pub(crate) fn next(counter: &AtomicUsize) -> usize {
    counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
}
