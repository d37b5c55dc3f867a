//! `kubectl fleet` on a terminal, as somebody sees it who sits before it: keys go in, and what is drawn comes out.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::termios::{LocalFlags, tcgetattr};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use crate::agents::program;
use crate::harness::Ctx;
use crate::wait::PATIENCE;

/// Wide and high enough that nothing is cut off.
const SIZE: Winsize = Winsize {
    ws_row: 50,
    ws_col: 200,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

/// A program on a terminal of its own. It ends with this value.
#[derive(Debug)]
pub struct Screen {
    child: Child,
    keyboard: File,
    line: OwnedFd,
    pieces: mpsc::UnboundedReceiver<String>,
    /// What was drawn since the last word that was waited for.
    drawn: String,
}

impl Screen {
    /// `kubectl fleet` with all rights on the hub.
    pub fn open(ctx: &Ctx, args: &[&str]) -> Result<Self> {
        let context = &ctx.fleet().cluster("hub")?.context;
        let kubeconfig = ctx.fleet().state().kubeconfig.clone().context("a local fleet")?;
        let OpenptyResult { master, slave } = openpty(Some(&SIZE), None)?;
        let side = || Ok::<_, std::io::Error>(Stdio::from(slave.try_clone()?));
        let child = Command::new(program("kubectl-fleet")?)
            .args(args)
            .args(["--context", context])
            .env("KUBECONFIG", kubeconfig)
            .env("TERM", "xterm")
            .stdin(side()?)
            .stdout(side()?)
            .stderr(side()?)
            .kill_on_drop(true)
            .spawn()?;
        let keyboard = File::from(master.try_clone()?);
        let mut shown = File::from(master);
        let (sender, pieces) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = shown.read(&mut buffer) {
                let piece = buffer.get(..length).unwrap_or_default();
                if sender.send(String::from_utf8_lossy(piece).into_owned()).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            child,
            keyboard,
            line: slave,
            pieces,
            drawn: String::new(),
        })
    }

    /// Waits until a word is drawn that was not there before. Only one word: what is between words need not be drawn again.
    pub async fn until_it_says(&mut self, word: &str) -> Result<()> {
        // What goes on being drawn, such as an age, does not prolong it.
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.drawn.find(word) {
                self.drawn.drain(..at + word.len());
                return Ok(());
            }
            match timeout_at(until, self.pieces.recv()).await {
                Ok(Some(piece)) => self.drawn += &piece,
                _ => bail!("{word:?} is not drawn: {:?}", self.drawn),
            }
        }
    }

    /// Presses keys, one after the other.
    pub fn press(&mut self, keys: &str) -> Result<()> {
        Ok(self.keyboard.write_all(keys.as_bytes())?)
    }

    /// Waits until it ends by itself, and looks whether the terminal is as it was.
    pub async fn ends_with(&mut self, code: i32) -> Result<()> {
        let status = timeout(PATIENCE, self.child.wait()).await;
        let status = status.with_context(|| format!("it does not end: {:?}", self.drawn))??;
        ensure!(status.code() == Some(code), "{status:?} instead of {code}");
        let modes = tcgetattr(&self.line)?.local_flags;
        ensure!(modes.contains(LocalFlags::ICANON | LocalFlags::ECHO), "{modes:?}");
        Ok(())
    }
}
