//! A browser that was let in.

use std::sync::Arc;

use axum::{Router, body::Body};
use fleet_runtime::{clock::Clock, shutdown::Tasks};
use fleet_testkit::Server;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::world;
use crate::{Act, Actor, Effect, Hub, door::Door, pages::Whose, server::router};

pub(super) const HOST: &str = "127.0.0.1:4000";

/// Writes down what it is asked for.
#[derive(Default)]
pub(super) struct Scribe(pub(super) Mutex<Vec<String>>);

impl Actor for Scribe {
    fn preview<'a>(&'a self, act: &'a Act) -> futures::future::BoxFuture<'a, Result<Effect, String>> {
        self.0.lock().push(format!("preview {act}"));
        Box::pin(async {
            Ok(Effect {
                says: vec![format!("It would. {}", world::MARKUP)],
                rows: Vec::new(),
            })
        })
    }

    fn perform<'a>(&'a self, act: &'a Act) -> futures::future::BoxFuture<'a, Result<Effect, String>> {
        self.0.lock().push(format!("perform {act}"));
        Box::pin(async {
            Ok(Effect {
                says: vec!["It did.".into()],
                rows: Vec::new(),
            })
        })
    }
}

/// A dashboard with one browser.
pub(super) struct Visitor {
    pub(super) server: Server,
    pub(super) door: Arc<Door>,
    pub(super) scribe: Arc<Scribe>,
    pub(super) hub: Hub,
    router: Router,
    pub(super) cookie: String,
    _tasks: Tasks,
}

/// What was answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) headers: http::HeaderMap,
    pub(super) body: String,
}

impl Visitor {
    /// On a hub with everything in it.
    pub(super) async fn new() -> Self {
        let server = Server::new();
        world::everything(&server);
        Self::on(server, true).await
    }

    pub(super) async fn on(server: Server, writes: bool) -> Self {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        let clock = Clock::manual(world::NOW.parse().unwrap());
        // Everybody may do everything, unless the test has said otherwise before.
        server.answer(|method, path, body| {
            let asks = method == "POST" && path.ends_with("/selfsubjectaccessreviews");
            asks.then(|| (201, json!({ "spec": body["spec"], "status": { "allowed": true } })))
        });
        let hub = Hub::watch(server.client(), clock, &mut tasks);
        hub.settled().await;
        let door = Arc::new(Door::new(4000).unwrap());
        let link = door.link().unwrap();
        let cookie = door.enter(link.split_once("token=").unwrap().1).unwrap();
        let scribe = Arc::new(Scribe::default());
        let whose = Whose {
            context: "hub".into(),
            server: "https://hub.example:6443".into(),
            user: "alice".into(),
        };
        let actor = writes.then(|| scribe.clone() as Arc<dyn Actor>);
        let router = router(server.client(), hub.clone(), whose, actor, door.clone(), stop);
        Self {
            server,
            cookie: cookie.split(';').next().unwrap().to_owned(),
            door,
            scribe,
            hub,
            router,
            _tasks: tasks,
        }
    }

    /// A request with exactly these headers.
    pub(super) async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let response = self.open(method, path, headers, body).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer {
            code: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    pub(super) async fn open(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// A page, as the browser asks for it that was let in.
    pub(super) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[("host", HOST), ("cookie", &self.cookie)], "")
            .await
    }

    /// A form, as our own pages send it.
    pub(super) async fn post(&self, body: &str) -> Answer {
        let headers = [
            ("host", HOST),
            ("cookie", &self.cookie),
            ("origin", "http://127.0.0.1:4000"),
            ("sec-fetch-site", "same-origin"),
        ];
        self.send(Method::POST, "/act", &headers, body).await
    }
}
