//! The channel's TCP and TLS front door.
//!
//! tonic's own server TLS configuration is fixed at start; here each handshake takes the configuration of that
//! moment from a watch, so that a renewed certificate or client CA needs no restart. Handshakes run beside each
//! other, bounded in number and time: a peer that never finishes one holds a slot for ten seconds and nothing else.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc, watch},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::wrappers::ReceiverStream;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Peers that never finish cost a slot for a while each, so there are more than a thousand members that return at once
/// need; what is being computed shares the cores anyway.
const HANDSHAKES_MAX: usize = 1_024;
/// Connections that wait to be served.
const READY_MAX: usize = 64;
/// After `accept` fails (out of file descriptors), wait for connections to close instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection after its handshake.
pub(crate) type Connection = TlsStream<TcpStream>;

/// Binds `address`; the error names it.
pub async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|e| {
        anyhow::anyhow!("cannot listen for members on {address}: {e}; choose another --channel-bind-address")
    })
}

/// Accepted connections, until the receiver is dropped.
pub(crate) fn accept(
    listener: TcpListener,
    config: watch::Receiver<Option<Arc<ServerConfig>>>,
) -> ReceiverStream<io::Result<Connection>> {
    let (send, receive) = mpsc::channel(READY_MAX);
    tokio::spawn(async move {
        let slots = Arc::new(Semaphore::new(HANDSHAKES_MAX));
        loop {
            let accepted = tokio::select! {
                () = send.closed() => return,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(pair) => pair,
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(config) = config.borrow().clone() else {
                tracing::warn!(%peer, "refused a connection: there is no serving certificate yet");
                continue;
            };
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                return;
            };
            let send = send.clone();
            tokio::spawn(async move {
                let _slot = slot;
                // Reports are small and latency counts.
                let _ = stream.set_nodelay(true);
                match timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(config).accept(stream)).await {
                    Ok(Ok(connection)) => _ = send.send(Ok(connection)).await,
                    Ok(Err(error)) => tracing::info!(%peer, %error, "TLS handshake failed"),
                    Err(_) => tracing::info!(%peer, "TLS handshake timed out"),
                }
            });
        }
    });
    ReceiverStream::new(receive)
}
