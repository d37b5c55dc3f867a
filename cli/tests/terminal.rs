//! Live screens in a terminal, with an API server that takes connections and never answers.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use nix::{
    pty::{OpenptyResult, Winsize, openpty},
    sys::{
        signal::{Signal, kill},
        termios::{LocalFlags, tcgetattr},
    },
    unistd::Pid,
};

/// Far more than any of it takes.
const LONG: Duration = Duration::from_mins(1);
const ENTERED: &str = "\x1b[?1049h";
const LEFT: &str = "\x1b[?1049l";

/// A screen in a terminal of its own.
struct Screen {
    child: Child,
    terminal: OwnedFd,
    keyboard: File,
    pieces: mpsc::Receiver<String>,
    seen: String,
    /// It listens, and nobody ever accepts.
    _server: TcpListener,
    _folder: tempfile::TempDir,
}

impl Screen {
    fn open(args: &[&str]) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = server.local_addr().expect("an address");
        let folder = tempfile::tempdir().expect("a directory");
        let kubeconfig = folder.path().join("config");
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: hub\nclusters: [{{ name: hub, cluster: {{ server: 'http://{address}' }} }}]\n\
             contexts: [{{ name: hub, context: {{ cluster: hub, user: u }} }}]\nusers: [{{ name: u, user: {{}} }}]\n"
        );
        std::fs::write(&kubeconfig, config).expect("it can be written");
        let window = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let OpenptyResult { master, slave } = openpty(Some(&window), None).expect("a terminal");
        let side = || Stdio::from(slave.try_clone().expect("a copy"));
        let child = Command::new(env!("CARGO_BIN_EXE_kubectl-fleet"))
            .args(args)
            .env("KUBECONFIG", &kubeconfig)
            .env("TERM", "xterm")
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .expect("it starts");
        let keyboard = File::from(master.try_clone().expect("a copy"));
        let mut shown = File::from(master);
        let (sender, pieces) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = shown.read(&mut buffer) {
                if sender
                    .send(String::from_utf8_lossy(&buffer[..length]).into_owned())
                    .is_err()
                {
                    break;
                }
            }
        });
        Self {
            child,
            // The slave stays open: what the terminal is like is asked after the child has gone.
            terminal: slave,
            keyboard,
            pieces,
            seen: String::new(),
            _server: server,
            _folder: folder,
        }
    }

    fn until(&mut self, wanted: &str) {
        let end = Instant::now() + LONG;
        while !self.seen.contains(wanted) {
            let left = end.saturating_duration_since(Instant::now());
            let piece = self.pieces.recv_timeout(left);
            self.seen += &piece.unwrap_or_else(|_| panic!("{wanted:?} has not come: {:?}", self.seen));
        }
    }

    /// Its exit status; none if a signal ended it.
    fn ended(&mut self) -> Option<i32> {
        let end = Instant::now() + LONG;
        loop {
            if let Some(status) = self.child.try_wait().expect("it is a child") {
                return status.code();
            }
            if let Ok(piece) = self.pieces.recv_timeout(Duration::from_millis(20)) {
                self.seen += &piece;
            }
            assert!(Instant::now() < end, "it does not end: {:?}", self.seen);
        }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard
            .write_all(keys.as_bytes())
            .expect("the terminal takes keys");
    }

    #[track_caller]
    fn assert_as_it_was(&mut self) {
        self.until(LEFT);
        let modes = tcgetattr(&self.terminal).expect("it is a terminal").local_flags;
        assert!(modes.contains(LocalFlags::ICANON | LocalFlags::ECHO), "{modes:?}");
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn the_terminal_is_as_it_was_once_the_time_is_up() {
    for args in [
        ["top", "--timeout", "1s"].as_slice(),
        &["rollout", "watch", "crp/web", "--timeout", "1s"],
    ] {
        let mut screen = Screen::open(args);
        screen.until(ENTERED);
        assert_eq!(screen.ended(), Some(124), "{args:?}");
        screen.assert_as_it_was();
        screen.until("the time is up");
    }
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was_too() {
    let mut screen = Screen::open(&["top"]);
    screen.until("reading");
    let child = Pid::from_raw(i32::try_from(screen.child.id()).expect("a process"));
    kill(child, Signal::SIGTERM).expect("it is there");
    assert_eq!(screen.ended(), Some(1));
    screen.assert_as_it_was();
}

#[test]
fn a_frozen_server_is_said_and_keys_work() {
    let mut screen = Screen::open(&["top"]);
    screen.until("stale since");
    screen.press("q");
    assert_eq!(screen.ended(), Some(0));
    screen.assert_as_it_was();
}
