//! Explanations of verdicts on a page: the sentence, its parts, and flame graphs of the thread time of both arms.

use super::{
    head,
    svg::{px, text},
};
use crate::{
    evidence::{self, Explanation},
    flame::Frame,
    numbers::nanos,
    plain,
};
use fstrial_model::evidence::Spent;
use maud::{Markup, html};

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
        let heading = evidence::heading(&self.explanation, [&names[0], &names[1]]);
        let (first, rest) = heading.split_once('\n').unwrap_or((&heading, ""));
        html! {
            div.why {
                h4 { "Why" }
                p { strong { (first) } " " (rest.trim()) }
                @if let Some(line) = evidence::meanwhile(&self.explanation) { p { (line) } }
                p.note { (evidence::basis(&self.explanation)) }
                @if self.explanation.rounds > 0 {
                    details {
                        summary { "Where the time of " (names[0]) " and " (names[1]) " went" }
                        (table("Parts of the thread time", evidence::grid(&self.explanation)))
                        @for rows in evidence::running_grids(&self.explanation) {
                            (table("Time on a processor", rows))
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

fn table<const N: usize>(caption: &str, rows: Vec<[String; N]>) -> Markup {
    let mut rows = rows.into_iter();
    let headings: Vec<String> = rows.next().into_iter().flatten().collect();
    html! {
        div.scroll tabindex="0" role="group" aria-label=(caption) {
            table.cells {
                caption.unseen { (caption) }
                (head(&headings))
                tbody {
                    @for row in rows {
                        tr {
                            @for (column, text) in row.iter().enumerate() {
                                @if column == 0 { th scope="row" { (text) } } @else { td { (text) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Flame graphs of both, to one scale, and of their difference.
fn graphs(explanation: &Explanation, [of_a, of_b]: &[Vec<Spent<'_>>; 2]) -> Markup {
    let (a, b) = (plain(&explanation.a), plain(&explanation.b));
    let trees = [crate::flame::tree(&a, of_a), crate::flame::tree(&b, of_b)];
    let most = trees[0].time.max(trees[1].time);
    let difference = crate::flame::difference([&a, &b], [of_a, of_b]);
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
                @let room = (width - 4.0) / LETTER;
                g {
                    title { (plain(&frame.name)) ": " (nanos(frame.time)) ", " (format!("{:.1} %", frame.time / whole * 100.0)) }
                    rect class=(class) x=(px(at)) y=(px(top)) width=(px(width)) height=(px(HEIGHT - 1.0)) {}
                    @if room >= 3.0 { (text(None, at + 2.0, top + HEIGHT - 5.0, &fitted(&frame.name, room))) }
                }
                (frames(&frame.children, (at, top + HEIGHT), (scale, whole), class))
            }
        }
    }
}

/// The colour of a frame is that of its kind.
fn class<'c>(name: &str, inherited: &'c str) -> &'c str {
    match name {
        "on a processor" => "p",
        "waiting" => "w",
        "waiting for a processor" => "q",
        _ => inherited,
    }
}

/// The beginning of a name, for that many letters.
fn fitted(name: &str, room: f64) -> String {
    let count = name.chars().count();
    if count as f64 <= room {
        return name.to_owned();
    }
    let kept = (room - 1.0).max(1.0);
    let short: String =
        name.chars().enumerate().take_while(|(at, _)| (*at as f64) + 1.0 <= kept).map(|(_, c)| c).collect();
    format!("{short}…")
}
