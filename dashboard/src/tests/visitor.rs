//! A browser that was let in.

use std::sync::Arc;

use axum::{Router, body::Body};
use fleet_runtime::{clock::Clock, shutdown::Tasks};
use fleet_testkit::Server;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::world;
use crate::{Act, Actor, Effect, Hub, door::Door, pages::Whose, server::router};

pub(super) const HOST: &str = "127.0.0.1:4000";

/// Writes down what it is asked for. Does nothing while somebody holds its gate.
#[derive(Default)]
pub(super) struct Scribe(pub(super) Mutex<Vec<String>>, pub(super) tokio::sync::Mutex<()>, Notify);

impl Scribe {
    fn note(&self, line: String) {
        self.0.lock().push(line);
        self.2.notify_waiters();
    }

    /// Waits until it has written this line.
    pub(super) async fn until(&self, line: &str) {
        loop {
            let more = self.2.notified();
            tokio::pin!(more);
            more.as_mut().enable();
            if self.0.lock().iter().any(|it| it == line) {
                return;
            }
            more.await;
        }
    }
}

impl Actor for Scribe {
    fn preview<'a>(&'a self, act: &'a Act) -> futures::future::BoxFuture<'a, Result<Effect, String>> {
        self.note(format!("preview {act}"));
        Box::pin(async {
            Ok(Effect {
                says: vec![format!("It would. {}", world::MARKUP)],
                ..Effect::default()
            })
        })
    }

    fn perform<'a>(&'a self, act: &'a Act) -> futures::future::BoxFuture<'a, Result<Effect, String>> {
        self.note(format!("perform {act}"));
        Box::pin(async move {
            let gate = self.1.lock().await;
            drop(gate);
            self.note(format!("performed {act}"));
            Ok(Effect {
                says: vec!["It did.".into()],
                left: matches!(act, Act::Drain(_)),
                ..Effect::default()
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
        Self::within(server, None, writes).await
    }

    /// With a namespace that alone is looked at.
    pub(super) async fn within(server: Server, namespace: Option<&str>, writes: bool) -> Self {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        let clock = Clock::manual(world::NOW.parse().unwrap());
        // Everybody may do everything, unless the test has said otherwise before.
        server.answer(|method, path, body| {
            let asks = method == "POST" && path.ends_with("/selfsubjectaccessreviews");
            asks.then(|| (201, json!({ "spec": body["spec"], "status": { "allowed": true } })))
        });
        let hub = Hub::watch(server.client(), namespace, clock, &mut tasks);
        hub.settled().await;
        let door = Arc::new(Door::new(4000).unwrap());
        let link = door.link().unwrap();
        let cookie = door.enter(link.split_once("token=").unwrap().1).unwrap();
        let scribe = Arc::new(Scribe::default());
        let whose = Whose {
            context: "hub".into(),
            server: "https://hub.example:6443".into(),
            user: "alice".into(),
            flags: Vec::new(),
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

    /// A form, as our own pages send it, and the page that the browser goes on to.
    pub(super) async fn post(&self, body: &str) -> Answer {
        let answer = self.posted(body).await;
        match answer.headers.get("location") {
            Some(next) => self.get(next.to_str().unwrap()).await,
            None => answer,
        }
    }

    /// The same, and what is answered to the form itself.
    pub(super) async fn posted(&self, body: &str) -> Answer {
        let headers = [
            ("host", HOST),
            ("cookie", &self.cookie),
            ("origin", "http://127.0.0.1:4000"),
            ("sec-fetch-site", "same-origin"),
        ];
        self.send(Method::POST, "/act", &headers, body).await
    }
}
