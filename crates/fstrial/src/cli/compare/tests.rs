//! The arguments of `compare`, and the result of every name that it accepts.

use super::*;
use clap::Parser;
use fstrial_model::{counter::Counters, preset, units::Bytes, workload::Workload};
use fstrial_report::{
    document::{self, Document},
    summary::{self, Among, Open, Ranking, Why},
};
use fstrial_run::{
    coordinator::{Finished, Reason},
    course,
    environment::Environment,
    forecast,
    plan::Plan,
    round::Round,
    sample::Sample,
};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: CompareArgs,
}

#[test]
fn unique_prefix_selects_device_model() {
    for (word, name) in [
        ("gp3", Some("gp3-3000")),
        ("gp3-3000", Some("gp3-3000")),
        ("sata-ssd", Some("sata-ssd")),
        ("raid10", None),
        ("gp", None),
    ] {
        assert_eq!(find_model(word), name, "{word}");
    }
}

fn trial_of(words: &str) -> Result<Trial, String> {
    let words = ["compare", "ext4", "xfs"].into_iter().chain(words.split_whitespace());
    let Line { args } = Line::try_parse_from(words).map_err(|error| error.to_string())?;
    args.trial().map_err(|error| error.to_string())
}

#[test]
fn set_flag_applies_to_every_matching_section() {
    let set = "--set trial.memory=1GiB --set trial.fsck=true --set log_device.size=64MiB --set log_device.kind=ramdisk \
               --set workload.rate=5000/s --set device.raid=raid10,chunk=64KiB --set device.members=4";
    let trial = trial_of(&format!("{set} -w random-write,append-fsync -d ramdisk -d image:/srv")).unwrap();
    assert_eq!((trial.trial.memory, trial.trial.fsck), (Some(Bytes::gib(1)), true));
    assert_eq!(trial.log_device.unwrap().size, Some(Bytes::mib(64)));
    assert!(trial.workloads.iter().all(|entry| entry.rate.is_some_and(|rate| rate.per_second == 5000.0)));
    let devices = trial.places.iter().map(|place| place.device.as_ref().unwrap());
    for device in devices.chain([&trial.device]) {
        assert_eq!(
            (device.members, device.raid.unwrap().to_string()),
            (Some(4), "raid10,chunk=64KiB".into())
        );
    }
    let server = trial_of("-w postgresql-tpcb --set workload.parameters.max_wal_size=64MB").unwrap();
    assert_eq!(server.workloads[0].parameters.as_ref().unwrap()["max_wal_size"], "64MB");
    // Nothing else changes: a file can express all flags.
    let flags = "--quick --state aged:70% --find-rate p99<5ms -t 1,4 --baseline ext4";
    let expected = trial_of(flags).unwrap();
    assert!(trial_of("--set trial.rounds=9").unwrap_err().contains("the flag for it is --rounds"));
    let named = trial_of(&format!("{flags} --set trial.name=mine")).unwrap();
    assert_eq!(
        Trial { trial: Settings { name: expected.trial.name.clone(), ..named.trial }, ..named },
        expected
    );
}

/// Rounds that are simulated of a plan, at most.
const MAX_ROUNDS: u32 = 60;

/// The document of a plan after rounds in which both arms vary by 3 % and the second is faster by this factor.
fn result(plan: &Plan, faster: f64) -> Document {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut uniform = || f64::from(random.next_u32()) / f64::from(u32::MAX);
    // Nearly normal: the sum of twelve uniform values has a standard deviation of 1.
    let mut noise = || (0.03 * ((0..12).map(|_| uniform()).sum::<f64>() - 6.0)).exp();
    let mut sample = |round, cell: usize| Sample {
        round,
        slot: cell,
        rate: 100.0 * noise() * if plan.cells[cell].arm == 1 { faster } else { 1.0 },
        seconds: 1.0,
        load: None,
        counters: Counters::default(),
        tool: None,
    };
    let mut round = |number| {
        let results = |cell: usize| plan.results[plan.cells[cell].workload].len();
        let mut run = |cell| (cell, Ok((0..results(cell)).map(|_| sample(number, cell)).collect()));
        Round { number, is_resumed: false, runs: (0..plan.cells.len()).map(&mut run).collect() }
    };
    let rounds =
        u32::try_from(plan.trial.trial.budget.0 / forecast::round_time(plan).0.0).unwrap().min(MAX_ROUNDS);
    let (mut all, _) = course::replay(plan, (1..=rounds).map(&mut round).collect());
    all.finish();
    let reason = Reason::BudgetEnded;
    let finished = Finished {
        all,
        facts: Vec::new(),
        audit: Vec::new(),
        reason,
        rounds,
        round_time: None,
        next_boot: None,
    };
    document::document(plan, &finished, (&Environment::default(), Vec::new()), None, String::new())
}

/// True if a finding helps to choose: one arm is ahead, or probably so, or their distance is known.
fn helps(ranking: &Ranking<'_>) -> bool {
    let is_known = |open: &Open<'_>| matches!(open.why, Why::Within(_) | Why::Narrow(_) | Why::Likely(_));
    ranking.among != Among::Open || ranking.open.iter().any(is_known)
}

/// For any name that `fstrial workloads` lists, the default budget has room for a verdict, and if rounds differ by 3 %
/// it ends with a finding that helps, for equal and for unequal arms.
#[test]
fn default_budget_can_decide_every_listed_workload() {
    let names = preset::names().chain(fstrial_model::application::APPLICATIONS.iter().map(Application::name));
    let too_long: Vec<String> = names
        .filter_map(|name| {
            let Line { args } = Line::parse_from(["compare", "ext4", "xfs", "--workload", name]);
            let mut trial = args.trial().unwrap_or_else(|e| panic!("{name}: {e:?}"));
            assert!(trial.problem().is_none(), "{name}");
            fit::fit(&mut trial, args.names_workloads(), true).unwrap();
            let plan = Plan::new(trial.settled(2).unwrap(), 1).unwrap();
            for faster in [1.0, 1.2] {
                let document = result(&plan, faster);
                let (rankings, message) = (summary::rankings(&document), summary::lines(&document));
                assert!(rankings.iter().any(helps), "{name}, {faster}: {message:?}");
                // Equal arms may be called different in one trial of twenty; these are unequal, and so must not be
                // reversed.
                let is_wrong = |one: &Ranking<'_>| {
                    let better = if one.workload.less_is_better { "ext4" } else { "xfs" };
                    one.among == Among::Alone && one.leading != [better]
                };
                assert!(faster == 1.0 || !rankings.iter().any(is_wrong), "{name}: {message:?}");
            }
            fit::check(&trial)
                .err()
                .map(|refused| format!("{name}: {refused} {}", refused.hint().unwrap_or_default()))
        })
        .collect();
    assert_eq!(too_long, Vec::<String>::new());
}

#[test]
fn no_flag_makes_a_run_shorter_than_two_periods() {
    let flags: [&[&str]; 4] = [&[], &["--quick"], &["--quick", "--budget=1s"], &["--duration=2s"]];
    let (mut refused, mut clocks) = (0, 0);
    for (name, flags) in preset::names().flat_map(|name| flags.map(|flags| (name, flags))) {
        let words = ["compare", "ext4", "xfs", "--workload", name];
        let Line { args } = Line::parse_from(words.iter().chain(flags));
        let mut trial = args.trial().unwrap_or_else(|e| panic!("{name} {flags:?}: {e:?}"));
        if trial.problem().is_some() {
            // An operation takes as long as it takes.
            assert_eq!(flags, ["--duration=2s"], "{name}");
            continue;
        }
        if args.refuse_short_runs(&trial).is_err() {
            assert_eq!(flags, ["--duration=2s"], "{name}");
            refused += 1;
            continue;
        }
        if args.quick {
            fit::fit(&mut trial, false, false).unwrap();
        }
        let [entry] = trial.workloads.as_slice() else { panic!("{name} {flags:?}: nothing is left") };
        let (here, shipped) = (entry.resolve(2).unwrap(), Entry::of_preset(name).resolve(2).unwrap());
        assert_eq!(here.shorter_than_its_clock(), None, "{name} {flags:?}");
        assert!(here.time() >= shipped.time() || args.duration.is_some(), "{name} {flags:?}");
        let limits =
            |workload: &Workload| workload.phases().iter().map(|phase| phase.duration).collect::<Vec<_>>();
        let none_shorter = limits(&here).iter().zip(limits(&shipped)).all(|(here, shipped)| *here >= shipped);
        assert!(none_shorter || args.duration.is_some(), "{name} {flags:?}");
        clocks += u32::from(here.longest_period().is_some());
    }
    // Checkpoints of a model, and those of the servers that write: each refused once, else left as they are. WiredTiger's are a
    // second apart, and two seconds are enough.
    assert_eq!((refused, clocks), (4, 12 + 4));
}
