//! Conditions of an approval request.

use crate::names::Scope;

states! {
    /// The user's approval. Written by the command line, or by hand with any reason; it counts only for the request's
    /// generation.
    pub enum Approved = "Approved" {
        Cluster => True "ClusterApprovalRequestApproved" "ClusterApprovalRequest has been approved";
        Namespaced => True "ApprovalRequestApproved" "ApprovalRequest has been approved";
    }
}

impl Approved {
    /// The words for a request of this scope.
    pub const fn of(scope: Scope) -> Self {
        match scope {
            Scope::Cluster => Self::Cluster,
            Scope::Namespaced => Self::Namespaced,
        }
    }
}

states! {
    /// The run has taken note of the approval. Written by the update run controller.
    pub enum ApprovalAccepted = "ApprovalAccepted" {
        Accepted => True "ApprovalRequestApprovalAccepted"
            "The approval request has been approved and cannot be reverted";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::assert_rows;

    #[test]
    fn words() {
        assert_rows(&[
            (
                &Approved::of(Scope::Cluster),
                "Approved=True ClusterApprovalRequestApproved: ClusterApprovalRequest has been approved",
            ),
            (
                &Approved::of(Scope::Namespaced),
                "Approved=True ApprovalRequestApproved: ApprovalRequest has been approved",
            ),
            (
                &ApprovalAccepted::Accepted,
                "ApprovalAccepted=True ApprovalRequestApprovalAccepted: \
                 The approval request has been approved and cannot be reverted",
            ),
        ]);
    }
}
