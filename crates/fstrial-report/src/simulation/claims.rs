//! Claims in simulated trials: their plans, when they are settled, and their verdicts.

use super::*;
use crate::claim::{self, ClaimReport};
use fstrial_model::{
    claim::{
        Machine,
        era::{Rules, Version},
    },
    device::ModelChoice,
    device_model::{self, Limits},
};
use fstrial_run::{claim::ClaimVerdict, environment::Environment};
use std::fmt::Write;

/// A plan of arms `a`, `b` and `c` at 1, 2, 4 and 16 threads, with these lines of expectations.
fn claimed(expectations: &str, seed: u64) -> Plan {
    claimed_within("1h", expectations, seed)
}

pub(super) fn claimed_within(budget: &str, expectations: &str, seed: u64) -> Plan {
    claimed_of(LEVELS, &format!("budget = \"{budget}\""), expectations, seed)
}

pub(super) const LEVELS: &str = "use = \"random-write\"\nthreads = [1, 2, 4, 16]\n";

/// A plan of a workload, with these lines about the trial.
pub(super) fn claimed_of(workload: &str, settings: &str, expectations: &str, seed: u64) -> Plan {
    let mut text =
        format!("[claim]\nid = \"x\"\nstatement = \"it is so\"\n{expectations}\n[trial]\n{settings}\n");
    for name in ["a", "b", "c"] {
        let _ = write!(text, "[[arm]]\nname = \"{name}\"\nfilesystem = \"ext4\"\n");
    }
    let _ = write!(text, "[[workload]]\n{workload}");
    let machine = Machine { cpus: CPUS, memory: Bytes::gib(8), kernel: Version(6, 12, 0), quick: false };
    let mut trial = Trial::read_claim("claim", &text).unwrap();
    trial.fit(&machine, &Rules::shipped()).unwrap();
    let trial = trial.checked("claim", &text).unwrap();
    Plan::new(trial.settled(CPUS).unwrap(), seed).unwrap()
}

/// Arm b is half as fast again; arm c is as fast as a.
fn world(seed: u64) -> World {
    let b = Character { speed: 1.5, ..ORDINARY };
    World { seed, arms: vec![("b", b)], ..World::default() }
}

/// Arm b is faster with few threads, and does not grow with them.
fn crossing() -> World {
    World { arms: vec![("b", Character { speed: 1.5, growth: 0.0, ..ORDINARY })], ..World::default() }
}

fn expect(line: &str) -> String {
    format!("[[claim.expect]]\n{line}")
}

fn result(world: &World, lines: &[&str]) -> ClaimVerdict {
    let expectations: Vec<String> = lines.iter().map(|line| expect(line)).collect();
    let plan = claimed(&expectations.join("\n"), 7);
    let ended = simulate(&plan, world, none);
    ended.finished().judge().unwrap().claim().unwrap()
}

pub(super) fn reported(plan: &Plan, ended: &SimulatedTrial<'_>) -> ClaimReport {
    let environment = Environment { cpus: CPUS, ..Environment::of_this_machine() };
    claim::report(plan, ended.finished().judge(), &[environment.kernel, environment.device], &[], true)
        .unwrap()
}

#[test]
fn ratios_hold_fall_short_and_are_reversed() {
    let of = |line: &str| result(&world(1), &[line]);
    assert_eq!(of("ratio = [\"b @ 4\", \"a @ 4\"]\nabove = 1"), ClaimVerdict::Confirmed);
    assert_eq!(of("ratio = [\"b @ 4\", \"a @ 4\"]\nabove = 1.3"), ClaimVerdict::Confirmed);
    assert_eq!(of("ratio = [\"b @ 4\", \"a @ 4\"]\nabove = 2"), ClaimVerdict::Smaller);
    assert_eq!(of("ratio = [\"b @ 4\", \"a @ 4\"]\nbelow = 1"), ClaimVerdict::Reversed);
    assert_eq!(of("ratio = [\"b @ 4\", \"a @ 4\"]\nbelow = 0.5"), ClaimVerdict::Reversed);
    assert_eq!(of("ratio = [\"a @ 4\", \"b @ 4\"]\nbelow = 0.5"), ClaimVerdict::Smaller);
    assert_eq!(of("ratio = [\"a @ 4\", \"b @ 4\"]\nbelow = 0.8"), ClaimVerdict::Confirmed);
    assert_eq!(of("ratio = [\"b @ 4\", \"a @ 4\"]\nabove = 0.9"), ClaimVerdict::Confirmed);
    assert_eq!(of("ratio = [\"c @ 4\", \"a @ 4\"]\nabove = 1"), ClaimVerdict::NoDifference);
    assert_eq!(of("ratio = [\"c @ 4\", \"a @ 4\"]\nabove = 1.5"), ClaimVerdict::NoDifference);
    assert_eq!(of("ratio = [\"c @ 4\", \"a @ 4\"]\nwithin = \"5%\""), ClaimVerdict::Confirmed);
    assert_eq!(of("ratio = [\"b @ 4\", \"a @ 4\"]\nwithin = \"5%\""), ClaimVerdict::Reversed);
}

#[test]
fn latency_claims_compare_latencies_not_rates() {
    // More throughput is less latency: b's median is two thirds of a's.
    let of = |line: &str| result(&world(1), &[&format!("{line}\nmetric = \"p50\"")]);
    assert_eq!(of("ratio = [\"a @ 1\", \"b @ 1\"]\nabove = 1.2"), ClaimVerdict::Confirmed);
    assert_eq!(of("ratio = [\"b @ 1\", \"a @ 1\"]\nabove = 1"), ClaimVerdict::Reversed);
    assert_eq!(of("ratio = [\"b @ 1\", \"a @ 1\"]\nbelow = 0.3"), ClaimVerdict::Smaller);
    assert_eq!(of("order = [\"b @ 1\", \"a @ 1\"]"), ClaimVerdict::Confirmed);
    assert_eq!(of("amount = \"a @ 1\"\nbelow = \"1ms\""), ClaimVerdict::Confirmed);
    assert_eq!(of("slope = \"b\"\nabove = 1.2"), ClaimVerdict::Confirmed, "1.41 for each doubling");
}

#[test]
fn cells_of_one_arm_are_compared_across_levels() {
    let of = |line: &str| result(&world(1), &[line]);
    assert_eq!(of("ratio = [\"a @ 4\", \"a @ 1\"]\nabove = 1.5"), ClaimVerdict::Confirmed);
    assert_eq!(of("flat = [\"a @ 1\", \"a @ 2\"]\nwithin = \"10%\""), ClaimVerdict::Reversed);
    assert_eq!(of("flat = [\"a @ 2\", \"c @ 2\"]\nwithin = \"10%\""), ClaimVerdict::Confirmed);
    assert_eq!(of("slope = \"a\"\nabove = 1.3"), ClaimVerdict::Confirmed);
    assert_eq!(of("slope = \"a\"\nabove = 1.9"), ClaimVerdict::Smaller);
    assert_eq!(of("slope = \"a\"\nbelow = 1"), ClaimVerdict::Reversed);
    assert_eq!(result(&crossing(), &["slope = \"b\"\nwithin = \"5%\""]), ClaimVerdict::Confirmed);
}

#[test]
fn reported_interval_belongs_to_deciding_question() {
    let plan = claimed(&expect("ratio = [\"a @ 4\", \"b @ 4\"]\nabove = 1.2"), 7);
    let ended = simulate(&plan, &World { noise: 0.15, ..world(1) }, none);
    let part = reported(&plan, &ended).parts.remove(0);
    assert_eq!(part.verdict, ClaimVerdict::Reversed);
    assert!(part.interval.unwrap().1 < 1.0, "{part:?}");
}

#[test]
fn a_slope_is_the_factor_of_a_doubling() {
    let plan = claimed(&expect("slope = \"a\"\nabove = 1.2"), 7);
    let ended = simulate(&plan, &world(1), none);
    let report = reported(&plan, &ended);
    let (measured, (low, high)) = (report.parts[0].measured.unwrap(), report.parts[0].interval.unwrap());
    assert!((measured - 2.0_f64.sqrt()).abs() < 0.01, "{measured}");
    assert!(low < 2.0_f64.sqrt() && 2.0_f64.sqrt() < high, "{low} {high}");
}

#[test]
fn orders_flips_amounts_and_winners() {
    assert_eq!(result(&world(1), &["order = [\"b @ 2\", \"a @ 2\"]"]), ClaimVerdict::Confirmed);
    assert_eq!(
        result(&world(1), &["order = [\"b @ 2\", \"a @ 2\", \"c @ 2\"]"]),
        ClaimVerdict::PartlyConfirmed
    );
    let flips = "flips = [\"b\", \"a\"]\nleads_at = [\"1\"]\ntrails_at = [\"16\"]";
    assert_eq!(result(&crossing(), &[flips]), ClaimVerdict::Confirmed);
    assert_eq!(result(&world(1), &[flips]), ClaimVerdict::PartlyConfirmed);
    assert_eq!(result(&world(1), &["amount = \"a @ 1\"\nabove = 100000"]), ClaimVerdict::Confirmed);
    assert_eq!(result(&world(1), &["amount = \"a @ 1\"\nbelow = 100000"]), ClaimVerdict::Reversed);
    assert_eq!(result(&world(1), &["no_single_winner = true"]), ClaimVerdict::Reversed);
    // a and c are level everywhere, so that each of the three is beaten somewhere.
    assert_eq!(result(&crossing(), &["no_single_winner = true"]), ClaimVerdict::Confirmed);
}

#[test]
fn claim_is_confirmed_only_with_all_parts() {
    let holds = "ratio = [\"b @ 4\", \"a @ 4\"]\nabove = 1.2";
    let same = "ratio = [\"c @ 4\", \"a @ 4\"]\nabove = 1";
    let reversed = "ratio = [\"a @ 4\", \"b @ 4\"]\nabove = 1";
    assert_eq!(
        result(&world(1), &[holds, "ratio = [\"b @ 1\", \"a @ 1\"]\nabove = 1"]),
        ClaimVerdict::Confirmed
    );
    assert_eq!(result(&world(1), &[holds, same]), ClaimVerdict::PartlyConfirmed);
    assert_eq!(result(&world(1), &[same, reversed]), ClaimVerdict::PartlyConfirmed);
    assert_eq!(result(&world(1), &[same, same]), ClaimVerdict::NoDifference);
}

#[test]
fn only_claimed_cells_are_run() {
    let plan = claimed(&expect("ratio = [\"b @ 4\", \"a @ 4\"]\nabove = 1"), 7);
    let names: Vec<String> = (0..plan.cells.len()).map(|cell| plan.cell_name(cell)).collect();
    assert_eq!(names, ["a · random-write · 4 threads", "b · random-write · 4 threads"]);
}

#[test]
fn works_and_fails_claims_settle_in_five_rounds() {
    let breaks = |requested: &FaultSite<'_>| {
        (requested.arm == "b" && requested.of_cell > 0).then_some(Fault::Fails(FailureKind::ArmFailed))
    };
    let plan = claimed(&[expect("works = [\"a @ 1\"]"), expect("fails = [\"b @ 1\"]")].join("\n"), 7);
    let ended = simulate(&plan, &world(1), breaks);
    let judge = ended.finished().judge().unwrap();
    assert_eq!((judge.part(0), judge.part(1)), (ClaimVerdict::Confirmed, ClaimVerdict::Confirmed));
    assert_eq!((ended.measured(0), ended.finished().rounds), (5, 5));
    let ended = simulate(&plan, &world(1), none);
    let judge = ended.finished().judge().unwrap();
    assert_eq!(
        (judge.part(0), judge.claim().unwrap()),
        (ClaimVerdict::Confirmed, ClaimVerdict::PartlyConfirmed)
    );
}

#[test]
fn unsupported_arm_makes_ratio_not_testable() {
    let plan = claimed(&expect("ratio = [\"b @ 4\", \"a @ 4\"]\nabove = 1"), 7);
    let cannot = |requested: &FaultSite<'_>| {
        (requested.arm == "b" && requested.of_cell > 0).then_some(Fault::Fails(FailureKind::Unsupported))
    };
    let ended = simulate(&plan, &world(1), cannot);
    assert_eq!(ended.finished().judge().unwrap().claim(), Some(ClaimVerdict::NotTestable));
    assert_eq!(reported(&plan, &ended).verdict, ClaimVerdict::NotTestable);
}

#[test]
fn with_too_few_processors_only_an_effect_counts() {
    let of = |line: &str| {
        let plan = claimed(&format!("cpus = 64\n{}", expect(line)), 7);
        let ended = simulate(&plan, &world(1), none);
        reported(&plan, &ended)
    };
    assert_eq!(of("ratio = [\"b @ 4\", \"a @ 4\"]\nabove = 1").verdict, ClaimVerdict::Confirmed);
    let refuted = of("ratio = [\"b @ 4\", \"a @ 4\"]\nbelow = 1");
    assert_eq!(refuted.verdict, ClaimVerdict::Insensitive);
    assert!(refuted.notes[0].contains("it takes 64 processors to decide"), "{:?}", refuted.notes);
    // If no effect is claimed, not seeing one says nothing, and seeing one does.
    assert_eq!(of("ratio = [\"c @ 4\", \"a @ 4\"]\nwithin = \"5%\"").verdict, ClaimVerdict::Insensitive);
    assert_eq!(of("ratio = [\"b @ 4\", \"a @ 4\"]\nbelow = 1.05").verdict, ClaimVerdict::Reversed);
}

/// A claim of no difference is accepted if a planted one is detected.
#[test]
fn no_difference_claim_requires_detected_control() {
    let of = |control: f64, line: &str| {
        let plan = controlled(claimed(&expect(line), 7));
        let mut world = world(1);
        world.arms.push(("control", trials::faster(control)));
        world.arms.insert(0, ("c", trials::faster(1.01)));
        reported(&plan, &simulate(&plan, &world, none)).verdict
    };
    for (line, otherwise) in [
        ("ratio = [\"c @ 1\", \"a @ 1\"]\nabove = 1.2", ClaimVerdict::NoDifference),
        ("ratio = [\"c @ 1\", \"a @ 1\"]\nwithin = \"5%\"", ClaimVerdict::Confirmed),
        ("ratio = [\"c @ 1\", \"a @ 1\"]\nbelow = 1.1", ClaimVerdict::Confirmed),
    ] {
        assert_eq!(of(0.9, line), otherwise, "{line}");
        assert_eq!(of(1.0, line), ClaimVerdict::Insensitive, "{line}");
    }
    // A difference that is seen needs no control, and to be plainly better than a bound that allows for less is one.
    assert_eq!(of(1.0, "ratio = [\"b @ 1\", \"a @ 1\"]\nabove = 0.9"), ClaimVerdict::Confirmed);
    assert_eq!(of(1.0, "ratio = [\"b @ 1\", \"a @ 1\"]\nabove = 1"), ClaimVerdict::Confirmed);
}

/// The verdict next to other programs, and whether they are named.
fn next_to(world: World, line: &str) -> (ClaimVerdict, bool) {
    let plan = claimed(&expect(line), 7);
    let report = reported(&plan, &simulate(&plan, &world, none));
    (report.verdict, report.notes.iter().any(|note| note.contains("other programs took")))
}

/// A neighbour takes nothing from one thread and half of two: levels cannot be compared next to one, and arms at a level can.
#[test]
fn busy_neighbours_make_level_comparisons_insensitive() {
    let of = |others_ppm: u64, line: &str| next_to(World { others_ppm, ..world(1) }, line);
    let levels = "ratio = [\"b @ 4\", \"b @ 1\"]\nabove = 1.2";
    let arms = "ratio = [\"b @ 1\", \"a @ 1\"]\nabove = 1";
    assert_eq!(of(40_000, levels), (ClaimVerdict::Confirmed, false));
    assert_eq!(of(200_000, levels), (ClaimVerdict::Insensitive, true));
    // Twice as fast: 6 % of four processors are at most 24 % of one, and 1.5 is beyond the bound as well; 0.76 of 1.3 is not.
    assert_eq!(of(60_000, levels), (ClaimVerdict::Confirmed, true));
    assert_eq!(of(60_000, &levels.replace("1.2", "1.6")), (ClaimVerdict::Insensitive, true));
    assert_eq!(of(60_000, &levels.replace("above = 1.2", "below = 1.4")), (ClaimVerdict::Reversed, true));
    assert_eq!(of(60_000, &levels.replace("above = 1.2", "below = 1.8")), (ClaimVerdict::Insensitive, true));
    assert_eq!(of(200_000, arms), (ClaimVerdict::Confirmed, false));
    // A neighbour in some runs only, and processor time, which has theirs in it.
    let some = |others_in_ten: u32, line: &str| {
        next_to(World { others_ppm: 200_000, others_in_ten, ..world(1) }, line).0
    };
    let result = [8, 4, 0].map(|often| some(often, &levels.replace("1.2", "1.6")));
    assert_eq!(result, [ClaimVerdict::Insensitive, ClaimVerdict::Insensitive, ClaimVerdict::Confirmed]);
    let time = "ratio = [\"b @ 1\", \"a @ 1\"]\nbelow = 1\nmetric = \"cpu-time\"";
    assert_eq!([0, 8].map(|often| some(often, time)), [ClaimVerdict::Confirmed, ClaimVerdict::Insensitive]);
}

/// Phases of one level can have separate numbers of threads.
#[test]
fn busy_neighbours_make_unequal_phases_incomparable() {
    let phase = |name: &str, workers: u16| {
        let words = "access = \"random\"\nreads = \"0%\"\nsharing = \"shared\"";
        format!("[[workload.phase]]\nname = \"{name}\"\nworkers = {workers}\n{words}\n")
    };
    let of = |others_ppm: u64, second: u16| {
        let phases = format!("{}{}", phase("one", 1), phase("next", second));
        let workload = format!("use = \"random-write\"\nthreads = [1]\n{phases}");
        let line = expect("ratio = [\"a : next\", \"a : one\"]\nabove = 1.6");
        let plan = claimed_of(&workload, "budget = \"1h\"", &line, 7);
        reported(&plan, &simulate(&plan, &World { others_ppm, ..world(1) }, none)).verdict
    };
    assert_eq!(of(0, 4), ClaimVerdict::Confirmed, "2 times by four threads");
    assert_eq!(of(100_000, 4), ClaimVerdict::Insensitive);
    assert_eq!(of(0, 1), of(100_000, 1), "as many threads lose as much");
}

/// A neighbour can only make an amount smaller, and a time longer: enough next to one is enough.
#[test]
fn busy_neighbours_make_low_amounts_insensitive() {
    let of = |others_ppm: u64, line: &str| next_to(World { others_ppm, ..world(1) }, line);
    // About 525 thousand a second by one thread, which may have lost 40 % to 10 % of four processors; 2 µs each.
    let (enough, too_few) = ("amount = \"a @ 1\"\nabove = 400000", "amount = \"a @ 1\"\nabove = 700000");
    assert_eq!(of(40_000, too_few), (ClaimVerdict::Reversed, false));
    assert_eq!(of(100_000, enough), (ClaimVerdict::Confirmed, true));
    assert_eq!(of(100_000, too_few), (ClaimVerdict::Insensitive, true));
    assert_eq!(of(100_000, &too_few.replace("700000", "2000000")), (ClaimVerdict::Reversed, true));
    let slow = "amount = \"a @ 1\"\nmetric = \"p50\"\nbelow = \"1500ns\"";
    assert_eq!(of(0, slow), (ClaimVerdict::Reversed, false));
    assert_eq!(of(100_000, slow), (ClaimVerdict::Insensitive, true));
    assert_eq!(of(100_000, &slow.replace("1500ns", "1ms")), (ClaimVerdict::Confirmed, true));
}

/// A planted cause that does not show decides nothing, regardless of other results.
#[test]
fn undetected_planted_cause_leaves_claim_insensitive() {
    let planted = |arm: &str| format!("ratio = [\"{arm} @ 4\", \"a @ 4\"]\nabove = 1.2\nplanted = true");
    for (line, otherwise) in [
        ("ratio = [\"b @ 1\", \"a @ 1\"]\nabove = 1.2", ClaimVerdict::Confirmed),
        ("ratio = [\"b @ 1\", \"a @ 1\"]\nbelow = 1", ClaimVerdict::Reversed),
        ("ratio = [\"c @ 1\", \"a @ 1\"]\nabove = 1.2", ClaimVerdict::NoDifference),
    ] {
        assert_eq!(result(&world(1), &[line, &planted("b")]), otherwise, "{line}");
        assert_eq!(result(&world(1), &[line, &planted("c")]), ClaimVerdict::Insensitive, "{line}");
    }
}

/// A part decided by the absence of an effect counts for nothing on a machine that is too small, next to one
/// that shows it.
#[test]
fn flat_claim_part_needs_enough_processors() {
    let of = |cpus: u32| {
        let grows = expect("ratio = [\"b @ 4\", \"a @ 4\"]\nabove = 1.2");
        let flat = expect("ratio = [\"c @ 4\", \"a @ 4\"]\nbelow = 1.2");
        let plan = claimed(&format!("cpus = {cpus}\n{grows}\n{flat}"), 7);
        reported(&plan, &simulate(&plan, &world(1), none)).verdict
    };
    assert_eq!(of(u32::from(CPUS)), ClaimVerdict::Confirmed);
    assert_eq!(of(64), ClaimVerdict::Insensitive);
}

/// Knowledge without a verdict is reported for the parts of a claim, too.
#[test]
fn undecided_part_reports_distance_between_arms() {
    let known = (0..20).filter(|seed| {
        let plan = claimed_within("2m", &expect("ratio = [\"c @ 1\", \"a @ 1\"]\nabove = 1"), *seed);
        let ended = simulate(&plan, &World { noise: 0.06, ..world(*seed) }, none);
        let part = reported(&plan, &ended).parts.remove(0);
        assert!(part.verdict == ClaimVerdict::Undecided || part.known.is_empty(), "{part:?}");
        part.known.contains("% apart")
    });
    assert!(known.count() > 0);
}

/// Arms that are equal because of the device's limit say nothing; those that differ do.
#[test]
fn no_difference_at_device_limit_is_insensitive() {
    let of = |iops: u32, line: &str| {
        let mut plan = claimed(&expect(line), 7);
        let mut model = device_model::named("gp3-3000").unwrap();
        model.limits = Some(Limits { iops: Some(iops), ..Limits::default() });
        plan.trial.device.model = Some(ModelChoice::Written(Box::new(model)));
        let ended = simulate(&plan, &world(1), none);
        let report = reported(&plan, &ended);
        let is_told = report.notes.iter().any(|note| note.contains("limit of the modelled device"));
        assert_eq!(is_told, report.verdict == ClaimVerdict::Insensitive, "{:?}", report.notes);
        report.verdict
    };
    let same = "ratio = [\"c @ 1\", \"a @ 1\"]";
    for (line, otherwise) in [
        (format!("{same}\nabove = 1.2"), ClaimVerdict::NoDifference),
        (format!("{same}\nwithin = \"5%\""), ClaimVerdict::Confirmed),
        (format!("{same}\nbelow = 1.1"), ClaimVerdict::Confirmed),
        ("order = [\"c @ 1\", \"a @ 1\"]".into(), ClaimVerdict::NoDifference),
    ] {
        assert_eq!(of(500_000, &line), ClaimVerdict::Insensitive, "{line}");
        assert_eq!(of(5_000_000, &line), otherwise, "{line}");
    }
    let differ = "ratio = [\"b @ 1\", \"a @ 1\"]\nabove = 1.2";
    assert_eq!(of(500_000, differ), ClaimVerdict::Confirmed);
    // A run at the limit could have been faster.
    let less = "ratio = [\"b @ 1\", \"a @ 1\"]\nabove = 2";
    assert_eq!(of(500_000, less), ClaimVerdict::Insensitive);
    assert_eq!(of(5_000_000, less), ClaimVerdict::Smaller);
}

#[test]
fn question_claim_is_measured_without_expectations() {
    let plan = claimed("question = true", 7);
    let ended = simulate(&plan, &world(1), none);
    let report = reported(&plan, &ended);
    assert_eq!(report.verdict, ClaimVerdict::Measured);
    assert_eq!(report.parts.len(), 3 * 4, "each pair of arms at each level");
}

#[test]
fn equal_arms_rarely_confirm_or_reverse_claims() {
    let expectations = [
        expect("ratio = [\"c @ 4\", \"a @ 4\"]\nabove = 1"),
        expect("ratio = [\"c @ 1\", \"a @ 1\"]\nbelow = 1"),
        expect("ratio = [\"c @ 2\", \"a @ 2\"]\nabove = 1.2"),
    ];
    let wrong = (0..150).filter(|seed| {
        let plan = claimed_within("2m", &expectations.join("\n"), *seed);
        let ended = simulate(&plan, &World { noise: 0.05, ..world(*seed) }, none);
        let judge = ended.finished().judge().unwrap();
        (0..3).any(|part| matches!(judge.part(part), ClaimVerdict::Confirmed | ClaimVerdict::Reversed))
    });
    // At most 5 % on average: 7.5 of 150, and rarely 13 (a binomial count exceeds that once in 40 times).
    let wrong = wrong.count();
    assert!(wrong <= 13, "{wrong} of 150");
}

#[test]
fn renders_claim_report() {
    let expectations = [
        "author = \"A. Author\"\ndate = \"2012\"\nwhere = \"a page\"\nsetup = \"12 disks\"\nsaid = \"twice\""
            .to_owned(),
        expect("says = \"b leads\"\nratio = [\"b @ 4\", \"a @ 4\"]\nabove = 1.2\nthen = 2"),
        expect("ratio = [\"c @ 4\", \"a @ 4\"]\nabove = 1"),
        expect("works = [\"a @ 1\"]"),
        expect("slope = \"a\"\nabove = 1"),
        expect("amount = \"a @ 1\"\nbelow = \"1ms\"\nmetric = \"p99\""),
    ];
    let plan = claimed(&expectations.join("\n"), 7);
    let ended = simulate(&plan, &world(1), none);
    let report = ClaimReport { notes: vec!["a note".into()], ..reported(&plan, &ended) };
    insta::assert_snapshot!(anstream::adapter::strip_str(&claim::render(&report)).to_string());
}
