//! Local control planes, scenario tests, fault tests, benchmarks and the demo.
//!
//! ```text
//! fleet-local (bin) ── supervisor ── process ×(5 per cluster, and agents)
//!       │                  │ control socket, state file
//!       └──────── fleet::Fleet (attach) ──── harness (scenarios), demo, benchmarks
//! ```
//!
//! One process, the supervisor, owns every child. All others attach to the fleet through its directory: `state.json` says
//! what there is, the control socket adds members and restarts, kills or pauses processes.

pub mod agents;
pub mod backup;
pub mod bench;
pub mod binaries;
pub mod cluster;
pub mod demo;
pub mod disk;
pub mod events;
pub mod evictions;
pub mod fat;
mod flaky;
pub mod fleet;
pub mod gate;
pub mod gizmos;
pub mod harness;
pub mod hostile;
pub mod kubectl;
pub mod launcher;
pub mod lock;
pub mod members;
mod modules;
pub mod placements;
pub mod played;
pub mod plugin;
pub mod process;
pub mod proxy;
pub mod refusal;
pub mod rundir;
pub mod runs;
mod scenarios;
pub mod screen;
pub mod scripted_member;
pub mod supervisor;
pub mod tenant;
pub mod tunnel;
pub mod wait;
pub mod works;

/// Logs of a program go to stderr, short; `FLEET_LOG` says which instead of `usually`.
pub fn log_to_stderr(usually: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("FLEET_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(usually));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .init();
}

/// Makes ring the TLS provider of this process. Called before every first use; later calls change nothing.
pub fn install_crypto_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The time, as the API stores it.
#[expect(clippy::disallowed_methods, reason = "tests of real processes have real time")]
pub fn now() -> jiff::Timestamp {
    let second = jiff::Timestamp::now().as_second();
    jiff::Timestamp::from_second(second).unwrap_or_default()
}
