//! How a Work begins and ends on a member: when it may be touched, and how what it brought is removed.

use jiff::{SignedDuration, Timestamp};

/// A Work as it was read from the hub API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkView {
    /// Its deletion timestamp is set.
    pub deleting: bool,
    /// It carries the clean-up finalizer.
    pub has_finalizer: bool,
    /// Its objects shall stay on the member.
    pub abandon: bool,
}

/// The AppliedWork as an uncached read shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppliedWorkView {
    /// The API server says that there is none.
    Absent,
    /// It is there.
    Present {
        /// Its uid.
        uid: String,
    },
    /// It is going.
    Terminating {
        /// Since then.
        since: Timestamp,
    },
    /// The API server did not say.
    Unknown,
}

/// The member's namespace on the hub as an uncached read shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HubNamespace {
    /// It is there to stay.
    Active,
    /// It is terminating.
    Terminating,
    /// It is gone.
    Gone,
    /// We may not read it (any more).
    Forbidden,
    /// It could not be read.
    Unknown,
    /// Nobody has asked yet.
    NotAsked,
}

/// Whether a round may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It may, with the AppliedWork that is there.
    Begin,
    /// It may once an AppliedWork is created.
    CreateOwner,
    /// Not before the finalizer was read from the hub's API: ask for it. What the channel says is not enough.
    Claim,
    /// Not before the old AppliedWork is gone: a terminating one would take the objects with it.
    AwaitOldOwner,
    /// Not before the AppliedWork could be read.
    AwaitRead,
    /// Not at all: the Work is being deleted.
    CleanUp,
    /// Not while this cluster is not a member.
    GateClosed,
}

/// Whether a round may begin for this Work.
pub fn entry(joined: bool, work: WorkView, applied_work: &AppliedWorkView) -> Entry {
    match (joined, work.deleting, work.has_finalizer, applied_work) {
        (false, ..) => Entry::GateClosed,
        (_, true, ..) => Entry::CleanUp,
        (_, _, false, _) => Entry::Claim,
        (_, _, _, AppliedWorkView::Present { .. }) => Entry::Begin,
        (_, _, _, AppliedWorkView::Absent) => Entry::CreateOwner,
        (_, _, _, AppliedWorkView::Terminating { .. }) => Entry::AwaitOldOwner,
        (_, _, _, AppliedWorkView::Unknown) => Entry::AwaitRead,
    }
}

/// The next step of removing what a deleted Work brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CleanUp {
    /// There is nothing to clean up for: the Work is not being deleted, or nobody waits for us.
    Nothing,
    /// Touch nothing, for this reason, and look again when it may have changed.
    Pause(Pause),
    /// Read the namespace, and look again: one that goes is no order to remove anything.
    AskNamespace,
    /// Delete what the AppliedWork alone owns, and look again with what came of it.
    Sweep,
    /// Delete the AppliedWork of this uid.
    DeleteOwner {
        /// The precondition.
        uid: String,
        /// What becomes of the objects.
        propagation: Propagation,
    },
    /// Wait for the AppliedWork to go; if it has not by then, look again.
    AwaitOwner {
        /// When to help.
        help_at: Timestamp,
    },
    /// It has not gone in time: unblock every object in the inventory that has other owners.
    Help,
    /// Say that nothing is left.
    Complete,
}

/// Why clean-up pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// This cluster is not a member: leaving keeps what was placed.
    NotJoined,
    /// A round for this Work is still running.
    RoundInFlight,
    /// The whole namespace goes: that is no deletion order for what was placed.
    NamespaceGoing,
    /// The namespace or the AppliedWork could not be read.
    NotKnown,
}

/// What becomes of the objects of a deleted AppliedWork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They go first.
    Foreground,
    /// Nothing is left that would have to.
    Background,
    /// They lose their owner and stay.
    Orphan,
}

/// How much of what an AppliedWork owned was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swept {
    /// Nobody has tried.
    NotYet,
    /// Some objects are still going, have other owners, or could not be told.
    Partly,
    /// Every object of the inventory is confirmed gone, or not ours.
    Everything,
}

/// Whether objects of this kind may own others, which have to go first. The rest is deleted at once: waiting for
/// dependents that cannot be costs the garbage collector two requests each.
pub fn owns_others(group: &str, kind: &str) -> bool {
    let plain = match group {
        "" => matches!(
            kind,
            "ConfigMap"
                | "Secret"
                | "ServiceAccount"
                | "LimitRange"
                | "ResourceQuota"
                | "Namespace"
                | "PersistentVolume"
        ),
        "rbac.authorization.k8s.io" | "scheduling.k8s.io" => true,
        "policy" => kind == "PodDisruptionBudget",
        "networking.k8s.io" => matches!(kind, "NetworkPolicy" | "IngressClass"),
        "storage.k8s.io" => kind == "StorageClass",
        _ => false,
    };
    !plain
}

/// What is known of a Work that is to be cleaned up.
#[derive(Debug, Clone, Copy)]
pub struct Ending<'a> {
    /// Whether this cluster is a member.
    pub joined: bool,
    /// Whether a round for this Work is running.
    pub round_in_flight: bool,
    /// The Work.
    pub work: WorkView,
    /// Its namespace.
    pub namespace: HubNamespace,
    /// Its AppliedWork.
    pub applied_work: &'a AppliedWorkView,
    /// How much of what it owned was removed by this pass.
    pub swept: Swept,
    /// After how long a deletion counts as stuck.
    pub help_after: SignedDuration,
    /// The time.
    pub now: Timestamp,
}

/// The next step. `Complete` is only ever said of an AppliedWork that the API server says is absent, with no round
/// running: the inventory is in it, so its absence is a proof that survives crashes.
pub fn clean_up(ending: &Ending<'_>) -> CleanUp {
    if !ending.work.deleting || !ending.work.has_finalizer {
        return CleanUp::Nothing;
    }
    if !ending.joined {
        return CleanUp::Pause(Pause::NotJoined);
    }
    if ending.round_in_flight {
        return CleanUp::Pause(Pause::RoundInFlight);
    }
    match ending.applied_work {
        AppliedWorkView::Unknown => CleanUp::Pause(Pause::NotKnown),
        AppliedWorkView::Absent => CleanUp::Complete,
        AppliedWorkView::Present { uid } => {
            match ending.namespace {
                HubNamespace::Active => {}
                HubNamespace::Terminating | HubNamespace::Gone | HubNamespace::Forbidden => {
                    return CleanUp::Pause(Pause::NamespaceGoing);
                }
                HubNamespace::Unknown => return CleanUp::Pause(Pause::NotKnown),
                HubNamespace::NotAsked => return CleanUp::AskNamespace,
            }
            let propagation = match ending.swept {
                _ if ending.work.abandon => Propagation::Orphan,
                Swept::NotYet => return CleanUp::Sweep,
                Swept::Partly => Propagation::Foreground,
                Swept::Everything => Propagation::Background,
            };
            CleanUp::DeleteOwner {
                uid: uid.clone(),
                propagation,
            }
        }
        AppliedWorkView::Terminating { since } => {
            let help_at = *since + ending.help_after;
            if ending.now >= help_at {
                CleanUp::Help
            } else {
                CleanUp::AwaitOwner { help_at }
            }
        }
    }
}

/// What a member that was told to leave does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Begin nothing, and wait for what is running.
    AwaitRounds,
    /// Say that the applier has stopped. Repeated on every connection for as long as the state is Leave.
    SayStopped,
}

/// What a member that was told to leave does, with so many rounds and clean-ups running.
pub fn leave(in_flight: usize) -> Leave {
    if in_flight == 0 {
        Leave::SayStopped
    } else {
        Leave::AwaitRounds
    }
}

#[cfg(test)]
mod tests;
