//! Our workloads against the tools they stand for: runs every trial of `trials/agreement/` and prints a table for
//! `docs/agreement.md`. Takes up to an hour, needs root and the tools; nothing else should run meanwhile.

use serde_json::Value;
use std::{fmt::Write, fs, path::Path};

/// Runs the named trials, or all, and prints the table. `--budget=TIME` in front of the names overrides the trials'
/// own.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let (budget, names) = match arguments.split_first() {
        Some((first, rest)) if first.starts_with("--budget=") => (first.strip_prefix("--budget="), rest),
        _ => (None, arguments),
    };
    let folder = root.join("trials/agreement");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .map_err(|e| format!("{}: {e}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .filter(|path| {
            names.is_empty()
                || names.iter().any(|name| path.file_stem().is_some_and(|stem| stem == name.as_str()))
        })
        .collect();
    files.sort();
    let mut table = String::from(
        "| trial | threads | figure | theirs / ours | interval | rounds | verdict |\n|---|---|---|---|---|---|---|\n",
    );
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        println!("── {name}");
        match document(root, &file, budget) {
            Ok(document) => table += &rows(&name, &document),
            Err(problem) => {
                println!("{name}: {problem}");
                let _ = writeln!(table, "| {name} | | | | | | could not run |");
            }
        }
    }
    println!("\n{table}");
    Ok(())
}

/// The answer of a trial.
fn document(root: &Path, file: &Path, budget: Option<&str>) -> Result<Value, String> {
    let home = root.join("target/agreement");
    let mut text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    if let Some(budget) = budget {
        let own = text.lines().find(|line| line.starts_with("budget = ")).unwrap_or_default().to_owned();
        text = text.replacen(&own, &format!("budget = \"{budget}\""), 1);
    }
    fs::create_dir_all(&home).map_err(|e| e.to_string())?;
    let trial = home.join("trial.toml");
    fs::write(&trial, text).map_err(|e| e.to_string())?;
    let output = super::command(&root.join("target/release/fstrial").to_string_lossy())
        .args(["run", "--json", "--home"])
        .arg(&home)
        .arg(&trial)
        .current_dir(&home)
        .output()
        .map_err(|e| format!("the release build cannot be run ({e}): cargo build --release"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let document: Value = serde_json::from_str(last).map_err(|_| last_words(&output.stderr))?;
    if document["workloads"].is_null() { Err(last_words(&output.stderr)) } else { Ok(document) }
}

fn last_words(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    text.lines().rev().take(3).collect::<Vec<_>>().join(" / ")
}

/// A row for each verdict on throughput.
fn rows(name: &str, document: &Value) -> String {
    let mut rows = String::new();
    let sections = document["workloads"].as_array().into_iter().flatten();
    for section in sections {
        let unit = section["unit"].as_str().unwrap_or_default();
        for verdict in section["verdicts"].as_array().into_iter().flatten() {
            if verdict["metric"] != "throughput" {
                continue;
            }
            let number =
                |value: &Value| value.as_f64().map_or_else(|| "–".into(), |value| format!("{value:.3}"));
            let interval = match verdict["interval"].as_array().map(Vec::as_slice) {
                Some([low, high]) => format!("[{}, {}]", number(low), number(high)),
                _ => "–".into(),
            };
            let phase = section["phase"].as_str().filter(|phase| !phase.is_empty());
            let figure = phase.map_or_else(|| unit.to_owned(), |phase| format!("{phase}, {unit}"));
            let _ = writeln!(
                rows,
                "| {name} | {} | {figure} | {} | {interval} | {} | {} |",
                verdict["threads"],
                number(&verdict["ratio"]),
                verdict["rounds"],
                verdict["verdict"].as_str().unwrap_or_default()
            );
        }
    }
    rows
}
