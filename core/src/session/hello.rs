//! The hub's answer to Hello.

use fleet_api::cluster::{AgentType, InternalMemberCluster, MemberCluster};
use fleet_api::events::MemberClusterEvent;
use fleet_api::names::ClusterName;

use super::epoch::{SessionId, stored};
use super::identity::{Caller, is_identity};

/// What decides in a Hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The MemberCluster that the caller says it is.
    pub member_cluster: String,
    /// Which agent.
    pub agent_type: AgentType,
    /// The highest protocol version that it speaks.
    pub protocol_version: u32,
    /// uid of its kube-system namespace.
    pub cluster_uid: String,
    /// Transitions of its Lease.
    pub lease_transitions: u64,
}

/// What the hub knows.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    /// Who is calling.
    pub caller: &'a Caller,
    /// The MemberCluster of the claimed name.
    pub mc: Option<&'a MemberCluster>,
    /// Its namespace exists and is not terminating.
    pub namespace_alive: bool,
    /// Its InternalMemberCluster.
    pub imc: Option<&'a InternalMemberCluster>,
    /// The stored heartbeat is older than the silence limit, or there is none.
    pub heartbeat_stale: bool,
    /// The oldest protocol version that this hub understands.
    pub oldest_protocol: u32,
}

/// Why a stream is not welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Not the identity, or no such MemberCluster: a stranger cannot tell which.
    PermissionDenied,
    /// The membership is going or not there yet.
    NotMember,
    /// A newer leader of the same cluster is connected.
    Superseded,
    /// Another cluster has this name.
    AlreadyConnected,
    /// Protocol or agent type.
    Unsupported,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Welcome, once this is written to the InternalMemberCluster under its resourceVersion.
    Accept(SessionId),
    /// Not welcome.
    Reject {
        /// The code.
        refusal: Refusal,
        /// For the member's log.
        message: String,
        /// For the MemberCluster, where its owner should know.
        event: Option<MemberClusterEvent>,
    },
}

/// Judges a Hello. Strangers learn nothing, not even whether the MemberCluster exists.
pub fn judge(claim: &Claim, world: &World<'_>) -> Verdict {
    let reject = |refusal, message: &str| Verdict::Reject {
        refusal,
        message: message.to_owned(),
        event: None,
    };
    let name = ClusterName::new(claim.member_cluster.clone()).ok();
    let (Some(mc), Some(name)) = (world.mc, name) else {
        return denied(None);
    };
    if !is_identity(world.caller, &mc.spec.identity, &name) {
        return denied(Some(MemberClusterEvent::IdentityMismatch {
            user: world.caller.user.clone(),
        }));
    }
    if claim.agent_type != AgentType::MemberAgent {
        return reject(Refusal::Unsupported, "this hub serves member agents only");
    }
    if claim.protocol_version < world.oldest_protocol {
        return reject(
            Refusal::Unsupported,
            "the member agent is too old for this hub: upgrade it",
        );
    }
    let Some(imc) = world
        .imc
        .filter(|imc| world.namespace_alive && imc.metadata.deletion_timestamp.is_none())
    else {
        return reject(
            Refusal::NotMember,
            "the member's namespace on the hub does not exist or is being deleted",
        );
    };
    let before = stored(imc);
    if let Some(known) = &before {
        if known.cluster_uid != claim.cluster_uid {
            return Verdict::Reject {
                refusal: Refusal::AlreadyConnected,
                message: format!(
                    "this name belongs to cluster {}, and this is cluster {}",
                    known.cluster_uid, claim.cluster_uid
                ),
                event: Some(MemberClusterEvent::AlreadyConnected {
                    connected: known.cluster_uid.clone(),
                    refused: claim.cluster_uid.clone(),
                }),
            };
        }
        // After the member's Lease was deleted its count starts again; then only silence lets the new one in.
        if claim.lease_transitions < known.lease_transitions && !world.heartbeat_stale {
            return reject(
                Refusal::Superseded,
                "a newer leader of this cluster's agents is connected",
            );
        }
    }
    Verdict::Accept(SessionId {
        cluster_uid: claim.cluster_uid.clone(),
        lease_transitions: claim.lease_transitions,
        session: before.map_or(0, |s| s.session).saturating_add(1),
    })
}

fn denied(event: Option<MemberClusterEvent>) -> Verdict {
    Verdict::Reject {
        refusal: Refusal::PermissionDenied,
        message: "there is no MemberCluster of this name with the caller as its spec.identity".into(),
        event,
    }
}

/// The protocol version of a session: the highest that both know.
pub fn common_protocol(member: u32, hub: u32) -> u32 {
    member.min(hub)
}

/// Whether an open session may go on, now that the MemberCluster reads so. To be asked on every change of it.
pub fn may_continue(caller: &Caller, cluster: &ClusterName, mc: Option<&MemberCluster>) -> bool {
    mc.is_some_and(|mc| is_identity(caller, &mc.spec.identity, cluster))
}

#[cfg(test)]
mod tests {
    use fleet_api::annotations::MEMBER_SESSION;

    use super::*;
    use crate::membership::fixtures::{internal, member};

    fn caller(user: &str) -> Caller {
        Caller {
            user: user.into(),
            groups: vec![],
        }
    }

    fn claim(uid: &str, lease: u64) -> Claim {
        Claim {
            member_cluster: "c1".into(),
            agent_type: AgentType::MemberAgent,
            protocol_version: 1,
            cluster_uid: uid.into(),
            lease_transitions: lease,
        }
    }

    fn ask(claim: &Claim, user: &str, stored: Option<&str>, change: impl FnOnce(&mut World<'_>)) -> Verdict {
        let (caller, mc, mut imc) = (caller(user), member("c1"), internal("c1", "i"));
        imc.metadata.annotations = stored.map(|s| [(MEMBER_SESSION.to_owned(), s.to_owned())].into());
        let mut world = World {
            caller: &caller,
            mc: Some(&mc),
            namespace_alive: true,
            imc: Some(&imc),
            heartbeat_stale: false,
            oldest_protocol: 1,
        };
        change(&mut world);
        judge(claim, &world)
    }

    #[track_caller]
    fn refused(verdict: &Verdict, code: Refusal, has_event: bool) {
        let Verdict::Reject { refusal, event, .. } = verdict else {
            panic!("{verdict:?}")
        };
        assert_eq!((*refusal, event.is_some()), (code, has_event));
    }

    #[test]
    fn the_first_session_is_number_one_and_each_later_one_more() {
        let accepted = |v| match v {
            Verdict::Accept(id) => id.to_string(),
            Verdict::Reject { message, .. } => message,
        };
        assert_eq!(accepted(ask(&claim("a", 3), "u", None, |_| {})), "a/3/1");
        assert_eq!(
            accepted(ask(&claim("a", 3), "u", Some("a/3/7"), |_| {})),
            "a/3/8",
            "the later Hello wins"
        );
        assert_eq!(
            accepted(ask(&claim("a", 4), "u", Some("a/3/7"), |_| {})),
            "a/4/8",
            "the newer leader wins"
        );
        assert_eq!(accepted(ask(&claim("a", 0), "u", Some("damaged"), |_| {})), "a/0/1");
    }

    #[test]
    fn an_older_leader_is_refused_unless_the_newer_is_silent() {
        refused(
            &ask(&claim("a", 2), "u", Some("a/3/7"), |_| {}),
            Refusal::Superseded,
            false,
        );
        let verdict = ask(&claim("a", 0), "u", Some("a/3/7"), |w| w.heartbeat_stale = true);
        assert!(matches!(verdict, Verdict::Accept(id) if id.session == 8));
    }

    #[test]
    fn a_second_cluster_under_the_same_name_is_refused() {
        refused(
            &ask(&claim("b", 9), "u", Some("a/3/7"), |_| {}),
            Refusal::AlreadyConnected,
            true,
        );
        let stale = ask(&claim("b", 9), "u", Some("a/3/7"), |w| w.heartbeat_stale = true);
        refused(&stale, Refusal::AlreadyConnected, true);
    }

    #[test]
    fn strangers_cannot_tell_whether_a_member_exists() {
        let not_yours = ask(&claim("a", 1), "eve", None, |_| {});
        let not_there = ask(&claim("a", 1), "eve", None, |w| w.mc = None);
        refused(&not_yours, Refusal::PermissionDenied, true);
        refused(&not_there, Refusal::PermissionDenied, false);
        let text = |v: &Verdict| match v {
            Verdict::Reject { message, .. } => message.clone(),
            Verdict::Accept(_) => panic!("accepted"),
        };
        assert_eq!(text(&not_yours), text(&not_there));
    }

    #[test]
    fn a_membership_that_goes_or_is_not_there_yet_is_told_to_wait() {
        refused(
            &ask(&claim("a", 1), "u", None, |w| w.imc = None),
            Refusal::NotMember,
            false,
        );
        refused(
            &ask(&claim("a", 1), "u", None, |w| w.namespace_alive = false),
            Refusal::NotMember,
            false,
        );
    }

    #[test]
    fn what_the_hub_does_not_speak_is_unsupported() {
        refused(
            &ask(&claim("a", 1), "u", None, |w| w.oldest_protocol = 2),
            Refusal::Unsupported,
            false,
        );
        let other = Claim {
            agent_type: AgentType::from("MultiClusterServiceAgent"),
            ..claim("a", 1)
        };
        refused(&ask(&other, "u", None, |_| {}), Refusal::Unsupported, false);
        assert_eq!(common_protocol(3, 1), 1);
    }

    #[test]
    fn a_changed_identity_ends_the_session() {
        let cluster = ClusterName::new("c1").expect("valid");
        let mut mc = member("c1");
        assert!(may_continue(&caller("u"), &cluster, Some(&mc)));
        mc.spec.identity.name = "other".into();
        assert!(!may_continue(&caller("u"), &cluster, Some(&mc)));
        assert!(!may_continue(&caller("u"), &cluster, None));
    }
}
