//! Hostile programs under test: their leftovers must not make the home unusable, and they reach no process outside.

use super::{Case, skipped};
use crate::{child, lab::Lab};
use std::{
    fs::{self, File},
    io::Read,
    os::unix::{
        fs::{OpenOptionsExt, PermissionsExt},
        net::UnixListener,
    },
    path::Path,
    time::Duration,
};

pub(super) const CASES: [Case; 6] = [
    ("program-makes-deep-folders", |lab| {
        leaves(lab, "i=0; while [ $i -lt 1300 ]; do mkdir d && cd -P d || exit 1; i=$((i+1)); done; cd /")
    }),
    ("program-makes-read-only-folders", |lab| {
        leaves(lab, "mkdir -p a/b/c && : > a/b/c/x && chmod 0555 a/b/c a/b a")
    }),
    ("program-leaves-a-daemon", |lab| {
        let marked = "31536123";
        leaves(lab, &format!("(setsid sleep {marked} &) ; :"))?;
        let is_gone = || child::tool("pgrep", &["-f", &format!("^sleep {marked}")]).is_err();
        if child::eventually(Duration::from_secs(5), is_gone) {
            Ok(())
        } else {
            Err("it is still there".into())
        }
    }),
    ("program-writes-outside", |lab| {
        let victim = lab.write("victim", "before");
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o666)).map_err(|e| e.to_string())?;
        leaves(lab, &format!("echo after > {}; :", victim.display()))?;
        match fs::read_to_string(&victim).as_deref() {
            Ok("before") => Ok(()),
            other => Err(format!("a file outside was written: {other:?}")),
        }
    }),
    ("program-talks-to-a-fifo", fifo),
    ("program-talks-to-a-socket", socket),
];

/// A trial of a script, and then `clean` and another trial with the same home.
fn leaves(lab: &Lab, script: &str) -> Result<(), String> {
    let quoted = serde_json::to_string(script).map_err(|e| e.to_string())?;
    lab.write(
        "program.toml",
        format!(
            "kind = \"program\"\nthreads = [1]\ncommand = [\"sh\", \"-c\", {quoted}]\n\
             [[metric]]\nname = \"wall\"\nmeasure = \"wall\"\n"
        ),
    );
    let words = "compare a=dir:dirs/a b=dir:dirs/b --workload program.toml --rounds 1 --json --no-page";
    for _ in 0..2 {
        let ended =
            child::run(&mut lab.behind(&["prlimit", "--nofile=1024:1024"], words), Duration::from_secs(60));
        if let Some(fault) = ended.fault() {
            return Err(fault);
        }
        if !matches!(ended.code(), Some(0 | 3)) {
            return Err(format!("{}: {}", ended.status, ended.last_words()));
        }
    }
    let cleaned =
        child::run(&mut lab.behind(&["prlimit", "--nofile=1024:1024"], "clean"), Duration::from_secs(60));
    match cleaned.code() {
        Some(0) if lab.ledger().is_empty() => Ok(()),
        code => Err(format!("clean ends with {code:?}: {}", cleaned.last_words())),
    }
}

/// A world-readable folder, like those of daemons' sockets.
fn public() -> Result<tempfile::TempDir, String> {
    let folder = tempfile::Builder::new().prefix("fstrial-attack-").tempdir_in("/tmp").map_err(skipped)?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).map_err(skipped)?;
    Ok(folder)
}

fn open_to_all(path: &Path) -> Result<(), String> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).map_err(skipped)
}

fn fifo(lab: &Lab) -> Result<(), String> {
    let folder = public()?;
    let path = folder.path().join("fifo");
    child::tool("mkfifo", &[&path.display().to_string()]).map_err(skipped)?;
    open_to_all(&path)?;
    // Open for both, so that neither waits; without blocking, so that we do not either.
    let opened = File::options().read(true).write(true).custom_flags(0o4000).open(&path);
    let mut listener = opened.map_err(skipped)?;
    leaves(lab, &format!("echo hello > {}; :", path.display()))?;
    match listener.read(&mut [0; 8]) {
        Ok(1..) => Err("its output came out".into()),
        _ => Ok(()),
    }
}

fn socket(lab: &Lab) -> Result<(), String> {
    child::tool("python3", &["--version"]).map_err(skipped)?;
    let folder = public()?;
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).map_err(skipped)?;
    listener.set_nonblocking(true).map_err(skipped)?;
    open_to_all(&path)?;
    let connect = format!("import socket; socket.socket(socket.AF_UNIX).connect('{}')", path.display());
    leaves(lab, &format!("python3 -c \"{connect}\"; :"))?;
    match listener.accept() {
        Ok(_) => Err("it was answered".into()),
        Err(_) => Ok(()),
    }
}
