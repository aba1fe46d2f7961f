//! The published answers of the claims: checks the whole catalogue, and after each claim writes the store of all runs
//! (`claims/found.db.gz`) and the table made from it (`docs/claims-found.md`), so that finished work is never lost.
//! Takes two hours with `--quick`, several without, and needs root. Run nothing else meanwhile. Started again, it
//! resumes.

use super::command;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

/// Checks the catalogue with these arguments of `fstrial claims check`, such as `--quick`.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let published = Published { root, home: root.join("target/claims") };
    fs::create_dir_all(&published.home).map_err(|e| e.to_string())?;
    for id in published.claims()? {
        println!("── {id}");
        let mut check = published.fstrial(&["claims", "check", &id, "--quiet"]);
        let status = check.args(arguments).status().map_err(|e| e.to_string())?;
        // 3: undecided, which is an answer.
        if !matches!(status.code(), Some(0 | 3)) {
            return Err(format!("{id} ended with {status}; the same command resumes there"));
        }
        published.publish()?;
    }
    Ok(())
}

struct Published<'a> {
    root: &'a Path,
    /// Folder of the stored trials while they run.
    home: PathBuf,
}

impl Published<'_> {
    fn fstrial(&self, arguments: &[&str]) -> std::process::Command {
        let mut run = command(&self.root.join("target/release/fstrial").to_string_lossy());
        run.args(arguments).arg("--home").arg(&self.home).current_dir(&self.home);
        run
    }

    fn output(&self, arguments: &[&str]) -> Result<Output, String> {
        let output = self.fstrial(arguments).stderr(Stdio::inherit()).output();
        let output =
            output.map_err(|e| format!("the release build cannot be run ({e}): cargo build --release"))?;
        if output.status.success() { Ok(output) } else { Err(format!("{arguments:?}: {}", output.status)) }
    }

    /// A field of every line that a command prints as JSON.
    fn each(&self, arguments: &[&str], field: &str) -> Result<Vec<String>, String> {
        let text = self.output(arguments)?.stdout;
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let values = lines.map(|line| serde_json::from_slice::<Value>(line).map_err(|e| e.to_string()));
        values.map(|value| Ok(value?[field].to_string().trim_matches('"').to_owned())).collect()
    }

    /// Those that can be checked here.
    fn claims(&self) -> Result<Vec<String>, String> {
        self.each(&["claims", "list", "--json"], "id")
    }

    /// Writes the store and the table made from it.
    fn publish(&self) -> Result<(), String> {
        if !self.home.join("results.db").exists() {
            return Ok(());
        }
        let ids = self.each(&["results", "list", "--json"], "id")?;
        let mut export = vec!["results", "export", "--format", "store", "--force", "--out", "found.db"];
        export.extend(ids.iter().map(String::as_str));
        self.output(&export)?;
        let table = self.output(&["claims", "table", "found.db", "--format", "markdown"])?.stdout;
        let page = format!("{HEAD}\n{}", String::from_utf8_lossy(&table));
        fs::write(self.root.join("docs/claims-found.md"), page).map_err(|e| e.to_string())?;
        let packed = command("gzip").args(["-9", "-n", "-c"]).arg(self.home.join("found.db")).output();
        let packed = packed.map_err(|e| format!("gzip: {e}"))?.stdout;
        fs::write(self.root.join("claims/found.db.gz"), packed).map_err(|e| e.to_string())
    }
}

/// Beginning of the page.
const HEAD: &str = "# Results

Made from the runs in `claims/found.db.gz`, which hold the environment, the controls and the log counters; `./x claims`
measures them again, and a test compares the two. After `gunzip -k claims/found.db.gz`, `fstrial claims table
claims/found.db` prints the table again, and `fstrial results import claims/found.db` imports the trials with every
run. [claims.md](claims.md) defines the verdicts and their limits.
";
