//! The committed object is what clang makes of its source.

#![expect(clippy::disallowed_methods, reason = "runs the compiler")]

use std::{fs, io::Write, path::Path, process::Command};

/// The compiler of the committed object: others make other code of the same source.
const COMPILER: &str = "clang version 14.0.6";
/// The folder of compilation is named as `.`: an object holds the path of its source.
const COMPILE: &str =
    "clang -target bpf -mcpu=v3 -O2 -g -fdebug-compilation-dir=. -Wall -Werror -c src/threads.bpf.c -o";
const STRIP: &str = "llvm-strip -g";

fn run(line: &str, file: &Path) -> Option<String> {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next()?);
    let output = command.args(words).arg(file).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn object_is_that_of_its_source() {
    let skip =
        |reason: &str| drop(writeln!(std::io::stderr(), "SKIPPED object_is_that_of_its_source: {reason}"));
    if !Path::new("/usr/include/bpf/bpf_helpers.h").exists() {
        return skip("the headers of libbpf are not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("threads.bpf.o");
    let Some(version) = run("clang", Path::new("--version")) else { return skip("clang is not installed") };
    run(COMPILE, &object).unwrap();
    if run(STRIP, &object).is_none() {
        return skip("llvm-strip is not installed");
    }
    if !version.contains(COMPILER) {
        return skip(&format!(
            "the object was made by {COMPILER}, and this is {}",
            version.lines().next().unwrap()
        ));
    }
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/threads.bpf.o");
    assert!(
        fs::read(&object).unwrap() == fs::read(committed).unwrap(),
        "src/threads.bpf.c has changed: `{COMPILE} src/threads.bpf.o`, then `{STRIP} src/threads.bpf.o`"
    );
}
