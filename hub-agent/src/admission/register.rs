//! The leader tells the API server about the webhooks, and every replica looks whether that is so.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use fleet_api::names::field_managers;
use fleet_runtime::{
    Key,
    backoff::Backoff,
    cache::{Era, Selection, Store, plain},
    client::answered,
    health::Check,
    logs,
};
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
        },
        core::v1::Namespace,
        rbac::v1::ClusterRole,
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams},
    core::ClusterResourceScope,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    configuration::{self, At, Configuration, MUTATING, Trust, VALIDATING, bundle},
    hooks::Hook,
};
use crate::{certificates::Tls, writer::delete_exactly};

const RETRY: Backoff = Backoff {
    min: Duration::from_secs(1),
    max: Duration::from_mins(1),
};
/// Between two looks at them: somebody else may write what we write back.
const PAUSE: Duration = Duration::from_secs(1);
/// Changed so often one after the other, they are somebody else's too.
const CONTESTED: u32 = 5;
/// The API server hears of a configuration about when we do, and acts upon it soon after.
const HEARD: Duration = Duration::from_secs(1);

/// Its webhooks, by name.
pub(super) type Hooks<'a> = BTreeMap<&'a str, &'a WebhookClientConfig>;

/// Either kind of configuration.
pub(super) trait Registered:
    Resource<DynamicType = (), Scope = ClusterResourceScope>
    + Clone
    + DeserializeOwned
    + std::fmt::Debug
    + Send
    + Sync
    + 'static
{
    fn hooks(&self) -> Hooks<'_>;
}

macro_rules! registered {
    ($kind:ty) => {
        impl Registered for $kind {
            fn hooks(&self) -> Hooks<'_> {
                let hooks = self.webhooks.iter().flatten();
                hooks
                    .map(|hook| (hook.name.as_str(), &hook.client_config))
                    .collect()
            }
        }
    };
}
registered!(MutatingWebhookConfiguration);
registered!(ValidatingWebhookConfiguration);

/// The two objects as they are. Cheap to clone.
#[derive(Clone)]
pub(super) struct Stores {
    mutating: Store<MutatingWebhookConfiguration>,
    validating: Store<ValidatingWebhookConfiguration>,
}

impl Stores {
    pub(super) fn new() -> Self {
        Self {
            mutating: Store::new("mutatingwebhookconfigurations"),
            validating: Store::new("validatingwebhookconfigurations"),
        }
    }

    /// Watches them, for ever.
    pub(super) async fn watch(self, client: Client, era: Era) {
        let named = |name: &str| Selection {
            fields: Some(format!("metadata.name={name}")),
            ..Selection::all(&era)
        };
        tokio::join!(
            self.mutating.watch(Api::all(client.clone()), named(MUTATING), plain),
            self.validating.watch(Api::all(client), named(VALIDATING), plain),
        );
    }

    /// Waits for the next change of either.
    async fn changed(
        (mutating, validating): &mut (
            fleet_runtime::cache::Changes<MutatingWebhookConfiguration>,
            fleet_runtime::cache::Changes<ValidatingWebhookConfiguration>,
        ),
    ) {
        tokio::select! {
            _ = mutating.next() => {}
            _ = validating.next() => {}
        }
    }

    /// Whether all webhooks of both trust this CA; whoever else fills it in only has to have done so.
    fn trust(&self, ca: Option<&str>) -> bool {
        let (mutating, validating) = (
            self.mutating.get(&Key::cluster(MUTATING)),
            self.validating.get(&Key::cluster(VALIDATING)),
        );
        let (Some(mutating), Some(validating)) = (mutating, validating) else {
            return false;
        };
        let all: Vec<_> = mutating
            .hooks()
            .into_values()
            .chain(validating.hooks().into_values())
            .cloned()
            .collect();
        !all.is_empty()
            && all.iter().all(|client| {
                let text = bundled(client);
                ca.map_or(!text.is_empty(), |ca| text.contains(ca.trim()))
            })
    }
}

fn bundled(client: &WebhookClientConfig) -> String {
    let bytes = client.ca_bundle.as_ref().map(|ByteString(bytes)| bytes.as_slice());
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

/// What the configurations go with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owner {
    /// This ClusterRole: it goes with the release that it is of.
    ClusterRole(String),
    /// This namespace.
    Namespace(String),
}

impl Owner {
    async fn reference(&self, client: &Client) -> anyhow::Result<OwnerReference> {
        async fn read<K>(client: &Client, name: &str) -> anyhow::Result<OwnerReference>
        where
            K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
        {
            let found = answered(Api::<K>::all(client.clone()).get(name)).await;
            let found = found.with_context(|| format!("cannot read {} {name}", K::kind(&())))?;
            Ok(configuration::owner(&found))
        }
        match self {
            Self::ClusterRole(name) => read::<ClusterRole>(client, name).await,
            Self::Namespace(name) => read::<Namespace>(client, name).await,
        }
    }
}

/// What the leader writes.
pub(super) struct Registration {
    pub(super) client: Client,
    pub(super) stores: Stores,
    pub(super) at: At,
    pub(super) owner: Owner,
    pub(super) networking: bool,
    /// The Certificate (`namespace/name`) of cert-manager, if that is who says whom to trust.
    pub(super) injected_from: Option<String>,
}

impl Registration {
    /// Writes the configurations whenever they are not as they should be, while this replica leads. Never ends.
    pub(super) async fn run(self, mut ca: watch::Receiver<Option<String>>, mut leading: watch::Receiver<bool>) {
        self.stores.mutating.synced().await;
        self.stores.validating.synced().await;
        let mut changes = (self.stores.mutating.subscribe(), self.stores.validating.subscribe());
        let (mut failures, mut contested) = (0, 0);
        loop {
            let known = ca.wait_for(Option::is_some).await.map(|ca| ca.clone());
            let Ok(Some(current)) = known else {
                return std::future::pending().await;
            };
            if leading.wait_for(|leading| *leading).await.is_err() {
                return std::future::pending().await;
            }
            match self.pass(&current).await {
                Ok(differed) => {
                    failures = 0;
                    contested = if differed { contested + 1 } else { 0 };
                    if contested == CONTESTED {
                        tracing::warn!(
                            "Somebody else keeps changing the webhook configurations {MUTATING} or {VALIDATING}: they are written \
                             again each time, once a second; let only one of the two do so"
                        );
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => {
                    failures += 1;
                    let error = format!("{error:#}");
                    tracing::warn!(error, failures, "The webhook configurations could not be written");
                    tokio::time::sleep(RETRY.delay(failures)).await;
                    continue;
                }
            }
            tokio::select! {
                _ = ca.changed() => {}
                _ = leading.changed() => {}
                () = Stores::changed(&mut changes) => {}
            }
        }
    }

    /// Whether one of them was there, and otherwise than it should be.
    async fn pass(&self, ca: &str) -> anyhow::Result<bool> {
        let (mutating, validating) = (
            self.stores.mutating.get(&Key::cluster(MUTATING)),
            self.stores.validating.get(&Key::cluster(VALIDATING)),
        );
        let before = validating
            .as_ref()
            .and_then(|there| there.hooks().into_values().next().map(bundled));
        let configuration = Configuration {
            at: self.at.clone(),
            trust: match &self.injected_from {
                Some(certificate) => Trust::InjectedFrom(certificate.clone()),
                None => Trust::Bundle(bundle(ca, &before.unwrap_or_default())),
            },
            owner: self.owner.reference(&self.client).await?,
            networking: self.networking,
        };
        let wanted = configuration.mutating();
        let mutating = self.apply(&self.stores.mutating, mutating.as_deref(), &wanted).await?;
        let wanted = configuration.validating();
        let validating = self
            .apply(&self.stores.validating, validating.as_deref(), &wanted)
            .await?;
        Ok(mutating || validating)
    }

    /// Writes one of them, unless it is as it should be. It is never gone meanwhile. Whether it was there, and otherwise.
    async fn apply<K: Registered>(&self, store: &Store<K>, there: Option<&K>, wanted: &Value) -> anyhow::Result<bool> {
        let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
        let of_ours: Vec<&str> = wanted["webhooks"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|hook| hook["name"].as_str())
            .collect();
        let api = Api::<K>::all(self.client.clone());
        // Webhooks and owners of whoever had the object before (KubeFleet's hub agent) stay in an applied list: first they go.
        if let Some(there) = there
            && there.hooks().keys().any(|name| !of_ours.contains(name))
        {
            let patch = json!({
                "metadata": {
                    "resourceVersion": there.meta().resource_version,
                    "ownerReferences": wanted["metadata"]["ownerReferences"],
                },
                "webhooks": wanted["webhooks"],
            });
            let params = PatchParams {
                field_manager: Some(field_managers::HUB_AGENT.into()),
                ..PatchParams::default()
            };
            answered(api.patch(name, &params, &Patch::Merge(patch))).await?;
            tracing::info!(name, "Took a webhook configuration over");
        }
        let params = PatchParams::apply(field_managers::HUB_AGENT).force();
        let written = answered(api.patch(name, &params, &Patch::Apply(wanted))).await?;
        let before = there.and_then(|there| there.meta().resource_version.clone());
        let is_news = written.meta().resource_version != before;
        if is_news {
            tracing::info!(name, "Registered the webhooks");
        }
        store.wrote(written);
        Ok(is_news && before.is_some())
    }
}

/// Without webhooks, what an agent with webhooks has registered is taken back by the leader: nobody would answer. What
/// others have registered under these names is theirs. Never ends.
pub(super) async fn withdraw(client: Client, mut leading: watch::Receiver<bool>) {
    let mut failures = 0;
    while leading.wait_for(|leading| *leading).await.is_ok() {
        let withdrawn = async {
            remove::<MutatingWebhookConfiguration>(&client, MUTATING).await?;
            remove::<ValidatingWebhookConfiguration>(&client, VALIDATING).await
        };
        let Err(error) = withdrawn.await else { break };
        failures += 1;
        tracing::warn!(error = %logs::chain(&error), failures, "The webhook configurations could not be removed");
        tokio::time::sleep(RETRY.delay(failures)).await;
    }
    std::future::pending::<()>().await;
}

async fn remove<K: Registered>(client: &Client, name: &str) -> kube::Result<()> {
    let api = Api::<K>::all(client.clone());
    let Some(found) = answered(api.get_opt(name))
        .await?
        .filter(|found| is_ours(found.hooks().keys().copied()))
    else {
        return Ok(());
    };
    delete_exactly(&api, &found).await?;
    tracing::info!(name, "Removed a webhook configuration: there are no webhooks any more");
    Ok(())
}

/// Whether an object with these webhooks is our doing: KubeFleet registers none for ResourcePlacements.
fn is_ours<'a>(hooks: impl IntoIterator<Item = &'a str>) -> bool {
    let own = [Hook::DefaultPlacement.name(), Hook::Placement.name()];
    hooks.into_iter().any(|name| own.contains(&name))
}

/// Passes a new certificate on once the API server trusts its CA, the first at once; and says whether the webhooks are
/// served and registered. Never ends.
pub(super) async fn follow(
    stores: Stores,
    (mut tls, ca): (watch::Receiver<Option<Tls>>, watch::Receiver<Option<String>>),
    injected: bool,
    served: watch::Sender<Option<Tls>>,
    check: Check,
) {
    check.not_ready("there is no serving certificate yet");
    let mut changes = (stores.mutating.subscribe(), stores.validating.subscribe());
    let mut ready = false;
    loop {
        let (new, authority) = (tls.borrow_and_update().clone(), ca.borrow().clone());
        let trusted = stores.trust(authority.as_deref().filter(|_| !injected));
        let differs = |now: &Option<Tls>, new: &Tls| {
            now.as_ref()
                .is_none_or(|now| !std::sync::Arc::ptr_eq(&now.config, &new.config))
        };
        if let Some(new) = new.filter(|new| differs(&served.borrow(), new)) {
            if served.borrow().is_none() {
                served.send_replace(Some(new));
            } else if trusted {
                tokio::time::sleep(HEARD).await;
                served.send_replace(Some(new));
            }
        }
        // Once it was so, it is so: a configuration that somebody deletes is written again, and members are served all the
        // while.
        let has_certificate = served.borrow().is_some();
        match (ready, has_certificate, trusted) {
            (true, ..) => {}
            (false, false, _) => check.not_ready("there is no serving certificate yet"),
            (false, true, false) => {
                check.not_ready("the webhook configurations do not trust the serving certificate yet");
            }
            (false, true, true) => {
                tokio::time::sleep(HEARD).await;
                check.ready();
                ready = true;
            }
        }
        tokio::select! {
            more = tls.changed() => if more.is_err() {
                return std::future::pending().await;
            },
            () = Stores::changed(&mut changes) => {}
        }
    }
}
