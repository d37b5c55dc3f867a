//! Enums whose values are words of the API.
//!
//! `closed_enum!` makes a plain enum: an unknown word fails the decode. It is for what users write and only the hub
//! reads; hub agent and CRDs are installed together, and guessing at a policy that we do not know would be worse than
//! refusing it.
//!
//! `open_enum!` adds `Unknown(word)`, which keeps the word. It is for what crosses a version boundary: what others
//! report in a status, and what a newer hub may ask of an older member agent, which must still be able to say "I do not
//! know this" instead of losing sight of the object. `open_enum!(any …)` also leaves the CRD's field a free string.
//!
//! In both, the words stand in the published order, the first is the default unless another one is named, and the comments
//! on the words become part of the CRD's description.

macro_rules! closed_enum {
    (
        $(#[doc = $doc:literal])*
        $name:ident { $( $(#[doc = $word_doc:literal])* $word:ident = $text:literal, )+ }
    ) => {
        crate::words::closed_enum! {
            @ Self::ALL[0],
            $(#[doc = $doc])*
            $name { $( $(#[doc = $word_doc])* $word = $text, )+ }
        }
    };
    (
        $(#[doc = $doc:literal])*
        $name:ident or $default:ident { $( $(#[doc = $word_doc:literal])* $word:ident = $text:literal, )+ }
    ) => {
        crate::words::closed_enum! {
            @ Self::$default,
            $(#[doc = $doc])*
            $name { $( $(#[doc = $word_doc])* $word = $text, )+ }
        }
    };
    (
        @ $default:expr,
        $(#[doc = $doc:literal])*
        $name:ident { $( $(#[doc = $word_doc:literal])* $word:ident = $text:literal, )+ }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $( $(#[doc = $word_doc])* #[serde(rename = $text)] $word, )+
        }

        impl $name {
            /// Every word, in the published order.
            pub const ALL: &'static [Self] = &[$( Self::$word, )+];

            /// The word as the API spells it.
            pub fn as_str(&self) -> &'static str {
                match self {
                    $( Self::$word => $text, )+
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $default
            }
        }

        crate::words::common! {
            $name, true, concat!($($doc, "\n"),*), [ $( $text => concat!($($word_doc),*), )+ ]
        }
    };
}
pub(crate) use closed_enum;

macro_rules! open_enum {
    (any $($rest:tt)+) => {
        crate::words::open_enum! { @ false, $($rest)+ }
    };
    (
        @ $listed:literal,
        $(#[doc = $doc:literal])*
        $name:ident { $( $(#[doc = $word_doc:literal])* $word:ident = $text:literal, )+ }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $(#[doc = $word_doc])* $word, )+
            /// A word that this version does not know, kept as it is.
            Unknown(Box<str>),
        }

        impl $name {
            /// Every word that this version knows, the default first.
            pub const KNOWN: &'static [Self] = &[$( Self::$word, )+];

            /// The word as the API spells it.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$word => $text, )+
                    Self::Unknown(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $( $text => Self::$word, )+
                    unknown => Self::Unknown(unknown.into()),
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::KNOWN[0].clone()
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'_, str> as serde::Deserialize>::deserialize(deserializer)?;
                Ok(Self::from(&*word))
            }
        }

        crate::words::common! {
            $name, $listed, concat!($($doc, "\n"),*), [ $( $text => concat!($($word_doc),*), )+ ]
        }
    };
    ($($rest:tt)+) => {
        crate::words::open_enum! { @ true, $($rest)+ }
    };
}
pub(crate) use open_enum;

macro_rules! common {
    ($name:ident, $listed:literal, $doc:expr, [ $( $text:literal => $word_doc:expr, )+ ]) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                crate::schema::words($doc, &[$( ($text, $word_doc), )+], $listed)
            }
        }
    };
}
pub(crate) use common;
