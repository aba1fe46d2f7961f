//! Whole job files: their messages, fio's input, and refusals.

use super::{value::tests::host, *};
use crate::{
    units::{Bytes, Nanos},
    workload::{Entry, program::Values},
};
use proptest::prelude::*;
use std::path::PathBuf;

fn fixtures() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/fio");
    let mut matched: Vec<(String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "fio"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    matched.sort();
    matched
}

fn shown(error: &TrialError) -> String {
    let mut out = String::new();
    let theme = miette::GraphicalTheme {
        characters: miette::ThemeCharacters::ascii(),
        styles: miette::ThemeStyles::none(),
    };
    miette::GraphicalReportHandler::new_themed(theme).with_width(110).render_report(&mut out, error).unwrap();
    out
}

fn understood(text: &str) -> Understanding {
    understand("job.fio", text, &host()).unwrap_or_else(|error| panic!("{}", shown(&error)))
}

#[test]
fn every_job_file_is_explained() {
    let files = fixtures();
    assert!(files.len() > 20, "{} fixtures", files.len());
    for (name, text) in files {
        let understood = understand(&format!("{name}.fio"), &text, &host());
        assert_eq!(understood.is_err(), name.starts_with("hostile"), "{name}");
        let text = match understood {
            Ok(understanding) => {
                let mut text = understanding.explain();
                text.push_str("\nwhat fio is given:\n");
                text.push_str(&understanding.jobs.render("/mnt/arm", 7).unwrap());
                text
            }
            Err(error) => shown(&error),
        };
        insta::with_settings!({omit_expression => true}, { insta::assert_snapshot!(name, text) });
    }
}

/// Every key of the table, alone in a job, reaches fio, or is a note, or an error.
#[test]
fn no_key_is_silently_ignored() {
    for key in
        KEYS.iter().filter(|key| !["name", "rw", "size", "new_group", "group_reporting"].contains(&key.name))
    {
        let value = match key.name {
            "bs" | "ba" => "8k",
            "time_based" => "1\nruntime=1",
            "kb_base" => "1024",
            "ioengine" => "psync",
            "bsrange" => "4k-8k",
            "bssplit" => "4k/50:8k/50",
            "fallocate" | "sync" | "zonemode" => "none",
            "file_service_type" => "roundrobin",
            "rw_sequencer" => "identical",
            "rate_process" => "poisson",
            "random_distribution" => "zipf",
            "random_generator" => "lfsr",
            "mem" => "mmap",
            "fadvise_hint" => "random",
            "io_submit_mode" => "offload",
            "unified_rw_reporting" => "mixed",
            _ if key.is_neutral("1") => "0",
            _ if key.kind == ValueKind::Bool || key.kind == ValueKind::Flag => "1",
            _ => "7",
        };
        let text = format!("[a]\nsize=1m\nrw=randwrite\n{}={value}\n", key.name);
        match understand("job.fio", &text, &host()) {
            Err(error) => assert!(key.treatment == Treatment::Refused, "{text}: {}", shown(&error)),
            Ok(matched) if key.treatment == Treatment::LeftOut => {
                assert_eq!(matched.notes[0].key, key.name, "{text}");
            }
            Ok(matched) => {
                let given = matched.jobs.render("/arm", 1).unwrap();
                assert!(
                    given.lines().any(|line| line.split('=').next() == Some(key.name)),
                    "{text}: {given}"
                );
            }
        }
    }
}

#[test]
fn a_job_cannot_take_the_memory_or_the_processes_of_the_machine() {
    let refused =
        |lines: &str| understand("job.fio", &format!("[a]\nsize=1g\n{lines}"), &host()).unwrap_err().message;
    assert!(refused("bs=64m\niodepth=1024\nioengine=libaio\n").contains("half of this host's memory"));
    assert!(refused("bssplit=4k/50:1g/50\niodepth=2\n").contains("half of this host's memory"));
    assert!(refused("bsrange=4k-x\n").contains("not a number"));
    assert!(refused("[b]\nsize=1g\nbs=600m\n[c]\nsize=1g\nbs=600m\n").contains("half of this host's memory"));
    assert!(refused("numjobs=100000\n").contains("out of range"));
    assert!(refused("lockmem=1t\n").contains("is refused"));
    // fio would take these for numbers beyond all bounds.
    for line in ["iodepth=50%", "numjobs=50%", "rwmixread=50%"] {
        assert!(refused(&format!("{line}\n")).contains("cannot be a percentage"), "{line}");
    }
    assert!(refused("mem=shmhuge\n").contains("not a value of mem"));
}

/// Names of files are replaced; options that would open others are not.
#[test]
fn options_opening_other_files_are_refused() {
    let job = "[a]\nfilename=/dev/sda\nsize=1m\nrw=write\n";
    assert!(understand("job.fio", job, &host()).is_ok());
    for line in [
        "opendir=/etc",
        "read_iolog=/etc/shadow",
        "merge_blktrace_file=x",
        "verify_state_load=1",
        "exec_prerun=x",
        "exec_postrun=x",
        "include /etc/shadow",
        "ioengine=external:/tmp/evil.so",
        "filename_format=/dev/$jobname",
        "mem=mmap:/dev/hugepages/x",
        "fill_device=1",
        "buffer_pattern='/etc/shadow'",
        "verify_pattern='/etc/shadow'",
        "allow_mounted_write=1",
        "profile=x",
        "ioscheduler=none",
        "filename=-",
        "filename=/etc/",
        "filename=a:",
        "filename=/dev/sda:..",
        "directory=/a:/b",
    ] {
        let matched = inspect("job.fio", &format!("{job}{line}\n"), &host(), &mut |_| {
            unreachable!("not next to the job file")
        });
        assert!(matched.outcome.is_err(), "{line}");
        let lines: Vec<usize> = matched.faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [5], "{line}");
    }
    // Without separate names, clones share one directory instead of several.
    let spread = understood("[a]\ndirectory=/a:/b\nsize=1m\nrw=write\ndirect=1\n");
    assert!(spread.notes.iter().any(|note| note.key == "directory"), "{spread:?}");
}

#[test]
fn options_writing_extra_files_are_dropped() {
    let text =
        "[a]\nsize=1m\nrw=write\nwrite_bw_log=/etc/cron.d/x\nwrite_lat_log\nwrite_iolog=x\nverify_dump=1\n";
    let matched = understood(text);
    assert_eq!(matched.notes.iter().map(|note| note.line).collect::<Vec<_>>(), [4, 5, 6, 7]);
    let given = matched.jobs.render("/arm", 1).unwrap();
    assert!(["log", "cron", "dump"].iter().all(|word| !given.contains(word)), "{given}");
}

#[test]
fn non_file_engine_error_explains_reason() {
    let why = |engine: &str| {
        understand("job.fio", &format!("[a]\nsize=1m\nioengine={engine}\n"), &host()).unwrap_err().message
    };
    assert!(why("http").contains("it goes over a network"));
    assert!(why("sg").contains("it drives hardware itself"));
    assert!(why("external:/tmp/evil.so").contains("it may reach beyond the files"));
}

/// The latency of fsync is the usual test of a disk for a database, as for etcd:
/// `fio --rw=write --ioengine=sync --fdatasync=1 --size=22m --bs=2300`.
#[test]
fn sync_latency_is_primary_result() {
    let text = "[etcd]\nrw=write\nioengine=sync\nfdatasync=1\nsize=22m\nbs=2300\n";
    let first = |text: &str| entry(text).resolve(1).unwrap().results().next().unwrap().name;
    assert_eq!(first(text), "sync p99");
    assert_eq!(first(&text.replace("fdatasync=1", "fdatasync=0")), "write iops");
    // fio has no latency of syncs that never came.
    assert_eq!(first(&text.replace("rw=write", "rw=read")), "read iops");
    assert_eq!(first(&text.replace("fdatasync=1", "fsync=20000")), "write iops");
    assert_eq!(understood(text).preset, Some("wal-single-commit"));
}

#[test]
fn closest_presets_exist() {
    let close = |lines: &str| understood(&format!("[a]\nsize=1m\n{lines}")).preset;
    for lines in ["rw=read", "rw=write", "rw=randread", "rw=randwrite", "rw=randrw", "rw=write\nfsync=1"]
        .into_iter()
        .chain(["rw=write\nfsync=1\nnumjobs=4", "ioengine=filecreate"])
    {
        let name = close(&format!("{lines}\n")).unwrap();
        assert!(crate::preset::preset(name).is_some(), "{name}");
    }
    assert_eq!(close("ioengine=filestat\n"), None);
    assert_eq!(close("rw=write\nfsync=10000\n"), Some("sequential-write"));
}

#[test]
fn runtime_is_replaceable_for_concurrent_equal_jobs() {
    let runtime = |text: &str| understood(text).jobs.runtime;
    let text = "[global]\nsize=1m\nruntime=30\ntime_based\n[a]\nrw=read\n[b]\nrw=write\n";
    assert_eq!(runtime(text), Some(Nanos::secs(30)));
    assert_eq!(entry(text).duration, Some(Nanos::secs(30)));
    for lines in ["stonewall\n", "runtime=20\n", "ramp_time=5\n", "loops=2\n"] {
        assert_eq!(runtime(&format!("{text}{lines}")), None, "{lines}");
    }
    assert_eq!(runtime("[a]\nsize=1m\nruntime=10ms\n"), None, "no workload is that short");
    assert_eq!(runtime(&format!("{text}ramp_time=0\nloops=1\nstartdelay=0\n")), Some(Nanos::secs(30)));
    let mut longer = understood(text);
    assert_eq!(longer.jobs.replace_runtime(Nanos::millis(1500)), Some(Nanos::secs(30)));
    let program = longer.entry("job").resolve(1).unwrap().program().unwrap().clone();
    assert_eq!((program.duration, program.program.deadline), (Nanos::millis(1500), Nanos::secs(603)));
    let values =
        Values { dir: "/d".into(), threads: 2, duration: program.duration, seed: 5, inputs: [].into() };
    let given = program.program.input(&program.program.inputs["job.fio"], &values).unwrap();
    assert_eq!(given.matches("runtime=1500ms\n").count(), 2, "{given}");
}

#[test]
fn jobs_sharing_file_need_space_once() {
    let text = "[global]\nverify=md5\nrw=write\nfilename=/dev/sda\nnumjobs=16\nsize=1g\n[a]\n[b]\nsize=2g\n";
    let jobs = understood(text).jobs;
    assert_eq!(jobs.space, Some(Bytes::gib(2)));
    let share = understood(&text.replace("size=1g", "size=1g\noffset=50%")).jobs;
    assert_eq!(share.space, Some(Bytes::gib(4)), "a share is at most all of it");
    let unnamed = text.replace("filename=/dev/sda\n", "");
    let jobs = understood(&unnamed).jobs;
    assert_eq!(jobs.space, Some(Bytes::gib(48)));
}

#[test]
fn every_job_file_line_has_a_fate() {
    let text = "[global]\nbs=8k\n[a]\nsize=1m\nrw=write\nrw=randwrite\nverify=md5\ndescription=x\n[b]\nnosuch=1\nsize=1m\n\
                [global]\nbs=4k\n";
    let matched = inspect("job.fio", text, &host(), &mut |_| unreachable!("nothing is included"));
    let fates = |section: &SectionFate| -> Vec<Fate> {
        section.keys.iter().filter(|key| key.line.is_some()).map(|key| key.fate).collect()
    };
    let all: Vec<Vec<Fate>> = matched.sections.iter().map(fates).collect();
    use Fate::{Fio, Note, Refused, Unused};
    let a = vec![Fio, Unused, Fio, Fio, Note];
    assert_eq!(all, [vec![Fio], a, vec![Refused, Fio], vec![Unused]], "{matched:?}");
    let jobs: Vec<Option<Fate>> = matched.sections.iter().map(|section| section.fate).collect();
    assert_eq!(jobs, [None, Some(Fio), Some(Refused), None]);
}

#[test]
fn directory_value_cannot_inject_job_lines() {
    let jobs = understood("[a]\nsize=1m\nverify=md5\nrw=write\n").jobs;
    for directory in ["", "/a\nexec_prerun=x", "/a;b", "/a#b", "/$ncpus", "/a\\:b"] {
        assert!(jobs.render(directory, 1).is_err(), "{directory:?}");
    }
    assert!(jobs.render("/a:b", u64::MAX).unwrap().contains("directory=/a\\:b\n"));
    assert_eq!((jobs.space, jobs.time), (Some(Bytes::mib(1)), None));
}

/// The entry of a job file, as it comes back from a saved trial.
fn entry(text: &str) -> Entry {
    let entry = understood(text).entry("job");
    let saved = toml::to_string_pretty(&entry).unwrap();
    assert_eq!(toml::from_str::<Entry>(&saved).unwrap(), entry, "{saved}");
    entry
}

#[test]
fn fios_numbers_are_found_by_the_place_of_a_job() {
    let text = "[a{b}]\nrw=randrw\nverify=md5\nsize=1m\nruntime=3\n[c]\nrw=read\nsize=2m\nruntime=4\nnumjobs=2\nbs=1m\n";
    let entry = entry(text);
    let workload = entry.resolve(1).unwrap();
    let program = workload.program().unwrap();
    let names: Vec<String> = workload.results().map(|result| result.name).collect();
    let expected = [
        "a{b} read iops",
        "a{b} read p99",
        "a{b} write iops",
        "a{b} write p99",
        "c read bytes",
        "c read p99",
    ];
    assert_eq!(names, expected);
    assert_eq!(
        (&workload.threads[..], program.duration, entry.file_size),
        (&[3][..], Nanos::secs(4), Some(Bytes::mib(5)))
    );
    assert_eq!(program.program.deadline, Nanos::secs(8 + 600));
    // Braces are the job file's own, but for the seed's.
    let values =
        Values { dir: "/d".into(), threads: 3, duration: Nanos::secs(1), seed: 5, inputs: [].into() };
    let given = program.program.input(&program.program.inputs["job.fio"], &values).unwrap();
    assert!(
        given.contains("name=a{b}\n") && given.contains("randseed=5\n") && given.contains("directory=.\n")
    );
    assert_eq!(given.matches("group_reporting=1\n").count(), 2);
}

#[test]
fn unspecified_time_counts_as_one_hour() {
    let text = "[a]\nrw=read\nsize=1m\nruntime=60\n[b]\nstonewall\nrw=read\nsize=1m\n";
    let jobs = understood(text).jobs;
    assert_eq!((jobs.time, jobs.longest), (None, Nanos::secs(3660)));
    let delayed = understood("[a]\nsize=1m\nruntime=60\nstartdelay=30m\n").jobs;
    assert_eq!((delayed.time, delayed.longest), (None, Nanos::secs(3600)));
    let idle = entry("[layout]\ncreate_only=1\nsize=1m\n[a]\nstonewall\nsize=1m\n");
    let names: Vec<String> = idle.metrics.unwrap().into_iter().map(|metric| metric.name).collect();
    assert_eq!(names, ["a read iops", "a read p99"]);
}

#[test]
fn grouped_jobs_are_reported_together() {
    let text = "[a]\nrw=randread\nsize=1m\nexitall\n[b]\nrw=write\nsize=1m\n";
    let workload = entry(text).resolve(1).unwrap();
    let names: Vec<String> = workload.results().map(|result| result.name).collect();
    assert_eq!(names, ["read iops", "read bytes", "write iops", "write bytes"]);
    assert!(!workload.program().unwrap().program.inputs["job.fio"].contains("group"));
    // Nor if they are too many for a number each.
    let many: String = (0..40).map(|n| format!("[j{n}]\nrw=read\nsize=1m\nverify=md5\n")).collect();
    assert_eq!(entry(&many).metrics.unwrap().len(), 2);
}

proptest! {
    #[test]
    fn any_names_become_plain_ones(
        jobs in proptest::collection::vec(("[a-c/.:\\\\-]{1,6}", proptest::option::of("/?[a-c/.]{1,3}")), 1..6)
    ) {
        let section = |(name, folder): &(String, Option<String>)| {
            let folder = folder.as_ref().map_or_else(String::new, |folder| format!("directory={folder}\n"));
            format!("[j]\nfilename={name}\n{folder}size=1m\nverify=md5\n")
        };
        let text: String = jobs.iter().map(section).collect();
        if let Ok(matched) = understand("any.fio", &text, &host()) {
            let given = matched.jobs.render("/arm", 7).unwrap();
            let mut names = given.lines().filter_map(|line| line.strip_prefix("filename="));
            assert!(names.all(|names| !names.contains(['/', '\\'])), "{given}");
        }
    }

    #[test]
    fn any_job_text_parses_or_yields_displayable_error(
        text in "(\\[[a-z]{1,8}\\]?\n|rw=(read|write|rw|randread|randrw)(:[0-9k-]{1,4})?\n|random_distribution=zoned(_abs)?:[0-9/:,k]{1,20}\n|(bs|size|rw|direct|runtime|filename|directory|numjobs|ioengine|verify|percentage_random|include|nosuch)=?[0-9a-z$({/.,:\\\\-]{0,9}\n|.{0,9}\n){0,12}"
    ) {
        match understand("any.fio", &text, &host()) {
            Ok(understanding) => {
                understanding.explain();
                // fio is given plain names only, and the same again is understood.
                let given = understanding.jobs.render("/arm", 7).unwrap();
                let mut names = given.lines().filter_map(|line| line.strip_prefix("filename="));
                assert!(names.all(|names| !names.contains('/')), "{given}");
                understood(&given);
            }
            Err(error) => { shown(&error); }
        }
    }
}
