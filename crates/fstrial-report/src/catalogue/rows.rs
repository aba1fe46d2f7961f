//! Every part of every claim as a row of CSV.

use super::Catalogue;

const HEADER: [&str; 14] = [
    "claim", "part", "subject", "planted", "expected", "then", "figure", "measured", "low", "high", "rounds",
    "verdict", "kernel", "device",
];

/// The parts with their figures; a claim without a result has one row.
pub fn csv(catalogue: &Catalogue) -> String {
    let mut out = csv::Writer::from_writer(Vec::new());
    let mut write = |row: [String; 14]| out.write_record(row).expect("memory takes everything");
    write(HEADER.map(str::to_owned));
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for row in &catalogue.claims {
        let id = &row.report.id;
        let of_trial = row.measured.as_ref();
        let kernel = of_trial.map_or_else(String::new, |measured| measured.machine.kernel.clone());
        let device = of_trial.map_or_else(String::new, |measured| measured.device.clone());
        if row.report.parts.is_empty() {
            let mut cells: [String; 14] = Default::default();
            cells[0].clone_from(id);
            row.verdict().clone_into(&mut cells[11]);
            write(cells);
        }
        for (index, part) in row.report.parts.iter().enumerate() {
            write([
                id.clone(),
                (index + 1).to_string(),
                part.subject.clone(),
                part.planted.to_string(),
                part.expected.clone().unwrap_or_default(),
                part.then.as_ref().map(ToString::to_string).unwrap_or_default(),
                part.figure.clone().unwrap_or_default(),
                number(part.measured),
                number(part.interval.map(|ends| ends.0)),
                number(part.interval.map(|ends| ends.1)),
                part.rounds.to_string(),
                part.verdict.words().into(),
                kernel.clone(),
                device.clone(),
            ]);
        }
    }
    let bytes = out.into_inner().expect("memory takes everything");
    String::from_utf8(bytes).expect("the text of claims")
}
