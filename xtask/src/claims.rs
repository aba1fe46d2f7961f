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
    let hours = open.iter().map(|open| open.minutes).sum::<f64>() / 60.0;
    println!("{} claims to measure, at most {MINUTES} minutes each: about {hours:.1} hours", open.len());
    let mut failed = Vec::new();
    for Open { id, reason, minutes } in &open {
        println!("── {id}: {reason}; about {minutes:.0} min");
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

/// A claim to measure.
struct Open {
    id: String,
    reason: String,
    /// Time it takes.
    minutes: f64,
}

/// A claim that cannot be measured, and why.
type OutOfReach = (String, String);

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
    fn open(&self, named: &[&String]) -> Result<(Vec<Open>, Vec<OutOfReach>), String> {
        let table = self.table()?;
        let (mut open, mut out_of_reach, mut known) = (Vec::new(), Vec::new(), BTreeSet::<&String>::new());
        for listed in self.lines(&["claims", "list", "--json"])? {
            let id = text(&listed["id"]);
            let row = table.iter().find(|row| row["id"] == listed["id"]).ok_or("a claim without a row")?;
            let is_named = named.iter().any(|name| id.starts_with(name.as_str()));
            known.extend(named.iter().copied().filter(|name| id.starts_with(name.as_str())));
            let reason = if is_named { Some("named") } else { reason(row).filter(|_| named.is_empty()) };
            let Some(reason) = reason else { continue };
            let missing = listed["missing"].as_array().and_then(|missing| missing.first()).map(text);
            let outlook = Outlook::of(row);
            match missing.or_else(|| outlook.out_of_reach().filter(|_| !is_named)) {
                Some(why) => out_of_reach.push((id, why)),
                None => open.push(Open { id, reason: reason.to_owned(), minutes: outlook.minutes() }),
            }
        }
        if let Some(unknown) = named.iter().find(|name| !known.contains(**name)) {
            return Err(format!("no claim begins with {unknown}"));
        }
        open.sort_by_key(|open| [QUICK, FEW].contains(&open.reason.as_str()));
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
    // The rest goes into making devices.
    let had_its_time = row["measured"]["spent_seconds"].as_f64() >= Some(0.7 * 60.0 * f64::from(MINUTES));
    let ratios = row["parts"].as_array().into_iter().flatten().filter(|part| part["figure"] == "ratio");
    let has_few = ratios.into_iter().any(|part| part["rounds"].as_u64() < Some(ROUNDS));
    let is_quick =
        || row["scaled"].as_array().into_iter().flatten().any(|line| text(line).contains("a quick check"));
    match row["verdict"].as_str() {
        _ if had_its_time => None,
        _ if row["measured"]["has_ended"] != true => Some("cut short"),
        Some("undecided") => Some("undecided"),
        _ if has_few => Some(FEW),
        _ => is_quick().then_some(QUICK),
    }
}

/// The time a claim takes, by its earlier rounds.
struct Outlook {
    seconds_per_round: f64,
    /// Rounds in which its open parts are decided, at least and at most; none if that is unknown.
    rounds: Option<(u64, u64)>,
}

impl Outlook {
    fn of(row: &Value) -> Self {
        let parts = || row["parts"].as_array().into_iter().flatten();
        let done = parts().filter_map(|part| part["rounds"].as_u64()).max().unwrap_or(0);
        let spent = row["measured"]["spent_seconds"].as_f64().unwrap_or(0.0);
        let open = || parts().filter(|part| part["verdict"] == "undecided");
        let needed = |end: usize| {
            let ends: Option<Vec<u64>> = open().map(|part| part["rounds_needed"][end].as_u64()).collect();
            ends.map(|ends| ends.into_iter().fold(ROUNDS, u64::max))
        };
        Self {
            seconds_per_round: spent / done.max(1) as f64,
            rounds: needed(0).zip(needed(1)).filter(|_| done > 0),
        }
    }

    fn minutes(&self) -> f64 {
        let longest = f64::from(MINUTES);
        self.rounds.map_or(longest, |(_, most)| (most as f64 * self.seconds_per_round / 60.0).min(longest))
    }

    /// Says so if a decision takes more than the time of a claim.
    fn out_of_reach(&self) -> Option<String> {
        let (least, most) = self.rounds?;
        let is_beyond = least as f64 * self.seconds_per_round > 60.0 * f64::from(MINUTES);
        let seconds = self.seconds_per_round;
        is_beyond.then(|| {
            format!("a decision takes {least} to {most} rounds of {seconds:.0} s, beyond {MINUTES} minutes")
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(rounds: u64, needed: &Value, spent: f64) -> Value {
        json!({
            "measured": {"has_ended": false, "spent_seconds": spent},
            "parts": [
                {"figure": "ratio", "rounds": rounds, "rounds_needed": needed, "verdict": "undecided"},
                {"figure": "ratio", "rounds": 30, "rounds_needed": null, "verdict": "confirmed"},
            ],
            "verdict": "undecided",
        })
    }

    #[test]
    fn time_of_a_claim_comes_from_its_rounds() {
        let outlook = |needed, spent| Outlook::of(&row(40, &needed, spent));
        // 40 rounds of 6 s.
        let soon = outlook(json!([50, 100]), 240.0);
        assert_eq!((soon.minutes(), soon.out_of_reach()), (10.0, None));
        assert_eq!(outlook(json!([50, 1000]), 240.0).minutes(), 30.0);
        let late = outlook(json!([301, 1000]), 240.0).out_of_reach().unwrap();
        assert_eq!(late, "a decision takes 301 to 1000 rounds of 6 s, beyond 30 minutes");
        let unknown = outlook(Value::Null, 240.0);
        assert_eq!((unknown.minutes(), unknown.out_of_reach()), (30.0, None));
        // What is decided waits for the rounds that would show a rare stall.
        let mut decided = row(10, &Value::Null, 60.0);
        decided["parts"][0]["verdict"] = json!("confirmed");
        decided["parts"][1]["rounds"] = json!(10);
        assert_eq!(Outlook::of(&decided).minutes(), 2.9);
    }

    #[test]
    fn claims_that_had_their_time_are_not_measured_again() {
        assert_eq!(reason(&row(40, &Value::Null, 240.0)), Some("cut short"));
        assert_eq!(reason(&row(40, &Value::Null, 1300.0)), None);
        assert_eq!(reason(&json!({})), Some("no result"));
    }
}
