//! Trials that are stored as they run, cut off and resumed: judging again from the store agrees with the live
//! judgement, to the last bit.

use super::{
    claims::claimed_within,
    trials::{faster, random_faults, throughput},
    *,
};
use crate::{
    again,
    document::{Document, WorkloadReport, document, repeat_command},
};
use fstrial_run::{
    claim::ClaimVerdict,
    course,
    environment::Environment,
    exit_code,
    history::{self, By, SeriesQuery},
    recorder::Recorder,
    stored::earlier,
};
use fstrial_store::{NewSession, NewTrial, RunRecord, Store, StoredTrial, TrialId};
use proptest::prelude::*;

const TIME: &str = "2026-01-01T00:00:00Z";

/// The document of a stored trial, judged again.
fn judged_again(store: &Store, stored: &StoredTrial) -> Result<Document, ExpectedError> {
    again::judged(store, stored, |simulated| simulated.document)
}

/// A process's description of itself when it works on a trial.
fn process(environment: &str) -> NewSession<'_> {
    NewSession { started_at: TIME, program_version: "0", command_line: "fstrial compare a b", environment }
}

fn environment() -> String {
    let here = Environment { cpus: CPUS, ..Environment::of_this_machine() };
    serde_json::to_string(&here).unwrap()
}

/// A store with a trial that was just begun.
fn begun(plan: &Plan) -> (Store, TrialId) {
    let mut store = Store::open_in_memory().unwrap();
    let toml = plan.trial.to_toml();
    let environment = environment();
    let (arms, session) = (&plan.trial.arms, process(&environment));
    let id = store
        .create_trial(&NewTrial { name: "", toml: &toml, seed: plan.seed, arms, tags: &[], session })
        .unwrap();
    (store, id)
}

/// A session that is stored, from the rounds that already are.
fn stored_session<'p>(
    plan: &'p Plan,
    world: &World,
    faults: impl FnMut(&FaultSite<'_>) -> Option<Fault>,
    fails_at: Option<usize>,
    (store, id): (&mut Store, TrialId),
) -> SimulatedTrial<'p> {
    let before = before(plan, &earlier(store, plan, id).unwrap());
    let earlier = earlier(store, plan, id).unwrap();
    let mut recorder = Recorder::new(store, id);
    let simulated = session(plan, world, faults, earlier, fails_at, Some(&mut recorder));
    simulated.check(before);
    simulated
}

/// State after the stored rounds.
fn before(plan: &Plan, earlier: &Earlier) -> Before {
    let (mut judge, _) = course::replay(plan, earlier.rounds.clone());
    if !earlier.rounds.is_empty() {
        judge.reopen();
    }
    let cells = || 0..plan.cells.len();
    let mut before = Before {
        states: if judge.has_begun() { judge.states() } else { Vec::new() },
        failed: cells().filter(|cell| judge.has_failed(*cell)).collect(),
        unsupported: cells().filter(|cell| judge.unsupported(*cell).is_some()).collect(),
        ..Before::default()
    };
    for (cell, outcome) in earlier.rounds.iter().flat_map(|round| &round.runs) {
        let lost = before.lost.entry(*cell).or_default();
        match outcome {
            Ok(_) => {
                *lost = 0;
                *before.measured.entry(*cell).or_default() += 1;
            }
            Err(failure) => *lost += u32::from(failure.kind == FailureKind::Lost),
        }
    }
    before
}

/// Ends a session as a command does.
fn finish(store: &mut Store, id: TrialId, simulated: &SimulatedTrial<'_>) {
    store.finish_trial(id, simulated.finished().status(), TIME).unwrap();
}

/// Numbers as they are printed in full: the same text is the same bits.
fn exactly(states: &[ContrastState]) -> String {
    format!("{states:#?}")
}

/// The document of a session, as it would be if nothing were stored, equals the one that is read again, to the last
/// bit. The trial must be finished in the store.
fn assert_same(simulated: &SimulatedTrial<'_>, store: &Store, id: TrialId) {
    let stored = store.trial(id).unwrap();
    let environment = serde_json::from_str(&stored.sessions.last().unwrap().environment).unwrap();
    let repeat = repeat_command(&stored.sessions.last().unwrap().command_line, simulated.plan.seed);
    let live = document(simulated.plan, simulated.finished(), (&environment, Vec::new()), Some(id.0), repeat);
    let again = judged_again(store, &stored).unwrap();
    assert_trend(store, id, &again);
    let [live, again] = [live, again].map(|document| serde_json::to_string_pretty(&document).unwrap());
    assert_eq!(live, again);
}

/// The point of a trend equals the ratio of the trial's document, and is missing if that is.
fn assert_trend(store: &Store, id: TrialId, document: &Document) {
    for state in document.workloads.iter().flat_map(WorkloadReport::states) {
        let (arm, against) = (state.a.clone(), state.b.clone());
        for (arm, against, is_inverse) in [(&arm, &against, false), (&against, &arm, true)] {
            let requested = SeriesQuery {
                arm: arm.clone(),
                against: Some(against.clone()),
                workloads: vec![state.workload.clone()],
                threads: vec![state.threads],
                metric: state.metric,
                by: By::Time,
            };
            let result = history::collect(store, &[id], &requested).unwrap();
            let of_phase = result.series.iter().filter(|series| series.subject.phase == state.phase);
            let point = of_phase.flat_map(|series| &series.points).next();
            let result = point.map(|point| (point.value, point.interval, point.rounds));
            let inverse = |(low, high): (f64, f64)| (high.recip(), low.recip());
            let (ratio, interval) = match is_inverse {
                true => (state.ratio.map(f64::recip), state.interval.map(inverse)),
                false => (state.ratio, state.interval),
            };
            let expected = ratio.map(|ratio| (ratio, interval, state.rounds));
            assert_eq!(result, expected.filter(|_| state.rounds >= 3), "{state:#?}");
        }
    }
}

#[test]
fn a_stored_trial_is_judged_again_to_the_last_bit() {
    for seed in 0..10 {
        let plan = plan(&["a=ext4", "b=ext4", "c=xfs"], &[1, 4], seed, |_| {});
        let slow = Character { speed: 0.9, tail: 1.5, ..ORDINARY };
        let world = World { seed, noise: 0.02, rate: 900.0, arms: vec![("c", slow)], ..World::default() };
        let (mut store, id) = begun(&plan);
        let simulated = stored_session(&plan, &world, none, None, (&mut store, id));
        assert!(simulated.states().iter().any(|state| state.verdict == Outcome::Slower));
        finish(&mut store, id, &simulated);
        assert_same(&simulated, &store, id);
        assert_eq!(store.check().unwrap(), Vec::<String>::new());
    }
}

/// Every session resumes the contrasts that the one before gave up, and in the end the difference is found.
#[test]
fn resuming_decides_undecided_trial() {
    let mut gone_on_with = 0;
    for seed in 0..8 {
        let plan = plan(&["a=ext4", "b=ext4"], &[1], seed, |settings| settings.budget = Nanos::secs(80));
        let world = World { seed, noise: 0.08, arms: vec![("b", faster(1.05))], ..World::default() };
        let (mut store, id) = begun(&plan);
        let (mut rounds, mut sessions) = (0, 0);
        loop {
            let simulated = stored_session(&plan, &world, none, None, (&mut store, id));
            finish(&mut store, id, &simulated);
            assert_same(&simulated, &store, id);
            sessions += 1;
            if simulated.finished().is_decided() {
                assert_eq!(throughput(&simulated, "b", "a").verdict, Outcome::Faster, "seed {seed}");
                break;
            }
            assert!(
                simulated.finished().rounds >= rounds + 10,
                "seed {seed}: {rounds} rounds, and it is not resumed"
            );
            rounds = simulated.finished().rounds;
            assert!(sessions < 20, "seed {seed}");
            store.reopen_trial(id, &process(&environment())).unwrap();
        }
        gone_on_with += u32::from(sessions > 1);
    }
    assert!(gone_on_with >= 5, "only {gone_on_with} of 8 trials were undecided at first");
}

/// The course reported to listeners after each round equals the stored one.
#[test]
fn stored_course_matches_live_round_updates() {
    let plan = plan(&["a=ext4", "b=xfs"], &[1, 4], 5, |_| {});
    let world = World { noise: 0.03, rate: 300.0, ..World::default() };
    let (mut store, id) = begun(&plan);
    let loses_one = |requested: &FaultSite<'_>| (requested.run == 6).then_some(Fault::Killed);
    let simulated = stored_session(&plan, &world, loses_one, None, (&mut store, id));
    let earlier = earlier(&store, &plan, id).unwrap();
    let (_, courses) = course::replay(&plan, earlier.rounds);
    assert_eq!(courses.len(), plan.contrasts.len());
    let mut rates = BTreeMap::new();
    let (mut seen, mut without_pair) = (0, 0);
    for event in &simulated.events {
        match event {
            &SeenEvent::RunEnded { round, cell, rate: Some(rate), .. } => {
                rates.insert((round, cell), rate);
            }
            SeenEvent::VerdictsUpdated { round, contrasts } => {
                for ((course, state), contrast) in courses.iter().zip(contrasts).zip(&plan.contrasts) {
                    let point = course.rounds[seen];
                    assert_eq!((point.round, point.estimate), (*round, state.ratio));
                    // For close arms the interval has another level.
                    assert!(point.interval == state.interval || state.near, "{point:?} {state:?}");
                    if state.metric == Metric::Throughput {
                        let pair = [contrast.a, contrast.b].map(|cell| rates.get(&(*round, cell)));
                        let expected = if let [Some(a), Some(b)] = pair { Some(a / b) } else { None };
                        without_pair += usize::from(expected.is_none());
                        let off =
                            point.ratio.zip(expected).map(|(result, wanted)| (result / wanted - 1.0).abs());
                        assert_eq!(point.ratio.is_some(), expected.is_some());
                        assert!(off.is_none_or(|off| off < 1e-12), "{point:?} {expected:?}");
                    }
                }
                seen += 1;
            }
            _ => {}
        }
    }
    assert!(seen > 5 && without_pair > 0, "{seen} rounds, {without_pair} without a pair");
    assert!(courses.iter().all(|course| course.rounds.len() == seen));
    // 300 operations are three beyond p99: rounds are merged, and most have no separate ratio.
    let tail = plan.contrasts.iter().position(|contrast| contrast.metric == Metric::P99).unwrap();
    let own = courses[tail].rounds.iter().filter(|point| point.ratio.is_some()).count();
    assert!(own > 0 && own < seen / 2, "{own} of {seen}");
}

#[test]
fn resumed_trial_keeps_failed_cells() {
    let plan = plan(&["a=ext4", "b=ext4", "c=ext4"], &[1], 3, |_| {});
    let world = World { noise: 0.05, ..World::default() };
    let (mut store, id) = begun(&plan);
    let first = stored_session(
        &plan,
        &world,
        |requested| match (requested.arm, requested.of_cell) {
            ("b", 2) => Some(Fault::Fails(FailureKind::ArmFailed)),
            _ if requested.run == 12 => Some(Fault::Interrupted),
            _ => None,
        },
        None,
        (&mut store, id),
    );
    assert_eq!(first.finished().reason, Reason::Interrupted);
    let rounds = first.finished().rounds;
    let second = stored_session(&plan, &world, none, None, (&mut store, id));
    assert_eq!((first.fit().len(), second.fit().len()), (1, 0), "told once");
    assert_eq!(second.measured(1), 0, "it had failed");
    let began = second.events.iter().find_map(|event| match event {
        SeenEvent::RoundStarted { round, .. } => Some(*round),
        _ => None,
    });
    assert_eq!(began, Some(rounds + 1));
    assert!(second.finished().rounds > rounds);
    assert_eq!(
        second.finished().all.failures(),
        ["b · random-write · 1 thread: an injected fault (nothing to try)"]
    );
    finish(&mut store, id, &second);
    assert_same(&second, &store, id);
}

#[test]
fn decided_trial_runs_no_more_rounds() {
    let plan = plan(&["a=ext4", "b=xfs"], &[1], 3, |_| {});
    let world = World { arms: vec![("b", Character { speed: 2.0, ..ORDINARY })], ..World::default() };
    let (mut store, id) = begun(&plan);
    let first = stored_session(&plan, &world, none, None, (&mut store, id));
    let again = stored_session(&plan, &world, none, None, (&mut store, id));
    assert_eq!((again.measured(0), again.finished().reason), (0, Reason::Settled));
    assert_eq!(exactly(&first.states()), exactly(&again.states()));
}

#[test]
fn store_error_ends_trial_before_any_run() {
    let plan = plan(&["a=ext4", "b=ext4"], &[1], 3, |_| {});
    let (mut store, _) = begun(&plan);
    let mut recorder = Recorder::new(&mut store, TrialId(4711));
    let simulated = session(&plan, &World::default(), none, Earlier::default(), None, Some(&mut recorder));
    assert_eq!(simulated.error().exit_code(), exit_code::USAGE);
    assert!(matches!(simulated.error(), ExpectedError::Store(_)), "{}", simulated.error());
    assert!(simulated.ended_at < Nanos::secs(1), "nothing was run");
}

#[test]
fn a_stored_run_without_operations_is_an_error_and_no_panic() {
    let plan = plan(&["a=ext4", "b=ext4"], &[1], 3, |settings| settings.rounds = Some(2));
    let (mut store, id) = begun(&plan);
    stored_session(&plan, &World::default(), none, None, (&mut store, id));
    let run = store.runs(id).unwrap().swap_remove(0);
    let mut measurement = run.outcome.clone().unwrap();
    let Reading::Load(_, load) = &mut measurement.results[0].reading else { panic!("a load") };
    load.operations = 0;
    let job = run.parse_job().unwrap();
    let record = RunRecord { round: 3, slot: 1, outcome: Ok(&measurement), ..run.with_job(&job) };
    store.record_run(id, &record).unwrap();
    let error = judged_again(&store, &store.trial(id).unwrap()).unwrap_err();
    assert!(error.to_string().contains("no operation was completed"), "{error}");
}

/// An interruption before the first run of the last round leaves one too few for the decision.
#[test]
fn incomplete_last_round_leaves_fixed_trial_undecided() {
    let plan = plan(&["a=ext4", "b=ext4"], &[1], 3, |settings| {
        (settings.sequential, settings.rounds) = (false, Some(8));
    });
    let (mut store, id) = begun(&plan);
    let at_the_last = |requested: &FaultSite<'_>| (requested.run == 15).then_some(Fault::Interrupted);
    let simulated = stored_session(&plan, &World::default(), at_the_last, None, (&mut store, id));
    finish(&mut store, id, &simulated);
    assert_same(&simulated, &store, id);
    assert!(simulated.states().iter().all(|state| state.verdict == Outcome::Undecided));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Cut anywhere, by Ctrl-C at a run or by death at an event, any number of times; with claims of every kind or
    /// none, and with any faults.
    #[test]
    fn replayed_document_matches_live_document(
        seed: u64, rate in 500.0..4000.0, noise in 0.005..0.1, arms in 2_usize..=4, claims in claims(), hangs: bool, control: bool, once: bool,
        cuts in prop::collection::vec((any::<bool>(), 1_usize..60), 0..4),
    ) {
        let names = ["a=ext4", "b=ext4", "c=xfs", "d=btrfs"];
        let plan = match claims.as_str() {
            "" => plan(&names[..arms], &[1, 4], seed, |settings| {
                settings.budget = Nanos::secs(90);
                if once {
                    (settings.sequential, settings.rounds) = (false, Some(8));
                }
            }),
            claims => claimed_within("90s", claims, seed),
        };
        let plan = if control { controlled(plan) } else { plan };
        let world = World { seed, rate, noise, arms: vec![("c", Character { speed: 0.9, ..ORDINARY })], ..World::default() };
        let (mut store, id) = begun(&plan);
        let environment = environment();
        for (index, cut) in cuts.into_iter().map(Some).chain([None]).enumerate() {
            let mut faults = random_faults(seed ^ index as u64, 50);
            let at = |when: bool| cut.filter(|(killed, _)| *killed == when).map(|(_, at)| at);
            let cut = |requested: &FaultSite<'_>| match requested {
                _ if at(false) == Some(requested.run as usize) => Some(Fault::Interrupted),
                // Whether it works is the question of some claims, and hanging is an answer.
                FaultSite { arm: "b", threads: Some(4), .. } if hangs => Some(Fault::Hung(Nanos::secs(1))),
                _ => faults(requested),
            };
            let simulated = stored_session(&plan, &world, cut, at(true).map(|at| at * 5), (&mut store, id));
            if simulated.ended.is_ok() {
                finish(&mut store, id, &simulated);
                assert_same(&simulated, &store, id);
            }
            store.reopen_trial(id, &process(&environment)).unwrap();
        }
    }
}

/// Expectations of a claim, one or several; nothing for a trial without one.
fn claims() -> impl Strategy<Value = String> {
    let expectation = prop::sample::select(vec![
        "works = [\"b @ 4\"]",
        "fails = [\"b @ 4\"]",
        "ratio = [\"b @ 4\", \"a @ 4\"]\nabove = 1.2",
        "ratio = [\"c @ 1\", \"a @ 1\"]\nwithin = \"5%\"",
        "slope = \"a\"\nabove = 1",
        "amount = \"a @ 1\"\nbelow = 100000",
        "no_single_winner = true",
    ]);
    let written = |lines: Vec<&str>| lines.iter().map(|line| format!("[[claim.expect]]\n{line}\n")).collect();
    prop::collection::vec(expectation, 0..4).prop_map(written)
}

/// A claim whose answer is a hang has the same live and stored verdict.
#[test]
fn repeated_hang_counts_as_failure_in_store() {
    let plan = claimed_within("1h", "[[claim.expect]]\nfails = [\"b @ 4\"]\n", 7);
    let (mut store, id) = begun(&plan);
    let hangs = |requested: &FaultSite<'_>| {
        (requested.arm == "b" && requested.of_cell > 0).then_some(Fault::Hung(Nanos::secs(20)))
    };
    let simulated = stored_session(&plan, &World::default(), hangs, None, (&mut store, id));
    assert_eq!(simulated.finished().all.claim(), Some(ClaimVerdict::Confirmed));
    finish(&mut store, id, &simulated);
    assert_same(&simulated, &store, id);
    let again = judged_again(&store, &store.trial(id).unwrap()).unwrap();
    assert_eq!(again.claim.unwrap().verdict, ClaimVerdict::Confirmed);
    assert_eq!(again.failures, ["b · random-write · 4 threads was lost 3 times running: an injected fault"]);
}
