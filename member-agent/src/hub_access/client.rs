//! The client for the hub's API server, and the TLS configuration that the channel shares with it.

use std::{sync::Arc, task::Poll, time::Duration};

use fleet_runtime::{client, proxy::Way};
use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Request, header::AUTHORIZATION};
use kube::{Client, Config, client::ConfigExt};
use rustls::{ClientConfig, pki_types::pem::PemObject};
use tower::{BoxError, Layer, Service, ServiceBuilder};

use super::{
    credential::Credential,
    settings::{HubSettings, Trust},
};

/// A hub that is gone is noticed in seconds, and a slow network still gets through.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client for the hub's API server that proves itself anew with each request.
pub fn build(settings: &HubSettings, credential: &Credential) -> anyhow::Result<Client> {
    let config = Config::new(settings.server.clone());
    let way = Way::from_env(client::tcp());
    let https = hyper_rustls::HttpsConnector::from((way, Arc::new(tls(&settings.trust, credential)?)));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(ProveLayer(Arc::new(Prove {
            credential: credential.clone(),
            headers: settings.headers.clone(),
        })))
        .map_err(BoxError::from)
        .service(client::pool(https, CONNECT_TIMEOUT));
    Ok(Client::new(service, settings.cluster.namespace()))
}

/// How a server is judged and what it is shown.
pub fn tls(trust: &Trust, credential: &Credential) -> anyhow::Result<ClientConfig> {
    // kube's own builder knows the system's roots and how to accept anything.
    let mut config = Config::new(http::Uri::from_static("https://hub"));
    match trust {
        Trust::System => {}
        Trust::Anything => config.accept_invalid_certs = true,
        Trust::Bundle(pem) => {
            let all: Result<Vec<_>, _> = rustls::pki_types::CertificateDer::pem_slice_iter(pem.as_bytes())
                .map(|c| c.map(|c| c.to_vec()))
                .collect();
            config.root_cert = Some(all?);
        }
    }
    let mut tls = config.rustls_client_config()?;
    if let Credential::Certificate(files) = credential {
        tls.client_auth_cert_resolver = Arc::clone(files) as _;
    }
    Ok(tls)
}

struct Prove {
    credential: Credential,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Prove {
    fn sign<B>(&self, mut request: Request<B>) -> Result<Request<B>, BoxError> {
        if let Credential::Token(token) = &self.credential {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.current()?))?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        for (name, value) in &self.headers {
            if request.headers().contains_key(name) {
                return Err(format!("custom header \"{name}\" can't override other header").into());
            }
            request.headers_mut().insert(name, value.clone());
        }
        Ok(request)
    }
}

#[derive(Clone)]
struct ProveLayer(Arc<Prove>);

impl<S> Layer<S> for ProveLayer {
    type Service = ProveService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ProveService {
            prove: Arc::clone(&self.0),
            inner,
        }
    }
}

#[derive(Clone)]
struct ProveService<S> {
    prove: Arc<Prove>,
    inner: S,
}

impl<S, B> Service<Request<B>> for ProveService<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.prove.sign(request) {
            Err(error) => Box::pin(async move { Err(error) }),
            Ok(request) => {
                let answer = self.inner.call(request);
                Box::pin(async move { answer.await.map_err(Into::into) })
            }
        }
    }
}
