//! Parser of job files: sections, cumulative globals, comments, variables. The meaning of keys is not examined.
//!
//! As fio 3.33 does it, with three differences, all on the strict side: `include` reads only files next to the job
//! file, since a foreign one must not reach others; `${NAME}` is looked up in an explicit map only; and blanks around
//! `=` are refused, since fio loses the unit of `size = 1m`.

use super::{
    keys::{ENGINE_KEYS, KEYS, Key, Treatment},
    source::{Fault, Files, MAX_FILE_BYTES, MAX_LINE_BYTES, Source, SourcePosition, Sources},
    value::{Reading, Surroundings, Value, cut},
};
use crate::problem::{TrialError, closest};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

/// Jobs in one file, at most.
pub const MAX_JOBS: usize = 256;
/// Characters of a job's name, at most.
const MAX_NAME_BYTES: usize = 255;
/// Limit of the settings of all jobs together, globals counted in every job: the input of a run through fio.
const MAX_SETTINGS: usize = 20_000;

/// Faults that are collected from one file, at most.
const MAX_FAULTS: usize = 100;
/// Faults that are shown of one file, at most.
const MAX_SHOWN: usize = 20;

/// The parsed part of a job file, and all reasons against running it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFile {
    /// Its jobs, in order.
    pub jobs: Vec<Job>,
    /// Its sections as they are written, globals too.
    pub sections: Vec<WrittenSection>,
    /// Reasons against running it.
    pub faults: Vec<Fault>,
    /// Itself, and the files that it includes.
    sources: Vec<Source>,
}

/// One job with everything it takes from the global sections before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its name: that of its section, or of its last `name=`.
    pub name: String,
    /// The name of its section, which its files are called after.
    pub section: String,
    /// The line of its section, from 1.
    pub line: usize,
    /// Its settings, each key once, in the order fio applies them: a later one wins.
    pub settings: Vec<Arc<Setting>>,
    pub(crate) span: Range<usize>,
}

/// One key with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Row of the key in the table of known keys, found by name or alias.
    pub key: &'static Key,
    /// The value as it is written, variables filled in; nothing for a key without one.
    pub text: String,
    /// The value as it is meant.
    pub value: Value,
    /// Its line, from 1; of a setting in an included file that of the `include`.
    pub line: usize,
    /// True if it is in the file; otherwise it follows from another line.
    pub is_written: bool,
    pub(crate) place: SourcePosition,
}

/// A section as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenSection {
    /// Text in the brackets of the section: `global`, or the name of a job.
    pub name: String,
    /// Its line, from 1.
    pub line: usize,
    /// Its lines with a key, by number.
    pub lines: Vec<(usize, String)>,
}

impl WrittenSection {
    /// True if it is not a job, but applies to the jobs below it.
    pub(crate) fn is_global(&self) -> bool {
        is_global(&self.name)
    }
}

/// As fio does it: by the beginning of the name.
fn is_global(name: &str) -> bool {
    name.starts_with("global")
}

/// A line of a section: key, value, and its place.
struct RawSetting<'a> {
    key: &'static Key,
    text: Option<Cow<'a, str>>,
    /// True if the value is parsed. Invalid values are not, nor those that fio does not get.
    is_read: bool,
    place: SourcePosition,
}

/// A section that is being read.
struct Section<'a> {
    name: &'a str,
    place: SourcePosition,
    settings: Vec<RawSetting<'a>>,
    lines: Vec<(usize, &'a str)>,
}

impl Job {
    /// The setting of a key.
    pub fn get(&self, name: &str) -> Option<&Arc<Setting>> {
        self.settings.iter().find(|setting| setting.key.name == name)
    }

    /// The number that a key has.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        match self.get(name)?.value {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    /// True if a key is switched on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|setting| setting.value == Value::Switch(true))
    }

    /// Its kind of I/O, such as `randwrite`: the value of `rw` up to a colon.
    pub(crate) fn access(&self) -> &str {
        let text = self.get("rw").map_or("read", |setting| setting.text.as_str());
        text.split_once(':').map_or(text, |(access, _)| access)
    }

    /// Something wrong with the whole of it.
    pub(crate) fn fault(&self, message: impl Into<String>, help: impl Into<String>) -> Fault {
        SourcePosition { line: self.line, source: 0, span: self.span.clone() }.fault(message, help)
    }
}

impl Setting {
    /// Something wrong with it.
    pub(crate) fn fault(&self, message: impl Into<String>, help: impl Into<String>) -> Fault {
        self.place.fault(message, help)
    }
}

impl JobFile {
    /// Reads a job file as far as possible; problems are among its faults. `name` is for messages only, `files` has the
    /// texts of its includes.
    pub fn read(name: &str, text: &str, surroundings: &Surroundings, files: &mut Files<'_>) -> Self {
        let is_small = text.len() <= MAX_FILE_BYTES;
        let main = Source::new(name, if is_small { text } else { "" });
        let mut file =
            Self { jobs: Vec::new(), sections: Vec::new(), faults: Vec::new(), sources: vec![main.clone()] };
        let whole = SourcePosition { line: 0, source: 0, span: 0..0 };
        if !is_small {
            let bytes = text.len();
            file.add_fault(whole.fault(
                format!("{name} is larger than a job file can be ({bytes} bytes, at most {MAX_FILE_BYTES})"),
                "is this the right file? a job file is a page of key=value lines",
            ));
            return file;
        }
        let mut faults = Vec::new();
        let sources = Sources::read(main, files, &mut faults);
        let sections = sections(&sources, surroundings, &mut faults);
        file.jobs = jobs(&sections, surroundings, &mut faults);
        file.sections = sections.iter().map(Section::written).collect();
        file.sources = sources.files;
        faults.into_iter().for_each(|fault| file.add_fault(fault));
        if file.faults.is_empty() && file.sections.iter().all(WrittenSection::is_global) {
            file.add_fault(
                whole.fault("the file has no job", "add a section such as [read] with rw= and size="),
            );
        }
        file
    }

    /// Adds a fault, without duplicates. Globals are examined with every job.
    pub(crate) fn add_fault(&mut self, mut fault: Fault) {
        if fault.source > 0 {
            let Source { name, text, .. } = &self.sources[fault.source];
            let line = text[..fault.span.start].matches('\n').count() + 1;
            fault.message = format!("{} ({name}, line {line})", fault.message);
        }
        if self.faults.len() < MAX_FAULTS && !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    /// Leaves out the settings that are wrong, so that the others can be looked at.
    pub(crate) fn leave_faults_out(&mut self) {
        let lines: BTreeSet<usize> = self.faults.iter().map(|fault| fault.line).collect();
        for job in &mut self.jobs {
            job.settings.retain(|setting| !lines.contains(&setting.line));
        }
    }

    /// Everything that keeps it from being run as one error, each with its place underlined; none if nothing does.
    pub fn refusal(&self) -> Option<Box<TrialError>> {
        let mut faults: Vec<&Fault> = self.faults.iter().collect();
        faults.sort_by_key(|fault| fault.line);
        let name = &self.sources[0].name;
        let one = |fault: &&Fault| {
            let Source { name, text, .. } = &self.sources[fault.source];
            TrialError::at(name, text, fault.span.clone(), fault.message.clone(), Some(fault.help.clone()))
        };
        let message = match faults.len() {
            0 => return None,
            1 => return Some(Box::new(one(&faults[0]))),
            n if n >= MAX_FAULTS => format!("{n} or more problems with {name}; the first {MAX_SHOWN} are"),
            n if n > MAX_SHOWN => format!("{n} problems with {name}; the first {MAX_SHOWN} are"),
            n => format!("{n} problems with {name}"),
        };
        let within = faults.iter().take(MAX_SHOWN).map(one).collect();
        Some(Box::new(TrialError { within, ..TrialError::of_file(name, message) }))
    }
}

impl Section<'_> {
    fn written(&self) -> WrittenSection {
        let lines = self.lines.iter().map(|(line, text)| (*line, (*text).to_owned())).collect();
        WrittenSection { name: self.name.to_owned(), line: self.place.line, lines }
    }
}

/// Splits the lines into sections.
fn sections<'a>(
    sources: &'a Sources,
    surroundings: &Surroundings,
    faults: &mut Vec<Fault>,
) -> Vec<Section<'a>> {
    let mut sections: Vec<Section<'a>> = Vec::new();
    for line in &sources.lines {
        let (raw, word) = sources.line(line);
        let place = line.place.clone();
        let read = match plain(raw, word, &place) {
            Err(fault) => Err(fault),
            Ok(()) if word.starts_with('[') => {
                let name = section_name(word, &place);
                // Settings after an invalid name belong to no other section.
                let name_or_word = *name.as_ref().unwrap_or(&"[]");
                sections.push(Section { name: name_or_word, place, settings: Vec::new(), lines: Vec::new() });
                name.map(|_| ())
            }
            Ok(()) => {
                match sections.last_mut() {
                    None => Err(place
                        .fault("the key is outside of any section", "put [global] or [a-name] before it")),
                    Some(current) => {
                        if place.source == 0 {
                            current.lines.push((place.line, word));
                        }
                        if line.is_include {
                            continue;
                        }
                        raw_setting(word, place, surroundings, &mut current.settings)
                    }
                }
            }
        };
        if let Err(fault) = read {
            faults.push(fault);
            if faults.len() >= MAX_FAULTS {
                break;
            }
        }
    }
    sections
}

/// A line of text that can be shown.
fn plain(raw: &str, word: &str, place: &SourcePosition) -> Result<(), Fault> {
    let line = place.line;
    if raw.len() > MAX_LINE_BYTES {
        let span = place.span.start..place.span.start + word.len().min(60);
        let start = SourcePosition { span, ..place.clone() };
        return Err(start.fault(
            format!("line {line} is longer than {MAX_LINE_BYTES} bytes"),
            "split the values over several keys or files",
        ));
    }
    match word.contains(|c: char| c.is_control() && c != '\t') {
        true => {
            Err(place.fault(format!("line {line} holds a control character"), "a job file is plain text"))
        }
        false => Ok(()),
    }
}

fn section_name<'a>(word: &'a str, place: &SourcePosition) -> Result<&'a str, Fault> {
    let Some(name) = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return Err(place.fault("the name of a section does not end with `]`", "write [name]"));
    };
    match name.is_empty() || name.len() > MAX_NAME_BYTES {
        true => Err(place.fault(
            format!("a section's name has 1 to {MAX_NAME_BYTES} bytes"),
            "write [global] or [a-name]",
        )),
        false => Ok(name),
    }
}

/// Adds the setting of a line, also where its value is wrong, so that its key is not reported as missing.
fn raw_setting<'a>(
    word: &'a str,
    place: SourcePosition,
    surroundings: &Surroundings,
    settings: &mut Vec<RawSetting<'a>>,
) -> Result<(), Fault> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    let Some(key) = Key::find(name.trim_end()) else { return Err(unknown(name.trim_end(), &place)) };
    let has_blanks = name.ends_with(char::is_whitespace)
        || value.is_some_and(|value| value.starts_with(char::is_whitespace));
    let text = match has_blanks {
        true => Err(place.fault(
            "there are blanks around `=`: fio 3.33 then loses the unit of a number",
            "write key=value without blanks",
        )),
        false => value.map(|value| fill_in(value, &place, surroundings)).transpose(),
    };
    let (text, is_read, fault) = match text {
        Ok(text) => (text, true, None),
        Err(_) if !has_blanks && key.treatment == Treatment::LeftOut => (value.map(Cow::from), false, None),
        Err(fault) => (None, false, Some(fault)),
    };
    settings.push(RawSetting { key, text, is_read, place });
    fault.map_or(Ok(()), Err)
}

/// A key that fio does not have for files.
fn unknown(name: &str, place: &SourcePosition) -> Fault {
    if ENGINE_KEYS.contains(&name) || name.starts_with("http_") {
        let message = format!("`{}` is refused: it is for engines that do no I/O on files", cut(name));
        return place.fault(message, "leave it out, and use an engine such as psync or io_uring");
    }
    let names = KEYS.iter().flat_map(|key| [key.name, key.alias]).filter(|known| !known.is_empty());
    let help = match closest(name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            "`fio --cmdhelp=all` lists the keys; those of engines for devices and networks are not run".into()
        }
    };
    place.fault(format!("fio 3.33 has no key `{}` for files", cut(name)), help)
}

/// Puts the values of `${NAME}` in.
fn fill_in<'a>(
    value: &'a str,
    place: &SourcePosition,
    surroundings: &Surroundings,
) -> Result<Cow<'a, str>, Fault> {
    if !value.contains("${") {
        return Ok(value.into());
    }
    let mut out = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let Some((name, tail)) = after.split_once('}') else {
            return Err(place.fault("`${` is not closed", "write ${NAME}"));
        };
        let Some(known) = surroundings.variables.get(name) else {
            return Err(place.fault(
                format!(
                    "the variable `{}` is not a number in the environment, and nothing else is taken from it",
                    cut(name)
                ),
                "write its value in place of it",
            ));
        };
        // A value is a value: nothing in it begins another line, comment or variable.
        if known.contains(|c: char| c.is_control() || ";#$".contains(c)) {
            let message = format!("the value of `{}` cannot be written in a job file", cut(name));
            return Err(place.fault(message, "use letters, digits and signs without ; # $"));
        }
        out.push_str(known);
        rest = tail;
        if out.len() > MAX_LINE_BYTES {
            return Err(place.fault("the line becomes too long", "use shorter values"));
        }
    }
    out.push_str(rest);
    Ok(out.into())
}

/// Applies the global sections and reads the values.
fn jobs(sections: &[Section<'_>], surroundings: &Surroundings, faults: &mut Vec<Fault>) -> Vec<Job> {
    let mut globals = Settings::default();
    let mut jobs = Vec::new();
    let mut total = 0;
    for section in sections {
        if faults.len() >= MAX_FAULTS {
            break;
        }
        if is_global(section.name) {
            globals.add(section, surroundings, faults);
            continue;
        }
        let mut settings = globals.clone();
        settings.add(section, surroundings, faults);
        let settings: Vec<Arc<Setting>> = settings.by_application.into_values().collect();
        total += settings.len();
        if jobs.len() == MAX_JOBS || total > MAX_SETTINGS {
            let message =
                format!("there are more than {MAX_JOBS} jobs, or {MAX_SETTINGS} settings in all of them");
            faults.push(section.place.fault(message, "split the file; numjobs= makes clones of a job"));
            break;
        }
        let named = settings.iter().find(|setting| setting.key.name == "name");
        let name = named.map_or(section.name, |setting| setting.text.as_str()).trim().to_owned();
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            let message = format!("a job's name has 1 to {MAX_NAME_BYTES} bytes");
            faults.push(section.place.fault(message, "write name=something, or leave it out"));
        }
        let SourcePosition { line, span, .. } = section.place.clone();
        jobs.push(Job { name, section: section.name.to_owned(), line, settings, span });
    }
    jobs
}

/// Settings by the order of their application, and where each key is among them.
#[derive(Debug, Clone, Default)]
struct Settings {
    by_application: BTreeMap<usize, Arc<Setting>>,
    places: BTreeMap<&'static str, usize>,
    next: usize,
    decimal: bool,
}

impl Settings {
    /// Overlays a section.
    fn add(&mut self, section: &Section<'_>, surroundings: &Surroundings, faults: &mut Vec<Fault>) {
        // fio applies kb_base before all other keys of a section.
        for raw in section.settings.iter().filter(|raw| raw.key.name == "kb_base" && raw.is_read) {
            if let Err(fault) = self.set_base(raw) {
                faults.push(fault);
            }
        }
        let reading = Reading { surroundings, decimal: self.decimal };
        for RawSetting { key, text, is_read, place } in &section.settings {
            let value = match is_read {
                true => reading.value(key.kind, text.as_deref()),
                false => Ok(Value::Text),
            };
            let value = value.unwrap_or_else(|error| {
                faults.push(place.fault(format!("{}: {}", key.name, error.problem), error.hint));
                Value::Text
            });
            let text = text.as_deref().unwrap_or_default().to_owned();
            let setting =
                Setting { key, text, value, line: place.line, is_written: true, place: place.clone() };
            if let Some(place) = self.places.insert(key.name, self.next) {
                self.by_application.remove(&place);
            }
            self.by_application.insert(self.next, Arc::new(setting));
            self.next += 1;
        }
    }

    fn set_base(&mut self, raw: &RawSetting<'_>) -> Result<(), Fault> {
        let decimal = match raw.text.as_deref() {
            Some("1024") => false,
            Some("1000") => true,
            _ => return Err(raw.place.fault("kb_base is 1024 or 1000", "write kb_base=1024")),
        };
        // Their units are left to fio, which would read them with the base of the job.
        let is_open = |setting: &Arc<Setting>| setting.value == Value::Text && setting.key.name != "kb_base";
        if decimal != self.decimal && self.by_application.values().any(is_open) {
            return Err(raw.place.fault(
                "kb_base changes after values have been read with another one",
                "put kb_base in the first [global] section, before every job",
            ));
        }
        self.decimal = decimal;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::value::tests::host, *};

    fn read(text: &str) -> JobFile {
        JobFile::read("job.fio", text, &host(), &mut |path| Err(format!("there is no {path}")))
    }

    fn parse(text: &str) -> JobFile {
        let file = read(text);
        assert!(file.faults.is_empty(), "{:?}", file.faults);
        file
    }

    fn refused(text: &str) -> String {
        let file = read(text);
        assert!(!file.faults.is_empty() && file.refusal().is_some(), "{text:?}");
        file.faults.iter().map(|fault| format!("{} / {}\n", fault.message, fault.help)).collect()
    }

    fn text<'a>(job: &'a Job, key: &str) -> &'a str {
        job.get(key).map_or("-", |setting| setting.text.as_str())
    }

    #[test]
    fn globals_are_cumulative_and_reach_the_jobs_below_only() {
        // The same file in fio 3.33: a has 8k and 1m, b has 16k and 2m.
        let file = parse(
            "[global]\nbs=8k\n;x\n  # y\n[a]\nsize=1m\n[global]\nbs=16k\n[globalX]\nsize=2m\n[b]\nrw=read ; why\n",
        );
        let [a, b] = &file.jobs[..] else { panic!("{file:?}") };
        assert_eq!((text(a, "bs"), text(a, "size"), text(a, "rw")), ("8k", "1m", "-"));
        assert_eq!((text(b, "bs"), text(b, "size"), text(b, "rw")), ("16k", "2m", "read"));
        assert_eq!((a.line, b.line), (5, 11));
        assert_eq!(&file.sources[0].text[b.settings[2].place.span.clone()], "rw=read");
    }

    #[test]
    fn the_last_of_a_key_wins_and_other_names_are_the_same_key() {
        let file = parse("[a]\nbs=4k\nblocksize=8k\nrw=read\nreadwrite=write\nname=b\n");
        let job = &file.jobs[0];
        assert_eq!((text(job, "bs"), text(job, "rw"), job.name.as_str()), ("8k", "write", "b"));
        assert_eq!(job.settings.len(), 3);
    }

    #[test]
    fn kb_base_applies_to_whole_section() {
        let file =
            parse("[global]\nio_size=1k\n[a]\nsize=1k\nkb_base=1000\nbssplit=1k/50:2k/50\n[b]\nsize=1k\n");
        let value = |job: usize, key: &str| file.jobs[job].get(key).unwrap().value.clone();
        assert_eq!([value(0, "size"), value(1, "size")], [Value::Number(1000), Value::Number(1024)]);
        assert_eq!(value(0, "io_size"), Value::Number(1024));
    }

    #[test]
    fn variables_come_from_the_map_only() {
        assert_eq!(text(&parse("[a]\nsize=${SIZE}\n").jobs[0], "size"), "64m");
        assert!(refused("[a]\nsize=${HOME}\n").contains("is not a number in the environment"));
        assert!(refused("[a]\nsize=${SIZE\n").contains("not closed"));
        assert_eq!(text(&parse("[a]\nsize=1m\nwrite_bw_log=${NAME}\n").jobs[0], "write_bw_log"), "${NAME}");
    }

    #[test]
    fn parse_errors_name_problem_and_remedy() {
        for (text, part) in [
            ("", "no job"),
            ("bs=4k\n", "outside of any section"),
            ("[a\nbs=4k\n", "does not end"),
            ("[]\n", "1 to 255"),
            ("[ ]\nsize=4k\n", "1 to 255"),
            ("[a]\ninclude other.fio\n", "there is no other.fio"),
            ("[a]\nbs = 4k\n", "without blanks"),
            ("[a]\nblocksiz=4k\n", "did you mean `blocksize`?"),
            ("[a]\nclustername=ceph\n", "engines that do no I/O on files"),
            ("[a]\nBS=4k\n", "no key `BS`"),
            ("[a]\ndirect\n", "needs a value"),
            ("[a]\ndirect=true\n", "write 0 or 1"),
            ("[a]\nsize=1.5m\n", "1536k"),
            ("[a]\nruntime=1m30s\n", "one whole number"),
            ("[a]\nkb_base=7\n", "1024 or 1000"),
            ("[global]\nbssplit=1k/100\n[a]\nkb_base=1000\n", "first [global]"),
            ("[a]\nrate=1,2,3,4\n", "three values"),
            ("[a]\ndescription=\u{1b}[2J\n", "control character"),
        ] {
            assert!(refused(text).contains(part), "{text:?}: {}", refused(text));
        }
    }

    #[test]
    fn invalid_size_is_reported_only_once() {
        for size in ["size = 1g", "size=${NOWHERE}", "size=1.5m"] {
            let text = format!("[a]\n{size}\n");
            let inspection = super::super::inspect("job.fio", &text, &host(), &mut |path| Err(path.into()));
            assert_eq!(inspection.faults.len(), 1, "{:?}", inspection.faults);
        }
    }

    #[test]
    fn hostile_files_are_refused_quickly() {
        assert!(refused(&"[a]\n".repeat(2_000_000)).contains("larger than"));
        assert!(refused(&"[a]\n".repeat(257)).contains("256 jobs"));
        assert!(refused(&format!("[a]\ndescription={}\n", "x".repeat(5000))).contains("longer than"));
        let nested = format!("[a]\nsize={}\n", "(".repeat(4000));
        assert!(refused(&nested).contains("too deep"));
        let many: String = KEYS
            .iter()
            .filter(|key| key.kind == super::super::keys::ValueKind::Bool)
            .map(|key| format!("{}=1\n", key.name))
            .collect();
        let file = format!("[global]\n{many}{}", "[a]\n".repeat(256));
        parse(&file);
        // Each global section is laid over the ones before it, not copied.
        let globals = format!("[global]\n{many}{}[a]\n", "[global]\n".repeat(100_000));
        parse(&globals);
        // The number of reported lines of garbage is limited.
        let nonsense = read(&"x\n".repeat(100_000));
        assert_eq!(nonsense.faults.len(), MAX_FAULTS);
        assert_eq!(nonsense.refusal().unwrap().within.len(), MAX_SHOWN);
    }
}
