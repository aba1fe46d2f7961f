//! Enumerations whose variants are described by a row of data, each in a file of its own.

/// Makes an enumeration from one line for each variant: its word in files, and the row with what there is to know of it.
/// `row()` is for the module of the enumeration.
macro_rules! rows {
    (
        $(#[$of_all:meta])*
        pub enum $type:ident of $row_type:ty {
            $($(#[$about:meta])* $word:literal $name:ident is $row:path,)*
        }
    ) => {
        $(#[$of_all])*
        pub enum $type {
            $($(#[$about])* #[serde(rename = $word)] $name,)*
        }

        impl $type {
            /// All, in the order they are listed.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name in files, flags and output.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }

            const fn row(self) -> &'static $row_type {
                match self {
                    $(Self::$name => &$row,)*
                }
            }
        }
    };
}

pub(crate) use rows;
