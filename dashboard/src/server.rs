//! Answers the browser: every request goes through the [door](crate::door) first.

mod live;
mod results;

use std::{net::Ipv4Addr, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{self, Next},
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};
use fleet_runtime::shutdown::Tasks;
use http::{HeaderName, HeaderValue, StatusCode, Uri, header};
use kube::Client;
use maud::Markup;
use tokio::{net::TcpListener, sync::Semaphore};

use crate::{
    acts::{Act, Actor, Effect},
    compare,
    door::{Door, Refusal},
    hub::Hub,
    pages::{self, Flags, Page, Site, Whose},
    rights::Rights,
    view::View,
};
use results::Results;

/// No script but ours, nothing from elsewhere, in nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// A form has a few names in it.
const FORM_MAX: usize = 16 * 1024;
/// Streams at once: tabs that are open and seen.
const STREAMS_MAX: usize = 32;

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/live.js");
const ICON: &str = include_str!("assets/icon.svg");

/// What a dashboard is started with.
pub struct Options {
    /// The port; 0 for any.
    pub port: u16,
    /// The kubeconfig context.
    pub context: String,
    /// Its API server.
    pub server: String,
    /// Who the API server says the user is; empty if it does not say.
    pub user: String,
    /// The flags that said so: commands on pages have them too.
    pub flags: Flags,
    /// Who carries out what pages change; nobody if nothing may be changed.
    pub actor: Option<Arc<dyn Actor>>,
}

/// Why there is no dashboard.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The port is in use, or not ours to use.
    #[error("cannot listen on 127.0.0.1:{port}; choose another port with --port")]
    Listen {
        /// The port that was asked for.
        port: u16,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The system has no randomness.
    #[error("cannot make secrets")]
    Secrets(#[source] getrandom::Error),
}

/// A dashboard that listens.
pub struct Dashboard {
    /// Lets browsers in.
    pub door: Arc<Door>,
    /// Where it listens.
    pub port: u16,
}

pub(crate) struct Shared {
    pub(crate) hub: Hub,
    client: Client,
    pub(crate) rights: Rights,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) stop: tokio_util::sync::CancellationToken,
    whose: Whose,
    actor: Option<Arc<dyn Actor>>,
    door: Arc<Door>,
    done: Results,
}

impl Shared {
    pub(crate) fn site(&self) -> Site<'_> {
        Site {
            hub: &self.hub,
            rights: &self.rights,
            whose: &self.whose,
            read_only: self.actor.is_none(),
            form: self.door.form(),
        }
    }
}

/// Listens on loopback, and answers until `tasks` are stopped.
///
/// # Errors
/// If the port cannot be listened on.
pub async fn serve(client: Client, hub: Hub, options: Options, tasks: &mut Tasks) -> Result<Dashboard, Error> {
    let Options {
        port,
        context,
        server,
        user,
        flags,
        actor,
    } = options;
    let listen = |source| Error::Listen { port, source };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(listen)?;
    let port = listener.local_addr().map_err(listen)?.port();
    let door = Arc::new(Door::new(port).map_err(Error::Secrets)?);
    let stop = tasks.stop().clone();
    let whose = Whose {
        context,
        server,
        user,
        flags,
    };
    let router = router(client, hub, whose, actor, door.clone(), stop.clone());
    tasks.spawn("dashboard", async move {
        axum::serve(listener, router)
            .with_graceful_shutdown(stop.cancelled_owned())
            .await
    });
    Ok(Dashboard { door, port })
}

pub(crate) fn router(
    client: Client,
    hub: Hub,
    whose: Whose,
    actor: Option<Arc<dyn Actor>>,
    door: Arc<Door>,
    stop: tokio_util::sync::CancellationToken,
) -> Router {
    let shared = Arc::new(Shared {
        hub,
        rights: Rights::new(client.clone()),
        client,
        streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        stop,
        whose,
        actor,
        door,
        done: Results::default(),
    });
    let known = Router::new()
        .route("/live", get(live::stream))
        .route("/act", get(ask).merge(post(act)))
        .route("/done", get(what_was_done))
        .fallback(page)
        .layer(middleware::from_fn_with_state(shared.clone(), known));
    Router::new()
        .route("/login", get(login))
        .route(
            "/assets/style.css",
            get(async || asset("text/css; charset=utf-8", STYLE)),
        )
        .route(
            "/assets/live.js",
            get(async || asset("text/javascript; charset=utf-8", SCRIPT)),
        )
        .route("/assets/icon.svg", get(async || asset("image/svg+xml", ICON)))
        .merge(known)
        .layer(middleware::from_fn_with_state(shared.clone(), guard))
        .layer(DefaultBodyLimit::max(FORM_MAX))
        .with_state(shared)
}

/// Every request is ours or refused, and every answer says what a browser may do with it.
async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let mut response = match shared
        .door
        .is_ours(request.method(), request.uri().path(), request.headers())
    {
        Ok(()) => next.run(request).await,
        Err(refusal) => refused(refusal),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // Not "no-referrer": forms would have no origin then.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Only the browser that was let in.
async fn known(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    match shared.door.is_known(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => match view_of(request.uri()) {
            // Asked for by a page of ours, it comes with the cookie if there is one.
            Some(view) if Door::is_from_elsewhere(request.method(), request.headers()) => html(&pages::onward(&view)),
            _ => refused(refusal),
        },
    }
}

/// What a URL shows; nothing if it is none of ours.
fn view_of(uri: &Uri) -> Option<View> {
    View::parse(uri.path(), uri.query().unwrap_or_default())
}

async fn login(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let token = pairs
        .find(|(key, _)| key == "token")
        .map(|(_, token)| token)
        .unwrap_or_default();
    // Who is in already and opens the link once more is in.
    let entered = match shared.door.enter(&token) {
        Err(_) if shared.door.is_known(request.headers()).is_ok() => return html(&pages::onward(&View::fleet())),
        entered => entered,
    };
    match entered.map(HeaderValue::try_from) {
        Ok(Ok(cookie)) => {
            let mut response = html(&pages::onward(&View::fleet()));
            response.headers_mut().insert(header::SET_COOKIE, cookie);
            response
        }
        Ok(Err(_)) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Err(refusal) => refused(refusal),
    }
}

async fn page(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let Some(view) = view_of(request.uri()) else {
        let page = pages::refused("Not here", "The dashboard has no such page");
        return (StatusCode::NOT_FOUND, html(&page)).into_response();
    };
    if let View::Changes(name, from, to) = &view {
        let found = compare::snapshots(&shared.client, name, *from, *to).await;
        let site = shared.site();
        let page = pages::changes(&site, name, *from, *to, found);
        return html(&pages::whole(&site, &page, None, Some(&view)));
    }
    // A page that is opened asks for the rights that its buttons need; one that refreshes itself does not.
    for act in pages::acts(&shared.hub, &view) {
        shared.rights.check(&act.needs()).await;
    }
    let site = shared.site();
    let page = pages::page(&site, &view);
    html(&pages::whole(&site, &page, Some(&live::url(&view)), Some(&view)))
}

async fn ask(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let Some(act) = Act::parse(request.uri().query().unwrap_or_default().as_bytes()) else {
        return no_act();
    };
    shared.rights.check(&act.needs()).await;
    let effect = match &shared.actor {
        Some(actor) => preview(&shared, actor.as_ref(), &act).await,
        None => Ok(Effect::default()),
    };
    let site = shared.site();
    done(&site, &pages::asked(&site, &act, effect), &act)
}

/// What would happen: what is written by who would write it, and what that sets going by what is known.
async fn preview(shared: &Shared, actor: &dyn Actor, act: &Act) -> Result<Effect, String> {
    let more = match act {
        Act::Approve { request, run } => pages::approving(&shared.hub, request, run)?,
        _ => Vec::new(),
    };
    let mut effect = actor.preview(act).await?;
    effect.says.extend(more);
    Ok(effect)
}

async fn act(State(shared): State<Arc<Shared>>, body: String) -> Response {
    let mut pairs = form_urlencoded::parse(body.as_bytes());
    let said = pairs
        .find(|(key, _)| key == "form")
        .map(|(_, said)| said)
        .unwrap_or_default();
    if let Err(refusal) = shared.door.is_own_form(&said) {
        return refused(refusal);
    }
    let Some(act) = Act::parse(body.as_bytes()) else {
        return no_act();
    };
    let effect = match &shared.actor {
        Some(actor) => {
            // Who leaves the page does not end half of it.
            let (actor, act) = (actor.clone(), act.clone());
            let performed = tokio::spawn(async move { actor.perform(&act).await }).await;
            performed.unwrap_or_else(|error| Err(format!("it has ended before its end: {error}")))
        }
        None => Err("The dashboard was started with --read-only.".to_owned()),
    };
    // Whoever loads the next page again does nothing again.
    let number = shared.done.keep(act, effect);
    Redirect::to(&format!("/done?number={number}")).into_response()
}

async fn what_was_done(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let number = pairs.find(|(key, _)| key == "number").map(|(_, number)| number);
    let Some((act, effect)) = number.and_then(|number| shared.done.get(number.parse().ok()?)) else {
        let page = pages::refused("Not here", "The dashboard does not remember that any more");
        return (StatusCode::NOT_FOUND, html(&page)).into_response();
    };
    done(&shared.site(), &pages::done(&act, &effect), &act)
}

fn done(site: &Site<'_>, page: &Page, act: &Act) -> Response {
    html(&pages::whole(site, page, None, Some(&act.about())))
}

fn no_act() -> Response {
    let page = pages::refused("Not here", "The dashboard cannot do that");
    (StatusCode::BAD_REQUEST, html(&page)).into_response()
}

fn refused(refusal: Refusal) -> Response {
    (StatusCode::FORBIDDEN, html(&refusal.page())).into_response()
}

fn html(page: &Markup) -> Response {
    let mut response = Response::new(Body::from(page.0.clone()));
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
