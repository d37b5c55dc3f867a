//! What is refused, in which words, and what is let through and filled in.

#![allow(
    clippy::needless_pass_by_value,
    reason = "tables of literals read better without a reference for each"
)]

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{ClusterResourcePlacement, ResourcePlacement};
use fleet_e2e::agents::with_webhooks;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::wait;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const GROUP: &str = "placement.kubernetes-fleet.io";

fn dry() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

/// Sends an object as a dry run; what the API server says against it.
async fn refusal(
    ctx: &Ctx,
    version: &str,
    kind: &str,
    namespace: Option<&str>,
    spec: &Value,
) -> Result<Option<String>> {
    let plural = format!("{}s", kind.to_lowercase());
    let resource = ApiResource {
        group: GROUP.into(),
        version: version.into(),
        api_version: format!("{GROUP}/{version}"),
        kind: kind.into(),
        plural,
    };
    let client = ctx.hub().await?;
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let object = serde_json::from_value(json!({
        "apiVersion": resource.api_version, "kind": kind, "metadata": {"name": ctx.name("o")}, "spec": spec,
    }))?;
    match api.create(&dry(), &object).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message)),
        Err(error) => Err(error.into()),
    }
}

fn role() -> Value {
    json!({"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "r"})
}

fn placing(policy: Value) -> Value {
    json!({"resourceSelectors": [role()], "policy": policy})
}

fn required(term: Value) -> Value {
    placing(
        json!({"affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"clusterSelectorTerms": [term]}}}}),
    )
}

fn preferred(term: Value) -> Value {
    placing(
        json!({"placementType": "PickN", "numberOfClusters": 1, "affinity": {"clusterAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}}}),
    )
}

fn properties(requirements: &[(&str, &str)]) -> Value {
    let all: Vec<_> = requirements
        .iter()
        .map(|(o, v)| json!({"name": "p", "operator": o, "values": [v]}))
        .collect();
    required(json!({"propertySelector": {"matchExpressions": all}}))
}

/// What a policy may not require or prefer, and how that is refused.
fn terms() -> Vec<(Value, &'static str)> {
    let sorter = |name: &str| json!({"propertySorter": {"name": name, "sortOrder": "Ascending"}});
    let named = |name: &str| {
        required(json!({"propertySelector": {"matchExpressions": [{"name": name, "operator": "Ge", "values": ["1"]}]}}))
    };
    vec![
        (
            required(sorter("p")),
            "PropertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution affinity",
        ),
        (
            preferred(json!({"propertySelector": {"matchExpressions": []}})),
            "PropertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution affinity",
        ),
        (
            preferred(sorter("a b")),
            "is invalid: property name a b is not valid: name part must consist of",
        ),
        (
            preferred(json!({"labelSelector": {"matchLabels": {"a": "b c"}}})),
            "the labelSelector in preferred cluster selector &LabelSelector{MatchLabels:map[string]string{a: b c,}",
        ),
        (
            required(json!({"labelSelector": {"matchLabels": {"a": "é"}}})),
            "the labelSelector in cluster selector &LabelSelector{MatchLabels:map[string]string{a: é,}",
        ),
        (
            required(
                json!({"propertySelector": {"matchExpressions": [{"name": "p", "operator": "Ge", "values": []}]}}),
            ),
            "invalid requirement on property p: operator Ge requires exactly one value, got 0",
        ),
        (
            named("resources.kubernetes-fleet.io/cpu"),
            "expected format is [PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]",
        ),
        (
            named("resources.kubernetes-fleet.io/free-cpu"),
            "supported values are [allocatable available total]",
        ),
        (
            named("-/a"),
            "property name first segment - is not valid: it is neither a valid DNS subdomain",
        ),
        (
            named("a/b//c"),
            "property name segment  is not valid: name part must be non-empty",
        ),
        (
            properties(&[("Eq", "1"), ("Eq", "2")]),
            "inconsistent requirements on property p: conflicting Eq values 1 and 2",
        ),
        (
            properties(&[("Gt", "1"), ("Eq", "1")]),
            "eq value 1 violates lower bound 1",
        ),
        (
            properties(&[("About", "1")]),
            "invalid requirement on property p: unsupported operator About",
        ),
        (
            properties(&[("Eq", "big")]),
            "invalid requirement on property p: value \"big\" is not a valid resource.Quantity",
        ),
        (
            properties(&[("Eq", "1000m"), ("Ne", "1")]),
            "conflicting Eq and Ne on same value 1",
        ),
        (
            properties(&[("Gt", "10"), ("Le", "10")]),
            "lower bound (10) and upper bound (10) exclude all values",
        ),
        (
            properties(&[("Lt", "1024"), ("Eq", "1Ki")]),
            "eq value 1Ki violates upper bound 1024",
        ),
    ]
}

/// What else passes the schema and is refused, and how.
fn placements() -> Vec<(Value, &'static str)> {
    let strategy = |strategy: Value| json!({"resourceSelectors": [role()], "strategy": strategy});
    let kind =
        |group: &str, kind: &str| json!({"resourceSelectors": [{"group": group, "version": "v1", "kind": kind}]});
    let labels = json!({"group": "", "version": "v1", "kind": "Namespace",
        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}});
    vec![
        (
            kind("", "ConfigMap"),
            "or it is not a cluster scoped resource: /v1, Kind=ConfigMap",
        ),
        (
            kind("no.such", "Foo"),
            "failed to get GVR of the selector: no matches for kind \"Foo\" in version \"no.such/v1\"",
        ),
        (
            json!({"resourceSelectors": [labels]}),
            "is invalid: values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            placing(json!({"placementType": "PickFixed", "clusterNames": ["a", "a"]})),
            "the placement policy field is invalid: cluster names must be unique for policy type PickFixed",
        ),
        (
            placing(json!({"placementType": "PickFixed", "clusterNames": ["A"]})),
            "PickFixed cluster name A is not a valid member name: a lowercase RFC 1123 subdomain",
        ),
        (
            placing(json!({"placementType": "PickFixed", "clusterNames": ["x".repeat(64)]})),
            "cannot have length exceeding 63",
        ),
        (
            placing(
                json!({"affinity": {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {}}]}}}),
            ),
            "PreferredDuringSchedulingIgnoredDuringExecution will be ignored for placement policy type PickAll",
        ),
        (
            placing(json!({"tolerations": [{"key": "a b", "operator": "Exists"}, {"key": "a", "value": "b c"}]})),
            "[invalid toleration key {Key:a b Operator:Exists Value: Effect:}: name part",
        ),
        (
            placing(json!({"tolerations": [{"key": "a", "value": "b c"}]})),
            "invalid toleration value {Key:a Operator:Equal Value:b c Effect:}: a valid label must be",
        ),
        (
            placing(json!({"tolerations": [{"key": "a"}, {"key": "a"}]})),
            "toleration {Key:a Operator:Equal Value: Effect:} already exists, tolerations must be unique",
        ),
        (
            strategy(json!({"type": "External", "rollingUpdate": {}})),
            "the rollout Strategy field  is invalid: rollingUpdateConifg is not valid for ExternalRollout strategy type",
        ),
        (
            strategy(json!({"rollingUpdate": {"maxUnavailable": "5"}})),
            "maxUnavailable `5` is invalid: invalid value for IntOrString",
        ),
        (
            strategy(json!({"applyStrategy": {"type": "ReportDiff", "serverSideApplyConfig": {}}})),
            "serverSideApplyConfig is only valid for ServerSideApply strategy type",
        ),
    ]
}

fn overriding(selectors: Value, patches: Value) -> Value {
    json!({"clusterResourceSelectors": selectors, "policy": {"overrideRules": [
        {"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": patches}]}})
}

fn overrides() -> Vec<(Value, &'static str)> {
    let good = json!([{"op": "add", "path": "/metadata/labels/a", "value": "b"}]);
    let (mut nameless, mut labelled) = (role(), role());
    nameless["name"] = json!("");
    labelled["name"] = json!("");
    labelled["labelSelector"] = json!({});
    let patch = |path: &str| overriding(json!([role()]), json!([{"op": "add", "path": path, "value": 1}]));
    let mut term = overriding(json!([role()]), good.clone());
    term["policy"]["overrideRules"][0]["clusterSelector"]["clusterSelectorTerms"] = json!([{}]);
    let mut sorted = term.clone();
    sorted["policy"]["overrideRules"][0]["clusterSelector"]["clusterSelectorTerms"] =
        json!([{"labelSelector": {}, "propertySorter": {"name": "p", "sortOrder": "Ascending"}}]);
    let mut deleting = overriding(json!([role()]), good.clone());
    deleting["policy"]["overrideRules"][0]["overrideType"] = json!("Delete");
    vec![
        (
            overriding(json!([nameless]), good.clone()),
            "resource name is required for resource selection {Group:rbac",
        ),
        (
            overriding(json!([labelled]), good.clone()),
            "label selector is not supported for resource selection {Group:rbac",
        ),
        (
            overriding(json!([role(), role()]), good),
            "SelectionScope:NamespaceWithResources} already exists, and must be unique",
        ),
        (term, "labelSelector is required"),
        (sorted, "only labelSelector is supported"),
        (
            overriding(json!([role()]), Value::Null),
            "invalid JSONPatchOverrides: JSONPatchOverrides cannot be empty",
        ),
        (
            deleting,
            "JSONPatchOverrides cannot be set when the override type is Delete",
        ),
        (patch(""), "invalid JSONPatchOverride {add  {1}}: path cannot be empty"),
        (patch("spec"), "path must start with /"),
        (patch("/kind"), "cannot override typeMeta fields"),
        (patch("/metadata"), "cannot override field metadata"),
        (
            patch("/metadata/name"),
            "cannot override metadata fields except annotations and labels",
        ),
        (patch("/status/x"), "cannot override status fields"),
        (patch("/spec//x"), "path cannot contain empty string"),
        (
            overriding(
                json!([role()]),
                json!([{"op": "remove", "path": "/spec/x", "value": 1}, {"op": "add", "path": "/kind"}]),
            ),
            "[invalid JSONPatchOverride {remove /spec/x {1}}: remove operation cannot have value, invalid JSONPatchOverride \
             {add /kind {}}: cannot override typeMeta fields]",
        ),
    ]
}

async fn check(ctx: &Ctx, hook: &str, kind: &str, namespace: Option<&str>, rows: &[(Value, &str)]) -> Result<()> {
    let before = format!("admission webhook \"{hook}\" denied the request: ");
    for (spec, says) in rows {
        for version in ["v1beta1", "v1"] {
            let message = refusal(ctx, version, kind, namespace, spec).await?;
            let message = message.with_context(|| format!("{kind} {version} was let in: {spec}"))?;
            ensure!(
                message.starts_with(&before) && message.contains(says),
                "{says}\nis not in\n{message}"
            );
        }
    }
    Ok(())
}

#[test]
fn each_denial_comes_through_the_api_server_in_both_versions() {
    scenario("denials", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        with_webhooks(ctx.fleet(), async || {
            let hook = "fleet.clusterresourceplacementv1beta1.validating";
            check(&ctx, hook, "ClusterResourcePlacement", None, &placements()).await?;
            check(&ctx, hook, "ClusterResourcePlacement", None, &terms()).await?;
            let hook = "fleet.clusterresourceoverride.validating";
            check(&ctx, hook, "ClusterResourceOverride", None, &overrides()).await?;
            let rows = [(
                placing(json!({})),
                "or it is a cluster scoped resource: rbac.authorization.k8s.io/v1, Kind=ClusterRole",
            )];
            let hook = "fleet.resourceplacementv1beta1.validating";
            check(&ctx, hook, "ResourcePlacement", Some(&namespace), &rows).await?;
            let map = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "m"});
            let rules = json!({"overrideRules": [{"jsonPatchOverrides": [{"op": "remove", "path": "/status"}]}]});
            let rows = [
                (
                    json!({"resourceSelectors": [map, map], "policy": rules}),
                    "Kind:ConfigMap Name:m} already exists, and must be unique",
                ),
                (
                    json!({"resourceSelectors": [map], "policy": rules}),
                    "{remove /status {}}: cannot override status fields",
                ),
            ];
            check(
                &ctx,
                "fleet.resourceoverride.validating",
                "ResourceOverride",
                Some(&namespace),
                &rows,
            )
            .await?;
            extremes(&ctx).await?;
            others(&ctx, &namespace).await
        })
        .await
    });
}

/// Evictions, budgets, and overrides of what others override.
async fn others(ctx: &Ctx, namespace: &str) -> Result<()> {
    let place = async |word: &str, policy: Value| -> Result<String> {
        let spec = json!({"resourceSelectors": [role()], "policy": policy});
        let crp = json!({"metadata": {"name": ctx.name(word)}, "spec": spec});
        ctx.create::<ClusterResourcePlacement>("hub", serde_json::from_value(crp)?)
            .await?;
        Ok(ctx.name(word))
    };
    let fixed = place("fixed", json!({"placementType": "PickFixed"})).await?;
    place("o", json!({})).await?;
    let going = place("going", json!({})).await?;
    let crps = Api::<ClusterResourcePlacement>::all(ctx.hub().await?);
    let hold = json!({"metadata": {"finalizers": ["example.com/held"]}});
    crps.patch(&going, &PatchParams::default(), &Patch::Merge(hold)).await?;
    crps.delete(&going, &DeleteParams::default()).await?;
    let deleting = |found: &ClusterResourcePlacement| found.metadata.deletion_timestamp.is_some();
    wait::until_present(crps.clone(), &going, "is being deleted", deleting).await?;
    let about = |placement: &str| json!({"placementName": placement, "clusterName": "c"});
    let is_going = format!("cluster resource placement {going} is being deleted");
    let rows = [
        (
            about(&fixed),
            "cluster resource placement policy type PickFixed is not supported",
        ),
        (about(&going), &is_going),
    ];
    let hook = "fleet.clusterresourceplacementeviction.validating";
    until_refused(ctx, "ClusterResourcePlacementEviction", &about(&going)).await?;
    let outcome = check(ctx, hook, "ClusterResourcePlacementEviction", None, &rows).await;
    let let_go = json!({"metadata": {"finalizers": null}});
    crps.patch(&going, &PatchParams::default(), &Patch::Merge(let_go))
        .await?;
    outcome?;
    let rows = [
        (
            json!({"maxUnavailable": 1}),
            "cluster resource placement policy type PickAll is not supported with any specified max unavailable 1",
        ),
        (
            json!({"minAvailable": "50%"}),
            "cluster resource placement policy type PickAll is not supported with min available as a percentage 50%",
        ),
    ];
    let hook = "fleet.clusterresourceplacementdisruptionbudget.validating";
    check(ctx, hook, "ClusterResourcePlacementDisruptionBudget", None, &rows).await?;

    let good = json!([{"op": "add", "path": "/metadata/labels/a", "value": "b"}]);
    let spec = overriding(json!([role()]), good);
    let one = json!({"metadata": {"name": ctx.name("first")}, "spec": spec});
    ctx.create::<fleet_api::placement::ClusterResourceOverride>("hub", serde_json::from_value(one)?)
        .await?;
    let says = format!(
        "the resource has been selected by both {} and {}, which is not supported",
        ctx.name("o"),
        ctx.name("first")
    );
    let hook = "fleet.clusterresourceoverride.validating";
    check(ctx, hook, "ClusterResourceOverride", None, &[(spec, &says)]).await?;
    let map = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "m"});
    let spec = json!({"resourceSelectors": [map], "policy": spec_of_rules()});
    let one = json!({"metadata": {"name": ctx.name("first")}, "spec": spec});
    ctx.create_in::<fleet_api::placement::ResourceOverride>("hub", namespace, serde_json::from_value(one)?)
        .await?;
    let hook = "fleet.resourceoverride.validating";
    check(ctx, hook, "ResourceOverride", Some(namespace), &[(spec, &says)]).await
}

/// Waits until the agent knows what the rest needs.
async fn until_refused(ctx: &Ctx, kind: &str, spec: &Value) -> Result<()> {
    let refused = async {
        while refusal(ctx, "v1beta1", kind, None, spec).await?.is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Ok(())
    };
    let refused = tokio::time::timeout(wait::PATIENCE, refused).await;
    refused.with_context(|| format!("{kind} is let in: {spec}"))?
}

fn spec_of_rules() -> Value {
    json!({"overrideRules": [{"clusterSelector": {"clusterSelectorTerms": []},
        "jsonPatchOverrides": [{"op": "add", "path": "/metadata/labels/a", "value": "b"}]}]})
}

/// The longest that fits, and a name that is too long.
async fn extremes(ctx: &Ctx) -> Result<()> {
    let requirement = |n: usize| json!({"name": format!("p{n}"), "operator": "Eq", "values": ["1"]});
    let many: Vec<_> = (0..20_000).map(requirement).collect();
    let long = required(json!({"propertySelector": {"matchExpressions": many}}));
    let kind = "ClusterResourcePlacement";
    ensure!(
        refusal(ctx, "v1beta1", kind, None, &long).await?.is_none(),
        "it is long, and right"
    );
    let odd = |n: usize| json!({"name": format!("é{n}"), "operator": "Eq", "values": ["1"]});
    let many: Vec<_> = (0..20_000).map(odd).collect();
    let long = required(json!({"propertySelector": {"matchExpressions": many}}));
    let said = refusal(ctx, "v1beta1", kind, None, &long).await?.unwrap_or_default();
    ensure!(
        said.contains("invalid property name é0: ") && said.contains("and 19950 more") && said.len() < 64 * 1024,
        "{} bytes: {}",
        said.len(),
        said.chars().take(1000).collect::<String>()
    );
    let name = format!("{:x<64}", ctx.name("long-"));
    let named = json!({"metadata": {"name": name}, "spec": placing(json!({}))});
    let crps = Api::<ClusterResourcePlacement>::all(ctx.hub().await?);
    let answer = crps.create(&dry(), &serde_json::from_value(named)?).await;
    let said = answer.err().context("it was let in")?.to_string();
    ensure!(
        said.contains("the name field cannot have length exceeding 63"),
        "{said}"
    );
    Ok(())
}

#[test]
fn placements_get_their_defaults_and_old_ones_can_be_repaired() {
    scenario("defaults", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let hub = ctx.hub().await?;
        let crps = Api::<ClusterResourcePlacement>::all(hub.clone());
        // From before there were webhooks.
        let old = json!({"metadata": {"name": ctx.name("old")}, "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap"}],
            "policy": {"tolerations": [{"key": "a"}]}}});
        ctx.create::<ClusterResourcePlacement>("hub", serde_json::from_value(old)?)
            .await?;
        with_webhooks(ctx.fleet(), async || {
            let new = json!({"metadata": {"name": ctx.name("new")}, "spec": {"resourceSelectors": [role()]}});
            let new = ctx
                .create::<ClusterResourcePlacement>("hub", serde_json::from_value(new)?)
                .await?;
            let rp = json!({"metadata": {"name": "rp"}, "spec":
                {"resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "m"}]}});
            let rp = ctx
                .create_in::<ResourcePlacement>("hub", &namespace, serde_json::from_value(rp)?)
                .await?;
            for spec in [new.spec, rp.spec] {
                let mut filled = spec.clone();
                fleet_core::admission::defaults::placement(&mut filled);
                ensure!(
                    spec == filled && spec.policy.is_some() && spec.strategy.is_some(),
                    "{spec:?}"
                );
            }
            let name = ctx.name("old");
            let change = async |spec: Value| {
                let answer = crps
                    .patch(&name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec})))
                    .await;
                match answer {
                    Ok(_) => Ok(None),
                    Err(kube::Error::Api(status)) => Ok(Some(status.message)),
                    Err(error) => Err(anyhow::Error::from(error)),
                }
            };
            // What was wrong before holds up nothing else, and can be repaired.
            ensure!(change(json!({"revisionHistoryLimit": 5})).await?.is_none());
            let tolerations = json!({"policy": {"tolerations": [{"key": "b"}]}});
            let said = change(tolerations).await?.unwrap_or_default();
            ensure!(
                said.contains("tolerations have been updated/deleted, only additions"),
                "{said}"
            );
            ensure!(change(json!({"resourceSelectors": [role()]})).await?.is_none());
            let said = change(json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": "Secret"}]})).await?;
            ensure!(said.unwrap_or_default().contains("Kind=Secret"));
            Ok(())
        })
        .await
    });
}
