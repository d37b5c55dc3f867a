//! When clusters may be started: windows of the run and of clusters, and `not-before`.

use fleet_api::events::{Event as _, UpdateRunEvent};
use jiff::{SignedDuration, Timestamp};

use super::later;
use super::pass::Pass;
use crate::window::{self, Windows};

const A_DAY: SignedDuration = SignedDuration::from_hours(24);

impl Pass<'_> {
    /// Whether a cluster may be started now. If not, the run looks again at the instant when it may.
    pub(super) fn is_open(&mut self, cluster: &str) -> bool {
        let now = self.now();
        let next = self.next_open(cluster);
        if next == Some(now) {
            return true;
        }
        // One that cannot be told yet may be told tomorrow.
        self.step.look_at(next.unwrap_or_else(|| later(now, A_DAY)));
        self.closed.clusters.push(cluster.to_owned());
        self.closed.next = [self.closed.next, next].into_iter().flatten().min();
        false
    }

    /// From when on a cluster may be started; none if that cannot be told.
    fn next_open(&mut self, cluster: &str) -> Option<Timestamp> {
        let from = self.options.not_before.unwrap_or(Timestamp::MIN).max(self.now());
        if self.options.ignore_windows {
            return Some(from);
        }
        let text = self.world.clusters.get(cluster).and_then(|facts| facts.window);
        // Many clusters have the same windows.
        let known = self.closed.asked.entry(text.map(ToOwned::to_owned));
        let next = known.or_insert_with(|| {
            let own = text.map(Windows::parse).transpose()?;
            Ok(window::next_open(self.options.windows.iter().chain(&own), from))
        });
        match next.clone() {
            Ok(next) => next,
            Err(why) => {
                self.tell_unreadable(cluster, why);
                None
            }
        }
    }

    fn tell_unreadable(&mut self, cluster: &str, why: String) {
        let cluster = cluster.to_owned();
        let event = UpdateRunEvent::WindowUnreadable {
            cluster: cluster.clone(),
            why,
        };
        if self.memory.tells(&format!("window of {cluster}"), event.message()) {
            self.step.tell(event);
        }
    }
}
