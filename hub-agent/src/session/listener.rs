//! The channel's TCP and TLS front door.
//!
//! tonic's own server TLS configuration is fixed at start; here each handshake takes the configuration of that
//! moment from a watch, so that a renewed certificate or client CA needs no restart. Handshakes run beside each
//! other, bounded in number and time: a peer that never finishes one holds a slot for ten seconds and nothing else.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::{Sleep, sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Peers that never finish cost a slot for a while each, so there are more than a thousand members that return at once
/// need; what is being computed shares the cores anyway.
const HANDSHAKES_MAX: usize = 1_024;
/// Connections that wait to be served.
const READY_MAX: usize = 64;
/// After `accept` fails (out of file descriptors), wait for connections to close instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection on which no session has been accepted by then is closed: nobody unknown keeps one.
const ADMISSION: Duration = Duration::from_secs(30);

/// Connections that are not older than that: more than all members of a large fleet that come back at once.
const STRANGERS_MAX: usize = 8_192;

/// A connection after its handshake.
pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    admitted: Arc<AtomicBool>,
    /// Until when it must be admitted; none once that is past.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Held until then: those of members are counted as sessions.
    place: Option<OwnedSemaphorePermit>,
}

/// What a service knows of its connection.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) tls: <TlsStream<TcpStream> as Connected>::ConnectInfo,
    /// Set when a session on it is accepted.
    pub(crate) admitted: Arc<AtomicBool>,
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        Peer {
            tls: self.stream.connect_info(),
            admitted: self.admitted.clone(),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            self.deadline = None;
            self.place = None;
            if !self.admitted.load(Ordering::Relaxed) {
                let late = io::Error::new(io::ErrorKind::TimedOut, "no session was accepted in time");
                return Poll::Ready(Err(late));
            }
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

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
        let places = Arc::new(Semaphore::new(STRANGERS_MAX));
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
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                tracing::warn!(%peer, "refused a connection: too many are not admitted yet");
                continue;
            };
            let send = send.clone();
            tokio::spawn(async move {
                let _slot = slot;
                // Reports are small and latency counts.
                let _ = stream.set_nodelay(true);
                match timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(config).accept(stream)).await {
                    Ok(Ok(stream)) => {
                        let connection = Connection {
                            stream,
                            admitted: Arc::default(),
                            deadline: Some(Box::pin(sleep(ADMISSION))),
                            place: Some(place),
                        };
                        _ = send.send(Ok(connection)).await;
                    }
                    Ok(Err(error)) => tracing::info!(%peer, %error, "TLS handshake failed"),
                    Err(_) => tracing::info!(%peer, "TLS handshake timed out"),
                }
            });
        }
    });
    ReceiverStream::new(receive)
}
