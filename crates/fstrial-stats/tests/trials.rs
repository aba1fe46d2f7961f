//! Whole trials through the public interface: the reference trials T1–T4 of the method, the order of decisions, many
//! concurrent questions, claims, and recomputation.

use fstrial_stats::{
    Decision, Done, Multiplicity, Pair, Panel, Question, Verdict,
    schedule::{Schedule, Spending},
};
use proptest::prelude::*;

fn band() -> f64 {
    libm::log(1.03)
}

fn one(question: Question) -> Panel {
    Panel::new(vec![question], 0.05, Multiplicity::BenjaminiHochberg)
}

fn pair(log_ratio: f64) -> Pair {
    Pair { log_ratio, done: None }
}

/// The verdict after each round of one question on its own.
fn course(question: Question, rounds: &[Pair]) -> Vec<Verdict> {
    let mut panel = one(question);
    let after = |round: &Pair| {
        panel.push(0, *round);
        panel.settle();
        panel.verdict(0)
    };
    rounds.iter().map(after).collect()
}

fn rounds(d: &[f64]) -> Vec<Pair> {
    d.iter().map(|d| pair(*d)).collect()
}

#[track_caller]
fn assert_close(value: Option<f64>, expected: f64) {
    assert!((value.unwrap() - expected).abs() < 6e-7, "{value:?} is not {expected}");
}

#[track_caller]
fn assert_interval(verdict: &Verdict, low: f64, high: f64) {
    assert_close(verdict.interval.map(|i| i.0), low);
    assert_close(verdict.interval.map(|i| i.1), high);
}

#[test]
fn reference_t1_faster_after_nine_rounds() {
    let d = [0.051, 0.048, 0.062, -0.010, 0.055, 0.044, 0.180, 0.050, 0.046, 0.057, 0.039, 0.052];
    let course = course(Question::comparison(band()), &rounds(&d));
    assert!(course[..8].iter().all(|verdict| verdict.decision == Decision::Undecided));
    assert_close(course[7].estimate, 0.051250);
    assert_interval(&course[7], -0.010, 0.180);
    assert_eq!(course[8].decision, Decision::Faster);
    assert_close(course[8].estimate, 0.050500);
    assert_interval(&course[8], 0.017, 0.121);
    assert_eq!(course[11], course[8], "decided stays decided, on the rounds it had");
}

#[test]
fn reference_t2_equivalent_after_nine_rounds() {
    let d = [0.004, -0.009, 0.006, 0.012, -0.003, -0.030, 0.008, -0.006, 0.002];
    let course = course(Question::comparison(band()), &rounds(&d));
    assert!(course[..8].iter().all(|verdict| verdict.decision == Decision::Undecided));
    assert_eq!(course[8].decision, Decision::Equivalent);
    assert_close(course[8].estimate, 0.0);
    assert_interval(&course[8], -0.0195, 0.010);
    assert!((course[8].interval_level - 0.90).abs() < 1e-12);
}

#[test]
fn reference_t3_a_plain_difference_takes_seven_rounds() {
    let d = [0.182, 0.190, 0.171, 0.195, 0.188, 0.179, 0.186];
    let decided = course(Question::comparison(band()), &rounds(&d));
    assert!(decided[..6].iter().all(|verdict| verdict.decision == Decision::Undecided));
    assert_eq!((decided[6].decision, decided[6].rounds), (Decision::Faster, 7));
    assert_close(decided[6].estimate, 0.18475);
    assert_interval(&decided[6], 0.171, 0.195);
}

#[test]
fn reference_t4_undecided_so_far() {
    let d = [0.021, -0.043, 0.012, -0.018, 0.040, -0.025, 0.015, -0.035, 0.030, -0.028, 0.010, -0.005];
    let pairs = rounds(&d.map(|d| 5.0 * d));
    let course = course(Question::comparison(band()), &pairs);
    assert!(course.iter().all(|v| v.decision == Decision::Undecided && !v.futile));
    assert_close(course[9].estimate, -0.015);
    assert_interval(&course[9], -0.1775, 0.1525);
    assert_interval(&course[11], -0.1575, 0.13);
    let schedule = Schedule::new(0.10, Spending::Equivalence);
    let (_, ninety) = fstrial_stats::estimate::at_stop(&pairs, &schedule).unwrap();
    assert_close(ninety.map(|i| i.0), -0.1525);
    assert_close(ninety.map(|i| i.1), 0.1275);
    // With the error of n = 12 rounds a decision needs a half width of the larger distance, n·(h/max(e, |δ − e|))² rounds.
    let e = course[11].estimate.unwrap().abs();
    let h = (0.13 + 0.1575_f64) / 2.0;
    let needed = 12.0 * (h / e.max((band() - e).abs())).powi(2);
    assert!(needed > 600.0 && course[11].rounds_needed.is_none(), "{needed}: out of reach");
}

#[test]
fn equivalent_wins_over_a_small_sure_difference() {
    // 1 % almost exactly: inside the band and certainly not 0.
    let d: Vec<f64> = (0..8).map(|i| [-0.001, 0.010 + 0.0001 * f64::from(i)][usize::from(i != 3)]).collect();
    let course = course(Question::comparison(band()), &rounds(&d));
    assert_eq!(course[7].decision, Decision::Equivalent);
}

#[test]
fn hopeless_noise_is_futile_from_round_ten_and_only_while_futility_is_on() {
    // Of many sizes: log-ratios of exactly ±1 would have half their averages at exactly 0.
    let size = |i: usize| 1.0 + 0.1 * ((i * 7 % 13) as f64);
    let d: Vec<f64> = (0..40).map(|i| if i % 2 == 0 { size(i) } else { -size(i + 1) }).collect();
    let pairs = rounds(&d);
    let watched = course(Question::comparison(band()), &pairs);
    let first = watched.iter().position(|verdict| verdict.futile).unwrap() + 1;
    assert!((10..40).contains(&first), "futile after {first} rounds");
    assert!(watched[first..].iter().all(|verdict| verdict.futile), "it stays hopeless");
    assert_eq!(watched[39].rounds_needed, None, "out of reach");

    let mut patient = one(Question::comparison(band()));
    patient.set_futility(false);
    for pair in &pairs {
        patient.push(0, *pair);
        patient.settle();
        assert!(patient.is_open(0));
    }
    patient.finish();
    assert!(!patient.is_open(0));
    assert_eq!(patient.verdict(0).decision, Decision::Undecided);
    assert_eq!(patient.verdict(0).rounds, 40);

    let bystander = course(Question::comparison(band()).not_holding_open(), &pairs);
    assert!(bystander.iter().all(|verdict| !verdict.futile));
}

#[test]
fn reopened_futile_question_resumes_and_is_decided() {
    // 12 % on noise of 30 %, which begins later.
    let noise = |i: usize| 0.3 * (((i * 37 % 11) as f64) / 5.0 - 1.0);
    let round = |i: usize| pair(if i < 33 { noise(i) } else { 0.12 + noise(i) });
    let mut panel = one(Question::comparison(band()));
    let mut rounds = 0;
    while panel.is_open(0) {
        panel.push(0, round(rounds));
        panel.settle();
        rounds += 1;
    }
    let given_up = panel.verdict(0);
    assert!(given_up.futile && given_up.decision == Decision::Undecided && rounds < 40, "{given_up:?}");
    let mut sessions = 1;
    while panel.verdict(0).decision == Decision::Undecided {
        panel.reopen();
        assert!(panel.is_open(0), "it is resumed");
        let before = rounds;
        while panel.is_open(0) {
            panel.push(0, round(rounds));
            panel.settle();
            rounds += 1;
        }
        sessions += 1;
        assert!(
            rounds - before >= 10 || !panel.verdict(0).futile,
            "given up after {} rounds",
            rounds - before
        );
        assert!(sessions < 20);
    }
    let decided = panel.verdict(0);
    assert_eq!((decided.decision, decided.futile), (Decision::Faster, false), "{decided:?}");
    assert_eq!(decided.rounds, rounds, "no round was left out");
    assert!(sessions > 1);
}

#[test]
fn small_effect_is_decided_after_twelve_rounds() {
    let mut panel = one(Question::comparison(band()));
    panel.set_futility(false);
    // 4 % on noise of 10 %: not visible in 12 rounds.
    let noise = |i: usize| 0.1 * (((i * 37 % 11) as f64) / 5.0 - 1.0);
    let mut decided_after = None;
    for i in 0..120 {
        panel.push(0, pair(0.04 + noise(i)));
        panel.settle();
        if decided_after.is_none() && !panel.is_open(0) {
            decided_after = Some(i + 1);
        }
    }
    assert!(decided_after.is_some_and(|n| n > 12), "{decided_after:?}");
    assert_eq!(panel.verdict(0).decision, Decision::Faster);
}

#[test]
fn finish_settles_a_last_round_and_is_harmless_after_settle() {
    let d = [0.182, 0.190, 0.171, 0.195, 0.188, 0.179, 0.186];
    let mut panel = one(Question::comparison(band()));
    rounds(&d).iter().for_each(|pair| panel.push(0, *pair));
    assert_eq!(panel.verdict(0).decision, Decision::Undecided);
    panel.finish();
    assert_eq!(panel.verdict(0).decision, Decision::Faster);
    assert_eq!(one(Question::comparison(band())).verdict(0).estimate, None);
}

#[test]
#[should_panic(expected = "after finish()")]
fn a_round_after_the_end_is_a_bug() {
    let mut panel = one(Question::comparison(band()));
    panel.finish();
    panel.push(0, pair(0.1));
}

#[test]
fn claims() {
    let about =
        |centre: f64| -> Vec<Pair> { (0..20).map(|i| pair(centre + 0.01 * f64::from(i % 5 - 2))).collect() };
    let last = |question: Question, centre: f64| *course(question, &about(centre)).last().unwrap();

    let above = Question::ratio_above(1.10, band());
    let holds = last(above, libm::log(1.2));
    assert_eq!(holds.decision, Decision::Faster);
    // The ratio itself is reported, not the excess over the threshold.
    assert!((holds.estimate.unwrap() - libm::log(1.2)).abs() < 0.01);
    assert!(holds.interval.unwrap().0 > libm::log(1.1));
    assert_eq!(last(above, libm::log(1.05)).decision, Decision::Slower);
    assert_eq!(last(above, libm::log(1.10)).decision, Decision::Undecided);

    let within = Question::within(0.05);
    assert_eq!(last(within, 0.01).decision, Decision::Equivalent);
    assert_eq!(last(within, 0.20).decision, Decision::Faster);
    assert_eq!(last(within, -0.20).decision, Decision::Slower);
    // Certainly above 0, but straddling the edge of the band.
    let edge = last(within, libm::log(1.05));
    assert_eq!(edge.decision, Decision::Undecided);
    assert!(edge.interval.unwrap().0 > 0.0 && !edge.excludes_zero_undecided);
}

#[test]
fn undecided_question_reports_narrowing_bands() {
    // 2 % to within 2.5 %: between 0 and the band of 3 %, so that no round decides it.
    let d: Vec<f64> = (0..9).map(|i| 0.02 + 0.025 * (f64::from(i * 37 % 11) / 5.0 - 1.0)).collect();
    let course = course(Question::comparison(band()), &rounds(&d));
    assert!(course.iter().all(|verdict| verdict.decision == Decision::Undecided), "{course:?}");
    assert_eq!(course[6].within, None, "no interval of that level yet");
    assert_eq!(course[7].within, Some(0.05));
    assert!(course.windows(2).all(|two| two[0].within.is_none() || two[1].within <= two[0].within));
    let bound = Question::ratio_above(1.0, band());
    assert_eq!(self::course(bound, &rounds(&d)).last().unwrap().within, None, "it has no band");
}

/// One question with an effect only its own level can see, among `others` without any.
fn crowd(others: usize, m: Multiplicity) -> Panel {
    let question = Question { equivalence: false, ..Question::comparison(band()) };
    let mut panel = Panel::new(vec![question; others + 1], 0.05, m);
    panel.set_futility(false);
    for i in 0..9 {
        panel.push(0, pair(0.05 + 0.001 * i as f64));
        for other in 1..=others {
            panel.push(other, pair(if (i + other) % 2 == 0 { 0.05 } else { -0.05 }));
        }
        panel.settle();
    }
    panel
}

#[test]
fn multiplicity_cost_is_marked_on_undecided_verdict() {
    for m in [Multiplicity::BenjaminiHochberg, Multiplicity::Holm] {
        assert_eq!(crowd(0, m).verdict(0).decision, Decision::Faster);
        let cautious = crowd(11, m).verdict(0);
        assert_eq!(cautious.decision, Decision::Undecided);
        assert!(cautious.excludes_zero_undecided);
        assert!(!crowd(11, m).verdict(1).excludes_zero_undecided);
    }
}

#[test]
fn step_up_decides_earlier_than_holm() {
    let question = Question { equivalence: false, ..Question::comparison(band()) };
    let decided_after = |m: Multiplicity| {
        let mut panel = Panel::new(vec![question; 4], 0.05, m);
        (1..=40).find(|&n| {
            (0..4).for_each(|q| panel.push(q, pair(0.05 + 0.001 * f64::from(n))));
            panel.settle();
            (0..4).all(|q| panel.verdict(q).decision == Decision::Faster)
        })
    };
    // All four cross α at round 7, the first look; α/4 opens at round 9.
    assert_eq!(decided_after(Multiplicity::BenjaminiHochberg), Some(7));
    assert_eq!(decided_after(Multiplicity::Holm), Some(9));
}

#[test]
fn later_finding_does_not_revive_reversed_effect() {
    let question = Question { equivalence: false, ..Question::comparison(band()) };
    let mut panel = Panel::new(vec![question; 2], 0.05, Multiplicity::BenjaminiHochberg);
    panel.set_futility(false);
    // Question 0 crosses α (level 2 of 2) at round 7 and then turns; question 1 comes later.
    for n in 0..24 {
        if n < 7 {
            panel.push(0, pair(0.05));
        } else {
            panel.push(1, pair(0.05 + 0.001 * f64::from(n)));
            panel.push(0, pair(-0.06));
        }
        panel.settle();
        if n == 6 {
            assert!(panel.verdict(0).excludes_zero_undecided);
        }
    }
    assert_eq!(panel.verdict(1).decision, Decision::Faster);
    assert_eq!(panel.verdict(0).decision, Decision::Slower);
}

/// As many as a trial of ten arms, ten workloads and eight levels asks on throughput and p99. Levels that cannot matter are
/// skipped, or this would take minutes and gigabytes.
#[test]
fn thousands_of_questions_are_settled_round_by_round() {
    const QUESTIONS: usize = 7200;
    for m in [Multiplicity::BenjaminiHochberg, Multiplicity::Holm] {
        let mut panel = Panel::new(vec![Question::comparison(band()); QUESTIONS], 0.05, m);
        for round in 0..20 {
            for question in 0..QUESTIONS {
                // Every tenth differs by 40 %.
                let effect = if question % 10 == 0 { 0.34 } else { 0.0 };
                let scatter = ((question * 7919 + round * 104_729) % 1000) as f64 / 1000.0 - 0.5;
                panel.push(question, pair(effect + 0.08 * scatter));
            }
            panel.settle();
        }
        let is =
            |decision: Decision| (0..QUESTIONS).filter(|q| panel.verdict(*q).decision == decision).count();
        assert_eq!(is(Decision::Faster), QUESTIONS / 10, "{m:?}");
        assert_eq!(is(Decision::Slower), 0, "{m:?}");
    }
}

fn noisy_rounds() -> impl Strategy<Value = (f64, Vec<f64>)> {
    (-0.3..0.3_f64, prop::collection::vec(-1.0..1.0_f64, 1..50))
}

fn to_pairs(effect: f64, raw: &[f64], noise: f64) -> Vec<Pair> {
    raw.iter().map(|d| pair(effect + noise * d)).collect()
}

/// Any finite number above 0, and mostly the ones that overflow when they are squared or divided.
fn odd() -> impl Strategy<Value = f64> {
    let edges = [f64::MIN_POSITIVE, 5e-324, f64::MAX, 1.3e154, 1.4e154, 1e-200, 1.0];
    prop_oneof![
        prop::sample::select(edges.to_vec()),
        (1_u64..f64::INFINITY.to_bits()).prop_map(f64::from_bits),
        0.5..2.0_f64
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_finite_measurement_is_too_odd(
        rounds in prop::collection::vec((odd(), odd(), odd(), odd()), 1..40),
        holm in any::<bool>(),
    ) {
        let m = if holm { Multiplicity::Holm } else { Multiplicity::BenjaminiHochberg };
        let questions = [Question::comparison(band()), Question::within(0.05), Question::ratio_above(2.0, band())];
        let mut panel = Panel::new(questions.to_vec(), 0.05, m);
        for (a, time_a, b, time_b) in rounds {
            let (a, b) = (Done { amount: a, time: time_a }, Done { amount: b, time: time_b });
            for question in 0..questions.len() {
                panel.push(question, Pair::of_done(a, b));
            }
            panel.settle();
        }
        panel.finish();
        for question in 0..questions.len() {
            let verdict = panel.verdict(question);
            let (low, high) = verdict.interval.unwrap_or((0.0, 0.0));
            prop_assert!(low <= high && verdict.estimate.is_some_and(f64::is_finite), "{:?}", verdict);
        }
    }

    #[test]
    fn exchanging_the_cells_mirrors_the_verdict((effect, raw) in noisy_rounds(), noise in 0.01..0.5_f64) {
        let pairs = to_pairs(effect, &raw, noise);
        let swapped: Vec<Pair> = pairs
            .iter()
            .map(|pair| Pair { log_ratio: -pair.log_ratio, done: pair.done.map(|[a, b]| [b, a]) })
            .collect();
        let there = course(Question::comparison(band()), &pairs);
        let back = course(Question::comparison(band()), &swapped);
        for (there, back) in there.iter().zip(&back) {
            let mirrored = Verdict {
                decision: match back.decision {
                    Decision::Faster => Decision::Slower,
                    Decision::Slower => Decision::Faster,
                    other => other,
                },
                estimate: back.estimate.map(|e| -e),
                interval: back.interval.map(|(low, high)| (-high, -low)),
                interval_within: back.interval_within.map(|(low, high)| (-high, -low)),
                ..*back
            };
            prop_assert_eq!(*there, mirrored);
        }
    }

    #[test]
    fn replayed_panel_gives_same_verdicts((effect, raw) in noisy_rounds(), holm in any::<bool>()) {
        let pairs = to_pairs(effect, &raw, 0.1);
        let m = if holm { Multiplicity::Holm } else { Multiplicity::BenjaminiHochberg };
        let replay = || {
            let mut panel = Panel::new(vec![Question::comparison(band()); 3], 0.05, m);
            for pair in &pairs {
                for (question, sign) in [(0, 1.0), (1, -0.5), (2, 0.0)] {
                    panel.push(question, Pair { log_ratio: sign * pair.log_ratio, ..*pair });
                }
                panel.settle();
            }
            panel.finish();
            [0, 1, 2].map(|question| panel.verdict(question))
        };
        prop_assert_eq!(replay(), replay());
    }

    #[test]
    fn finding_interval_excludes_zero_on_its_side(
        rows in prop::collection::vec(prop::collection::vec(-1.0..1.0_f64, 18), 8..24),
        holm in any::<bool>(),
    ) {
        let m = if holm { Multiplicity::Holm } else { Multiplicity::BenjaminiHochberg };
        let mut panel = Panel::new(vec![Question::comparison(band()); 18], 0.05, m);
        for row in &rows {
            for (question, noise) in row.iter().enumerate() {
                let effect = [0.0, 0.05, 0.1, 0.3][question % 4];
                panel.push(question, pair(effect + 0.2 * noise));
            }
            panel.settle();
        }
        for verdict in (0..18).map(|question| panel.verdict(question)) {
            let excludes = |is_above: bool| verdict.interval.is_some_and(|(low, high)| if is_above { low > 0.0 } else { high < 0.0 });
            match verdict.decision {
                Decision::Faster => prop_assert!(excludes(true), "{:?}", verdict),
                Decision::Slower => prop_assert!(excludes(false), "{:?}", verdict),
                _ => {}
            }
        }
    }

    #[test]
    fn multiplicity_procedures_agree_for_one_question((effect, raw) in noisy_rounds()) {
        let pairs = to_pairs(effect, &raw, 0.1);
        let mut holm = Panel::new(vec![Question::comparison(band())], 0.05, Multiplicity::Holm);
        for (pair, expected) in pairs.iter().zip(course(Question::comparison(band()), &pairs)) {
            holm.push(0, *pair);
            holm.settle();
            prop_assert_eq!(holm.verdict(0), expected);
        }
    }
}
