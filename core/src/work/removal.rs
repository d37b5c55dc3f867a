//! How a binding's Works go, and when Works start with the cleanup finalizer.

use fleet_api::annotations::{ABANDON, DELETE_PROPAGATION};
use fleet_api::labels;
use jiff::{SignedDuration, Timestamp};

use super::Existing;

/// What to do for a binding that is being deleted. Annotations first, then deletes, then the finalizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// Works that need the annotation Abandon before they are deleted.
    pub abandon: Vec<String>,
    /// Works that must lose it before they are deleted: it is only meant for the end of the placement.
    pub reclaim: Vec<String>,
    /// Works to delete.
    pub deletes: Vec<String>,
    /// Whether the binding's finalizer can go.
    pub drop_finalizer: bool,
}

/// What the Works of a deleting binding need next.
///
/// The binding waits for Works that are still being deleted: until then the member holds something because of it. A
/// cluster that has left the fleet has nobody who could clean up; its Works are nobody's business any more.
pub fn removal(works: &[Existing], abandon: bool, placement_deleting: bool, cluster_gone: bool) -> Removal {
    let abandon = abandon && placement_deleting;
    let mut removal = Removal {
        drop_finalizer: works.is_empty() || cluster_gone,
        ..Removal::default()
    };
    for work in works.iter().filter(|work| !work.deleting) {
        let abandoned = work
            .annotations
            .get(DELETE_PROPAGATION)
            .is_some_and(|value| value == ABANDON);
        if abandon && !abandoned {
            removal.abandon.push(work.name.clone());
        }
        if abandoned && !abandon {
            removal.reclaim.push(work.name.clone());
        }
        removal.deletes.push(work.name.clone());
    }
    removal
}

/// Whether a binding whose snapshot has been deleted can go on with the Works it has: they must all be made from it.
pub fn is_synced_without_snapshot(works: &[Existing], placement: &str, snapshot: &str) -> bool {
    let made_from = |work: &Existing| match work
        .annotations
        .get(fleet_api::annotations::PARENT_RESOURCE_SNAPSHOT_NAME)
    {
        Some(name) => name == snapshot,
        // From before the annotation existed.
        None => work
            .label(labels::PARENT_RESOURCE_SNAPSHOT_INDEX)
            .is_some_and(|index| format!("{placement}-{index}-snapshot") == snapshot),
    };
    let mut live = works.iter().filter(|work| !work.deleting).peekable();
    live.peek().is_some() && live.all(made_from)
}

/// What is known of a member's agent when a Work is created for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agent<'a> {
    /// The member-session annotation of the InternalMemberCluster.
    pub session: Option<&'a str>,
    /// When its last heartbeat was received.
    pub last_heartbeat: Option<Timestamp>,
    /// Whether the cluster is leaving, or has left.
    pub leaving: bool,
}

/// Whether a new Work starts with the cleanup finalizer.
///
/// Only if an agent is there that will take it off again; otherwise the agent asks for it before it applies anything. A
/// cluster without an agent has none on its Works, so that they can vanish at once.
pub fn starts_with_finalizer(agent: &Agent<'_>, heartbeat_timeout: SignedDuration, now: Timestamp) -> bool {
    let alive = agent
        .last_heartbeat
        .is_some_and(|at| now.duration_since(at) <= heartbeat_timeout);
    agent.session.is_some_and(|session| !session.is_empty()) && alive && !agent.leaving
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(name: &str, abandoned: bool, deleting: bool) -> Existing {
        let annotations = abandoned.then(|| (DELETE_PROPAGATION.to_owned(), ABANDON.to_owned()));
        Existing {
            name: name.into(),
            deleting,
            annotations: annotations.into_iter().collect(),
            ..Existing::default()
        }
    }

    #[test]
    fn a_binding_waits_until_the_last_work_is_gone() {
        let deleting = removal(&[work("a", false, true), work("b", false, false)], false, false, false);
        assert_eq!(
            deleting,
            Removal {
                deletes: vec!["b".into()],
                ..Removal::default()
            }
        );
        assert!(!removal(&[work("a", false, true)], false, false, false).drop_finalizer);
        assert!(removal(&[], false, false, false).drop_finalizer);
        assert!(removal(&[work("a", false, true)], false, false, true).drop_finalizer);
    }

    #[test]
    fn abandon_is_for_the_end_of_the_placement_only() {
        let works = [work("a", true, false), work("b", false, false)];
        let leaving = removal(&works, true, false, false);
        assert_eq!((leaving.abandon, leaving.reclaim), (vec![], vec!["a".to_owned()]));
        let ending = removal(&works, true, true, false);
        assert_eq!((ending.abandon, ending.reclaim), (vec!["b".to_owned()], vec![]));
        assert_eq!(ending.deletes, ["a", "b"]);
    }

    #[test]
    fn works_outlive_their_snapshot_only_if_all_are_made_from_it() {
        let from = |snapshot: &str| Existing {
            annotations: [(
                fleet_api::annotations::PARENT_RESOURCE_SNAPSHOT_NAME.to_owned(),
                snapshot.to_owned(),
            )]
            .into(),
            ..Existing::default()
        };
        let indexed = |index: &str| Existing {
            labels: [(labels::PARENT_RESOURCE_SNAPSHOT_INDEX.to_owned(), index.to_owned())].into(),
            ..Existing::default()
        };
        for (works, synced) in [
            (vec![from("crp-1-snapshot"), indexed("1")], true),
            (vec![from("crp-1-snapshot"), from("crp-0-snapshot")], false),
            (vec![indexed("0")], false),
            (vec![], false),
        ] {
            assert_eq!(
                is_synced_without_snapshot(&works, "crp", "crp-1-snapshot"),
                synced,
                "{works:?}"
            );
        }
    }

    #[test]
    fn a_work_starts_with_the_finalizer_only_for_a_live_session() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let agent = Agent {
            session: Some("uid/1/2"),
            last_heartbeat: Some(at(100)),
            leaving: false,
        };
        for (agent, now, expected) in [
            (agent, 150, true),
            (agent, 401, false),
            (Agent { session: None, ..agent }, 150, false),
            (
                Agent {
                    last_heartbeat: None,
                    ..agent
                },
                150,
                false,
            ),
            (Agent { leaving: true, ..agent }, 150, false),
        ] {
            assert_eq!(
                starts_with_finalizer(&agent, SignedDuration::from_mins(5), at(now)),
                expected
            );
        }
    }
}
