//! Stored trials as pages, tables for tickets and posts for mailing lists: their text, that none of it is executed, and
//! that no file is lost.

use crate::{
    labs::{hostile, with},
    made::Shape,
    support::{Ended, Lab},
};
use fstrial_store::{Store, TrialId};
use serde_json::Value;
use std::fs;

fn ok(ended: Ended) -> String {
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    ended.stdout
}

/// The words of a page, without its style and script.
pub(crate) fn words_of(page: &str) -> String {
    let (_, body) = page.split_once("<body>").expect("a page has a body");
    body.split_once("<script>").expect("a page has a script").0.to_owned()
}

/// An attribute of everything inside the element of this name.
fn values<'a>(page: &'a str, id: &str, attribute: &str) -> Vec<&'a str> {
    let (_, inside) = page.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id}"));
    let (inside, _) = inside.split_once("</figure>").expect("its end");
    let begun = format!(" {attribute}=\"");
    inside.split(&begun).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn page_reports_winner_with_matching_charts() {
    let lab = with(&[Shape::default()]);
    let message = ok(lab.run("report"));
    let path = lab.home().join("reports/trial-1.html");
    assert_eq!(message.trim(), path.display().to_string());
    let page = fs::read_to_string(path).unwrap();
    let words = words_of(&page);
    for expected in ["<h1>xfs", "Caveats", "Repeat this", "fstrial run made-up.toml --seed 0x64"] {
        assert!(words.contains(expected), "the page lacks: {expected}");
    }
    // The charts show the values of the document.
    let shown: Value = serde_json::from_str(ok(lab.run("report --format json")).trim()).unwrap();
    let number = |text: &str| text.parse::<f64>().unwrap();
    let alike = |drawn: f64, reported: &Value| (drawn / reported.as_f64().unwrap() - 1.0).abs() < 1e-3;
    let rates = values(&page, "t0-s1-rates", "data-value");
    let cells = shown["workloads"][1]["cells"].as_array().unwrap();
    assert_eq!(rates.len(), cells.len());
    assert!(rates.iter().zip(cells).all(|(drawn, cell)| alike(number(drawn), &cell["rate"])), "{rates:?}");
    let ratios = values(&page, "t0-ratios", "data-value");
    let verdicts =
        shown["workloads"].as_array().unwrap().iter().flat_map(|of| of["verdicts"].as_array().unwrap());
    let reported: Vec<&Value> = verdicts
        .filter(|verdict| verdict["metric"] == "throughput")
        .map(|verdict| &verdict["ratio"])
        .collect();
    assert_eq!(ratios.len(), reported.len());
    assert!(
        ratios.iter().all(|drawn| reported.iter().any(|reported| alike(number(drawn), reported))),
        "{ratios:?}"
    );
    let runs = values(&page, "t0-s1-runs", "data-y");
    assert!(!runs.is_empty() && runs.iter().all(|rates| rates.split(' ').count() == 12), "{runs:?}");
}

#[test]
fn report_keeps_warnings_stored_by_trial() {
    let lab = with(&[Shape { rounds: 2, ..Shape::default() }]);
    let mut store = Store::open(lab.home().join("results.db")).unwrap();
    store.warn(TrialId(1), &["the device was late".into()]).unwrap();
    drop(store);
    assert!(words_of(&ok(lab.run("report --out -"))).contains("the device was late"));
    assert!(ok(lab.run("report --format text")).contains("the device was late"));
}

#[test]
fn uncompared_arms_are_not_called_equivalent() {
    let shape = Shape { baseline: Some("ext4".into()), ..Shape::default() };
    let faster = vec![("ext4".into(), 1.0), ("xfs".into(), 1.3), ("btrfs".into(), 1.3)];
    let lab = with(&[Shape { arms: faster, ..shape }]);
    let page = words_of(&ok(lab.run("report --out -")));
    // Each is compared with the baseline.
    for leader in ["xfs has 1.", "btrfs has 1."] {
        assert!(page.contains(leader), "{leader}: {}", &page[..3000]);
    }
    assert!(!page.contains("btrfs are equivalent"));
}

#[test]
fn report_warns_about_too_few_rounds() {
    let lab = with(&[Shape { rounds: 3, noise: 0.4, ..Shape::default() }]);
    let page = words_of(&ok(lab.run("report --out -")));
    assert!(page.contains("3 rounds are too few for most questions"));
    assert!(page.contains("neither shown to differ nor to be the same"));
}

#[test]
fn page_loads_no_external_resources() {
    let lab = with(&[Shape::default()]);
    let page = ok(lab.run("report --out -"));
    assert!(page.contains("default-src 'none'"));
    let (style, _) = page.split_once("</style>").expect("a page has a style");
    for (what, text) in [("the words", words_of(&page)), ("the style", style.to_owned())] {
        for address in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!text.contains(address), "{address} in {what} of the page");
        }
    }
}

#[test]
fn hostile_names_are_text() {
    let lab = with(&[hostile()]);
    let page = ok(lab.run("report --out -"));
    assert!(!page.contains("<img src=x"), "a name became an element");
    assert!(!page.contains("<script>alert"), "a name became a script");
    assert!(page.contains("&lt;img src=x onerror="), "and it is shown");
    let post = ok(lab.run("report --format lkml"));
    assert!(post.lines().count() > 20);
    let ticket = ok(lab.run("report --format markdown"));
    let outside: Vec<&str> = ticket.split("```").step_by(2).collect();
    assert!(!outside.concat().replace("\\<", "").contains("<img"), "a name became an element");
}

#[test]
fn stored_text_emits_no_terminal_controls() {
    let lab = with(&[hostile()]);
    for words in [
        "report --format text",
        "results list",
        "report --format text",
        "report --format lkml",
        "report --format markdown",
    ] {
        let shown = ok(lab.run(words));
        let bad: Vec<char> =
            shown.chars().filter(|c| *c != '\n' && (c.is_control() || *c == '\u{202e}')).collect();
        assert!(bad.is_empty(), "{words}: {bad:?}");
        assert!(!shown.lines().any(|line| line.starts_with("forged")), "{words}: a line of somebody else's");
        let names_the_machine = words.contains("lkml") || words.contains("markdown");
        assert!(!names_the_machine || shown.contains("\u{fffd}[31m"), "{words}: it is shown");
    }
}

#[test]
fn several_trials_are_side_by_side() {
    let on = |kernel: &str, hour: &str, xfs: f64| Shape {
        kernel: kernel.into(),
        hour: hour.into(),
        arms: vec![("ext4".into(), 1.0), ("xfs".into(), xfs)],
        workloads: vec!["random-write".into()],
        rounds: 5,
        ..Shape::default()
    };
    let lab = with(&[on("6.1.0 x86_64", "2026-01-02T03", 1.1), on("6.12.0 x86_64", "2026-02-02T03", 1.4)]);
    ok(lab.run("report 1 2 --out both.html"));
    let page = fs::read_to_string(lab.path("both.html")).unwrap();
    let words = words_of(&page);
    assert!(words.contains("2 trials that differ in kernel and date"), "{}", &words[..2000]);
    let (_, side_by_side) =
        words.split_once("Ratios of throughput in random-write").expect("ratios side by side");
    let (table, picture) = side_by_side.split_once("</table>").expect("a table");
    for heading in ["#1, ", "#2, ", "Linux 6.1.0", "Linux 6.12.0", "xfs / ext4"] {
        assert!(table.contains(heading), "{heading} is not in {table}");
    }
    assert!(picture.contains("id=\"compare-0-0-ratios\"") && picture.contains("<svg class=\"forest\""));
    assert!(words.contains("id=\"t1-s0-rates\""));
    assert!(lab.home().join("reports").read_dir().is_err(), "nothing else is written");
    ok(lab.run("report 1 2"));
    assert!(lab.home().join("reports/trial-1-2.html").is_file());
}

#[test]
fn report_keeps_existing_output_file() {
    let lab = with(&[Shape { rounds: 2, ..Shape::default() }]);
    lab.write("page.html", "mine");
    let refused = lab.run("report --out page.html");
    assert_eq!(refused.code(), 2);
    assert!(refused.stderr.contains("page.html exists already") && refused.stderr.contains("--force"));
    assert_eq!(fs::read_to_string(lab.path("page.html")).unwrap(), "mine");
    ok(lab.run("report --out page.html --force"));
    assert!(fs::read_to_string(lab.path("page.html")).unwrap().starts_with("<!DOCTYPE html>"));
    let nowhere = lab.run("report --out nowhere/page.html");
    assert_ne!(nowhere.code(), 0);
    assert!(nowhere.stderr.contains("nowhere/page.html"), "{}", nowhere.stderr);
    let unknown = lab.run("report 99");
    assert_eq!(unknown.code(), 2, "{}", unknown.stderr);
    assert!(unknown.stderr.contains("99"), "{}", unknown.stderr);
    assert_eq!(lab.run("report 1 --claims").code(), 2);
    assert_eq!(lab.run("report --claims --format lkml").code(), 2);
}

#[test]
fn texts_for_tickets_and_mailing_lists() {
    let lab = with(&[Shape { rounds: 8, ..Shape::default() }]);
    let post = ok(lab.run("report --format lkml"));
    let (before, _) = post.split_once("Reproducer").expect("it says how to reproduce it");
    let wide: Vec<&str> = before.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{wide:?}");
    insta::assert_snapshot!("lkml", post);
    insta::assert_snapshot!("markdown", ok(lab.run("report --format markdown")));
    insta::assert_snapshot!("text", ok(lab.run("report --format text")));
    assert!(ok(lab.run("report --format text")).contains("In short"));
    ok(lab.run("report --format text --out answer.txt"));
    let file = fs::read_to_string(lab.path("answer.txt")).unwrap();
    assert!(file.contains("In short") && !file.contains('\u{1b}'), "{file}");
}

#[test]
fn the_answer_to_a_claim_comes_first() {
    let claim = "[claim]\nid = \"mine\"\nstatement = \"xfs is 20 % faster\"\nauthor = \"me\"\nsaid = \"1.2\"\n\
                 caveat = \"made up\"\n[[claim.expect]]\nratio = [\"xfs\", \"ext4\"]\nabove = 1.2\nthen = 1.25\n";
    let lab = with(&[Shape {
        claim: claim.into(),
        workloads: vec!["random-write".into()],
        levels: vec![1],
        ..Shape::default()
    }]);
    let ticket = ok(lab.run("report --format markdown"));
    let post = ok(lab.run("report --format lkml"));
    for (text, table) in [(&ticket, "| threads |"), (&post, " threads ")] {
        let (before, _) = text.split_once(table).expect("it has a table");
        for words in [
            "- mine: confirmed",
            "xfs is 20 % faster",
            "- me",
            "xfs / ext4 = 1.3",
            "above 1.2 expected",
            "made up",
        ] {
            assert!(before.contains(words), "{words} is not in: {before}");
        }
    }
    assert!(
        post.lines()
            .take_while(|line| !line.starts_with("Reproducer"))
            .all(|line| line.chars().count() <= 80)
    );
    // Questions open when their trial failed are not open any more.
    let shape = |rounds| Shape {
        claim: claim.into(),
        workloads: vec!["random-write".into()],
        levels: vec![1],
        failed: true,
        rounds,
        ..Shape::default()
    };
    for (rounds, message) in [(3, "- mine: not testable here"), (12, "- mine: confirmed")] {
        let answer = ok(with(&[shape(rounds)]).run("report --format markdown"));
        assert!(answer.contains(message), "{answer}");
    }
}

#[test]
fn the_catalogue_of_claims_is_a_page_before_anything_is_checked() {
    let lab = with(&[Shape { rounds: 2, ..Shape::default() }]);
    let page = ok(lab.run("report --claims --out -"));
    let words = words_of(&page);
    assert!(words.contains("58 statements about filesystem speed"));
    assert!(words.contains("not checked yet") && words.contains("chinner-2012-xfs-scales"));
}

#[test]
fn every_trial_leaves_a_page() {
    let lab = Lab::new();
    fs::create_dir(lab.path("images/one")).unwrap();
    fs::create_dir(lab.path("images/two")).unwrap();
    let words = "compare a=dir:images/one b=dir:images/two --workload create-files --threads 1 --rounds 2 --budget 20s \
                 --duration 100ms --set workload.warmup=20ms";
    let ended = lab.run(words);
    assert!([0, 3].contains(&ended.code()), "{}", ended.stderr);
    let path = lab.home().join("reports/trial-1.html");
    assert!(ended.stderr.contains(&format!("as a page: {}", path.display())), "{}", ended.stderr);
    let page = fs::read_to_string(&path).unwrap();
    assert!(
        ["a", "b"].iter().all(|arm| words_of(&page).contains(&format!("<span dir=\"auto\">{arm}</span>")))
    );
    let quiet = lab.run(&format!("{words} --no-page"));
    assert!(!quiet.stderr.contains("as a page"), "{}", quiet.stderr);
    assert!(!lab.home().join("reports/trial-2.html").exists());
}
