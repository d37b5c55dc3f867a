//! Three histories, write by write and Event by Event, in `golden/`: `GOLDEN=write` writes them anew, and the difference is
//! there to be read. The dice are seeded.

use std::path::PathBuf;

use fleet_api::placement::UpdateRunState;
use serde_json::json;

use super::hub::{Hub, strategy};

const CLUSTERS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A canary and five others, all with version 0; a budget of one, and a way back.
fn hub() -> Hub {
    let mut hub = Hub::new(&CLUSTERS);
    for (place, cluster) in CLUSTERS.iter().enumerate() {
        hub.member(cluster, &[("stage", if place == 0 { "canary" } else { "all" })]);
        hub.had(cluster, "0");
    }
    let stage = |name: &str, more: serde_json::Value| {
        let mut stage = json!({ "name": name, "labelSelector": { "matchLabels": { "stage": name } } });
        stage.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        stage
    };
    hub.strategy = Some(strategy(json!([
        stage(
            "canary",
            json!({ "afterStageTasks": [{ "type": "TimedWait", "waitTime": "20s" }] })
        ),
        stage(
            "all",
            json!({ "maxConcurrency": 2, "beforeStageTasks": [{ "type": "Approval" }] })
        ),
    ])));
    hub.set("max-failures", "1")
        .set("cluster-deadline", "30s")
        .set("min-success-time", "5s")
        .set("on-failure", "Rollback");
    hub
}

/// What happens in one history.
fn story(seed: u64) -> String {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut hub = hub();
    let mut lines = Vec::new();
    for _ in 0..90 {
        hub.settle();
        let written = std::mem::take(&mut hub.log).into_iter().filter(|line| line != "status");
        let now = hub.now;
        lines.extend(written.chain(hub.told()).map(|line| format!("{now:>4} {line}")));
        if hub.said().len() == 3 {
            break;
        }
        hub.now += dice.i64(1..8);
        let cluster = CLUSTERS[dice.usize(..CLUSTERS.len())];
        match dice.usize(..10) {
            0..=4 => hub.available(cluster),
            5 => hub.unavailable(cluster),
            6 => hub.binding(cluster).touch(),
            7 => {
                let names: Vec<_> = hub.approvals.iter().map(|request| request.name().to_owned()).collect();
                for name in names {
                    hub.approve(&name, 1);
                }
            }
            8 if hub.run.spec.state == UpdateRunState::Run && dice.usize(..3) == 0 => {
                hub.set_state(UpdateRunState::Stop);
            }
            _ => {
                if hub.run.spec.state == UpdateRunState::Stop {
                    hub.set_state(UpdateRunState::Run);
                }
            }
        }
    }
    lines.extend(hub.said());
    lines.join("\n") + "\n"
}

#[test]
fn three_histories_are_as_they_were() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/updaterun/tests/golden");
    let writes = std::env::var("GOLDEN").is_ok_and(|word| word == "write");
    for seed in 1..=3 {
        let (file, story) = (dir.join(format!("{seed}.txt")), story(seed));
        if writes {
            std::fs::write(&file, &story).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(kept, story, "history {seed} is another one now; GOLDEN=write writes it");
    }
}
