//! Workloads of a trial file that are fio job files: `fio = "job.fio"` under `[[workload]]`.
//!
//! The caller reads the job file and hands over the workload that it becomes. That takes the place of the entry, so what
//! is stored, saved and repeated never names a job file.

use super::{Problem, Trial, TrialError, problem};
use crate::workload::Entry;

/// Keys that may stand beside `fio`: what the workload is called, and words about it.
const BESIDE: [&str; 4] = ["fio", "name", "about", "source"];

/// A job file that is no workload.
#[derive(Debug, Clone)]
pub struct JobFileError {
    /// What is wrong.
    pub message: String,
    /// What to try.
    pub hint: Option<String>,
    /// The place in the job file, if it was read.
    pub place: Option<Box<TrialError>>,
}

impl Trial {
    /// Puts the workloads of job files in the places of the entries that name them. `workload_of` reads the job file of
    /// a path.
    pub(super) fn take_job_files(
        &mut self,
        workload_of: &mut dyn FnMut(&str) -> Result<Entry, JobFileError>,
    ) -> Result<(), (Problem, Option<Box<TrialError>>)> {
        for (index, own) in self.workloads.iter_mut().enumerate() {
            let Some(path) = &own.fio else { continue };
            let at = index.to_string();
            if let Some(key) = contradiction(own) {
                return Err((
                    problem(
                        &["workload", &at, &key],
                        format!("`{key}` beside `fio`: the job file {path} says for itself what is done"),
                        "change the job file (numjobs, ramp_time, runtime, size, bs, rate_iops), or write out the \
                         workload that it becomes: fstrial workloads explain FILE --toml",
                    ),
                    None,
                ));
            }
            let job = workload_of(path).map_err(|error| {
                let path = ["workload", &at, "fio"].map(str::to_owned).into();
                (Problem { path, message: error.message, hint: error.hint }, error.place)
            })?;
            *own = Entry {
                name: own.name.take().or(job.name),
                about: own.about.take().or(job.about),
                source: own.source.take().or(job.source),
                ..job
            };
        }
        Ok(())
    }
}

/// A key beside `fio` that says what the job file says.
fn contradiction(entry: &Entry) -> Option<String> {
    let keys = toml::Table::try_from(entry).expect("an entry is plain data");
    keys.into_iter().map(|(key, _)| key).find(|key| !BESIDE.contains(&key.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fio::{Surroundings, understand},
        trial::tests::rendered,
    };

    const TRIAL: &str = r#"
[[arm]]
filesystem = "ext4"
[[arm]]
filesystem = "xfs"
[[workload]]
fio = "jobs/mail.fio"
"#;
    const NATIVE: &str = "[mail]\nrw=write\nsize=1m\ndirect=1\nnumjobs=2\n";

    /// Reads a trial whose job file holds this text.
    fn parse(trial: &str, job_file: &str) -> Result<Trial, Box<TrialError>> {
        let host = Surroundings { cpus: 2, memory_mib: 2048, page_bytes: 4096, variables: [].into() };
        Trial::parse_with_job_files("trial.toml", trial, &mut |path| {
            let understanding = understand(path, job_file, &host).map_err(|place| JobFileError {
                message: format!("the fio job file {path} is refused"),
                hint: None,
                place: Some(place),
            })?;
            Ok(understanding.entry("mail"))
        })
    }

    #[test]
    fn the_workload_takes_the_place_of_the_job_file() {
        let trial = parse(TRIAL, NATIVE).unwrap();
        let [entry] = &trial.workloads[..] else { panic!("{trial:?}") };
        assert_eq!(entry.name.as_deref(), Some("mail"));
        assert_eq!(entry.threads, Some(vec![2]));
        assert!(entry.about.as_ref().is_some_and(|about| about.starts_with("runs natively")), "{entry:?}");
        let saved = trial.settled(8).unwrap().to_toml();
        assert!(!saved.contains("mail.fio"), "{saved}");
        assert_eq!(Trial::parse("saved.toml", &saved).unwrap(), trial.settled(8).unwrap());
        let changed = parse(TRIAL, &NATIVE.replace("size=1m", "size=2m")).unwrap();
        assert_ne!(changed.settled(8), trial.settled(8));
    }

    #[test]
    fn a_name_and_words_about_it_are_the_trial_files() {
        let words = "name = 'second'\nabout = 'our mail server'\nsource = 'a note'\n";
        let named = format!("{TRIAL}{words}[[workload]]\nfio = 'mail.fio'\n");
        let trial = parse(&named, NATIVE).unwrap();
        let names: Vec<_> = trial.workloads.iter().map(|entry| entry.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["second", "mail"]);
        assert_eq!(trial.workloads[0].about.as_deref(), Some("our mail server"));
        assert_eq!(trial.workloads[0].source.as_deref(), Some("a note"));
    }

    #[test]
    fn no_key_beside_it_is_passed_over() {
        for line in ["use = 'random-write'", "threads = [4]", "duration = '1s'", "file_size = '1MiB'"]
            .into_iter()
            .chain(["rate = '5/s'", "kind = 'io'", "[[workload.phase]]", "[[workload.metric]]\nname = 'x'"])
        {
            let error = parse(&format!("{TRIAL}{line}\n"), NATIVE).unwrap_err();
            let key = line.trim_start_matches("[[workload.").split([' ', ']']).next().unwrap();
            assert!(error.message.starts_with(&format!("`{key}` beside `fio`")), "{line}: {error}");
        }
    }

    #[test]
    fn errors_underline_the_place_in_the_trial_file() {
        let twice = format!("{TRIAL}[[workload]]\nfio = \"mail.fio\"\n");
        let beside = format!("{TRIAL}threads = [4]\n");
        let small = format!("{TRIAL}[device]\nsize = \"400MiB\"\n");
        for (name, trial, job_file) in [
            ("job_file_refused", TRIAL, "[a]\nrw=write\nsize=1m\nfilename=/dev/sda\n"),
            ("job_file_empty", TRIAL, ""),
            ("key_beside_a_job_file", &beside, NATIVE),
            ("job_file_twice", &twice, NATIVE),
            ("job_file_too_large_for_the_device", &small, &NATIVE.replace("size=1m", "size=1g")),
        ] {
            insta::assert_snapshot!(name, rendered(&parse(trial, job_file).unwrap_err()));
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_told_at_its_place() {
        let missing = |_: &str| {
            Err(JobFileError { message: "it is missing".into(), hint: Some("look".into()), place: None })
        };
        let error = Trial::parse_with_job_files("trial.toml", TRIAL, &mut { missing }).unwrap_err();
        let span = error.span.unwrap();
        assert_eq!(&TRIAL[span.offset()..span.offset() + span.len()], "\"jobs/mail.fio\"");
        assert_eq!((error.message.as_str(), error.help.as_deref()), ("it is missing", Some("look")));
    }

    #[test]
    fn only_a_trial_file_that_is_run_names_job_files() {
        let error = Trial::parse("stored trial", TRIAL).unwrap_err();
        assert!(error.message.contains("not read here"), "{error}");
        let phase = "[[workload]]\nkind = 'io'\n[[workload.phase]]\nfio = 'mail.fio'\n";
        let error =
            parse(&TRIAL.replace("[[workload]]\nfio = \"jobs/mail.fio\"\n", phase), NATIVE).unwrap_err();
        assert_eq!(error.message, "`fio` does not belong into a phase");
    }
}
