//! Events about an object, in the order in which they were written.

use anyhow::Result;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use kube::runtime::watcher;

use crate::harness::Ctx;
use crate::wait;

/// Those of one object on the hub.
#[derive(Debug, Clone)]
pub struct Events {
    api: Api<Event>,
    fields: String,
    name: String,
}

impl Events {
    /// About an object of this kind and name; without a namespace it is cluster-scoped.
    pub async fn about(ctx: &Ctx, namespace: Option<&str>, kind: &str, name: &str) -> Result<Self> {
        Ok(Self {
            api: Api::namespaced(ctx.hub().await?, namespace.unwrap_or("default")),
            fields: format!("involvedObject.kind={kind},involvedObject.name={name}"),
            name: name.to_owned(),
        })
    }

    /// All so far.
    pub async fn list(&self) -> Result<Vec<Event>> {
        let selector = ListParams::default().fields(&self.fields);
        Ok(in_order(self.api.list(&selector).await?.items))
    }

    /// Waits for one of this reason with all of these words; gives all that there are then.
    pub async fn until(&self, reason: &str, words: &[&str]) -> Result<Vec<Event>> {
        self.until_told(1, reason, words).await
    }

    /// The same for one that has been told so many times.
    pub async fn until_told(&self, times: i32, reason: &str, words: &[&str]) -> Result<Vec<Event>> {
        let selector = watcher::Config::default().fields(&self.fields);
        let what = format!("Event {reason} of {} with {words:?}, {times} time(s)", self.name);
        let wanted = |event: &&Event| {
            let said = event.message.as_deref().unwrap_or_default();
            event.reason.as_deref() == Some(reason) && words.iter().all(|word| said.contains(word))
        };
        let found = wait::until_list_where(self.api.clone(), selector, &what, |list: &[Event]| {
            let told = list.iter().filter(wanted).map(|event| event.count.unwrap_or(1));
            told.sum::<i32>() >= times
        })
        .await?;
        Ok(in_order(found))
    }
}

fn in_order(mut events: Vec<Event>) -> Vec<Event> {
    let version = |event: &Event| {
        let text = event.metadata.resource_version.as_deref().unwrap_or_default();
        text.parse::<u64>().unwrap_or_default()
    };
    events.sort_by_key(version);
    events
}
