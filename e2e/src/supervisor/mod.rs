//! Owns the processes of a fleet: starts the clusters, serves the control socket, stops everything in order.
//!
//! It runs in the process of `fleet-local supervise` (detached, after `up`) or `fleet-local run`, on the main thread (see
//! `process`). While it lives it holds the lock of the fleet directory and that of the data directory; whoever finds them
//! unlocked knows that it is gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use futures::future::try_join_all;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;

use crate::binaries::Binaries;
use crate::cluster::kubeconfig::{self, Entry};
use crate::cluster::{ClusterSpec, Role, Site, Started, certs};
use crate::fleet::control::{ProcessStatus, Reply, Request};
use crate::fleet::crds;
use crate::fleet::state::{ClusterState, Kind, State};
use crate::lock::Lock;
use crate::process::table::Table;
use crate::rundir::{RunDir, random_id};
use crate::{disk, rundir};

/// etcd preallocates two 64 MB segments per cluster, and some room to grow.
const BYTES_PER_CLUSTER: u64 = 200 << 20;
/// What `down` removes from a fleet directory; nothing else in there is ours.
const OWN_ENTRIES: [&str; 9] = [
    "state.json",
    "state.new",
    "kubeconfig",
    "kubeconfig.new",
    "pki",
    "conf",
    "logs",
    "supervisor.log",
    "lock",
];

/// A fleet that this process owns.
#[derive(Debug)]
pub struct Supervisor {
    dir: PathBuf,
    binaries: Binaries,
    crds: Vec<Value>,
    data: RunDir,
    run_id: String,
    table: Table,
    clusters: Mutex<Vec<Started>>,
    down: Notify,
    _lock: Lock,
}

impl Supervisor {
    /// Takes possession of the fleet directory, removing what a killed predecessor left there.
    pub fn new(dir: &Path, binaries: Binaries, clusters: usize) -> Result<Self> {
        crate::process::setpriv()?;
        let crds = crds::load(&crds::dir())?;
        let dir = prepare_dir(dir)?;
        let Some(lock) = Lock::try_take(&dir.join("lock"))? else {
            bail!(
                "a fleet runs in {} already; stop it with `fleet-local down`",
                dir.display()
            );
        };
        clean_up(&dir);
        let run_id = random_id();
        let room = BYTES_PER_CLUSTER * u64::try_from(clusters)?;
        let data = RunDir::create(&disk::data_root_with_room(room)?, &run_id)?;
        let table = Table::new(&run_id);
        let (clusters, down) = (Mutex::default(), Notify::new());
        Ok(Self {
            dir,
            binaries,
            crds,
            data,
            run_id,
            table,
            clusters,
            down,
            _lock: lock,
        })
    }

    /// The fleet directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The binaries in use.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// Starts the clusters, all at once, with their CRDs; `progress` hears of each one that is ready.
    pub async fn start(&self, specs: &[ClusterSpec], progress: impl Fn(&str)) -> Result<()> {
        let started = try_join_all(specs.iter().map(|spec| async {
            let begun = std::time::Instant::now();
            let started = self.start_one(spec).await?;
            let nodes = spec.nodes.count;
            progress(&format!(
                "{} ready after {:.1} s ({nodes} nodes)",
                spec.name,
                begun.elapsed().as_secs_f32()
            ));
            Ok::<_, anyhow::Error>(started)
        }))
        .await?;
        *self.clusters() = started;
        self.publish()
    }

    async fn start_one(&self, spec: &ClusterSpec) -> Result<Started> {
        spec.validate()?;
        let site = Site {
            binaries: &self.binaries,
            table: &self.table,
            dir: &self.dir,
            data: self.data.path(),
        };
        let started = site.start(spec).await?;
        crds::install(&started.client.0, &crds::for_role(&self.crds, spec.role)).await?;
        Ok(started)
    }

    /// Writes the kubeconfig and the state file, by which others find the fleet.
    fn publish(&self) -> Result<()> {
        let clusters = self.clusters();
        let entries = clusters
            .iter()
            .map(|c| Entry {
                context: &c.spec.name,
                server: &c.server,
                pki: &c.pki,
                identity: certs::ADMIN,
            })
            .collect::<Vec<_>>();
        let path = self.dir.join("kubeconfig");
        kubeconfig::write(&path, &kubeconfig::build(&entries)?)?;
        let kind = Kind::Local {
            run_id: self.run_id.clone(),
            pid: std::process::id().cast_signed(),
            control: self.socket(),
            data: self.data.path().to_owned(),
        };
        let states = clusters.iter().map(|c| ClusterState {
            name: c.spec.name.clone(),
            role: c.spec.role,
            context: c.spec.name.clone(),
            audit_log: c
                .spec
                .audit
                .then(|| self.dir.join("logs").join(&c.spec.name).join("audit.log")),
        });
        State::new(kind, Some(path), self.binaries.kubectl.clone(), states.collect()).write(&self.dir)
    }

    fn socket(&self) -> PathBuf {
        // Not in the fleet directory: the path of a socket may have 107 bytes only.
        self.data.path().join("control.sock")
    }

    fn clusters(&self) -> std::sync::MutexGuard<'_, Vec<Started>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the control socket: from here on somebody can ask, and is answered once it is served.
    pub fn listen(&self) -> Result<UnixListener> {
        UnixListener::bind(self.socket()).context("cannot open the control socket")
    }

    /// Serves the control socket until somebody asks for the end.
    pub async fn serve(self: &Rc<Self>, listener: UnixListener) -> Result<()> {
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                loop {
                    tokio::select! {
                        connection = listener.accept() => {
                            let (stream, _) = connection.context("the control socket failed")?;
                            let this = Rc::clone(self);
                            tokio::task::spawn_local(async move {
                                if let Err(error) = this.answer(stream).await {
                                    tracing::warn!(%error, "A control connection failed");
                                }
                            });
                        }
                        () = self.down.notified() => return Ok(()),
                    }
                }
            })
            .await
    }

    async fn answer(&self, stream: UnixStream) -> Result<()> {
        let (read, mut write) = stream.into_split();
        let Some(line) = BufReader::new(read).lines().next_line().await? else {
            return Ok(());
        };
        let request: Request = serde_json::from_str(&line)?;
        tracing::info!(?request, "Asked");
        let down = request == Request::Down;
        let reply = match self.act(request).await {
            Ok(value) => Reply::Done(value),
            Err(error) => Reply::Failed(format!("{error:#}")),
        };
        let mut line = serde_json::to_vec(&reply)?;
        line.push(b'\n');
        let sent = write.write_all(&line).await;
        if down {
            self.down.notify_one();
        }
        Ok(sent?)
    }

    async fn act(&self, request: Request) -> Result<Value> {
        match request {
            Request::Status => return Ok(serde_json::to_value(self.status())?),
            Request::AddMember(spec) => self.add_member(spec).await?,
            Request::RemoveMember(name) => self.remove_member(&name).await?,
            Request::Start(spec) => self.table.start(spec)?.ready().await?,
            Request::StartAgain(name) => self.table.get(&name)?.start_again().await?,
            Request::Stop(name) => self.table.stop(&name).await?,
            Request::Restart(name) => self.table.restart(&name).await?,
            Request::Kill(name) => self.table.get(&name)?.kill().await,
            Request::Pause(name) => self.table.get(&name)?.pause(),
            Request::Resume(name) => self.table.get(&name)?.resume(),
            Request::Down => {}
        }
        Ok(Value::Null)
    }

    fn status(&self) -> Vec<ProcessStatus> {
        let status = |p: std::sync::Arc<crate::process::Process>| ProcessStatus {
            name: p.spec().name.clone(),
            state: p.state(),
            log: p.spec().log.clone(),
        };
        self.table.all().into_iter().map(status).collect()
    }

    async fn add_member(&self, spec: ClusterSpec) -> Result<()> {
        if spec.role != Role::Member {
            bail!("a fleet has one hub");
        }
        if !self.table.of_cluster(&spec.name).is_empty() {
            bail!("there is a cluster {} already", spec.name);
        }
        let started = self.start_one(&spec).await?;
        self.clusters().push(started);
        self.publish()
    }

    async fn remove_member(&self, name: &str) -> Result<()> {
        let known = |c: &Started| c.spec.name == name && c.spec.role == Role::Member;
        if !self.clusters().iter().any(known) {
            bail!("there is no member {name}");
        }
        // First out of the state file, so that nobody finds a cluster that is just stopping.
        self.clusters().retain(|c| !known(c));
        self.publish()?;
        self.table.stop_cluster(name).await;
        for dir in [
            self.data.path().to_owned(),
            self.dir.join("pki"),
            self.dir.join("conf"),
            self.dir.join("logs"),
        ] {
            let _ = fs::remove_dir_all(dir.join(name));
        }
        Ok(())
    }

    /// Stops all processes and removes everything but the logs, and these too unless they are to be kept.
    pub async fn stop(&self, keep_logs: bool) {
        State::remove(&self.dir);
        self.table.stop_all().await;
        remove_own_entries(&self.dir, if keep_logs { &["logs", "supervisor.log"] } else { &[] });
    }
}

/// Makes the fleet directory and finds out at once whether one can write there.
fn prepare_dir(dir: &Path) -> Result<PathBuf> {
    let dir = std::path::absolute(dir)?;
    fs::create_dir_all(&dir).map_err(|e| disk::explain(e, &dir))?;
    let probe = dir.join("state.new");
    fs::write(&probe, "")
        .and_then(|()| fs::remove_file(&probe))
        .map_err(|e| disk::explain(e, &dir))?;
    Ok(dir)
}

/// Removes what is left of a fleet whose supervisor is gone; false if one runs.
pub fn remove_dead_fleet(dir: &Path) -> Result<bool> {
    if !dir.exists() {
        rundir::sweep(&disk::data_roots());
        return Ok(true);
    }
    let Some(_lock) = Lock::try_take(&dir.join("lock"))? else {
        return Ok(false);
    };
    clean_up(dir);
    remove_own_entries(dir, &[]);
    Ok(true)
}

/// Removes what killed predecessors left: here and in the data directories.
fn clean_up(dir: &Path) {
    if let Ok(Some(State {
        kind: Kind::Local { run_id, .. },
        ..
    })) = State::read(dir)
    {
        rundir::kill_leftovers(&run_id);
    }
    for path in rundir::sweep(&disk::data_roots()) {
        tracing::warn!(path = %path.display(), "Removed what a killed launcher left");
    }
    // The log of this supervisor is open already.
    remove_own_entries(dir, &["lock", "supervisor.log"]);
}

/// Removes our entries from a fleet directory but `kept`, and the directory if nothing else is in it.
fn remove_own_entries(dir: &Path, kept: &[&str]) {
    for entry in OWN_ENTRIES.iter().filter(|entry| !kept.contains(entry)) {
        let path = dir.join(entry);
        let _ = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
    }
    // Fails when somebody put something else there, which then stays.
    let _ = fs::remove_dir(dir);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_entries_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("fleet");
        fs::create_dir_all(dir.join("logs/hub")).unwrap();
        fs::write(dir.join("state.json"), "").unwrap();
        fs::write(dir.join("notes.txt"), "mine").unwrap();
        remove_own_entries(&dir, &[]);
        assert!(dir.join("notes.txt").exists() && !dir.join("logs").exists() && !dir.join("state.json").exists());
        fs::remove_file(dir.join("notes.txt")).unwrap();
        remove_own_entries(&dir, &[]);
        assert!(!dir.exists());
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_one_line() {
        let error = prepare_dir(Path::new("/proc/fleet")).unwrap_err();
        assert_eq!(format!("{error:#}").lines().count(), 1);
    }
}
