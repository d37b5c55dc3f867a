//! What becomes of the evictions, in the lines that scripts know.

use std::{collections::BTreeMap, ops::ControlFlow, time::Duration};

use anyhow::{Context as _, Result, anyhow};
use fleet_api::placement::ResourceIdentifier;

use super::{Drain, Read};
use crate::{
    evictions::{self, End, Eviction},
    hub::News,
    old,
    problem::Problem,
};

/// Between two looks at evictions that may not be watched.
const BETWEEN_LOOKS: Duration = Duration::from_millis(300);

/// Evictions that have not ended.
struct Open<'a> {
    drain: &'a Drain<'a>,
    placements: &'a BTreeMap<String, Read>,
    evictions: BTreeMap<String, Eviction>,
    /// Whether all that have ended are as they should be.
    is_drained: bool,
    /// One that somebody has deleted before its end.
    deleted: Option<Eviction>,
}

impl Drain<'_> {
    /// Says what becomes of each; whether all was taken off. Without a version to watch from, each is read now and then.
    pub(super) async fn follow(
        &self,
        version: Option<String>,
        made: Vec<Eviction>,
        placements: &BTreeMap<String, Read>,
    ) -> Result<bool> {
        let mut open = Open {
            drain: self,
            placements,
            evictions: made.into_iter().map(|it| (name(&it), it)).collect(),
            is_drained: true,
            deleted: None,
        };
        let following = async { Ok(open.until_ended(version).await?) };
        let followed = old::in_time(self.deadline, following).await;
        let failed = |eviction: &Eviction| {
            format!(
                "failed to wait for {} to reach terminal state",
                evictions::title(eviction)
            )
        };
        match (followed, &open.deleted, open.evictions.values().next()) {
            (Err(error), _, Some(left)) => Err(error.context(failed(left))),
            (Err(error), _, None) => Err(error),
            (Ok(()), Some(gone), _) => {
                Err(anyhow!("failed to get {}: it was deleted", evictions::title(gone))).with_context(|| failed(gone))
            }
            (Ok(()), None, _) => Ok(open.is_drained),
        }
    }

    /// Says how an eviction ended; whether that is as it should be.
    fn say_end(&self, eviction: &Eviction, end: &End, placement: Option<&Read>) -> bool {
        let (name, crp, cluster, say) = (name(eviction), &eviction.spec.placement_name, self.cluster, self.say);
        let about = format!("for CRP {crp} targeting member cluster {cluster}");
        match end {
            End::Gone(reason) => say(&format!(
                "eviction {name} is invalid with reason {reason} {about}, but drain will succeed"
            )),
            End::Blocked(_) | End::Invalid(_) => {
                say(&format!("eviction {name} was not executed successfully {about}"));
                return false;
            }
            End::Executed(_) => {
                say(&format!("eviction {name} was executed successfully {about}"));
                self.say_resources(crp, placement);
            }
        }
        true
    }

    /// Names what went with a placement that was taken off.
    fn say_resources(&self, crp: &str, placement: Option<&Read>) {
        let selected = match placement {
            Some(Ok(Some(placement))) => placement.status.as_ref().map(|it| it.selected_resources.as_slice()),
            Some(Err(problem)) => {
                (self.say)(&format!(
                    "failed to collect cluster scoped resources selected by CRP {crp}: failed to get ClusterResourcePlacement \
                     {crp}: {problem}"
                ));
                None
            }
            Some(Ok(None)) | None => None,
        };
        for resource in selected.unwrap_or_default().iter().filter(|it| it.namespace.is_empty()) {
            let (resource, cluster) = (identifier(resource), self.cluster);
            (self.say)(&format!(
                "evicted resource {resource} propagated by CRP {crp} targeting member cluster {cluster}"
            ));
        }
    }
}

impl Open<'_> {
    async fn until_ended(&mut self, version: Option<String>) -> Result<(), Problem> {
        if self.evictions.is_empty() {
            return Ok(());
        }
        let Drain { hub, cluster, .. } = *self.drain;
        if let Some(mut version) = version {
            let is_here = |eviction: &Eviction| eviction.spec.cluster_name == cluster;
            return hub.follow(&mut version, is_here, |news| self.heard(news)).await;
        }
        loop {
            let mut seen = Vec::new();
            for name in self.evictions.keys() {
                seen.extend(hub.find::<Eviction>(name).await?);
            }
            if self.heard(News::All(seen)).is_break() {
                return Ok(());
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Says what has ended, until all have.
    fn heard(&mut self, news: News<Eviction>) -> ControlFlow<()> {
        let seen = match news {
            News::Is(eviction) => vec![eviction],
            News::Gone(eviction) => {
                self.deleted = self.evictions.get(&name(&eviction)).cloned();
                Vec::new()
            }
            News::All(all) => {
                let is_there = |own: &Eviction| all.iter().any(|it| name(it) == name(own));
                self.deleted = self.evictions.values().find(|own| !is_there(own)).cloned();
                all
            }
        };
        for eviction in seen {
            if let (true, Some(end)) = (self.evictions.contains_key(&name(&eviction)), evictions::end(&eviction)) {
                self.evictions.remove(&name(&eviction));
                let placement = self.placements.get(&eviction.spec.placement_name);
                self.is_drained &= self.drain.say_end(&eviction, &end, placement);
            }
        }
        if self.evictions.is_empty() || self.deleted.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

fn name(eviction: &Eviction) -> String {
    eviction.metadata.name.clone().unwrap_or_default()
}

/// As KubeFleet's plugin writes it.
fn identifier(resource: &ResourceIdentifier) -> String {
    let or_quotes = |text: &str| {
        if text.is_empty() {
            "''".to_owned()
        } else {
            text.to_owned()
        }
    };
    let ResourceIdentifier {
        group,
        version,
        kind,
        namespace,
        name,
        ..
    } = resource;
    format!("{}/{version}/{kind}/{}/{name}", or_quotes(group), or_quotes(namespace))
}
