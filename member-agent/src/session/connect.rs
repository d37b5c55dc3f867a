//! Reaching the hub agent: TLS first, then our credential, then Hello.

use std::{sync::Arc, time::Duration};

use fleet_proto::{
    convert::{Accept, FromMember, Hello, HubMessage, MemberMessage},
    limits, pb,
    pb::fleet_channel_client::FleetChannelClient,
};
use fleet_runtime::proxy::Way;
use http::{HeaderValue, Uri, header::AUTHORIZATION};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{sync::mpsc, time::timeout};
use tokio_rustls::TlsConnector;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Request, Streaming,
    metadata::MetadataMap,
    transport::{Channel, Endpoint as Transport},
};
use tower::{BoxError, Service as _};

use super::end::End;
use crate::hub_access::{client, credential::Credential, endpoint::Endpoint, settings::HubSettings};

/// A hub that is gone is noticed in seconds, and a slow network still gets through.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer to a keep-alive may take. Whatever the period: no link that people use is slower than the lower
/// bound, and a session that a slow link ends with every ping would never stay.
const ALIVE_TIMEOUT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(10));
/// The hub reads and writes objects before it answers.
pub(super) const HELLO_TIMEOUT: Duration = Duration::from_secs(20);
/// Messages between us and the connection. Few, so that the newest state is chosen late.
const BUFFER: usize = 4;

/// An open stream, both ways.
pub(super) struct Link {
    pub(super) send: mpsc::Sender<pb::MemberMessage>,
    pub(super) receive: Streaming<pb::HubMessage>,
}

/// Connects. The server's certificate has been verified when this returns, and no credential has been sent; a client
/// certificate only after that verification.
pub(super) async fn connect(endpoint: &Endpoint, credential: &Credential, period: Duration) -> Result<Channel, End> {
    let address = format!("{}:{}", endpoint.host, endpoint.port);
    let failed = |error: String| End::Connect {
        address: address.clone(),
        error,
    };
    let mut tls = client::tls(&endpoint.trust, credential).map_err(|e| failed(format!("{e:#}")))?;
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from(endpoint.host.clone()).map_err(|e| failed(e.to_string()))?;
    let (tls, port) = (TlsConnector::from(Arc::new(tls)), endpoint.port);
    let authority = if endpoint.host.contains(':') {
        format!("[{}]:{port}", endpoint.host)
    } else {
        address.clone()
    };
    let uri = |scheme: &str| {
        format!("{scheme}://{authority}")
            .parse::<Uri>()
            .map_err(|e| failed(e.to_string()))
    };
    let (way, hub) = (Way::from_env(fleet_runtime::client::tcp()), uri("https")?);
    let connector = tower::service_fn(move |_: Uri| {
        let (mut way, hub, tls, name) = (way.clone(), hub.clone(), tls.clone(), name.clone());
        async move {
            let stream = way.call(hub).await?.into_inner();
            let stream = tls.connect(name, stream).await?;
            Ok::<_, BoxError>(TokioIo::new(stream))
        }
    });
    // Asked below the period, so that a dead connection costs few heartbeats. The scheme is plain for tonic because the
    // connector brings TLS.
    let alive = (period / 3).clamp(Duration::from_millis(300), Duration::from_secs(20));
    let transport = Transport::from(uri("http")?)
        .origin(uri("https")?)
        .http2_keep_alive_interval(alive)
        .keep_alive_timeout(alive.clamp(ALIVE_TIMEOUT.0, ALIVE_TIMEOUT.1))
        .keep_alive_while_idle(true);
    let connecting = transport.connect_with_connector(connector);
    match timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(channel)) => Ok(channel),
        Ok(Err(error)) => Err(failed(causes(&error))),
        Err(_) => Err(failed(format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()))),
    }
}

/// Says Hello and waits for the answer.
pub(super) async fn hello(
    channel: Channel,
    settings: &HubSettings,
    credential: &Credential,
    hello: Hello,
) -> Result<(Link, Accept), End> {
    let (send, messages) = mpsc::channel(BUFFER);
    let message = FromMember {
        seq: 1,
        epoch: 0,
        body: MemberMessage::Hello(hello),
    };
    // There is room: nothing else has been sent.
    let _ = send.try_send(message.into());
    let mut request = Request::new(ReceiverStream::new(messages));
    *request.metadata_mut() = metadata(settings, credential)?;
    let mut client = FleetChannelClient::new(channel)
        .max_decoding_message_size(limits::MESSAGE_BYTES)
        .max_encoding_message_size(limits::MESSAGE_BYTES);
    let answer = async {
        let mut receive = client.session(request).await?.into_inner();
        let first = receive.message().await?;
        Ok::<_, tonic::Status>((receive, first))
    };
    let (receive, first) = timeout(HELLO_TIMEOUT, answer)
        .await
        .map_err(|_| End::Silent(HELLO_TIMEOUT.as_secs()))??;
    match first.map(HubMessage::try_from) {
        None => Err(End::Closed),
        Some(Ok(HubMessage::Accept(accept))) => Ok((Link { send, receive }, accept)),
        Some(Ok(HubMessage::Reject(reject))) => Err(reject.into()),
        Some(Ok(_)) => Err(End::Broken(
            "the hub's first message is neither Accept nor Reject".to_owned(),
        )),
        Some(Err(invalid)) => Err(End::Broken(format!("the hub's first message: {invalid}"))),
    }
}

/// Our credential of this moment, and the headers that every request to the hub carries.
fn metadata(settings: &HubSettings, credential: &Credential) -> Result<MetadataMap, End> {
    let mut headers = http::HeaderMap::new();
    if let Credential::Token(token) = credential {
        let token = token.current().map_err(|e| End::NoCredential(e.to_string()))?;
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| End::NoCredential("the token has characters that no header may have".to_owned()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    for (name, value) in &settings.headers {
        if headers.contains_key(name) {
            return Err(End::NoCredential(format!(
                "custom header \"{name}\" can't override other header"
            )));
        }
        let mut value = value.clone();
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(MetadataMap::from_headers(headers))
}

/// An error and what it came from: tonic's own text alone says nothing.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if texts.last() != Some(&text) {
            texts.push(text);
        }
        next = error.source();
    }
    texts.join(": ")
}
