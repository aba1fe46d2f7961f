//! Explanations of verdicts on a page: the sentence, its parts, and flame graphs of the thread time of both arms.

use super::{
    cells,
    svg::{begun, px, text},
};
use crate::{
    evidence::{self, Explanation},
    flame::{self, Frame},
    numbers::nanos,
    plain,
};
use fstrial_model::evidence::Spent;
use maud::{Markup, html};
use unicode_width::UnicodeWidthStr;

/// Width of a flame graph in its units, on a page as wide as a text and a half.
const WIDTH: f64 = 900.0;
/// Height of a frame.
const HEIGHT: f64 = 16.0;
/// Room for a letter.
const LETTER: f64 = 6.6;
/// Frames narrower than this are left out.
const LEAST: f64 = 1.0;
/// Explanations with flame graphs on a page.
const MOST: usize = 12;

/// An explanation with its pictures.
pub(super) struct Panel {
    pub(super) explanation: Explanation,
    graphs: Option<Markup>,
}

impl Panel {
    /// The panels of explanations, in the same order as the time of their arms.
    pub(super) fn all(explanations: &[Explanation], spent: &[[Vec<Spent<'_>>; 2]]) -> Vec<Self> {
        let all = explanations.iter().zip(spent).enumerate();
        all.map(|(index, (explanation, spent))| Self {
            explanation: explanation.clone(),
            graphs: (index < MOST).then(|| graphs(explanation, spent)),
        })
        .collect()
    }

    pub(super) fn render(&self) -> Markup {
        let names = [&self.explanation.a, &self.explanation.b].map(|name| plain(name));
        let heading = evidence::heading(&self.explanation);
        let (first, rest) = heading.split_once('\n').unwrap_or((&heading, ""));
        html! {
            div.why {
                p { strong { (first) } " " (rest.trim()) }
                @for line in evidence::meanwhile(&self.explanation).into_iter().chain(evidence::device(&self.explanation)) {
                    p { (line) }
                }
                p.note { (evidence::basis(&self.explanation)) }
                @if self.explanation.rounds > 0 {
                    details {
                        summary { "Where the time of " (names[0]) " and " (names[1]) " went" }
                        (table("Parts of the thread time", &evidence::grid(&self.explanation)))
                        p.note {
                            "Share: of the difference in thread time per operation, with its 95 % interval. Parts that are smaller in \
                             the slower arm have negative shares."
                        }
                        @for rows in evidence::running_grids(&self.explanation) {
                            (table(&rows[0][0], &rows))
                        }
                        @for stack in evidence::first_stacks(&self.explanation) {
                            p.note { (evidence::place(stack)) }
                            pre.code tabindex="0" { (evidence::path(stack)) }
                        }
                        @if let Some(graphs) = &self.graphs { (graphs) }
                    }
                }
            }
        }
    }
}

fn table<const N: usize>(caption: &str, rows: &[[String; N]]) -> Markup {
    html! {
        @if let Some((headings, rows)) = rows.split_first() { (cells(caption, headings, rows, 0)) }
    }
}

/// Flame graphs of both, to one scale, and of their difference.
fn graphs(explanation: &Explanation, [of_a, of_b]: &[Vec<Spent<'_>>; 2]) -> Markup {
    let (a, b) = (plain(&explanation.a), plain(&explanation.b));
    let trees = [flame::tree(&a, of_a), flame::tree(&b, of_b)];
    let most = trees[0].time.max(trees[1].time);
    let difference = flame::difference([&a, &b], [of_a, of_b]);
    let titled = |tree: &Frame| format!("{}: {} per operation", tree.name, nanos(tree.time));
    let titles: Vec<String> = difference.children.iter().map(titled).collect();
    html! {
        h5 { "Thread time per operation by stack" }
        p.note {
            "Calls go downwards; the width is time, of both arms to the same scale. Point at a frame for its figures. The difference \
             has what each arm spends more than the other."
        }
        @for tree in &trees { (graph(tree, &titled(tree), most)) }
        (graph(&difference, &titles.join(", "), difference.time))
    }
}

/// A graph of which `most` is the whole width.
fn graph(tree: &Frame, title: &str, most: f64) -> Markup {
    let scale = WIDTH / most;
    let height = (levels(tree, scale) + 1) as f64 * HEIGHT;
    html! {
        div.scroll tabindex="0" role="group" aria-label={ "Flame graph of " (tree.name) } {
            svg.flame role="img" aria-label=(title) viewBox=(format!("0 0 {WIDTH} {}", px(height))) {
                (text(Some("heading"), 2.0, HEIGHT - 4.0, title))
                (frames(&tree.children, (0.0, HEIGHT), (scale, tree.time), "w"))
            }
        }
    }
}

/// Rows of frames that are wide enough.
fn levels(frame: &Frame, scale: f64) -> usize {
    let shown = frame.children.iter().filter(|child| child.time * scale >= LEAST);
    shown.map(|child| 1 + levels(child, scale)).max().unwrap_or(0)
}

fn frames(all: &[Frame], (left, top): (f64, f64), (scale, whole): (f64, f64), inherited: &str) -> Markup {
    let placed = all.iter().scan(left, |x, frame| {
        let at = *x;
        *x += frame.time * scale;
        Some((frame, at, frame.time * scale))
    });
    html! {
        @for (frame, at, width) in placed {
            @if width >= LEAST {
                @let class = class(&frame.name, inherited);
                @let room = ((width - 4.0) / LETTER) as usize;
                @let kept = if frame.name.width() > room { room.saturating_sub(1) } else { room };
                g {
                    title { (plain(&frame.name)) ": " (nanos(frame.time)) ", " (format!("{:.1} %", frame.time / whole * 100.0)) }
                    rect class=(class) x=(px(at)) y=(px(top)) width=(px(width)) height=(px(HEIGHT - 1.0)) {}
                    @if room >= 3 { (text(None, at + 2.0, top + HEIGHT - 5.0, &begun(&frame.name, kept))) }
                }
                (frames(&frame.children, (at, top + HEIGHT), (scale, whole), class))
            }
        }
    }
}

/// The colour of a frame is that of its kind.
fn class<'c>(name: &str, inherited: &'c str) -> &'c str {
    match name {
        flame::RUNNING => "p",
        flame::WAITING => "w",
        flame::RUNNABLE => "q",
        _ => inherited,
    }
}
