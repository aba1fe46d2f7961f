//! Next to the fio that is installed: our answers have its structure, it takes the job files we write, and it makes of
//! sizes and sections what we make of them. Without fio the tests say `SKIPPED`.

use crate::support::{self, Lab};
use fstrial_model::fio::{ForeignJobs, How, Surroundings, output::FioOutput, understand};
use rustix::fs::inotify;
use serde_json::Value;
use std::{
    fs,
    io::Write,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// The line by which fio names its version; empty without fio.
fn fio_version() -> String {
    let found = support::command("fio").arg("--version").output();
    found.map(|found| String::from_utf8_lossy(&found.stdout).into_owned()).unwrap_or_default()
}

/// Whether fio's own words can be read; each version may have other ones.
fn is_understood<T>(name: &str, read: &[T]) -> bool {
    if read.is_empty() {
        support::skip(name, &format!("{} prints its requests otherwise", fio_version().trim()));
    }
    !read.is_empty()
}

fn has_fio(name: &str) -> bool {
    let works = fio_version().starts_with("fio-3");
    if !works {
        support::skip(name, "needs fio 3");
    }
    works
}

/// Runs fio in a folder with a job file on standard input.
fn fio(folder: &Path, job_file: &str) -> String {
    let mut child = support::command("fio")
        .args(ForeignJobs::arguments(folder.to_str().unwrap()))
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(job_file.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{job_file}\n{out}\n{err}");
    out.into_owned()
}

fn host() -> Surroundings {
    Surroundings { cpus: 2, memory_mib: 2048, page_bytes: 4096, variables: [].into() }
}

/// Every path of keys, but for those that hang on the job and the machine.
fn paths(value: &Value, at: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| !["job options", "disk_util"].contains(&key.as_str()))
            .for_each(|(key, inner)| paths(inner, &format!("{at}/{key}"), out)),
        Value::Array(items) => items.iter().for_each(|inner| paths(inner, &format!("{at}[]"), out)),
        _ => out.push(at.to_owned()),
    }
}

#[test]
fn exported_runs_have_the_structure_of_fios_own() {
    if !has_fio("exported_runs_have_the_structure_of_fios_own") {
        return;
    }
    let lab = Lab::new();
    for folder in ["a", "b", "fio"] {
        fs::create_dir(lab.path(folder)).unwrap();
    }
    let workload = "use = \"random-mixed\"\nname = \"mixed\"\nfsync_every = 4\ndirect = false\n";
    fs::write(lab.path("mixed.toml"), workload).unwrap();
    let flags =
        "--workload mixed.toml --threads 1 --duration 1s --warmup 50ms --file-size 4MiB --rounds 1 -q";
    let compared = lab.run(&format!("compare dir:a dir:b {flags}"));
    assert!([0, 3].contains(&compared.code()), "{compared:?}");
    let exported = lab.run("results export --format fio --out out");
    assert_eq!(exported.code(), 0, "{exported:?}");
    let real = "[a]\nrw=randrw\nbs=16k\nsize=4m\nfsync=4\nruntime=1\n";
    let real: Value = serde_json::from_str(&fio(&lab.path("fio"), real)).unwrap();
    for arm in support::names_in(&lab.path("out/round-1")) {
        let text = fs::read_to_string(lab.path(&format!("out/round-1/{arm}/mixed-1.json"))).unwrap();
        let ours: Value = serde_json::from_str(&text).unwrap();
        let [mut left, mut right] = [Vec::new(), Vec::new()];
        paths(&ours, "", &mut left);
        paths(&real, "", &mut right);
        let without = |all: &[String], of: &[String]| -> Vec<String> {
            all.iter().filter(|path| !of.contains(path)).cloned().collect()
        };
        assert_eq!(without(&left, &right), Vec::<String>::new(), "not in fio's");
        // Later versions have more.
        if fio_version().contains("fio-3.33") {
            assert_eq!(without(&right, &left), Vec::<String>::new(), "not in ours");
        }
        let read = FioOutput::parse(&text).unwrap();
        assert!(
            read.jobs[0].values["read.iops"].value > 0.0 && read.jobs[0].values["sync.lat_p99"].value > 0.0
        );
    }
    // None is overwritten, and what fails says so.
    assert_eq!(lab.run("results export --format fio --out out").code(), 2);
}

#[test]
fn fio_takes_what_it_is_given_and_stays_in_its_folder() {
    if !has_fio("fio_takes_what_it_is_given_and_stays_in_its_folder") {
        return;
    }
    let lab = Lab::new();
    let folder = lab.path("arm:1");
    fs::create_dir(&folder).unwrap();
    let text = "[global]\nkb_base=1000\nsize=(64 * 4ki)\nrw=randwrite\ndescription=x\ndirectory=/nowhere\n\
                [global-not]\n[same]\nverify=crc32c\nbssplit=4ki/50:8ki/50\n[same]\nstonewall\nname=global\n\
                rw=read\nbs=4ki,8ki\npercentile_list=1\n";
    let understanding = understand("job.fio", text, &host()).unwrap();
    let How::Foreign { jobs, .. } = understanding.how else { panic!("{}", understanding.explain()) };
    let given = jobs.render(folder.to_str().unwrap(), u64::MAX).unwrap();
    let output = FioOutput::parse(&fio(&folder, &given)).unwrap();
    let names: Vec<&str> = output.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["same", "global"]);
    assert!(output.jobs.iter().all(|job| job.error == 0), "{output:?}");
    assert!(output.jobs[1].values.contains_key("read.clat_p999"), "{output:?}");
    // Both sections have one name, so they used one file.
    let mut left = support::names_in(&folder);
    left.sort();
    assert_eq!(left, ["job-1.0.0"]);
    assert_eq!(fs::metadata(folder.join("job-1.0.0")).unwrap().len(), 64 * 4096);
}

#[test]
fn a_seed_decides_the_offsets() {
    if !has_fio("a_seed_decides_the_offsets") {
        return;
    }
    let lab = Lab::new();
    let understanding = understand(
        "job.fio",
        "[a]\nrw=randwrite\nsize=256k\nnumber_ios=8\nnorandommap\nverify=md5\ndo_verify=0\nthinktime=1\nfallocate=none\nnumjobs=2\n",
        &host(),
    );
    let How::Foreign { jobs, .. } = understanding.unwrap().how else { panic!() };
    let written = |name: &str, seed: u64| -> Vec<Vec<bool>> {
        let folder = lab.path(name);
        fs::create_dir(&folder).unwrap();
        fio(&folder, &jobs.render(folder.to_str().unwrap(), seed).unwrap());
        let files = ["job-1.0.0", "job-1.1.0"].map(|file| fs::read(folder.join(file)).unwrap());
        files
            .map(|bytes| bytes.chunks(4096).map(|block| block.iter().any(|byte| *byte != 0)).collect())
            .into()
    };
    let (one, again, other) = (written("one", 7), written("again", 7), written("other", 8));
    assert_eq!(one, again);
    assert_ne!(one, other);
    assert_ne!(one[0], one[1], "clones differ");
}

#[test]
fn workloads_show_takes_what_compare_takes() {
    let lab = Lab::new();
    lab.write("good.fio", "[a]\nrw=read\nsize=1m\ndirect=1\n");
    lab.write("mine.toml", "kind = \"io\"\nabout = \"our own\"\nthreads = [3]\nfile_size = \"2MiB\"\n");
    let good = lab.run("workloads show good.fio");
    assert_eq!(good.code(), 0, "{good:?}");
    let first = "good.fio runs natively: all 3 keys have an exact native form";
    assert!(good.stdout.starts_with(first) && good.stdout.contains("[a]  can run natively"), "{good:?}");
    let mine = lab.run("workloads show mine.toml");
    assert_eq!(mine.code(), 0, "{mine:?}");
    assert!(
        mine.stdout.contains("# Threads:    3\n") && mine.stdout.contains("about = \"our own\""),
        "{mine:?}"
    );
    assert_eq!(lab.run("workloads show mine.toml --json").json()[0]["about"], "our own");
    assert_eq!(lab.run("workloads show good.fio --json").json()[0]["runs"], "native");
    // Both commands say the same of a word that is not a workload.
    lab.write("job.ini", "[a]\nrw=read\nsize=1m\n");
    for (word, hint) in
        [("nosuch", "lists what there is"), ("missing.fio", "missing.fio"), ("job.ini", "in .fio")]
    {
        let shown = lab.run(&format!("workloads show {word}"));
        let compared = lab.run(&format!("compare dir:a dir:b --workload {word} --dry-run"));
        assert_eq!((shown.code(), compared.code()), (2, 2), "{shown:?} {compared:?}");
        assert_eq!(shown.stderr, compared.stderr);
        assert!(shown.stderr.contains(hint), "{shown:?}");
    }
}

#[test]
fn numbers_of_the_environment_stand_for_variables_and_nothing_else_does() {
    let lab = Lab::new();
    lab.write("size.fio", "[a]\nrw=read\nsize=${JOB_SIZE}\ndirect=1\n");
    for (value, code) in
        [("64m", 0), ("1048576", 0), ("hunter2", 2), ("64m;x", 2), ("", 2), ("1234567890123456", 2)]
    {
        let shown = lab
            .prepare(support::FSTRIAL)
            .args(["workloads", "show", "size.fio"])
            .env("JOB_SIZE", value)
            .output();
        let shown = shown.unwrap();
        assert_eq!(shown.status.code(), Some(code), "{value}: {shown:?}");
        let said = [shown.stdout, shown.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
        assert!(code == 0 || value.is_empty() || !said.contains(value), "{said}");
    }
}

/// Each is wrong in a way of its own, at a line of its own.
const MANY_FAULTS: &str = "[global]\nioengine=rbd\n[a]\nfilename=/dev/sda\nsiz=1g\nrw=randwrit\nwrite_lat_log=x\n\
                           [b]\nsize=1g\nruntime=1m30s\nopendir=/etc\n";

#[test]
fn all_problems_of_a_job_file_are_told_at_once() {
    let lab = lab_with(MANY_FAULTS);
    let problems = ["`rbd`", "no key `siz`", "`randwrit`", "`write_lat_log`", "`1m30s`", "`opendir`"];
    let compared = lab.run("compare dir:a dir:b --workload job.fio");
    assert_eq!(compared.code(), 2, "{compared:?}");
    let shown = lab.run("workloads show job.fio");
    assert_eq!(shown.code(), 2, "{shown:?}");
    for problem in problems {
        assert!(compared.stderr.contains(problem), "{problem}: {}", compared.stderr);
        assert!(shown.stdout.contains(problem), "{problem}: {}", shown.stdout);
    }
    assert!(shown.stderr.contains("6 problems"), "{}", shown.stderr);
    let document = lab.run("workloads show job.fio --json").json().remove(0);
    let lines: Vec<u64> =
        document["problems"].as_array().unwrap().iter().map(|one| one["line"].as_u64().unwrap()).collect();
    assert_eq!((lines, &document["runs"]), (vec![2, 5, 6, 7, 10, 11], &"refused".into()));
    // What is well is told, too.
    let fates = document["sections"][1]["keys"].as_array().unwrap();
    let fates: Vec<&str> = fates.iter().map(|key| key["fate"].as_str().unwrap()).collect();
    assert_eq!(fates, ["note", "refused", "refused", "refused"]);
}

/// Notices when a file, or anything in a folder, is opened.
struct Watch(OwnedFd);

impl Watch {
    fn on(paths: &[&Path]) -> Self {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        for path in paths {
            inotify::add_watch(&watch, *path, inotify::WatchFlags::ALL_EVENTS).unwrap();
        }
        Self(watch)
    }

    fn events(&self) -> usize {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        std::iter::from_fn(|| reader.next().ok().map(|_| ())).count()
    }
}

/// A job for a device, with lines that decide whether it runs natively.
fn job_for(path: &str, lines: &str) -> String {
    format!("[global]\nfilename={path}\nsize=1m\nrw=randwrite\ndirect=1\n[a]\n{lines}[b]\nstonewall\n")
}

#[test]
fn files_that_a_job_names_are_neither_opened_nor_changed() {
    let through_fio = has_fio("files_that_a_job_names_are_neither_opened_nor_changed (through fio)");
    for (lines, how) in [
        ("[c]\nstonewall\nfilename=CANARY\n", "through fio"),
        ("verify=md5\n", "through fio"),
        ("", "natively"),
    ] {
        if how == "through fio" && !through_fio {
            continue;
        }
        let lab = Lab::new();
        for folder in ["a", "b", "outside"] {
            fs::create_dir(lab.path(folder)).unwrap();
        }
        let canary = lab.path("outside/canary");
        let bytes: Vec<u8> = (0..1 << 20).map(|n: u32| (n % 251) as u8).collect();
        fs::write(&canary, &bytes).unwrap();
        let named = canary.to_str().unwrap();
        let mut job = job_for(named, &lines.replace("CANARY", named));
        if how == "natively" {
            job = job.replace("[b]\nstonewall\n", "");
        }
        lab.write("job.fio", &job);
        let watch = Watch::on(&[&canary, &lab.path("outside")]);
        let shown = lab.run("workloads show job.fio");
        assert_eq!(shown.code(), 0, "{shown:?}");
        assert!(shown.stdout.contains(&format!("runs {how}")), "{shown:?}");
        let run = lab.run("compare dir:a dir:b --workload job.fio --rounds 1 --json");
        assert!([0, 3].contains(&run.code()), "{run:?}");
        // The answer says so.
        let about = run.document()["workloads"][0]["about"].as_str().unwrap().to_owned();
        assert!(about.contains("nothing that it names is opened") && about.contains("file-1"), "{about}");
        assert_eq!(watch.events(), 0, "{how}: {lines}");
        assert!(fs::read(&canary).unwrap() == bytes && watch.events() > 0, "the watch sees what is opened");
        assert_eq!(support::names_in(&lab.path("outside")), ["canary"]);
        assert_eq!(support::names_in(&lab.path("a")), [""; 0]);
    }
}

#[test]
fn a_device_that_a_job_names_is_neither_opened_nor_changed() {
    let name = "a_device_that_a_job_names_is_neither_opened_nor_changed";
    if !support::is_root_with_loop_devices(name) {
        return;
    }
    let through_fio = has_fio(&format!("{name} (through fio)"));
    let lab = Lab::new();
    let bytes: Vec<u8> = (0..8 << 20).map(|n: u32| (n % 253) as u8).collect();
    fs::write(lab.path("canary"), &bytes).unwrap();
    let device = lab.loop_device(&lab.path("canary"));
    // What looks at new devices on its own has done so.
    support::pause(Duration::from_millis(500));
    let device_path = device.path();
    let watch = Watch::on(&[&device_path]);
    let path = device_path.to_str().unwrap();
    // Without a size, as jobs for devices are.
    let native = format!("[a]\nfilename={path}\nrw=randwrite\ndirect=1\nnumber_ios=64\n");
    lab.write("native.fio", &native);
    lab.write("fio.fio", &format!("{native}verify=md5\ndo_verify=0\nthinktime=1\n"));
    let image = "--device image:images --size 512MiB --rounds 1 --json";
    for (arms, job, how) in [("raw ext4", "native.fio", "natively"), ("ext4 xfs", "fio.fio", "through fio")] {
        if how == "through fio" && !through_fio {
            continue;
        }
        let run = lab.run(&format!("compare {arms} --workload {job} {image}"));
        assert!([0, 3].contains(&run.code()), "{run:?}");
        assert!(run.stderr.contains(&format!("{job} runs {how}")), "{run:?}");
        assert!(run.stderr.contains("each file here has 256MiB"), "{run:?}");
        assert_eq!(watch.events(), 0, "{how}");
    }
    assert!(fs::read(&device_path).unwrap() == bytes && watch.events() > 0, "the watch sees what is opened");
    drop(device);
    lab.assert_nothing_left("after jobs for a device");
}

/// What the engine's own tests say of `round_robin`, of fio: files by turns, each in its own order.
#[test]
fn fio_goes_from_file_to_file() {
    if !has_fio("fio_goes_from_file_to_file") {
        return;
    }
    let lab = Lab::new();
    lab.write("job.fio", "[job]\nsize=192k\nbs=16k\nnrfiles=3\nrw=write\nwrite_iolog=log\n");
    let ended = lab.prepare("fio").arg("job.fio").output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let log = fs::read_to_string(lab.path("log")).unwrap();
    let place = |line: &str| -> Option<(u64, u64)> {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, file, "write", offset, _] = words[..] else { return None };
        Some((file.rsplit('.').next()?.parse().ok()?, offset.parse::<u64>().ok()? / 16_384))
    };
    let places: Vec<(u64, u64)> = log.lines().filter_map(place).collect();
    if is_understood("fio_goes_from_file_to_file", &places) {
        assert_eq!(places, (0..12).map(|n| (n % 3, n / 3)).collect::<Vec<_>>(), "{log}");
    }
}

/// strace, and the right to use it.
fn has_strace(name: &str) -> bool {
    let works = support::command("strace").args(["-qq", "true"]).output();
    let works = works.is_ok_and(|ended| ended.status.success());
    if !works {
        support::skip(name, "needs strace, and the right to trace");
    }
    works
}

/// The system calls of a command that begin with these words, in order.
fn calls(lab: &Lab, command: &str, words: &[&str]) -> Vec<String> {
    let trace = ["-f", "-qq", "-e", "trace=fadvise64,madvise", "-o", "trace"];
    let traced = lab.prepare("strace").args(trace).args(command.split(' ')).output().unwrap();
    assert!([0, 3].iter().any(|code| traced.status.code() == Some(*code)), "{command}: {traced:?}");
    let text = fs::read_to_string(lab.path("trace")).unwrap();
    let word = |line: &str| words.iter().find(|word| line.contains(**word)).map(|word| (*word).to_owned());
    text.lines().filter_map(word).collect()
}

#[test]
fn the_page_cache_is_told_what_fio_tells_it() {
    let name = "the_page_cache_is_told_what_fio_tells_it";
    if !has_fio(name) || !has_strace(name) {
        return;
    }
    for (lines, told, passes) in [
        ("rw=read\nloops=3\n", "POSIX_FADV_SEQUENTIAL", 3),
        ("rw=randread\nloops=2\n", "POSIX_FADV_RANDOM", 2),
        ("rw=randread\nfadvise_hint=sequential\n", "POSIX_FADV_SEQUENTIAL", 1),
        ("rw=randread\nioengine=mmap\n", "MADV_RANDOM", 1),
    ] {
        let lab = lab_with(&format!("[job]\nsize=64k\nbs=16k\nthread\n{lines}"));
        let words = ["POSIX_FADV_SEQUENTIAL", "POSIX_FADV_RANDOM", "MADV_RANDOM", "POSIX_FADV_DONTNEED"];
        let theirs = calls(&lab, "fio job.fio", &words);
        let compare = format!("{} compare dir:a dir:b --workload job.fio --rounds 1", support::FSTRIAL);
        let ours = calls(&lab, &compare, &words);
        let count = |calls: &[String], word: &str| calls.iter().filter(|call| *call == word).count();
        assert!(theirs.iter().any(|call| call == told), "{lines}: {theirs:?}");
        // Of two arms and one round. fio tells it again whenever it opens the file again.
        assert_eq!(count(&ours, told), 2, "{lines}: {ours:?}");
        // fio also drops what it has laid out, and before the first pass.
        assert!(count(&theirs, "POSIX_FADV_DONTNEED") >= passes, "{lines}: {theirs:?}");
        assert_eq!(count(&ours, "POSIX_FADV_DONTNEED"), 2 * (passes - 1), "{lines}: {ours:?}");
    }
}

/// Two phases that run natively: the second one reads no part of the first, and ends when it is done.
const NATIVE: &str = "[global]\ndirect=1\nsize=1m\nbs=16k\n[reader]\nrw=randread\ntime_based\nruntime=1s\nramp_time=50ms\n\
                      numjobs=2\n[writer]\nstonewall\nrw=write\nfsync=4\nend_fsync=1\n";
/// One job that verifies, and two clones of another.
const FOREIGN: &str = "[writer]\nrw=randwrite\nsize=1m\nverify=md5\n[reader]\nstonewall\nrw=randread\nsize=1m\n\
                       bssplit=4k/50:8k/50\nnumjobs=2\n";

fn lab_with(job_file: &str) -> Lab {
    let lab = Lab::new();
    for folder in ["a", "b"] {
        fs::create_dir(lab.path(folder)).unwrap();
    }
    fs::write(lab.path("job.fio"), job_file).unwrap();
    lab
}

/// The phases and metrics of a trial with this job file. Saved as a file it repeats without the job file.
fn compared(job_file: &str, how: &str) -> (Lab, Vec<String>) {
    let lab = lab_with(job_file);
    let run = lab.run("compare dir:a dir:b --workload job.fio --rounds 1 --json --save trial.toml");
    assert!([0, 3].contains(&run.code()), "{run:?}");
    assert!(run.stderr.starts_with(&format!("job.fio {how}")), "{run:?}");
    fs::remove_file(lab.path("job.fio")).unwrap();
    let again = lab.run("run trial.toml --json");
    assert!([0, 3].contains(&again.code()), "{again:?}");
    for folder in ["a", "b"] {
        assert_eq!(support::names_in(&lab.path(folder)), [""; 0], "an arm is left as it was");
    }
    let names = |document: Value| -> Vec<String> {
        let workloads = document["workloads"].as_array().unwrap();
        workloads.iter().map(|workload| workload["phase"].as_str().unwrap().to_owned()).collect()
    };
    let found = names(run.document());
    assert_eq!(found, names(again.document()));
    (lab, found)
}

#[test]
fn a_job_file_is_compared_natively() {
    let (lab, results) = compared(NATIVE, "runs natively: all");
    assert_eq!(results, ["reader", "writer"]);
    let exported = lab.run("results export --format fio --out out");
    assert_eq!(exported.code(), 0, "{exported:?}");
    let arm = support::names_in(&lab.path("out/round-1")).remove(0);
    let text = fs::read_to_string(lab.path(&format!("out/round-1/{arm}/job-2.json"))).unwrap();
    let answer = FioOutput::parse(&text).unwrap();
    let names: Vec<&str> = answer.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["reader", "writer"]);
    // 64 requests, as in fio, and every fourth is synced; again at the end.
    let writer: Value = serde_json::from_str::<Value>(&text).unwrap()["jobs"][1].clone();
    assert_eq!(writer["write"]["total_ios"], 64);
    assert!((16..=17).contains(&writer["sync"]["total_ios"].as_u64().unwrap()), "{writer}");
    assert_eq!(writer["job options"]["numjobs"], "1");
}

#[test]
fn a_job_file_is_compared_through_fio() {
    if !has_fio("a_job_file_is_compared_through_fio") {
        return;
    }
    let (lab, results) = compared(FOREIGN, "runs through fio: `verify` (line 4)");
    let metrics = |job: &'static str, way: &'static str| {
        ["iops", "bytes", "p99"].into_iter().map(move |what| format!("{job} {way} {what}"))
    };
    let expected: Vec<String> = metrics("writer", "write").chain(metrics("reader", "read")).collect();
    assert_eq!(results, expected);
    let exported = lab.run("results export --format fio --out out");
    assert!(
        exported.stdout.starts_with("0 runs written") && exported.stdout.contains("no load"),
        "{exported:?}"
    );
}

/// Written, and read back from the device.
const VERIFIED: &str = "[job]\nrw=randwrite\nsize=4m\nbs=16k\ndirect=1\nverify=md5\n";

/// Writes to one block of every file below a folder, over and over, until it is dropped.
struct Spoiler(Arc<AtomicBool>, Option<thread::JoinHandle<()>>);

impl Spoiler {
    fn of(folder: PathBuf) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let spoil = move || {
            while !over.load(Relaxed) {
                for file in files_below(&folder) {
                    // Gone again, or not there yet.
                    let Ok(file) = fs::OpenOptions::new().write(true).open(file) else { continue };
                    let _refused = file.write_all_at(&[0xa5; 100], 49_152 + 4096);
                }
                support::pause(Duration::from_micros(200));
            }
        };
        Self(is_over, Some(thread::spawn(spoil)))
    }
}

impl Drop for Spoiler {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        self.1.take().unwrap().join().unwrap();
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[test]
fn a_job_that_verifies_finds_a_block_that_was_changed() {
    let (lab, results) = compared(VERIFIED, "runs natively: all");
    lab.write("job.fio", VERIFIED);
    lab.write("job.toml", &lab.run("workloads show job.fio --toml").stdout);
    assert!(lab.run("workloads show job.toml").stdout.contains("# Verified:   each block"));
    assert_eq!(results, ["job", "job-verify"]);
    let lab = lab_with(VERIFIED);
    let spoiler = Spoiler::of(lab.path("b"));
    let spoilt = lab.run("compare dir:a dir:b --workload job.fio --rounds 1");
    drop(spoiler);
    let said = format!("{}{}", spoilt.stdout, spoilt.stderr);
    for words in ["verify ", "at 49152: expected write 1 of the block at 49152 of file 0, found "] {
        assert!(said.contains(words), "{spoilt:?}");
    }
}

#[test]
fn a_job_reads_back_in_the_order_of_its_writes() {
    if !has_strace("a_job_reads_back_in_the_order_of_its_writes") {
        return;
    }
    let lab = lab_with(VERIFIED);
    let trace = ["-f", "-qq", "-s", "0", "-e", "trace=pread64,pwrite64", "-o", "trace"];
    let compare = ["compare", "dir:a", "dir:b", "--workload", "job.fio", "--rounds", "1"];
    lab.prepare("strace").args(trace).arg(support::FSTRIAL).args(compare).output().unwrap();
    let text = fs::read_to_string(lab.path("trace")).unwrap();
    let places = |call: &str| -> Vec<u64> {
        let place = |line: &str| line.split_once(", 16384, ")?.1.split_once(')')?.0.parse().ok();
        text.lines().filter(|line| line.contains(call)).filter_map(place).collect()
    };
    let (writes, reads) = (places("pwrite64("), places("pread64("));
    assert_eq!(writes.len(), 512, "of two arms");
    assert!(writes.windows(2).any(|two| two[0] > two[1]), "at random");
    // In addition, direct I/O is tried with one read.
    for written in writes.chunks(256) {
        assert!(reads.windows(256).any(|read| read == written), "{written:?}");
    }
}

#[test]
fn a_job_verifies_on_filesystems() {
    if !support::is_root_with_loop_devices("a_job_verifies_on_filesystems") {
        return;
    }
    let lab = Lab::new();
    lab.write("trial.toml", &trial_with(&["job.fio"]));
    lab.write("job.fio", VERIFIED);
    let ended = lab.run("run trial.toml --json");
    assert_eq!(ended.code(), 3, "{ended:?}");
    assert!(ended.stderr.contains("job.fio runs natively: all"), "{}", ended.stderr);
    let document = ended.document();
    assert_eq!(document["workloads"].as_array().unwrap().len(), 2, "{document}");
    assert!(!ended.stderr.contains("expected write"), "{}", ended.stderr);
    lab.assert_nothing_left("after a job that verifies");
}

/// A trial on small filesystems whose workloads are these job files.
fn trial_with(job_files: &[&str]) -> String {
    let workloads = job_files.iter().map(|file| format!("[[workload]]\nfio = \"{file}\"\n"));
    format!(
        "[trial]\nrounds = 1\n[device]\nkind = \"image\"\nsize = \"320MiB\"\npath = \"images\"\n\
         [[arm]]\nfilesystem = \"ext4\"\n[[arm]]\nfilesystem = \"xfs\"\n{}",
        workloads.collect::<String>()
    )
}

#[test]
fn a_trial_file_names_job_files_and_what_is_stored_repeats_without_them() {
    let name = "a_trial_file_names_job_files_and_what_is_stored_repeats_without_them";
    if !support::is_root_with_loop_devices(name) || !has_fio(name) {
        return;
    }
    let lab = Lab::new();
    fs::create_dir_all(lab.path("trials/jobs")).unwrap();
    lab.write("trials/mail.toml", &trial_with(&["native.fio", "jobs/foreign.fio"]));
    lab.write("trials/native.fio", NATIVE);
    lab.write("trials/jobs/foreign.fio", FOREIGN);
    let ended = lab.run("run trials/mail.toml --json");
    assert_eq!(ended.code(), 3, "{ended:?}");
    let says = ["trials/native.fio runs natively: all", "trials/jobs/foreign.fio runs through fio: `verify`"];
    assert!(says.iter().all(|said| ended.stderr.contains(said)), "{}", ended.stderr);
    let results = |ended: &support::Ended| -> Vec<String> {
        let document = ended.document();
        let sections = document["workloads"].as_array().unwrap().iter();
        let text = |section: &Value, key: &str| section[key].as_str().unwrap().to_owned();
        sections.map(|section| text(section, "name") + ": " + &text(section, "phase")).collect()
    };
    let found = results(&ended);
    assert_eq!(found[..3], ["native: reader", "native: writer", "foreign: writer write iops"], "{found:?}");

    // The stored trial needs its files no more.
    fs::remove_dir_all(lab.path("trials")).unwrap();
    let resumed = lab.run("resume 1 --json");
    assert_eq!(resumed.code(), 2, "{resumed:?}");
    assert!(resumed.stderr.contains("trial 1 has all"), "{}", resumed.stderr);
    let exported = lab.run("results export 1 --format toml");
    assert!(!exported.stdout.contains("native.fio"), "{exported:?}");
    lab.write("again.toml", &exported.stdout);
    let again = lab.run("run again.toml --json");
    assert_eq!((again.code(), results(&again)), (3, found), "{}", again.stderr);
    lab.assert_nothing_left("after trials with job files");
}

#[test]
fn a_hostile_job_file_is_refused_before_anything_is_made() {
    let lab = lab_with("[a]\nrw=write\nsize=1m\nexec_prerun=touch /tmp/x\n");
    for words in ["compare dir:a dir:b --workload job.fio --save trial.toml", "workloads show job.fio --toml"]
    {
        let refused = lab.run(words);
        assert_eq!(refused.code(), 2, "{refused:?}");
        assert!(
            refused.stderr.contains("exec_prerun") && refused.stderr.contains("job.fio:4"),
            "{refused:?}"
        );
    }
    assert!(!lab.path("trial.toml").exists() && lab.trials().is_empty());
    assert_eq!(support::names_in(&lab.path("a")), [""; 0]);
}

#[test]
fn a_job_file_includes_what_lies_beside_it() {
    let lab = lab_with("[a]\nrw=write\nsize=1m\ninclude parts/common.inc\n");
    fs::create_dir(lab.path("parts")).unwrap();
    lab.write("parts/common.inc", "include direct\nbs=64k\n");
    lab.write("parts/direct", "direct=1\n");
    let shown = lab.run("workloads show job.fio --toml");
    assert!(shown.stdout.contains("direct = true") && shown.stdout.contains("64KiB"), "{shown:?}");
    // What is stored says it all.
    let saved = lab.run("compare dir:a dir:b --workload job.fio --save trial.toml --dry-run");
    assert_eq!(saved.code(), 0, "{saved:?}");
    lab.write("parts/direct", "direct=1\nnosuch=1\n");
    let refused = lab.run("workloads show job.fio --toml");
    assert_eq!(refused.code(), 2);
    assert!(
        refused.stderr.contains("parts/direct:2") && refused.stderr.contains("no key `nosuch`"),
        "{refused:?}"
    );
    // What is behind a link stays there.
    fs::remove_file(lab.path("parts/direct")).unwrap();
    lab.write("secret", "password=hidden\n");
    std::os::unix::fs::symlink(lab.path("secret"), lab.path("parts/direct")).unwrap();
    let refused = lab.run("workloads show job.fio");
    assert_eq!(refused.code(), 2);
    assert!(refused.stdout.contains("links are not followed (parts/common.inc, line 1)"), "{refused:?}");
    assert!(!format!("{refused:?}").contains("hidden"), "{refused:?}");
}

/// Blocks of 4 KiB that fio goes to, with whether it writes them, in order.
fn places(lab: &Lab, lines: &str) -> Vec<(bool, u64)> {
    lab.write("places.fio", &format!("[job]\nioengine=null\nfilename=f\nrandrepeat=0\n{lines}"));
    let ended = lab.prepare("fio").args(["--debug=io", "places.fio"]).output().unwrap();
    assert!(ended.status.success(), "{lines}: {ended:?}");
    let text = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
    let place = |line: &str| -> Option<(bool, u64)> {
        let (_, rest) = line.split_once("fill: io_u ")?.1.split_once("off=0x")?;
        let offset = u64::from_str_radix(rest.split(',').next()?, 16).ok()?;
        Some((rest.contains("ddir=1"), offset / 4096))
    };
    text.lines().filter_map(place).collect()
}

/// The native distribution of a job, and how often fio goes to each block: within five standard deviations.
#[test]
fn fio_draws_from_its_zones_as_native_threads_do() {
    if !has_fio("fio_draws_from_its_zones_as_native_threads_do") {
        return;
    }
    let lab = Lab::new();
    for (list, zones) in [
        ("zoned:60/10:30/20:8/30:2/40", "zones:10%:60,20%:30,30%:8,40%:2"),
        ("zoned:50/5:30/15:20/", "zones:5%:50,15%:30,80%:20"),
        ("zoned:70/33:30/20", "zones:33%:70,20%:30"),
        ("zoned_abs:60/64k:40/1m", "zones:64KiB:60,1MiB:40"),
    ] {
        let lines = format!("rw=randread\nbs=4k\nsize=4m\nrandom_distribution={list}\n");
        let job = format!("[a]\ndirect=1\n{lines}");
        let How::Native(phases) = understand("job.fio", &job, &host()).unwrap().how else { panic!("{list}") };
        assert_eq!(phases[0][0].distribution.as_ref().unwrap().to_string(), zones);
        let found = places(&lab, &format!("{lines}loops=40\n"));
        assert_eq!(found.len(), 40 * 1024);
        let (mut before, mut covered) = (0, 0);
        for zone in zones.trim_start_matches("zones:").split(',') {
            let (size, share) = zone.split_once(':').unwrap();
            let (first, blocks, upto) = match size {
                "64KiB" => (0, 16, 16),
                "1MiB" => (16, 256, 272),
                percent => {
                    let percent = percent.trim_end_matches('%').parse::<u64>().unwrap();
                    (before * 1024 / 100, percent * 1024 / 100, before + percent)
                }
            };
            before = upto;
            let share = share.parse::<f64>().unwrap() / 100.0;
            let count = found.iter().filter(|(_, block)| (first..first + blocks).contains(block)).count();
            covered += count;
            let expected = share * found.len() as f64;
            let deviation = (expected * (1.0 - share)).sqrt();
            assert!(
                (count as f64 - expected).abs() < 5.0 * deviation,
                "{list} {zone}: {count}, not {expected}"
            );
        }
        assert_eq!(covered, found.len(), "{list}: nothing lies outside");
    }
}

/// What the engine's own tests say of `one_lane`, `apart`, `in_a_row`, `in_place` and `jumps`, of fio.
#[test]
fn fio_goes_on_as_native_threads_do() {
    if !has_fio("fio_goes_on_as_native_threads_do") {
        return;
    }
    let lab = Lab::new();
    let found = |lines: &str| places(&lab, &format!("bs=4k\nsize=4m\n{lines}"));
    let lane = |skipped: &str| {
        found(&format!("rw=read:{skipped}\n")).into_iter().map(|(_, block)| block).collect::<Vec<_>>()
    };
    assert_eq!(lane("12k"), (0..1024).map(|n| n % 256 * 4).collect::<Vec<_>>());
    // It ends with the file.
    assert_eq!(lane("8k"), (0..342).map(|n| n * 3).collect::<Vec<_>>());
    // Those that are drawn go anywhere, the others follow the last of their kind.
    for (lines, drawn) in [
        ("rw=rw\n", &(|_, _| false) as &dyn Fn(usize, bool) -> bool),
        ("rw=randrw:4\n", &|n, _| n % 4 == 0),
        ("rw=randrw:4\nnorandommap\n", &|n, _| n % 4 == 0),
        ("rw=randrw\npercentage_random=100,0\n", &|_, write| !write),
        ("rw=read\npercentage_random=50\nrw_sequencer=identical\n", &|_, _| false),
    ] {
        let mut next = [0, 0];
        for (n, (write, block)) in found(lines).into_iter().enumerate() {
            let next = &mut next[usize::from(write)];
            // At the end of the file another place is drawn.
            assert!(drawn(n, write) || block == *next || *next == 1024, "{lines} {n}: {block}, not {next}");
            *next = block + 1;
        }
    }
    let rows = found("rw=randread:4\nrw_sequencer=identical\n");
    assert!(rows.chunks(4).all(|row| row.iter().all(|place| *place == row[0])), "{rows:?}");
    let starts: std::collections::BTreeSet<u64> = rows.iter().step_by(4).map(|(_, block)| *block).collect();
    assert_eq!(starts.len(), 256, "each place once");
    let jumps = found("rw=randread\npercentage_random=30\nloops=10\n");
    let follow = jumps.windows(2).filter(|pair| pair[1].1 == pair[0].1 + 1).count();
    assert!((0.68..0.72).contains(&(follow as f64 / jumps.len() as f64)), "{follow} of {}", jumps.len());
}

#[test]
fn flags_do_not_change_a_job_file() {
    let lab = lab_with(NATIVE);
    let io = ["--file-size 1MiB", "--block-size 4KiB", "--rate 100/s", "--find-rate p99<5ms"];
    for flag in ["--threads 4", "--duration 1s", "--warmup 1s"].into_iter().chain(io) {
        let refused = lab.run(&format!("compare dir:a dir:b --workload job.fio {flag}"));
        assert_eq!(refused.code(), 2, "{refused:?}");
        let name = flag.split(' ').next().unwrap();
        assert!(refused.stderr.contains(name) && refused.stderr.contains("numjobs"), "{refused:?}");
    }
    // What it becomes is a workload file.
    let explained = lab.run("workloads show job.fio --toml");
    fs::write(lab.path("job.toml"), &explained.stdout).unwrap();
    let planned = lab.run("compare dir:a dir:b --workload job.toml --dry-run");
    assert_eq!(planned.code(), 0, "{planned:?}");
}
