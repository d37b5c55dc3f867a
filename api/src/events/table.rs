//! How Events are declared: a line each, with all their words.

/// Declares the Events of an object as a table, one line each: the Event and its data, then type, reason and message.
/// A message is a format string over the data, or a block that makes a `String`.
macro_rules! events {
    (
        $(#[$meta:meta])*
        pub enum $name:ident from $cluster:literal $(or $namespaced:literal)? {
            $(
                $(#[$variant_meta:meta])*
                $variant:ident $({ $($field:ident: $field_type:ty),* $(,)? })?
                    => $type:ident $reason:literal $message:tt;
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name {
            $(
                $(#[$variant_meta])*
                #[doc = concat!(stringify!($type), ", `", $reason, "`: ", events!(@doc $message))]
                $variant $({ $(
                    #[doc = concat!("`", stringify!($field), "` in the message.")]
                    $field: $field_type
                ),* })?,
            )+
        }

        impl Event for $name {
            const REASONS: &'static [&'static str] = &[$($reason),+];

            #[allow(unused_variables, reason = "most objects come in one scope only")]
            fn component(scope: Scope) -> &'static str {
                $(if scope == Scope::Namespaced { return $namespaced; })?
                $cluster
            }

            fn event_type(&self) -> EventType {
                match self {
                    $(Self::$variant $({ $($field: _),* })? => EventType::$type,)+
                }
            }

            fn reason(&self) -> &'static str {
                match self {
                    $(Self::$variant $({ $($field: _),* })? => $reason,)+
                }
            }

            fn message(&self) -> String {
                cut(match self {
                    $(Self::$variant $({ $($field),* })? => events!(@message $message),)+
                })
            }
        }
    };
    (@doc $message:literal) => { $message };
    (@doc $message:block) => { "made from its data." };
    (@message $message:literal) => { format!($message) };
    (@message $message:block) => { $message };
}
