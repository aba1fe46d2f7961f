//! Forged messages between agents and trials: the real traffic between a trial and an agent is recorded, changed at
//! random places, and replayed, by an agent to a trial and by a trial to an agent. Each ends with a message and in
//! bounded time, and no object named in a line is touched.

use crate::{
    child,
    dice::Dice,
    lab::{Disk, Lab, Subject, interrupted},
    table::Area,
};
use serde_json::Value;
use std::{fs, io::Write, os::unix::fs::PermissionsExt, path::Path, process::Stdio, thread, time::Duration};

/// A trial with the place `box`.
const TRIAL: &str = "compare ext4@box xfs@box --set device.size=320MiB --device image --workload random-write,append-fsync --set workload.file_size=1MiB \
                     --threads 1 --duration 100ms --set workload.warmup=20ms --rounds 2 --json --no-page --place box=";
/// Time that a side may take: an agent that is silent is waited for for 30 s, and another one after it for 120 s.
const PATIENCE: Duration = Duration::from_secs(240);
/// Time that an agent has for all jobs.
const JOBS: Duration = Duration::from_secs(12);
/// Memory that a side may take.
const MEMORY: &str = "--as=2147483648";

/// The lines of both sides.
struct Recorded {
    orders: Vec<Value>,
    answers: Vec<Value>,
}

/// Replays recorded lines, changed.
pub(crate) fn attack(subject: &Subject, seed: u64, count: u64) -> Area {
    let mut area = Area::of("agents", subject);
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
        area.skip("all", "needs root and loop devices");
        return area.finish();
    }
    let lab = Lab::new(subject);
    let recorded = match record(&lab) {
        Ok(recorded) => recorded,
        Err(problem) => {
            area.tried("record", Err(format!("the attack itself failed: {problem}")), "");
            return area.finish();
        }
    };
    for number in 0..count {
        if interrupted() || !subject.wants("agents") {
            break;
        }
        let mut dice = Dice::new(seed, "agents", number);
        let again = format!("cargo xtask attack agents --lies {} --seed {seed}", number + 1);
        let result = if number % 2 == 0 {
            lies_to_an_agent(subject, &recorded, &mut dice)
        } else {
            lies_to_a_trial(subject, &recorded, &mut dice)
        };
        area.tried(
            &format!("{} {number}", ["to an agent", "to a trial"][number as usize % 2]),
            result,
            &again,
        );
    }
    area.finish()
}

/// A real trial, with an agent whose lines are recorded.
fn record(lab: &Lab) -> Result<Recorded, String> {
    let [orders, answers, there] = ["orders", "answers", "there"].map(|name| lab.path(name));
    let script = format!(
        "#!/bin/sh\ntee {} | {} agent --home {} | tee {}\n",
        orders.display(),
        lab.program(),
        there.display(),
        answers.display()
    );
    let ended = lab.run(&format!("{TRIAL}{}", executable(lab, &script)));
    if !matches!(ended.code(), Some(0 | 3)) {
        return Err(format!("{:?}: {}", ended.code(), ended.last_words()));
    }
    let lines = |path: &Path| -> Vec<Value> {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let recorded = Recorded { orders: lines(&orders), answers: lines(&answers) };
    match recorded.orders.len() > 4 && recorded.answers.len() > 20 {
        true => Ok(recorded),
        false => Err("too few lines were recorded".into()),
    }
}

fn executable(lab: &Lab, script: &str) -> String {
    let path = lab.write("box.sh", script);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path.display().to_string()
}

/// Changes one to three places in the lines, mostly after the first. Signs of life stay.
fn changed(lines: &[Value], words: &[String], dice: &mut Dice) -> String {
    let mut lines = lines.to_vec();
    for _ in 0..=dice.below(3) {
        let at = if dice.below(6) == 0 { 0 } else { dice.below(lines.len()) };
        match dice.below(12) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[dice.below(lines.len())].clone()),
            _ => change(&mut lines[at], words, dice),
        }
        if lines.is_empty() {
            break;
        }
    }
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    match dice.below(10) {
        0 => text.truncate(text.floor_char_boundary(dice.below(text.len().max(1)))),
        1 => text.push_str(&"[".repeat(100_000)),
        2 => text.push_str(&"x".repeat(20 << 20)),
        _ => {}
    }
    text
}

/// Replaces, removes or repeats a value somewhere in this one.
fn change(value: &mut Value, words: &[String], dice: &mut Dice) {
    match value {
        Value::Array(all) if !all.is_empty() && dice.below(6) > 0 => {
            let at = dice.below(all.len());
            match dice.below(8) {
                0 => drop(all.remove(at)),
                1 => all.extend(vec![all[at].clone(); 1 + dice.below(5000)]),
                _ => change(&mut all[at], words, dice),
            }
        }
        Value::Object(all) if !all.is_empty() && dice.below(8) > 0 => {
            let key = all.keys().nth(dice.below(all.len())).expect("it is there").clone();
            match dice.below(10) {
                0 => drop(all.remove(&key)),
                1 => drop(all.insert("x".repeat(1 << dice.below(18)), Value::Null)),
                _ => change(all.get_mut(&key).expect("it is there"), words, dice),
            }
        }
        Value::String(_) if dice.below(4) > 0 => *value = words[dice.below(words.len())].as_str().into(),
        _ => {
            *value = match dice.below(8) {
                0 => Value::Null,
                1 => u64::MAX.into(),
                2 => 0.into(),
                3 => (-1).into(),
                4 => Value::Array(words.iter().map(|word| word.as_str().into()).collect()),
                5 => "y".repeat(300_000).into(),
                6 => serde_json::json!({ "mkfs": words, "mount": words }),
                _ => words[dice.below(words.len())].as_str().into(),
            }
        }
    }
}

/// Words that lead somewhere: to a disk and a file that are not theirs, out of a folder, to a program.
fn words(victim: &str, file: &Path) -> Vec<String> {
    let file = file.display();
    let mut all = vec![victim.to_owned(), file.to_string()];
    all.extend([
        format!("logdev={victim}"),
        format!("-z{file}"),
        format!("--rootdir={file}"),
        format!("../../../..{file}"),
    ]);
    all.extend(
        ["-f", "../../x", "", "/", "raw", "dir", "btrfs", "loop", "\u{1b}[2J", "$(id)", "1e999"]
            .map(str::to_owned),
    );
    all
}

/// Something that must stay as it is.
struct Victim {
    disk: Disk,
    sum: String,
    file: std::path::PathBuf,
}

impl Victim {
    fn new(lab: &Lab) -> Result<Self, String> {
        let disk = lab.disk("victim.img", 320)?;
        Ok(Self { sum: disk.sum()?, disk, file: lab.write("precious", "precious") })
    }

    fn words(&self) -> Vec<String> {
        words(&self.disk.path, &self.file)
    }

    fn is_whole(&self) -> Result<(), String> {
        let is_file_whole = fs::read(&self.file).is_ok_and(|text| text == b"precious");
        match is_file_whole && self.disk.sum()? == self.sum {
            true => Ok(()),
            false => Err("a file named in a line was touched".into()),
        }
    }
}

fn ends_well(ended: &child::Ended, lab: &Lab) -> Result<(), String> {
    if let Some(fault) = ended.fault() {
        return Err(fault);
    }
    // 1 would mean a bug in the program.
    if !matches!(ended.code(), Some(0 | 2 | 3 | 10..=15 | 130)) {
        return Err(format!("exit code {:?}: {}", ended.code(), ended.last_words()));
    }
    let clean = |home: &Path| {
        let cleaned = lab.run(&format!("clean --home {}", home.display()));
        cleaned.code() == Some(0) && crate::lab::names_in(&home.join("ledger")).is_empty()
    };
    let homes = [lab.home(), lab.path("there")];
    match homes
        .iter()
        .filter(|home| home.is_dir())
        .all(|home| child::eventually(Duration::from_secs(20), || clean(home)))
    {
        true => Ok(()),
        false => Err("something is left".into()),
    }
}

/// A trial that sends an agent unplanned jobs.
fn lies_to_an_agent(subject: &Subject, recorded: &Recorded, dice: &mut Dice) -> Result<(), String> {
    let lab = Lab::new(subject);
    let victim = Victim::new(&lab)?;
    let text = changed(&recorded.orders, &victim.words(), dice);
    let there = lab.path("there");
    let mut command = lab.behind(&["prlimit", MEMORY], &format!("agent --home {}", there.display()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut agent = command.spawn().map_err(|error| error.to_string())?;
    let mut orders = agent.stdin.take().expect("it is piped");
    // Time for the jobs; then it hears nothing more, which is an interruption.
    let (hangs_up, over) = std::sync::mpsc::channel::<()>();
    let speaks = thread::spawn(move || {
        let _ = orders.write_all(text.as_bytes());
        let _ = over.recv_timeout(JOBS);
    });
    let ended = child::finish(agent, PATIENCE);
    drop(hangs_up);
    let _ = speaks.join();
    ends_well(&ended, &lab).and_then(|()| victim.is_whole())
}

/// An agent that reports fictitious events.
fn lies_to_a_trial(subject: &Subject, recorded: &Recorded, dice: &mut Dice) -> Result<(), String> {
    let lab = Lab::new(subject);
    let victim = Victim::new(&lab)?;
    let message = lab.write("said", changed(&recorded.answers, &victim.words(), dice));
    // It stays alive for a while, or ends immediately.
    let end = ["true", "sleep 2", "while sleep 0.5; do echo '{\"answer\":\"alive\"}'; done"][dice.below(3)];
    let script = format!("#!/bin/sh\nread -r first\ncat {}\n{end}\n", message.display());
    let words = format!("{TRIAL}{} --budget 20s", executable(&lab, &script));
    let mut command = lab.behind(&["timeout", "--signal=INT", "60", "prlimit", MEMORY], &words);
    let ended = child::run(&mut command, PATIENCE);
    // Who waits for an agent is interrupted after a minute, and then has eight seconds.
    if ended.code() == Some(124) || ended.code() == Some(130) {
        return match ended.time > Duration::from_secs(75) {
            true => {
                Err(format!("an interruption was heard after {:.0?}", ended.time - Duration::from_secs(60)))
            }
            false => victim.is_whole(),
        };
    }
    ends_well(&ended, &lab).and_then(|()| victim.is_whole())
}
