//! The words of a trial as types: arms, devices, workloads, jobs, measurements, units, and the trial file.
//!
//! Pure: no module here reads a file, queries the host or keeps time. Code shared by other crates is here.
#![forbid(unsafe_code)]

/// Types that are strings in files: read by their `FromStr`, written by their `Display`.
macro_rules! strings_in_files {
    ($($name:ident),*) => {$(
        impl TryFrom<String> for $name {
            type Error = String;
            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    )*};
}

/// True if a setting has its default and can be omitted.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub mod ability;
pub mod application;
pub mod arm;
pub mod bounded;
pub mod claim;
pub mod counter;
pub mod device;
pub mod device_model;
pub mod evidence;
pub mod facts;
pub mod filesystem;
pub mod fio;
pub mod job;
pub mod layer;
pub mod measurement;
pub mod memory;
pub mod metric;
pub mod mkfs_options;
pub mod place;
pub mod problem;
pub mod profile;
pub mod queue;
pub mod receipt;
mod rows;
pub mod state;
pub mod trial;
pub mod unit;
pub mod units;
pub mod workload;

pub use workload::preset;
