//! The table in which conditions are declared.

/// Declares a condition as a table of its states, one line each: the state and its data, then status, reason and
/// message, then `published` if a guide shows the message. A message is a format string over the state's data, or a
/// block that makes a `String`; all data must be used.
///
/// The type after `=` is left out where the scope of a placement decides it.
macro_rules! states {
    (
        $(#[$meta:meta])*
        pub enum $name:ident $(= $type:literal)? {
            $(
                $(#[$variant_meta:meta])*
                $variant:ident $({ $($field:ident: $field_type:ty),* $(,)? })?
                    => $status:ident $reason:tt $message:tt $($published:ident)?;
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name {
            $(
                $(#[$variant_meta])*
                #[doc = concat!(stringify!($status), ", ", states!(@doc $reason), ": ", states!(@doc $message))]
                $variant $({ $(
                    #[doc = concat!("`", stringify!($field), "` in the message.")]
                    $field: $field_type
                ),* })?,
            )+
        }

        impl $crate::conditions::Words for $name {
            fn status(&self) -> $crate::conditions::Status {
                match self {
                    $(Self::$variant $({ $($field: _),* })? => $crate::conditions::Status::$status,)+
                }
            }

            #[allow(unused_variables, reason = "most reasons need no data")]
            fn reason(&self) -> &'static str {
                match self {
                    $(Self::$variant $({ $($field),* })? => states!(@reason $reason),)+
                }
            }

            fn message(&self) -> String {
                match self {
                    $(Self::$variant $({ $($field),* })? => states!(@message $message),)+
                }
            }

            fn published(&self) -> bool {
                match self {
                    $(Self::$variant $({ $($field: _),* })? => states!(@published $($published)?),)+
                }
            }
        }

        $(
            impl $name {
                #[doc = concat!("The condition's type, `", $type, "`.")]
                pub const TYPE: &'static str = $type;
            }

            impl $crate::conditions::ConditionState for $name {
                fn type_name(&self) -> &'static str {
                    Self::TYPE
                }
            }
        )?
    };
    (@doc $text:literal) => { concat!("`", $text, "`") };
    (@doc $text:block) => { "made from its data" };
    (@reason $reason:literal) => { $reason };
    (@reason $reason:block) => { $reason };
    (@message $message:literal) => { format!($message) };
    (@message $message:block) => { $message };
    (@published) => { false };
    (@published published) => { true };
}
