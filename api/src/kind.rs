//! What makes a Rust struct a kind of the API: the [`Kind`] trait, and the macro that declares a kind in one place.
//!
//! kube's derive makes the root type from its spec, so two kinds cannot share one. Here a kind only names its spec and
//! status, and a pair that differs in scope is two short declarations over the same types.

use std::fmt::Debug;

use kube::core::ObjectMeta;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

// What every kind can be asked for, also by crates that do without kube.
pub use kube::{
    Resource,
    core::object::{HasSpec, HasStatus},
};

/// The version that the API server stores and that these types speak.
pub const VERSION: &str = "v1beta1";

/// A kind of Flotilla's API.
pub trait Kind:
    Resource<DynamicType = ()>
    + Serialize
    + DeserializeOwned
    + JsonSchema
    + Clone
    + Debug
    + PartialEq
    + Send
    + Sync
    + 'static
{
    /// The API group.
    const GROUP: &'static str;
    /// The kind, in CamelCase.
    const KIND: &'static str;
    /// True for a kind that lives in namespaces.
    const NAMESPACED: bool;
    /// What its CRD says besides the schema.
    const CRD: Crd;
}

/// A kind that can be made from a name and a spec.
pub trait SpecKind: Kind + HasSpec {
    /// A new object without status.
    fn from_spec(metadata: ObjectMeta, spec: Self::Spec) -> Self;
}

/// What a CRD says about a kind besides its schema.
#[derive(Clone, Copy, Debug)]
pub struct Crd {
    /// The name in URLs.
    pub plural: &'static str,
    /// What one may type instead.
    pub short_names: &'static [&'static str],
    /// The columns of `kubectl get`.
    pub columns: &'static [Column],
    /// CEL rules on `spec` that the other kinds with the same spec do not have.
    pub spec_rules: &'static [(&'static str, &'static str)],
    /// Whether status is written through `/status`.
    pub status: bool,
    /// Whether the API server also serves v1.
    pub v1: bool,
}

impl Crd {
    /// A kind with nothing special to say.
    pub(crate) const fn new(plural: &'static str) -> Self {
        Self {
            plural,
            short_names: &[],
            columns: &[],
            spec_rules: &[],
            status: false,
            v1: false,
        }
    }

    pub(crate) const fn short_names(self, short_names: &'static [&'static str]) -> Self {
        Self { short_names, ..self }
    }

    pub(crate) const fn columns(self, columns: &'static [Column]) -> Self {
        Self { columns, ..self }
    }

    pub(crate) const fn spec_rules(self, spec_rules: &'static [(&'static str, &'static str)]) -> Self {
        Self { spec_rules, ..self }
    }

    pub(crate) const fn with_status(self) -> Self {
        Self { status: true, ..self }
    }

    pub(crate) const fn with_v1(self) -> Self {
        Self { v1: true, ..self }
    }
}

/// A column of `kubectl get`.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// `string` or `date`.
    pub type_: &'static str,
    /// Where the value is.
    pub json_path: &'static str,
    /// Shown only with `-o wide`.
    pub wide: bool,
}

impl Column {
    /// How old the object is.
    pub(crate) const AGE: Self = Self::date("Age", ".metadata.creationTimestamp");
    /// Its generation.
    pub(crate) const GENERATION: Self = Self::string("Gen", ".metadata.generation");

    pub(crate) const fn string(name: &'static str, json_path: &'static str) -> Self {
        Self {
            name,
            type_: "string",
            json_path,
            wide: false,
        }
    }

    pub(crate) const fn date(name: &'static str, json_path: &'static str) -> Self {
        Self {
            name,
            type_: "date",
            json_path,
            wide: false,
        }
    }

    pub(crate) const fn wide(self) -> Self {
        Self { wide: true, ..self }
    }
}

/// Declares kinds: `Name in GROUP, Scope { fields } Crd::new("plural")…;` with one of the field lists
/// `spec: S, status: T`, `spec: S`, `default spec: S, status: T` (spec may be absent), or any other public fields.
macro_rules! kind {
    (
        $(#[$meta:meta])*
        $kind:ident in $group:expr, $scope:ident { spec: $spec:ty, status: $status:ty } $crd:expr;
    ) => {
        crate::kind::kind! { @root [$(#[$meta])*] $kind $group, $scope [pub spec: $spec,] [pub status: $status,] $crd.with_status() }
        crate::kind::kind! { @spec $kind $spec, { status: None } }
        crate::kind::kind! { @status $kind $status }
    };
    (
        $(#[$meta:meta])*
        $kind:ident in $group:expr, $scope:ident { default spec: $spec:ty, status: $status:ty } $crd:expr;
    ) => {
        crate::kind::kind! {
            @root [$(#[$meta])*] $kind $group, $scope
            [#[serde(default)] pub spec: $spec,] [pub status: $status,] $crd.with_status()
        }
        crate::kind::kind! { @spec $kind $spec, { status: None } }
        crate::kind::kind! { @status $kind $status }
    };
    (
        $(#[$meta:meta])*
        $kind:ident in $group:expr, $scope:ident { spec: $spec:ty } $crd:expr;
    ) => {
        crate::kind::kind! { @root [$(#[$meta])*] $kind $group, $scope [pub spec: $spec,] [] $crd }
        crate::kind::kind! { @spec $kind $spec, {} }
    };
    (
        $(#[$meta:meta])*
        $kind:ident in $group:expr, $scope:ident { $( $(#[$field_meta:meta])* pub $field:ident: $type:ty, )+ } $crd:expr;
    ) => {
        crate::kind::kind! { @root [$(#[$meta])*] $kind $group, $scope [$( $(#[$field_meta])* pub $field: $type, )+] [] $crd }
    };

    (
        @root [$(#[$meta:meta])*] $kind:ident $group:expr, $scope:ident
        [$( $(#[$field_meta:meta])* pub $field:ident: $type:ty, )+]
        [$( pub status: $status:ty, )?]
        $crd:expr
    ) => {
        #[derive(Clone, Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
        $(#[$meta])*
        #[serde(rename_all = "camelCase")]
        #[allow(missing_docs, reason = "spec and status are explained at their types")]
        pub struct $kind {
            #[serde(default)]
            #[schemars(skip)]
            pub metadata: kube::core::ObjectMeta,
            $( $(#[$field_meta])* pub $field: $type, )+
            $( #[serde(default)] pub status: Option<$status>, )?
        }

        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                #[derive(serde::Serialize)]
                #[serde(rename_all = "camelCase")]
                struct Root<'a> {
                    api_version: String,
                    kind: &'static str,
                    metadata: &'a kube::core::ObjectMeta,
                    $( $field: &'a $type, )+
                    $( #[serde(skip_serializing_if = "Option::is_none")] status: Option<&'a $status>, )?
                }
                Root {
                    api_version: format!("{}/{}", $group, crate::kind::VERSION),
                    kind: stringify!($kind),
                    metadata: &self.metadata,
                    $( $field: &self.$field, )+
                    $( status: { let status: Option<&$status> = self.status.as_ref(); status }, )?
                }
                .serialize(serializer)
            }
        }

        impl kube::Resource for $kind {
            type DynamicType = ();
            type Scope = crate::kind::kind!(@scope $scope);

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                crate::kind::VERSION.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                <Self as crate::kind::Kind>::CRD.plural.into()
            }

            fn meta(&self) -> &kube::core::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
                &mut self.metadata
            }
        }

        impl crate::kind::Kind for $kind {
            const GROUP: &'static str = $group;
            const KIND: &'static str = stringify!($kind);
            const NAMESPACED: bool = crate::kind::kind!(@namespaced $scope);
            const CRD: crate::kind::Crd = $crd;
        }
    };

    (@spec $kind:ident $spec:ty, { $( $status:ident: $none:expr )? }) => {
        impl kube::core::object::HasSpec for $kind {
            type Spec = $spec;

            fn spec(&self) -> &$spec {
                &self.spec
            }

            fn spec_mut(&mut self) -> &mut $spec {
                &mut self.spec
            }
        }

        impl crate::kind::SpecKind for $kind {
            fn from_spec(metadata: kube::core::ObjectMeta, spec: $spec) -> Self {
                Self { metadata, spec, $( $status: $none )? }
            }
        }
    };

    (@status $kind:ident $status:ty) => {
        impl kube::core::object::HasStatus for $kind {
            type Status = $status;

            fn status(&self) -> Option<&$status> {
                self.status.as_ref()
            }

            fn status_mut(&mut self) -> &mut Option<$status> {
                &mut self.status
            }
        }
    };

    (@scope Cluster) => { k8s_openapi::ClusterResourceScope };
    (@scope Namespaced) => { k8s_openapi::NamespaceResourceScope };
    (@namespaced Cluster) => { false };
    (@namespaced Namespaced) => { true };
}
pub(crate) use kind;
