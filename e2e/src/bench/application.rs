//! What placements place: a namespace with a ConfigMap, and with a Deployment if somebody runs it.

use anyhow::Result;
use fleet_api::conditions;
use fleet_api::placement::ClusterResourcePlacement;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::times::{Wanted, times, until};

/// The ConfigMap, and the key in it that changes.
pub const CONFIG: &str = "settings";
/// The Deployment.
pub const WEB: &str = "web";

/// An application on the hub, and the placement of the same name.
#[derive(Clone)]
pub struct Application {
    hub: Client,
    /// Of its namespace and placement.
    pub name: String,
}

impl std::fmt::Debug for Application {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Application")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A state of the placement, or none if it is gone.
pub type State<'a> = Option<&'a ClusterResourcePlacement>;

/// Whether a condition of the placement is true of its newest generation.
pub fn is(state: State<'_>, condition: &str) -> bool {
    let type_ = format!("ClusterResourcePlacement{condition}");
    state.is_some_and(|placement| {
        let generation = placement.metadata.generation.unwrap_or_default();
        let status = placement.status.as_ref();
        status.is_some_and(|status| conditions::is_true(&status.conditions, &type_, generation))
    })
}

/// Whether this content is available everywhere.
pub fn is_available_with(state: State<'_>, index: &str) -> bool {
    let shown = |placement: &ClusterResourcePlacement| {
        let status = placement.status.as_ref();
        status.is_some_and(|status| status.observed_resource_index == index)
    };
    state.is_some_and(shown) && is(state, "Available")
}

impl Application {
    /// Creates what is placed.
    pub async fn create(hub: &Client, name: String, runs: bool) -> Result<Self> {
        let params = PostParams::default();
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        Api::all(hub.clone()).create(&params, &namespace).await?;
        let config: ConfigMap = serde_json::from_value(json!({"metadata": {"name": CONFIG}, "data": {"v": "1"}}))?;
        Api::namespaced(hub.clone(), &name).create(&params, &config).await?;
        if runs {
            let labels = json!({"app": name});
            let pod = json!({"containers": [{"name": "main", "image": "nginx"}]});
            let spec = json!({
                "replicas": 1, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            });
            let web: Deployment = serde_json::from_value(json!({"metadata": {"name": WEB}, "spec": spec}))?;
            Api::namespaced(hub.clone(), &name).create(&params, &web).await?;
        }
        let hub = hub.clone();
        Ok(Self { hub, name })
    }

    fn placements(&self) -> Api<ClusterResourcePlacement> {
        Api::all(self.hub.clone())
    }

    /// Places it, on all clusters at once.
    pub async fn place(&self, policy: &Value) -> Result<()> {
        let strategy = json!({
            "type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%", "unavailablePeriodSeconds": 1},
        });
        self.place_by(policy, &strategy).await
    }

    /// Places it by this strategy.
    pub async fn place_by(&self, policy: &Value, strategy: &Value) -> Result<()> {
        let selector = json!({"group": "", "version": "v1", "kind": "Namespace", "name": self.name});
        let spec = json!({"resourceSelectors": [selector], "policy": policy, "strategy": strategy});
        let object = serde_json::from_value(json!({"metadata": {"name": self.name}, "spec": spec}))?;
        self.placements().create(&PostParams::default(), &object).await?;
        Ok(())
    }

    /// Changes the ConfigMap.
    pub async fn change(&self, value: &str) -> Result<()> {
        let api: Api<ConfigMap> = Api::namespaced(self.hub.clone(), &self.name);
        let patch = json!({"data": {"v": value}});
        api.patch(CONFIG, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    /// Deletes the placement, not the application.
    pub async fn withdraw(&self) -> Result<()> {
        self.placements().delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// When each of these was first seen of the placement, in seconds since `act` began.
    pub async fn times<const N: usize>(
        &self,
        wanted: [Wanted<'_, ClusterResourcePlacement>; N],
        act: impl Future<Output = Result<()>>,
    ) -> Result<[f64; N]> {
        times(self.placements(), &self.name, wanted, act).await
    }

    /// Waits for a state of the placement that may be there already.
    pub async fn until(&self, wanted: Wanted<'_, ClusterResourcePlacement>) -> Result<()> {
        until(self.placements(), &self.name, wanted).await
    }
}
