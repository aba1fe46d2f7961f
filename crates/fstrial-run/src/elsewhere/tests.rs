//! Tables that are judged: all rounds, orders, unpaired groups, the sequential rule.

use super::*;

/// A table of arms `a` (100) and `b` with these values, with the places of both in each round.
fn table(b: &[f64], order: impl Fn(usize) -> Option<(f64, f64)>) -> Table {
    let mut values = Vec::new();
    for (round, value) in b.iter().enumerate() {
        let (of_a, of_b) = order(round).unzip();
        let plain = Value { arm: 0, quantity: 0, round: Some(round), order: of_a, value: 100.0 };
        values.extend([plain, Value { arm: 1, order: of_b, value: *value, ..plain }]);
    }
    Table {
        arms: ["a", "b"].map(str::to_owned).to_vec(),
        quantities: vec![Quantity {
            workload: String::new(),
            metric: String::new(),
            unit: String::new(),
            less_is_better: false,
        }],
        values,
        rounds: Some(b.len()),
        is_list: true,
    }
}

const ONCE: Settings = Settings { practical: Percent(3.0), base: None, is_sequential: false };

fn result(table: &Table) -> Finding {
    judge(table, &ONCE).remove(0)
}

/// Like drawn: no run of equals, no turns.
const DRAWN: [bool; 8] = [true, false, false, true, true, false, true, false];

fn drawn(round: usize) -> Option<(f64, f64)> {
    Some(if DRAWN[round % 8] { (1.0, 2.0) } else { (2.0, 1.0) })
}

fn late() -> Vec<f64> {
    (0..40).map(|round| if round < 8 { 110.0 } else { 60.0 }).collect()
}

#[test]
fn all_rounds_are_used() {
    let result = result(&table(&late(), drawn));
    assert_eq!((result.verdict, result.rounds, result.values), (Outcome::Slower, Some(40), [40, 40]));
    assert!((result.ratio.unwrap() - 0.6).abs() < 1e-9 && (result.total_ratio.unwrap() - 0.7).abs() < 1e-9);
    assert_eq!((result.a.as_str(), result.b.as_str()), ("b", "a"), "the arm named first is the base");
}

#[test]
fn sequential_result_reports_stop_and_all_rounds() {
    let settings = Settings { is_sequential: true, ..ONCE };
    let result = judge(&table(&late(), drawn), &settings).remove(0);
    assert_eq!((result.verdict, result.method), (Outcome::Faster, Method::Sequential));
    assert!(result.rounds.unwrap() <= 8, "{result:?}");
    let all = result.over_all.unwrap();
    assert_eq!((all.verdict, all.rounds), (Outcome::Slower, 40));
}

#[test]
fn detects_unrandomized_arm_orders() {
    let values = vec![110.0; 12];
    let order = |order: &dyn Fn(usize) -> Option<(f64, f64)>| result(&table(&values, order)).order;
    let step = |round: usize| f64::from(u32::try_from(round).unwrap());
    assert_eq!(order(&drawn), ArmOrder::Varied);
    assert_eq!(order(&|_| None), ArmOrder::Unknown);
    assert_eq!(order(&|_| Some((1.0, 1.0))), ArmOrder::Unknown);
    // a is the base, so it is the contrast's `b`.
    assert_eq!(order(&|_| Some((1.0, 2.0))), ArmOrder::BFirst);
    assert_eq!(order(&|_| Some((2.0, 1.0))), ArmOrder::AFirst);
    assert_eq!(order(&|round| Some((step(round), step(round) + 12.0))), ArmOrder::AllOfBFirst);
    assert_eq!(order(&|round| Some((step(round) + 12.0, step(round)))), ArmOrder::AllOfAFirst);
    let turns = |round: usize| Some(if round.is_multiple_of(2) { (1.0, 2.0) } else { (2.0, 1.0) });
    assert_eq!(order(&turns), ArmOrder::Alternating);
    let few = |rounds| result(&table(&values[..rounds], |_| Some((1.0, 2.0)))).order;
    assert_eq!((few(3), few(4)), (ArmOrder::Varied, ArmOrder::BFirst));
    let nearly = vec![110.0; 30];
    assert_eq!(
        result(&table(&nearly, |round| Some(if round == 9 { (2.0, 1.0) } else { (1.0, 2.0) }))).order,
        ArmOrder::BFirst
    );
}

#[test]
fn rows_of_one_arm_after_the_other_are_seen_without_a_column() {
    let mut listed = table(&[110.0; 8], |_| None);
    listed.values.sort_by_key(|value| value.arm);
    assert_eq!(result(&listed).order, ArmOrder::AllOfBFirst);
    listed.is_list = false;
    assert_eq!(result(&listed).order, ArmOrder::Unknown);
}

#[test]
fn less_is_better_turns_the_verdict_and_not_the_ratio() {
    let mut times = table(&late(), drawn);
    times.quantities[0].less_is_better = true;
    let result = result(&times);
    assert_eq!(result.verdict, Outcome::Faster);
    assert!((result.ratio.unwrap() - 0.6).abs() < 1e-9 && (result.total_ratio.unwrap() - 0.7).abs() < 1e-9);
}

#[test]
fn values_without_rounds_are_not_paired() {
    let mut groups = table(&[104.0, 101.0, 102.0, 103.5, 101.5, 102.5], |_| None);
    groups.rounds = None;
    groups.values.iter_mut().for_each(|value| value.round = None);
    let shuffled = {
        let mut shuffled = groups.clone();
        shuffled.values.reverse();
        shuffled
    };
    let once = result(&groups);
    assert_eq!((once.method, once.order, once.rounds), (Method::RankSum, ArmOrder::Unpaired, None));
    assert_eq!((once.verdict, once.values), (Outcome::Faster, [6, 6]));
    let other = result(&shuffled);
    assert_eq!((once.ratio, once.interval), (other.ratio, other.interval), "any order of rows");
}

#[test]
fn incomplete_round_is_excluded_from_its_pair() {
    let mut table = table(&[110.0; 9], drawn);
    table.values.retain(|value| !(value.arm == 1 && value.round == Some(4)));
    let result = result(&table);
    assert_eq!((result.rounds, result.values), (Some(8), [8, 9]));
}

#[test]
fn base_restricts_comparisons_to_its_own() {
    let mut table = table(&[110.0; 8], drawn);
    table.arms.push("c".into());
    let third: Vec<Value> =
        table.values.iter().filter(|v| v.arm == 1).map(|v| Value { arm: 2, ..*v }).collect();
    table.values.extend(third);
    let names = |base| {
        let result = judge(&table, &Settings { base, ..ONCE });
        result.iter().map(|result| format!("{}/{}", result.a, result.b)).collect::<Vec<_>>()
    };
    assert_eq!(names(None), ["b/a", "c/a", "c/b"]);
    assert_eq!(names(Some(1)), ["a/b", "c/b"]);
    assert_eq!(size(&table, &ONCE), (3, 3 * 16));
    assert_eq!(size(&table, &Settings { base: Some(1), ..ONCE }), (2, 2 * 16));
}

#[test]
fn undecided_comparison_reports_closeness_and_its_interval() {
    // 1 % more, give or take 8: no difference is shown, and none of 3 % is excluded.
    let values: Vec<f64> = (0..18).map(|round| 101.0 + [0.2, 7.8, -8.0, 4.4, -3.4, 1.6][round % 6]).collect();
    let result = result(&table(&values, drawn));
    assert_eq!((result.verdict, result.within_percent, result.near), (Outcome::Undecided, Some(5.0), true));
    assert!((result.interval_level - 0.9).abs() < 1e-9, "{result:?}");
    let (low, high) = result.interval.unwrap();
    assert!(low > 1.0 / 1.05 && high < 1.05, "{result:?}");
}

#[test]
fn workloads_may_have_rounds_of_their_own() {
    let mut both = table(&[110.0; 8], drawn);
    both.quantities.push(Quantity { workload: "other".into(), ..both.quantities[0].clone() });
    let later = |value: &Value| Value { quantity: 1, round: value.round.map(|round| round + 8), ..*value };
    let others: Vec<Value> = both.values.iter().map(later).collect();
    both.values.extend(others);
    both.rounds = Some(16);
    let result = judge(&both, &ONCE);
    assert_eq!(
        result.iter().map(|result| (result.verdict, result.rounds)).collect::<Vec<_>>(),
        [(Outcome::Faster, Some(8)); 2]
    );
}
