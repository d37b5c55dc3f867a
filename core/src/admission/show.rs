//! How objects are printed inside texts: as Go prints structs, which is what people and scripts know.

use std::fmt::{Display, Write as _};

use fleet_api::placement::{
    ClusterSelectorTerm, JsonPatchOverride, PropertySelector, ResourceOverrideSelector, ResourceSelector, Toleration,
};
use fleet_api::raw::RawJson;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// `group/version, Kind=kind`.
pub fn gvk(group: &str, version: &str, kind: &str) -> String {
    format!("{group}/{version}, Kind={kind}")
}

pub(super) fn selector(selector: &ResourceSelector) -> String {
    let ResourceSelector {
        group,
        version,
        kind,
        name,
        label_selector,
        selection_scope,
    } = selector;
    let labels = optional_labels(label_selector.as_ref());
    format!(
        "{{Group:{group} Version:{version} Kind:{kind} Name:{name} LabelSelector:{labels} SelectionScope:{selection_scope}}}"
    )
}

pub(super) fn override_selector(selector: &ResourceOverrideSelector) -> String {
    let ResourceOverrideSelector {
        group,
        version,
        kind,
        name,
    } = selector;
    format!("{{Group:{group} Version:{version} Kind:{kind} Name:{name}}}")
}

pub(super) fn labels(selector: &LabelSelector) -> String {
    let mut text = String::from("&LabelSelector{MatchLabels:map[string]string{");
    for (key, value) in selector.match_labels.iter().flatten() {
        let _ = write!(text, "{key}: {value},");
    }
    text.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
    for expression in selector.match_expressions.iter().flatten() {
        let values = expression.values.as_deref().unwrap_or_default().join(" ");
        let _ = write!(
            text,
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},",
            expression.key, expression.operator
        );
    }
    text.push_str("},}");
    text
}

fn optional_labels(selector: Option<&LabelSelector>) -> String {
    selector.map_or_else(|| "nil".into(), labels)
}

pub(super) fn term(term: &ClusterSelectorTerm) -> String {
    let properties = term.property_selector.as_ref().map_or_else(|| "nil".into(), properties);
    let sorter = term.property_sorter.as_ref().map_or_else(
        || "nil".into(),
        |sorter| format!("&{{Name:{} SortOrder:{}}}", sorter.name, sorter.sort_order),
    );
    format!(
        "{{LabelSelector:{} PropertySelector:{properties} PropertySorter:{sorter}}}",
        optional_labels(term.label_selector.as_ref())
    )
}

fn properties(selector: &PropertySelector) -> String {
    let all = selector.match_expressions.iter().map(|requirement| {
        format!(
            "{{Name:{} Operator:{} Values:[{}]}}",
            requirement.name,
            requirement.operator,
            requirement.values.join(" ")
        )
    });
    format!("&{{MatchExpressions:[{}]}}", all.collect::<Vec<_>>().join(" "))
}

pub(super) fn toleration(toleration: &Toleration) -> String {
    let Toleration {
        key,
        operator,
        value,
        effect,
    } = toleration;
    let effect = effect.as_ref().map_or("", |effect| effect.as_str());
    format!("{{Key:{key} Operator:{operator} Value:{value} Effect:{effect}}}")
}

pub(super) fn patch(patch: &JsonPatchOverride) -> String {
    let value = patch.value.as_ref().map_or("", RawJson::as_str);
    format!("{{{} {} {{{value}}}}}", patch.op, patch.path)
}

/// As it is written.
pub(super) fn amount(amount: &IntOrString) -> &dyn Display {
    match amount {
        IntOrString::Int(number) => number,
        IntOrString::String(text) => text,
    }
}
