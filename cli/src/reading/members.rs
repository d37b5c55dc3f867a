//! Members, and what is known of one.

use fleet_api::{
    cluster::{InternalMemberCluster, InternalMemberClusterSpec, MemberCluster},
    kind::SpecKind as _,
};
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::{api::ListParams, core::ObjectMeta};

use super::{LARGE_PAGE, Reader, family::member_namespace};
use crate::{
    hub::Ask,
    problem::{Problem, brief},
};

impl Reader<'_> {
    /// All members, and whether they are held: two requests for each thousand.
    pub(crate) async fn members(&self) -> Result<(Vec<MemberCluster>, Vec<InternalMemberCluster>), Problem> {
        let ask = Ask {
            page: Some(LARGE_PAGE),
            ..Ask::default()
        };
        let (members, internals) = futures::try_join!(
            self.may::<MemberCluster>(ask, |_| true),
            self.may_metadata::<InternalMemberCluster>(ask),
        )?;
        Ok((members, internals.into_iter().map(bare).collect()))
    }

    /// One member, two requests.
    pub(crate) async fn member(&self, name: &str) -> Result<(Vec<MemberCluster>, Vec<InternalMemberCluster>), Problem> {
        let (namespace, fields) = (member_namespace(name), format!("metadata.name={name}"));
        let ask = Ask {
            fields: &fields,
            ..Ask::default()
        };
        let (members, internals) = futures::try_join!(
            self.may::<MemberCluster>(ask, |_| true),
            self.may_metadata::<InternalMemberCluster>(Ask {
                namespace: &namespace,
                ..ask
            }),
        )?;
        Ok((members, internals.into_iter().map(bare).collect()))
    }

    /// The member's namespace, if it is being deleted.
    pub(crate) async fn terminating(&self, member: &str) -> Vec<String> {
        let name = member_namespace(member);
        match self
            .hub
            .core::<Namespace>("", &ListParams::default().fields(&format!("metadata.name={name}")))
            .await
        {
            Ok(found) => {
                let deleted = found.into_iter().filter(|it| it.metadata.deletion_timestamp.is_some());
                deleted.filter_map(|it| it.metadata.name).collect()
            }
            Err(error) => {
                self.hide("namespaces", &brief(&error), "kubectl auth can-i list namespaces");
                Vec::new()
            }
        }
    }

    /// Events about objects with this name, or all.
    pub(crate) async fn events(&self, namespace: &str, fields: &str) -> Vec<Event> {
        let params = ListParams::default().fields(fields);
        match self.hub.core::<Event>(namespace, &params).await {
            Ok(found) => found,
            Err(error) => {
                self.hide(
                    "events",
                    &brief(&error),
                    "kubectl auth can-i list events --all-namespaces",
                );
                Vec::new()
            }
        }
    }
}

fn bare(metadata: ObjectMeta) -> InternalMemberCluster {
    InternalMemberCluster::from_spec(metadata, InternalMemberClusterSpec::default())
}
