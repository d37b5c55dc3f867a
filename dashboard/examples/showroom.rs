//! The dashboard on a hub in memory, to look at its pages without any cluster: `cargo run -p fleet-dashboard --example showroom`.
//! With two numbers, a fleet of so many members and placements; with `gallery`, what the pictures of the documentation show.

#[allow(dead_code, reason = "tests need more of it")]
#[path = "../src/tests/gallery.rs"]
mod gallery;
#[path = "../src/tests/world.rs"]
mod world;

use fleet_dashboard::{Hub, Options, serve};
use fleet_runtime::{clock::Clock, shutdown::Tasks};
use fleet_testkit::Server;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() {
    let server = Server::new();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    match numbers.as_slice() {
        _ if words == ["gallery"] => gallery::hang(&server),
        [members, placements] => world::crowd(&server, *members, *placements, *members),
        _ => world::everything(&server),
    }
    let mut tasks = Tasks::new(CancellationToken::new());
    let clock = Clock::manual(world::NOW.parse().expect("a time"));
    let hub = Hub::watch(server.client(), None, clock, &mut tasks);
    let options = Options {
        port: 4000,
        context: "showroom".into(),
        server: "a hub in memory".into(),
        user: "nobody".into(),
        flags: Vec::new(),
        actor: None,
    };
    let dashboard = serve(server.client(), hub, options, &mut tasks)
        .await
        .expect("the port is free");
    println!("{}", dashboard.door.link().expect("randomness"));
    let _ = tasks.join().await;
}
