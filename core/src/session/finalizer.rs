//! The cleanup finalizer on Works, as a handshake between hub and member.
//!
//! It is added before the first apply and removed when the member says that nothing is left, when the member has
//! stopped for good, or when it is given up. The hub looks only at what is stored; the member believes only what it
//! reads from the API server.

use fleet_api::cluster::{ClusterState, InternalMemberCluster};
use fleet_api::finalizers;
use fleet_api::placement::Work;

use super::{Decision, Outcome};

/// The Work's finalizers as they should be: to be patched under its resourceVersion.
pub type Finalizers = Vec<String>;

/// A member wants to start applying a Work.
pub fn claim(work: Option<&Work>, uid: &str, imc: &InternalMemberCluster) -> Decision<Finalizers> {
    let work = match find(work, uid) {
        Ok(work) => work,
        Err(answer) => return answer,
    };
    if work.metadata.deletion_timestamp.is_some() {
        return Decision::answer(Outcome::Superseded, "the Work is being deleted");
    }
    if imc.spec.state != ClusterState::Join || imc.metadata.deletion_timestamp.is_some() {
        return Decision::answer(Outcome::Superseded, "the cluster is leaving the fleet");
    }
    let mut list = work.metadata.finalizers.clone().unwrap_or_default();
    if list.iter().any(|f| f == finalizers::WORK) {
        return Decision::answer(Outcome::Unchanged, "");
    }
    list.push(finalizers::WORK.to_owned());
    Decision::write(list)
}

/// A member says that nothing of a Work is left.
pub fn cleanup_complete(work: Option<&Work>, uid: &str) -> Decision<Finalizers> {
    let work = match find(work, uid) {
        Ok(work) => work,
        Err(answer) => return answer,
    };
    if work.metadata.deletion_timestamp.is_none() {
        return Decision::answer(Outcome::NotDeleting, "the Work is not being deleted");
    }
    without_ours(work).map_or_else(|| Decision::answer(Outcome::Unchanged, ""), Decision::write)
}

/// A member says that it has stopped for good. `Write`: take the finalizer off every Work of the namespace that has it,
/// then mark the agent as left. Repeated on every connection, and then strips whatever is still found.
pub fn applier_stopped(imc: &InternalMemberCluster, uid: &str, generation: i64) -> Decision<()> {
    if imc.metadata.uid.as_deref() != Some(uid) {
        return Decision::answer(Outcome::UidMismatch, "the InternalMemberCluster is another one now");
    }
    let current = imc.metadata.generation.unwrap_or_default();
    if imc.spec.state != ClusterState::Leave {
        return if generation > current {
            Decision::ReadAgain
        } else {
            Decision::answer(Outcome::NotDeleting, "the cluster has not been asked to leave")
        };
    }
    match generation.cmp(&current) {
        std::cmp::Ordering::Less => Decision::answer(Outcome::Superseded, "said before the current request to leave"),
        std::cmp::Ordering::Equal => Decision::write(()),
        std::cmp::Ordering::Greater => Decision::ReadAgain,
    }
}

/// The finalizers of a Work without ours; none if it has not got it.
pub fn without_ours(work: &Work) -> Option<Finalizers> {
    let list = work.metadata.finalizers.as_ref()?;
    let rest: Vec<String> = list.iter().filter(|f| *f != finalizers::WORK).cloned().collect();
    (rest.len() < list.len()).then_some(rest)
}

fn find<'a, T>(work: Option<&'a Work>, uid: &str) -> Result<&'a Work, Decision<T>> {
    let Some(work) = work else {
        return Err(Decision::answer(Outcome::Gone, "no such Work"));
    };
    if work.metadata.uid.as_deref() != Some(uid) {
        return Err(Decision::answer(
            Outcome::UidMismatch,
            "the Work of this name is another one now",
        ));
    }
    Ok(work)
}

#[cfg(test)]
mod tests {
    use fleet_api::placement::WorkSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

    use super::*;
    use crate::membership::fixtures::{at, internal};

    fn work(finalizers: &[&str], deleting: bool) -> Work {
        Work {
            metadata: ObjectMeta {
                name: Some("w".into()),
                uid: Some("u".into()),
                finalizers: Some(finalizers.iter().map(|f| (*f).into()).collect()),
                deletion_timestamp: deleting.then(|| Time(at(1))),
                ..ObjectMeta::default()
            },
            spec: WorkSpec::default(),
            status: None,
        }
    }

    const OURS: &str = "kubernetes-fleet.io/work-cleanup";

    #[test]
    fn a_claim_adds_the_finalizer_once_and_only_to_what_lives() {
        let (joined, mut leaving) = (internal("c1", "i"), internal("c1", "i"));
        leaving.spec.state = ClusterState::Leave;
        let outcome = |w: Option<&Work>, uid, imc| claim(w, uid, imc).outcome();
        assert_eq!(
            claim(Some(&work(&["x"], false)), "u", &joined),
            Decision::write(vec!["x".into(), OURS.into()])
        );
        assert_eq!(
            outcome(Some(&work(&[OURS], false)), "u", &joined),
            Some(Outcome::Unchanged)
        );
        assert_eq!(outcome(Some(&work(&[], true)), "u", &joined), Some(Outcome::Superseded));
        assert_eq!(
            outcome(Some(&work(&[], false)), "u", &leaving),
            Some(Outcome::Superseded)
        );
        assert_eq!(
            outcome(Some(&work(&[], false)), "old", &joined),
            Some(Outcome::UidMismatch)
        );
        assert_eq!(outcome(None, "u", &joined), Some(Outcome::Gone));
    }

    #[test]
    fn a_clean_up_takes_off_exactly_ours_and_only_while_deleting() {
        let outcome = |w: Option<&Work>, uid| cleanup_complete(w, uid).outcome();
        assert_eq!(
            cleanup_complete(Some(&work(&["x", OURS], true)), "u"),
            Decision::write(vec!["x".into()])
        );
        assert_eq!(outcome(Some(&work(&[OURS], false)), "u"), Some(Outcome::NotDeleting));
        assert_eq!(
            outcome(Some(&work(&["x"], true)), "u"),
            Some(Outcome::Unchanged),
            "a duplicate"
        );
        assert_eq!(outcome(Some(&work(&[OURS], true)), "old"), Some(Outcome::UidMismatch));
        assert_eq!(outcome(None, "u"), Some(Outcome::Gone));
    }

    #[test]
    fn works_are_let_go_only_for_the_request_that_is_stored() {
        let mut imc = internal("c1", "i");
        imc.metadata.generation = Some(4);
        assert_eq!(applier_stopped(&imc, "i", 4).outcome(), Some(Outcome::NotDeleting));
        assert_eq!(applier_stopped(&imc, "i", 5), Decision::ReadAgain);
        imc.spec.state = ClusterState::Leave;
        assert_eq!(applier_stopped(&imc, "i", 4), Decision::write(()));
        assert_eq!(applier_stopped(&imc, "i", 3).outcome(), Some(Outcome::Superseded));
        assert_eq!(applier_stopped(&imc, "i", 5), Decision::ReadAgain);
        assert_eq!(applier_stopped(&imc, "j", 4).outcome(), Some(Outcome::UidMismatch));
    }
}
