//! Facts about the CRDs that users and controllers rely on, and the rules that every API server enforces.

use std::collections::BTreeSet;

use fleet_api::crds;
use fleet_api::placement::{ClusterScoped, Namespaced, Scope};
use fleet_api::{Kind, SpecKind};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::object::{HasSpec, HasStatus};
use kube::{Resource, core::ObjectMeta};
use serde_json::{Value, json};

fn schema(crd: &CustomResourceDefinition, version: &str) -> Value {
    let version = crd
        .spec
        .versions
        .iter()
        .find(|v| v.name == version)
        .expect("a served version");
    let schema = version
        .schema
        .as_ref()
        .and_then(|schema| schema.open_api_v3_schema.as_ref())
        .expect("a schema");
    serde_json::to_value(schema).expect("a schema is JSON")
}

fn find(plural: &str) -> CustomResourceDefinition {
    crds::all()
        .into_iter()
        .find(|crd| crd.spec.names.plural == plural)
        .expect("a kind")
}

#[test]
fn names_scopes_and_versions() {
    let table: Vec<_> = crds::all()
        .iter()
        .map(|crd| {
            let versions: Vec<_> = crd
                .spec
                .versions
                .iter()
                .map(|v| format!("{}{}", v.name, if v.storage { "*" } else { "" }))
                .collect();
            let subresource = crd.spec.versions[0].subresources.is_some();
            format!(
                "{} {} {} {} {}",
                crd.spec.names.plural,
                crd.spec.scope,
                crd.spec.names.short_names.clone().unwrap_or_default().join(","),
                versions.join(","),
                if subresource { "status" } else { "" },
            )
        })
        .collect();
    assert_eq!(
        table,
        [
            "internalmemberclusters Namespaced imc v1,v1beta1* status",
            "memberclusters Cluster cluster v1,v1beta1* status",
            "appliedworks Cluster  v1,v1beta1* status",
            "approvalrequests Namespaced areq v1,v1beta1* status",
            "clusterapprovalrequests Cluster careq v1,v1beta1* status",
            "clusterresourcebindings Cluster crb v1,v1beta1* status",
            "clusterresourceenvelopes Cluster  v1beta1* ",
            "clusterresourceoverrides Cluster  v1,v1beta1* ",
            "clusterresourceoverridesnapshots Cluster  v1,v1beta1* ",
            "clusterresourceplacements Cluster crp v1,v1beta1* status",
            "clusterresourceplacementdisruptionbudgets Cluster crpdb v1,v1beta1* ",
            "clusterresourceplacementevictions Cluster crpe v1,v1beta1* status",
            "clusterresourceplacementstatuses Namespaced crps v1,v1beta1* ",
            "clusterresourcesnapshots Cluster crs v1,v1beta1* status",
            "clusterschedulingpolicysnapshots Cluster csps v1,v1beta1* status",
            "clusterstagedupdateruns Cluster csur v1,v1beta1* status",
            "clusterstagedupdatestrategies Cluster csus v1,v1beta1* status",
            "resourcebindings Namespaced rb v1beta1* status",
            "resourceenvelopes Namespaced  v1beta1* ",
            "resourceoverrides Namespaced  v1,v1beta1* ",
            "resourceoverridesnapshots Namespaced  v1,v1beta1* ",
            "resourceplacements Namespaced rp v1,v1beta1* status",
            "resourcesnapshots Namespaced rs v1beta1* status",
            "schedulingpolicysnapshots Namespaced sps v1beta1* status",
            "stagedupdateruns Namespaced sur v1,v1beta1* status",
            "stagedupdatestrategies Namespaced sus v1,v1beta1* ",
            "works Namespaced  v1,v1beta1* status",
        ]
    );
}

/// What an API server refuses, and what `kubectl explain` would show a gap for.
#[test]
fn every_schema_is_structural_and_explained() {
    fn check(schema: &Value, path: &str) {
        let fields = schema.as_object().unwrap_or_else(|| panic!("{path} is no schema"));
        for forbidden in ["$ref", "anyOf", "oneOf", "allOf", "not", "nullable", "title"] {
            assert!(!fields.contains_key(forbidden), "{path} has {forbidden}");
        }
        let free = ["x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"];
        assert!(
            fields.contains_key("type") || free.iter().any(|key| fields.contains_key(*key)),
            "{path} has no type"
        );
        if let Some(format) = schema["format"].as_str() {
            assert!(
                ["int32", "int64", "date-time", "byte"].contains(&format),
                "{path} has format {format}"
            );
        }
        if let Some(words) = schema["enum"].as_array() {
            assert!(words.iter().all(Value::is_string), "{path} has odd words");
            assert!(
                schema["default"].is_null() || words.contains(&schema["default"]),
                "{path} has a default that is no word"
            );
        }
        let required: BTreeSet<_> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if name != "metadata" {
                assert!(
                    property["description"].as_str().is_some_and(|text| !text.is_empty()),
                    "{path} is not explained"
                );
            }
            check(property, &path);
        }
        assert!(
            required.iter().all(|name| !schema["properties"][name].is_null()),
            "{path} requires what it has not"
        );
        for inner in ["items", "additionalProperties"] {
            if !schema[inner].is_null() {
                check(&schema[inner], &format!("{path}[]"));
            }
        }
    }
    for crd in crds::all() {
        for version in &crd.spec.versions {
            check(
                &schema(&crd, &version.name),
                &format!("{}/{}", crd.spec.names.kind, version.name),
            );
        }
    }
}

#[test]
fn v1_keeps_every_field_and_only_narrows_envelopes() {
    let placements = find("clusterresourceplacements");
    let [stable, stored] = ["v1", "v1beta1"].map(|version| schema(&placements, version));
    let envelope = |schema: &Value| {
        schema["properties"]["status"]["properties"]["selectedResources"]["items"]["properties"]["envelope"]["properties"]["type"].clone()
    };
    assert_eq!(envelope(&stored)["default"], "ConfigMap");
    assert_eq!(envelope(&stable)["default"], Value::Null);
    assert_eq!(
        envelope(&stable)["enum"],
        json!(["ClusterResourceEnvelope", "ResourceEnvelope"])
    );

    let members = find("memberclusters");
    assert_eq!(schema(&members, "v1"), schema(&members, "v1beta1"));
    assert!(!schema(&members, "v1")["properties"]["spec"]["properties"]["deleteOptions"].is_null());
}

#[test]
fn a_word_is_explained_where_it_is_used() {
    let schema = schema(&find("clusterresourceplacements"), "v1beta1");
    let field = &schema["properties"]["spec"]["properties"]["policy"]["properties"]["placementType"];
    assert_eq!(
        field["description"],
        "How clusters are picked. Cannot be changed.\n\n- PickAll: Every cluster that is fit.\n\
         - PickN: The best numberOfClusters of those that are fit.\n- PickFixed: The clusters in clusterNames."
    );
}

#[test]
fn only_the_cluster_scoped_placement_has_the_status_reporting_rules() {
    let rules = |plural| {
        let schema = schema(&find(plural), "v1beta1");
        schema["properties"]["spec"]["x-kubernetes-validations"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(
        (rules("clusterresourceplacements"), rules("resourceplacements")),
        (6, 4)
    );
}

/// Generic code can make, read and name the kinds of both families.
#[test]
fn a_scope_names_its_family() {
    fn binding_for<S: Scope>(placement: &S::Placement, cluster: &str) -> S::Binding {
        let mut binding = S::Binding::from_spec(ObjectMeta::default(), <S::Binding as HasSpec>::Spec::default());
        binding.meta_mut().namespace.clone_from(&placement.meta().namespace);
        binding.spec_mut().target_cluster = cluster.into();
        assert!(binding.status().is_none());
        binding
    }
    fn check<S: Scope>() {
        let placement = S::Placement::from_spec(ObjectMeta::default(), <S::Placement as HasSpec>::Spec::default());
        let binding = binding_for::<S>(&placement, "paris");
        assert_eq!(binding.spec().target_cluster, "paris");
        assert_eq!(S::Placement::NAMESPACED, S::SCOPE == Namespaced::SCOPE);
        assert_eq!(S::Binding::KIND, S::Binding::kind(&()));
    }
    check::<ClusterScoped>();
    check::<Namespaced>();
}
