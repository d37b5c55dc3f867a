//! One placement with everything that belongs to it, and all placements with what a summary needs.

use fleet_api::{
    kind::{Kind, SpecKind as _},
    labels::{IS_LATEST_SNAPSHOT, PARENT_PLACEMENT},
    names,
    placement::{Scope, Work, WorkSpec},
};
use fleet_core::explain::Family;
use kube::core::{ObjectMeta, object::HasSpec as _};

use super::{LARGE_PAGE, Reader, SMALL_PAGE};
use crate::{hub::Ask, problem::Problem};

impl Reader<'_> {
    /// The object of this name; it is read as a list, which works for every scope.
    pub(crate) async fn one<K: Kind>(&self, namespace: &str, name: &str) -> Result<Option<K>, Problem> {
        let fields = format!("metadata.name={name}");
        let ask = Ask {
            namespace,
            fields: &fields,
            ..Ask::default()
        };
        let found = self
            .must(ask, |found: &K| found.meta().name.as_deref() == Some(name))
            .await?;
        Ok(found.into_iter().next())
    }

    /// Whether there is an object of this name. A hub may not have the kind at all.
    pub(crate) async fn has<K: Kind>(&self, namespace: &str, name: &str) -> Result<bool, Problem> {
        match self.one::<K>(namespace, name).await {
            Err(problem) if problem.is_forbidden() || problem.is_unserved() => Ok(false),
            found => found.map(|found| found.is_some()),
        }
    }

    /// A placement, its policy snapshot, its bindings and runs. Six requests.
    pub(crate) async fn placement<S: Scope>(&self, namespace: &str, name: &str) -> Result<Family<S>, Problem> {
        let own = format!("{PARENT_PLACEMENT}={name}");
        let latest = format!("{own},{IS_LATEST_SNAPSHOT}=true");
        let ask = Ask {
            namespace,
            ..Ask::default()
        };
        let is_own = |run: &S::UpdateRun| run.spec().placement_name == name;
        let (placement, policies, snapshots, bindings, runs, approvals) = futures::try_join!(
            self.one::<S::Placement>(namespace, name),
            self.may::<S::PolicySnapshot>(Ask { labels: &latest, ..ask }, |_| true),
            self.may_metadata::<S::ResourceSnapshot>(Ask { labels: &own, ..ask }),
            self.may::<S::Binding>(
                Ask {
                    labels: &own,
                    page: Some(LARGE_PAGE),
                    ..ask
                },
                |_| true
            ),
            self.may::<S::UpdateRun>(ask, is_own),
            self.may::<S::ApprovalRequest>(ask, |_| true),
        )?;
        Ok(Family {
            placements: placement.into_iter().collect(),
            policies,
            snapshots,
            bindings,
            runs,
            approvals,
            ..Family::default()
        })
    }

    /// All placements and runs. A hub without such kinds has none.
    pub(crate) async fn overview<S: Scope>(&self, namespace: &str) -> Result<Family<S>, Problem> {
        let ask = Ask {
            namespace,
            ..Ask::default()
        };
        let placements = Ask {
            page: Some(SMALL_PAGE),
            ..ask
        };
        let (placements, runs) = futures::try_join!(
            self.may::<S::Placement>(placements, |_| true),
            self.may::<S::UpdateRun>(ask, |_| true),
        )?;
        Ok(Family {
            placements,
            runs,
            ..Family::default()
        })
    }

    /// The Works of a member, or of all of them, with this label: without what is in them.
    pub(crate) async fn work_names(&self, cluster: Option<&str>, labels: &str) -> Result<Vec<Work>, Problem> {
        let namespace = cluster.map(member_namespace).unwrap_or_default();
        let ask = Ask {
            namespace: &namespace,
            labels,
            page: Some(LARGE_PAGE),
            ..Ask::default()
        };
        let found = self.may_metadata::<Work>(ask).await?;
        let bare = |metadata: ObjectMeta| Work::from_spec(metadata, WorkSpec::default());
        Ok(found.into_iter().map(bare).collect())
    }
}

/// The namespace of a member on the hub.
pub(crate) fn member_namespace(cluster: &str) -> String {
    format!("{}{cluster}", names::MEMBER_NAMESPACE_PREFIX)
}
