//! The channel's TCP and TLS front door.
//!
//! tonic's own server TLS configuration is fixed at start; here each handshake takes the configuration of that
//! moment from a watch, so that a renewed certificate or client CA needs no restart. The accept loop waits for nothing but
//! the next connection: handshakes run beside each other, and [`super::guests`] bounds how many connections there are.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    time::{Sleep, sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::server::Connected;

use super::guests::{Door, Guests};
use crate::certificates::Tls;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that wait to be served.
const READY_MAX: usize = 64;
/// After `accept` fails (out of file descriptors), wait for connections to close instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection on which no session has been accepted by then is closed: nobody unknown keeps one. A little more than a
/// Hello may take.
const ADMISSION: Duration = Duration::from_secs(15);

/// A connection after its handshake.
pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    door: Arc<Door>,
    shut: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Until when it must be admitted; none once that is past.
    deadline: Option<Pin<Box<Sleep>>>,
}

/// What a service knows of its connection.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) tls: <TlsStream<TcpStream> as Connected>::ConnectInfo,
    pub(crate) door: Arc<Door>,
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        Peer {
            tls: self.stream.connect_info(),
            door: self.door.clone(),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.shut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            self.deadline = None;
            if !self.door.is_admitted() {
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

/// Accepted connections, until the receiver is dropped.
pub(crate) fn accept(
    listener: TcpListener,
    config: watch::Receiver<Option<Tls>>,
) -> ReceiverStream<io::Result<Connection>> {
    let (send, receive) = mpsc::channel(READY_MAX);
    tokio::spawn(async move {
        let guests = Guests::default();
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
            let Some(tls) = config.borrow().clone() else {
                tracing::warn!(%peer, "refused a connection: there is no serving certificate yet");
                continue;
            };
            let door = guests.enter(peer.ip());
            tokio::spawn(greet(stream, peer, tls, door, send.clone()));
        }
    });
    ReceiverStream::new(receive)
}

/// One handshake.
async fn greet(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Tls,
    door: Arc<Door>,
    send: mpsc::Sender<io::Result<Connection>>,
) {
    // Reports are small and latency counts.
    let _ = stream.set_nodelay(true);
    let handshake = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(tls.config).accept(stream));
    let shaken = tokio::select! {
        shaken = handshake => shaken,
        () = door.shut().cancelled_owned() => return,
    };
    match shaken {
        Ok(Ok(stream)) => {
            let connection = Connection {
                stream,
                shut: Box::pin(door.shut().cancelled_owned()),
                door,
                deadline: Some(Box::pin(sleep(ADMISSION))),
            };
            _ = send.send(Ok(connection)).await;
        }
        Ok(Err(error)) => tracing::info!(%peer, %error, "TLS handshake failed"),
        Err(_) => tracing::info!(%peer, "TLS handshake timed out"),
    }
}
