//! Trials from end to end: verdicts, budget, faults, interruption. Everything is drawn from printed seeds.

use super::*;
use fstrial_model::device::Device;
use fstrial_run::{cell::Contrast, exit_code, judge::Judge, round::Round, sample::Sample};
use proptest::prelude::*;

/// State of the throughput contrast of two arms, the later one over the earlier one.
pub(super) fn throughput(simulated: &SimulatedTrial<'_>, a: &str, b: &str) -> ContrastState {
    of_metric(simulated, a, b, Metric::Throughput)
}

pub(super) fn of_metric(simulated: &SimulatedTrial<'_>, a: &str, b: &str, metric: Metric) -> ContrastState {
    let is = |state: &ContrastState| state.a == a && state.b == b && state.metric == metric;
    simulated.states().into_iter().find(is).expect("planned for")
}

pub(super) fn faster(speed: f64) -> Character {
    Character { speed, ..ORDINARY }
}

/// The event stream, one line for each event but the stages.
fn rendered(simulated: &SimulatedTrial<'_>) -> String {
    let mut out = String::new();
    for event in &simulated.events {
        let line = match event {
            SeenEvent::RunStage(_) => continue,
            SeenEvent::StatePreparing(what) => format!("preparing {what}"),
            SeenEvent::StatePrepared(arms) => format!("prepared for {arms}"),
            SeenEvent::ArmInspected(arm) => format!("inspected {arm}"),
            SeenEvent::WorkerReplaced(arm) => format!("another worker for {arm}"),
            SeenEvent::Audited(lines) => format!("audited: {lines} differences"),
            SeenEvent::Noted(lines) => format!("noted: {}", lines.join("; ")),
            SeenEvent::FirstRoundTimed(fit) => format!("  {fit} rounds fit"),
            SeenEvent::RoundStarted { round, runs, left } => {
                format!("round {round}: {runs} runs, {left} left")
            }
            SeenEvent::RunStarted { slot, cell, .. } => {
                format!("  {slot}. {}", simulated.plan.cell_name(*cell))
            }
            SeenEvent::RunEnded { rate: Some(rate), .. } => format!("     {rate:.0} op/s"),
            SeenEvent::RunEnded { failure, .. } => format!("     {:?}", failure.unwrap()),
            SeenEvent::VerdictsUpdated { contrasts, .. } => {
                let shown = |state: &ContrastState| {
                    let ratio = state.ratio.map_or_else(String::new, |ratio| format!(" {ratio:.2}"));
                    format!("{} {:?}{ratio}", state.metric.name(), state.verdict)
                };
                format!("  {}", contrasts.iter().map(shown).collect::<Vec<_>>().join(" · "))
            }
        };
        out += &format!("{line}\n");
    }
    out + &format!("{:?} at {}\n", simulated.finished().reason, simulated.ended_at)
}

/// Arms `a` and `b` at the places `slow` and `fast`.
fn leading(seed: u64, change: impl FnOnce(&mut Settings)) -> Plan {
    let mut trial = plan(&["ext4", "xfs"], &[1], seed, change).trial;
    let place = |name: &str| fstrial_model::place::PlaceSpec {
        device: Some(Device::default()),
        ..fstrial_model::place::PlaceSpec::elsewhere(name)
    };
    let arms = ["a slow=ext4@slow", "b slow=xfs@slow", "a fast=ext4@fast", "b fast=xfs@fast"];
    trial.arms = arms.iter().map(|text| text.parse().unwrap()).collect();
    trial.places = vec![place("slow"), place("fast")];
    trial.trial.leads = true;
    Plan::new(trial.settled(CPUS).unwrap(), seed).unwrap()
}

#[test]
fn lead_change_across_places_is_detected() {
    let lead = |speed: f64| {
        let plan = leading(7, |_| {});
        // The fast place is ten times as fast; b leads by a tenth at the slow one.
        let arms = vec![("b slow", faster(1.1)), ("a fast", faster(10.0)), ("b fast", faster(10.0 * speed))];
        let simulated = simulate(&plan, &World { arms, ..World::default() }, none);
        of_metric(&simulated, "xfs / ext4 at fast", "xfs / ext4 at slow", Metric::Throughput)
    };
    let grows = lead(1.5);
    assert!(grows.is_lead && grows.verdict == Outcome::Faster, "{grows:?}");
    assert!((grows.ratio.unwrap() / (1.5 / 1.1) - 1.0).abs() < 0.03, "{grows:?}");
    assert_eq!(lead(1.1).verdict, Outcome::Equivalent);
    assert_eq!(lead(1.0).verdict, Outcome::Slower);
}

#[test]
fn with_leads_only_arms_at_one_place_are_compared_and_each_place_has_a_control() {
    let plan = leading(7, |settings| settings.control = true);
    let named = |contrast: &Contrast| {
        let (a, b) = plan.names(contrast);
        format!("{a} / {b}")
    };
    let throughput = plan.contrasts.iter().filter(|contrast| contrast.metric == Metric::Throughput);
    assert_eq!(
        throughput.map(named).collect::<Vec<_>>(),
        [
            "b slow / a slow",
            "b fast / a fast",
            "xfs / ext4 at fast / xfs / ext4 at slow",
            "control / a slow",
            "control-2 / a fast",
        ]
    );
    // All that is compared in one contrast is in one block of a round.
    assert_eq!(plan.order(1).len(), 6);
    let alone = Trial { arms: plan.trial.arms[..3].to_vec(), ..plan.trial.clone() };
    let alone = Trial { trial: Settings { control: false, ..alone.trial.clone() }, ..alone };
    let problem = alone.problem().unwrap();
    assert!(problem.to_string().contains("`b slow` is at one place only"), "{problem}");
}

#[test]
fn the_event_stream_of_a_small_trial() {
    let plan = plan(&["a=ext4", "b=xfs"], &[1], 7, |_| {});
    let world = World { arms: vec![("b", faster(1.5))], ..World::default() };
    let simulated = simulate(&plan, &world, |requested| (requested.run == 3).then_some(Fault::Killed));
    insta::assert_snapshot!(rendered(&simulated));
    let stages = simulated.events.iter().filter(|event| matches!(event, SeenEvent::RunStage(_))).count();
    let runs = simulated.events.iter().filter(|event| matches!(event, SeenEvent::RunStarted { .. })).count();
    assert_eq!(
        stages,
        2 + 2 * (runs - 1),
        "one for each inspection, two for each run, none for the killed one"
    );
    let again = simulate(&plan, &world, |requested| (requested.run == 3).then_some(Fault::Killed));
    assert_eq!(simulated.events, again.events);
}

#[test]
fn shared_states_are_prepared_once() {
    let plan = plan(&["a=ext4", "b=ext4:scheduler=none", "c=xfs:state=aged", "raw"], &[1], 7, |settings| {
        settings.rounds = Some(4);
    });
    let simulated =
        simulate(&plan, &World::default(), |requested| (requested.run == 3).then_some(Fault::Killed));
    let before: Vec<String> = simulated
        .events
        .iter()
        .take_while(|event| !matches!(event, SeenEvent::Audited(_)))
        .filter_map(|event| match event {
            SeenEvent::StatePreparing(what) => Some(format!("preparing {what}")),
            SeenEvent::StatePrepared(arms) => Some(format!("for {arms}")),
            SeenEvent::ArmInspected(arm) => Some(arm.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(
        before,
        ["preparing fresh for a", "for a, b", "preparing aged:70% for c", "for c", "a", "b", "c", "raw"]
    );
    let rest = simulated.events.iter().skip_while(|event| !matches!(event, SeenEvent::Audited(_)));
    assert!(!rest.into_iter().any(|event| matches!(event, SeenEvent::StatePreparing(_))), "only once");
    assert_eq!(simulated.finished().rounds, 4);
    // Two builds to see the room, two to prepare, four to look at the arms: 300 ms each.
    assert_eq!(simulated.inspected_at, Nanos::millis(8 * 300));
}

#[test]
fn oversized_workload_beside_state_fails_before_first_round() {
    // The device has room by its size, but the filesystem on it has not: of 1 GiB that are free, 90 % go to the state.
    let plan = plan(&["a=ext4", "b=xfs:state=filled:90%"], &[1], 7, |_| {});
    let simulated = simulate(&plan, &World::default(), none);
    let Err(error) = &simulated.ended else { panic!("it went on") };
    let message = error.to_string();
    assert!(message.contains("b · random-write") && message.contains("102.4 MiB left"), "{message}");
    assert!(!simulated.events.iter().any(|event| matches!(event, SeenEvent::RoundStarted { .. })));
}

/// A run that does not end long after the budget is abandoned, and the measurements count.
#[test]
fn budget_end_aborts_hanging_run_and_keeps_results() {
    let plan = plan(&["a=ext4", "b=xfs"], &[1], 7, |_| {});
    let mut jobs = 0;
    let simulated = simulate(&plan, &World::default(), |_| {
        jobs += 1;
        (jobs == 12).then_some(Fault::TimeOver)
    });
    let finished = simulated.finished();
    assert_eq!((finished.reason, finished.rounds), (Reason::BudgetEnded, 5));
    assert!(finished.judge().is_some());
}

#[test]
fn an_interruption_while_a_state_is_made_ends_the_trial() {
    let plan = plan(&["a=ext4", "b=xfs:state=aged"], &[1], 7, |_| {});
    let mut jobs = 0;
    let simulated = simulate(&plan, &World::default(), |_| {
        jobs += 1;
        (jobs == 4).then_some(Fault::Interrupted)
    });
    assert_eq!(simulated.finished().reason, Reason::Interrupted);
    assert_eq!(simulated.events.last(), Some(&SeenEvent::RunStage(Stage::Mkfs)));
    assert!(simulated.events.contains(&SeenEvent::StatePreparing("aged:70% for b".into())));
}

/// The warnings of a trial of two equal arms in twenty rounds.
fn warned(seed: u64, world: &World) -> Vec<String> {
    let plan = plan(&["a=ext4", "b=ext4"], &[1], seed, |settings| settings.rounds = Some(20));
    simulate(&plan, world, none).finished().judge().unwrap().warnings()
}

/// If the first round takes longer than predictable, a default budget is raised once, and a given one is not; nor is
/// one that would have to be raised too far.
#[test]
fn default_budget_is_raised_after_slow_first_round() {
    let of = |overhead: u64, longest: Option<Nanos>| {
        let plan = plan(&["a=ext4", "b=ext4"], &[1], 7, |_| {});
        let slow = |speed: f64| Character { overhead: Nanos::secs(overhead), ..faster(speed) };
        let world = World { arms: vec![("a", slow(1.0)), ("b", slow(1.3))], longest, ..World::default() };
        let simulated = session(&plan, &world, none, Earlier::default(), None, None);
        let noted: Vec<String> = simulated
            .events
            .iter()
            .filter_map(|event| match event {
                SeenEvent::Noted(lines) => Some(lines.join("; ")),
                _ => None,
            })
            .collect();
        (noted.join("; "), throughput(&simulated, "b", "a").verdict, simulated.ended_at)
    };
    let budget = Settings::default().budget;
    let (noted, verdict, ended) = of(25, Some(Nanos::secs(720)));
    assert!(noted.starts_with("the budget is ") && noted.contains("as 5m are too short"), "{noted}");
    assert_eq!(verdict, Outcome::Faster);
    assert!(ended > budget && ended <= Nanos::secs(720), "{ended}");
    for (overhead, longest) in [(25, None), (2, Some(Nanos::secs(720))), (50, Some(Nanos::secs(720)))] {
        let (noted, _, ended) = of(overhead, longest);
        assert!(noted.is_empty() && ended <= budget, "{overhead}: {noted} {ended}");
    }
    // One round is run in any case, and one only.
    let (noted, verdict, ended) = of(110, Some(Nanos::secs(720)));
    assert!(noted.is_empty() && verdict == Outcome::Undecided, "{noted}");
    assert!(ended > Nanos::secs(400) && ended < Nanos::secs(600), "{ended}");
}

#[test]
fn order_effect_is_reported_and_decides_nothing() {
    let world = World { every: (2, 0.9), ..World::default() };
    let plan = plan(&["a=ext4", "b=ext4"], &[1], 5, |settings| settings.rounds = Some(20));
    let simulated = simulate(&plan, &world, none);
    assert_eq!(throughput(&simulated, "b", "a").verdict, Outcome::Undecided);
    let message = simulated.finished().judge().unwrap().warnings().join("\n");
    assert!(
        message.contains(
            "the first of two runs differs from the second in 1 of 1 comparison, which favours neither"
        ),
        "{message}"
    );
    // 1 / 0.9 is 11 % more.
    assert!(message.contains("random-write · 1 thread (+11 %)"), "{message}");
}

#[test]
fn warns_about_unsteady_runs() {
    let message = warned(5, &World { rise: 1.4, noise: 0.05, ..World::default() }).join("\n");
    // Three quarters of the measured time apart, which is 80 % of the run: 1.4^0.6.
    assert!(
        message.contains("in 2 of 2 cells") && message.contains("a · random-write · 1 thread (+22 %)"),
        "{message}"
    );
}

#[test]
fn ordinary_trials_are_seldom_warned() {
    let warned = (0..60)
        .filter(|seed| !warned(*seed, &World { seed: *seed, noise: 0.05, ..World::default() }).is_empty());
    // Of 60 at most 5 % for each of two checks: 6 are expected at worst, and 13 are one in a hundred.
    assert!(warned.count() < 13);
}

/// Results of 200 trials of an arm with itself: those with a difference on any metric, and those found equivalent.
fn same_with_same(noise: f64, budget: Nanos) -> (usize, usize) {
    let (mut alarms, mut equivalent) = (0, 0);
    for seed in 0..200 {
        let plan = plan(&["a=ext4", "b=ext4"], &[1], seed, |settings| settings.budget = budget);
        let world = World { seed: seed << 8, noise, tail_noise: 3.0 * noise, ..World::default() };
        let simulated = simulate(&plan, &world, none);
        let states = simulated.states();
        alarms += usize::from(
            states.iter().any(|state| matches!(state.verdict, Outcome::Faster | Outcome::Slower)),
        );
        equivalent += usize::from(throughput(&simulated, "b", "a").verdict == Outcome::Equivalent);
    }
    (alarms, equivalent)
}

/// Five of a hundred of 200 are 10, with a standard deviation of 3.1; three of them make 19.
const MAX_ALARMS: usize = 19;

#[test]
fn an_arm_compared_with_itself_is_equivalent_and_rarely_different() {
    let (alarms, equivalent) = same_with_same(0.01, Nanos::secs(300));
    assert!(alarms <= MAX_ALARMS, "{alarms} false alarms in 200 trials");
    assert!(equivalent >= 180, "{equivalent} of 200 equivalent");
}

#[test]
fn an_arm_compared_with_itself_on_a_noisy_machine_is_rarely_different() {
    let (alarms, _) = same_with_same(0.08, Nanos::secs(100));
    assert!(alarms <= MAX_ALARMS, "{alarms} false alarms in 200 trials");
}

/// Ahead whenever it does not stall, and behind in all.
#[test]
fn stalling_arm_gets_no_faster_verdict() {
    let stalling = Character { speed: 1.05, stalls: (0.2, 0.6), ..ORDINARY };
    let mut message = Vec::new();
    for seed in 0..12 {
        let plan = plan(&["a=ext4", "b=xfs"], &[1], seed, |settings| settings.rounds = Some(60));
        let world = World { seed, noise: 0.015, arms: vec![("b", stalling)], ..World::default() };
        let simulated = simulate(&plan, &world, none);
        let state = throughput(&simulated, "b", "a");
        // An event that did not happen in its rounds supports no verdict.
        let is_unseen = state.total_ratio.unwrap() > 0.97;
        assert!(is_unseen || state.verdict != Outcome::Faster, "seed {seed}: {state:?}");
        message.push(state.faster_between_stalls().map(str::to_owned));
    }
    assert!(message.iter().all(|arm| arm.as_deref().is_none_or(|arm| arm == "b")), "{message:?}");
    assert!(message.iter().flatten().count() > 0, "{message:?}");
}

#[test]
fn plain_difference_takes_seven_rounds_despite_tail_metrics() {
    let plan = plan(&["a=ext4", "b=xfs"], &[1], 3, |_| {});
    assert!(plan.contrasts.iter().any(|contrast| contrast.metric == Metric::P99));
    let simulated = simulate(&plan, &World { arms: vec![("b", faster(2.0))], ..World::default() }, none);
    let state = throughput(&simulated, "b", "a");
    assert_eq!((state.verdict, state.rounds), (Outcome::Faster, 7));
}

#[test]
fn decided_cells_are_not_run_again() {
    let plan = plan(&["a=ext4", "b=ext4", "c=xfs"], &[1], 5, |_| {});
    let world = World { noise: 0.03, arms: vec![("c", faster(3.0))], ..World::default() };
    let simulated = simulate(&plan, &world, none);
    assert_eq!(simulated.finished().reason, Reason::Settled);
    let runs: Vec<usize> = (0..3).map(|cell| simulated.measured(cell)).collect();
    assert_eq!(runs[0], runs[1]);
    assert!(runs[2] >= 7 && runs[2] + 3 <= runs[0], "{runs:?}");
    for a in ["a", "b"] {
        let state = throughput(&simulated, "c", a);
        assert_eq!((state.verdict, state.rounds), (Outcome::Faster, runs[2]));
    }
    assert_eq!(throughput(&simulated, "b", "a").rounds, runs[0]);
    assert_eq!(throughput(&simulated, "b", "a").verdict, Outcome::Equivalent);
}

#[test]
fn trial_ends_within_budget() {
    for budget in [4, 5, 7, 10, 20, 33, 61] {
        let plan = plan(&["a=ext4", "b=ext4", "c=ext4"], &[1, 4], 3, |settings| {
            settings.budget = Nanos::secs(budget);
        });
        // Too noisy to decide anything.
        let simulated = simulate(&plan, &World { noise: 0.3, ..World::default() }, none);
        assert_eq!(simulated.finished().reason, Reason::BudgetEnded, "{budget} s");
        // A run takes 1.55 s and every run but the first of each cell is known to.
        let whole = simulated.finished().judge().is_some();
        assert!(
            !whole || simulated.ended_at <= plan.trial.trial.budget,
            "{budget} s: {}",
            simulated.ended_at
        );
        assert_eq!(whole, budget >= 3 + 6 * 2 - 2, "{budget} s: a round takes 9.3 s, inspection 0.9 s");
        if whole {
            assert!(
                simulated.ended_at.0 + Nanos::millis(1550).0 > plan.trial.trial.budget.0,
                "time was left"
            );
        }
        let Some(judge) = simulated.finished().judge() else { continue };
        for (contrast, state) in plan.contrasts.iter().zip(judge.states()) {
            assert_eq!(
                state.rounds,
                simulated.pairs(contrast.a, contrast.b),
                "pairs of partial rounds count"
            );
        }
    }
}

#[test]
fn budget_below_one_round_yields_no_verdict() {
    for budget in [1, 2, 3] {
        let plan = plan(&["a=ext4", "b=ext4"], &[1], 1, |settings| settings.budget = Nanos::secs(budget));
        let simulated = simulate(&plan, &World::default(), none);
        assert_eq!(simulated.finished().reason, Reason::BudgetEnded);
        assert!(simulated.finished().judge().is_none() && simulated.fit().is_empty());
        assert_eq!(simulated.finished().round_time, None);
        assert!(!simulated.events.iter().any(|event| matches!(event, SeenEvent::VerdictsUpdated { .. })));
    }
}

#[test]
fn a_number_of_rounds_is_respected() {
    for rounds in [1, 3, 9] {
        let plan = plan(&["a=ext4", "b=ext4"], &[1], 1, |settings| settings.rounds = Some(rounds));
        let simulated = simulate(&plan, &World { noise: 0.5, ..World::default() }, none);
        assert_eq!(simulated.finished().reason, Reason::BudgetEnded);
        assert_eq!((simulated.finished().rounds, simulated.measured(0)), (rounds, rounds as usize));
    }
}

#[test]
fn first_round_reports_rounds_in_budget_once() {
    // Inspection 0.6 s, a round 3.1 s: the rest after it, in rounds, and the one that was.
    for (budget, fit) in [(10, 3), (60, 19), (300, 96), (7200, 500)] {
        let plan = plan(&["a=ext4", "b=xfs"], &[1], 1, |settings| settings.budget = Nanos::secs(budget));
        for (noise, speed) in [(0.0, 1.0), (0.01, 10.0), (0.5, 1.0)] {
            let world = World { noise, arms: vec![("b", faster(speed))], ..World::default() };
            let simulated =
                simulate(&plan, &world, |requested| (requested.run == 30).then_some(Fault::Interrupted));
            assert_eq!(simulated.fit(), [fit], "{budget} s");
        }
    }
}

#[test]
fn lost_run_affects_only_its_own_contrasts() {
    let plan = plan(&["a=ext4", "b=ext4", "c=ext4"], &[1], 2, |settings| settings.rounds = Some(9));
    let lost = |requested: &FaultSite<'_>| {
        (requested.arm == "c" && [1, 2, 4, 7].contains(&requested.of_cell)).then_some(Fault::Killed)
    };
    let simulated = simulate(&plan, &World { noise: 0.2, ..World::default() }, lost);
    assert_eq!(simulated.finished().reason, Reason::BudgetEnded);
    assert_eq!(throughput(&simulated, "b", "a").rounds, 9);
    assert_eq!(throughput(&simulated, "c", "a").rounds, 5);
    assert_eq!(throughput(&simulated, "c", "b").rounds, 5);
    assert!(simulated.finished().all.failures().is_empty());
}

#[test]
fn three_losses_running_end_the_trial_and_name_the_cell() {
    let plan = plan(&["a=ext4", "b=ext4"], &[1, 4], 2, |_| {});
    let lost = |requested: &FaultSite<'_>| {
        (requested.arm == "b" && requested.threads == Some(4) && requested.of_cell > 2)
            .then_some(if requested.of_cell == 4 { Fault::Hung(Nanos::secs(5)) } else { Fault::Killed })
    };
    let simulated = simulate(&plan, &World { noise: 0.1, ..World::default() }, lost);
    let error = simulated.error();
    assert_eq!(error.to_string(), "b · random-write · 4 threads was lost 3 times running: an injected fault");
    assert_eq!((error.exit_code(), error.hint()), (exit_code::SETUP_FAILED, Some("nothing to try".into())));
    assert!(matches!(
        simulated.events.last(),
        Some(SeenEvent::RunEnded { round: 5, failure: Some(FailureKind::Lost), .. })
    ));
}

#[test]
fn hung_run_leaves_rest_of_budget_usable() {
    let plan = plan(&["a=ext4", "b=ext4"], &[1], 2, |settings| {
        (settings.budget, settings.rounds) = (Nanos::secs(120), Some(9));
    });
    let hang = |requested: &FaultSite<'_>| (requested.run == 5).then_some(Fault::Hung(Nanos::secs(60)));
    let simulated = simulate(&plan, &World { noise: 0.3, ..World::default() }, hang);
    // After it there is less time left than it took, but enough for all rounds.
    assert_eq!((simulated.finished().rounds, throughput(&simulated, "b", "a").rounds), (9, 8));
}

#[test]
fn no_round_starts_without_time_for_a_run() {
    // The quickest arm is soon decided, the others take half a minute each.
    let slow = Character { overhead: Nanos::secs(30), ..ORDINARY };
    let world = World {
        noise: 0.1,
        arms: vec![("a", slow), ("b", slow), ("c", Character { overhead: Nanos(0), ..faster(20.0) })],
        ..World::default()
    };
    for budget in 900..910 {
        let plan = plan(&["a=ext4", "b=ext4", "c=xfs"], &[1], 2, |settings| {
            settings.budget = Nanos::secs(budget);
        });
        let simulated = simulate(&plan, &world, none);
        assert_eq!(simulated.finished().reason, Reason::BudgetEnded);
        assert!(simulated.measured(2) < simulated.measured(0));
        let begun = simulated
            .events
            .iter()
            .rposition(|event| matches!(event, SeenEvent::RoundStarted { .. }))
            .unwrap();
        assert!(
            matches!(simulated.events[begun + 1], SeenEvent::RunStarted { .. }),
            "an empty round was begun"
        );
    }
}

#[test]
fn failed_cell_is_dropped_and_others_continue() {
    let plan = plan(&["a=ext4", "b=ext4", "c=ext4"], &[1], 4, |_| {});
    for failing in [1, 3] {
        let eio = |requested: &FaultSite<'_>| {
            (requested.arm == "c" && requested.of_cell == failing)
                .then_some(Fault::Fails(FailureKind::ArmFailed))
        };
        let simulated = simulate(&plan, &World::default(), eio);
        assert_eq!(simulated.finished().reason, Reason::Settled);
        assert_eq!(simulated.measured(2), failing as usize - 1);
        for other in ["a", "b"] {
            for metric in [Metric::Throughput, Metric::P99] {
                let state = of_metric(&simulated, "c", other, metric);
                assert_eq!((state.verdict, state.ratio, state.interval), (Outcome::Failed, None, None));
                assert!(!state.open && state.rounds_needed.is_none());
            }
        }
        assert_eq!(throughput(&simulated, "b", "a").verdict, Outcome::Equivalent);
        assert_eq!(
            simulated.finished().all.failures(),
            ["c · random-write · 1 thread: an injected fault (nothing to try)"]
        );
    }
}

#[test]
fn unsupported_arm_is_reported_and_others_continue() {
    let plan = plan(&["a=ext4", "b=ext4", "c=ext4"], &[1], 4, |_| {});
    let cannot = |requested: &FaultSite<'_>| {
        (requested.arm == "c" && requested.of_cell == 1).then_some(Fault::Fails(FailureKind::Unsupported))
    };
    let simulated = simulate(&plan, &World::default(), cannot);
    assert_eq!((simulated.finished().reason, simulated.measured(2)), (Reason::Settled, 0));
    assert!(simulated.finished().is_decided() && simulated.finished().all.failures().is_empty());
    for other in ["a", "b"] {
        let state = throughput(&simulated, "c", other);
        assert_eq!((state.verdict, state.ratio, state.open), (Outcome::Unsupported, None, false));
    }
    assert_eq!(throughput(&simulated, "b", "a").verdict, Outcome::Equivalent);
    let judge = simulated.finished().judge().unwrap();
    assert_eq!((judge.unsupported(2), judge.unsupported(0)), (Some("an injected fault"), None));
}

#[test]
fn trial_without_supporting_arm_ends_after_one_round() {
    let plan = plan(&["a=ext4", "b=ext4"], &[1], 4, |_| {});
    let simulated = simulate(&plan, &World::default(), |requested| {
        requested.threads.map(|_| Fault::Fails(FailureKind::Unsupported))
    });
    assert_eq!((simulated.finished().reason, simulated.finished().rounds), (Reason::Settled, 1));
    assert!(simulated.finished().is_decided());
}

#[test]
fn trial_ends_once_every_cell_failed() {
    let plan = plan(&["a=ext4", "b=ext4"], &[1, 4], 4, |_| {});
    let simulated = simulate(&plan, &World::default(), |requested| {
        requested.threads.map(|_| Fault::Fails(FailureKind::ArmFailed))
    });
    assert_eq!(simulated.finished().reason, Reason::Settled);
    assert_eq!((simulated.finished().rounds, simulated.finished().all.failures().len()), (1, 4));
    assert!(simulated.states().iter().all(|state| state.verdict == Outcome::Failed));
}

#[test]
fn inspection_failure_ends_trial_before_first_round() {
    let plan = plan(&["a=ext4", "b=xfs"], &[1], 1, |_| {});
    for (kind, code) in [
        (FailureKind::HostLacks, exit_code::HOST_LACKS),
        (FailureKind::ArmRefused, exit_code::SETUP_FAILED),
        (FailureKind::ArmFailed, exit_code::SETUP_FAILED),
        (FailureKind::Lost, exit_code::SETUP_FAILED),
        (FailureKind::CleanUp, exit_code::CLEAN_UP_INCOMPLETE),
    ] {
        let simulated = simulate(&plan, &World::default(), |requested| {
            (requested.arm == "b").then_some(Fault::Fails(kind))
        });
        assert_eq!(simulated.error().exit_code(), code);
        assert_eq!(simulated.error().to_string(), "arm b: an injected fault");
        let inspected = |event: &&SeenEvent| matches!(event, SeenEvent::ArmInspected(_));
        assert_eq!(simulated.events.iter().filter(inspected).count(), 1, "{kind:?}");
        // A lost worker is replaced twice before it ends the trial.
        let stages = simulated.events.iter().filter(|event| matches!(event, SeenEvent::RunStage(_))).count();
        assert_eq!(stages, if kind == FailureKind::Lost { 4 } else { 2 }, "{kind:?}");
        let replaced =
            simulated.events.iter().filter(|event| matches!(event, SeenEvent::WorkerReplaced(_))).count();
        assert_eq!(replaced, stages - 2);
        assert_eq!(simulated.events.len(), stages + 1 + replaced);
    }
}

#[test]
fn lost_inspection_is_retried() {
    let plan = plan(&["a=ext4", "b=xfs"], &[1], 1, |settings| settings.rounds = Some(1));
    let mut losses = 2;
    let simulated = simulate(&plan, &World::default(), |requested| {
        let lost = requested.arm == "b" && losses > 0;
        losses -= u32::from(lost);
        lost.then_some(Fault::Killed)
    });
    assert_eq!((simulated.finished().facts.len(), simulated.finished().rounds), (2, 1));
    assert_eq!(simulated.events[2..4], vec![SeenEvent::WorkerReplaced("b".into()); 2]);
}

#[test]
fn permanent_failure_ends_trial_immediately() {
    let plan = plan(&["a=ext4", "b=xfs"], &[1], 1, |_| {});
    for (fault, code) in [
        (Fault::Fails(FailureKind::CleanUp), exit_code::CLEAN_UP_INCOMPLETE),
        (Fault::Fails(FailureKind::LoadRefused), exit_code::SETUP_FAILED),
        (Fault::Fails(FailureKind::HostLacks), exit_code::HOST_LACKS),
        (Fault::Fails(FailureKind::ArmRefused), exit_code::SETUP_FAILED),
        (Fault::NoOperations, exit_code::OUR_FAULT),
        (Fault::Truncated, exit_code::OUR_FAULT),
        (Fault::Silent, exit_code::OUR_FAULT),
    ] {
        let simulated = simulate(&plan, &World::default(), |requested| (requested.run == 4).then_some(fault));
        assert_eq!(simulated.error().exit_code(), code, "{fault:?}: {}", simulated.error());
        let runs =
            simulated.events.iter().filter(|event| matches!(event, SeenEvent::RunStarted { .. })).count();
        assert_eq!(runs, 4, "{fault:?}");
        // The store keeps failures; unreadable data are not kept.
        let kept = matches!(simulated.events.last(), Some(SeenEvent::RunEnded { .. }));
        assert_eq!(kept, matches!(fault, Fault::Fails(_)), "{fault:?}");
    }
}

#[test]
fn interrupted_trial_keeps_verdicts_of_complete_pairs() {
    let plan = plan(&["a=ext4", "b=ext4", "c=xfs"], &[1, 4], 9, |_| {});
    for run in 1..=40 {
        for fault in [Fault::Interrupted, Fault::InterruptedLate] {
            let simulated = simulate(&plan, &World { noise: 0.2, ..World::default() }, |requested| {
                (requested.run == run).then_some(fault)
            });
            let finished = simulated.finished();
            assert_eq!(finished.reason, Reason::Interrupted);
            let ended =
                simulated.events.iter().filter(|event| matches!(event, SeenEvent::RunEnded { .. })).count();
            assert_eq!(ended, run as usize - usize::from(fault == Fault::Interrupted));
            assert_eq!(finished.judge().is_some(), ended >= 6, "run {run}");
            let Some(judge) = finished.judge() else { continue };
            for (contrast, state) in plan.contrasts.iter().zip(judge.states()) {
                assert_eq!(state.rounds, simulated.pairs(contrast.a, contrast.b));
                assert!(!state.open, "it is over");
            }
        }
    }
}

#[test]
fn an_interruption_while_arms_are_inspected_ends_the_trial() {
    let plan = plan(&["a=ext4", "b=ext4"], &[1], 9, |_| {});
    let simulated =
        simulate(&plan, &World::default(), |requested| (requested.arm == "b").then_some(Fault::Interrupted));
    let finished = simulated.finished();
    assert_eq!((finished.reason, finished.rounds), (Reason::Interrupted, 0));
    assert!(finished.judge().is_none() && finished.facts.is_empty());
}

#[test]
fn listener_error_ends_trial() {
    let plan = plan(&["a=ext4", "b=ext4"], &[1], 9, |settings| settings.rounds = Some(3));
    let events = simulate(&plan, &World::default(), none).events.len();
    for at in 0..events {
        let simulated = session(&plan, &World::default(), none, Earlier::default(), Some(at), None);
        assert_eq!(simulated.error().to_string(), store_is_full().to_string());
        assert_eq!(simulated.error().exit_code(), exit_code::STORE_UNUSABLE);
        assert_eq!(simulated.events.len(), at + 1, "it was told more after it had failed");
        // At most the run that it failed in was still made.
        let begun =
            simulated.events.iter().filter(|event| matches!(event, SeenEvent::RunStage(Stage::Mkfs))).count();
        assert!(simulated.ended_at.0 <= begun as u64 * Nanos::millis(1550).0);
    }
}

#[test]
fn with_many_operations_every_round_counts_for_a_quantile() {
    for seed in 0..10 {
        let plan = plan(&["a=ext4", "b=xfs"], &[1], seed, |settings| settings.decide_on = vec![Metric::P99]);
        let world =
            World { seed, arms: vec![("b", Character { tail: 0.5, ..ORDINARY })], ..World::default() };
        let simulated = simulate(&plan, &world, none);
        let state = of_metric(&simulated, "b", "a", Metric::P99);
        assert_eq!(simulated.finished().reason, Reason::Settled);
        assert_eq!(state.verdict, Outcome::Faster, "less latency is better");
        assert_eq!(state.rounds, simulated.measured(0));
        assert!(!state.too_few_operations);
        let (low, high) = state.interval.unwrap();
        assert!(state.ratio.unwrap() < 0.6 && low < 0.5 && high > 0.5 && high < 1.0, "{state:?}");
        // And the other way round.
        let plan = super::plan(&["b=xfs", "a=ext4"], &[1], seed, |settings| {
            settings.decide_on = vec![Metric::P99];
        });
        let state = of_metric(&simulate(&plan, &world, none), "a", "b", Metric::P99);
        assert_eq!(state.verdict, Outcome::Slower);
        assert!(state.ratio.unwrap() > 1.6 && state.interval.unwrap().0 > 1.0);
    }
}

#[test]
fn device_bytes_are_judged_only_where_counted() {
    let verdict = |written: Option<u64>| {
        let world = World { arms: vec![("b", Character { written, ..ORDINARY })], ..World::default() };
        let plan = plan(&["a=ext4", "b=xfs"], &[1], 5, |settings| {
            settings.decide_on = vec![Metric::DeviceBytes];
            settings.rounds = Some(16);
        });
        let simulated = simulate(&plan, &world, none);
        let state = of_metric(&simulated, "b", "a", Metric::DeviceBytes);
        assert!(state.less_is_better);
        (state.verdict, state.ratio.map(|ratio| (ratio * 100.0).round()))
    };
    assert_eq!(verdict(Some(12_288)), (Outcome::Slower, Some(300.0)), "more is worse");
    assert_eq!(verdict(Some(2048)), (Outcome::Faster, Some(50.0)), "less is better");
    assert_eq!(verdict(Some(4096)), (Outcome::Equivalent, Some(100.0)), "the very same");
    // A run that wrote nothing, or without counts, makes no pair.
    assert_eq!(verdict(Some(0)), (Outcome::Undecided, None));
    assert_eq!(verdict(None), (Outcome::Undecided, None));
}

#[test]
fn with_few_operations_rounds_are_merged_for_a_quantile() {
    // 300 to 330 operations in a run: four rounds until ten of them are beyond p99.
    let world = World { rate: 302.0, noise: 0.001, tail_noise: 0.5, ..World::default() };
    for rounds in [3, 4, 20, 31, 32, 40] {
        let plan = plan(&["a=ext4", "b=xfs"], &[1], 3, |settings| {
            settings.decide_on = vec![Metric::P99];
            settings.rounds = Some(rounds);
        });
        let simulated = simulate(&plan, &world, none);
        let state = of_metric(&simulated, "b", "a", Metric::P99);
        assert_eq!(state.rounds, rounds as usize / 4, "{rounds} rounds");
        assert_eq!(state.too_few_operations, rounds < 32, "{rounds} rounds");
        assert_eq!(state.ratio.is_some(), rounds >= 32, "{rounds} rounds");
        let p999 = simulated.plan.contrasts.iter().any(|contrast| contrast.metric == Metric::P999);
        assert!(!p999, "nobody asked for it");
        // Throughput needs no operations to speak of.
        assert_eq!(throughput(&simulated, "b", "a").verdict == Outcome::Equivalent, rounds >= 20);
    }
}

#[test]
fn trial_continues_until_quantile_has_enough_groups() {
    // Two rounds make a group. Were the seventh allowed to decide, the trial would end with "too few operations".
    let world = World { rate: 600.0, tail_noise: 0.01, ..World::default() };
    let plan = plan(&["a=ext4", "b=ext4"], &[1], 3, |settings| {
        settings.decide_on = vec![Metric::P99];
        settings.rounds = Some(18);
    });
    let simulated = simulate(&plan, &world, none);
    let state = of_metric(&simulated, "b", "a", Metric::P99);
    assert_eq!(
        (state.verdict, state.rounds, simulated.measured(0)),
        (Outcome::Equivalent, 8, 16),
        "{state:?}"
    );
    assert_eq!(simulated.finished().reason, Reason::Settled);
}

#[test]
fn a_verdict_of_single_rounds_stays_when_later_ones_have_few_operations() {
    let plan = plan(&["a=ext4", "b=ext4"], &[1], 3, |_| {});
    let mut judge = Judge::new(&plan);
    let mut p99 = |round: u32, world: &World| {
        let sample = |cell: usize| {
            let task = plan.task(cell, round, Data::Random);
            let moment = Moment { run: 1, of_cell: 1, fault: None };
            let measured = measurement(world, plan.arm_name(cell), &task, moment);
            (cell, Ok(Sample::all(round, cell + 1, &measured).unwrap()))
        };
        judge.take(Round { number: round, is_resumed: false, runs: vec![sample(0), sample(1)] });
        judge.states().into_iter().find(|state| state.metric == Metric::P99).unwrap()
    };
    let before = (1..=9).map(|round| p99(round, &World::default())).last().unwrap();
    assert_eq!(before.verdict, Outcome::Equivalent);
    assert_eq!(p99(10, &World { rate: 100.0, ..World::default() }), before);
}

/// A random trial.
#[derive(Debug, Clone)]
struct Wild {
    arms: usize,
    levels: usize,
    budget: u64,
    rounds: Option<u32>,
    baseline: bool,
    quantile: bool,
    control: bool,
    seed: u64,
    noise: f64,
    rate: f64,
    /// One run in this many has a fault.
    one_in: u64,
}

prop_compose! {
    fn wild()(
        arms in 2_usize..=4, levels in 1_usize..=2, budget in 1_u64..=150,
        rounds in prop::option::weighted(0.2, 1_u32..=20), baseline: bool, quantile in prop::bool::weighted(0.3), control: bool,
        seed: u64, noise in prop_oneof![0.002..0.02, 0.02..0.3], rate in prop_oneof![100.0..1000.0, 1000.0..20000.0],
        one_in in prop_oneof![Just(u64::MAX), 5_u64..100],
    ) -> Wild {
        Wild { arms, levels, budget, rounds, baseline, quantile, control, seed, noise, rate, one_in }
    }
}

impl Wild {
    fn plan(&self) -> Plan {
        let arms = ["a=ext4", "b=ext4", "c=xfs", "d=btrfs"];
        plan(&arms[..self.arms], &[1, 4][..self.levels], self.seed, |settings| {
            settings.budget = Nanos::secs(self.budget);
            settings.rounds = self.rounds;
            settings.baseline = self.baseline.then(|| "b".into());
            settings.control = self.control;
            if self.quantile {
                settings.decide_on = vec![Metric::P99, Metric::P999];
            }
        })
    }

    fn world(&self) -> World {
        let slow = Character { speed: 0.7, tail: 2.0, overhead: Nanos::secs(3), ..ORDINARY };
        World {
            seed: self.seed,
            rate: self.rate,
            noise: self.noise,
            tail_noise: 3.0 * self.noise,
            arms: vec![("c", slow), ("d", faster(1.02))],
            ..World::default()
        }
    }
}

/// Faults of every kind, drawn from a seed; those that end a trial are rare.
pub(super) fn random_faults(seed: u64, one_in: u64) -> impl FnMut(&FaultSite<'_>) -> Option<Fault> {
    const COMMON: [Fault; 5] = [
        Fault::Killed,
        Fault::Hung(Nanos::secs(20)),
        Fault::Slow(Nanos::secs(7)),
        Fault::Killed,
        Fault::Fails(FailureKind::ArmFailed),
    ];
    const RARE: [Fault; 11] = [
        Fault::Interrupted,
        Fault::InterruptedLate,
        Fault::Fails(FailureKind::CleanUp),
        Fault::Fails(FailureKind::HostLacks),
        Fault::Fails(FailureKind::ArmRefused),
        Fault::Fails(FailureKind::LoadRefused),
        Fault::Fails(FailureKind::Lost),
        Fault::NoOperations,
        Fault::Truncated,
        Fault::NoTime,
        Fault::Silent,
    ];
    let mut random = ChaCha8Rng::seed_from_u64(!seed);
    move |requested| {
        let draw = |random: &mut ChaCha8Rng, of: u64| random.next_u64() % of;
        // Inspection mostly goes well, or no trial would begin.
        if draw(&mut random, one_in) > 0 || (requested.threads.is_none() && draw(&mut random, 10) > 0) {
            return None;
        }
        let pick = |random: &mut ChaCha8Rng, from: &[Fault]| from[draw(random, from.len() as u64) as usize];
        Some(if draw(&mut random, 8) > 0 { pick(&mut random, &COMMON) } else { pick(&mut random, &RARE) })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// `simulate` checks the stream: its form, the order of runs, who is not run any more, and the budget.
    #[test]
    fn random_faults_keep_trial_orderly_and_on_time(wild in wild()) {
        let plan = wild.plan();
        let simulated = simulate(&plan, &wild.world(), random_faults(wild.seed, wild.one_in));
        if let Ok(finished) = &simulated.ended {
            let begun = simulated.events.iter().filter(|event| matches!(event, SeenEvent::RoundStarted { .. })).count();
            // An interruption may leave the last one without a run.
            let is_empty = matches!(simulated.events.last(), Some(SeenEvent::RunStarted { slot: 1, .. } | SeenEvent::RunStage(_) | SeenEvent::VerdictsUpdated { .. }))
                && finished.rounds as usize + 1 == begun && finished.reason == Reason::Interrupted;
            prop_assert!(finished.rounds as usize == begun || is_empty);
            let empty = simulated.events.windows(2).any(|next| {
                matches!(next, [SeenEvent::RoundStarted { .. }, SeenEvent::VerdictsUpdated { .. } | SeenEvent::RoundStarted { .. }])
            });
            prop_assert!(!empty || finished.reason == Reason::Interrupted, "a round without a run");
            prop_assert!(wild.rounds.is_none_or(|most| finished.rounds <= most));
            if finished.reason == Reason::Settled {
                prop_assert!(simulated.states().iter().all(|state| !state.open));
            }
            let failed = simulated.events.iter().filter(
                |event| matches!(event, SeenEvent::RunEnded { failure: Some(FailureKind::ArmFailed), .. }));
            prop_assert_eq!(finished.all.failures().len(), failed.count());
        } else {
            prop_assert!(wild.one_in != u64::MAX, "{}", simulated.error());
        }
    }
}

/// With 8 rounds fixed before, the trial runs all of them and is decided by all of them, or not at all.
#[test]
fn non_sequential_trial_is_decided_after_last_round() {
    let once = |settings: &mut Settings| (settings.sequential, settings.rounds) = (false, Some(8));
    let plan = plan(&["a=ext4", "b=xfs"], &[1], 7, once);
    let world = World { arms: vec![("b", faster(1.5))], ..World::default() };
    let of = |simulated: &SimulatedTrial<'_>| of_metric(simulated, "b", "a", Metric::Throughput);
    let whole = simulate(&plan, &world, none);
    assert_eq!((whole.pairs(0, 1), of(&whole).verdict, of(&whole).rounds), (8, Outcome::Faster, 8));
    // Run 1 and 2 inspect the arms; the sixth round is interrupted.
    let cut = simulate(&plan, &world, |requested| (requested.run == 13).then_some(Fault::Interrupted));
    assert_eq!(cut.finished().reason, Reason::Interrupted);
    assert!(of(&cut).rounds >= 4 && of(&cut).verdict == Outcome::Undecided, "{:?}", of(&cut));
}
