//! What is placed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient;
use crate::schema;
use crate::words::closed_enum;

/// Selects objects on the hub: all of a kind, those with certain labels, or one by its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSelector {
    /// The API group of the objects; "" for the core group.
    pub group: String,
    /// The API version of the objects, such as v1.
    pub version: String,
    /// The kind of the objects. A Namespace brings what is in it along; see selectionScope.
    pub kind: String,
    /// The name of the one object to select. Not together with labelSelector.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub name: String,
    /// The labels of the objects to select. Without name and labelSelector, every object of the kind is selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::LabelSelector>")]
    pub label_selector: Option<LabelSelector>,
    /// For a Namespace, how much of what is in it is selected along with it. Other kinds ignore it.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub selection_scope: SelectionScope,
}

closed_enum! {
    /// How much of a namespace is selected along with it.
    SelectionScope or NamespaceWithResources {
        /// The namespace itself and nothing in it.
        NamespaceOnly = "NamespaceOnly",
        /// The namespace and everything in it.
        NamespaceWithResources = "NamespaceWithResources",
        /// The namespace, and of what is in it only what the other selectors select.
        NamespaceWithResourceSelectors = "NamespaceWithResourceSelectors",
    }
}
