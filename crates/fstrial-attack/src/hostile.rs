//! Hostile files, for every command that reads one, and hostile stores: each ends in bounded time and memory, with a
//! message, and never as a fault of the program.

use crate::{
    child::{self, Ended},
    dice::Dice,
    lab::{Lab, Subject, workspace},
    table::Area,
};
use rusqlite::Connection;
use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::symlink,
    path::Path,
    time::Duration,
};

/// Memory that a command may take: far more than any file that makes sense needs.
const MEMORY: &str = "--as=1073741824";
/// Time that a command may take, on a busy machine without optimisation.
const MAX_TIME: Duration = Duration::from_secs(30);

/// Commands that read a file. `{file}` is the file.
const READERS: [(&str, &str); 10] = [
    ("run", "run {file} --dry-run"),
    ("workload", "compare ext4 xfs --workload {file}.toml --dry-run"),
    ("fio-job", "compare ext4 xfs --workload {file}.fio --dry-run"),
    ("explain", "workloads explain {file}"),
    ("judge", "judge {file}"),
    ("claim", "claims show {file}"),
    ("check", "claims check {file} --dry-run"),
    ("model", "compare ext4 xfs --device model:{file}.toml --dry-run"),
    ("model-show", "device show {file}.toml"),
    ("import", "results import {file}"),
];

/// A file: its name, and its maker.
type Hostile = (&'static str, fn(&Path) -> std::io::Result<()>);

/// Hostile files.
const FILES: [Hostile; 15] = [
    ("empty", |path| fs::write(path, "")),
    ("sparse-gigabyte", |path| File::create(path)?.set_len(1 << 30)),
    ("all-zeroes-for-ever", |path| symlink("/dev/zero", path)),
    ("long-line", |path| fs::write(path, "9".repeat(32 << 20))),
    ("many-lines", |path| fs::write(path, "a,b,c\n".repeat(4 << 20))),
    ("brackets", |path| fs::write(path, format!("x = {}", "[".repeat(100_000)))),
    ("tables", |path| fs::write(path, format!("{}\n", "[a.b]\n".repeat(100_000)))),
    ("dotted", |path| fs::write(path, format!("{} = 1\n", vec!["a"; 100_000].join(".")))),
    ("braces", |path| fs::write(path, format!("x = {}", "{a=".repeat(100_000)))),
    ("random", |path| {
        let mut dice = Dice::new(7, "random", 0);
        let bytes: Vec<u8> = (0..200_000).map(|_| u8::try_from(dice.below(256)).expect("a byte")).collect();
        fs::write(path, bytes)
    }),
    ("nul-bytes", |path| fs::write(path, "[trial]\0\nname\0 = \"\0\"\n")),
    ("numbers", |path| {
        fs::write(
            path,
            "round,arm,value,order,cv\n1,a,1e300,1,1.4e154\n1,b,1e-300,2,1e308\n2,a,1,1,1e200\n2,b,1,2,0\n",
        )
    }),
    ("huge-numbers", |path| {
        fs::write(
            path,
            "[trial]\nrounds = 99999999999999999999\nbudget = \"1e300h\"\n[device]\nsize = \"1e30TiB\"\n",
        )
    }),
    ("link-to-itself", |path| symlink(path, path)),
    ("folder", |path| fs::create_dir(path)),
];

/// Tries every file with every command that reads one.
pub(crate) fn files(subject: &Subject) -> Area {
    let mut area = Area::of("files", subject);
    let lab = Lab::new(subject);
    for (name, make) in FILES.iter().filter(|(name, _)| subject.wants(name)) {
        for (reader, words) in READERS {
            let file = lab.path(&format!("hostile-{name}"));
            for ending in ["", ".toml", ".fio"] {
                let file = file.with_extension(ending.trim_start_matches('.'));
                if file.symlink_metadata().is_err() {
                    make(&file).expect("there is room");
                }
            }
            let words = words.replace("{file}", &file.display().to_string());
            let ended = child::run(&mut lab.behind(&["prlimit", MEMORY], &words), MAX_TIME);
            let again = format!("cargo xtask attack files --only {name}");
            area.tried(&format!("{name} {reader}"), ends_in_words(&ended, &[0, 2, 3, 10, 11]), &again);
        }
    }
    area.finish()
}

/// It ended on its own, not as a fault of the program, and with one of these codes.
fn ends_in_words(ended: &Ended, codes: &[i32]) -> Result<(), String> {
    if let Some(fault) = ended.fault() {
        return Err(fault);
    }
    // Nothing here justifies a gigabyte.
    if ended.stderr.to_lowercase().contains("cannot allocate memory")
        || ended.stderr.contains("out of memory")
    {
        return Err(format!("takes all memory: {}", ended.last_words()));
    }
    match ended.code() {
        Some(code) if codes.contains(&code) => Ok(()),
        code => Err(format!("exit code {code:?}: {}", ended.last_words())),
    }
}

/// Commands that read the store.
const STORE_READERS: [&str; 9] = [
    "results list",
    "results list --json",
    "report 1 --format text",
    "results export --format csv",
    "results export 1 --format fio --out fio",
    "report 1 --out -",
    "trend xfs/ext4",
    "report 1 2 --format text",
    "resume 1",
];

/// SQL on a foreign store.
const STATEMENTS: [(&str, &str); 12] = [
    ("trigger", "CREATE TRIGGER t AFTER INSERT ON trial BEGIN DELETE FROM trial; END"),
    ("view-of-trials", "ALTER TABLE trial RENAME TO x; CREATE VIEW trial AS SELECT * FROM x"),
    ("view-of-runs", "ALTER TABLE run RENAME TO y; CREATE VIEW run AS SELECT * FROM y"),
    ("long-name", "UPDATE trial SET name = replace(hex(zeroblob(20000000)), '00', 'name')"),
    ("trial-is-no-file", "UPDATE trial SET toml = '[[[['"),
    ("trial-is-long", "UPDATE trial SET toml = replace(hex(zeroblob(500000)), '00', '[a.b]' || char(10))"),
    ("environment", "UPDATE session SET environment = 'x', started_at = 'yesterday'"),
    ("times", "UPDATE run SET started_at = '-9999-99-99T99:99:99Z'"),
    ("histogram-of-zeroes", "UPDATE histogram SET latencies_ns = zeroblob(10)"),
    (
        "histogram-lengths",
        "UPDATE histogram SET latencies_ns = CAST(x'1c849313' || x'ffffffff' || substr(latencies_ns, 9) AS BLOB)",
    ),
    (
        "many-tags",
        "INSERT INTO tag (trial, tag) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) \
         SELECT 1, 'tag' || i FROM n",
    ),
    ("newer-schema", "PRAGMA user_version = 99999"),
];

/// Damages stores, and reads them with every command that reads one.
pub(crate) fn stores(subject: &Subject, seed: u64, count: u64) -> Area {
    let mut area = Area::of("stores", subject);
    let lab = Lab::new(subject);
    let _ = fs::create_dir_all(lab.home());
    for (case, statement) in STATEMENTS {
        if !subject.wants(case) {
            continue;
        }
        // Not every statement fits every schema; one that fails has changed nothing, and that is not an attempt.
        let made = with_store(&lab, 0).and_then(|path| {
            Connection::open(path).and_then(|store| store.execute_batch(statement)).map_err(|e| e.to_string())
        });
        match made {
            Ok(()) => read_all(&lab, &mut area, case, &format!("cargo xtask attack stores --only {case}")),
            Err(problem) => area.skip(case, &problem),
        }
    }
    for number in 0..count {
        if !subject.wants("damaged") {
            break;
        }
        let mut dice = Dice::new(seed, "store", number);
        let Ok(path) = with_store(&lab, dice.below(2)) else { continue };
        damage(&path, &mut dice);
        let again = format!("cargo xtask attack stores --only damaged --stores {} --seed {seed}", number + 1);
        read_all(&lab, &mut area, &format!("damaged {number}"), &again);
    }
    area.finish()
}

/// A store in the home: one of a released schema, or (0) one with trials that have just been run.
fn with_store(lab: &Lab, schema: usize) -> Result<std::path::PathBuf, String> {
    let path = lab.home().join("results.db");
    for ending in ["", "-wal", "-shm", "-journal"] {
        let _ = fs::remove_file(lab.home().join(format!("results.db{ending}")));
    }
    if schema == 0 {
        lab.with_trials()?;
        return Ok(path);
    }
    let from = workspace().join(format!("fixtures/store/schema-{schema}.db"));
    fs::copy(&from, &path).map_err(|e| format!("{}: {e}", from.display()))?;
    Ok(path)
}

fn read_all(lab: &Lab, area: &mut Area, case: &str, again: &str) {
    let path = lab.home().join("results.db");
    let Ok(hostile) = fs::read(&path) else { return };
    for words in STORE_READERS {
        let ended = child::run(&mut lab.behind(&["prlimit", MEMORY], words), MAX_TIME);
        // 1 would mean a bug in the program.
        area.tried(&format!("{case} {words}"), ends_in_words(&ended, &[0, 2, 3, 10, 11, 14]), again);
        // A command that takes a change back writes; the next one gets the same file.
        if fs::read(&path).ok().as_ref() != Some(&hostile) {
            let _ = fs::write(&path, &hostile);
        }
    }
}

/// Flips bytes, puts zeroes over pages, cuts.
fn damage(path: &Path, dice: &mut Dice) {
    let mut bytes = fs::read(path).expect("it was just copied");
    for _ in 0..=dice.below(40) {
        let at = if dice.below(3) == 0 { dice.below(200) } else { dice.below(bytes.len()) };
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << dice.below(8);
        }
    }
    match dice.below(6) {
        0 => bytes.truncate(dice.below(bytes.len())),
        1 => {
            let page = dice.below(bytes.len() / 4096) * 4096;
            bytes[page..page + 4096].fill(0);
        }
        _ => {}
    }
    File::create(path).and_then(|mut file| file.write_all(&bytes)).expect("there is room");
}
