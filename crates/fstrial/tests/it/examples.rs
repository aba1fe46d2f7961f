//! The trial files of `examples/`: each is planned, its question is in the list, and the one without root runs.

use crate::support::{self, Lab, names_in};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Names of the trial files, in order.
fn names() -> Vec<String> {
    let mut names: Vec<String> =
        names_in(&folder()).into_iter().filter(|name| name.ends_with(".toml")).collect();
    names.sort();
    names
}

fn text(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap()
}

#[test]
fn readme_lists_each_example_with_its_question() {
    let list = text("README.md");
    let names = names();
    assert!(names.len() >= 6, "{names:?}");
    for name in &names {
        let text = text(name);
        let question = text.lines().next().unwrap().trim_start_matches("# ");
        let row = format!("| [{name}]({name}) | {question} |");
        assert!(list.contains(&row), "examples/README.md lacks: {row}");
    }
    assert_eq!(list.matches(".toml](").count(), names.len(), "the list names a file that is not there");
}

#[test]
fn each_can_be_planned() {
    let name = "examples::each_can_be_planned";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    lab.write("etcd.fio", &text("etcd.fio"));
    fs::create_dir_all(lab.path("own-queries")).unwrap();
    for file in ["own-queries/dump.sql", "own-queries/queries.sql"] {
        lab.write(file, &text(file));
    }
    for name in names() {
        let planned = lab.run(&format!("run {} --dry-run", local(&lab, &name).display()));
        assert_eq!(planned.code(), 0, "{name}: {planned:?}");
        assert!(planned.stdout.lines().count() > 10, "{name}: {}", planned.stdout);
    }
    assert!(lab.trials().is_empty());
}

#[test]
fn the_one_of_two_directories_runs() {
    let lab = Lab::new();
    let file = local(&lab, "two-directories.toml");
    let ended = lab.run(&format!("run {} --budget 8s --json", file.display()));
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let document = ended.document();
    assert_eq!(document["arms"].as_array().unwrap().len(), 2);
    for arm in ["a", "b"] {
        assert_eq!(names_in(&lab.path(arm)), [""; 0], "left in {arm}");
    }
}

/// The example in this lab, with its directories there as well.
fn local(lab: &Lab, name: &str) -> PathBuf {
    for arm in ["a", "b"] {
        fs::create_dir_all(lab.path(arm)).unwrap();
    }
    let srv = format!("\"{}/", lab.root().display());
    lab.write(name, &text(name).replace("\"/srv/", &srv))
}
