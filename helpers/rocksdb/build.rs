//! Reads the version of the library from its header, as the library does not report it in C.

use std::{env, fs, path::PathBuf};

fn main() {
    println!("cargo::rerun-if-env-changed=ROCKSDB_INCLUDE_DIR");
    let folder = env::var_os("ROCKSDB_INCLUDE_DIR").map(PathBuf::from);
    let header = folder.expect("ROCKSDB_INCLUDE_DIR: see `./x rocksdb`").join("rocksdb/version.h");
    let text = fs::read_to_string(&header).unwrap_or_else(|e| panic!("{}: {e}", header.display()));
    let part = |name: &str| {
        let result = text.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")));
        result.unwrap_or_else(|| panic!("{} has no {name}", header.display())).trim().to_owned()
    };
    let parts = ["ROCKSDB_MAJOR", "ROCKSDB_MINOR", "ROCKSDB_PATCH"].map(part);
    println!("cargo::rustc-env=ROCKSDB_VERSION={}", parts.join("."));
}
