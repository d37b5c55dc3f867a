//! The hub agent.

use clap::Parser;
use fleet_runtime::{options::with_two_dashes, tls};
use hub_agent::{options::Options, run};
use tikv_jemallocator::Jemalloc;

/// A thousand sessions and long lists come and go: what they leave must not stay.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tls::install();
    run::run(Options::parse_from(with_two_dashes(std::env::args_os()))).await
}
