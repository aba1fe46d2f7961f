//! Claims as users meet them: the catalogue, a user's own file, checking, resuming, and claims that cannot run here.

use crate::support::{self, Ended, Lab, PATIENCE};
use rustix::process::Signal;
use serde_json::Value;
use std::{fs, path::PathBuf};

/// A small claim that is decided soon.
fn claim(id: &str, expectations: &str) -> String {
    format!(
        "[claim]\nid = \"{id}\"\nstatement = \"it is so\"\nauthor = \"me\"\nsaid = \"twice\"\n\
         [[claim.expect]]\n{expectations}\n\
         [trial]\nbudget = \"4m\"\nstalls = \"40%\"\n\
         [device]\nkind = \"image\"\npath = \"images\"\nsize = \"320MiB\"\n\
         [[arm]]\nname = \"ext4\"\nfilesystem = \"ext4\"\n\
         [[arm]]\nname = \"slow\"\nfilesystem = \"ext4\"\nhandicap = \"100%\"\n\
         [[workload]]\nuse = \"random-write\"\nfile_size = \"16MiB\"\nthreads = [1]\n\
         warmup = \"20ms\"\nduration = \"100ms\"\n"
    )
}

/// A claim about a workload that there is none of.
fn lacking() -> String {
    let claim = claim("lacks", SLOWER).replace("random-write", "of-another-day");
    claim.replace("said = \"twice\"", "said = \"twice\"\nneeds = [\"workload:of-another-day\"]")
}

const SLOWER: &str = "ratio = [\"slow\", \"ext4\"]\nbelow = 1\nthen = 0.5";

fn answers(ended: &Ended) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    ended.json().iter().map(|line| (text(&line["id"]), text(&line["verdict"]))).collect()
}

#[test]
fn the_catalogue_is_listed_and_shown() {
    let lab = Lab::new();
    let listed = lab.run("claims list --json");
    assert_eq!(listed.code(), 0, "{listed:?}");
    let claims = listed.json();
    assert!(claims.len() >= 40, "{}", claims.len());
    assert!(claims.iter().all(|claim| claim["last"].is_null() && claim["statement"].is_string()));
    let shown = lab.run("claims show chinner-2012-xfs-scales");
    for words in ["Dave Chinner, 2012", "4.42", "2 GB ramdisk", "not checked yet on this machine"] {
        assert!(shown.stdout.contains(words), "{words}: {}", shown.stdout);
    }
    let file = lab.run("claims show chinner-2012-xfs-scales --toml").stdout;
    assert!(file.contains("id = \"chinner-2012-xfs-scales\""), "{file}");
    let of_tag = lab.run("claims list postmark --json");
    assert!(of_tag.json().len() > 1 && of_tag.json().len() < claims.len(), "{of_tag:?}");
}

#[test]
fn reports_claim_substitutions_and_missing_workload() {
    let lab = Lab::new();
    let shown = lab.run("claims show rm-2009-xfs-tuned").stdout;
    assert!(
        shown.contains("substituted: ") && shown.contains("cache=write-through since Linux 4.19"),
        "{shown}"
    );
    lab.write("lacks.toml", &lacking());
    let checked = lab.run("claims check lacks.toml --json");
    assert_eq!(checked.code(), 0, "{checked:?}");
    assert_eq!(answers(&checked), [("lacks".into(), "not-testable".into())]);
    assert!(checked.stdout.contains("it takes the workload of-another-day"), "{}", checked.stdout);
    assert!(lab.trials().is_empty(), "nothing was run");
}

#[test]
fn mistakes_are_shown_at_their_place() {
    let lab = Lab::new();
    let cases = [
        ("ratio = [\"slow\", \"exf4\"]\nbelow = 1", "did you mean `ext4`?"),
        ("ratio = [\"slow @ 7\", \"ext4\"]\nbelow = 1", "its levels are 1"),
        ("ratio = [\"slow\", \"ext4\"]", "write exactly one of above, below, within"),
        ("ratio = [\"slow\", \"ext4\"]\nbelow = 1\nworks = [\"ext4\"]", "exactly one of ratio"),
        ("ratio = [\"slow\", \"ext4\"]\nbelow = -1", "is not a bound"),
        ("slope = \"ext4\"\nabove = 1", "one level has no slope"),
    ];
    for (line, words) in cases {
        lab.write("mine.toml", &claim("mine", line));
        let refused = lab.run("claims check mine.toml");
        assert_eq!(refused.code(), 2, "{line}: {refused:?}");
        assert!(refused.stderr.contains(words), "{line}: {}", refused.stderr);
        assert!(refused.stderr.contains("mine.toml:"), "{line}: the place: {}", refused.stderr);
    }
    lab.write("mine.toml", "[trial]\nname = \"x\"\n");
    assert!(lab.run("claims check mine.toml").stderr.contains("a trial without a claim"));
    let unknown = lab.run("claims check chiner-2012-xfs-scales");
    assert_eq!(unknown.code(), 2);
    assert!(unknown.stderr.contains("did you mean `chinner-2012-xfs-scales`?"), "{}", unknown.stderr);
    for flags in ["--budget 10ms", "--budget 10ms --quick"] {
        let refused = lab.run(&format!("claims check closson-2012-one-writer-equal --dry-run {flags}"));
        assert_eq!(refused.code(), 2, "{flags}: {refused:?}");
        assert!(refused.stderr.contains("budget = 10ms is out of range"), "{flags}: {}", refused.stderr);
    }
    assert!(lab.trials().is_empty(), "nothing was run");
}

#[test]
fn a_new_claim_can_be_checked_and_is_never_overwritten() {
    let lab = Lab::new();
    assert_eq!(lab.run("claims new mine.toml").code(), 0);
    let planned = lab.run("claims check mine.toml --quick --dry-run");
    assert_eq!(planned.code(), 0, "{planned:?}");
    assert!(planned.stdout.contains("mkfs.xfs"), "{}", planned.stdout);
    let again = lab.run("claims new mine.toml");
    assert_ne!(again.code(), 0);
    assert!(again.stderr.contains("mine.toml"), "{}", again.stderr);
}

#[test]
fn a_claim_of_ones_own_is_checked_once_and_remembered() {
    let name = "claims::a_claim_of_ones_own_is_checked_once_and_remembered";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    lab.write("mine.toml", &claim("mine", SLOWER));
    let checked = lab.run("claims check mine.toml --json -q");
    assert_eq!(checked.code(), 0, "{checked:?}");
    assert_eq!(answers(&checked), [("mine".into(), "confirmed".into())]);
    let part = &checked.json()[0]["parts"][0];
    assert!(part["measured"].as_f64().unwrap() < 0.8, "{part}");
    assert_eq!(part["then"], 0.5);
    lab.assert_nothing_left("after a claim");
    // Again: nothing is measured.
    let again = lab.run("claims check mine.toml --json -q");
    assert_eq!(answers(&again), answers(&checked));
    assert!(again.json()[0]["measured_on"].is_string(), "{again:?}");
    assert_eq!(lab.trials().len(), 1);
    let shown = lab.run("claims show mine.toml").stdout;
    assert!(shown.contains("mine  confirmed"), "{shown}");
    // The trial is one like others, and shows its claim.
    assert!(lab.run("report --format text").stdout.contains("mine  confirmed"));
    let anew = lab.run("claims check mine.toml --json -q --again");
    assert_eq!(answers(&anew), answers(&checked));
    assert_eq!(lab.trials().len(), 2);
    lab.check_store();
}

/// The page of a store is made from its runs, and has a section for every claim that ships.
#[test]
fn a_store_answers_for_the_whole_catalogue() {
    let name = "claims::a_store_answers_for_the_whole_catalogue";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let checked = lab.run("claims check sandeep-2012-freeze --quick -q");
    assert_eq!(checked.code(), 0, "{checked:?}");
    let table = lab.run("claims table --format markdown");
    assert_eq!(table.code(), 0, "{table:?}");
    let sections = table.stdout.lines().filter(|line| line.starts_with("### ")).count();
    assert_eq!(sections, fstrial_model::claim::CLAIMS.len());
    let section = |id: &str| table.stdout.split("### ").find(|section| section.starts_with(id)).unwrap();
    let freeze = section("sandeep-2012-freeze\n");
    assert!(freeze.contains("**partly confirmed (1 of 2)** on sata-ssd-2012, Linux "), "{freeze}");
    assert!(freeze.contains("; fstrial claims check sandeep-2012-freeze\n"), "{freeze}");
    assert!(section("closson-2012-init-equal\n").contains("**not in this store**"), "{}", table.stdout);
    let csv = lab.run("claims table --format csv").stdout;
    assert!(csv.starts_with("claim,part,subject,"), "{csv}");
    let parts = csv.lines().filter(|line| line.starts_with("sandeep-2012-freeze,")).count();
    assert_eq!(parts, 2, "{csv}");
    let page = lab.run("claims table --format html --out claims.html");
    assert_eq!(page.code(), 0, "{page:?}");
    let page = fs::read_to_string(lab.path("claims.html")).unwrap();
    assert!(page.contains("<section class=\"claim\" id=\"sandeep-2012-freeze\">"), "an anchor for mails");
    // Another user's store, by its path.
    let exported = lab.run("results export --format store --out theirs.db");
    assert_eq!(exported.code(), 0, "{exported:?}");
    assert_eq!(lab.run("claims table theirs.db --format markdown").stdout, table.stdout);
    assert_ne!(lab.run("claims table none.db").code(), 0);
}

/// What is shared is the result, and nothing that identifies a host, a user or a device.
#[test]
fn shared_results_identify_nobody_and_compare() {
    let name = "claims::shared_results_identify_nobody_and_compare";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    lab.write("mine.toml", &claim("mine", SLOWER));
    let shared = lab.run("claims check mine.toml sandeep-2012-freeze --quick -q --share mine.json");
    assert_eq!(shared.code(), 0, "{shared:?}");
    let text = fs::read_to_string(lab.path("mine.json")).unwrap();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let home = lab.path("").display().to_string();
    for private in [&format!("\"{host}\""), home.trim_end_matches('/'), "/dev/", "images"] {
        assert!(!text.contains(private), "{private}: {text}");
    }
    let read: Value = serde_json::from_str(&text).unwrap();
    let claims = read["claims"].as_array().unwrap();
    let freeze = claims.iter().find(|row| row["id"] == "sandeep-2012-freeze").unwrap();
    assert_eq!(freeze["verdict"], "partly-confirmed");
    // A user's own claim is not in the catalogue, nor one with other expectations under a name of it.
    assert!(!text.contains("\"mine\""), "{text}");
    let exported = lab.run("results export --format store --out theirs.db");
    assert_eq!(exported.code(), 0, "{exported:?}");
    let table = lab.run("claims table mine.json theirs.db --format markdown");
    assert_eq!(table.code(), 0, "{table:?}");
    assert!(table.stdout.contains("| claim | mine | theirs | together |"), "{}", table.stdout);
    let row = "| sandeep-2012-freeze | partly confirmed (1 of 2) | partly confirmed (1 of 2) | – |";
    assert!(table.stdout.contains(row), "{}", table.stdout);
    let hostile =
        text.replace("partly confirmed (1 of 2)", "\\u001b[31m\\n# heading <script>alert(1)</script>");
    assert_ne!(hostile, text);
    lab.write("hostile.json", &hostile);
    for format in ["text", "markdown", "html"] {
        let shown = lab.run(&format!("claims table hostile.json --format {format}")).stdout;
        assert!(shown.contains("heading"), "{format}: {shown}");
        for bad in ["\n# heading", "\u{1b}", "<script>alert"] {
            assert!(!shown.contains(bad), "{format}: {bad:?} in {shown}");
        }
    }
    // It is written only if nothing is replaced, and read only in a known version.
    assert_eq!(lab.run("claims check sandeep-2012-freeze --quick -q --share mine.json").code(), 2);
    lab.write("later.json", &text.replace("\"claims_schema_version\": 1", "\"claims_schema_version\": 99"));
    let later = lab.run("claims table later.json");
    assert_eq!(later.code(), 2);
    assert!(later.stderr.contains("its format has version 99"), "{}", later.stderr);
}

#[test]
fn unsupported_operation_decides_claim() {
    let name = "claims::unsupported_operation_decides_claim";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    let text = claim("mine", "works = [\"btrfs: freeze\"]")
        .replace("filesystem = \"ext4\"\nhandicap", "filesystem = \"xfs\"\n#");
    let text =
        text.replace("name = \"ext4\"\nfilesystem = \"ext4\"", "name = \"btrfs\"\nfilesystem = \"btrfs\"");
    let text = text.replace("name = \"slow\"", "name = \"xfs\"").replace("budget", "rounds = 1\nbudget");
    let (before, _) = text.split_once("[[workload]]").unwrap();
    let text = format!(
        "{before}[[claim.expect]]\nfails = [\"xfs: freeze\"]\n[[workload]]\nuse = \"op-freeze\"\nduration = \"200ms\"\n"
    );
    lab.write("mine.toml", &text);
    let checked = lab.run("claims check mine.toml -q");
    assert_eq!(checked.code(), 0, "{checked:?}");
    assert!(checked.stdout.contains("mine  partly confirmed (1 of 2)"), "{}", checked.stdout);
    assert!(
        checked.stdout.contains("btrfs @ 4: freeze is done every time, 1 round: confirmed"),
        "{}",
        checked.stdout
    );
    lab.assert_nothing_left("after an operation");
}

#[test]
fn interrupted_check_resumes() {
    let name = "claims::interrupted_check_resumes";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    lab.write("first.toml", &claim("first", SLOWER));
    // Equal arms are not decided while the test looks on.
    let equal = claim("second", "ratio = [\"slow\", \"ext4\"]\nwithin = \"0.1%\"")
        .replace("handicap = \"100%\"\n", "")
        .replace("[trial]", "[claim.scale]\nfile_size = { most = \"32MiB\", quick = \"16MiB\" }\n[trial]");
    lab.write("second.toml", &equal);
    let running = lab.start("claims check first.toml second.toml -q --quick");
    let has_rounds = || lab.trials().get(1).is_some_and(|trial| trial["rounds"].as_u64() > Some(0));
    assert!(support::eventually(PATIENCE, has_rounds), "{:?}", lab.trials());
    running.signal(Signal::INT);
    let ended = running.end(PATIENCE);
    assert_eq!(ended.code(), 130, "{ended:?}");
    lab.assert_nothing_left("after an interruption");
    let before = lab.trials();
    assert_eq!(
        before.iter().map(|trial| trial["status"].as_str().unwrap()).collect::<Vec<_>>(),
        ["decided", "interrupted"]
    );
    // With more time, a quick check continues as a quick check.
    let after = lab.run("claims check first.toml second.toml --json -q --budget 10s");
    assert!([0, 3].contains(&after.code()), "{after:?}");
    assert_eq!(answers(&after).len(), 2);
    let trials = lab.trials();
    assert_eq!(trials.len(), 2, "the second one went on: {trials:?}");
    assert!(trials[1]["rounds"].as_u64() > before[1]["rounds"].as_u64(), "{trials:?}");
}

#[test]
fn several_answers_end_in_a_table() {
    let name = "claims::several_answers_end_in_a_table";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let lab = Lab::new();
    lab.write("mine.toml", &claim("mine", SLOWER));
    lab.write("lacks.toml", &lacking());
    let checked = lab.run("claims check mine.toml lacks.toml -q --format markdown");
    assert_eq!(checked.code(), 0, "{checked:?}");
    let rows: Vec<&str> = checked.stdout.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 4, "{}", checked.stdout);
    assert!(rows[2].starts_with("| mine | twice | 0."), "{}", rows[2]);
    assert!(rows[3].contains("not testable here"), "{}", rows[3]);
    assert!(checked.stdout.contains("2 claims: 1 confirmed, 1 not testable here"), "{}", checked.stdout);
}

/// The published table agrees with the published runs, as this version judges them.
#[test]
fn published_table_matches_published_runs() {
    let root = PathBuf::from(format!("{}/../..", env!("CARGO_MANIFEST_DIR")));
    let lab = Lab::new();
    let store = lab.path("found.db");
    let mut unpack = lab.prepare("gunzip");
    let unpacked = unpack.arg("-c").arg(root.join("claims/found.db.gz")).output().unwrap();
    assert!(unpacked.status.success(), "{unpacked:?}");
    fs::write(&store, unpacked.stdout).unwrap();
    let table = lab.run(&format!("claims table {} --format markdown", store.display()));
    assert_eq!(table.code(), 0, "{table:?}");
    assert!(table.stdout.lines().count() > 40, "{}", table.stdout);
    let page = fs::read_to_string(root.join("docs/claims-found.md")).unwrap();
    assert!(page.ends_with(&table.stdout), "`./x claims` writes the page again:\n{}", table.stdout);
    let written = lab.run(&format!("claims table {} --format html --out page.html", store.display()));
    assert_eq!(written.code(), 0, "{written:?}");
    let html = fs::read_to_string(lab.path("page.html")).unwrap();
    let published = fs::read_to_string(root.join("docs/claims-found.html")).unwrap();
    let differs = html.lines().zip(published.lines()).find(|(here, there)| here != there);
    assert!(html == published, "`./x claims` writes docs/claims-found.html again: {differs:?}");
    // Each difference from the first table has the present verdict.
    let changes = fs::read_to_string(root.join("docs/claims-changes.md")).unwrap();
    let rows: Vec<&str> = changes.lines().filter(|line| line.starts_with("| [")).collect();
    assert!(rows.len() > 20, "{changes}");
    for row in rows {
        let cells: Vec<&str> = row.split(" | ").collect();
        let (id, _) = cells[0].trim_start_matches("| [").split_once(']').unwrap();
        let section = page.split("\n### ").find(|section| section.starts_with(&format!("{id}\n")));
        assert!(section.unwrap().contains(&format!("**{}**", cells[2])), "{row}");
    }
    // The headlines of the README are those of the page.
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let (_, found) = readme.split_once("<!-- headlines -->\n").expect("the section of the headlines");
    let (found, _) = found.split_once("<!-- end -->").expect("its end");
    let quoted: Vec<&str> = found.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    assert!(quoted.len() >= 7, "{found}");
    for headline in quoted {
        assert!(page.contains(&format!("\n- {headline}\n")), "{headline}");
    }
}
