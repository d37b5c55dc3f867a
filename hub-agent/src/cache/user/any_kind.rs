//! Parts of objects of any kind.

/// Makes a type with metadata one that a watch of any kind can be about.
macro_rules! of_any_kind {
    ($part:ty) => {
        impl ::kube::Resource for $part {
            type DynamicType = ::kube::core::ApiResource;
            type Scope = ::kube::core::DynamicResourceScope;

            fn kind(api: &::kube::core::ApiResource) -> ::std::borrow::Cow<'_, str> {
                api.kind.as_str().into()
            }

            fn group(api: &::kube::core::ApiResource) -> ::std::borrow::Cow<'_, str> {
                api.group.as_str().into()
            }

            fn version(api: &::kube::core::ApiResource) -> ::std::borrow::Cow<'_, str> {
                api.version.as_str().into()
            }

            fn api_version(api: &::kube::core::ApiResource) -> ::std::borrow::Cow<'_, str> {
                api.api_version.as_str().into()
            }

            fn plural(api: &::kube::core::ApiResource) -> ::std::borrow::Cow<'_, str> {
                api.plural.as_str().into()
            }

            fn meta(&self) -> &::kube::core::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ::kube::core::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
pub(super) use of_any_kind;
