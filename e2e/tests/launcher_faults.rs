//! The launcher under bad conditions: one clear line each, nothing left behind, the next run works.
//!
//! These tests start `fleet-local` themselves, with a hub only, and need no running fleet.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers are parts of tests, which clippy does not see"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use fleet_e2e::binaries::versions;
use fleet_e2e::fleet::state::{Kind, State};
use fleet_e2e::rundir::processes_of;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn fleet_local(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fleet-local"));
    command
        .args(args)
        .env_remove("FLEET_DIR")
        .env_remove("FLEET_HUB_CONTEXT")
        .env_remove("FLEET_MEMBER_CONTEXTS");
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn ok(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    output
}

/// The command must fail with exactly one line.
fn refused(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{command:?} should fail");
    let line = stderr(&output).trim().to_owned();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

/// Waits until the kernel has ended the processes of a run.
fn until_no_process_of(run_id: &str) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !processes_of(run_id).is_empty() {
        assert!(
            std::time::Instant::now() < deadline,
            "still running: {:?}",
            processes_of(run_id)
        );
        std::thread::yield_now();
    }
}

fn local(dir: &Path) -> (String, i32, PathBuf) {
    match State::read(dir).unwrap().unwrap().kind {
        Kind::Local { run_id, pid, data, .. } => (run_id, pid, data),
        Kind::External { .. } => panic!("a local fleet was started"),
    }
}

#[test]
fn a_fleet_survives_its_launcher_shows_what_died_and_leaves_nothing_when_killed() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("fleet");
    let at = ["--dir", dir.to_str().unwrap()];
    let up = || fleet_local(&["up", "--members", "0", at[0], at[1]]);

    ok(up());
    let (run_id, supervisor, data) = local(&dir);
    let again = stderr(&ok(up()));
    assert!(again.contains("using the fleet that runs"), "{again}");
    assert_eq!(local(&dir).0, run_id, "the second call must not start another fleet");

    // A component dies: the status says which, and `down` is not needed to find out.
    let status = |what: &str| {
        let text = String::from_utf8(ok(fleet_local(&["status", at[0], at[1]])).stdout).unwrap();
        text.lines()
            .find(|l| l.starts_with(what))
            .unwrap_or_else(|| panic!("{what} is not in {text}"))
            .to_owned()
    };
    let kwok = status("hub/kwok");
    let pid = kwok.split_whitespace().nth(2).unwrap().parse().unwrap();
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !status("hub/kwok").contains("died (signal: 9") {
        assert!(std::time::Instant::now() < deadline, "{}", status("hub/kwok"));
    }

    // The supervisor dies: its children go with it, and the next command removes the files.
    kill(Pid::from_raw(supervisor), Signal::SIGKILL).unwrap();
    until_no_process_of(&run_id);
    let line = refused(fleet_local(&["status", at[0], at[1]]));
    assert!(line.contains("no supervisor listens"), "{line}");
    ok(fleet_local(&["down", at[0], at[1]]));
    assert!(!data.exists() && !dir.exists());
    ok(fleet_local(&["down", at[0], at[1]]));
}

#[test]
fn a_signal_ends_a_run_with_everything_in_it() {
    // The command sends SIGTERM to its parent, the launcher, as a CI system would that ran out of patience.
    let script = "cat $FLEET_DIR/state.json; echo; echo \"@$FLEET_DIR\"; kill -TERM $PPID; exec sleep 300";
    let output = fleet_local(&["run", "--members", "0", "--", "sh", "-c", script])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(128 + 15), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let (state, dir) = text.split_once("\n@").unwrap();
    let state: State = serde_json::from_str(state).unwrap();
    let Kind::Local { run_id, data, .. } = state.kind else {
        panic!("a local fleet was started")
    };
    until_no_process_of(&run_id);
    assert!(!data.exists() && !Path::new(dir.trim()).exists());
}

#[test]
fn a_directory_without_binaries_is_refused_with_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = fleet_local(&["binaries"]);
    command.env("FLEET_KUBE_BIN_DIR", dir.path());
    let line = refused(command);
    assert!(
        line.contains("lacks kube-apiserver, kube-controller-manager,"),
        "{line}"
    );
}

#[test]
fn without_go_the_message_says_how_to_get_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = fleet_local(&["binaries"]);
    command
        .env_remove("FLEET_KUBE_BIN_DIR")
        .env("FLEET_CACHE_DIR", dir.path())
        .env("PATH", dir.path());
    let line = refused(command);
    assert!(line.contains("go is missing: install Go"), "{line}");
}

#[test]
fn a_fleet_directory_that_cannot_be_written_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let mut command = fleet_local(&["up", "--members", "0", "--dir", file.join("fleet").to_str().unwrap()]);
    command.env("FLEET_KUBE_BIN_DIR", fake_binaries(root.path()));
    let line = stderr(&command.output().unwrap());
    assert!(line.contains("cannot write"), "{line}");
}

fn fake_binaries(root: &Path) -> PathBuf {
    let dir = root.join("binaries");
    fs::create_dir_all(&dir).unwrap();
    for program in versions::CONTROL_PLANE {
        script(&dir.join(program.name), "exit 1");
    }
    dir
}

fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A cache and a `go` that notes what it builds instead of building it.
struct FakeBuild {
    root: tempfile::TempDir,
}

impl FakeBuild {
    fn new(go: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("bin")).unwrap();
        script(&root.path().join("bin/go"), go);
        Self { root }
    }

    fn command(&self) -> Command {
        let mut command = fleet_local(&["binaries"]);
        command
            .env_remove("FLEET_KUBE_BIN_DIR")
            .env("FLEET_CACHE_DIR", self.root.path())
            .env("NOTES", self.root.path().join("notes"))
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", self.root.path().join("bin").display()),
            );
        command
    }

    fn cache(&self) -> PathBuf {
        self.root.path().join("control-plane").join(versions::cache_key())
    }

    fn built(&self) -> Vec<String> {
        let notes = fs::read_to_string(self.root.path().join("notes")).unwrap_or_default();
        notes.lines().map(str::to_owned).collect()
    }
}

/// Finds its output in `-o` or `GOBIN`, as go does.
const GO: &str = r#"
out=
while [ $# -gt 0 ]; do
  case "$1" in
    -o) out=$2; shift;;
    *@v*) out=$GOBIN/$(basename "${1%@v*}");;
  esac
  shift
done
echo "$(basename "$out")" >> "$NOTES"
printf '#!/bin/sh\n' > "$out"
chmod +x "$out"
"#;

#[test]
fn a_half_built_cache_is_completed() {
    let build = FakeBuild::new(GO);
    let cache = build.cache();
    fs::create_dir_all(cache.join("work/tmp")).unwrap();
    fs::write(cache.join("work/bin-left-by-a-killed-build"), "").unwrap();
    script(&cache.join("kube-apiserver"), "exit 0");
    script(&cache.join("etcd"), "exit 0");

    let said = stderr(&ok(build.command()));
    assert!(said.contains("2 of 6 are there"), "{said}");
    assert_eq!(
        build.built(),
        ["kube-controller-manager", "kube-scheduler", "kubectl", "kwok"]
    );
    assert!(!cache.join("work").exists());

    ok(build.command());
    assert_eq!(build.built().len(), 4, "a complete cache is not built again");
}

#[test]
fn two_runs_at_once_build_once() {
    let build = FakeBuild::new(GO);
    let run = || {
        build
            .command()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    for run in [run(), run()] {
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    assert_eq!(build.built().len(), versions::CONTROL_PLANE.len());
}

#[test]
fn a_full_disk_is_named_and_nothing_temporary_stays() {
    let build = FakeBuild::new("echo 'compile: writing output: no space left on device' >&2; exit 1");
    let output = build.command().output().unwrap();
    assert!(!output.status.success());
    let said = stderr(&output);
    assert!(
        said.lines()
            .last()
            .unwrap()
            .contains("disk full while building kube-apiserver"),
        "{said}"
    );
    assert!(!build.cache().join("work").exists());
}
