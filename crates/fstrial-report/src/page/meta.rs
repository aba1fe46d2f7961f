//! Many hosts on a page: for each question its answer, a forest of hosts, and a table of them.

use super::{document, forest, head, list};
use crate::{
    meta::{self, HostReport, MetaDocument, QuestionReport},
    numbers::{self, counted},
};
use maud::{Markup, html};

/// Hosts up to which each has a row in the picture.
const DRAWN: usize = 50;
/// Hosts drawn at each end if there are more.
const ENDS: usize = 15;

pub fn page(result: &MetaDocument) -> String {
    let title = format!("{} of {}", counted(result.trials, "trial"), counted(result.hosts, "host"));
    let body = html! {
        header.top {
            h1 { (title) }
            div.answer {
                @for claim in &result.claims { p { (claim.line()) } }
                @if result.claims.is_empty() { @for question in &result.questions { p { (meta::title(question)) ": " (meta::answer(question)) } } }
            }
            p.sure {
                "Each host alternated all arms, so its ratio is valid there. Pooled, they speak for similar hosts: the \
                 mean ratio, the spread between hosts, and the range expected for the next host."
            }
            (list(&result.warnings))
        }
        @for question in &result.questions { (section(question)) }
        @if !result.left_out.is_empty() {
            section.trial {
                h2 { "Left out" }
                ul {
                    @for (reason, what) in &result.left_out {
                        li { (reason) ": " (numbers::first_of(what, 20)) }
                    }
                }
            }
        }
    };
    document(&title, &body)
}

fn section(question: &QuestionReport) -> Markup {
    let pooled = &question.pooled;
    html! {
        section.trial {
            h2 { (meta::title(question)) }
            p { (meta::answer(question)) @if let Some(next) = meta::prediction(pooled) { "; " (next) } "." }
            (list(&question.differs_in.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>()))
            figure {
                (forest::draw(&picture(question)))
                figcaption { (meta::spread(pooled)) "." }
            }
            (list(&meta::remarks(question)))
            details {
                summary { (counted(question.hosts.len(), "host")) }
                div.scroll tabindex="0" role="group" aria-label="Hosts" {
                    table.cells {
                        (head(&["host", "ratio", "rounds", "weight", "kernel", "processor"]))
                        tbody { @for host in &question.hosts { (row(host)) } }
                    }
                }
            }
        }
    }
}

fn row(host: &HostReport) -> Markup {
    html! {
        tr {
            th scope="row" { (host.host.name) }
            td { (numbers::with_interval(host.ratio, Some(host.interval), numbers::ratio_digits)) }
            td { (host.rounds) }
            td { (format!("{:.1} %", host.weight_percent)) }
            td { (host.kernel) }
            td { (host.processor) ", " (counted(host.cpus, "CPU")) }
        }
    }
}

fn picture(question: &QuestionReport) -> forest::Forest {
    let band = question.practical_percent / 100.0;
    let hosts = &question.hosts;
    let of_host = |host: &HostReport| mark(&host.host.name, host.ratio, host.interval, false);
    let mut rows: Vec<forest::ForestRow> = if hosts.len() <= DRAWN {
        hosts.iter().map(of_host).collect()
    } else {
        let mut ends: Vec<forest::ForestRow> =
            hosts[..ENDS].iter().chain(&hosts[hosts.len() - ENDS..]).map(of_host).collect();
        ends[ENDS].heading = Some(format!("… {} hosts between", hosts.len() - 2 * ENDS));
        ends
    };
    let pooled = &question.pooled;
    if let (Some(mean), Some(next)) = (pooled.interval, pooled.prediction) {
        rows.push(forest::ForestRow {
            heading: Some("together".into()),
            ..mark("all hosts", pooled.ratio, mean, true)
        });
        rows.push(mark("next host", pooled.ratio, next, false));
    }
    forest::Forest {
        finding: meta::answer(question),
        axis: match &question.part {
            Some(part) => format!("ratio: {}", part.expected.what),
            None => format!("ratio of {}, {} / {}", question.metric.name(), question.a, question.b),
        },
        scale: forest::Scale::Ratio(((1.0 + band).recip(), 1.0 + band)),
        rows,
    }
}

fn mark(name: &str, value: f64, interval: (f64, f64), is_sure: bool) -> forest::ForestRow {
    forest::ForestRow {
        heading: None,
        arms: Vec::new(),
        label: name.to_owned(),
        figure: numbers::with_interval(value, Some(interval), numbers::ratio_digits),
        value,
        interval: Some(interval),
        is_sure,
        then: None,
    }
}
