//! What a MemberCluster gets on the hub, and how it is kept.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use fleet_api::annotations;
use fleet_api::cluster::{ClusterState, MemberCluster};
use fleet_e2e::agents;
use fleet_e2e::harness::scenario;
use fleet_e2e::members::{Member, of, of_agent};
use fleet_e2e::wait;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

fn reasons(events: &[k8s_openapi::api::core::v1::Event]) -> Vec<&str> {
    events.iter().filter_map(|event| event.reason.as_deref()).collect()
}

#[test]
fn a_new_member_cluster_gets_everything_once_and_says_so() {
    scenario("join-new", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let mc = member.until_condition("Joined", "Unknown").await?;
        let said = of(&mc, "Joined").map(|c| c.message.clone()).unwrap_or_default();
        ensure!(said.contains("expected 1, got 0"), "{said}");
        ensure!(of(&mc, "ReadyToJoin").is_some_and(|c| c.status == "True"), "not ready");
        let finalizers = mc.metadata.finalizers.clone().unwrap_or_default();
        ensure!(
            finalizers.contains(&"kubernetes-fleet.io/membercluster-finalizer".to_owned()),
            "{finalizers:?}"
        );
        let labels = mc.metadata.labels.clone().unwrap_or_default();
        ensure!(labels["kubernetes-fleet.io/member-name"] == member.name, "{labels:?}");

        let hub = ctx.hub().await?;
        let namespace = Api::<Namespace>::all(hub.clone()).get(&member.namespace()).await?;
        // By which the guard rails know it.
        let identity = namespace.annotations().get(annotations::MEMBER_IDENTITY).cloned();
        let account = format!("system:serviceaccount:{}:{}", agents::NAMESPACE, member.account);
        ensure!(identity == Some(account), "{identity:?}");
        let owners = namespace.metadata.owner_references.unwrap_or_default();
        ensure!(
            owners.iter().any(|o| Some(&o.uid) == mc.metadata.uid.as_ref()),
            "{owners:?}"
        );
        let role = Api::<Role>::namespaced(hub.clone(), &member.namespace())
            .get(&format!("fleet-role-{}", member.name))
            .await?;
        let verbs = role.rules.iter().flatten().flat_map(|rule| rule.verbs.clone());
        for verb in verbs {
            ensure!(["get", "list", "watch"].contains(&verb.as_str()), "a member may {verb}");
        }
        let imc = member.ready().await?;
        ensure!(imc.spec.state == ClusterState::Join, "{:?}", imc.spec.state);

        member.until_event("MemberClusterJoinStateUnknown").await?;
        let events = member.events().await?;
        let wanted = [
            "NamespaceCreated",
            "RoleCreated",
            "RoleBindingCreated",
            "InternalMemberClusterCreated",
            "MemberClusterReadyToJoin",
            "MemberClusterJoinStateUnknown",
        ];
        ensure!(reasons(&events) == wanted, "{:?}", reasons(&events));
        ensure!(events.iter().all(|e| e.count == Some(1)), "{events:?}");
        Ok(())
    });
}

#[test]
fn a_member_with_an_agent_joins_and_its_columns_are_filled() {
    scenario("join-agent", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.join_agent("member-1").await?;
        member
            .until("properties", |mc| {
                mc.status
                    .as_ref()
                    .is_some_and(|s| s.resource_usage.is_some() && !s.properties.is_empty())
            })
            .await?;
        let line = ctx
            .kubectl("hub")?
            .ok(&["get", "membercluster", &member.name, "--no-headers"])
            .await?;
        let cells = line.split_whitespace().collect::<Vec<_>>();
        // Name, joined, age, last seen, node count, CPU, memory.
        ensure!(cells.len() >= 7 && cells[1] == "True", "{line}");
        ensure!(!line.contains("<none>") && !line.contains("<unknown>"), "{line}");
        // Several heartbeats later it has still joined once.
        member.next_beat().await?;
        let mc = member.next_beat().await?;
        ensure!(
            of_agent(&mc, "Joined").is_some_and(|c| c.observed_generation == mc.metadata.generation),
            "{mc:?}"
        );
        let joined = member.until_event("MemberClusterJoined").await?;
        ensure!(joined.count == Some(1), "{joined:?}");
        Ok(())
    });
}

#[test]
fn the_members_own_token_reads_its_namespace_and_nothing_else() {
    scenario("join-rights", |ctx| async move {
        let (member, other) = (Member::create(&ctx, "m").await?, Member::create(&ctx, "other").await?);
        member.ready().await?;
        other.ready().await?;
        let kubectl = ctx.kubectl("hub")?;
        let may = |verb: &'static str, what: &'static str, namespace: String| {
            let user = format!("--as=system:serviceaccount:fleet-system:{}", member.account);
            let kubectl = kubectl.clone();
            async move {
                let args = ["auth", "can-i", verb, what, "-n", &namespace, &user];
                kubectl.ok(&args).await.is_ok_and(|answer| answer.trim() == "yes")
            }
        };
        for kind in [
            "works.placement.kubernetes-fleet.io",
            "internalmemberclusters.cluster.kubernetes-fleet.io",
        ] {
            ensure!(
                may("watch", kind, member.namespace()).await,
                "cannot watch its own {kind}"
            );
            ensure!(
                !may("watch", kind, other.namespace()).await,
                "can watch another's {kind}"
            );
            ensure!(!may("patch", kind, member.namespace()).await, "can write {kind}");
            // Left to RBAC: no policy tells one member's account from another's.
            for verb in ["create", "update", "patch", "delete"] {
                ensure!(!may(verb, kind, other.namespace()).await, "can {verb} another's {kind}");
            }
        }
        ensure!(!may("get", "secrets", member.namespace()).await, "can read Secrets");
        ensure!(!may("create", "events", member.namespace()).await, "can write Events");
        Ok(())
    });
}

#[test]
fn a_new_heartbeat_period_reaches_the_agent_at_once() {
    scenario("join-period", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.patch(&json!({"spec": {"heartbeatPeriodSeconds": 600}})).await?;
        wait::until_present(member.internals().await?, &member.name, "period 600", |imc| {
            imc.spec.heartbeat_period_seconds == 600
        })
        .await?;
        member.join_agent("member-2").await?;
        member.patch(&json!({"spec": {"heartbeatPeriodSeconds": 1}})).await?;
        // With the old period the next beat would be ten minutes away.
        member.next_beat().await?;
        member.next_beat().await?;
        Ok(())
    });
}

#[test]
fn an_identity_without_api_group_causes_no_repeated_updates() {
    scenario("join-user", |ctx| async move {
        let name = ctx.name("m");
        let spec = json!({"identity": {"kind": "User", "name": "somebody"}});
        let mc = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
        ctx.create::<MemberCluster>("hub", mc).await?;
        let member = Member::named(&ctx, &name);
        member.until_condition("Joined", "Unknown").await?;
        let bindings = Api::<RoleBinding>::namespaced(ctx.hub().await?, &member.namespace());
        let binding = |list: Vec<RoleBinding>| -> Result<(String, RoleBinding)> {
            ensure!(list.len() == 1, "{} bindings", list.len());
            let one = list.into_iter().next().context("none")?;
            Ok((one.metadata.resource_version.clone().unwrap_or_default(), one))
        };
        let (before, found) = binding(bindings.list(&ListParams::default()).await?.items)?;
        let subject = found.subjects.unwrap_or_default();
        ensure!(
            subject[0].api_group.as_deref() == Some("rbac.authorization.k8s.io"),
            "{subject:?}"
        );
        // Two more passes over the MemberCluster.
        for period in [7, 8] {
            member
                .patch(&json!({"spec": {"heartbeatPeriodSeconds": period}}))
                .await?;
            wait::until_present(member.internals().await?, &name, "the new period", |imc| {
                imc.spec.heartbeat_period_seconds == period
            })
            .await?;
        }
        let (after, _) = binding(bindings.list(&ListParams::default()).await?.items)?;
        ensure!(before == after, "the RoleBinding was written again");
        ensure!(
            !reasons(&member.events().await?).contains(&"RoleBindingUpdated"),
            "an Event about it"
        );
        Ok(())
    });
}

#[test]
fn what_somebody_changes_of_a_members_objects_is_restored() {
    scenario("join-restore", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.ready().await?;
        let label = "kubernetes-fleet.io/member-name";
        let labels = json!({label: "wrong", "env": "prod", "fleet.azure.com/location": "eastus"});
        member.patch(&json!({"metadata": {"labels": labels}})).await?;
        let wanted = |labels: &BTreeMap<String, String>| {
            labels.get(label) == Some(&member.name)
                && labels.get("env").is_some_and(|v| v == "prod")
                && labels.get("fleet.azure.com/location").is_some_and(|v| v == "eastus")
        };
        let restored = |mc: &MemberCluster| mc.metadata.labels.as_ref().is_some_and(wanted);
        member.until("its label back", restored).await?;
        member.patch(&json!({"metadata": {"labels": {label: null}}})).await?;
        member.until("its label back again", restored).await?;

        let hub = ctx.hub().await?;
        let namespaces = Api::<Namespace>::all(hub.clone());
        let bare = json!({"metadata": {"labels": {"kubernetes-fleet.io/is-fleet-member": null, "fleet.azure.com/tenant": null}}});
        let before = namespaces
            .get(&member.namespace())
            .await?
            .metadata
            .labels
            .unwrap_or_default();
        let mut removal = bare;
        for key in before.keys().filter(|key| !key.starts_with("kubernetes.io/")) {
            removal["metadata"]["labels"][key] = Value::Null;
        }
        namespaces
            .patch(&member.namespace(), &PatchParams::default(), &Patch::Merge(removal))
            .await?;
        wait::until_present(namespaces, &member.namespace(), "its labels back", |ns| {
            ns.metadata.labels.as_ref() == Some(&before)
        })
        .await?;
        member.until_event("NamespacePatched").await?;

        let roles = Api::<Role>::namespaced(hub, &member.namespace());
        let role = format!("fleet-role-{}", member.name);
        let widened = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
        roles
            .patch(&role, &PatchParams::default(), &Patch::Merge(widened))
            .await?;
        wait::until_present(roles, &role, "its rules back", |role| {
            role.rules
                .iter()
                .flatten()
                .all(|rule| !rule.verbs.contains(&"*".to_owned()))
        })
        .await?;
        member.until_event("RoleUpdated").await?;
        Ok(())
    });
}
