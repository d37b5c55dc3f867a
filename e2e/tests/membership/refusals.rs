//! What cannot work is refused or explained, and does not stand in the way of others.

use anyhow::{Context as _, Result, ensure};
use fleet_api::cluster::MemberCluster;
use fleet_e2e::agents;
use fleet_e2e::harness::{Ctx, Made, scenario};
use fleet_e2e::members::{Member, of};
use fleet_e2e::wait;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, ApiResource, DeleteParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

#[test]
fn names_that_can_never_be_a_namespace_are_refused_or_explained() {
    scenario("join-name", |ctx| async move {
        let kubectl = ctx.kubectl("hub")?;
        let manifest = |name: &str| {
            format!(
                "apiVersion: cluster.kubernetes-fleet.io/v1beta1\nkind: MemberCluster\nmetadata:\n  name: {name}\nspec:\n  \
                 identity:\n    kind: User\n    name: nobody\n    apiGroup: rbac.authorization.k8s.io\n"
            )
        };
        let long = format!("{}-{}", ctx.prefix(), "x".repeat(63));
        let complaint = kubectl.fails_with(&["create", "-f", "-"], &manifest(&long)).await?;
        ensure!(complaint.contains("metadata.name max length is 63"), "{complaint}");
        for name in [
            format!("{}-{}", ctx.prefix(), "x".repeat(40)),
            format!("{}.dot", ctx.prefix()),
        ] {
            let name = &name[..name.len().min(60)];
            ctx.made(Made {
                cluster: "hub".into(),
                kind: ApiResource::erase::<MemberCluster>(&()),
                namespace: None,
                name: name.to_owned(),
            });
            if let Err(refused) = kubectl.ok_with(&["create", "-f", "-"], &manifest(name)).await {
                ensure!(refused.to_string().contains("name"), "{refused}");
                continue;
            }
            let api = Api::<MemberCluster>::all(ctx.hub().await?);
            let mc = wait::until_present(api, name, "explained", |mc| {
                of(mc, "ReadyToJoin").is_some_and(|c| c.status == "False")
            })
            .await?;
            let said = of(&mc, "ReadyToJoin").map(|c| c.message.clone()).unwrap_or_default();
            ensure!(said.contains("name"), "{said}");
        }
        Ok(())
    });
}

#[test]
fn an_identity_of_an_unknown_kind_is_explained_and_others_join() {
    scenario("join-robot", |ctx| async move {
        let name = ctx.name("robot");
        let mc = json!({"metadata": {"name": name}, "spec": {"identity": {"kind": "Robot", "name": "r2"}}});
        ctx.create::<MemberCluster>("hub", serde_json::from_value(mc)?).await?;
        let robot = Member::named(&ctx, &name);
        let mc = robot.until_condition("ReadyToJoin", "False").await?;
        let said = of(&mc, "ReadyToJoin").map(|c| c.message.clone()).unwrap_or_default();
        ensure!(said.contains("Robot"), "{said}");
        let event = robot.until_event("MemberClusterNotReadyToJoin").await?;
        ensure!(event.type_.as_deref() == Some("Warning"), "{event:?}");
        let other = Member::create(&ctx, "other").await?;
        other.join_scripted().await?;
        Ok(())
    });
}

#[test]
fn taints_are_refused_in_kubefleets_words() {
    scenario("taints", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let taint = |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoSchedule"});
        let refused = [
            (json!([taint("not a key", "v")]), "invalid taint key"),
            (json!([taint("k", "not a value!")]), "invalid taint value"),
            (
                json!([taint("k", "v"), taint("k", "v")]),
                "already exists, taints must be unique",
            ),
        ];
        for (taints, words) in refused {
            let answer = member.patch(&json!({"spec": {"taints": taints}})).await;
            let said = answer.map_or_else(|error| error.to_string(), |mc| format!("accepted: {mc:?}"));
            ensure!(said.contains(words), "wanted {words:?}: {said}");
        }
        let allowed = json!([taint("k", "v"), taint("k", "w")]);
        member.patch(&json!({"spec": {"taints": allowed}})).await?;
        Ok(())
    });
}

#[test]
fn labels_of_managed_members_are_not_for_users_to_change() {
    scenario("labels", |ctx| async move {
        let (managed, own) = (
            Member::create(&ctx, "managed").await?,
            Member::create(&ctx, "own").await?,
        );
        let annotations = json!({"fleet.azure.com/managed": "true"});
        managed
            .patch(&json!({"metadata": {"annotations": annotations, "labels": {"region": "east"}}}))
            .await?;
        // Somebody who may change MemberClusters, and is not an administrator.
        let name = ctx.name("user");
        let account = json!({"metadata": {"name": name}});
        ctx.create_in::<ServiceAccount>("hub", agents::NAMESPACE, serde_json::from_value(account)?)
            .await?;
        let rules = json!([{"apiGroups": ["cluster.kubernetes-fleet.io"], "resources": ["memberclusters"],
                            "verbs": ["get", "patch"]}]);
        let role = json!({"metadata": {"name": name}, "rules": rules});
        ctx.create::<ClusterRole>("hub", serde_json::from_value(role)?).await?;
        let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": agents::NAMESPACE});
        let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        let binding = json!({"metadata": {"name": name}, "roleRef": role_ref, "subjects": [subject]});
        ctx.create::<ClusterRoleBinding>("hub", serde_json::from_value(binding)?)
            .await?;
        let kubeconfig = agents::kubeconfig_of(ctx.fleet(), "hub", &name, &name).await?;
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let user = Api::<MemberCluster>::all(Client::try_from(config)?);
        let label = |member: &Member, key: &str| {
            let (user, name) = (user.clone(), member.name.clone());
            let patch = Patch::Merge(json!({"metadata": {"labels": {key: "west"}}}));
            async move { user.patch(&name, &PatchParams::default(), &patch).await }
        };
        let words = "users are not allowed to modify labels through hub cluster directly";
        for key in ["region", "new"] {
            let said = label(&managed, key)
                .await
                .map_or_else(|e| e.to_string(), |mc| format!("accepted: {mc:?}"));
            ensure!(said.contains(words), "{key}: {said}");
        }
        label(&managed, "kubernetes-fleet.io/note").await?;
        label(&own, "region").await?;
        Ok(())
    });
}

/// Makes the API server refuse one kind of write in a member's namespace (or of the namespace itself).
async fn refuse(ctx: &Ctx, name: &str, group: &str, resource: &str, condition: &str) -> Result<()> {
    let rule = json!({"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [resource]});
    let policy = json!({"metadata": {"name": name}, "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "ours", "expression": condition}],
        "validations": [{"expression": "false", "message": "refused by the test"}],
    }});
    ctx.create::<ValidatingAdmissionPolicy>("hub", serde_json::from_value(policy)?)
        .await?;
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
    ctx.create::<ValidatingAdmissionPolicyBinding>("hub", serde_json::from_value(binding)?)
        .await?;
    Ok(())
}

/// Waits until the API server knows the policy: it refuses a dry run.
async fn until_refused(ctx: &Ctx, manifest: &str) -> Result<()> {
    let kubectl = ctx.kubectl("hub")?;
    tokio::time::timeout(wait::PATIENCE, async {
        loop {
            let answer = kubectl
                .ok_with(&["create", "--dry-run=server", "-f", "-"], manifest)
                .await;
            if answer.is_err_and(|error| error.to_string().contains("refused by the test")) {
                return;
            }
        }
    })
    .await
    .context("the policy has no effect")
}

#[test]
fn a_step_that_the_api_server_refuses_is_shown_and_completed_later() {
    scenario("join-refused", |ctx| async move {
        let steps = [
            ("ns", "", "namespaces", "Namespace"),
            ("role", "rbac.authorization.k8s.io", "roles", "Role"),
            ("binding", "rbac.authorization.k8s.io", "rolebindings", "RoleBinding"),
            (
                "imc",
                "cluster.kubernetes-fleet.io",
                "internalmemberclusters",
                "InternalMemberCluster",
            ),
        ];
        for (word, group, resource, _) in steps {
            let namespace = format!("fleet-member-{}", ctx.name(word));
            let field = if word == "ns" {
                "request.name"
            } else {
                "request.namespace"
            };
            refuse(
                &ctx,
                &ctx.name(word),
                group,
                resource,
                &format!("{field} == '{namespace}'"),
            )
            .await?;
        }
        // The policies become known in the order in which they were made.
        ctx.namespace("hub").await?;
        let probe = ctx.name("probe");
        refuse(&ctx, &probe, "", "configmaps", &format!("request.name == '{probe}'")).await?;
        let manifest = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {probe}\n  namespace: {}\n",
            ctx.prefix()
        );
        until_refused(&ctx, &manifest).await?;
        for (word, _, resource, kind) in steps {
            let member = Member::create(&ctx, word).await?;
            let mc = member.until_condition("ReadyToJoin", "False").await?;
            let said = of(&mc, "ReadyToJoin").map(|c| c.message.clone()).unwrap_or_default();
            ensure!(
                said.contains("refused by the test") && said.contains(kind),
                "{resource}: {said}"
            );
        }
        let hub = ctx.hub().await?;
        let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(hub);
        for (word, ..) in steps {
            bindings.delete(&ctx.name(word), &DeleteParams::default()).await?;
        }
        for (word, ..) in steps {
            let member = Member::named(&ctx, &ctx.name(word));
            member.until_condition("ReadyToJoin", "True").await?;
            member.ready().await?;
        }
        Ok(())
    });
}
