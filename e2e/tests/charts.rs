//! What the charts make of their values. Needs helm and the agents' programs, and no cluster.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use fleet_e2e::agents::{self, Chart, chart};
use fleet_e2e::binaries;
use serde_json::{Value, json};

const MEMBER_FLAGS: [&str; 12] = [
    "--deletion-wait-time",
    "--work-applier-count-degraded-diff-as-reported",
    "--work-applier-compare-reserved-keys",
    "--work-applier-keep-finalizers",
    "--work-applier-requeue-rate-limiter-attempts-with-fixed-delay",
    "--work-applier-requeue-rate-limiter-fixed-delay-seconds",
    "--work-applier-requeue-rate-limiter-exponential-base-for-slow-backoff",
    "--work-applier-requeue-rate-limiter-initial-slow-backoff-delay-seconds",
    "--work-applier-requeue-rate-limiter-max-slow-backoff-delay-seconds",
    "--work-applier-requeue-rate-limiter-exponential-base-for-fast-backoff",
    "--work-applier-requeue-rate-limiter-max-fast-backoff-delay-seconds",
    "--work-applier-requeue-rate-limiter-skip-to-fast-backoff-for-available-or-diff-reported-work-objs",
];
const HUB_FLAGS: [&str; 5] = [
    "--skipped-propagating-apis",
    "--allowed-propagating-apis",
    "--skipped-propagating-namespaces",
    "--resource-snapshot-creation-minimum-interval",
    "--resource-changes-collection-duration",
];

/// The arguments and the objects that a chart gives its agent with these values. The agent has to accept the former.
async fn rendered(chart: &'static str, values: &Value) -> Result<(Vec<String>, Vec<Value>)> {
    let helm = binaries::find_or_build_helm().await?;
    let rendered = Chart::new(&helm, chart).render(values).await?;
    let args = rendered.args()?;
    // Everything before it is checked first.
    let output = Command::new(agents::program(chart)?)
        .args(&args)
        .arg("--help")
        .output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{chart} {args:?}: {complaint}");
    Ok((args, rendered.objects))
}

fn member(values: &Value) -> Value {
    let needed = json!({ "config": { "hubURL": "https://hub.example.com", "memberClusterName": "member" } });
    fleet_api::patch::applied(needed, values)
}

fn given<'a>(args: &'a [String], flags: &[&str]) -> Vec<&'a str> {
    let of = |arg: &&String| flags.iter().any(|flag| arg.starts_with(&format!("{flag}=")));
    args.iter().filter(of).map(String::as_str).collect()
}

#[tokio::test]
async fn values_of_the_applier_that_are_not_set_leave_the_agents_defaults() -> Result<()> {
    let (args, _) = rendered("member-agent", &member(&json!({}))).await?;
    ensure!(given(&args, &MEMBER_FLAGS).is_empty(), "{args:?}");
    let priorities = given(&args, &["--enable-work-applier-priority-queue"]);
    ensure!(priorities == ["--enable-work-applier-priority-queue=false"], "{args:?}");
    Ok(())
}

#[tokio::test]
async fn values_of_the_applier_reach_the_agent_false_ones_too() -> Result<()> {
    let limiter = "workApplierRequeueRateLimiter";
    let values = json!({
        "deletionWaitTime": 7,
        "priorityQueue": { "enabled": true, "priorityLinearEquationCoeffA": -5, "priorityLinearEquationCoeffB": 90 },
        "workApplierCountDegradedDiffAsReported": false,
        "workApplierCompareReservedKeys": true,
        "workApplierKeepFinalizers": true,
        format!("{limiter}AttemptsWithFixedDelay"): 2,
        format!("{limiter}FixedDelaySeconds"): 6,
        format!("{limiter}ExponentialBaseForSlowBackoff"): 1.3,
        format!("{limiter}InitialSlowBackoffDelaySeconds"): 3,
        format!("{limiter}MaxSlowBackoffDelaySeconds"): 20,
        format!("{limiter}ExponentialBaseForFastBackoff"): 1.75,
        format!("{limiter}MaxFastBackoffDelaySeconds"): 3600,
        format!("{limiter}SkipToFastBackoffForAvailableOrDiffReportedWorkObjs"): false,
    });
    let (args, _) = rendered("member-agent", &member(&values)).await?;
    let mut expected: Vec<String> = MEMBER_FLAGS
        .iter()
        .zip([
            "7", "false", "true", "true", "2", "6", "1.3", "3", "20", "1.75", "3600", "false",
        ])
        .map(|(flag, value)| format!("{flag}={value}"))
        .collect();
    expected.sort();
    let mut found = given(&args, &MEMBER_FLAGS);
    found.sort_unstable();
    ensure!(found == expected, "{args:?}");
    for flag in [
        "--enable-work-applier-priority-queue=true",
        "--work-applier-priority-linear-equation-coeff-a=-5",
        "--work-applier-priority-linear-equation-coeff-b=90",
    ] {
        ensure!(args.iter().any(|arg| arg == flag), "no {flag} in {args:?}");
    }
    Ok(())
}

#[tokio::test]
async fn values_of_placements_that_are_not_set_leave_the_agents_defaults() -> Result<()> {
    let (args, objects) = rendered("hub-agent", &json!({})).await?;
    ensure!(given(&args, &HUB_FLAGS).is_empty(), "{args:?}");
    for flag in [
        "--enable-workload=false",
        "--enable-resource-placement=true",
        "--forbid-rbac-in-namespaced-placements=false",
        "--scheduler-spread-over-usable-clusters=false",
        "--scheduler-trim-unusable-first=false",
    ] {
        ensure!(args.iter().any(|arg| arg == flag), "no {flag} in {args:?}");
    }
    ensure!(!may_report_back(&objects), "a right that few need");
    Ok(())
}

#[tokio::test]
async fn values_of_placements_reach_the_agent_empty_times_too() -> Result<()> {
    let values = json!({
        "skippedPropagatingAPIs": ["apps", "v1/Secret,ConfigMap"],
        "skippedPropagatingNamespaces": "one;two",
        "scheduler": { "spreadOverUsableClusters": true, "trimUnusableFirst": true },
        "resourceSnapshotCreationMinimumInterval": "0s",
        "resourceChangesCollectionDuration": "15s",
        "enableWorkload": true,
        "enableResourcePlacement": false,
        "forbidRBACInNamespacedPlacements": true,
        "reportBack": { "originalResource": true },
    });
    let (args, objects) = rendered("hub-agent", &values).await?;
    let mut found = given(&args, &HUB_FLAGS);
    found.sort_unstable();
    let expected = [
        "--resource-changes-collection-duration=15s",
        "--resource-snapshot-creation-minimum-interval=0s",
        "--skipped-propagating-apis=apps;v1/Secret,ConfigMap",
        "--skipped-propagating-namespaces=one;two",
    ];
    ensure!(found == expected, "{args:?}");
    for flag in [
        "--enable-workload=true",
        "--enable-resource-placement=false",
        "--forbid-rbac-in-namespaced-placements=true",
        "--scheduler-spread-over-usable-clusters=true",
        "--scheduler-trim-unusable-first=true",
    ] {
        ensure!(args.iter().any(|arg| arg == flag), "no {flag} in {args:?}");
    }
    ensure!(may_report_back(&objects), "it was asked for");
    let (args, _) = rendered("hub-agent", &json!({ "allowedPropagatingAPIs": ["v1/ConfigMap"] })).await?;
    ensure!(
        given(&args, &HUB_FLAGS) == ["--allowed-propagating-apis=v1/ConfigMap"],
        "{args:?}"
    );
    Ok(())
}

/// Whether the hub agent may write the status of any kind.
fn may_report_back(objects: &[Value]) -> bool {
    let found = objects.iter().filter(|object| object["kind"] == "ClusterRole");
    let rules = found.flat_map(|role| role["rules"].as_array().into_iter().flatten());
    let mut any = rules.filter(|rule| rule["resources"] == json!(["*/status"]) && rule["apiGroups"] == json!(["*"]));
    any.any(|rule| rule["verbs"] == json!(["patch"]))
}

/// `helm upgrade --reuse-values` over KubeFleet's release: its values are all there is, and no default of ours.
/// What the hub agent may do to these resources of placements.
fn verbs(objects: &[Value], resource: &str) -> Vec<String> {
    let rules = objects.iter().filter(|object| object["kind"] == "ClusterRole");
    let rules = rules.flat_map(|role| role["rules"].as_array().into_iter().flatten());
    let about = rules.filter(|rule| {
        let of = |list: &Value, word: &str| list.as_array().into_iter().flatten().any(|own| own == word);
        of(&rule["apiGroups"], "placement.kubernetes-fleet.io") && of(&rule["resources"], resource)
    });
    let verbs = about.flat_map(|rule| rule["verbs"].as_array().into_iter().flatten());
    let mut verbs: Vec<_> = verbs.filter_map(Value::as_str).map(ToOwned::to_owned).collect();
    verbs.sort();
    verbs.dedup();
    verbs
}

#[tokio::test]
async fn where_runs_are_not_carried_out_the_agent_may_only_end_them() -> Result<()> {
    let off = json!({ "enableStagedUpdateRunAPIs": false });
    for (values, on) in [(json!({}), true), (off, false)] {
        let (_, objects) = rendered("hub-agent", &values).await?;
        let own: Vec<Value> = objects
            .into_iter()
            .filter(|object| {
                object["metadata"]["name"]
                    .as_str()
                    .is_some_and(|name| name.contains("hub-agent"))
            })
            .collect();
        for plural in ["clusterstagedupdateruns", "stagedupdateruns"] {
            let found = verbs(&own, plural);
            ensure!(found.contains(&"patch".to_owned()), "{values}: {found:?}");
            ensure!(found.contains(&"delete".to_owned()) == on, "{values}: {found:?}");
            ensure!(verbs(&own, &format!("{plural}/status")).is_empty() != on, "{values}");
        }
        for plural in ["clusterapprovalrequests", "approvalrequests"] {
            let found = verbs(&own, plural);
            ensure!(found.contains(&"deletecollection".to_owned()), "{values}: {found:?}");
            ensure!(found.contains(&"create".to_owned()) == on, "{values}: {found:?}");
            ensure!(verbs(&own, &format!("{plural}/status")).is_empty() != on, "{values}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn values_that_a_reused_release_does_not_have_are_the_defaults() -> Result<()> {
    let helm = binaries::find_or_build_helm().await?;
    for name in ["hub-agent", "member-agent"] {
        let kubefleets = std::fs::read_to_string(chart::kubefleets(name).join("values.yaml"))?;
        let folder = tempfile::tempdir()?;
        chart::copy(&chart::folder(name), folder.path())?;
        std::fs::write(folder.path().join("values.yaml"), &kubefleets)?;
        let reused = Chart::at(&helm, name, folder.path().to_owned());
        let complaint = reused.render(&json!({})).await.err().map(|error| format!("{error:#}"));
        ensure!(
            complaint
                .as_ref()
                .is_some_and(|text| text.contains("image.repository is KubeFleet's image")),
            "{name}: {complaint:?}"
        );
        let image = json!({ "image": { "repository": "example.com/agent" } });
        let values = fleet_api::patch::applied(serde_saphyr::from_str(&kubefleets)?, &image);
        let (found, expected) = (
            reused.render(&image).await?,
            Chart::new(&helm, name).render(&values).await?,
        );
        ensure!(found.objects == expected.objects, "{name} differs with reused values");
        if name == "member-agent" {
            let env = found.env(agents::NAMESPACE)?;
            ensure!(!env.contains_key("CA_BUNDLE"), "a placeholder is no path: {env:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn each_chart_brings_the_crds_of_its_cluster_and_keeps_them() -> Result<()> {
    let helm = binaries::find_or_build_helm().await?;
    let crds = |objects: &[Value]| -> Vec<Value> {
        let found = objects.iter().filter(|o| o["kind"] == "CustomResourceDefinition");
        found.cloned().collect()
    };
    let shipped = fleet_e2e::fleet::crds::load(&fleet_e2e::fleet::crds::dir())?.len();
    for (name, values, expected) in [
        // All but AppliedWork, and ClusterProfile.
        ("hub-agent", json!({}), shipped),
        ("member-agent", member(&json!({})), 1),
    ] {
        let of = |values: Value| {
            let chart = Chart::new(&helm, name);
            async move { anyhow::Ok(crds(&chart.render(&values).await?.objects)) }
        };
        let found = of(values.clone()).await?;
        ensure!(found.len() == expected, "{name} brings {} CRDs", found.len());
        let kept = |crd: &Value| crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep";
        ensure!(found.iter().all(kept), "{name} does not keep all of its CRDs");
        // Null is no answer to the question; only false is.
        for (given, left) in [(json!(null), expected), (json!(false), 0)] {
            let mut values = values.clone();
            values["installCRDs"] = given.clone();
            let found = of(values).await?.len();
            ensure!(found == left, "{name} with installCRDs {given}: {found}");
        }
        let folder = tempfile::tempdir()?;
        chart::copy(&chart::folder(name), folder.path())?;
        std::fs::remove_dir_all(folder.path().join("files/crds"))?;
        let empty = Chart::at(&helm, name, folder.path().to_owned()).render(&values).await;
        let complaint = empty.err().map(|error| format!("{error:#}")).unwrap_or_default();
        ensure!(complaint.contains("has no CRDs in files/crds"), "{name}: {complaint}");
    }
    Ok(())
}

/// The policies of the hub's chart with these values, by name.
async fn policies(values: &Value) -> Result<BTreeMap<String, Value>> {
    let helm = binaries::find_or_build_helm().await?;
    let rendered = Chart::new(&helm, "hub-agent").render(values).await?;
    let found = rendered.objects.into_iter();
    let found: Vec<_> = found.filter(|o| o["kind"] == "ValidatingAdmissionPolicy").collect();
    let name = |policy: &Value| policy["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Ok(found.into_iter().map(|policy| (name(&policy), policy)).collect())
}

#[tokio::test]
async fn each_policy_comes_and_goes_with_its_value() -> Result<()> {
    let rails = ["crds", "memberclusters", "namespaces", "resources"].map(|word| format!("fleet-guard-rail-{word}"));
    let rails: Vec<&str> = rails.iter().map(String::as_str).collect();
    let manager = [
        "deny-pods-and-replicasets-outside-reserved-namespaces",
        "deny-serviceaccounts-and-tokenrequests-in-reserved-namespaces",
    ];
    let new = policies(&json!({})).await?;
    let has = |found: &BTreeMap<String, Value>, names: &[&str]| names.iter().all(|name| found.contains_key(*name));
    let lacks = |found: &BTreeMap<String, Value>, names: &[&str]| names.iter().all(|name| !found.contains_key(*name));
    ensure!(has(&new, &rails) && has(&new, &["fleet-hub-workload", "fleet-membercluster"]));
    ensure!(lacks(&new, &manager) && lacks(&new, &["fleet-hub-pdbs", "fleet-membercluster-labels"]));
    for (values, come, go) in [
        (json!({ "enableGuardRail": false }), &[][..], &rails[..]),
        (json!({ "enableWorkload": true }), &[], &["fleet-hub-workload"]),
        (json!({ "enablePDBs": false }), &["fleet-hub-pdbs"], &[]),
        (
            json!({ "denyModifyMemberClusterLabels": true }),
            &["fleet-membercluster-labels"],
            &[],
        ),
        (json!({ "enableAdmissionPolicyManager": true }), &manager, &[]),
    ] {
        let found = policies(&values).await?;
        let others = new.keys().filter(|name| !go.contains(&name.as_str())).count();
        ensure!(
            has(&found, come) && lacks(&found, go) && found.len() == others + come.len(),
            "{values}: {:?}",
            found.keys()
        );
    }
    // Nothing that the hub or the agent needs to start is in the way of either when a rule cannot be evaluated, nor what the
    // agent judges again.
    for (name, policy) in new.iter().filter(|(name, _)| {
        ["guard-rail", "hub-", "membercluster"]
            .iter()
            .any(|part| name.contains(part))
    }) {
        ensure!(policy["spec"]["failurePolicy"] == "Ignore", "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn kubefleets_policy_manager_is_rendered_as_it_writes_it_or_refused_in_its_words() -> Result<()> {
    let (pods, accounts) = (
        "deny-pods-and-replicasets-outside-reserved-namespaces",
        "deny-serviceaccounts-and-tokenrequests-in-reserved-namespaces",
    );
    let expression = |policy: &Value| policy["spec"]["validations"][0]["expression"].clone();
    let found = policies(&json!({ "enableAdmissionPolicyManager": true })).await?;
    let reserved = r#"(request.namespace.startsWith("fleet-")) || (request.namespace.startsWith("kube-"))"#;
    let requesters = r#"(request.userInfo.username == "system:kube-scheduler") || (request.userInfo.username == "system:kube-controller-manager") || ("system:nodes" in request.userInfo.groups) || ("system:masters" in request.userInfo.groups) || ("kubeadm:cluster-admins" in request.userInfo.groups) || ("system:serviceaccounts" in request.userInfo.groups)"#;
    ensure!(expression(&found[pods]) == reserved, "{:#}", found[pods]);
    let both = format!("(!({reserved})) || ({requesters})");
    ensure!(expression(&found[accounts]) == both, "{:#}", found[accounts]);
    ensure!(found[pods]["metadata"]["labels"]["app.kubernetes.io/component"] == "admission-policy-manager");

    let configured = |config: &str| {
        let data = json!({ "file": config });
        json!({
            "enableAdmissionPolicyManager": true, "admissionPolicyManagerConfigName": "file", "additionalConfigData": data,
        })
    };
    let second = "denyServiceAccountsAndTokenRequestsInReservedNamespaces";
    let one = format!(
        "unknown: 1\n{second}:\n  reservednamespaceprefixes: [x-]\n  WhitelistedUsernames: [u]\n  whitelistedUserGroups: [g]\n"
    );
    let found = policies(&configured(&one)).await?;
    ensure!(!found.contains_key(pods), "a generator that is not named");
    let both = format!(
        r#"(!((request.namespace.startsWith("x-")))) || ({requesters} || (request.userInfo.username == "u") || ("g" in request.userInfo.groups))"#
    );
    ensure!(expression(&found[accounts]) == both, "{:#}", found[accounts]);
    ensure!(
        !policies(&configured("{}")).await?.contains_key(accounts),
        "none is named"
    );

    let what = "one of the admission policy generators is invalid";
    let nothing = json!({ "enableAdmissionPolicyManager": true, "admissionPolicyManagerConfigName": "file" });
    for (values, says) in [
        (nothing, "ERROR: admissionPolicyManagerConfigName is set but additionalConfigData is empty; must provide admission policy manager configuration data".to_owned()),
        (configured(&format!("{second}: {{}}")), format!("{what}: at least one prefix must be specified")),
        (configured(&format!("{second}: {{ reservedNamespacePrefixes: [Fleet_] }}")), format!("{what}: prefix contains illegal characters; only lowercase alphanumeric characters and hyphens are allowed")),
        (configured(&format!("{second}: {{ reservedNamespacePrefixes: [a], whitelistedUsernames: ['a\"b'] }}")), format!("{what}: invalid string literals: string literal contains illegal characters for a CEL expression")),
        (configured("a: b: c"), "has no YAML".to_owned()),
    ] {
        let refused = policies(&values).await.err().map(|error| format!("{error:#}"));
        ensure!(refused.as_ref().is_some_and(|text| text.contains(&says)), "{says}: {refused:?}");
    }
    Ok(())
}

#[tokio::test]
async fn webhooks_come_with_a_service_and_rights_to_two_names_and_in_place_of_a_policy() -> Result<()> {
    let named = |objects: &[Value], kind: &str, name: &str| {
        let found = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        objects.iter().filter(found).count()
    };
    // Those of the agent; roles for people only read.
    let granted = |objects: &[Value]| -> Vec<Value> {
        let of_agent =
            |object: &&Value| object["kind"] == "ClusterRole" && object["metadata"]["name"] == "hub-agent-role";
        let found = objects.iter().filter(of_agent);
        let rules = found.flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default());
        let ours = rules.filter(|rule| rule["apiGroups"] == json!(["admissionregistration.k8s.io"]));
        ours.map(|rule| json!([rule["resourceNames"], rule["verbs"]])).collect()
    };
    let both = json!([
        "fleet-validating-webhook-configuration",
        "fleet-mutating-webhook-configuration"
    ]);
    let (args, objects) = rendered("hub-agent", &json!({})).await?;
    for flag in [
        "--enable-webhook=true",
        "--webhook-client-connection-type=service",
        "--webhook-service-name=fleetwebhook",
        "--webhook-owner=hub-agent-role",
        "--use-cert-manager=false",
    ] {
        ensure!(args.iter().any(|arg| arg == flag), "no {flag} in {args:?}");
    }
    ensure!(named(&objects, "Service", "fleetwebhook") == 1);
    ensure!(named(&objects, "ValidatingAdmissionPolicy", "fleet-override") == 0);
    let expected = [json!([null, ["create"]]), json!([both, ["patch", "delete"]])];
    ensure!(granted(&objects) == expected, "{:?}", granted(&objects));

    let (args, objects) = rendered("hub-agent", &json!({ "enableWebhook": false })).await?;
    ensure!(args.iter().any(|arg| arg == "--enable-webhook=false"), "{args:?}");
    ensure!(named(&objects, "Service", "fleetwebhook") == 0);
    ensure!(named(&objects, "ValidatingAdmissionPolicy", "fleet-override") == 1);
    ensure!(
        granted(&objects) == [json!([both, ["delete"]])],
        "{:?}",
        granted(&objects)
    );

    // Told to remove KubeFleet's too, there is one Service all the same.
    let (_, objects) = rendered("hub-agent", &json!({ "removeKubeFleetWebhooks": true })).await?;
    ensure!(named(&objects, "Service", "fleetwebhook") == 1);
    let values = json!({ "useCertManager": true, "enableWorkload": true });
    let (_, objects) = rendered("hub-agent", &values).await?;
    ensure!(named(&objects, "Certificate", "fleet-webhook-certificate") == 1);
    Ok(())
}

#[tokio::test]
async fn cert_managers_certificate_is_as_kubefleets_and_mounted_from_the_secret_that_was_named() -> Result<()> {
    for (named, secret) in [(None, "fleet-webhook-server-cert"), (Some("own"), "own")] {
        let values = json!({ "useCertManager": true, "enableWorkload": true, "webhookCertSecretName": named });
        let (args, objects) = rendered("hub-agent", &values).await?;
        ensure!(args.iter().any(|arg| arg == "--use-cert-manager=true"), "{args:?}");
        let find = |kind: &str| objects.iter().find(|object| object["kind"] == kind);
        let certificate = &find("Certificate").context("no Certificate")?["spec"];
        let expected = json!({
            "secretName": secret, "duration": "2160h", "renewBefore": "720h",
            "privateKey": { "algorithm": "ECDSA", "size": 256 },
            "dnsNames": ["fleetwebhook.fleet-system.svc", "fleetwebhook.fleet-system.svc.cluster.local"],
            "issuerRef": { "kind": "Issuer", "name": "fleet-selfsigned-issuer" },
        });
        ensure!(*certificate == expected, "{certificate}");
        let issuer = find("Issuer").context("no Issuer")?;
        ensure!(issuer["metadata"]["name"] == "fleet-selfsigned-issuer", "{issuer}");
        let deployment = find("Deployment").context("no Deployment")?;
        let volume = json!([{
            "name": "webhook-certificate", "secret": { "secretName": secret, "defaultMode": 0o444 },
        }]);
        ensure!(
            deployment["spec"]["template"]["spec"]["volumes"] == volume,
            "{deployment}"
        );
    }
    Ok(())
}
