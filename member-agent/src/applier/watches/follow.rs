//! Follows one kind on this cluster, in whichever version it is served, from the current state on and without listing anything.

use std::time::Duration;

use fleet_runtime::{
    backoff::Backoff,
    cache::{Interruption, Metadata, Reason, Selection, Shown, Start, Stream},
    logs,
};
use kube::{
    Api,
    api::DynamicObject,
    core::{ApiResource, PartialObjectMeta},
};
use tokio::sync::watch as channel;

use super::{Name, Watches};
use crate::applier::member_api::kinds::{Elsewhere, Gvk};

const PATIENCE: Backoff = Backoff {
    min: Duration::from_millis(200),
    max: Duration::from_secs(30),
};

/// One kind.
struct Kind {
    watches: Watches,
    name: Name,
    running: channel::Sender<bool>,
    known_before: bool,
}

/// Tells of every change to objects of a kind, for ever. `running` says whether changes are seen.
pub(super) async fn follow(watches: Watches, mut resource: ApiResource, name: Name, running: channel::Sender<bool>) {
    let selection = Selection {
        backoff: PATIENCE,
        // The kind may be that of another API server, behind this cluster's.
        ..Selection::all(&watches.era().behind())
    };
    let client = watches.client();
    let source = |resource: &ApiResource| Metadata(Api::<DynamicObject>::all_with(client.clone(), resource));
    let mut stream = Stream::new(source(&resource), selection, Start::Now, 0);
    let mut kind = Kind {
        watches,
        name,
        running,
        known_before: false,
    };
    loop {
        let interruption = stream.run(&mut |shown| kind.take(shown)).await;
        kind.running.send_replace(false);
        if interruption.reason == Reason::NotFound
            && let Some(other) = kind.elsewhere(&resource).await
        {
            stream.move_to(source(&other));
            resource = other;
        }
        let Interruption { failures, message, .. } = interruption;
        let (plural, group) = (&resource.plural, &resource.group);
        if failures == 1 {
            tracing::info!(kind = plural, group, error = message, "Watch interrupted");
        } else {
            tracing::debug!(
                kind = plural,
                group,
                error = message,
                failures,
                "Watch still interrupted"
            );
        }
        stream.pause().await;
    }
}

impl Kind {
    fn take(&mut self, shown: Shown<PartialObjectMeta<DynamicObject>>) {
        let kind = &self.name.1;
        match shown {
            Shown::Watching { anew } => {
                self.running.send_replace(true);
                if anew {
                    let first = !std::mem::replace(&mut self.known_before, true);
                    self.watches.missed(&self.name, first);
                }
            }
            Shown::Applied(object) | Shown::Deleted(object) => self.watches.event(&self.name, &object),
            Shown::Undecodable(error) => {
                tracing::warn!(kind, error = %logs::chain(&error), "Event cannot be decoded");
            }
            Shown::WentBack { now, held } => tracing::warn!(kind, now, held, "The cluster's versions went back"),
            // Nothing is kept here but how new each object is, which the next gap clears.
            Shown::EraOver | Shown::Restarted | Shown::Listed(_) | Shown::ListDone(_) | Shown::Progress(_) => {}
        }
    }

    /// The kind in another version, if it has moved there.
    async fn elsewhere(&self, resource: &ApiResource) -> Option<ApiResource> {
        let gvk = Gvk {
            group: resource.group.clone(),
            version: resource.version.clone(),
            kind: resource.kind.clone(),
        };
        let kinds = self.watches.kinds();
        kinds.forget(&gvk);
        match kinds.elsewhere(&gvk).await {
            Elsewhere::Served(kind) if kind.resource != *resource => {
                let (from, to) = (&gvk.version, &kind.resource.version);
                tracing::info!(kind = gvk.kind, group = gvk.group, from, to, "Watching another version");
                Some(kind.resource)
            }
            _ => None,
        }
    }
}
