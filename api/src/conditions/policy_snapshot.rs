//! The condition of a policy snapshot, and the reasons of its decisions.

states! {
    /// Whether all wanted clusters were found. Written by the scheduler, never Unknown.
    pub enum Scheduled = "Scheduled" {
        Fulfilled { clusters: usize } => True "SchedulingPolicyFulfilled"
            "found all cluster needed as specified by the scheduling policy, found {clusters} cluster(s)" published;
        Unfulfilled { clusters: usize } => False "SchedulingPolicyUnfulfilled"
            "could not find all clusters needed as specified by the scheduling policy, found {clusters} cluster(s) \
             instead";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::placement;
    use crate::conditions::{Words, assert_rows};

    #[test]
    fn words() {
        assert_rows(&[
            (
                &Scheduled::Fulfilled { clusters: 7 },
                "Scheduled=True SchedulingPolicyFulfilled: \
                 found all cluster needed as specified by the scheduling policy, found 7 cluster(s)",
            ),
            (
                &Scheduled::Unfulfilled { clusters: 7 },
                "Scheduled=False SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the \
                 scheduling policy, found 7 cluster(s) instead",
            ),
        ]);
    }

    #[test]
    fn placements_show_the_same_words() {
        let (here, there) = (
            Scheduled::Unfulfilled { clusters: 2 },
            placement::Scheduled::Unfulfilled { clusters: 2 },
        );
        assert_eq!((here.reason(), here.message()), (there.reason(), there.message()));
        let (here, there) = (
            Scheduled::Fulfilled { clusters: 2 },
            placement::Scheduled::Fulfilled { clusters: 2 },
        );
        assert_eq!((here.reason(), here.message()), (there.reason(), there.message()));
    }
}
