//! An admission webhook in the test's own process, through which every write of the hub agent about one placement has to go.
//! It lets so many pass and holds the next, so that the agent can be killed between any two of its writes, exactly.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fleet_api::labels;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, PostParams};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::agents;
use crate::harness::Ctx;

/// The largest object that an API server sends, twice: as it was, and as it shall be.
const BODY_MAX: usize = 8 * 1024 * 1024;

/// How many writes may still pass, and whether one is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Pass(usize),
    Holding,
}

/// Lives as long as the value; its configuration is removed with `remove`.
#[derive(Debug)]
pub struct Gate {
    state: watch::Sender<State>,
    name: String,
    api: Api<ValidatingWebhookConfiguration>,
    serving: JoinHandle<()>,
}

impl Gate {
    /// A gate for the hub agent's writes about the placement of this name, and about the update run of this name, which lets
    /// `count` of them pass.
    pub async fn new(ctx: &Ctx, placement: &str, count: usize) -> Result<Self> {
        let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
        let tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}/", listener.local_addr()?);
        let state = watch::Sender::new(State::Pass(count));
        let serving = tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(tls)), state.clone()));
        let about = "(object == null ? oldObject : object).metadata";
        let labelled = |label: &str| {
            format!(
                "(has({about}.labels) && '{label}' in {about}.labels && {about}.labels['{label}'] == '{placement}')"
            )
        };
        let name = format!("{placement}-gate");
        let configuration = json!({
            "metadata": { "name": name },
            "webhooks": [{
                "name": "gate.example.com", "failurePolicy": "Fail", "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "timeoutSeconds": 30,
                "clientConfig": { "url": url, "caBundle": STANDARD.encode(certified.cert.pem()) },
                "rules": [{
                    "apiGroups": ["placement.kubernetes-fleet.io"], "apiVersions": ["*"], "operations": ["*"],
                    "resources": ["*/*"],
                }],
                "matchConditions": [
                    {
                        "name": "by-the-agent",
                        "expression": format!(
                            "request.userInfo.username == 'system:serviceaccount:{}:hub-agent-sa'", agents::NAMESPACE
                        ),
                    },
                    {
                        "name": "about-the-placement",
                        "expression": format!(
                            "{about}.name == '{placement}' || {} || {}",
                            labelled(labels::PARENT_PLACEMENT), labelled(labels::TARGET_UPDATE_RUN)
                        ),
                    },
                ],
            }],
        });
        let api = Api::<ValidatingWebhookConfiguration>::all(ctx.hub().await?);
        let made = api
            .create(&PostParams::default(), &serde_json::from_value(configuration)?)
            .await?;
        let gate = Self {
            state,
            name: made.name_any(),
            api,
            serving,
        };
        Ok(gate)
    }

    /// Resolves when all that may pass have, and one more is held.
    pub async fn held(&self) {
        let mut state = self.state.subscribe();
        if state.wait_for(|state| *state == State::Holding).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Refuses what is held, and lets everything pass from now on.
    pub async fn open(self) -> Result<()> {
        self.state.send_replace(State::Open);
        self.api.delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, state: watch::Sender<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, state) = (tls.clone(), state.clone());
        tokio::spawn(async move {
            // The API server closes its connections as it likes.
            let _ = answer(stream, &tls, &state).await;
        });
    }
}

/// HTTP/1.1, as much of it as an API server uses without ALPN.
async fn answer(stream: TcpStream, tls: &TlsAcceptor, state: &watch::Sender<State>) -> Result<()> {
    let mut stream = BufReader::new(tls.accept(stream).await?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            ensure!(stream.read_line(&mut line).await? > 0, "closed");
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some((key, value)) = line.split_once(':')
                && key.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse()?;
            }
        }
        ensure!(length <= BODY_MAX, "{length} bytes");
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let review: Value = serde_json::from_slice(&body)?;
        let uid = review["request"]["uid"].as_str().context("no uid")?;
        let response = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": { "uid": uid, "allowed": passes(state).await, "status": { "message": "held by the test" } },
        })
        .to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            response.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(response.as_bytes()).await?;
        stream.flush().await?;
    }
}

/// Whether a write may pass; one that may not is held until everything may.
async fn passes(state: &watch::Sender<State>) -> bool {
    let mut allowed = true;
    state.send_modify(|state| match state {
        State::Open => {}
        State::Pass(0) | State::Holding => {
            *state = State::Holding;
            allowed = false;
        }
        State::Pass(left) => *left -= 1,
    });
    if !allowed {
        let _ = state.subscribe().wait_for(|state| *state == State::Open).await;
    }
    allowed
}
