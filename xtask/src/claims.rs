//! The published answers of the claims: measures those that are open, and after each claim writes the store of all
//! runs (`claims/found.db.gz`) and the pages made from it (`docs/claims-found.md` and `.html`), so that finished work is
//! never lost. Takes hours, and needs root. Run nothing else meanwhile. Started again, it resumes.

use super::command;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

/// Time of a claim, at most, in minutes.
const MINUTES: u32 = 30;

/// Measures the open claims, or the named ones. `--plan`: prints them only.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let published = Published { root, home: root.join("target/claims") };
    fs::create_dir_all(&published.home).map_err(|e| e.to_string())?;
    published.begin()?;
    let (is_plan, named): (Vec<_>, Vec<_>) = arguments.iter().partition(|word| *word == "--plan");
    if let Some(flag) = named.iter().find(|word| word.starts_with('-')) {
        return Err(format!("unknown flag {flag}; use --plan, or names of claims"));
    }
    let (open, out_of_reach) = published.open(&named)?;
    for (id, reason) in &out_of_reach {
        println!("out of reach here: {id}: {reason}");
    }
    let hours = f64::from(MINUTES) / 60.0 * open.len() as f64;
    println!("{} claims to measure, at most {MINUTES} minutes each: {hours} hours", open.len());
    let mut failed = Vec::new();
    for (id, reason) in &open {
        println!("── {id}: {reason}");
        if !is_plan.is_empty() {
            continue;
        }
        let budget = format!("{MINUTES}m");
        let mut check = published.fstrial(&["claims", "check", id, "--budget", &budget, "--quiet"]);
        let status = check.status().map_err(|e| e.to_string())?;
        match status.code() {
            // 3: undecided, which is an answer.
            Some(0 | 3) => {}
            None | Some(INTERRUPTED) => {
                return Err(format!("{id} ended with {status}; the same command resumes there"));
            }
            // It does not keep the others from their results.
            Some(_) => {
                failed.push(format!("{id} ({status})"));
                continue;
            }
        }
        published.explain(id)?;
        published.publish()?;
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("not measured: {}", failed.join(", "))) }
}

/// The code of fstrial after Ctrl-C.
const INTERRUPTED: i32 = 130;

/// A claim, and why it is measured or cannot be.
type Reason = (String, String);

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

    /// The lines that a command prints, as JSON.
    fn lines(&self, arguments: &[&str]) -> Result<Vec<Value>, String> {
        let text = self.output(arguments)?.stdout;
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).map_err(|e| e.to_string())).collect()
    }

    /// Imports the published trials: those that are in the home already are skipped.
    fn begin(&self) -> Result<(), String> {
        let unpacked = filtered("gunzip", &["-c"], &self.root.join("claims/found.db.gz"))?;
        fs::write(self.home.join("published.db"), unpacked).map_err(|e| e.to_string())?;
        self.output(&["results", "import", "published.db"]).map(drop)
    }

    /// The claims to measure, those without a result first; and those that cannot be.
    fn open(&self, named: &[&String]) -> Result<(Vec<Reason>, Vec<Reason>), String> {
        let table = self.table()?;
        let (mut open, mut out_of_reach, mut known) = (Vec::new(), Vec::new(), BTreeSet::<&String>::new());
        for listed in self.lines(&["claims", "list", "--json"])? {
            let id = text(&listed["id"]);
            let row = table.iter().find(|row| row["id"] == listed["id"]).ok_or("a claim without a row")?;
            let is_named = named.iter().any(|name| id.starts_with(name.as_str()));
            known.extend(named.iter().copied().filter(|name| id.starts_with(name.as_str())));
            let reason = if is_named { Some("named") } else { reason(row).filter(|_| named.is_empty()) };
            match (reason, listed["missing"].as_array().and_then(|missing| missing.first())) {
                (Some(_), Some(missing)) => out_of_reach.push((id, text(missing))),
                (Some(reason), None) => open.push((id, reason.to_owned())),
                (None, _) => {}
            }
        }
        if let Some(unknown) = named.iter().find(|name| !known.contains(**name)) {
            return Err(format!("no claim begins with {unknown}"));
        }
        open.sort_by_key(|(_, reason)| [QUICK, FEW].contains(&reason.as_str()));
        Ok((open, out_of_reach))
    }

    /// Observes the arms of a claim with a decided difference. Trials that cannot be explained are refused, and stay
    /// without causes.
    fn explain(&self, id: &str) -> Result<(), String> {
        let table = self.table()?;
        let row = table.iter().find(|row| row["id"] == id).ok_or("a claim without a row")?;
        let is_decided = ["confirmed", "partly-confirmed", "reversed", "smaller"];
        let is_decided = row["verdict"].as_str().is_some_and(|verdict| is_decided.contains(&verdict));
        let Some(trial) = row["measured"]["trial"].as_i64().filter(|_| is_decided) else { return Ok(()) };
        if row["measured"]["causes"].is_null() {
            let mut explain = self.fstrial(&["explain", &trial.to_string()]);
            explain.stdout(Stdio::null()).status().map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// The claims with their results.
    fn table(&self) -> Result<Vec<Value>, String> {
        let output = self.output(&["claims", "table", "--format", "json"])?;
        let table: Value = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
        Ok(table["claims"].as_array().cloned().unwrap_or_default())
    }

    /// Writes the store, with the trials of the table only, and the pages made from it.
    fn publish(&self) -> Result<(), String> {
        let trials = self.table()?.into_iter().filter_map(|row| row["measured"]["trial"].as_i64());
        let trials: Vec<String> = trials.map(|trial| trial.to_string()).collect();
        let mut export = vec!["results", "export", "--format", "store", "--force", "--out", "found.db"];
        export.extend(trials.iter().map(String::as_str));
        self.output(&export)?;
        // Its trials are judged once, for the pages too.
        let judged = self.output(&["claims", "table", "found.db", "--format", "json"])?.stdout;
        fs::write(self.home.join("found.json"), judged).map_err(|e| e.to_string())?;
        let page = |format| self.output(&["claims", "table", "found.json", "--format", format]);
        let text = format!("{HEAD}\n{}", String::from_utf8_lossy(&page("markdown")?.stdout));
        let html = page("html")?.stdout;
        let packed = filtered("gzip", &["-9", "-n", "-c"], &self.home.join("found.db"))?;
        self.replace("claims/found.db.gz", &packed)?;
        self.replace("docs/claims-found.md", text.as_bytes())?;
        self.replace("docs/claims-found.html", &html)
    }

    /// Replaces a file, whole or not at all.
    fn replace(&self, name: &str, contents: &[u8]) -> Result<(), String> {
        let (path, next) = (self.root.join(name), self.root.join(format!("{name}.next")));
        let written = fs::write(&next, contents).and_then(|()| fs::rename(&next, &path));
        written.map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// A file as a program writes it to its standard output.
fn filtered(program: &str, arguments: &[&str], file: &Path) -> Result<Vec<u8>, String> {
    let output =
        command(program).args(arguments).arg(file).output().map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() { Ok(output.stdout) } else { Err(format!("{program}: {}", output.status)) }
}

const QUICK: &str = "quick check only";
const FEW: &str = "few rounds";
/// Rounds in which a stall in one run of ten comes up.
const ROUNDS: u64 = 29;

/// Why a claim is to be measured; none if it had its time, or is decided with files of full size.
fn reason(row: &Value) -> Option<&'static str> {
    if row["measured"].is_null() {
        return Some("no result");
    }
    if row["measured"]["has_ended"] != true {
        return Some("cut short");
    }
    // The rest goes into making devices.
    let had_its_time = row["measured"]["spent_seconds"].as_f64() >= Some(0.7 * 60.0 * f64::from(MINUTES));
    let ratios = row["parts"].as_array().into_iter().flatten().filter(|part| part["figure"] == "ratio");
    let has_few = ratios.into_iter().any(|part| part["rounds"].as_u64() < Some(ROUNDS));
    let is_quick =
        || row["scaled"].as_array().into_iter().flatten().any(|line| text(line).contains("a quick check"));
    match row["verdict"].as_str() {
        _ if had_its_time => None,
        Some("undecided") => Some("undecided"),
        _ if has_few => Some(FEW),
        _ => is_quick().then_some(QUICK),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Beginning of the page.
const HEAD: &str = "# Results

What published statements about filesystem speed are worth today, on the machines below. [claims.md](claims.md) defines
the verdicts and their limits; the same as one HTML page is [claims-found.html](claims-found.html).

All of it is made from the runs in `claims/found.db.gz`. After `gunzip -k claims/found.db.gz`:

```sh
fstrial claims table claims/found.db                # this page; --format csv, html or json
fstrial results import claims/found.db              # the trials with every run
fstrial claims check closson-2012                   # the statements of an author on your machine
fstrial claims check --all --share mine.json        # all of them, as a file to share
```
";
