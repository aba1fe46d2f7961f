//! Distribution: the program with its manual pages and completions laid out as below a prefix, a static binary that
//! needs no library, and a Debian package of both.
//!
//! `./x install` and `./x package` call this. `cargo xtask long package` builds both in the quick profile, runs the
//! binary alone in an empty root, and unpacks the package. Debian's own `dpkg-deb` makes the package: it is installed
//! wherever one is wanted, and the content is the same tree that `./x install` copies.

use crate::{cargo, command, notices, root};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Shells, and the places below a prefix where each looks for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/fstrial"),
    ("zsh", "share/zsh/site-functions/_fstrial"),
    ("fish", "share/fish/vendor_completions.d/fstrial.fish"),
];

/// Files and folders that go along, and the folder below a prefix for them.
const TEXTS: [&str; 6] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "docs", "examples"];
const TEXTS_IN: &str = "share/doc/fstrial";
/// Units for a trial every night.
const UNITS: [&str; 2] = ["fstrial@.service", "fstrial@.timer"];
const UNITS_IN: &str = "lib/systemd/system";

/// Commands of `fstrial` that must work with nothing but the binary.
const ALONE: [&[&str]; 3] = [&["--version"], &["--help"], &["workloads"]];

/// `lay-out PROGRAM FOLDER`: the files that `./x install` copies below a prefix.
pub(crate) fn lay_out_for_x(arguments: &[String]) -> Result<(), String> {
    match arguments {
        [program, folder] => lay_out(Path::new(program), &emptied(folder.into())?),
        _ => Err("usage: cargo xtask lay-out PROGRAM FOLDER".into()),
    }
}

/// `package [FOLDER]`: the static binary and the package, as users get them.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let folder = match arguments {
        [] => target().join("package"),
        [folder] => PathBuf::from(folder),
        _ => return Err("usage: cargo xtask package [FOLDER]".into()),
    };
    make("release", &folder).map(|_| ())
}

/// Both in the quick profile, and whether they work.
pub(crate) fn check() -> Result<(), String> {
    let folder = target().join("package-check");
    let made = make("dev", &folder)?;
    if output("id", &["-u"])?.trim() == "0" {
        runs_alone(&made.binary, &folder.join("empty-root"))?;
    } else {
        println!("SKIPPED package: a root for the binary alone needs root");
    }
    if let Some(package) = &made.package {
        unpacks(package, &folder.join("unpacked"))?;
    }
    installs(&folder.join("cargo-install"))
}

/// The results.
struct Made {
    binary: PathBuf,
    /// None without dpkg-deb.
    package: Option<PathBuf>,
}

fn make(profile: &str, folder: &Path) -> Result<Made, String> {
    let built = static_binary(profile)?;
    fs::create_dir_all(folder).map_err(|e| about(folder, &e))?;
    let binary = folder.join("fstrial");
    copy(&built, &binary)?;
    println!("{}: static, runs on every Linux from 5.8 on", binary.display());
    if output("dpkg-deb", &["--version"]).is_err() {
        println!("SKIPPED the Debian package: there is no dpkg-deb");
        return Ok(Made { binary, package: None });
    }
    let tree = emptied(target().join("package-tree"))?;
    lay_out(&binary, &tree.join("usr"))?;
    for_debian(&tree.join("usr"))?;
    let about_it = control(&metadata()?, &output("dpkg", &["--print-architecture"])?, &tree)?;
    write(&tree.join("DEBIAN/control"), about_it.text.as_bytes())?;
    let package = folder.join(&about_it.file);
    let words = ["--root-owner-group", "-Zxz", "--build", text(&tree)?, text(&package)?];
    output("dpkg-deb", &words)?;
    println!("{}: sudo apt install {0}", package.display());
    Ok(Made { binary, package: Some(package) })
}

/// Debian's additional requirements: no symbols in the binary, manual pages and changelog compressed, and a note on
/// unusual properties.
fn for_debian(prefix: &Path) -> Result<(), String> {
    output("strip", &[text(&prefix.join("bin/fstrial"))?])?;
    let man = prefix.join("share/man/man1");
    let pages = fs::read_dir(&man).map_err(|e| about(&man, &e))?;
    let mut paths: Vec<PathBuf> = pages.flatten().map(|entry| entry.path()).collect();
    let texts = prefix.join(TEXTS_IN);
    fs::rename(texts.join("CHANGELOG.md"), texts.join("changelog")).map_err(|e| about(&texts, &e))?;
    paths.push(texts.join("changelog"));
    for path in &paths {
        output("gzip", &["-9", "-n", "-f", text(path)?])?;
    }
    let overrides = "# One binary for every distribution, older ones and bare initramfs too.\nfstrial: statically-linked-binary *\n\
                     # It is built outside of any distribution, whose maintainer has an address.\nfstrial: malformed-contact Maintainer *\n";
    write(&prefix.join("share/lintian/overrides/fstrial"), overrides.as_bytes())
}

/// Builds for this machine. The target is named, or build scripts would get the flag as well.
fn static_binary(profile: &str) -> Result<PathBuf, String> {
    let version = output("rustc", &["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?;
    let status = command(&cargo())
        .args(["build", "--package", "fstrial", "--profile", profile, "--target", host])
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .status()
        .map_err(|e| format!("cargo did not start: {e}"))?;
    if !status.success() {
        return Err(format!("cargo build failed ({status})"));
    }
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(target().join(host).join(folder).join("fstrial"))
}

/// Program, manual pages, completions and texts, as they are below a prefix.
fn lay_out(program: &Path, prefix: &Path) -> Result<(), String> {
    let installed = prefix.join("bin/fstrial");
    copy(program, &installed)?;
    let program = text(&installed)?;
    let man = prefix.join("share/man/man1");
    fs::create_dir_all(&man).map_err(|e| about(&man, &e))?;
    output(program, &["generate", "man", text(&man)?, "--force"])?;
    for (shell, place) in COMPLETIONS {
        let completions = output(program, &["generate", "completions", shell])?;
        write(&prefix.join(place), completions.as_bytes())?;
    }
    for name in TEXTS {
        copy_all(&root().join(name), &prefix.join(TEXTS_IN).join(name))?;
    }
    for name in UNITS {
        copy(&root().join("package").join(name), &prefix.join(UNITS_IN).join(name))?;
    }
    copy(&root().join(notices::FILE), &prefix.join(TEXTS_IN).join("THIRD-PARTY.txt"))?;
    write(&prefix.join(TEXTS_IN).join("copyright"), COPYRIGHT.as_bytes())
}

/// Debian's copyright file.
const COPYRIGHT: &str = "Copyright 2026 The fstrial developers\n\n\
                         fstrial is licensed under MIT (LICENSE-MIT in this folder) or Apache-2.0 (LICENSE-APACHE in this\n\
                         folder, and /usr/share/common-licenses/Apache-2.0), as you like.\n\
                         What is linked into it: THIRD-PARTY.txt in this folder.\n";

/// The control file of the package, and the name of the package.
struct Control {
    file: String,
    text: String,
}

fn control(metadata: &Value, architecture: &str, tree: &Path) -> Result<Control, String> {
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    let package = packages.iter().find(|package| package["name"] == "fstrial").ok_or("no package fstrial")?;
    let field = |name: &str| package[name].as_str().ok_or_else(|| format!("fstrial has no {name}"));
    let (version, architecture) = (field("version")?, architecture.trim());
    let about = field("description")?.trim_end_matches('.');
    let text = format!(
        "Package: fstrial\nVersion: {version}\nArchitecture: {architecture}\nSection: utils\nPriority: optional\n\
         Maintainer: The fstrial developers\nInstalled-Size: {}\nRecommends: e2fsprogs, xfsprogs, btrfs-progs\n\
         Suggests: fio, sysbench\nDescription: {about}\n \
         Compares storage configurations on real filesystems, in rounds of random order,\n \
         until it knows which is faster, by how much, and how sure that is.\n",
        size(tree).div_ceil(1024)
    );
    Ok(Control { file: format!("fstrial_{version}_{architecture}.deb"), text })
}

/// The bytes of all files below a folder.
fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            if entry.path().is_dir() {
                size(&entry.path())
            } else {
                entry.metadata().map_or(0, |result| result.len())
            }
        })
        .sum()
}

fn metadata() -> Result<Value, String> {
    let text = output(&cargo(), &["metadata", "--no-deps", "--format-version", "1"])?;
    serde_json::from_str(&text).map_err(|e| format!("cargo metadata: {e}"))
}

/// The binary, in a root with nothing but itself; the doctor looks at the kernel and the devices, and gets those.
fn runs_alone(binary: &Path, empty: &Path) -> Result<(), String> {
    let empty = emptied(empty.to_owned())?;
    copy(binary, &empty.join("fstrial"))?;
    let inside = text(&empty)?;
    for words in ALONE {
        let printed = output("chroot", &[&[inside, "/fstrial"], words].concat())?;
        println!("alone: fstrial {}: {}", words.join(" "), printed.lines().next().unwrap_or_default());
    }
    // In a private mount namespace, which takes the mounts with it.
    let script = "cd \"$1\" && mkdir proc dev sys home && mount -t proc none proc && mount --rbind /dev dev && mount --rbind /sys sys \
                  && exec chroot . /fstrial doctor --home /home --no-noise";
    let printed =
        output("unshare", &["--mount", "--propagation", "private", "sh", "-c", script, "sh", inside])?;
    println!("alone, with /proc, /dev and /sys: fstrial doctor: {} lines", printed.lines().count());
    emptied(empty).map(|_| ())
}

/// The content of the package works where it is unpacked.
fn unpacks(package: &Path, folder: &Path) -> Result<(), String> {
    let folder = emptied(folder.to_owned())?;
    output("dpkg-deb", &["--extract", text(package)?, text(&folder)?])?;
    let places = ["usr/share/man/man1/fstrial-compare.1.gz", "usr/share/doc/fstrial/THIRD-PARTY.txt"];
    let completions = COMPLETIONS.map(|(_, place)| format!("usr/{place}"));
    for place in places.into_iter().chain(completions.iter().map(String::as_str)) {
        if fs::metadata(folder.join(place)).map_or(0, |result| result.len()) == 0 {
            return Err(format!("{} lacks {place}", package.display()));
        }
    }
    let version = output(text(&folder.join("usr/bin/fstrial"))?, &["--version"])?;
    println!("unpacked: {}", version.trim());
    Ok(())
}

/// `cargo install` works; it reuses the build folder of the tests.
fn installs(folder: &Path) -> Result<(), String> {
    let words = [
        "install",
        "--quiet",
        "--debug",
        "--locked",
        "--force",
        "--no-track",
        "--path",
        "crates/fstrial",
        "--root",
    ];
    let target = target();
    output(&cargo(), &[&words[..], &[text(folder)?, "--target-dir", text(&target)?]].concat())?;
    let version = output(text(&folder.join("bin/fstrial"))?, &["--version"])?;
    println!("cargo install: {}", version.trim());
    Ok(())
}

/// Runs a program that must succeed, and returns its output.
fn output(program: &str, words: &[&str]) -> Result<String, String> {
    let done = command(program).args(words).output().map_err(|e| format!("{program} did not start: {e}"))?;
    let printed = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.success() {
        return Ok(printed);
    }
    let errors = String::from_utf8_lossy(&done.stderr);
    Err(format!("{program} {} failed ({})\n{printed}{errors}", words.join(" "), done.status))
}

/// The build folder.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A folder of ours, emptied of an earlier call's files.
fn emptied(folder: PathBuf) -> Result<PathBuf, String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if mounts.contains(text(&folder)?) {
        return Err(format!("something is mounted below {}", folder.display()));
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|e| about(&folder, &e))?;
    }
    fs::create_dir_all(&folder).map_err(|e| about(&folder, &e))?;
    Ok(folder)
}

/// Copies a file into a folder that is made if needed. A program that runs is replaced, not written over.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let bytes = fs::read(from).map_err(|e| about(from, &e))?;
    let mode = fs::metadata(from).map_err(|e| about(from, &e))?.permissions().mode();
    let _ = fs::remove_file(to);
    write(to, &bytes)?;
    let mode = if mode & 0o100 == 0 { 0o644 } else { 0o755 };
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(|e| about(to, &e))
}

/// Copies a file, or a folder with everything in it.
fn copy_all(from: &Path, to: &Path) -> Result<(), String> {
    if !from.is_dir() {
        return copy(from, to);
    }
    for entry in fs::read_dir(from).map_err(|e| about(from, &e))? {
        let name = entry.map_err(|e| about(from, &e))?.file_name();
        copy_all(&from.join(&name), &to.join(&name))?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|e| about(folder, &e))?;
    }
    fs::write(path, bytes).map_err(|e| about(path, &e))
}

fn text(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{} is not text", path.display()))
}

fn about(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A program that generates the requested files.
    fn stand_in(folder: &Path) -> PathBuf {
        let program = folder.join("fstrial");
        let script =
            "#!/bin/sh\ncase \"$2\" in man) echo page > \"$3/fstrial.1\" ;; *) echo \"for $3\" ;; esac\n";
        write(&program, script.as_bytes()).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    fn package_files_are_installed_at_expected_paths() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("prefix");
        // Twice: existing files are replaced.
        for _ in 0..2 {
            lay_out(&stand_in(folder.path()), &prefix).unwrap();
        }
        let read =
            |place: &str| fs::read_to_string(prefix.join(place)).unwrap_or_else(|e| panic!("{place}: {e}"));
        for (shell, place) in COMPLETIONS {
            assert_eq!(read(place), format!("for {shell}\n"));
        }
        assert_eq!(read("share/man/man1/fstrial.1"), "page\n");
        for place in
            ["doc/fstrial/README.md", "doc/fstrial/docs/answers.md", "doc/fstrial/examples/redis.toml"]
        {
            assert_eq!(
                read(&format!("share/{place}")),
                fs::read_to_string(root().join(place.trim_start_matches("doc/fstrial/"))).unwrap()
            );
        }
        assert!(read("lib/systemd/system/fstrial@.timer").contains("OnCalendar="));
        let mode = fs::metadata(prefix.join("bin/fstrial")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }

    #[test]
    fn control_file_describes_package() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("usr/bin/fstrial"), &[0; 3000]).unwrap();
        let metadata = json!({"packages": [
            {"name": "other", "version": "9.9.9", "description": "Not this."},
            {"name": "fstrial", "version": "1.2.3", "description": "Trials."},
        ]});
        let control = control(&metadata, "amd64\n", folder.path()).unwrap();
        assert_eq!(control.file, "fstrial_1.2.3_amd64.deb");
        let has = |line: &str| control.text.lines().any(|result| result == line);
        assert!(has("Version: 1.2.3") && has("Architecture: amd64"), "{}", control.text);
        assert!(has("Description: Trials") && has("Installed-Size: 3"), "{}", control.text);
    }
}
