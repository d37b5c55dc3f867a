//! What a MemberCluster has used up has to wait: that is counted, and people are told.

use std::time::Duration;

use fleet_api::{events::MemberClusterEvent as Told, names::Scope};
use fleet_core::session::budget::{Budget, Held, Wait};
use fleet_runtime::Key;
use jiff::Timestamp;

use super::{allowance::Allowance, shared::Shared};
use crate::writer::record;

impl Allowance {
    /// Asks the budget. What has to wait is counted, and people are told once for as long as it goes on.
    pub(crate) fn ask<T>(
        &self,
        shared: &Shared,
        question: impl FnOnce(&mut Budget, Timestamp) -> Result<T, Wait>,
    ) -> Result<T, Duration> {
        let answer = question(&mut self.budget(), shared.deps.clock.steady());
        answer.map_err(|wait| {
            shared.measures.held_back(word(wait.held));
            if wait.tell {
                self.tell(shared, wait.held);
            }
            wait.time.unsigned_abs()
        })
    }

    fn tell(&self, shared: &Shared, held: Held) {
        let cluster = self.member.clone();
        let event = match held {
            Held::Work => Told::WorkHeldBack { cluster },
            Held::Cluster => Told::StatusHeldBack { cluster },
            Held::Stored => Told::BytesHeldBack {
                cluster,
                mebibytes: self.rates.stored.sustained.div_ceil(1024 * 1024),
            },
            Held::Session => Told::SessionHeldBack {
                cluster,
                sessions: self.rates.sessions.sustained,
            },
        };
        tracing::warn!(
            member = self.member,
            held = word(held),
            "A member sends too much; it is held back"
        );
        if let Some(mc) = shared.deps.members.get(&Key::cluster(self.member.as_str())) {
            record(&shared.deps.events, Scope::Cluster, &*mc, &event);
        }
    }
}

fn word(held: Held) -> &'static str {
    match held {
        Held::Work => "work_rate",
        Held::Cluster => "cluster_rate",
        Held::Stored => "stored_bytes",
        Held::Session => "session_rate",
    }
}
