//! The pages that are not reports: the list with its search, trends, and errors. No script; every text is escaped by
//! the templates.

use super::guard::PageRequest;
use crate::cli::{
    filter,
    results::{about::About, list::hidden_in_words},
};
use fstrial_model::metric::{METRICS, Metric};
use fstrial_report::{
    page,
    trend::{
        ChangeReport, SeriesReport, StepReport, TrendDocument, percent, place, rounded_up, size, sureness,
        title, value,
    },
};
use fstrial_run::numbers::counted;
use fstrial_store::TrialSummary;
use maud::{DOCTYPE, Markup, html};
use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

/// Trials on a page: each is judged again for it.
const PER_PAGE: usize = 40;
/// Texts that a field offers.
const MOST_OFFERED: usize = 200;
/// Fields of the search, with their words and an example.
const FIELDS: [(&str, &str, &str); 9] = [
    ("name", "name", "nightly"),
    ("arm", "arm", "xfs*"),
    ("workload", "workload", "append-fsync"),
    ("tag", "tag", "nightly"),
    ("host", "host", "lab1"),
    ("kernel", "kernel", "6.12"),
    ("since", "from", "2026-01-31"),
    ("until", "to", "2026-02-28"),
    ("status", "status", ""),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sort {
    column: usize,
    falling: bool,
}

type Compare = fn(&TrialSummary, &TrialSummary) -> Ordering;

/// The columns that a list can be sorted by: name in addresses, heading, order.
const COLUMNS: [(&str, &str, Compare); 8] = [
    ("id", "trial", |a, b| a.id.cmp(&b.id)),
    ("started", "began (UTC)", |a, b| a.started_at.cmp(&b.started_at)),
    ("name", "name", |a, b| a.name.cmp(&b.name)),
    ("status", "status", |a, b| a.status.name().cmp(b.status.name())),
    ("rounds", "rounds", |a, b| a.rounds.cmp(&b.rounds)),
    ("runs", "runs", |a, b| a.runs.cmp(&b.runs)),
    ("host", "host", |a, b| a.host.cmp(&b.host)),
    ("kernel", "kernel", |a, b| a.kernel.cmp(&b.kernel)),
];

impl Sort {
    /// From an address: `name`, or `-name` for falling. The latest first for an unknown value.
    pub(super) fn of(text: &str) -> Self {
        let (falling, name) = text.strip_prefix('-').map_or((false, text), |name| (true, name));
        let column = COLUMNS.iter().position(|(known, ..)| *known == name);
        column.map_or(Self { column: 0, falling: true }, |column| Self { column, falling })
    }

    pub(super) fn apply(self, trials: &mut [TrialSummary]) {
        let compare = COLUMNS[self.column].2;
        // Stable, and the oldest first so far.
        trials.sort_by(|a, b| if self.falling { compare(b, a).then(b.id.cmp(&a.id)) } else { compare(a, b) });
    }

    fn name(self) -> String {
        format!("{}{}", if self.falling { "-" } else { "" }, COLUMNS[self.column].0)
    }
}

fn frame(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · fstrial" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/pictures.css";
                link rel="stylesheet" href="/style.css";
            }
            body {
                a.skip href="#main" { "to the content" }
                nav aria-label="pages" { a href="/" { "trials" } a href="/trend" { "trends" } }
                main #main {
                    h1 { (title) }
                    (body)
                }
            }
        }
    }
}

/// The problem, and the remedy.
pub(super) fn trouble(message: &str, hint: Option<&str>) -> Markup {
    frame(
        "That did not work",
        &html! {
            p.trouble { (message) }
            @if let Some(hint) = hint { p { "Try: " (hint) } }
            p { a href="/" { "all trials" } }
        },
    )
}

/// Suggestions for the fields of a search, by their names.
pub(super) type Offers = BTreeMap<&'static str, BTreeSet<String>>;

/// The shown part of the list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sheet {
    /// Trials in all.
    all: usize,
    /// From 1.
    page: usize,
    pages: usize,
}

impl Sheet {
    pub(super) fn of(trials: &[TrialSummary], page: usize) -> Self {
        let pages = trials.len().div_ceil(PER_PAGE).max(1);
        Self { all: trials.len(), page: page.clamp(1, pages), pages }
    }

    pub(super) fn shown(self, trials: &[TrialSummary]) -> &[TrialSummary] {
        let from = (self.page - 1) * PER_PAGE;
        &trials[from..(from + PER_PAGE).min(trials.len())]
    }
}

/// A trial with its status as a word and its subject.
pub(super) type ListRow<'a> = (&'a TrialSummary, &'static str, About);

/// The list with its search. `shown` are those on this page, in order; `hidden` never ran a round.
pub(super) fn list(
    shown: &[ListRow<'_>],
    offers: &Offers,
    sheet: &Sheet,
    hidden: usize,
    request: &PageRequest,
    sort: Sort,
) -> Markup {
    let Sheet { all, page, pages } = *sheet;
    let link = |page: usize| address(request, &[("sort", &sort.name()), ("page", &page.to_string())]);
    let body = html! {
        (search(request, offers, "/", &html! {}))
        @if let Some(line) = hidden_in_words(hidden) {
            p.quiet { (line) ". " a href=(address(request, &[("all", "1"), ("page", "")])) { "Show all" } }
        }
        @if shown.is_empty() {
            p { "No trial matches. " a href="/" { "All trials" } }
        } @else {
            p {
                (counted(all, "trial"))
                @if pages > 1 { ", page " (page) " of " (pages) }
            }
            form action="/compare" method="get" {
                div.wide {
                    table {
                        thead { tr {
                            th scope="col" { span.unseen { "compare" } }
                            @for (index, (name, heading, _)) in COLUMNS.iter().enumerate() {
                                (column_head(request, sort, index, name, heading))
                            }
                            th scope="col" { "workloads, device" }
                            th scope="col" { "arms" }
                            th scope="col" { "tags" }
                        } }
                        tbody { @for listed in shown { (row(listed)) } }
                    }
                }
                p { button type="submit" { "compare those ticked" } " (2 to 8)" }
            }
            @if pages > 1 {
                p.pages {
                    @if page > 1 { a rel="prev" href=(link(page - 1)) { "← before" } }
                    @if page < pages { a rel="next" href=(link(page + 1)) { "after →" } }
                }
            }
        }
    };
    frame("Trials", &body)
}

fn column_head(request: &PageRequest, sort: Sort, index: usize, name: &str, heading: &str) -> Markup {
    let is_current = sort.column == index;
    let order = match (is_current, sort.falling) {
        (true, true) => Some("descending"),
        (true, false) => Some("ascending"),
        (false, _) => None,
    };
    let next = if is_current && !sort.falling { format!("-{name}") } else { name.to_owned() };
    html! {
        th scope="col" aria-sort=[order] {
            a href=(address(request, &[("sort", &next), ("page", "")])) { (heading) }
            @if is_current { span aria-hidden="true" { @if sort.falling { " ↓" } @else { " ↑" } } }
        }
    }
}

fn row((trial, status, about): &ListRow<'_>) -> Markup {
    let id = trial.id;
    let name = if trial.name.is_empty() { "(no name)" } else { &trial.name };
    html! {
        tr {
            td { input type="checkbox" name="trial" value=(id) aria-label={ "compare trial " (id) }; }
            td.number { a href={ "/trial/" (id) } { (id) } }
            td { (trial.started_at.get(..16).unwrap_or(&trial.started_at).replace('T', " ")) }
            td {
                a href={ "/trial/" (id) } { (name) } " " a.quiet href={ "/trial/" (id) "/text" } { "text" }
                @if let Some(answer) = &about.answer { br; (answer) }
            }
            td { (status) @if trial.failed_runs > 0 { ", " (trial.failed_runs) " failed" } }
            td.number { (trial.rounds) }
            td.number { (trial.runs) }
            td { (trial.host.as_deref().unwrap_or_default()) }
            td { (trial.kernel.as_deref().unwrap_or_default()) }
            td { (about.workloads_in_short()) br; (about.device) }
            td { (trial.arms.join(", ")) }
            td { (trial.tags.join(", ")) }
        }
    }
}

/// A field with suggestions.
fn field(request: &PageRequest, offers: &Offers, name: &str, words: &str, example: &str) -> Markup {
    let offered = offers.get(name).filter(|texts| !texts.is_empty());
    let list = offered.map(|_| format!("there-is-{name}"));
    html! {
        label {
            (words)
            input type="search" name=(name) value=(request.get(name).unwrap_or_default()) placeholder=(hint_of(example)) list=[list.as_deref()];
        }
        @if let (Some(texts), Some(list)) = (offered, &list) {
            datalist id=(list) { @for text in texts.iter().take(MOST_OFFERED) { option value=(text) {} } }
        }
    }
}

/// The search form, with the current query.
fn search(request: &PageRequest, offers: &Offers, action: &str, more: &Markup) -> Markup {
    let is_trend = action != "/";
    html! {
        form.search action=(action) method="get" role="search" {
            (more)
            @for (name, words, example) in FIELDS.iter().filter(|(name, ..)| !(is_trend && *name == "arm")) {
                @if *name == "status" {
                    label {
                        (words)
                        select name=(name) {
                            option value="" { "any" }
                            @for status in filter::statuses() {
                                option value=(status) selected[request.get(name) == Some(status)] { (status) }
                            }
                        }
                    }
                } @else {
                    (field(request, offers, name, words, example))
                }
            }
            button type="submit" { "search" }
        }
    }
}

/// An example in an empty field, which must not look like a query.
fn hint_of(example: &str) -> String {
    format!("e.g. {example}")
}

/// The address of this page with some parameters changed; empty ones are left out.
fn address(request: &PageRequest, changed: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    let kept = request.query.iter().filter(|(name, _)| changed.iter().all(|(other, _)| other != name));
    let kept = kept.map(|(name, value)| (name.as_str(), value.as_str()));
    query.extend_pairs(kept.chain(changed.iter().copied()).filter(|(_, value)| !value.is_empty()));
    let query = query.finish();
    if query.is_empty() { request.path.clone() } else { format!("{}?{query}", request.path) }
}

/// The form for a trend, and the trend if one was request.
pub(super) fn trend(document: Option<&TrendDocument>, offers: &Offers, request: &PageRequest) -> Markup {
    let metric = request.get("metric").unwrap_or(Metric::Throughput.name());
    let by = request.get("by").unwrap_or("time");
    let text = |name, words, example| field(request, offers, name, words, example);
    let choice = |name: &'static str, words: &str, current: &str, all: &[&str]| {
        html! {
            label { (words) select name=(name) {
                @for one in all { option value=(one) selected[*one == current] { (one) } }
            } }
        }
    };
    let more = html! {
        (text("arm", "arm", "xfs"))
        (text("against", "against", "ext4"))
        (choice("metric", "metric", metric, &METRICS.map(|row| row.name)))
        (choice("by", "order", by, &["time", "kernel", "version"]))
        (text("threads", "threads", "4"))
    };
    let body = html! {
        (search(request, offers, "/trend", &more))
        @match document {
            None => { p { "Name an arm, and one of the same trials to measure it against." } }
            Some(document) if document.series.is_empty() => {
                p { "No trial has points for that." }
                (left_out(document))
            }
            Some(document) => {
                @for one in &document.series { (series(document, one)) }
                (left_out(document))
            }
        }
    };
    frame("Trends", &body)
}

fn series(document: &TrendDocument, series: &SeriesReport) -> Markup {
    html! {
        section {
            h2 { (title(document, series)) }
            @if !series.differs_in.is_empty() {
                ul { @for name in &series.differs_in {
                    li { (name) ": " (series.settings.get(name).map_or("none", String::as_str)) }
                } }
            }
            @for warning in &series.warnings { p.note { (warning) } }
            div.wide { (page::trend::series(document, series)) }
            @if series.changes.is_empty() {
                p {
                    @match series.noise_percent {
                        Some(noise) => {
                            "No change found; the usual noise of a trial is ±" (percent(noise)) " %, and with it a step of less \
                            than about " (rounded_up(series.seen_from_percent.unwrap_or_default())) " % would not be seen."
                        }
                        None => { "Too few to look for changes: " (counted(series.points.len(), "trial")) ", and 8 are needed." }
                    }
                }
            } @else {
                (changes(document, series))
            }
            (points(document, series))
        }
    }
}

fn changes(document: &TrendDocument, series: &SeriesReport) -> Markup {
    let segment = |index: usize| value(document, series, series.segments[index].value);
    let words = |step: &StepReport| if step.better { "better" } else { "worse" };
    let link = |index: usize| {
        let point = &series.points[index];
        html! { a href={ "/trial/" (point.trial) } { (place(point)) } }
    };
    let row = |change: &ChangeReport| {
        let step = &change.step;
        html! {
            tr {
                td { (size(step)) " " (words(step)) }
                td { (sureness(step)) }
                td { (segment(step.from)) " → " (segment(step.to)) }
                td {
                    @if change.after + 1 == change.until {
                        "between " (link(change.after)) " and " (link(change.until))
                    } @else {
                        "after " (link(change.after)) ", most likely with " (link(change.at)) ", not later than " (link(change.until))
                    }
                }
                td { @for (name, (before, now)) in &change.along { (name) " " (before) " → " (now) br; } }
            }
        }
    };
    html! {
        div.wide { table {
            caption { "Changes" }
            thead { tr {
                th scope="col" { "by" } th scope="col" { "how sure" } th scope="col" { "from → to" }
                th scope="col" { "where" } th scope="col" { "changed meanwhile" }
            } }
            tbody { @for change in &series.changes { (row(change)) } }
        } }
    }
}

fn points(document: &TrendDocument, series: &SeriesReport) -> Markup {
    html! {
        details {
            summary { (counted(series.points.len(), "point")) }
            div.wide { table {
                thead { tr {
                    th scope="col" { "trial" } th scope="col" { "began (UTC)" } th scope="col" { "kernel" }
                    th scope="col" { "figure" } th scope="col" { "interval" } th scope="col" { "rounds" }
                } }
                tbody { @for point in &series.points { tr {
                    td.number { a href={ "/trial/" (point.trial) } { (point.trial) } }
                    td { (point.started_at) }
                    td { (point.kernel) }
                    td.number { (value(document, series, point.value)) }
                    td.number { @if let Some((low, high)) = point.interval {
                        (value(document, series, low)) " to " (value(document, series, high))
                    } }
                    td.number { (point.rounds) }
                } } }
            } }
        }
    }
}

fn left_out(document: &TrendDocument) -> Markup {
    html! {
        @if !document.left_out.is_empty() {
            details {
                summary { (counted(document.left_out.len(), "trial")) " left out" }
                ul { @for left in &document.left_out {
                    li { a href={ "/trial/" (left.trial) } { "#" (left.trial) } ": " (left.reason) }
                } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_store::{TrialId, TrialStatus};

    fn request(query: &[(&str, &str)]) -> PageRequest {
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        PageRequest { path: "/".into(), query: query.collect() }
    }

    fn trial(id: i64, name: &str, rounds: u32) -> TrialSummary {
        TrialSummary {
            id: TrialId(id),
            name: name.into(),
            status: TrialStatus::Decided,
            started_at: format!("2026-01-{id:02}T03:00:00Z"),
            ended_at: None,
            host: Some("lab1".into()),
            kernel: Some("6.12.0".into()),
            tags: vec!["nightly".into()],
            seed: 1,
            arms: vec!["ext4".into(), "xfs".into()],
            rounds,
            runs: 4,
            failed_runs: 0,
        }
    }

    fn listed(trials: &[TrialSummary], request: &PageRequest, page: usize) -> String {
        let sheet = Sheet::of(trials, page);
        let shown: Vec<_> =
            sheet.shown(trials).iter().map(|trial| (trial, "decided", About::default())).collect();
        let offers = Offers::from([("arm", BTreeSet::from(["<script>".to_owned()]))]);
        list(&shown, &offers, &sheet, 0, request, Sort::of("")).into_string()
    }

    #[test]
    fn lists_are_sorted_by_every_column_both_ways() {
        let ids = |sort: &str| {
            let mut trials = [trial(1, "b", 3), trial(2, "a", 3), trial(3, "c", 1)];
            Sort::of(sort).apply(&mut trials);
            trials.map(|trial| trial.id.0)
        };
        assert_eq!(ids(""), [3, 2, 1], "the latest first");
        assert_eq!(ids("id"), [1, 2, 3]);
        assert_eq!(ids("name"), [2, 1, 3]);
        assert_eq!(ids("-name"), [3, 1, 2]);
        assert_eq!(ids("rounds"), [3, 1, 2]);
        assert_eq!(ids("-rounds"), [2, 1, 3]);
        assert_eq!(ids("'; DROP TABLE trial"), [3, 2, 1]);
        for (name, ..) in COLUMNS {
            assert_eq!(Sort::of(&format!("-{name}")).name(), format!("-{name}"));
        }
    }

    #[test]
    fn links_keep_and_escape_query() {
        let hostile = "\"><script>alert(1)</script>&x=y";
        let request = request(&[("name", hostile), ("page", "3"), ("tag", "a"), ("tag", "b")]);
        let link = address(&request, &[("page", "2")]);
        let query: Vec<_> = form_urlencoded::parse(&link.as_bytes()[2..]).into_owned().collect();
        let expected = [("name", hostile), ("tag", "a"), ("tag", "b"), ("page", "2")];
        assert_eq!(query, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let page = listed(&[trial(1, hostile, 1)], &request, 1);
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
    }

    #[test]
    fn long_lists_come_in_pages() {
        let trials: Vec<_> = (0..250).map(|n| trial(n % 28 + 1, "x", 1)).collect();
        let rows = |page| listed(&trials, &request(&[]), page).matches("<tr>").count() - 1;
        assert_eq!([rows(1), rows(2), rows(7), rows(99), rows(0)], [40, 40, 10, 10, 40]);
        let second = listed(&trials, &request(&[]), 2);
        assert!(second.contains("page=1") && second.contains("page=3"), "{second}");
    }
}
