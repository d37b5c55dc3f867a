//! Types that hold a part of an object: what a cache keeps of it.

/// Makes a type that holds a part of an object a `kube::Resource` of the kind of the whole. The last argument is the field
/// that has the metadata.
///
/// ```
/// use fleet_api::placement::Work;
/// use kube::{Resource as _, core::ObjectMeta};
///
/// struct Name {
///     metadata: ObjectMeta,
/// }
/// fleet_api::part_of!(Name, Work, metadata);
///
/// assert_eq!(Name::plural(&()), "works");
/// ```
#[macro_export]
macro_rules! part_of {
    ($part:ty, $whole:ty, $metadata:ident) => {
        impl ::kube::Resource for $part {
            type DynamicType = ();
            type Scope = <$whole as ::kube::Resource>::Scope;

            fn kind((): &()) -> ::std::borrow::Cow<'_, str> {
                <$whole as ::kube::Resource>::kind(&())
            }

            fn group((): &()) -> ::std::borrow::Cow<'_, str> {
                <$whole as ::kube::Resource>::group(&())
            }

            fn version((): &()) -> ::std::borrow::Cow<'_, str> {
                <$whole as ::kube::Resource>::version(&())
            }

            fn plural((): &()) -> ::std::borrow::Cow<'_, str> {
                <$whole as ::kube::Resource>::plural(&())
            }

            fn meta(&self) -> &::kube::core::ObjectMeta {
                &self.$metadata
            }

            fn meta_mut(&mut self) -> &mut ::kube::core::ObjectMeta {
                &mut self.$metadata
            }
        }
    };
}
