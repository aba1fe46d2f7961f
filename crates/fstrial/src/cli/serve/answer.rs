//! From a request to its answer: the routes, each a function of the store.

use super::{
    guard::PageRequest,
    pages::{self, Offers},
};
use crate::cli::{
    self, compare,
    filter::{self, Search},
    report,
    results::{self, about::About},
    statuses::TrialStatuses,
};
use clap::ValueEnum;
use fstrial_model::metric::Metric;
use fstrial_report::{
    page, plain,
    screen::{self, Remarked},
    trend::{self, Limits, TrendDocument},
};
use fstrial_run::{
    error::ExpectedError,
    history::{self, By},
};
use fstrial_store::{Filter, Store, StoreError, TrialId, TrialSummary};
use hyper::StatusCode;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// For our own pages: their style sheet and forms, and nothing else; no script at all.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";
/// The most trials that are compared on one page.
const MAX_COMPARED: usize = 8;
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const STYLE: &str = include_str!("style.css");
const CSS: &str = "text/css; charset=utf-8";

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Its content type.
    pub(super) kind: &'static str,
    /// Its content security policy.
    pub(super) policy: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    fn new(status: StatusCode, kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, kind, policy: POLICY.to_owned(), body: body.into() }
    }

    pub(super) fn text(status: StatusCode, text: &str) -> Self {
        Self::new(status, TEXT, format!("{text}\n"))
    }

    fn page(page: maud::Markup) -> Self {
        Self::new(StatusCode::OK, HTML, page.into_string())
    }

    /// A report is a complete file, with its own scripts.
    fn report(page: String) -> Self {
        let policy = format!("{}; frame-ancestors 'none'", page::policy());
        Self { policy, ..Self::new(StatusCode::OK, HTML, page) }
    }

    fn json(value: &impl Serialize) -> Self {
        let mut body = serde_json::to_vec(value).expect("documents are plain data");
        body.push(b'\n');
        Self::new(StatusCode::OK, JSON, body)
    }
}

/// Why there is no answer.
enum Trouble {
    NotFound,
    /// A known error.
    Expected(ExpectedError),
}

impl<E: Into<ExpectedError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Expected(error.into())
    }
}

/// Answers an accepted request.
pub(super) fn answer(store: &Path, request: &PageRequest) -> Answer {
    let result = route(store, request).unwrap_or_else(|trouble| in_words(&trouble, request));
    debug_assert!(!result.body.is_empty());
    result
}

fn route(path: &Path, request: &PageRequest) -> Result<Answer, Trouble> {
    let parts: Vec<&str> = request.path.split('/').skip(1).collect();
    // A store that is opened for each request: a trial may be written meanwhile, or the file be replaced.
    let open = || Ok::<_, Trouble>(Store::open_read_only(path)?);
    match parts.as_slice() {
        ["style.css"] => Ok(Answer::new(StatusCode::OK, CSS, STYLE)),
        ["pictures.css"] => Ok(Answer::new(StatusCode::OK, CSS, page::PICTURES)),
        [""] => list(&open()?, request),
        ["trial", id] => {
            let (store, id) = (open()?, number(id)?);
            Ok(Answer::report(report::page_of(&store, &[store.trial(id)?])?))
        }
        ["trial", id, "text"] => text(&open()?, number(id)?),
        ["compare"] => side_by_side(&open()?, request),
        ["trend"] => trends(&open()?, request),
        ["api", "trials"] => {
            let store = open()?;
            let (trials, statuses) = (search_of(request)?.find(&store)?, TrialStatuses::of(&store)?);
            let reported = trials.iter().map(|trial| results::list::json(&store, &statuses, trial));
            Ok(Answer::json(&reported.collect::<Vec<_>>()))
        }
        ["api", "trials", id] => {
            let (store, id) = (open()?, number(id)?);
            Ok(Answer::json(&results::judge_again(&store, &store.trial(id)?)?))
        }
        ["api", "trend"] => match trend_of(&open()?, request)? {
            Some(document) => Ok(Answer::json(&document)),
            None => Err(ExpectedError::usage("no arm is named", "add ?arm=xfs&against=ext4").into()),
        },
        _ => Err(Trouble::NotFound),
    }
}

/// The number of a trial: digits and nothing else.
fn number(text: &str) -> Result<TrialId, Trouble> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = digits.then(|| text.parse().ok()).flatten();
    id.map(TrialId).ok_or(Trouble::NotFound)
}

fn text(store: &Store, id: TrialId) -> Result<Answer, Trouble> {
    let document = results::judge_again(store, &store.trial(id)?)?;
    let text = anstream::adapter::strip_str(&screen::render(&document, None, Remarked::InFull)).to_string();
    Ok(Answer::new(StatusCode::OK, TEXT, text))
}

fn list(store: &Store, request: &PageRequest) -> Result<Answer, Trouble> {
    let search = search_of(request)?;
    let statuses = TrialStatuses::of(store)?;
    let mut trials = search.find(store)?;
    let all = trials.len();
    if request.get("all").is_none() && search.filter.status.is_none() {
        trials.retain(|trial| statuses.has_begun(trial));
    }
    let hidden = all - trials.len();
    let order = pages::Sort::of(request.get("sort").unwrap_or_default());
    order.apply(&mut trials);
    let page = request.get("page").and_then(|page| page.parse().ok()).unwrap_or(1);
    let sheet = pages::Sheet::of(&trials, page);
    let row = |trial| (trial, statuses.word(trial), About::of(store, trial.id, true));
    let rows: Vec<_> = sheet.shown(&trials).iter().map(row).collect();
    Ok(Answer::page(pages::list(&rows, &offers(store)?, &sheet, hidden, request, order)))
}

/// Suggestions for the fields of a search.
fn offers(store: &Store) -> Result<Offers, Trouble> {
    let trials = store.trials()?;
    let texts = |of: &dyn Fn(&TrialSummary) -> Vec<String>| -> BTreeSet<String> {
        trials.iter().flat_map(of).filter(|text| !text.is_empty()).collect()
    };
    let levels = store.levels()?;
    Ok(BTreeMap::from([
        ("name", texts(&|trial| vec![trial.name.clone()])),
        ("arm", texts(&|trial| trial.arms.clone())),
        ("against", texts(&|trial| trial.arms.clone())),
        ("tag", texts(&|trial| trial.tags.clone())),
        ("host", texts(&|trial| trial.host.iter().cloned().collect())),
        ("kernel", texts(&|trial| trial.kernel.iter().cloned().collect())),
        ("workload", levels.iter().map(|(workload, _)| workload.clone()).collect()),
        ("threads", levels.iter().map(|(_, threads)| threads.to_string()).collect()),
    ]))
}

/// Trials side by side: `?a=1&b=2`, or `?trial=1&trial=2` as the boxes of the list send it.
fn side_by_side(store: &Store, request: &PageRequest) -> Result<Answer, Trouble> {
    let wanted = request.all("a").chain(request.all("b")).chain(request.all("trial"));
    let ids = wanted.map(number).collect::<Result<Vec<_>, _>>()?;
    if !(2..=MAX_COMPARED).contains(&ids.len()) {
        let hint = "tick them in the list, or write /compare?a=1&b=2";
        return Err(ExpectedError::usage(format!("2 to {MAX_COMPARED} trials can be compared"), hint).into());
    }
    let trials = ids.into_iter().map(|id| store.trial(id)).collect::<Result<Vec<_>, _>>()?;
    Ok(Answer::report(report::page_of(store, &trials)?))
}

fn trends(store: &Store, request: &PageRequest) -> Result<Answer, Trouble> {
    let document = trend_of(store, request)?;
    Ok(Answer::page(pages::trend(document.as_ref(), &offers(store)?, request)))
}

/// The requested trend; none before an arm is named.
fn trend_of(store: &Store, request: &PageRequest) -> Result<Option<TrendDocument>, Trouble> {
    let Some(arm) = request.get("arm") else { return Ok(None) };
    let mut search = search_of(request)?;
    search.filter.arms.clear();
    let bad =
        |message: String| Trouble::Expected(ExpectedError::usage(message, "see `fstrial trend --help`"));
    let threads = request.all("threads").map(str::parse).collect::<Result<Vec<u16>, _>>();
    let wanted = history::SeriesQuery {
        arm: arm.to_owned(),
        against: request.get("against").map(str::to_owned),
        workloads: search.filter.workloads.clone(),
        threads: threads.map_err(|error| bad(format!("threads: {error}")))?,
        metric: request.get("metric").map_or(Ok(Metric::Throughput), compare::metric).map_err(bad)?,
        by: request.get("by").map_or(Ok(By::Time), |by| By::from_str(by, true)).map_err(bad)?,
    };
    let trials: Vec<TrialId> = search.find(store)?.into_iter().map(|trial| trial.id).collect();
    let result = history::collect(store, &trials, &wanted)?;
    Ok(Some(trend::document(&wanted, result, Limits::default())))
}

/// The search that an address asks for, in the words of the command line.
fn search_of(request: &PageRequest) -> Result<Search, Trouble> {
    let one = |name| request.get(name).map(str::to_owned);
    let many = |name: &str| request.all(name).map(str::to_owned).collect();
    let parsed = |name: &str, parse: fn(&str) -> Result<String, String>| {
        let result = request.get(name).map(parse).transpose();
        result.map_err(|problem| {
            ExpectedError::usage(format!("{name}: {problem}"), "correct it and search again")
        })
    };
    let status = request.get("status").map(filter::status).transpose();
    let status = status.map_err(|problem| {
        ExpectedError::usage(format!("status: {problem}"), "choose one of them and search again")
    })?;
    let filter = Filter {
        name: one("name"),
        arms: many("arm"),
        workloads: many("workload"),
        kernel: one("kernel"),
        host: one("host"),
        tags: many("tag"),
        since: parsed("since", filter::since)?,
        until: parsed("until", filter::until)?,
        status: None,
    };
    Ok(Search::new(filter, status))
}

/// An error for the client: as JSON if the request is for JSON. Visitors do not learn the path of the results: messages with a
/// path go to the server's user.
fn in_words(trouble: &Trouble, request: &PageRequest) -> Answer {
    let (status, message, hint) = match trouble {
        Trouble::NotFound => (StatusCode::NOT_FOUND, "there is nothing here".to_owned(), None),
        Trouble::Expected(error) => {
            let (status, message, hint) = for_visitors(error);
            if status == StatusCode::INTERNAL_SERVER_ERROR {
                cli::say(&format!("{}: {}\n", plain(&request.path), plain(&error.in_full())));
            }
            (status, message, hint)
        }
    };
    if request.path.starts_with("/api/") {
        return Answer { status, ..Answer::json(&serde_json::json!({ "error": message, "hint": hint })) };
    }
    Answer { status, ..Answer::page(pages::trouble(&message, hint.as_deref())) }
}

/// A visitor's view of an error: its status, the problem, and the remedy.
fn for_visitors(error: &ExpectedError) -> (StatusCode, String, Option<String>) {
    let failed = |what: &str| {
        let hint = "the one who serves them sees why on the terminal of `fstrial serve`";
        (StatusCode::INTERNAL_SERVER_ERROR, what.to_owned(), Some(hint.to_owned()))
    };
    match error {
        ExpectedError::Usage { .. } => (StatusCode::BAD_REQUEST, error.to_string(), error.hint()),
        ExpectedError::Store(StoreError::NoSuchTrial { trial, .. }) => {
            (StatusCode::NOT_FOUND, format!("there is no trial {trial}"), Some("look in the list".into()))
        }
        ExpectedError::Store(StoreError::Damaged { .. } | StoreError::NotAStore { .. }) => {
            failed("the results are damaged")
        }
        ExpectedError::Store(StoreError::NewerSchema { .. }) => {
            failed("the results were written by a newer fstrial")
        }
        ExpectedError::Store(_) => failed("the results cannot be read"),
        _ => failed("this page cannot be made"),
    }
}
