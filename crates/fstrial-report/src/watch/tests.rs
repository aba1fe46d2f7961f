//! The picture at every size and stage of a trial, as snapshots.

use super::{
    look::Look,
    model::{LastRun, Model},
    view::{self, Choices, Move, Pane},
};
use fstrial_model::{
    arm::Arm,
    job::{FailureKind, RunFailure},
    measurement::Stage,
    metric::Metric,
    trial::{Settings, Trial},
    workload::Entry,
};
use fstrial_run::{
    contrast::{ContrastState, Outcome},
    course::CoursePoint,
    judge::Judge,
    plan::Plan,
};
use ratatui::{Terminal, backend::TestBackend, buffer::Buffer};
use unicode_width::UnicodeWidthStr;

fn plan(arms: &[&str], threads: &[u16]) -> Plan {
    let trial = Trial {
        trial: Settings { name: "is it faster?".into(), ..Settings::default() },
        arms: arms.iter().map(|text| text.parse::<Arm>().unwrap()).collect(),
        workloads: vec![Entry { threads: Some(threads.to_vec()), ..Entry::of_preset("random-write") }],
        ..Trial::default()
    };
    Plan::new(trial.settled(4).unwrap(), 7).unwrap()
}

/// A trial that runs, before its first round.
fn fresh(plan: &Plan) -> Model {
    let mut model = Model::new(plan);
    model.trial = Some(12);
    model.device = "image of 4 GiB in /srv, direct I/O".into();
    model.ends_at = Some(300.0);
    model.now = Some(("built ext4 once to look at it".into(), 58.0));
    model
}

/// Some noise that is the same everywhere.
fn noise(n: u32) -> f64 {
    f64::from(n.wrapping_mul(2_654_435_761) >> 8) / f64::from(1_u32 << 24) - 0.5
}

/// Rounds in which contrast `n` has the ratio `truth(n)`, give or take some per cent.
fn run(model: &mut Model, plan: &Plan, rounds: u32, truth: impl Fn(usize) -> f64) {
    let mut states = Judge::new(plan).states();
    model.round = rounds;
    for round in 1..=rounds {
        let half = 0.5 / f64::from(round);
        let mut points = Vec::new();
        for (n, state) in states.iter_mut().enumerate() {
            let place = u32::try_from(n).unwrap();
            let estimate = truth(n) * (1.0 + 0.02 * noise(round + 31 * place));
            let interval = (round >= 4).then_some((estimate * (1.0 - half), estimate * (1.0 + half)));
            decide(state, estimate, interval, round);
            let ratio = Some(truth(n) * (1.0 + 0.1 * noise(97 * round + place)));
            points.push(CoursePoint { round, ratio, estimate: Some(estimate), interval });
        }
        for cell in 0..plan.cells.len() {
            let threads = f64::from(plan.cells[cell].threads);
            let arm = u32::try_from(plan.cells[cell].arm).unwrap();
            let rate = 1000.0 * threads.sqrt() * (1.0 + 0.2 * f64::from(arm));
            model.take_rates(cell, [rate * (1.0 + 0.08 * noise(round * 13 + arm))]);
        }
        model.take_round(&states, &points);
    }
}

fn decide(state: &mut ContrastState, ratio: f64, interval: Option<(f64, f64)>, round: u32) {
    let (low, high) = interval.unwrap_or((0.0, 9.0));
    state.verdict = match () {
        () if low > 1.0 && state.metric == Metric::Throughput => Outcome::Faster,
        () if high < 1.0 => Outcome::Slower,
        () if low > 0.95 && high < 1.05 => Outcome::Equivalent,
        () => Outcome::Undecided,
    };
    (state.ratio, state.interval, state.rounds) = (Some(ratio), interval, round as usize);
    state.open = state.holds_open && state.verdict == Outcome::Undecided;
    state.rounds_needed =
        (state.verdict == Outcome::Undecided).then_some((u64::from(round) + 4, u64::from(round) + 9));
}

const LOOK: Look = Look { unicode: true, colour: true };

fn drawn(model: &Model, choices: &mut Choices, look: Look, (width, height): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, model, choices, look, 62.0)).unwrap();
    terminal.backend().buffer().clone()
}

/// The picture as text; a wide character covers the cell behind it.
fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let mut lines = Vec::new();
    for row in buffer.content.chunks(width) {
        let (mut line, mut covered) = (String::new(), 0);
        for cell in row {
            if covered > 0 {
                covered -= 1;
                continue;
            }
            line += cell.symbol();
            covered = cell.symbol().width().saturating_sub(1);
        }
        assert_eq!(line.width(), width, "a line that does not fit: {line}");
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

fn shown(model: &Model, size: (u16, u16)) -> String {
    text(&drawn(model, &mut Choices::default(), LOOK, size))
}

#[test]
fn before_the_first_round() {
    let plan = plan(&["ext4", "xfs"], &[1, 4]);
    insta::assert_snapshot!(shown(&fresh(&plan), (80, 24)));
}

#[test]
fn narrow_list_shows_distinct_contrast_titles() {
    let plan = plan(&["ext4", "xfs"], &[1, 4, 16]);
    let mut model = fresh(&plan);
    run(&mut model, &plan, 7, |_| 1.42);
    let narrow = shown(&model, (60, 24));
    for title in ["xfs / ext4 @1 ", "xfs / ext4 @4 ", "xfs / ext4 @16 "] {
        assert!(narrow.contains(title), "lacks `{title}`:\n{narrow}");
    }
}

#[test]
fn renders_running_trial() {
    let plan = plan(&["ext4", "xfs", "btrfs"], &[1, 4, 16]);
    let mut model = fresh(&plan);
    run(&mut model, &plan, 7, |n| [1.42, 1.01, 0.7][n % 3]);
    model.runs = (4, 9);
    model.now = Some(("run 5 · xfs · random-write · 4 threads · load".into(), 59.0));
    insta::assert_snapshot!("running_80x24", shown(&model, (80, 24)));
    insta::assert_snapshot!("running_120x40", shown(&model, (120, 40)));
    let mut choices = Choices::default();
    choices.go(Move::NextPane, 9);
    assert_eq!(choices.pane, Pane::Threads);
    insta::assert_snapshot!("threads_80x24", text(&drawn(&model, &mut choices, LOOK, (80, 24))));
}

#[test]
fn decided_in_ascii_without_colours() {
    let plan = plan(&["ext4", "xfs"], &[1, 4]);
    let mut model = fresh(&plan);
    run(&mut model, &plan, 14, |n| [1.42, 0.8, 1.0, 1.3][n % 4]);
    (model.status, model.ends_at, model.now) = ("decided".into(), None, None);
    model.advice = Some("this trial is over; `fstrial report 12 --format text` prints its answer".into());
    let look = Look { unicode: false, colour: false };
    let buffer = drawn(&model, &mut Choices::default(), look, (80, 24));
    insta::assert_snapshot!(text(&buffer));
    assert!(buffer.content.iter().all(|cell| cell.symbol().is_ascii()));
    let reset = ratatui::style::Color::Reset;
    assert!(buffer.content.iter().all(|cell| cell.fg == reset && cell.bg == reset));
}

#[test]
fn renders_failed_and_unsupported_arms() {
    let plan = plan(&["ext4", "xfs", "btrfs"], &[1]);
    let mut model = fresh(&plan);
    run(&mut model, &plan, 2, |_| 1.1);
    let mut states: Vec<ContrastState> = model.contrasts.iter().map(|line| line.state.clone()).collect();
    for (state, verdict) in states.iter_mut().zip([Outcome::Failed, Outcome::Unsupported]) {
        (state.verdict, state.ratio, state.interval, state.open) = (verdict, None, None, false);
    }
    let gone = CoursePoint { round: 3, ratio: None, estimate: None, interval: None };
    model.take_round(&states, &vec![gone; states.len()]);
    let failure = RunFailure {
        kind: FailureKind::ArmFailed,
        stage: Stage::Load,
        what: "Input/output error".into(),
        hint: None,
    };
    model.take_outcome("xfs · random-write · 1 thread", 3, Err(&failure));
    let mut choices = Choices { pane: Pane::Messages, ..Choices::default() };
    insta::assert_snapshot!(text(&drawn(&model, &mut choices, LOOK, (80, 24))));
}

#[test]
fn sixty_four_contrasts_scroll() {
    let threads: Vec<u16> = (1..=32).collect();
    let plan = plan(&["ext4", "xfs"], &threads);
    let mut model = fresh(&plan);
    run(&mut model, &plan, 5, |n| 1.0 + 0.01 * f64::from(u32::try_from(n).unwrap()));
    assert_eq!(model.contrasts.len(), 64);
    let mut choices = Choices::default();
    let rows = |choices: &mut Choices| text(&drawn(&model, choices, LOOK, (80, 24)));
    assert!(rows(&mut choices).contains("contrasts 1–6 of 64"));
    for to in [Move::PageDown, Move::Down, Move::Down, Move::Up] {
        choices.go(to, 64);
    }
    assert_eq!(choices.selected, 7);
    let page = rows(&mut choices);
    assert!(page.contains("contrasts 3–8 of 64") && page.contains("\n▸"), "{page}");
    assert!(page.lines().any(|line| line.starts_with('▸') && line.contains("xfs / ext4 @8")), "{page}");
    choices.go(Move::Bottom, 64);
    assert!(rows(&mut choices).contains("contrasts 59–64 of 64"));
    choices.go(Move::Down, 64);
    assert_eq!(choices.selected, 63, "there is none after the last");
    choices.go(Move::Top, 64);
    assert!(rows(&mut choices).contains("contrasts 1–6 of 64"));
    // Fewer than before, as when another trial is shown.
    choices.go(Move::Bottom, 64);
    let small = fresh(&self::plan(&["ext4", "xfs"], &[1]));
    drawn(&small, &mut choices, LOOK, (80, 24));
    assert_eq!(choices.selected, small.contrasts.len() - 1);
}

#[test]
fn small_terminal_prints_required_size() {
    let model = fresh(&plan(&["ext4", "xfs"], &[1]));
    insta::assert_snapshot!(shown(&model, (40, 10)));
    for size in [(1, 1), (59, 40), (200, 15), (3, 50)] {
        shown(&model, size);
    }
    assert!(shown(&model, view::MIN_TERMINAL).contains("contrasts"));
}

#[test]
fn every_pane_fits_every_size() {
    let plan = plan(&["ext4", "xfs", "btrfs"], &[1, 4, 16]);
    let mut model = fresh(&plan);
    run(&mut model, &plan, 30, |n| [1.42, 0.001, 900.0][n % 3]);
    let operations = (0..600).map(|n| 100 + n % 7).collect();
    model.last_run = Some(LastRun { title: "xfs · random-write".into(), operations, step: 0.01 });
    for width in (60..240).step_by(17) {
        for height in (16..70).step_by(9) {
            for step in 0..8 {
                let mut choices = Choices { help: step >= 4, ..Choices::default() };
                (0..step % 4).for_each(|_| choices.go(Move::NextPane, 9));
                text(&drawn(&model, &mut choices, LOOK, (width, height)));
            }
        }
    }
    let mut choices = Choices { pane: Pane::LastRun, help: true, ..Choices::default() };
    insta::assert_snapshot!("help_80x24", text(&drawn(&model, &mut choices, LOOK, (80, 24))));
    choices.help = false;
    insta::assert_snapshot!("last_run_80x24", text(&drawn(&model, &mut choices, LOOK, (80, 24))));
}

#[test]
fn hostile_names_render_without_control_characters() {
    let plan = plan(&["ext4", "xfs"], &[1]);
    let mut model = fresh(&plan);
    let mut states: Vec<ContrastState> = model.contrasts.iter().map(|line| line.state.clone()).collect();
    states[0].a = "\u{1b}]0;owned\u{7}\u{1b}[2Jxfs\r\n\u{202e}".into();
    states[0].b = "文件系统文件系统文件系统文件系统文件系统文件系统文件系统".into();
    let point = CoursePoint { round: 1, ratio: Some(1.2), estimate: Some(1.2), interval: None };
    model.take_round(&states, &vec![point; states.len()]);
    model.say("\u{1b}[31mred\u{9b}0m\u{200b}");
    let mut choices = Choices { pane: Pane::Messages, ..Choices::default() };
    let picture = text(&drawn(&model, &mut choices, LOOK, (80, 24)));
    insta::assert_snapshot!("hostile_names", picture);
    assert!(!picture.chars().any(|c| c != '\n' && c.is_control()));
}
