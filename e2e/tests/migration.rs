//! Helm replaces a release of KubeFleet by one of ours, on a cluster of its own: every CRD and every object stays.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fleet_e2e::agents::{HUB_AGENT, NAMESPACE, chart, with_hub_flags, with_hub_values};
use fleet_e2e::cluster::ClusterSpec;
use fleet_e2e::events::Events;
use fleet_e2e::fleet::{Fleet, crds};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::kubectl::Kubectl;
use fleet_e2e::{binaries, wait};
use serde_json::json;
use tokio::process::Command;

const OVERRIDES: [&str; 4] = [
    "clusterresourceoverrides",
    "clusterresourceoverridesnapshots",
    "resourceoverrides",
    "resourceoverridesnapshots",
];
const CHARTS: [&str; 2] = ["hub-agent", "member-agent"];
/// Objects whose loss would be a disaster: a member and a placement; what was placed, and its owner.
const HUB_OBJECTS: &str = r#"
apiVersion: cluster.kubernetes-fleet.io/v1beta1
kind: MemberCluster
metadata: { name: east }
spec: { identity: { kind: User, name: east, apiGroup: rbac.authorization.k8s.io } }
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: { name: shop }
spec: { resourceSelectors: [{ group: "", version: v1, kind: Namespace, name: shop }] }
"#;
const APPLIED_WORK: &str = r"
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: AppliedWork
metadata: { name: shop-work }
spec: { workName: shop-work, workNamespace: fleet-member-east }
";

/// A version that KubeFleet has served of its overrides and ours does not know.
const OLD_VERSION: &str = "  versions:
  - name: v1alpha1
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-preserve-unknown-fields: true
    served: true
    storage: false
";

/// Gives a file with a CRD that version.
fn add_old_version(file: &Path) -> Result<()> {
    let text = std::fs::read_to_string(file)?;
    ensure!(text.contains("  versions:\n"), "{} has no versions", file.display());
    std::fs::write(file, text.replacen("  versions:\n", OLD_VERSION, 1))?;
    Ok(())
}

/// A cluster, and Helm on it.
struct Site {
    helm: PathBuf,
    home: tempfile::TempDir,
    kubeconfig: PathBuf,
    context: String,
    kubectl: Kubectl,
}

impl Site {
    async fn new(fleet: &Fleet, cluster: &str) -> Result<Self> {
        let kubeconfig = fleet.state().kubeconfig.clone();
        Ok(Self {
            helm: binaries::find_or_build_helm().await?,
            home: tempfile::tempdir()?,
            kubeconfig: kubeconfig.context("the fleet has no kubeconfig of its own")?,
            context: fleet.cluster(cluster)?.context.clone(),
            kubectl: fleet.kubectl(cluster)?,
        })
    }

    /// Runs helm; gives what it complains about if it fails.
    async fn helm(&self, args: &[&str]) -> Result<Result<(), String>> {
        let output = Command::new(&self.helm)
            .env("HOME", self.home.path())
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["--kube-context", &self.context, "--namespace", NAMESPACE])
            .args(args)
            .kill_on_drop(true)
            .output()
            .await?;
        let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok(if output.status.success() {
            Ok(())
        } else {
            Err(complaint)
        })
    }

    /// KubeFleet's release, with its CRDs as ordinary templates, and objects of its kinds.
    async fn install_kubefleet(&self, name: &str, further_crd: Option<&str>) -> Result<()> {
        let folder = self.home.path().join("kubefleet").join(name);
        chart::copy(&chart::kubefleets(name), &folder)?;
        let templates = folder.join("templates/crds");
        chart::copy(&chart::folder(name).join("files/crds"), &templates)?;
        if name == "hub-agent" {
            let file = "multicluster.x-k8s.io_clusterprofiles.yaml";
            std::fs::copy(chart::folder(name).join("files").join(file), templates.join(file))?;
            for kind in OVERRIDES {
                add_old_version(&templates.join(format!("placement.kubernetes-fleet.io_{kind}.yaml")))?;
            }
        }
        if let Some(crd) = further_crd {
            std::fs::write(templates.join("further.yaml"), crd)?;
        }
        let folder = folder.display().to_string();
        let install = ["install", name, &folder, "--create-namespace"];
        self.helm(&install).await?.map_err(anyhow::Error::msg)?;
        self.kubectl
            .ok(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"])
            .await?;
        if name == "hub-agent" {
            self.kubectl.apply(HUB_OBJECTS).await?;
        } else {
            self.kubectl.apply(APPLIED_WORK).await?;
            let uid = self
                .uids("appliedwork")
                .await?
                .remove("shop-work")
                .context("just made")?;
            let owned = format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: placed\n  namespace: default\n  ownerReferences:\n  - {{ \
                 apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: AppliedWork, name: shop-work, uid: {uid} }}\n"
            );
            self.kubectl.apply(&owned).await?;
        }
        Ok(())
    }

    async fn upgrade(&self, name: &str, further: &[&str]) -> Result<Result<(), String>> {
        let folder = chart::folder(name).display().to_string();
        let mut args = vec!["upgrade", name, &folder, "--set", "image.repository=example.com/agent"];
        args.extend_from_slice(further);
        self.helm(&args).await
    }

    async fn uids(&self, kind: &str) -> Result<BTreeMap<String, String>> {
        let line = r#"-o=jsonpath={range .items[*]}{.metadata.name}{" "}{.metadata.uid}{"\n"}{end}"#;
        let text = self.kubectl.ok(&["get", kind, line]).await?;
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        Ok(pairs.map(|(name, uid)| (name.to_owned(), uid.to_owned())).collect())
    }

    /// Everything that must not be lost, by kind, name and uid.
    async fn everything(&self, name: &str) -> Result<BTreeMap<&'static str, BTreeMap<String, String>>> {
        let kinds = match name {
            "hub-agent" => ["crd", "memberclusters", "clusterresourceplacements"],
            _ => ["crd", "appliedworks", "configmaps"],
        };
        let mut found = BTreeMap::new();
        for kind in kinds {
            found.insert(kind, self.uids(kind).await?);
        }
        Ok(found)
    }

    /// The versions of each override's CRD, and those that may be in etcd.
    async fn versions(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for kind in OVERRIDES {
            let crd = format!("{kind}.placement.kubernetes-fleet.io");
            let line = "-o=jsonpath={.spec.versions[*].name} stored {.status.storedVersions[*]}";
            found.push(self.kubectl.ok(&["get", "crd", &crd, line]).await?.trim().to_owned());
        }
        Ok(found)
    }

    /// As if nobody had ever installed anything.
    async fn clear(&self, name: &str) -> Result<()> {
        self.helm(&["uninstall", name, "--ignore-not-found"]).await?.ok();
        // The API server opens the store of a kind when somebody first asks for its objects. If that is its own clean-up,
        // it finds the store not ready, and tries again ever more slowly, minutes in the end: so somebody else asks before.
        let names = self
            .kubectl
            .ok(&["get", "crd", "-o=jsonpath={.items[*].metadata.name}"])
            .await?;
        let kinds = names.split_whitespace().collect::<Vec<_>>().join(",");
        if !kinds.is_empty() {
            self.kubectl
                .ok(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"])
                .await?;
            self.kubectl
                .ok(&["get", &kinds, "--all-namespaces", "--ignore-not-found"])
                .await?;
        }
        self.kubectl.ok(&["delete", "crd", "--all", "--timeout=60s"]).await?;
        Ok(())
    }
}

/// Tells a story on a cluster that nobody else uses.
async fn on_a_cluster_of_its_own(ctx: &Ctx, story: impl AsyncFnOnce(&Site) -> Result<()>) -> Result<()> {
    let mut fleet = ctx.fleet().clone();
    fleet.add_member(ClusterSpec::member(ctx.prefix(), 1)).await?;
    let outcome = async {
        let site = Site::new(&fleet, ctx.prefix()).await?;
        // The launcher brings ours; here a release shall.
        site.clear("nothing").await?;
        story(&site).await
    };
    let outcome = outcome.await;
    fleet.remove_member(ctx.prefix()).await?;
    outcome
}

#[test]
fn replacing_kubefleets_charts_keeps_every_crd_and_object() {
    scenario("migration", |ctx| async move {
        on_a_cluster_of_its_own(&ctx, async |site| {
            let shipped = crds::load(&crds::dir())?.len();
            for name in CHARTS {
                for further in [
                    &["--reuse-values"][..],
                    &[
                        "--reset-values",
                        "--set",
                        "config.hubURL=https://hub,config.memberClusterName=east",
                    ],
                ] {
                    site.install_kubefleet(name, None).await?;
                    let before = site.everything(name).await?;
                    let expected = if name == "hub-agent" { shipped } else { 1 };
                    ensure!(before["crd"].len() == expected, "{:?}", before["crd"]);
                    let is_hub = name == "hub-agent";
                    if is_hub {
                        let versions = site.versions().await?;
                        let old = |said: &String| said == "v1alpha1 v1 v1beta1 stored v1beta1";
                        ensure!(versions.iter().all(old), "{versions:?}");
                    }
                    let outcome = site.upgrade(name, further).await?;
                    ensure!(outcome == Ok(()), "{name} {further:?}: {outcome:?}");
                    // The garbage collector would need a moment for what lost its owner.
                    site.kubectl
                        .ok(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"])
                        .await?;
                    let after = site.everything(name).await?;
                    ensure!(before == after, "{name} {further:?}: {before:?} became {after:?}");
                    // They stay, and are ours.
                    if is_hub {
                        let versions = site.versions().await?;
                        let ours = |said: &String| said == "v1 v1beta1 stored v1beta1";
                        ensure!(versions.iter().all(ours), "{further:?}: {versions:?}");
                    }
                    let kept = [
                        "get",
                        "crd",
                        r"-o=jsonpath={.items[*].metadata.annotations.helm\.sh/resource-policy}",
                    ];
                    let kept = site.kubectl.ok(&kept).await?;
                    ensure!(
                        kept.split_whitespace().filter(|word| *word == "keep").count() == expected,
                        "{name} {further:?}: {kept}"
                    );
                    // Uninstalled, they stay as well.
                    site.helm(&["uninstall", name]).await?.map_err(anyhow::Error::msg)?;
                    ensure!(before == site.everything(name).await?, "{name}: lost with the release");
                    site.clear(name).await?;
                }
            }
            Ok(())
        })
        .await
    });
}

#[test]
fn an_upgrade_that_would_remove_a_crd_is_refused_and_says_what_to_do() {
    const FURTHER: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: workloadtrackers.placement.kubernetes-fleet.io, annotations: { api-approved.kubernetes.io: unapproved } }
spec:
  group: placement.kubernetes-fleet.io
  scope: Cluster
  names: { kind: WorkloadTracker, plural: workloadtrackers }
  versions: [{ name: v1beta1, served: true, storage: true, schema: { openAPIV3Schema: { type: object } } }]
";
    scenario("lost-crd", |ctx| async move {
        on_a_cluster_of_its_own(&ctx, async |site| {
            let name = "member-agent";
            site.install_kubefleet(name, Some(FURTHER)).await?;
            let before = site.everything(name).await?;
            ensure!(before["crd"].len() == 2, "{:?}", before["crd"]);
            for (further, lost) in [
                (
                    &["--reuse-values"][..],
                    "workloadtrackers.placement.kubernetes-fleet.io",
                ),
                (
                    &["--reuse-values", "--set", "installCRDs=false"],
                    "appliedworks.placement.kubernetes-fleet.io workloadtrackers.placement.kubernetes-fleet.io",
                ),
            ] {
                let refused = site
                    .upgrade(name, further)
                    .await?
                    .err()
                    .context("this was let through")?;
                let says = format!("kubectl annotate crd {lost} helm.sh/resource-policy=keep");
                ensure!(refused.contains(&says), "{further:?}: {refused}");
                ensure!(
                    before == site.everything(name).await?,
                    "{further:?} has removed something"
                );
            }
            // Doing what it says helps.
            let keep = ["annotate", "crd", "--all", "helm.sh/resource-policy=keep"];
            site.kubectl.ok(&keep).await?;
            let outcome = site
                .upgrade(name, &["--reuse-values", "--set", "installCRDs=false"])
                .await?;
            ensure!(outcome == Ok(()), "{outcome:?}");
            ensure!(before == site.everything(name).await?, "something is gone");
            Ok(())
        })
        .await
    });
}

/// As KubeFleet's hub agent writes it, but for requests that nobody makes.
const LEFT: &str = "fleet-validating-webhook-configuration";
const WEBHOOKS: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: { name: fleet-validating-webhook-configuration, labels: { admissions.enforcer/disabled: "true" } }
webhooks:
  - name: fleet.pod.validating
    failurePolicy: Fail
    sideEffects: None
    admissionReviewVersions: [v1]
    clientConfig: { service: { namespace: fleet-system, name: fleetwebhook, port: 9443 } }
    rules: [{ apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [nothings] }]
"#;

/// The Pods and ReplicaSets that it is really asked about.
const PODS: &str = r#"
      - { apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: Namespaced }
      - { apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [replicasets], scope: Namespaced }
"#;
const REPLICA_SET: &str = r"
apiVersion: apps/v1
kind: ReplicaSet
metadata: { name: any, namespace: default }
spec:
  selector: { matchLabels: { app: any } }
  template: { metadata: { labels: { app: any } }, spec: { containers: [{ name: any, image: example.com/any }] } }
";

/// What its policy manager leaves.
const POLICY: &str = "deny-pods-and-replicasets-outside-reserved-namespaces";
const POLICIES: &str = include_str!("../testdata/kubefleet/policies.yaml");

#[test]
fn webhooks_that_would_refuse_the_new_agent_are_dealt_with_before_it_comes() {
    scenario("webhooks", |ctx| async move {
        on_a_cluster_of_its_own(&ctx, async |site| {
            site.install_kubefleet("hub-agent", None).await?;
            site.kubectl.apply(WEBHOOKS).await?;
            let refused = site.upgrade("hub-agent", &["--reuse-values"]).await?;
            let refused = refused.err().context("this was let through")?;
            let says =
                format!("kubectl delete validatingwebhookconfiguration/{LEFT}, or set removeKubeFleetWebhooks=true");
            ensure!(refused.contains(&says), "{refused}");
            site.kubectl
                .ok(&["get", "-n", NAMESPACE, "service", "fleetwebhook"])
                .await?;
            // Told to remove them, the Service stays until the agent has.
            let remove = ["--reuse-values", "--set", "removeKubeFleetWebhooks=true"];
            let outcome = site.upgrade("hub-agent", &remove).await?;
            ensure!(outcome == Ok(()), "{outcome:?}");
            site.kubectl
                .ok(&["get", "-n", NAMESPACE, "service", "fleetwebhook"])
                .await?;
            // There is no agent here that would do it.
            site.kubectl
                .ok(&["delete", "validatingwebhookconfiguration", LEFT])
                .await?;
            let outcome = site
                .upgrade(
                    "hub-agent",
                    &[
                        "--reuse-values",
                        "--set",
                        "removeKubeFleetWebhooks=false,enableWebhook=false",
                    ],
                )
                .await?;
            ensure!(outcome == Ok(()), "{outcome:?}");
            site.kubectl
                .fails(&["get", "-n", NAMESPACE, "service", "fleetwebhook"])
                .await?;
            // Policies of the names that ours have: Helm takes nothing over, so somebody has to delete them.
            site.kubectl.apply(POLICIES).await?;
            let manager = ["--reuse-values", "--set", "enableAdmissionPolicyManager=true"];
            let refused = site.upgrade("hub-agent", &manager).await?;
            let refused = refused.err().context("this was let through")?;
            let left = [
                format!("validatingadmissionpolicy/{POLICY}"),
                format!("validatingadmissionpolicybinding/{POLICY}-binding"),
            ];
            let delete = format!("kubectl delete {}", left.join(" "));
            ensure!(refused.contains(&delete), "{refused}");
            site.kubectl.ok(&["delete", &left[0], &left[1]]).await?;
            for again in [&manager[..], &["--reuse-values"]] {
                let outcome = site.upgrade("hub-agent", again).await?;
                ensure!(outcome == Ok(()), "{again:?}: {outcome:?}");
            }
            site.kubectl.ok(&["get", &left[0], &left[1]]).await?;
            Ok(())
        })
        .await
    });
}

#[test]
fn a_first_release_beside_what_kubefleet_left_is_refused_before_its_pods_are() {
    scenario("first", |ctx| async move {
        on_a_cluster_of_its_own(&ctx, async |site| {
            let (head, _) = WEBHOOKS.split_once("    rules:").context("rules")?;
            site.kubectl.apply(&format!("{head}    rules:{PODS}")).await?;
            let refused = async {
                let create = ["create", "--dry-run=server", "-f", "-"];
                while site.kubectl.fails_with(&create, REPLICA_SET).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            let late = "ReplicaSets are not refused";
            tokio::time::timeout(wait::PATIENCE, refused).await.context(late)?;
            let folder = chart::folder("hub-agent").display().to_string();
            let install = [
                "install",
                "hub-agent",
                &folder,
                "--create-namespace",
                "--set",
                "image.repository=example.com/agent",
            ];
            let delete = ["delete", "validatingwebhookconfiguration", LEFT];
            for further in [&[][..], &["--set", "removeKubeFleetWebhooks=true"]] {
                let refused = site.helm(&[&install[..], further].concat()).await?;
                let refused = refused.err().context("this was let through")?;
                let says = format!("Run this first: kubectl delete validatingwebhookconfiguration/{LEFT}");
                ensure!(refused.contains(&says), "{further:?}: {refused}");
            }
            site.kubectl.ok(&delete).await?;
            let outcome = site.helm(&install).await?;
            ensure!(outcome == Ok(()), "{outcome:?}");
            Ok(())
        })
        .await
    });
}

#[test]
fn what_kubefleet_has_left_is_named_at_start_and_removed_only_when_told() {
    scenario("left", |ctx| async move {
        let kubectl = ctx.kubectl("hub")?;
        kubectl.apply(WEBHOOKS).await?;
        kubectl.apply(POLICIES).await?;
        let log = ctx.fleet().log_path(HUB_AGENT);
        let before = wait::end_of(&log);
        let outcome = with_hub_flags(ctx.fleet(), &["--enable-guard-rail=true"], async || {
            let warning = format!(
                "ValidatingWebhookConfiguration {LEFT}: left by KubeFleet's hub agent: the webhooks fleet.pod.validating refuse \
                 everything that they match once Service fleet-system/fleetwebhook is gone; to remove it, run kubectl delete \
                 validatingwebhookconfiguration/{LEFT}, or start the hub agent with --remove-kubefleet-webhooks (chart: \
                 removeKubeFleetWebhooks)"
            );
            wait::until_log_after(&log, before, &warning).await?;
            wait::until_log_after(
                &log,
                before,
                "--enable-guard-rail=true is ignored: set the chart value enableGuardRail: true",
            )
            .await?;
            let warning = format!(
                "left by KubeFleet's hub agent, and still in force: the policies of this release do what it does; to remove it, \
                 run kubectl delete validatingadmissionpolicybinding/{POLICY}-binding validatingadmissionpolicy/{POLICY}"
            );
            wait::until_log_after(&log, before, &warning).await?;
            let events = Events::about(&ctx, None, "ValidatingWebhookConfiguration", LEFT).await?;
            events.until("LeftByKubeFleet", &["fleetwebhook"]).await?;
            kubectl.ok(&["get", "validatingwebhookconfiguration", LEFT]).await?;
            Ok(())
        });
        let outcome = outcome.await;
        if outcome.is_ok() {
            let told = json!({ "removeKubeFleetWebhooks": true });
            with_hub_values(ctx.fleet(), &told, &[""; 0], async || {
                // Before it is ready, or nobody could be sure.
                kubectl.fails(&["get", "validatingwebhookconfiguration", LEFT]).await?;
                Ok(())
            })
            .await?;
        }
        kubectl
            .ok(&["delete", "validatingwebhookconfiguration", LEFT, "--ignore-not-found"])
            .await?;
        kubectl.ok_with(&["delete", "-f", "-"], POLICIES).await?;
        kubectl
            .ok(&[
                "delete",
                "-n",
                NAMESPACE,
                "service",
                "fleetwebhook",
                "--ignore-not-found",
            ])
            .await?;
        outcome
    });
}
