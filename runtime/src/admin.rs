//! The small HTTP server for probes and scrapers: `/healthz`, `/readyz`, `/metrics`, and `/debug/dump` for people.
//!
//! It is reachable by everybody in the cluster, so connections are few, short and without bodies. What `/debug/dump` has is
//! for those alone who can come from the same host or Pod (`kubectl port-forward`), wherever the port listens.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{CONTENT_TYPE, HOST},
    uri::Authority,
};
use http_body_util::Full;
use hyper::{body::Bytes, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{
    dump::{Dump, Refused},
    health::Health,
    metrics::Metrics,
    options::Bind,
};

/// A prober and a few scrapers; a hundred would be somebody playing.
const CONNECTIONS_MAX: usize = 64;
/// Time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for a connection as a whole. Scrapers come back on a new one.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(2);

/// What a port serves.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    /// Serves `/healthz` and `/readyz`.
    pub health: Option<Health>,
    /// Serves `/metrics`.
    pub metrics: Option<Metrics>,
    /// Serves `/debug/dump`.
    pub dump: Option<Dump>,
}

/// The port could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("could not listen on {address} for health and metrics")]
pub struct Error {
    address: String,
    source: io::Error,
}

/// A port that is open but not served yet, so that a busy one is found before anything else starts.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    pages: Pages,
}

impl Server {
    /// Opens the port; `None` if it is switched off.
    ///
    /// # Errors
    /// If the port is taken or may not be opened.
    pub async fn bind(address: &Bind, pages: Pages) -> Result<Option<Self>, Error> {
        let listener = match address {
            Bind::Off => return Ok(None),
            Bind::Address(address) => TcpListener::bind(address).await.map_err(|e| (e, address.clone())),
            Bind::Port(port) => match TcpListener::bind(("::", *port)).await {
                // `::` takes IPv4 too, but a node may have no IPv6 at all.
                Err(e) if e.kind() != io::ErrorKind::AddrInUse => TcpListener::bind(("0.0.0.0", *port)).await,
                other => other,
            }
            .map_err(|e| (e, format!(":{port}"))),
        };
        let listener = listener.map_err(|(source, address)| Error { address, source })?;
        Ok(Some(Self { listener, pages }))
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until told to stop.
    pub async fn serve(self, stop: CancellationToken) {
        let Self { listener, pages } = self;
        let pages = Arc::new(pages);
        let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let permit = free
                .clone()
                .acquire_owned()
                .await
                .expect("the semaphore is never closed");
            let (stream, peer) = tokio::select! {
                () = stop.cancelled() => return,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => (stream, peer.ip()),
                    Err(error) => {
                        // Out of file descriptors, most likely: trying again at once would only burn CPU.
                        tracing::warn!(%error, "Could not accept a connection for health and metrics");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                },
            };
            let (pages, stop) = (pages.clone(), stop.clone());
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let response = pages.respond(&request, peer);
                    async move { Ok::<_, Infallible>(response) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIMEOUT)
                    .max_buf_size(16 * 1024)
                    .serve_connection(TokioIo::new(stream), service);
                tokio::select! {
                    // What a client does wrong is no news to the operator.
                    _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection) => {}
                    () = stop.cancelled() => {}
                }
                drop(permit);
            });
        }
    }
}

impl Pages {
    fn respond<B>(&self, request: &Request<B>, peer: IpAddr) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
        }
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        if let (Some(below), Some(dump)) = (path.strip_prefix("/debug/dump"), &self.dump)
            && (below.is_empty() || below.starts_with('/'))
        {
            return if is_local(request, peer) {
                dumped(dump, below.trim_matches('/'), query)
            } else {
                text(StatusCode::FORBIDDEN, "only from the same host\n".to_owned())
            };
        }
        let verbose = query.split('&').any(|p| p.starts_with("verbose"));
        self.page(path, verbose)
    }

    fn page(&self, path: &str, verbose: bool) -> Response<Full<Bytes>> {
        let path = path.strip_suffix('/').unwrap_or(path);
        match (path, &self.health, &self.metrics) {
            // Alive means that requests are answered. Anything more would let a broken hub restart every agent.
            ("/healthz", Some(_), _) => text(StatusCode::OK, "ok".to_owned()),
            ("/readyz", Some(health), _) => match health.report() {
                (true, _) if !verbose => text(StatusCode::OK, "ok".to_owned()),
                (true, report) => text(StatusCode::OK, report),
                (false, report) => text(StatusCode::INTERNAL_SERVER_ERROR, report),
            },
            ("/metrics", _, Some(metrics)) => {
                let mut response = text(StatusCode::OK, metrics.encode());
                let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
            _ => match (path.strip_prefix("/readyz/"), &self.health) {
                (Some("ping" | "readyz"), Some(_)) => text(StatusCode::OK, "ok".to_owned()),
                (Some(name), Some(health)) => match health.get(name) {
                    Some(Ok(())) => text(StatusCode::OK, "ok".to_owned()),
                    Some(Err(reason)) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{reason}\n")),
                    None => text(StatusCode::NOT_FOUND, "no such check\n".to_owned()),
                },
                _ => text(StatusCode::NOT_FOUND, "not found\n".to_owned()),
            },
        }
    }
}

/// Whether somebody asks who is on this host. A proxy beside the agent, or a browser that was lured here, is too, but passes
/// on the name that was asked for.
fn is_local<B>(request: &Request<B>, peer: IpAddr) -> bool {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let asked = host.and_then(|host| host.parse::<Authority>().ok());
    let asked = asked
        .as_ref()
        .map(|authority| authority.host().trim_matches(['[', ']']));
    let named =
        asked.is_some_and(|host| host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()));
    named && peer.to_canonical().is_loopback()
}

fn dumped(dump: &Dump, below: &str, query: &str) -> Response<Full<Bytes>> {
    match dump.read(below, query) {
        Ok(value) => {
            let mut response = text(StatusCode::OK, format!("{value:#}\n"));
            let kind = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        Err(refused @ Refused::Unknown) => text(StatusCode::NOT_FOUND, format!("{refused}\n")),
        Err(refused @ Refused::Query) => text(StatusCode::BAD_REQUEST, format!("{refused}\n")),
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn get(pages: &Pages, path: &str, verbose: bool) -> (u16, String) {
        let response = pages.page(path, verbose);
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn readiness_names_what_is_missing() {
        let health = Health::default();
        let pages = Pages {
            health: Some(health.clone()),
            ..Pages::default()
        };
        let (caches, session) = (health.check("caches"), health.check("session"));
        caches.ready();
        session.not_ready("the hub refused the token");

        let (status, text) = get(&pages, "/readyz", false).await;
        assert_eq!(status, 500);
        assert_eq!(
            text,
            "[+]ping ok\n[+]caches ok\n[-]session failed: the hub refused the token\nreadyz check failed\n"
        );
        assert_eq!(get(&pages, "/readyz/session", false).await.0, 500);
        assert_eq!(get(&pages, "/readyz/caches", false).await.0, 200);
        assert_eq!(get(&pages, "/readyz/webhook", false).await.0, 404);
        assert_eq!(get(&pages, "/healthz", false).await, (200, "ok".to_owned()));

        session.ready();
        assert_eq!(get(&pages, "/readyz", false).await, (200, "ok".to_owned()));
        assert!(get(&pages, "/readyz", true).await.1.contains("[+]session ok\n"));
    }

    #[tokio::test]
    async fn a_port_serves_only_its_own_pages() {
        let pages = Pages {
            metrics: Some(Metrics::new()),
            ..Pages::default()
        };
        assert_eq!(get(&pages, "/readyz", false).await.0, 404);
        assert_eq!(get(&pages, "/metrics", false).await.0, 200);
    }

    fn ask(path: &str, host: &str, peer: &str, dump: Option<Dump>) -> Response<Full<Bytes>> {
        let pages = Pages {
            health: Some(Health::default()),
            dump,
            ..Pages::default()
        };
        let request = Request::get(path).header(HOST, host).body(()).unwrap();
        pages.respond(&request, peer.parse().unwrap())
    }

    #[tokio::test]
    async fn only_who_is_on_the_same_host_looks_inside() {
        let open = || Some(Dump::default());
        let status = |path, host, peer| ask(path, host, peer, open()).status().as_u16();
        for (host, peer) in [
            ("localhost:8081", "127.0.0.1"),
            ("127.0.0.1:8081", "::ffff:127.0.0.1"),
            ("[::1]:8081", "::1"),
            ("localhost", "::1"),
        ] {
            assert_eq!(status("/debug/dump", host, peer), 200, "{host} {peer}");
        }
        for (host, peer) in [
            ("localhost:8081", "10.0.0.7"),
            ("localhost:8081", "fd00::7"),
            ("localhost:8081", "::ffff:10.0.0.7"),
            ("10.0.0.9:8081", "127.0.0.1"),
            ("evil.example:8081", "127.0.0.1"),
            ("", "127.0.0.1"),
        ] {
            assert_eq!(status("/debug/dump", host, peer), 403, "{host} {peer}");
            assert_eq!(status("/debug/dump/stores", host, peer), 403, "{host} {peer}");
            assert_eq!(status("/healthz", host, peer), 200, "{host} {peer}");
        }
        assert_eq!(status("/debug/dump/stores/", "localhost", "::1"), 200);
        assert_eq!(status("/debug/dump/secrets", "localhost", "::1"), 404);
        assert_eq!(status("/debug/dumps", "localhost", "::1"), 404);
        assert_eq!(status("/debug/dump?limit=x", "localhost", "::1"), 400);
        let answer = ask("/debug/dump", "localhost", "::1", open());
        assert_eq!(answer.headers()[CONTENT_TYPE], "application/json");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let shown: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let sections = serde_json::json!({ "leases": {}, "queues": {}, "sessions": {}, "stores": {} });
        assert_eq!(shown, sections);
    }

    #[test]
    fn nobody_looks_inside_unless_it_was_asked_for() {
        assert_eq!(
            ask("/debug/dump", "localhost", "127.0.0.1", None).status().as_u16(),
            404
        );
    }

    #[tokio::test]
    async fn it_answers_over_the_wire_and_stops() {
        let pages = Pages {
            health: Some(Health::default()),
            ..Pages::default()
        };
        let server = Server::bind(&Bind::Address("127.0.0.1:0".to_owned()), pages.clone())
            .await
            .unwrap()
            .unwrap();
        let address = server.address().unwrap();

        let busy = Server::bind(&Bind::Address(address.to_string()), pages)
            .await
            .unwrap_err();
        assert_eq!(
            busy.to_string(),
            format!("could not listen on {address} for health and metrics")
        );

        let stop = CancellationToken::new();
        let serving = tokio::spawn(server.serve(stop.clone()));
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("\r\n\r\nok"),
            "{answer}"
        );
        stop.cancel();
        serving.await.unwrap();
    }
}
