//! The webhooks: what people write is judged before it is stored.
//!
//! ```text
//! API server ── AdmissionReview ──► server ─► review ─► judge ─► rules of fleet_core::admission
//!     ▲                              TLS of             ▲
//!     │ configurations                the moment        └─ stores, kinds, what was let in a moment ago
//!     └── register (the leader) ◄── certificates
//! ```
//!
//! Every replica answers, from what it knows already: no request costs a list. Nothing that the hub or the agent needs to
//! start or to recover meets a webhook, nor does anything that leaves the spec of an object alone.

mod bodies;
mod callers;
pub(crate) mod configuration;
mod decoded;
mod hooks;
mod judge;
mod recent;
mod register;
mod review;
mod server;
#[cfg(test)]
mod tests;

use std::path::Path;

use fleet_core::selection::apis::Apis;
use fleet_runtime::{cache::Era, health::Health, shutdown::Tasks};
use kube::Client;
use tokio::{net::TcpListener, sync::watch};

use self::{
    configuration::At,
    judge::Judge,
    register::{Owner, Registration, Stores},
};
use crate::{
    cache::{family::Placements, user::Catalogue},
    certificates::{self, Certificate, Source},
    options::{ConnectionType, WebhookArgs},
};

/// The API server connects with it.
static CERTIFICATE: Certificate = Certificate {
    server: "webhook",
    peers: "the API server",
    secret: "fleet-webhook-tls",
    protocols: &["http/1.1"],
    client_certificates: false,
};
/// Where cert-manager's certificate is mounted.
const MOUNTED: &str = "/tmp/k8s-webhook-server/serving-certs";
/// cert-manager's Certificate.
const INJECTED_FROM: &str = "fleet-webhook-certificate";

/// What the webhooks are made of.
pub(crate) struct Deps {
    pub(crate) client: Client,
    pub(crate) era: Era,
    pub(crate) stores: Placements,
    pub(crate) apis: Apis,
    /// Whether members are asked what they export before they leave.
    pub(crate) networking: bool,
    pub(crate) namespace: String,
    pub(crate) kept_with: certificates::Deps,
}

/// Serves the webhooks, and as the leader registers them. `health` says when both is so.
pub(crate) fn start(args: &WebhookArgs, deps: Deps, listener: TcpListener, health: &Health, tasks: &mut Tasks) {
    let Deps {
        client,
        era,
        stores,
        apis,
        networking,
        namespace,
        kept_with,
    } = deps;
    let leading = kept_with.leading.clone();
    let (current, keeper) = certificates::keep(&CERTIFICATE, source(args, &namespace), kept_with);
    tasks.spawn_endless("webhook certificate", keeper);

    let registered = Stores::new();
    tasks.spawn_endless("webhook configurations", registered.clone().watch(client.clone(), era));
    let registration = Registration {
        client: client.clone(),
        stores: registered.clone(),
        at: match args.webhook_client_connection_type {
            ConnectionType::Url => At::Address(args.address(&namespace)),
            ConnectionType::Service => At::Service {
                namespace: namespace.clone(),
                name: args.webhook_service_name.clone(),
            },
        },
        injected_from: args.use_cert_manager.then(|| format!("{namespace}/{INJECTED_FROM}")),
        owner: match &*args.webhook_owner {
            "" => Owner::Namespace(namespace),
            role => Owner::ClusterRole(role.to_owned()),
        },
        networking,
    };
    tasks.spawn_endless("webhook registration", registration.run(current.ca.clone(), leading));

    let (served, serving) = watch::channel(None);
    let following = register::follow(
        registered,
        (current.tls, current.ca),
        args.use_cert_manager,
        served,
        health.check("webhook-server"),
    );
    tasks.spawn_endless("webhook readiness", following);

    let judge = Judge {
        kinds: Catalogue::new(client.clone(), apis.clone()),
        client,
        stores,
        apis,
        networking,
        recent: std::sync::Arc::default(),
    };
    let stop = tasks.stop().clone();
    tasks.spawn_forever("webhook server", server::serve(judge, listener, serving, stop));
}

/// Without webhooks: takes back what was registered.
pub(crate) fn withdraw(client: Client, leading: watch::Receiver<bool>, tasks: &mut Tasks) {
    tasks.spawn_endless("webhook withdrawal", register::withdraw(client, leading));
}

/// Where the certificate comes from.
fn source(args: &WebhookArgs, namespace: &str) -> Source {
    if args.use_cert_manager {
        let file = |name: &str| Path::new(MOUNTED).join(name);
        return Source::Files {
            cert: file("tls.crt"),
            key: file("tls.key"),
            ca: file("ca.crt"),
        };
    }
    let service = format!("{}.{namespace}.svc", args.webhook_service_name);
    let further = [service.clone(), format!("{service}.cluster.local")];
    Source::Own {
        namespace: namespace.to_owned(),
        hosts: certificates::hosts(&args.address(namespace), &further),
    }
}
