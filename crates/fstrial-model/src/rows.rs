//! Enumerations whose variants have a word each, and those whose variants have a row of data as well.

/// Makes an enumeration from one line for each variant: its word in files, flags and output, and its name.
/// Serialisation is up to the attributes of the enumeration.
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    (
        $(#[$of_all:meta])*
        pub enum $type:ident {
            $($(#[$about:meta])* $word:literal $name:ident,)*
        }
    ) => {
        $(#[$of_all])*
        pub enum $type {
            $($(#[$about])* $name,)*
        }

        impl $type {
            /// All, in the order they are listed.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$name),*];

            /// The name in files, flags and output.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }

            /// The one of a name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }

            /// The names of all, with commas.
            pub fn names() -> String {
                [$($word),*].join(", ")
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

/// As [`words`], with a row of data for each variant. `row()` is for the module of the enumeration.
macro_rules! rows {
    (
        $(#[$of_all:meta])*
        pub enum $type:ident of $row_type:ty {
            $($(#[$about:meta])* $word:literal $name:ident is $row:path,)*
        }
    ) => {
        $crate::words! {
            $(#[$of_all])*
            pub enum $type {
                $($(#[$about])* #[serde(rename = $word)] $word $name,)*
            }
        }

        impl $type {
            const fn row(self) -> &'static $row_type {
                match self {
                    $(Self::$name => &$row,)*
                }
            }
        }
    };
}

pub(crate) use {rows, words};
