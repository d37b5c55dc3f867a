//! Everything that a schema forbids is refused with the path of the field: each required field missing, each enum, each
//! bound, each pattern. The cases are derived from the CRDs, as far as the examples reach.

use anyhow::{Context as _, Result, ensure};
use fleet_e2e::harness::{Ctx, scenario};
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::kinds::{self, Kind};

/// One edit of an example, and what the refusal must say.
struct Case {
    path: String,
    object: Value,
    says: String,
}

#[test]
fn what_the_schema_forbids_is_refused_by_the_name_of_the_field() {
    scenario("refusals", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let mut total = 0;
        for kind in kinds::all() {
            let example = kind.named(&ctx, &namespace);
            let mut cases = Vec::new();
            for part in ["spec", "data", "sourceStatus"] {
                if let (Some(_), schema) = (example.get(part), &kind.schema()["properties"][part]) {
                    collect(schema, &example, &format!("/{part}"), part, &mut cases);
                }
            }
            total += cases.len();
            for case in cases {
                refused(&ctx, &kind, &namespace, case).await?;
            }
        }
        // The examples are meant to reach most of the API; a sudden drop means that this test checks nothing any more.
        ensure!(total > 250, "only {total} cases");
        println!("{total} wrong objects were refused");
        Ok(())
    });
}

/// The API server prints them as the CRD has them, and people and tools read them so.
#[test]
fn enum_values_stand_in_the_published_order() {
    scenario("enum-order", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        for (plural, pointer, says) in [
            (
                "clusterresourceplacements",
                "/spec/resourceSelectors/0/selectionScope",
                r#""NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors""#,
            ),
            (
                "clusterresourceplacements",
                "/spec/strategy/deleteStrategy/propagationPolicy",
                r#""Abandon", "Delete""#,
            ),
            (
                "memberclusters",
                "/spec/deleteOptions/validationMode",
                r#""Skip", "Strict""#,
            ),
        ] {
            let kind = kinds::all().into_iter().find(|kind| kind.plural() == plural);
            let kind = kind.context("it is one of ours")?;
            let mut object = kind.named(&ctx, &namespace);
            let patch = pointer.rsplit('/').filter(|part| !part.is_empty() && *part != "0");
            let wrong = patch.fold(json!("Wrong"), |inner, part| match part {
                "resourceSelectors" => json!({ part: [fleet_api::patch::applied(json!({ "group": "", "version": "v1", "kind": "Namespace", "name": "a" }), &inner)] }),
                _ => json!({ part: inner }),
            });
            object = fleet_api::patch::applied(object, &wrong);
            let case = Case {
                path: pointer.to_owned(),
                object,
                says: format!("supported values: {says}"),
            };
            refused(&ctx, &kind, &namespace, case).await?;
        }
        Ok(())
    });
}

async fn refused(ctx: &Ctx, kind: &Kind, namespace: &str, case: Case) -> Result<()> {
    let api = kind.api(ctx, "v1beta1", namespace).await?;
    let object: DynamicObject = serde_json::from_value(case.object)?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let answer = api.create(&dry_run, &object).await;
    let place = format!("{} {}", kind.plural(), case.path);
    match answer {
        Ok(_) => anyhow::bail!("{place}: accepted, should say {:?}", case.says),
        Err(kube::Error::Api(status)) => {
            ensure!(status.code == 422, "{place}: {status:?}");
            ensure!(
                status.message.contains(&case.says),
                "{place}: {} lacks {:?}",
                status.message,
                case.says
            );
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Walks schema and example together; `pointer` and `shown` are the same place in two spellings.
fn collect(schema: &Value, root: &Value, pointer: &str, shown: &str, cases: &mut Vec<Case>) {
    let Some(value) = root.pointer(pointer) else { return };
    let mut case = |object: Value, says: String| {
        cases.push(Case {
            path: shown.to_owned(),
            object,
            says,
        });
    };
    let with = |new: Value| {
        let mut object = root.clone();
        *object.pointer_mut(pointer).expect("it was just there") = new;
        object
    };
    if schema.get("enum").is_some() {
        case(
            with(json!("Nonsense")),
            format!("{shown}: Unsupported value: \"Nonsense\""),
        );
    }
    for (bound, step) in [("minimum", -1.0), ("maximum", 1.0)] {
        if let Some(limit) = schema.get(bound).and_then(Value::as_f64) {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "bounds of the API are small whole numbers"
            )]
            let beyond = (limit + step) as i64;
            case(with(json!(beyond)), format!("{shown}: Invalid value: {beyond}"));
        }
    }
    if schema.get("pattern").is_some() {
        case(
            with(json!("not a number")),
            format!("{shown}: Invalid value: \"not a number\""),
        );
    }
    if let (Some(limit), Value::String(_)) = (schema.get("maxLength").and_then(Value::as_u64), value) {
        let long = "x".repeat(usize::try_from(limit).expect("small") + 1);
        case(
            with(json!(long)),
            format!("{shown}: Too long: may not be more than {limit} bytes"),
        );
    }
    if let (Some(limit), Value::Array(items)) = (schema.get("maxItems").and_then(Value::as_u64), value)
        && let Some(item) = items.first()
    {
        let many = vec![item.clone(); usize::try_from(limit).expect("small") + 1];
        case(
            with(json!(many)),
            format!("{shown}: Too many: {}: must have at most {limit} item", limit + 1),
        );
    }
    if schema.get("minItems").and_then(Value::as_u64) == Some(1) {
        case(
            with(json!([])),
            format!("{shown}: Invalid value: 0: {shown} in body should have at least 1 items"),
        );
    }
    // A wrong type, for everything that is not free-form.
    match schema.get("type").and_then(Value::as_str) {
        Some("string" | "array") => case(with(json!({"wrong": true})), format!("{shown}: Invalid value: ")),
        Some("integer" | "boolean" | "object") => case(with(json!("wrong")), format!("{shown}: Invalid value: ")),
        _ => {}
    }
    if let Value::Object(fields) = value {
        for name in schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            let has_default = schema["properties"][name].get("default").is_some();
            if fields.contains_key(name) && !has_default {
                let mut object = root.clone();
                let parent = object
                    .pointer_mut(pointer)
                    .and_then(Value::as_object_mut)
                    .expect("an object");
                parent.remove(name);
                case(object, format!("{shown}.{name}: Required value"));
            }
        }
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            collect(
                schema,
                root,
                &format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1")),
                &format!("{shown}.{name}"),
                cases,
            );
        }
    }
    if let (Value::Array(items), Some(item)) = (value, schema.get("items")) {
        for i in 0..items.len() {
            collect(item, root, &format!("{pointer}/{i}"), &format!("{shown}[{i}]"), cases);
        }
    }
}
