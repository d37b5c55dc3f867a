//! A TCP proxy on loopback, to put faults between an agent and what it talks to: connections that break, connections that
//! stay open while nothing comes through, and another server behind the same address.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What the proxy does with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    target: SocketAddr,
    mode: Mode,
    /// Connections of an older generation are closed.
    generation: u64,
    delay: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Open,
    /// Connections stay open, new ones too, and nothing comes through.
    Stalled,
    /// New connections are closed at once.
    Closed,
}

/// Lives as long as the value; its connections end with it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Passes connections on to `host:port`.
    pub async fn to(target: &str) -> Result<Self> {
        let state = State {
            target: resolve(target).await?,
            mode: Mode::Open,
            generation: 0,
            delay: Duration::ZERO,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (state, seen) = watch::channel(state);
        let accepting = tokio::spawn(accept(listener, seen));
        Ok(Self {
            address,
            state,
            accepting,
        })
    }

    /// Where to connect, as `host:port`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Breaks every connection. New ones come through.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }

    /// Breaks every connection, and every new one until `heal`.
    pub fn close(&self) {
        self.state.send_modify(|state| {
            state.mode = Mode::Closed;
            state.generation += 1;
        });
    }

    /// Lets nothing through until `heal`, in either direction: half-open connections.
    pub fn stall(&self) {
        self.state.send_modify(|state| state.mode = Mode::Stalled);
    }

    /// Holds every piece of data back for this long.
    pub fn delay(&self, delay: Duration) {
        self.state.send_modify(|state| state.delay = delay);
    }

    /// Lets everything through again.
    pub fn heal(&self) {
        self.state.send_modify(|state| {
            state.mode = Mode::Open;
            state.delay = Duration::ZERO;
        });
    }

    /// Breaks every connection; new ones go to another server.
    pub async fn turn_to(&self, target: &str) -> Result<()> {
        let target = resolve(target).await?;
        self.state.send_modify(|state| {
            state.target = target;
            state.generation += 1;
        });
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn resolve(target: &str) -> Result<SocketAddr> {
    let mut found = tokio::net::lookup_host(target)
        .await
        .with_context(|| format!("no address: {target}"))?;
    found.next().with_context(|| format!("no address: {target}"))
}

async fn accept(listener: TcpListener, state: watch::Receiver<State>) {
    while let Ok((near, _)) = listener.accept().await {
        if state.borrow().mode != Mode::Closed {
            tokio::spawn(pass_on(near, state.clone()));
        }
    }
}

async fn pass_on(near: TcpStream, state: watch::Receiver<State>) {
    let generation = state.borrow().generation;
    let pumps = async {
        open(&mut state.clone()).await?;
        let target = state.borrow().target;
        let far = TcpStream::connect(target).await.ok()?;
        let (near_read, near_write) = near.into_split();
        let (far_read, far_write) = far.into_split();
        // Either direction's end is the end of both, as for a broken connection.
        tokio::select! {
            () = pump(near_read, far_write, state.clone()) => {}
            () = pump(far_read, near_write, state.clone()) => {}
        }
        Some(())
    };
    let mut cut = state.clone();
    tokio::select! {
        _ = pumps => {}
        _ = cut.wait_for(|state| state.generation != generation) => {}
    }
}

/// Waits until bytes may pass; none if the proxy is gone.
async fn open(state: &mut watch::Receiver<State>) -> Option<Duration> {
    let state = state.wait_for(|state| state.mode == Mode::Open).await.ok()?;
    Some(state.delay)
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut state: watch::Receiver<State>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        let Some(delay) = open(&mut state).await else {
            return;
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    /// A server that says its name once for every byte that it gets.
    async fn server(name: u8) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(
                    async move { while stream.read_u8().await.is_ok() && stream.write_u8(name).await.is_ok() {} },
                );
            }
        });
        address
    }

    async fn ask(stream: &mut TcpStream) -> std::io::Result<u8> {
        stream.write_u8(b'?').await?;
        stream.read_u8().await
    }

    #[tokio::test]
    async fn it_passes_cuts_stalls_and_turns() {
        let proxy = Proxy::to(&server(b'a').await).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(ask(&mut stream).await.unwrap(), b'a');

        proxy.stall();
        let silent = timeout(Duration::from_millis(50), ask(&mut stream)).await;
        assert!(silent.is_err(), "{silent:?}");
        proxy.heal();
        assert_eq!(stream.read_u8().await.unwrap(), b'a', "what was held back arrives");

        proxy.cut();
        assert!(ask(&mut stream).await.is_err());
        proxy.turn_to(&server(b'b').await).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(ask(&mut stream).await.unwrap(), b'b');

        proxy.close();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(ask(&mut stream).await.is_err());
    }
}
