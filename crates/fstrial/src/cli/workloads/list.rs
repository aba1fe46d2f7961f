//! The list of presets: all of them in their families, or those that fit a word.

use crate::cli::lacking::Set;
use fstrial_model::{
    application::{APPLICATIONS, Application},
    preset::{self, FAMILIES},
};
use fstrial_report::json_lines;
use fstrial_run::error::ExpectedError;
use serde_json::json;

const OWN_JOBS: &str = "
A job file of your own is a workload, too: --workload JOB.fio
`fstrial workloads show JOB.fio` shows which of its keys fio gets
";

/// Lists the presets, or those that fit a word.
pub(super) fn list(word: Option<&str>, json: bool) -> Result<(), ExpectedError> {
    let fitting = match word {
        None => preset::names().collect(),
        Some(word) => fitting(word)?,
    };
    if json {
        as_json(&fitting);
        return Ok(());
    }
    match word {
        None => super::super::print_folded(&format!("{}{}", families(&fitting), applications())),
        Some("fio") => super::super::print_folded(&format!("{}{OWN_JOBS}", of_word("fio", &fitting))),
        Some(word) => super::super::print_folded(&of_word(word, &fitting)),
    }
    Ok(())
}

/// The presets that a word fits; at least one.
fn fitting(word: &str) -> Result<Vec<&'static str>, ExpectedError> {
    let fitting = preset::fitting(word);
    if fitting.is_empty() {
        let all = || "`fstrial workloads` lists all of them".to_owned();
        let hint = preset::did_you_mean(word).unwrap_or_else(all);
        return Err(ExpectedError::usage(format!("no workload fits `{word}`"), hint));
    }
    Ok(fitting)
}

fn as_json(presets: &[&str]) {
    for name in presets {
        let Some(entry) = preset::preset(name) else { continue };
        json_lines::print(&json!({
            "name": name,
            "family": preset::family_of(name).map(|family| family.title),
            "about": entry.about,
            "source": entry.source,
            "keywords": entry.keywords.unwrap_or_default(),
        }));
    }
}

/// Description of a word: the set, if it names one, and each preset.
fn of_word(word: &str, fitting: &[&str]) -> String {
    let Some(application) = Application::named(word) else { return families(fitting) };
    let (name, about) = (application.name(), application.about);
    let Set { presets: members, lacks, .. } = Set::of(application);
    let lines = |is_member: bool| {
        fitting
            .iter()
            .filter(|name| members.contains(name) == is_member)
            .map(|name| line(name))
            .collect::<String>()
    };
    let (set, also) = (lines(true), lines(false));
    let also = if also.is_empty() {
        also
    } else {
        format!("\nNot in the set, and to be named on their own\n{also}")
    };
    let own = lacks.into_iter().chain(application.server_hint());
    let own: String = own.map(|line| format!("\n{line}\n")).collect();
    format!("{name}: {about}\nAll of these: --workload {name}\n\n{set}{also}{own}")
}

/// Presets under the headings of their families.
fn families(presets: &[&str]) -> String {
    let some = FAMILIES.iter().filter_map(|family| {
        let lines: String =
            family.presets.iter().filter(|name| presets.contains(name)).map(|name| line(name)).collect();
        (!lines.is_empty()).then(|| format!("{}\n{lines}", family.title))
    });
    some.collect::<Vec<_>>().join("\n")
}

fn line(name: &str) -> String {
    let about = preset::preset(name).and_then(|entry| entry.about).unwrap_or_default();
    format!("  {name:22} {about}\n")
}

/// The applications, with the scope of their presets.
fn applications() -> String {
    let lines = APPLICATIONS.iter().map(|application| {
        let presets = application.presets().join(", ");
        format!("  {:22} {}\n  {:22} {presets}\n", application.name(), application.about, "")
    });
    format!(
        "\nPresets by application: --workload NAME, or `fstrial workloads NAME`\n{}",
        lines.collect::<String>()
    )
}
