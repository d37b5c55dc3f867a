//! Evictions and budgets of a scenario, as their users see them.

use anyhow::{Context as _, Result};
use fleet_api::placement::{ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::events::Events;
use crate::harness::{Ctx, Made};
use crate::placements::Crp;
use crate::wait;

/// What an executed eviction without a budget says.
pub const NO_BUDGET: &str = "Executed=True: Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified";
/// What an eviction says of which something can become.
pub const VALID: &str = "Valid=True: Eviction is valid";

/// What a budget says that lets one go, or not.
pub fn by_budget(executed: bool, available: usize, total: usize) -> String {
    let (status, word) = if executed {
        ("True", "allowed")
    } else {
        ("False", "blocked")
    };
    format!(
        "Executed={status}: Eviction is {word} by specified ClusterResourcePlacementDisruptionBudget, \
         availablePlacements: {available}, totalPlacements: {total}"
    )
}

/// An eviction.
#[derive(Debug, Clone)]
pub struct Eviction {
    ctx: Ctx,
    /// Its name.
    pub name: String,
}

impl Eviction {
    /// Asks for one, of this very name.
    pub async fn ask(ctx: &Ctx, name: &str, placement: &str, cluster: &str, annotations: Value) -> Result<Self> {
        let spec = json!({ "placementName": placement, "clusterName": cluster });
        let kind = ApiResource::erase::<ClusterResourcePlacementEviction>(&());
        let mut object = DynamicObject::new(name, &kind).data(json!({ "spec": spec }));
        object.metadata.annotations = serde_json::from_value(annotations)?;
        let eviction = Self {
            ctx: ctx.clone(),
            name: name.to_owned(),
        };
        eviction.api().await?.create(&PostParams::default(), &object).await?;
        ctx.made(Made {
            cluster: "hub".to_owned(),
            kind,
            namespace: None,
            name: name.to_owned(),
        });
        Ok(eviction)
    }

    /// Evictions.
    pub async fn api(&self) -> Result<Api<DynamicObject>> {
        let kind = ApiResource::erase::<ClusterResourcePlacementEviction>(&());
        Ok(Api::all_with(self.ctx.hub().await?, &kind))
    }

    /// It now.
    pub async fn get(&self) -> Result<DynamicObject> {
        Ok(self.api().await?.get(&self.name).await?)
    }

    /// What it says now.
    pub async fn says(&self) -> Result<Vec<String>> {
        Ok(lines(&self.get().await?))
    }

    /// Waits until it says something that begins so; gives all that it says then.
    pub async fn until(&self, begins: &str) -> Result<Vec<String>> {
        let says = |object: &DynamicObject| lines(object).iter().any(|line| line.starts_with(begins));
        let found = wait::until_present(self.api().await?, &self.name, begins, says).await?;
        Ok(lines(&found))
    }

    /// Waits for its end; gives all that it says then.
    pub async fn until_ended(&self) -> Result<Vec<String>> {
        let ended = |object: &DynamicObject| {
            let end = |line: &String| line.starts_with("Executed=") || line.starts_with("Valid=False");
            lines(object).iter().any(end)
        };
        let found = wait::until_present(self.api().await?, &self.name, "its end", ended).await?;
        Ok(lines(&found))
    }

    /// Events about it.
    pub async fn events(&self) -> Result<Events> {
        Events::about(&self.ctx, None, "ClusterResourcePlacementEviction", &self.name).await
    }

    /// Waits until it is gone.
    pub async fn until_gone(&self) -> Result<()> {
        wait::until_gone(self.api().await?, &self.name).await
    }

    /// Deletes it.
    pub async fn delete(&self) -> Result<()> {
        self.api().await?.delete(&self.name, &DeleteParams::default()).await?;
        self.until_gone().await
    }
}

/// `Type=Status: message` of each condition.
fn lines(object: &DynamicObject) -> Vec<String> {
    let list = object.data["status"]["conditions"].as_array();
    let line = |c: &Value| {
        let text = |key: &str| c[key].as_str().unwrap_or_default().to_owned();
        format!("{}={}: {}", text("type"), text("status"), text("message"))
    };
    list.into_iter().flatten().map(line).collect()
}

impl Crp {
    /// Asks for an eviction from a cluster.
    pub async fn evict_from(&self, ctx: &Ctx, word: &str, cluster: &str) -> Result<Eviction> {
        Eviction::ask(ctx, &ctx.name(word), &self.name, cluster, json!({})).await
    }

    /// Gives it a budget, or another one.
    pub async fn limit(&self, ctx: &Ctx, spec: &Value) -> Result<()> {
        let kind = ApiResource::erase::<ClusterResourcePlacementDisruptionBudget>(&());
        let api = Api::<DynamicObject>::all_with(ctx.hub().await?, &kind);
        if api.get_opt(&self.name).await?.is_some() {
            let mut limits = json!({ "maxUnavailable": null, "minAvailable": null });
            for (field, limit) in spec.as_object().into_iter().flatten() {
                limits[field] = limit.clone();
            }
            let patch = Patch::Merge(json!({ "spec": limits }));
            api.patch(&self.name, &PatchParams::default(), &patch).await?;
            return Ok(());
        }
        let object = DynamicObject::new(&self.name, &kind).data(json!({ "spec": spec }));
        let created = api.create(&PostParams::default(), &object).await;
        created.with_context(|| format!("cannot give {} the budget {spec}", self.name))?;
        ctx.made(Made {
            cluster: "hub".to_owned(),
            kind,
            namespace: None,
            name: self.name.clone(),
        });
        Ok(())
    }
}
