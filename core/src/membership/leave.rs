//! A MemberCluster that is being deleted: the member is asked to leave, then everything of it goes.
//!
//! Nothing on the member cluster is touched. Each look starts from what exists; the first row that matches decides.

use fleet_api::annotations::LEAVE_SINCE;
use fleet_api::cluster::{ClusterState, InternalMemberCluster, InternalMemberClusterSpec, MemberCluster};
use fleet_api::conditions::member_cluster::Joined;
use fleet_api::events::MemberClusterEvent as Event;
use fleet_api::finalizers;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;

use super::agents;
use super::heartbeat::add;

/// A member that is there answers within this time. Only one that does not is shown with its old word at the generation of
/// the deletion: otherwise a leave would cost a status more, which nobody could read before the next.
pub const PROMPT: SignedDuration = SignedDuration::from_secs(1);

/// After this the deletion of a namespace is reported as stuck.
pub const NAMESPACE_OVERDUE: SignedDuration = SignedDuration::from_mins(15);

/// What exists, as far as the caches know.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    /// The MemberCluster, being deleted.
    pub mc: &'a MemberCluster,
    /// The member namespace.
    pub namespace: Option<&'a Namespace>,
    /// The InternalMemberCluster.
    pub imc: Option<&'a InternalMemberCluster>,
    /// Whether networking agents must leave too.
    pub networking: bool,
    /// How long the member has to answer.
    pub force_delete_wait: SignedDuration,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Somebody else holds the object; our part is done.
    Nothing,
    /// Everything is gone: take our finalizer off.
    RemoveFinalizer,
    /// The namespace is going.
    AwaitNamespace {
        /// Take the finalizers off the Works in it, which nobody else will do any more.
        strip_works: bool,
        /// It takes too long: the error to show.
        overdue: Option<String>,
    },
    /// Take the finalizers off all Works, then delete the namespace.
    CleanUp(Reason),
    /// Ask the member to leave.
    AskToLeave {
        /// The spec to write.
        spec: InternalMemberClusterSpec,
        /// The value of `LEAVE_SINCE` to write with it.
        since: Timestamp,
    },
    /// It has been asked.
    AwaitMember {
        /// It does not answer promptly: the MemberCluster's status says how things are.
        show: bool,
    },
}

/// Why it is time to clean up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// There is no InternalMemberCluster to ask through.
    NothingToAsk,
    /// All agents have left.
    Left,
    /// The member did not answer in time.
    Forced,
}

impl Reason {
    /// What to tell people.
    pub fn event(self) -> Option<Event> {
        (self == Self::Forced).then_some(Event::ForceDeleted)
    }
}

/// The action and when to look again without an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What to do.
    pub action: Action,
    /// When to look again by time alone.
    pub look_again: Option<Timestamp>,
}

/// The first row that matches.
pub fn plan(world: &World<'_>, now: Timestamp) -> Plan {
    let once = |action| Plan {
        action,
        look_again: None,
    };
    if !world
        .mc
        .metadata
        .finalizers
        .iter()
        .flatten()
        .any(|f| f == finalizers::MEMBER_CLUSTER)
    {
        return once(Action::Nothing);
    }
    let Some(namespace) = world.namespace else {
        return once(Action::RemoveFinalizer);
    };
    let left = has_left(world);
    if let Some(since) = namespace.metadata.deletion_timestamp.as_ref().map(|t| t.0) {
        return await_namespace(
            namespace,
            since,
            left || world.imc.is_none(),
            world.force_delete_wait,
            now,
        );
    }
    let Some(imc) = world.imc else {
        return once(Action::CleanUp(Reason::NothingToAsk));
    };
    if left {
        return once(Action::CleanUp(Reason::Left));
    }
    let spec = InternalMemberClusterSpec {
        state: ClusterState::Leave,
        heartbeat_period_seconds: world.mc.spec.heartbeat_period_seconds,
    };
    let since = imc
        .metadata
        .annotations
        .as_ref()
        .and_then(|a| a.get(LEAVE_SINCE))
        .and_then(|at| at.parse().ok());
    match since {
        Some(since) if imc.spec.state == ClusterState::Leave => {
            let until = add(since, world.force_delete_wait);
            if now >= until {
                return once(Action::CleanUp(Reason::Forced));
            }
            let prompt = add(since, PROMPT);
            let show = now >= prompt;
            let action = if imc.spec == spec {
                Action::AwaitMember { show }
            } else {
                Action::AskToLeave { spec, since }
            };
            Plan {
                action,
                look_again: Some(if show { until } else { prompt }),
            }
        }
        // Asked by somebody else, or never: the time starts now.
        _ => Plan {
            action: Action::AskToLeave { spec, since: now },
            look_again: Some(add(now, PROMPT)),
        },
    }
}

fn has_left(world: &World<'_>) -> bool {
    let reported = world
        .imc
        .and_then(|imc| imc.status.as_ref())
        .filter(|s| !s.agent_status.is_empty());
    reported.is_some_and(|s| agents::joined("", &s.agent_status, world.networking) == Joined::Left)
}

/// No polling: the namespace is watched. Timers only for the two things that are about time.
fn await_namespace(
    namespace: &Namespace,
    since: Timestamp,
    nobody_cleans: bool,
    wait: SignedDuration,
    now: Timestamp,
) -> Plan {
    let strip_at = add(since, wait);
    let overdue_at = add(since, NAMESPACE_OVERDUE);
    let strip_works = nobody_cleans || now >= strip_at;
    let overdue = (now >= overdue_at).then(|| {
        format!(
            "failed to delete the member cluster namespace {}, it has been deleting since {since}",
            namespace.metadata.name.as_deref().unwrap_or_default(),
        )
    });
    let look_again = [
        (!strip_works).then_some(strip_at),
        overdue.is_none().then_some(overdue_at),
    ]
    .into_iter()
    .flatten()
    .min();
    Plan {
        action: Action::AwaitNamespace { strip_works, overdue },
        look_again,
    }
}

/// A member namespace whose MemberCluster is gone although our finalizer never ran: nothing is recreated, the owner
/// reference removes it, and Works in it lose their finalizer once the member had its time. None: not terminating.
pub fn orphaned_namespace(namespace: &Namespace, wait: SignedDuration, now: Timestamp) -> Option<Plan> {
    let since = namespace.metadata.deletion_timestamp.as_ref()?.0;
    Some(await_namespace(namespace, since, false, wait, now))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

    use super::super::fixtures::{Fixture as _, agent, at, condition, internal, member};
    use super::*;

    const WAIT: SignedDuration = SignedDuration::from_mins(15);

    fn leaving() -> MemberCluster {
        let mut mc = member("c1").deleting(0);
        mc.metadata.finalizers = Some(vec![finalizers::MEMBER_CLUSTER.into()]);
        mc
    }

    fn namespace(deleting_since: Option<i64>) -> Namespace {
        Namespace {
            metadata: ObjectMeta {
                name: Some("fleet-member-c1".into()),
                deletion_timestamp: deleting_since.map(|s| Time(at(s))),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        }
    }

    fn asked(since: i64, said: &str) -> InternalMemberCluster {
        let mut agent = agent(Some(0));
        agent.conditions.push(condition("Joined", said, 0));
        let mut imc = internal("c1", "i").reporting(agent);
        imc.spec.state = ClusterState::Leave;
        imc.metadata.annotations = Some([(LEAVE_SINCE.to_owned(), at(since).to_string())].into());
        imc
    }

    fn look(mc: &MemberCluster, ns: Option<&Namespace>, imc: Option<&InternalMemberCluster>, now: i64) -> Plan {
        plan(
            &World {
                mc,
                namespace: ns,
                imc,
                networking: false,
                force_delete_wait: WAIT,
            },
            at(now),
        )
    }

    #[test]
    fn rows_in_their_order() {
        let (mc, ns) = (leaving(), namespace(None));
        assert_eq!(look(&member("c1").deleting(0), None, None, 1).action, Action::Nothing);
        assert_eq!(look(&mc, None, None, 1).action, Action::RemoveFinalizer);
        assert_eq!(
            look(&mc, Some(&ns), None, 1).action,
            Action::CleanUp(Reason::NothingToAsk)
        );
        assert_eq!(
            look(&mc, Some(&ns), Some(&asked(0, "False")), 1).action,
            Action::CleanUp(Reason::Left)
        );
        let joined = internal("c1", "i");
        let first = look(&mc, Some(&ns), Some(&joined), 5);
        assert!(matches!(first.action, Action::AskToLeave { since, .. } if since == at(5)));
        assert_eq!(first.look_again, Some(at(5) + PROMPT));
    }

    #[test]
    fn the_members_time_starts_when_it_was_asked() {
        let (mc, ns) = (leaving(), namespace(None));
        // The hub was down for an hour after the deletion; the question was written at 3600.
        let imc = asked(3600, "True");
        for (now, show, look_again) in [(3600, false, 3601), (3601, true, 4500)] {
            assert_eq!(
                look(&mc, Some(&ns), Some(&imc), now),
                Plan {
                    action: Action::AwaitMember { show },
                    look_again: Some(at(look_again))
                }
            );
        }
        assert_eq!(
            look(&mc, Some(&ns), Some(&imc), 4500).action,
            Action::CleanUp(Reason::Forced)
        );
    }

    #[test]
    fn a_leave_without_a_time_starts_one() {
        let (mc, ns) = (leaving(), namespace(None));
        let mut imc = asked(0, "True");
        imc.metadata.annotations = None;
        assert!(
            matches!(look(&mc, Some(&ns), Some(&imc), 9_999).action, Action::AskToLeave { since, .. } if since == at(9_999))
        );
    }

    #[test]
    fn a_namespace_that_hangs_is_helped_and_reported() {
        let (mc, ns, imc) = (leaving(), namespace(Some(100)), asked(0, "True"));
        let fresh = look(&mc, Some(&ns), Some(&imc), 101);
        assert_eq!(
            fresh.action,
            Action::AwaitNamespace {
                strip_works: false,
                overdue: None
            }
        );
        assert_eq!(fresh.look_again, Some(at(100) + WAIT));
        let late = look(&mc, Some(&ns), Some(&imc), 1000);
        assert_eq!(
            late,
            Plan {
                action: Action::AwaitNamespace {
                    strip_works: true,
                    overdue: Some(
                        "failed to delete the member cluster namespace fleet-member-c1, it has been deleting since \
                         1970-01-01T00:01:40Z"
                            .into()
                    ),
                },
                look_again: None,
            }
        );
        let after_leaving = look(&mc, Some(&ns), Some(&asked(0, "False")), 101);
        assert!(matches!(
            after_leaving.action,
            Action::AwaitNamespace {
                strip_works: true,
                overdue: None
            }
        ));
    }

    #[test]
    fn a_namespace_without_member_cluster_goes_in_time() {
        assert_eq!(orphaned_namespace(&namespace(None), WAIT, at(0)), None);
        let soon = orphaned_namespace(&namespace(Some(0)), WAIT, at(1)).expect("terminating");
        assert!(matches!(soon.action, Action::AwaitNamespace { strip_works: false, .. }));
        let late = orphaned_namespace(&namespace(Some(0)), WAIT, at(900)).expect("terminating");
        assert!(matches!(late.action, Action::AwaitNamespace { strip_works: true, .. }));
    }
}
