//! The catalogue on several machines side by side, and pooled by the synthesis over hosts.

use super::{Catalogue, Chapter};
use crate::{
    meta::{Collection, MetaDocument, QuestionReport},
    numbers::{self, counted},
    plain,
};
use fstrial_run::{
    answers::{Answer, Answers},
    claim::ClaimVerdict,
};

/// Claims in rows, machines in columns.
pub struct Machines {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// The machines, and what the last column means.
    pub notes: Vec<String>,
}

/// Compares catalogues, each under its name: the claims that one of them has a result for.
pub fn machines(catalogues: &[(String, Catalogue)]) -> Machines {
    let mut pool = Collection::default();
    // The same trial may be in several files.
    let mut seen: Vec<&Answers> = Vec::new();
    for (name, catalogue) in catalogues {
        for row in &catalogue.claims {
            let answers = row.measured.as_ref().and_then(|measured| measured.answers.as_ref());
            let Some(answers) = answers.filter(|answers| !seen.contains(answers)) else { continue };
            seen.push(answers);
            let decides = &answers.decides;
            // Where nothing could have been seen, equality says nothing.
            let is_blind = |answer: &Answer| {
                let part = answer.expected.as_ref().and_then(|expected| row.report.parts.get(expected.part));
                part.is_some_and(|part| part.verdict == ClaimVerdict::Insensitive)
            };
            pool.add(&format!("{name} {}", row.report.id), answers.clone(), |answer| {
                decides.contains(&answer.metric) && !is_blind(answer)
            });
        }
    }
    let pooled = pool.document(catalogues.len(), None);
    let mut rows = Vec::new();
    for id in Chapter::all().iter().flat_map(|chapter| &chapter.claims) {
        let of_machines = catalogues.iter().map(|(_, catalogue)| catalogue.claim(id));
        let of_machines: Vec<_> = of_machines.map(|row| row.filter(|row| row.measured.is_some())).collect();
        if of_machines.iter().all(Option::is_none) {
            continue;
        }
        let cells = of_machines.iter().map(|row| row.map_or_else(|| "–".into(), result));
        rows.push([id.clone()].into_iter().chain(cells).chain([together(&pooled, id)]).collect());
    }
    let names = catalogues.iter().map(|(name, _)| name.clone());
    let header = ["claim".to_owned()].into_iter().chain(names).chain(["together".into()]).collect();
    let mut notes: Vec<String> = Vec::new();
    for (name, catalogue) in catalogues {
        notes.extend(
            catalogue.machines().iter().map(|machine| plain(&format!("{name}: {}", machine.in_words()))),
        );
    }
    notes.push(format!(
        "together: the verdict on the mean of {}, by its ratios; three are needed",
        counted(pooled.hosts, "machine")
    ));
    notes.extend(pooled.warnings);
    Machines { header, rows, notes }
}

/// The verdict, and the figure of a claim with one.
fn result(row: &super::ClaimRow) -> String {
    match row.report.parts.as_slice() {
        [one] if one.figure.is_some() => plain(&format!("{}: {}", row.verdict(), one.here())),
        _ => plain(row.verdict()),
    }
}

/// The verdict over machines: `confirmed: 1.93 [1.81, 2.05]`.
fn together(pooled: &MetaDocument, id: &str) -> String {
    let Some(claim) = pooled.claims.iter().find(|claim| claim.claim == id) else { return "–".into() };
    if claim.hosts < fstrial_stats::meta::MIN_HOSTS {
        return counted(claim.hosts, "machine");
    }
    let is_of = |question: &&QuestionReport| {
        question.part.as_ref().is_some_and(|part| part.expected.claim == id && !part.expected.planted)
    };
    let questions: Vec<&QuestionReport> = pooled.questions.iter().filter(is_of).collect();
    let ratio = match questions.as_slice() {
        [one] => format!(
            ": {}",
            numbers::with_interval(one.pooled.ratio, one.pooled.interval, numbers::ratio_digits)
        ),
        _ => String::new(),
    };
    let parts = match claim.pooled < claim.parts {
        true => format!(" ({} of {} parts)", claim.pooled, claim.parts),
        false => String::new(),
    };
    format!("{}{ratio}{parts}", claim.verdict.words())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        catalogue::{ClaimRow, MachineRow, MeasuredClaim},
        claim::without_trial,
    };
    use fstrial_model::{claim::CLAIMS, trial::Trial, units::Bytes};
    use serde_json::json;

    const ID: &str = "chinner-2012-xfs-3x";

    /// Results of a machine with this ratio of XFS to ext4 in sync writes.
    fn machine(name: &str, ratio: f64) -> (String, Catalogue) {
        let text = CLAIMS.iter().find(|(id, _)| *id == ID).unwrap().1;
        let claim = *Trial::read_claim(ID, text).unwrap().claim.unwrap();
        let answers: Answers = serde_json::from_value(json!({
            "host": {"name": format!("host-{name}"), "machine": null},
            "kernel": "6.18.44", "processor": "P", "cpus": 16, "memory": "16GiB", "virtual_machine": false,
            "practical": 0.03, "decides": ["throughput"], "questions": [{}],
            "answers": [{
                "a": "xfs", "b": "ext4", "metric": "throughput", "question": 0,
                "subject": {"workload": "sync", "phase": "", "threads": 16, "unit": "op/s", "less_is_better": false},
                "ratio": {"value": ratio, "interval": [ratio * 0.98, ratio * 1.02], "rounds": 30},
                "standard_error": 0.01, "stop": "verdict",
                "expected": {
                    "claim": ID, "part": 0, "parts": 2, "what": "xfs @ 16 / ext4 @ 16", "bound": {"above": 3.0},
                    "planted": false, "blind": {"few_processors": false, "at_limit": false, "at_ceiling": false}
                }
            }]
        }))
        .unwrap();
        let row = ClaimRow {
            report: without_trial(&claim, ClaimVerdict::Confirmed, Vec::new()),
            open: None,
            measured: Some(MeasuredClaim {
                trial: 1,
                day: "2026-12-01".into(),
                has_ended: true,
                spent_seconds: 1800.0,
                machine: MachineRow {
                    kernel: "6.18.44".into(),
                    processor: "P".into(),
                    cpus: 16,
                    memory: Bytes::gib(16),
                    virtual_machine: false,
                },
                device: "zram".into(),
                is_own_device: true,
                planted: None,
                causes: Vec::new(),
                receipts: Vec::new(),
                not_for: String::new(),
                answers: Some(answers),
            }),
        };
        (name.into(), Catalogue::new(vec![row]))
    }

    fn together_of(machines_of: &[(String, Catalogue)]) -> String {
        let Machines { header, rows, .. } = machines(machines_of);
        assert_eq!(header.len(), machines_of.len() + 2);
        assert_eq!(rows.len(), 1, "claims that none has measured have no row");
        rows[0].last().unwrap().clone()
    }

    #[test]
    fn three_machines_have_a_verdict_together() {
        let three = [machine("a", 3.5), machine("b", 3.6), machine("c", 3.4)];
        let verdict = together_of(&three);
        assert!(
            verdict.starts_with("confirmed: 3.50 [") && verdict.ends_with("] (1 of 2 parts)"),
            "{verdict}"
        );
        assert_eq!(together_of(&three[..2]), "2 machines");
        // A store and what was shared of it are one trial.
        let (name, catalogue) = machine("a", 3.5);
        assert_eq!(
            together_of(&[(name.clone(), catalogue.clone()), (name, catalogue.to_share())]),
            "1 machine"
        );
        // The same machine twice is one.
        assert_eq!(together_of(&[machine("a", 3.5), machine("a", 3.6), machine("b", 3.4)]), "2 machines");
    }

    #[test]
    fn shared_results_are_read_again() {
        let (_, catalogue) = machine("a", 3.5);
        let shared = catalogue.to_share();
        let again: Catalogue = serde_json::from_str(&shared.json()).unwrap();
        assert_eq!(again.json(), shared.json());
    }
}
