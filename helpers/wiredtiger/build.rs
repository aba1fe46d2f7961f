//! Compiles the calls against the header of the linked library, whose structs change between releases.

use std::{env, path::PathBuf};

fn main() {
    println!("cargo::rerun-if-env-changed=WIREDTIGER_DIR");
    println!("cargo::rerun-if-changed=src/calls.c");
    let built = env::var_os("WIREDTIGER_DIR").map(PathBuf::from);
    let built =
        built.expect("WIREDTIGER_DIR names the folder that WiredTiger was built in: see `./x wiredtiger`");
    println!("cargo::rerun-if-changed={}", built.join("libwiredtiger.a").display());
    cc::Build::new()
        .file("src/calls.c")
        .include(built.join("include"))
        .warnings_into_errors(true)
        .compile("calls");
    println!("cargo::rustc-link-search=native={}", built.display());
    println!("cargo::rustc-link-lib=static=wiredtiger");
}
