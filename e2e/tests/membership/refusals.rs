//! What cannot work is refused or explained, and does not stand in the way of others.

use anyhow::ensure;
use fleet_api::cluster::MemberCluster;
use fleet_core::names::qualified_name;
use fleet_e2e::agents;
use fleet_e2e::harness::{Made, scenario};
use fleet_e2e::members::{Member, of};
use fleet_e2e::refusal::{Rule, WORDS, allow, refuse};
use fleet_e2e::wait;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, ApiResource, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

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
        let value_rule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
                          start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
                          for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
        let refused = async |taints: Value, words: &str| {
            let answer = member.patch(&json!({"spec": {"taints": taints}})).await;
            let said = match answer.map_err(anyhow::Error::downcast::<kube::Error>) {
                Err(Ok(kube::Error::Api(status))) => status.message.clone(),
                other => anyhow::bail!("wanted {words:?}: {other:?}"),
            };
            ensure!(
                said.ends_with(&format!("denied request: {words}")),
                "wanted {words:?}: {said}"
            );
            Ok(())
        };
        let keys = [
            "not a key".to_owned(),
            "x".repeat(64),
            format!("-{}", "x".repeat(63)),
            "/a".to_owned(),
            "A/a".to_owned(),
            format!("{}/a", "x".repeat(254)),
            "example.com/".to_owned(),
            "a/b/c".to_owned(),
            String::new(),
        ];
        for key in keys {
            let why = qualified_name(&key).join("; ");
            ensure!(!why.is_empty(), "{key} is a name");
            let words = format!("invalid taint key {{Key:{key} Value:v Effect:NoSchedule}}: {why}");
            refused(json!([taint(&key, "v")]), &words).await?;
        }
        let long = "must be no more than 63 bytes";
        for (value, why) in [
            ("not a value!".to_owned(), value_rule.to_owned()),
            ("x".repeat(64), long.to_owned()),
            (format!("{}-", "x".repeat(63)), format!("{long}; {value_rule}")),
        ] {
            let words = format!("invalid taint value {{Key:k Value:{value} Effect:NoSchedule}}: {why}");
            refused(json!([taint("k", &value)]), &words).await?;
        }
        let twice = "taint {Key:k Value:v Effect:NoSchedule} already exists, taints must be unique";
        refused(json!([taint("k", "v"), taint("k", "v")]), twice).await?;
        let (name, prefix) = ("x".repeat(63), "x".repeat(253));
        let allowed = json!([
            taint("k", "v"),
            taint("k", "w"),
            taint(&format!("{prefix}/{name}"), &name)
        ]);
        member.patch(&json!({"spec": {"taints": allowed}})).await?;
        Ok(())
    });
}

#[test]
fn labels_of_managed_members_are_not_for_users_to_change() {
    scenario("labels", |ctx| async move {
        let own = Member::create(&ctx, "own").await?;
        // Such a member is one from its creation on.
        let managed = Member::named(&ctx, &ctx.name("managed"));
        let metadata = json!({
            "name": managed.name, "annotations": {"fleet.azure.com/managed": "true"}, "labels": {"region": "east"},
        });
        let mc = json!({"metadata": metadata, "spec": {"identity": {"kind": "User", "name": "nobody"}}});
        ctx.create::<MemberCluster>("hub", serde_json::from_value(mc)?).await?;
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
        let rules = steps.map(|(word, group, resource, _)| {
            let namespace = format!("fleet-member-{}", ctx.name(word));
            let field = if word == "ns" {
                "request.name"
            } else {
                "request.namespace"
            };
            let condition = format!("{field} == '{namespace}'");
            Rule {
                word,
                group,
                resource,
                condition,
                reason: "Invalid",
            }
        });
        refuse(&ctx, &rules).await?;
        for (word, _, resource, kind) in steps {
            let member = Member::create(&ctx, word).await?;
            let mc = member.until_condition("ReadyToJoin", "False").await?;
            let said = of(&mc, "ReadyToJoin").map(|c| c.message.clone()).unwrap_or_default();
            ensure!(said.contains(WORDS) && said.contains(kind), "{resource}: {said}");
        }
        for (word, ..) in steps {
            allow(&ctx, word).await?;
        }
        for (word, ..) in steps {
            let member = Member::named(&ctx, &ctx.name(word));
            member.until_condition("ReadyToJoin", "True").await?;
            member.ready().await?;
        }
        Ok(())
    });
}
