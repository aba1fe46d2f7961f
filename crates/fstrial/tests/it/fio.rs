//! Next to the installed fio: our answers have its structure, it accepts the job files we write, and it reads sizes and
//! sections as we do. Without fio the tests print `SKIPPED`.

use crate::support::{self, Lab};
use fstrial_model::fio::{Jobs, Surroundings, output::FioOutput, understand};
use rustix::fs::inotify;
use serde_json::Value;
use std::{fs, io::Write, mem::MaybeUninit, os::fd::OwnedFd, path::Path, process::Stdio, time::Duration};

/// The line by which fio names its version; empty without fio.
fn fio_version() -> String {
    let result = support::command("fio").arg("--version").output();
    result.map(|result| String::from_utf8_lossy(&result.stdout).into_owned()).unwrap_or_default()
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
        .args(Jobs::arguments(folder.to_str().unwrap()))
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
    let flags = "--workload mixed.toml --threads 1 --duration 1s --set workload.warmup=50ms --set workload.file_size=4MiB --rounds 1 -q";
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
    // Existing files are not overwritten, and the error names the file.
    assert_eq!(lab.run("results export --format fio --out out").code(), 2);
}

#[test]
fn fio_accepts_rendered_jobs_and_stays_in_folder() {
    if !has_fio("fio_accepts_rendered_jobs_and_stays_in_folder") {
        return;
    }
    let lab = Lab::new();
    let folder = lab.path("arm:1");
    fs::create_dir(&folder).unwrap();
    let text = "[global]\nkb_base=1000\nsize=(64 * 4ki)\nrw=randwrite\ndescription=x\ndirectory=/nowhere\n\
                [global-not]\n[same]\nverify=crc32c\nbssplit=4ki/50:8ki/50\n[same]\nstonewall\nname=global\n\
                rw=read\nbs=4ki,8ki\npercentile_list=1\n";
    let jobs = understand("job.fio", text, &host()).unwrap().jobs;
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
    let jobs = understanding.unwrap().jobs;
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
fn workloads_show_and_compare_accept_same_workloads() {
    let lab = Lab::new();
    lab.write("good.fio", "[a]\nrw=read\nsize=1m\ndirect=1\n");
    lab.write("mine.toml", "kind = \"io\"\nabout = \"our own\"\nthreads = [3]\nfile_size = \"2MiB\"\n");
    let good = lab.run("workloads show good.fio");
    assert_eq!(good.code(), 0, "{good:?}");
    let first = "good.fio: fio runs its job; the preset closest to it is `sequential-read`\n";
    assert!(good.stdout.starts_with(first) && good.stdout.contains("\n[a]\n"), "{good:?}");
    let mine = lab.run("workloads show mine.toml");
    assert_eq!(mine.code(), 0, "{mine:?}");
    assert!(
        mine.stdout.contains("# Threads:    3\n") && mine.stdout.contains("about = \"our own\""),
        "{mine:?}"
    );
    assert_eq!(lab.run("workloads show mine.toml --json").json()[0]["about"], "our own");
    assert_eq!(lab.run("workloads show good.fio --json").json()[0]["runs"], "fio");
    // Both commands print the same error for a word that is not a workload.
    lab.write("job.ini", "[a]\nrw=read\nsize=1m\n");
    for (word, hint) in [("nosuch", "lists all"), ("missing.fio", "missing.fio"), ("job.ini", "in .fio")] {
        let shown = lab.run(&format!("workloads show {word}"));
        let compared = lab.run(&format!("compare dir:a dir:b --workload {word} --dry-run"));
        assert_eq!((shown.code(), compared.code()), (2, 2), "{shown:?} {compared:?}");
        assert_eq!(shown.stderr, compared.stderr);
        assert!(shown.stderr.contains(hint), "{shown:?}");
    }
}

#[test]
fn expands_only_numeric_environment_variables() {
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
        let message =
            [shown.stdout, shown.stderr].map(|message| String::from_utf8(message).unwrap()).concat();
        assert!(code == 0 || value.is_empty() || !message.contains(value), "{message}");
    }
}

/// A different fault on each line.
const MANY_FAULTS: &str = "[global]\nioengine=rbd\n[a]\nfilename=/dev/sda\nsiz=1g\nrw=randwrit\nprofile=x\n\
                           [b]\nsize=1g\nruntime=1m30s\nopendir=/etc\n";

#[test]
fn reports_all_job_file_problems_at_once() {
    let lab = lab_with(MANY_FAULTS);
    let problems = ["`rbd`", "no key `siz`", "`randwrit`", "`profile`", "`1m30s`", "`opendir`"];
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
    // Correct parts are reported too.
    let fates = document["sections"][1]["keys"].as_array().unwrap();
    let fates: Vec<&str> = fates.iter().map(|key| key["fate"].as_str().unwrap()).collect();
    assert_eq!(fates, ["note", "refused", "refused", "refused"]);
}

/// Notices when a file, or anything in a folder, is opened.
struct Watch(OwnedFd);

impl Watch {
    /// Later than short-lived processes: programs that examine a new device, and a forked child of a test that closes
    /// the file when it executes another program.
    fn on(paths: &[&Path]) -> Self {
        support::pause(Duration::from_millis(500));
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        for path in paths {
            inotify::add_watch(&watch, *path, inotify::WatchFlags::ALL_EVENTS).unwrap();
        }
        Self(watch)
    }

    fn events(&self) -> Vec<String> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let next = || reader.next().ok().map(|event| format!("{:?} {:?}", event.events(), event.file_name()));
        std::iter::from_fn(next).collect()
    }
}

/// Jobs for a device or a file.
fn job_for(path: &str, lines: &str) -> String {
    format!("[global]\nfilename={path}\nsize=1m\nrw=randwrite\ndirect=1\n[a]\n{lines}[b]\nstonewall\n")
}

#[test]
fn job_leaves_named_files_untouched() {
    if !has_fio("job_leaves_named_files_untouched") {
        return;
    }
    for lines in ["[c]\nstonewall\nfilename=CANARY\n", "verify=md5\n"] {
        let lab = Lab::new();
        for folder in ["a", "b", "outside"] {
            fs::create_dir(lab.path(folder)).unwrap();
        }
        let canary = lab.path("outside/canary");
        let bytes: Vec<u8> = (0..1 << 20).map(|n: u32| (n % 251) as u8).collect();
        fs::write(&canary, &bytes).unwrap();
        let named = canary.to_str().unwrap();
        lab.write("job.fio", &job_for(named, &lines.replace("CANARY", named)));
        let watch = Watch::on(&[&canary, &lab.path("outside")]);
        let shown = lab.run("workloads show job.fio");
        assert_eq!(shown.code(), 0, "{shown:?}");
        let run = lab.run("compare dir:a dir:b --workload job.fio --rounds 1 --json");
        assert!([0, 3].contains(&run.code()), "{run:?}");
        // The answer reports it.
        let about = run.document()["workloads"][0]["about"].as_str().unwrap().to_owned();
        assert!(about.contains("no named file is opened") && about.contains("file-1"), "{about}");
        assert_eq!(watch.events(), [""; 0], "{lines}");
        assert!(
            fs::read(&canary).unwrap() == bytes && !watch.events().is_empty(),
            "the watch sees what is opened"
        );
        assert_eq!(support::names_in(&lab.path("outside")), ["canary"]);
        assert_eq!(support::names_in(&lab.path("a")), [""; 0]);
    }
}

#[test]
fn job_leaves_named_device_untouched() {
    let name = "job_leaves_named_device_untouched";
    if !support::is_root_with_loop_devices(name) || !has_fio(name) {
        return;
    }
    let lab = Lab::new();
    let bytes: Vec<u8> = (0..8 << 20).map(|n: u32| (n % 253) as u8).collect();
    fs::write(lab.path("canary"), &bytes).unwrap();
    let device = lab.loop_device(&lab.path("canary"));
    let device_path = device.path();
    let watch = Watch::on(&[&device_path]);
    let path = device_path.to_str().unwrap();
    // Without a size, as jobs for devices are.
    let job = "rw=randwrite\ndirect=1\nnumber_ios=64\nverify=md5\ndo_verify=0\nthinktime=1\n";
    lab.write("job.fio", &format!("[a]\nfilename={path}\n{job}"));
    let run =
        lab.run("compare ext4 xfs --workload job.fio --device image:images --set device.size=512MiB --rounds 1 --json");
    assert!([0, 3].contains(&run.code()), "{run:?}");
    assert!(run.stderr.contains("each file here has 256MiB"), "{run:?}");
    assert_eq!(watch.events(), [""; 0]);
    assert!(
        fs::read(&device_path).unwrap() == bytes && !watch.events().is_empty(),
        "the watch sees what is opened"
    );
    drop(device);
    lab.assert_nothing_left("after jobs for a device");
}

/// One job that verifies, and two clones of another.
const JOBS: &str = "[writer]\nrw=randwrite\nsize=1m\nverify=md5\n[reader]\nstonewall\nrw=randread\nsize=1m\n\
                    bssplit=4k/50:8k/50\nnumjobs=2\n";

fn lab_with(job_file: &str) -> Lab {
    let lab = Lab::new();
    for folder in ["a", "b"] {
        fs::create_dir(lab.path(folder)).unwrap();
    }
    fs::write(lab.path("job.fio"), job_file).unwrap();
    lab
}

/// The metrics of a trial with this job file. Saved as a file it repeats without the job file.
fn compared(job_file: &str) -> (Lab, Vec<String>) {
    let lab = lab_with(job_file);
    let run = lab.run("compare dir:a dir:b --workload job.fio --rounds 1 --json --save trial.toml");
    assert!([0, 3].contains(&run.code()), "{run:?}");
    assert!(run.stderr.starts_with("job.fio: fio runs its "), "{run:?}");
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
    let result = names(run.document());
    assert_eq!(result, names(again.document()));
    (lab, result)
}

#[test]
fn a_job_file_is_compared() {
    if !has_fio("a_job_file_is_compared") {
        return;
    }
    let (lab, results) = compared(JOBS);
    // Requests of one size need one figure.
    let expected =
        ["writer write iops", "writer write p99", "reader read iops", "reader read bytes", "reader read p99"];
    assert_eq!(results, expected);
    let exported = lab.run("results export --format fio --out out");
    assert!(exported.stdout.starts_with("2 runs written below out\n"), "{exported:?}");
    let arm = support::names_in(&lab.path("out/round-1")).remove(0);
    let text = fs::read_to_string(lab.path(&format!("out/round-1/{arm}/job-2.json"))).unwrap();
    let answer = FioOutput::parse(&text).unwrap();
    assert_eq!(answer.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["writer", "reader"]);
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
fn stored_trial_reruns_without_its_job_files() {
    let name = "stored_trial_reruns_without_its_job_files";
    if !support::is_root_with_loop_devices(name) || !has_fio(name) {
        return;
    }
    let lab = Lab::new();
    fs::create_dir_all(lab.path("trials/jobs")).unwrap();
    lab.write("trials/mail.toml", &trial_with(&["mail.fio", "jobs/second.fio"]));
    lab.write("trials/mail.fio", "[mail]\nrw=write\nsize=1m\nfsync=4\ndirect=1\n");
    lab.write("trials/jobs/second.fio", JOBS);
    let ended = lab.run("run trials/mail.toml --json");
    assert_eq!(ended.code(), 3, "{ended:?}");
    let says = [
        "trials/mail.fio: fio runs its job",
        "trials/jobs/second.fio: fio runs its 2 jobs, 2 concurrent clones",
    ];
    assert!(says.iter().all(|message| ended.stderr.contains(message)), "{}", ended.stderr);
    let results = |ended: &support::Ended| -> Vec<String> {
        let document = ended.document();
        let sections = document["workloads"].as_array().unwrap().iter();
        let text = |section: &Value, key: &str| section[key].as_str().unwrap().to_owned();
        sections.map(|section| text(section, "name") + ": " + &text(section, "phase")).collect()
    };
    let result = results(&ended);
    assert_eq!(result[0], "mail: sync p99", "{result:?}");
    assert_eq!(result[3], "second: writer write iops", "{result:?}");

    // The stored trial needs its files no more.
    fs::remove_dir_all(lab.path("trials")).unwrap();
    let resumed = lab.run("resume 1 --json");
    assert_eq!(resumed.code(), 2, "{resumed:?}");
    assert!(resumed.stderr.contains("trial 1 is complete (1 round)"), "{}", resumed.stderr);
    let exported = lab.run("results export 1 --format toml");
    assert!(!exported.stdout.contains("mail.fio"), "{exported:?}");
    lab.write("again.toml", &exported.stdout);
    let again = lab.run("run again.toml --json");
    assert_eq!((again.code(), results(&again)), (3, result), "{}", again.stderr);
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
fn job_file_includes_adjacent_files() {
    let lab = lab_with("[a]\nrw=write\nsize=1m\ninclude parts/common.inc\n");
    fs::create_dir(lab.path("parts")).unwrap();
    lab.write("parts/common.inc", "include direct\nbs=64k\n");
    lab.write("parts/direct", "direct=1\n");
    let shown = lab.run("workloads show job.fio --toml");
    assert!(shown.stdout.contains("direct=1") && shown.stdout.contains("bs=65536"), "{shown:?}");
    // The stored result has all of it.
    let saved = lab.run("compare dir:a dir:b --workload job.fio --save trial.toml --dry-run");
    assert_eq!(saved.code(), 0, "{saved:?}");
    lab.write("parts/direct", "direct=1\nnosuch=1\n");
    let refused = lab.run("workloads show job.fio --toml");
    assert_eq!(refused.code(), 2);
    assert!(
        refused.stderr.contains("parts/direct:2") && refused.stderr.contains("no key `nosuch`"),
        "{refused:?}"
    );
    // The target of a link stays in place.
    fs::remove_file(lab.path("parts/direct")).unwrap();
    lab.write("secret", "password=hidden\n");
    std::os::unix::fs::symlink(lab.path("secret"), lab.path("parts/direct")).unwrap();
    let refused = lab.run("workloads show job.fio");
    assert_eq!(refused.code(), 2);
    assert!(refused.stdout.contains("links are not followed (parts/common.inc, line 1)"), "{refused:?}");
    assert!(!format!("{refused:?}").contains("hidden"), "{refused:?}");
}

#[test]
fn flags_do_not_change_a_job_file() {
    let lab = lab_with(JOBS);
    let keys = ["--set workload.file_size=1MiB", "--set workload.warmup=1s"];
    for flag in ["--threads 4", "--find-rate p99<5ms"].into_iter().chain(keys) {
        let refused = lab.run(&format!("compare dir:a dir:b --workload job.fio {flag}"));
        assert_eq!(refused.code(), 2, "{refused:?}");
        let name = flag.split(' ').next().unwrap();
        assert!(refused.stderr.contains(name) && refused.stderr.contains("numjobs"), "{refused:?}");
    }
    // It becomes a workload file.
    let explained = lab.run("workloads show job.fio --toml");
    fs::write(lab.path("job.toml"), &explained.stdout).unwrap();
    let planned = lab.run("compare dir:a dir:b --workload job.toml --dry-run");
    assert_eq!(planned.code(), 0, "{planned:?}");
}

#[test]
fn duration_overrides_shared_job_runtime() {
    if !has_fio("duration_overrides_shared_job_runtime") {
        return;
    }
    let lab = lab_with("[a]\nrw=randwrite\nsize=1m\ntime_based\nruntime=30\n");
    let compare = "compare dir:a dir:b --workload job.fio --duration 200ms --rounds 1 --save";
    let run = lab.run(&format!("{compare} trial.toml"));
    assert!([0, 3].contains(&run.code()), "{run:?}");
    assert!(run.stderr.contains("job.fio: runtime=200ms instead of 30s"), "{run:?}");
    let saved = fs::read_to_string(lab.path("trial.toml")).unwrap();
    assert!(saved.contains("runtime={duration_ms}ms") && saved.contains("duration = \"200ms\""), "{saved}");
    lab.write("job.fio", JOBS);
    let refused = lab.run(&format!("{compare} other.toml"));
    assert_eq!(refused.code(), 2, "{refused:?}");
    assert!(refused.stderr.contains("the same runtime="), "{refused:?}");
}
