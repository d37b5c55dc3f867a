//! An HTTP proxy on loopback, as companies have them, that remembers whom it was asked to connect to.

use anyhow::{Context as _, Result};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::wait::PATIENCE;

/// Lives as long as the value.
#[derive(Debug)]
pub struct Tunnel {
    url: String,
    asked: UnboundedReceiver<String>,
    accepting: JoinHandle<()>,
}

impl Tunnel {
    /// Begins to listen.
    pub async fn new() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (seen, asked) = unbounded_channel();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, seen.clone()));
            }
        });
        Ok(Self { url, asked, accepting })
    }

    /// What `HTTPS_PROXY` has to say.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Waits until it is asked for this `host:port`.
    pub async fn until_asked(&mut self, target: &str) -> Result<()> {
        let asked = async {
            while self.asked.recv().await.context("the proxy has ended")? != target {}
            anyhow::Ok(())
        };
        let late = || format!("the proxy was not asked for {target}");
        timeout(PATIENCE, asked).await.with_context(late)?
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// What an HTTP proxy does with CONNECT.
async fn connect(client: TcpStream, seen: UnboundedSender<String>) -> Result<()> {
    let mut client = BufReader::new(client);
    let mut line = String::new();
    client.read_line(&mut line).await?;
    let target = line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let mut header = String::new();
    while client.read_line(&mut header).await? > 0 && header != "\r\n" {
        header.clear();
    }
    let mut server = TcpStream::connect(&target).await?;
    let _ = seen.send(target);
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
