//! What the tests need to know of each kind, from the CRDs and from `docs/examples/`.

use anyhow::{Context as _, Result};
use fleet_api::crds;
use fleet_e2e::harness::{Ctx, Made};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use serde_json::Value;

/// One kind, its example, and the cluster where it lives.
pub(crate) struct Kind {
    pub(crate) crd: CustomResourceDefinition,
    pub(crate) example: Value,
    pub(crate) cluster: &'static str,
}

/// Every kind.
pub(crate) fn all() -> Vec<Kind> {
    crds::all().into_iter().map(Kind::new).collect()
}

/// The kind with this plural.
pub(crate) fn find(plural: &str) -> Kind {
    all()
        .into_iter()
        .find(|kind| kind.plural() == plural)
        .unwrap_or_else(|| panic!("no kind {plural}"))
}

impl Kind {
    fn new(crd: CustomResourceDefinition) -> Self {
        let plural = &crd.spec.names.plural;
        let path = format!("{}/../docs/examples/{plural}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let example = serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
        // AppliedWork is the record that a member keeps of its own.
        let cluster = if plural == "appliedworks" { "member-1" } else { "hub" };
        Self { crd, example, cluster }
    }

    pub(crate) fn plural(&self) -> &str {
        &self.crd.spec.names.plural
    }

    pub(crate) fn namespaced(&self) -> bool {
        self.crd.spec.scope == "Namespaced"
    }

    pub(crate) fn has_status_subresource(&self) -> bool {
        self.crd
            .spec
            .versions
            .iter()
            .all(|v| v.subresources.as_ref().is_some_and(|s| s.status.is_some()))
    }

    /// The schema of v1beta1.
    pub(crate) fn schema(&self) -> Value {
        let stored = self
            .crd
            .spec
            .versions
            .iter()
            .find(|v| v.storage)
            .expect("a stored version");
        let schema = stored.schema.as_ref().and_then(|s| s.open_api_v3_schema.as_ref());
        serde_json::to_value(schema.expect("a schema")).expect("a schema is JSON")
    }

    pub(crate) fn resource(&self, version: &str) -> ApiResource {
        let gvk = GroupVersionKind::gvk(&self.crd.spec.group, version, &self.crd.spec.names.kind);
        ApiResource::from_gvk_with_plural(&gvk, self.plural())
    }

    pub(crate) async fn api(&self, ctx: &Ctx, version: &str, namespace: &str) -> Result<Api<DynamicObject>> {
        let client = ctx.client(self.cluster).await?;
        let resource = self.resource(version);
        Ok(if self.namespaced() {
            Api::namespaced_with(client, namespace, &resource)
        } else {
            Api::all_with(client, &resource)
        })
    }

    /// The example under a name of this scenario.
    pub(crate) fn named(&self, ctx: &Ctx, namespace: &str) -> Value {
        let mut object = self.example.clone();
        object["metadata"]["name"] = ctx.prefix().into();
        if self.namespaced() {
            object["metadata"]["namespace"] = namespace.into();
        }
        object
    }

    /// Creates an object, to be removed at the end.
    pub(crate) async fn create(&self, ctx: &Ctx, namespace: &str, object: Value) -> Result<DynamicObject> {
        let api = self.api(ctx, fleet_api::kind::VERSION, namespace).await?;
        let object: DynamicObject = serde_json::from_value(object)?;
        let created = api
            .create(&strict(), &object)
            .await
            .with_context(|| format!("the example of {}", self.plural()))?;
        ctx.made(Made {
            cluster: self.cluster.to_owned(),
            kind: self.resource(fleet_api::kind::VERSION),
            namespace: created.metadata.namespace.clone(),
            name: created.metadata.name.clone().unwrap_or_default(),
        });
        Ok(created)
    }
}

/// Unknown fields are refused instead of dropped.
fn strict() -> PostParams {
    PostParams {
        field_manager: Some("api-tests".to_owned()),
        ..PostParams::default()
    }
}

/// Asserts that everything in `wanted` is in `got`, and says where it is not. Quantities and the like must be spelled
/// as the server stores them.
pub(crate) fn assert_contains(got: &Value, wanted: &Value, path: &str) {
    match (got, wanted) {
        (Value::Object(got), Value::Object(wanted)) => {
            for (key, value) in wanted {
                let path = format!("{path}.{key}");
                let got = got
                    .get(key)
                    .unwrap_or_else(|| panic!("{path} was dropped by the server"));
                assert_contains(got, value, &path);
            }
        }
        (Value::Array(got), Value::Array(wanted)) => {
            assert_eq!(got.len(), wanted.len(), "{path} has another length");
            for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
                assert_contains(got, wanted, &format!("{path}[{i}]"));
            }
        }
        _ => assert_eq!(got, wanted, "{path} reads back differently"),
    }
}
