//! Answers of an API server, read once and within bounds.
//!
//! kube collects an answer, joins the pieces and copies them into a text before it decodes that: three times what the
//! server sent, however much it sent. Here the bytes are held once, no more of them than the caller allows, and by no
//! more readers at a time than the process can afford.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::{
    Client,
    client::Body,
    core::{Status, response::StatusSummary},
};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

/// How long the server may take to begin its answer, and again to end it.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);
/// Answers that are held at the same time, in the whole process.
const HELD_MAX: usize = 6;
/// What is read of an error.
const ERROR_MAX: usize = 64 * 1024;

static HELD: Semaphore = Semaphore::const_new(HELD_MAX);

/// What a server answered. Others wait while this is held.
#[derive(Debug)]
pub struct Answer {
    bytes: Vec<u8>,
    _held: Option<SemaphorePermit<'static>>,
}

impl Answer {
    /// The text, as it was sent.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// An answer was not read to its end.
#[derive(Debug, thiserror::Error)]
#[error("the answer has more than {0} bytes")]
struct TooLarge(usize);

/// Whether an answer was larger than the caller allowed.
pub fn is_too_large(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(source) if source.is::<TooLarge>())
}

/// Sends a request and reads the answer, of which no more than `max` bytes are held.
///
/// # Errors
/// Those of the request, that there was no answer in time, and that it [is too large](is_too_large).
pub async fn read(client: &Client, request: Request<Vec<u8>>, max: usize) -> kube::Result<Answer> {
    let response = in_time(client.send(request.map(Body::from))).await?;
    // Only now: a server that does not answer at all holds up nobody else.
    let held = HELD.acquire().await.ok();
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        let text = in_time(collect(response, ERROR_MAX)).await?;
        return Err(failure(&text, status.as_u16()));
    }
    let bytes = in_time(collect(response, max)).await?;
    Ok(Answer { bytes, _held: held })
}

async fn in_time<T>(part: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    let late = || {
        let error = format!("the API server did not answer within {} s", ANSWER_TIMEOUT.as_secs());
        kube::Error::Service(error.into())
    };
    timeout(ANSWER_TIMEOUT, part).await.unwrap_or_else(|_| Err(late()))
}

async fn collect(response: Response<Body>, max: usize) -> kube::Result<Vec<u8>> {
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if bytes.len() + data.len() > max {
            return Err(kube::Error::Service(TooLarge(max).into()));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// Proxies and missing paths answer with plain text.
fn failure(text: &[u8], code: u16) -> kube::Error {
    let status = serde_json::from_slice::<Status>(text).ok();
    let status = status.unwrap_or_else(|| Status {
        status: Some(StatusSummary::Failure),
        message: String::from_utf8_lossy(text).trim().to_owned(),
        reason: "Failed to parse error data".into(),
        code,
        ..Status::default()
    });
    kube::Error::Api(Box::new(status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn request() -> Request<Vec<u8>> {
        Request::get("/api/v1/configmaps").body(Vec::new()).unwrap()
    }

    #[tokio::test]
    async fn an_answer_is_read_to_the_bound_and_no_further() {
        let client = testing::client(|_| async { (200, "x".repeat(100)) });
        assert_eq!(read(&client, request(), 100).await.unwrap().bytes().len(), 100);
        assert!(is_too_large(&read(&client, request(), 99).await.unwrap_err()));
    }

    #[tokio::test]
    async fn errors_are_the_servers_words() {
        for (code, body, said) in [
            (403, testing::failure(403, "Forbidden").1, "Forbidden"),
            (404, "404 page not found\n".to_owned(), "404 page not found"),
        ] {
            let client = testing::client(move |_| {
                let body = body.clone();
                async move { (code, body) }
            });
            let kube::Error::Api(status) = read(&client, request(), 10).await.unwrap_err() else {
                panic!("an answer of the server")
            };
            assert_eq!((status.code, status.message.as_str()), (code, said));
        }
    }
}
