//! Where a scenario works: a member, its namespace on the hub, and a namespace of the scenario's own on the member.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fleet_api::conditions;
use fleet_api::placement::{AppliedWork, ManifestCondition, Work};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::members::Member;
use fleet_e2e::process::Spec;
use fleet_e2e::{agents, wait};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt as _};
use serde_json::{Value, json};

/// What has to be seen by a watch, not by a timer.
pub(crate) const SOON: Duration = Duration::from_secs(4);

pub(crate) struct Site {
    pub(crate) ctx: Ctx,
    /// The cluster that the agent runs on.
    pub(crate) cluster: &'static str,
    /// The member's namespace on the hub.
    pub(crate) hub_namespace: String,
    /// The scenario's namespace on the member.
    pub(crate) namespace: String,
    /// The scenario's Work.
    pub(crate) name: String,
    pub(crate) hub: Client,
    pub(crate) client: Client,
    /// The member, if it is the scenario's own.
    own: Option<Member>,
}

/// A scenario on a member that others use too.
pub(crate) fn on_site<Fut: Future<Output = Result<()>>>(name: &str, story: impl FnOnce(Site) -> Fut) {
    scenario(name, |ctx| async move {
        let hub_namespace = "fleet-member-member-1".to_owned();
        story(Site::new(ctx, "member-1", hub_namespace, None).await?).await
    });
}

/// A scenario with a member and an agent of its own, whose flags may be changed.
pub(crate) fn on_own_site<Fut: Future<Output = Result<()>>>(
    name: &str,
    change: impl FnOnce(&mut Spec),
    story: impl FnOnce(Site) -> Fut,
) {
    scenario(name, |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let mut spec = member.agent("member-2").await?;
        change(&mut spec);
        ctx.start_process(spec).await?;
        story(Site::of(ctx, member).await?).await
    });
}

impl Site {
    async fn new(ctx: Ctx, cluster: &'static str, hub_namespace: String, own: Option<Member>) -> Result<Self> {
        Ok(Self {
            namespace: ctx.namespace(cluster).await?,
            name: ctx.name("w"),
            hub: ctx.hub().await?,
            client: ctx.client(cluster).await?,
            cluster,
            hub_namespace,
            own,
            ctx,
        })
    }

    /// Where this member's agent, which is running, works: on `member-2`.
    pub(crate) async fn of(ctx: Ctx, member: Member) -> Result<Self> {
        member.joined().await?;
        let namespace = member.namespace();
        Self::new(ctx, "member-2", namespace, Some(member)).await
    }

    pub(crate) fn member(&self) -> Result<&Member> {
        self.own.as_ref().context("the scenario has no member of its own")
    }

    /// Kills its own agent.
    pub(crate) async fn kill(&self) -> Result<()> {
        self.ctx.fleet().kill(&self.member()?.process(self.cluster)).await
    }

    /// Starts it again.
    pub(crate) async fn start_again(&self) -> Result<()> {
        self.ctx
            .fleet()
            .start_again(&self.member()?.process(self.cluster))
            .await
    }

    /// What its own agent measures.
    pub(crate) async fn metrics(&self) -> Result<String> {
        agents::metrics(self.ctx.fleet(), &self.member()?.process(self.cluster)).await
    }

    pub(crate) fn works(&self) -> Api<Work> {
        Api::namespaced(self.hub.clone(), &self.hub_namespace)
    }

    pub(crate) fn applied_works(&self) -> Api<AppliedWork> {
        Api::all(self.client.clone())
    }

    /// Objects of a kind in the scenario's namespace on the member.
    pub(crate) fn all<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn configs(&self) -> Api<ConfigMap> {
        self.all()
    }

    pub(crate) fn config(&self, name: &str, data: &Value) -> Value {
        config(&self.namespace, name, data)
    }

    pub(crate) fn deployment(&self, name: &str, image: &str) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "main", "image": image}]},
                },
            },
        })
    }

    /// Makes the scenario's Work.
    pub(crate) async fn apply(&self, strategy: &Value, manifests: &[Value]) -> Result<Work> {
        let work = work(&self.name, strategy, manifests)?;
        self.ctx.create_in("hub", &self.hub_namespace, work).await
    }

    /// Somebody makes an object on the member.
    pub(crate) async fn theirs<K>(&self, object: &Value) -> Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        let object = serde_json::from_value(object.clone())?;
        self.ctx.create_in(self.cluster, &self.namespace, object).await
    }

    /// Gives the Work other manifests.
    pub(crate) async fn edit(&self, manifests: &[Value]) -> Result<Work> {
        self.patch(&json!({"spec": {"workload": {"manifests": manifests}}}))
            .await
    }

    pub(crate) async fn patch(&self, patch: &Value) -> Result<Work> {
        let (works, params) = (self.works(), PatchParams::default());
        Ok(works.patch(&self.name, &params, &Patch::Merge(patch)).await?)
    }

    /// Somebody changes a ConfigMap on the member.
    pub(crate) async fn tamper(&self, name: &str, patch: &Value) -> Result<ConfigMap> {
        let params = PatchParams {
            field_manager: Some("somebody".to_owned()),
            ..PatchParams::default()
        };
        Ok(self.configs().patch(name, &params, &Patch::Merge(patch)).await?)
    }

    pub(crate) async fn get(&self) -> Result<Work> {
        Ok(self.works().get(&self.name).await?)
    }

    pub(crate) async fn until(&self, condition: &str, wanted: &str) -> Result<Work> {
        self.until_work(&format!("{condition}={wanted}"), |work| is(work, condition, wanted))
            .await
    }

    pub(crate) async fn available(&self) -> Result<Work> {
        self.until("Available", "True").await
    }

    pub(crate) async fn until_work(&self, what: &str, wanted: impl FnMut(&Work) -> bool) -> Result<Work> {
        wait::until_present(self.works(), &self.name, what, wanted).await
    }

    /// Waits for the reasons of all manifests under a condition of the Work as it is now.
    pub(crate) async fn until_reasons(&self, condition: &str, wanted: &[&str]) -> Result<Work> {
        let what = format!("{condition}: {wanted:?}");
        let fresh = |work: &Work| {
            ["Applied", "DiffReported"]
                .iter()
                .any(|c| is(work, c, "True") || is(work, c, "False"))
        };
        self.until_work(&what, |work| fresh(work) && reasons(work, condition) == wanted)
            .await
    }

    /// The same, by a watch and not by a timer.
    pub(crate) async fn soon(&self, what: &str, wanted: impl Fn(&Work) -> bool) -> Result<Work> {
        let seen = |work: Option<&Work>| work.is_some_and(&wanted);
        let found = wait::until_within(SOON, self.works(), &self.name, what, seen).await?;
        found.context("the Work is gone")
    }

    /// Waits until a ConfigMap on the member has this under a key.
    pub(crate) async fn until_data(&self, name: &str, key: &str, value: &str) -> Result<ConfigMap> {
        let what = format!("{key}={value}");
        let has = |config: &ConfigMap| data(config, key) == Some(value);
        wait::until_present(self.configs(), name, &what, has).await
    }

    /// Waits for an Event about the Work.
    pub(crate) async fn until_event(&self, reason: &str) -> Result<Event> {
        let events: Api<Event> = Api::namespaced(self.hub.clone(), &self.hub_namespace);
        let selector = watcher::Config::default().fields(&format!("involvedObject.name={}", self.name));
        let is = |event: &Event| event.reason.as_deref() == Some(reason);
        let what = format!("Event {reason}");
        let found = wait::until_list_where(events, selector, &what, |list| list.iter().any(is)).await?;
        found.into_iter().find(is).context("it was there")
    }

    /// Applies a ConfigMap `c` and a Deployment, and waits until all that is to be written about them is written.
    pub(crate) async fn settle(&self) -> Result<()> {
        let manifests = [self.config("c", &json!({})), self.deployment("web", "nginx")];
        self.apply(&json!({}), &manifests).await?;
        self.available().await?;
        let listed = |object: &AppliedWork| object.status.as_ref().is_some_and(|s| s.applied_resources.len() == 2);
        wait::until_present(self.applied_works(), &self.name, "listed", listed).await?;
        Ok(())
    }

    /// Versions of all that is written about them: alike if nothing was written in between.
    pub(crate) async fn versions(&self) -> Result<[Option<String>; 3]> {
        Ok([
            self.get().await?.resource_version(),
            self.applied_works().get(&self.name).await?.resource_version(),
            self.configs().get("c").await?.resource_version(),
        ])
    }

    /// Deletes the Work and waits until nothing is left of it.
    pub(crate) async fn remove(&self) -> Result<()> {
        self.works().delete(&self.name, &DeleteParams::default()).await?;
        wait::until_gone(self.works(), &self.name).await?;
        let left = self.applied_works().get_opt(&self.name).await?;
        ensure!(left.is_none(), "the AppliedWork outlived its Work");
        Ok(())
    }
}

pub(crate) fn work(name: &str, strategy: &Value, manifests: &[Value]) -> Result<Work> {
    let object = json!({
        "metadata": {"name": name},
        "spec": {"workload": {"manifests": manifests}, "applyStrategy": strategy},
    });
    Ok(serde_json::from_value(object)?)
}

pub(crate) fn config(namespace: &str, name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data})
}

/// Whether a condition of the Work as it is now has this status.
pub(crate) fn is(work: &Work, condition: &str, wanted: &str) -> bool {
    let generation = work.metadata.generation.unwrap_or_default();
    let status = work.status.clone().unwrap_or_default();
    conditions::fresh(&status.conditions, condition, generation).is_some_and(|c| c.status == wanted)
}

pub(crate) fn has(work: &Work, condition: &str) -> bool {
    let status = work.status.clone().unwrap_or_default();
    conditions::find(&status.conditions, condition).is_some()
}

/// The message of a condition of the Work.
pub(crate) fn message(work: &Work, condition: &str) -> String {
    let status = work.status.clone().unwrap_or_default();
    let found = conditions::find(&status.conditions, condition);
    found.map(|c| c.message.clone()).unwrap_or_default()
}

/// Entries of the Work's status, by manifest.
pub(crate) fn entries(work: &Work) -> Vec<ManifestCondition> {
    work.status.clone().unwrap_or_default().manifest_conditions
}

/// The reason of each manifest under a condition; empty where there is none.
pub(crate) fn reasons(work: &Work, condition: &str) -> Vec<String> {
    let reason = |entry: &ManifestCondition| {
        let found = conditions::find(&entry.conditions, condition);
        found.map(|c| c.reason.clone()).unwrap_or_default()
    };
    entries(work).iter().map(reason).collect()
}

/// The message of each manifest under a condition.
pub(crate) fn messages(work: &Work, condition: &str) -> Vec<String> {
    let message = |entry: &ManifestCondition| {
        let found = conditions::find(&entry.conditions, condition);
        found.map(|c| c.message.clone()).unwrap_or_default()
    };
    entries(work).iter().map(message).collect()
}

/// Paths and values (member, hub) of the drift of a manifest.
pub(crate) fn drifts(work: &Work, at: usize) -> Vec<(String, String, String)> {
    let entry = entries(work).into_iter().nth(at).unwrap_or_default();
    let details = entry
        .drift_details
        .map(|drift| drift.observed_drifts)
        .unwrap_or_default();
    let shown = details.into_iter().map(|d| (d.path, d.value_in_member, d.value_in_hub));
    shown.collect()
}

/// The same of its differences.
pub(crate) fn diffs(work: &Work, at: usize) -> Vec<(String, String, String)> {
    let entry = entries(work).into_iter().nth(at).unwrap_or_default();
    let details = entry.diff_details.map(|diff| diff.observed_diffs).unwrap_or_default();
    let shown = details.into_iter().map(|d| (d.path, d.value_in_member, d.value_in_hub));
    shown.collect()
}

pub(crate) fn data<'a>(config: &'a ConfigMap, key: &str) -> Option<&'a str> {
    config.data.as_ref()?.get(key).map(String::as_str)
}

/// Kinds of an object's owners.
pub(crate) fn owners<K: Resource>(object: &K) -> Vec<String> {
    object.owner_references().iter().map(|o| o.kind.clone()).collect()
}
