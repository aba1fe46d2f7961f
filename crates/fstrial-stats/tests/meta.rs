//! Meta-analysis against metafor, and its coverage on simulated hosts.

use fstrial_stats::meta::{Effect, Slope, Synthesis, leave_one_out};

/// A line of metafor.csv.
struct Reference {
    name: String,
    effects: Vec<Effect>,
    moderator: Vec<f64>,
    found: Vec<f64>,
}

/// `metafor.R` defines its columns. `NA` reads as not a number.
fn references() -> Vec<Reference> {
    let lines = include_str!("meta/metafor.csv").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split(',');
            let name = words.next().unwrap().to_owned();
            let k: usize = words.next().unwrap().parse().unwrap();
            let numbers: Vec<f64> = words.map(|word| word.trim().parse().unwrap_or(f64::NAN)).collect();
            let pairs = numbers[..k].iter().zip(&numbers[k..2 * k]);
            let effects = pairs.map(|(y, v)| Effect { log_ratio: *y, variance: *v }).collect();
            Reference {
                name,
                effects,
                moderator: numbers[2 * k..3 * k].to_vec(),
                found: numbers[3 * k..].to_vec(),
            }
        })
        .collect()
}

#[test]
fn syntheses_are_those_of_metafor() {
    let references = references();
    assert_eq!(references.len(), 11);
    for Reference { name, effects, moderator, found } in references {
        let close = |what: &str, ours: f64, theirs: f64| {
            // Fisher scoring, which they use, comes no nearer.
            let is_close = (ours - theirs).abs() <= 2e-7 * theirs.abs().max(1e-3);
            assert!(is_close, "{name}, {what}: {ours} is not {theirs}");
        };
        let synthesis = Synthesis::of(&effects).unwrap();
        close("between", synthesis.between, found[0]);
        close("mean", synthesis.log_ratio, found[1]);
        close("standard error", synthesis.standard_error, found[2]);
        let (interval, prediction) = (synthesis.interval(0.95).unwrap(), synthesis.prediction(0.95).unwrap());
        close("low", interval.0, found[3]);
        close("high", interval.1, found[4]);
        close("predicted low", prediction.0, found[5]);
        close("predicted high", prediction.1, found[6]);
        close("Q", synthesis.q, found[7]);
        close("I²", 100.0 * synthesis.inconsistency, found[8]);
        let Some(slope) = Slope::of(&effects, &moderator) else {
            assert_eq!(effects.len(), 3, "{name}");
            continue;
        };
        close("slope", slope.per_unit, found[9]);
        close("slope low", slope.interval(0.95).0, found[10]);
        close("slope high", slope.interval(0.95).1, found[11]);
        close("left between", slope.between, found[12]);
        close("without the first", leave_one_out(&effects)[0].log_ratio, found[13]);
    }
}
