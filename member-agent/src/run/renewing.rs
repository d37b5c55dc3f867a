//! Keeping the hub token good, and telling people on the hub.

use std::sync::Arc;

use fleet_api::events::InternalMemberClusterEvent;

use super::term::Member;
use crate::hub_access::{credential::Credential, renewal::Renewal};

impl Member {
    /// Tells people on the hub, if it is known whom about.
    pub(super) fn recorder(&self) -> impl Fn(&InternalMemberClusterEvent) -> bool + Send + Sync + use<> {
        let (outgoing, seen) = (self.outgoing.clone(), self.seen.clone());
        move |event| {
            let seen = seen.borrow();
            let Some(imc) = seen.imc() else {
                return false;
            };
            outgoing.record_on_cluster(&imc.uid, event);
            true
        }
    }

    /// Keeps a token that ends from ending.
    pub(super) async fn renew(&self) {
        let Credential::Token(source) = &self.credential else {
            return std::future::pending().await;
        };
        let renewal = Renewal {
            source: source.clone(),
            hub: self.hub.clone(),
            member: self.client.clone(),
            cluster: self.settings.cluster.clone(),
            record: Arc::new(self.recorder()),
            measures: self.measures.clone(),
            clock: self.clock.clone(),
        };
        renewal.run().await;
    }
}
