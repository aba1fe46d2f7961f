//! Files that a trial file names: fio job files (`fio = "job.fio"` under `[[workload]]`), device models
//! (`model = "disk.toml"` under `[device]`), and inputs of programs (`dump = { file = "dump.sql" }`).
//!
//! The caller reads such a file and returns its equivalent, which replaces the name, so stored, saved and repeated
//! trials never name a file. An input may be large: its name stays, with the digest of its content.

use super::Trial;
use crate::{
    device::ModelChoice,
    device_model::{DeviceModel, MODEL_FILE},
    problem::{Problem, TrialError, problem},
    workload::{Entry, Input, InputFile},
};
use std::path::Path;

/// Keys that may appear next to `fio`: the name of the workload, and its descriptions.
const BESIDE: [&str; 4] = ["fio", "name", "about", "source"];

/// Reads the files that a trial file names, by their paths as written there.
pub trait Files {
    /// The workload that a fio job file becomes.
    ///
    /// # Errors
    /// It cannot be read, or is refused.
    fn workload_of(&mut self, path: &str) -> Result<Entry, NamedFileError>;
    /// The model of a device model file.
    ///
    /// # Errors
    /// It cannot be read, or is refused.
    fn model_of(&mut self, path: &str) -> Result<DeviceModel, NamedFileError>;
    /// The path from the root and the digest of an input of a program.
    ///
    /// # Errors
    /// It cannot be read, or is too large.
    fn input_of(&mut self, path: &Path) -> Result<InputFile, NamedFileError>;
}

/// A file that cannot be used.
#[derive(Debug, Clone)]
pub struct NamedFileError {
    /// The problem.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
    /// The place in it, if it was read.
    pub place: Option<Box<TrialError>>,
}

/// A problem at the place of a name, and the place in the file that is named.
type Named = (Problem, Option<Box<TrialError>>);

fn named(path: &[&str], error: NamedFileError) -> Named {
    let path = path.iter().map(|part| (*part).to_owned()).collect();
    (Problem { path, message: error.message, hint: error.hint }, error.place)
}

impl Trial {
    /// Replaces the names of files with the workloads and models they define.
    pub(super) fn take_files(&mut self, files: &mut dyn Files) -> Result<(), Named> {
        if let Some(ModelChoice::Named(path)) = &self.device.model
            && path.ends_with(MODEL_FILE)
        {
            let model = files.model_of(path).map_err(|error| named(&["device", "model"], error))?;
            self.device.model = Some(ModelChoice::Written(Box::new(model)));
        }
        self.take_job_files(files)?;
        self.take_inputs(files)
    }

    /// Adds the digests of inputs. A path from the root has one: that file is read later, and refused if it has another.
    fn take_inputs(&mut self, files: &mut dyn Files) -> Result<(), Named> {
        for (index, own) in self.workloads.iter_mut().enumerate() {
            for (name, input) in own.inputs.iter_mut().flatten() {
                let Input::File(file) = input else { continue };
                if file.file.is_absolute() && file.digest.is_some() {
                    continue;
                }
                let at = index.to_string();
                let refused = |error| named(&["workload", &at, "inputs", name], error);
                let found = files.input_of(&file.file).map_err(refused)?;
                if file.digest.as_ref().is_some_and(|digest| found.digest.as_ref() != Some(digest)) {
                    let message = format!("{} has another digest", file.file.display());
                    return Err(refused(NamedFileError { message, hint: None, place: None }));
                }
                *file = found;
            }
        }
        Ok(())
    }

    /// True if a program in it is given a file.
    pub fn names_inputs(&self) -> bool {
        let mut inputs = self.workloads.iter().flat_map(|entry| entry.inputs.iter().flatten());
        inputs.any(|(_, input)| matches!(input, Input::File(_)))
    }

    /// Puts the workloads of job files in the places of the entries that name them.
    fn take_job_files(&mut self, files: &mut dyn Files) -> Result<(), Named> {
        for (index, own) in self.workloads.iter_mut().enumerate() {
            let Some(path) = &own.fio else { continue };
            let at = index.to_string();
            if let Some(key) = contradiction(own) {
                return Err((
                    problem(
                        &["workload", &at, &key],
                        format!(
                            "`{key}` is not allowed together with `fio`: the job file {path} defines the load"
                        ),
                        "change the job file (numjobs, ramp_time, runtime, size, bs, rate_iops), or write out the \
                         workload that it becomes: fstrial workloads show FILE --toml",
                    ),
                    None,
                ));
            }
            let job = files.workload_of(path).map_err(|error| named(&["workload", &at, "fio"], error))?;
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

/// A key next to `fio` that the job file sets.
fn contradiction(entry: &Entry) -> Option<String> {
    entry.keys().into_iter().map(|(key, _)| key).find(|key| !BESIDE.contains(&key.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        claim::{Machine, era::Version},
        units::Bytes,
    };

    const MACHINE: Machine =
        Machine { cpus: 2, memory: Bytes::gib(8), kernel: Version(6, 12, 0), quick: false };
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
    const MAIL: &str = "[mail]\nrw=write\nsize=1m\ndirect=1\nnumjobs=2\n";

    /// A file of every name holds this text.
    struct Always<'a>(&'a str);

    fn refused(path: &str, place: Box<TrialError>) -> NamedFileError {
        NamedFileError { message: format!("the file {path} is refused"), hint: None, place: Some(place) }
    }

    impl Files for Always<'_> {
        fn workload_of(&mut self, path: &str) -> Result<Entry, NamedFileError> {
            let host = Surroundings { cpus: 2, memory_mib: 2048, page_bytes: 4096, variables: [].into() };
            let understanding = understand(path, self.0, &host).map_err(|place| refused(path, place))?;
            Ok(understanding.entry("mail"))
        }
        fn model_of(&mut self, path: &str) -> Result<DeviceModel, NamedFileError> {
            DeviceModel::parse(path, self.0).map_err(|place| refused(path, place))
        }
        fn input_of(&mut self, path: &Path) -> Result<InputFile, NamedFileError> {
            let digest = format!("sha256:{}", self.0.repeat(64)).parse();
            let digest = digest.map_err(|message| NamedFileError { message, hint: None, place: None })?;
            Ok(InputFile { file: Path::new("/trials").join(path), digest: Some(digest) })
        }
    }

    /// Reads a trial whose file holds this text.
    fn parse(trial: &str, file: &str) -> Result<Trial, Box<TrialError>> {
        Trial::parse_with_files("trial.toml", trial, &mut Always(file), &MACHINE)
    }

    #[test]
    fn the_workload_takes_the_place_of_the_job_file() {
        let trial = parse(TRIAL, MAIL).unwrap();
        let [entry] = &trial.workloads[..] else { panic!("{trial:?}") };
        assert_eq!(entry.name.as_deref(), Some("mail"));
        assert_eq!(entry.threads, Some(vec![2]));
        assert!(entry.about.as_ref().is_some_and(|about| about.starts_with("fio runs its job")), "{entry:?}");
        let saved = trial.settled(8).unwrap().trial().to_toml();
        assert!(!saved.contains("mail.fio"), "{saved}");
        let again = Trial::parse("saved.toml", &saved).unwrap();
        assert_eq!(&again, trial.settled(8).unwrap().trial());
        assert_eq!(again.settled(8), trial.settled(8));
        let changed = parse(TRIAL, &MAIL.replace("size=1m", "size=2m")).unwrap();
        assert_ne!(changed.settled(8), trial.settled(8));
    }

    #[test]
    fn trial_file_sets_workload_name_and_description() {
        let words = "name = 'second'\nabout = 'our mail server'\nsource = 'a note'\n";
        let named = format!("{TRIAL}{words}[[workload]]\nfio = 'mail.fio'\n");
        let trial = parse(&named, MAIL).unwrap();
        let names: Vec<_> = trial.workloads.iter().map(|entry| entry.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["second", "mail"]);
        assert_eq!(trial.workloads[0].about.as_deref(), Some("our mail server"));
        assert_eq!(trial.workloads[0].source.as_deref(), Some("a note"));
    }

    #[test]
    fn keys_combined_with_fio_are_refused() {
        for line in ["use = 'random-write'", "threads = [4]", "duration = '1s'", "file_size = '1MiB'"]
            .into_iter()
            .chain(["rate = '5/s'", "kind = 'io'", "[[workload.phase]]", "[[workload.metric]]\nname = 'x'"])
        {
            let error = parse(&format!("{TRIAL}{line}\n"), MAIL).unwrap_err();
            let key = line.trim_start_matches("[[workload.").split([' ', ']']).next().unwrap();
            assert!(
                error.message.starts_with(&format!("`{key}` is not allowed together with `fio`")),
                "{line}: {error}"
            );
        }
    }

    #[test]
    fn errors_underline_the_place_in_the_trial_file() {
        let twice = format!("{TRIAL}[[workload]]\nfio = \"mail.fio\"\n");
        let beside = format!("{TRIAL}threads = [4]\n");
        let small = format!("{TRIAL}[device]\nsize = \"400MiB\"\n");
        for (name, trial, job_file) in [
            ("job_file_refused", TRIAL, "[a]\nrw=write\nsize=1m\nexec_prerun=x\nopendir=/etc\n"),
            ("job_file_empty", TRIAL, ""),
            ("key_beside_a_job_file", &beside, MAIL),
            ("job_file_twice", &twice, MAIL),
            ("job_file_too_large_for_the_device", &small, &MAIL.replace("size=1m", "size=1g")),
        ] {
            insta::assert_snapshot!(name, rendered(&parse(trial, job_file).unwrap_err()));
        }
    }

    #[test]
    fn unreadable_file_error_has_source_span() {
        struct Missing;
        impl Files for Missing {
            fn workload_of(&mut self, _: &str) -> Result<Entry, NamedFileError> {
                Err(NamedFileError {
                    message: "it is missing".into(),
                    hint: Some("look".into()),
                    place: None,
                })
            }
            fn model_of(&mut self, _: &str) -> Result<DeviceModel, NamedFileError> {
                Err(NamedFileError { message: "it is missing".into(), hint: None, place: None })
            }
            fn input_of(&mut self, path: &Path) -> Result<InputFile, NamedFileError> {
                self.model_of("").map(|_| InputFile { file: path.to_owned(), digest: None })
            }
        }
        let error = Trial::parse_with_files("trial.toml", TRIAL, &mut Missing, &MACHINE).unwrap_err();
        let span = error.span.unwrap();
        assert_eq!(&TRIAL[span.offset()..span.offset() + span.len()], "\"jobs/mail.fio\"");
        assert_eq!((error.message.as_str(), error.help.as_deref()), ("it is missing", Some("look")));
    }

    #[test]
    fn fio_is_refused_in_stored_trials_and_phases() {
        let error = Trial::parse("stored trial", TRIAL).unwrap_err();
        assert!(error.message.contains("not read here"), "{error}");
        let phase = "[[workload]]\nkind = 'io'\n[[workload.phase]]\nfio = 'mail.fio'\n";
        let error =
            parse(&TRIAL.replace("[[workload]]\nfio = \"jobs/mail.fio\"\n", phase), MAIL).unwrap_err();
        assert_eq!(error.message, "`fio` does not belong into a phase");
    }

    const ATTACHED: &str = r#"
[[arm]]
filesystem = "ext4"
[[arm]]
filesystem = "xfs"
[[workload]]
kind = "program"
command = ["psql", "-f", "{input:dump.sql}"]
inputs = { "dump.sql" = { file = "data/dump.sql" } }
[[workload.metric]]
name = "wall"
measure = "wall"
"#;

    #[test]
    fn inputs_are_named_by_digest() {
        let trial = parse(ATTACHED, "7").unwrap();
        let settled = trial.settled(8).unwrap();
        let saved = settled.trial().to_toml();
        let again = Trial::parse("saved.toml", &saved).unwrap();
        assert_eq!(&again, settled.trial(), "{saved}");
        let attached = |trial: &Trial| {
            trial.settled(8).unwrap().into_parts().1[0].program().unwrap().program.attached.clone()
        };
        let file = &attached(&again)["dump.sql"];
        assert_eq!(file.file, Path::new("/trials/data/dump.sql"));
        assert_eq!(file.digest.as_ref().unwrap().to_string(), format!("sha256:{}", "7".repeat(64)));
        // One with a digest is not read again: another content would not be noticed here.
        let untouched = Trial::parse_with_files("saved.toml", &saved, &mut Always("8"), &MACHINE).unwrap();
        assert_eq!(attached(&untouched), attached(&again));
        assert_ne!(attached(&parse(ATTACHED, "8").unwrap()), attached(&again));
    }

    #[test]
    fn inputs_that_are_not_read_are_refused() {
        let error = Trial::parse("stored trial", ATTACHED).unwrap_err();
        assert!(error.message.contains("data/dump.sql of the input `dump.sql` is not read here"), "{error}");
        let error = parse(ATTACHED, "x").unwrap_err();
        let span = error.span.unwrap();
        assert!(ATTACHED[span.offset()..].starts_with("{ file"), "{error}");
        let unknown = ATTACHED.replace("{ file", "{ path");
        assert!(parse(&unknown, "7").unwrap_err().message.contains("unknown field `path`"));
        let number = ATTACHED.replace("{ file = \"data/dump.sql\" }", "7");
        assert!(parse(&number, "7").unwrap_err().message.contains("{ file = "));
    }

    const MODELLED: &str = r#"
[device]
kind = "model"
model = "my-disk.toml"
[[arm]]
filesystem = "ext4"
[[arm]]
filesystem = "xfs"
[[workload]]
use = "random-write"
"#;

    #[test]
    fn model_file_is_inlined_into_trial() {
        let trial = parse(MODELLED, "[read]\nlatency = \"1ms\"").unwrap();
        let model = trial.device.modelled().unwrap();
        assert_eq!((model.name.as_str(), model.read.latency), ("my-disk", crate::units::Nanos::millis(1)));
        let saved = trial.settled(8).unwrap().trial().to_toml();
        assert!(!saved.contains("my-disk.toml"), "{saved}");
        let again = Trial::parse("saved.toml", &saved).unwrap();
        assert_eq!(&again, trial.settled(8).unwrap().trial());
        assert_eq!(again.settled(8), trial.settled(8));
    }

    #[test]
    fn named_model_is_inlined_when_settled() {
        let named = MODELLED.replace("my-disk.toml", "gp3-3000");
        let settled = Trial::parse("trial.toml", &named).unwrap().settled(8).unwrap();
        let settled = settled.trial();
        assert!(settled.to_toml().contains("iops = 3000"), "{}", settled.to_toml());
        assert_eq!(settled.device.modelled().unwrap().name, "gp3-3000");
    }

    #[test]
    fn invalid_model_errors_point_at_source() {
        let unknown = MODELLED.replace("my-disk.toml", "gp3-300");
        let none = MODELLED.replace("model = \"my-disk.toml\"\n", "");
        let other = MODELLED.replace("kind = \"model\"", "kind = \"image\"");
        let inside = MODELLED.replace("\"my-disk.toml\"", "{ read = { latency = \"1h\" } }");
        for (name, trial, file) in [
            ("model_file_refused", MODELLED, "[read]\nlatency = \"quick\""),
            ("model_unknown", &unknown, ""),
            ("model_missing", &none, ""),
            ("model_of_an_image", &other, ""),
            ("model_written_out_wrongly", &inside, ""),
        ] {
            insta::assert_snapshot!(name, rendered(&parse(trial, file).unwrap_err()));
        }
    }
}
