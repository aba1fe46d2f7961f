//! The lines of a job file with those of the files that it includes in their places.
//!
//! fio 3.33 opens any file that `include NAME` names, at any depth. A job file comes from elsewhere: here only files in
//! its folder or below can be named, and number, depth and size are bounded. This crate reads nothing: the reader of
//! the job file passes its neighbours in, and checks that they are ordinary files, reached without links.

use std::ops::Range;

/// The largest job file that is read, with all that it includes, in bytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;
/// The longest line, in bytes.
pub const MAX_LINE_BYTES: usize = 4096;
/// Files that a job file includes, each as often as it does, and how deep in each other, at most.
const MAX_INCLUDED: usize = 64;
const MAX_DEPTH: usize = 8;

/// Returns the text of a file by its path from the folder of the job file, which is relative and has no `..`; or the
/// reason why it cannot.
pub type Files<'a> = dyn FnMut(&str) -> Result<String, String> + 'a;

/// Something that keeps a job file from being run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its line, from 1, or that of the `include` of its file; 0 if it is about the whole file.
    pub line: usize,
    /// The problem.
    pub message: String,
    /// The remedy.
    pub help: String,
    pub(super) source: usize,
    pub(super) span: Range<usize>,
}

/// The place of a line or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourcePosition {
    /// In the job file.
    pub(super) line: usize,
    /// The file, and the place in it.
    pub(super) source: usize,
    pub(super) span: Range<usize>,
}

impl SourcePosition {
    pub(super) fn fault(&self, message: impl Into<String>, help: impl Into<String>) -> Fault {
        let Self { line, source, span } = self.clone();
        Fault { line, message: message.into(), help: help.into(), source, span }
    }
}

/// The name and text of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: String,
    /// Its folder from that of the job file, with a `/` at the end; nothing for that folder itself.
    folder: String,
    depth: usize,
}

impl Source {
    pub(super) fn new(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), text: text.to_owned(), folder: String::new(), depth: 0 }
    }
}

/// A line that is not empty.
#[derive(Debug)]
pub(super) struct SourceLine {
    /// Its span leaves blanks and comments out.
    pub(super) place: SourcePosition,
    /// The whole of it.
    span: Range<usize>,
    pub(super) is_include: bool,
}

/// A job file, the files that it includes, and all lines in order.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) files: Vec<Source>,
    pub(super) lines: Vec<SourceLine>,
    bytes: usize,
    is_in_section: bool,
}

impl Sources {
    pub(super) fn read(main: Source, files: &mut Files<'_>, faults: &mut Vec<Fault>) -> Self {
        let bytes = main.text.len();
        let mut all = Self { files: vec![main], lines: Vec::new(), bytes, is_in_section: false };
        all.add(0, 0, files, faults);
        all
    }

    /// A whole line, and its meaningful part.
    pub(super) fn line(&self, line: &SourceLine) -> (&str, &str) {
        let text = &self.files[line.place.source].text;
        (&text[line.span.clone()], &text[line.place.span.clone()])
    }

    /// Adds the lines of a file. Those of an included one have the number of the line that includes it.
    fn add(&mut self, source: usize, includer: usize, files: &mut Files<'_>, faults: &mut Vec<Fault>) {
        let text = self.files[source].text.clone();
        let mut at = 0;
        for (index, raw) in text.split_inclusive('\n').enumerate() {
            let start = at;
            at += raw.len();
            // As fio does, also in the middle of a line and of a name.
            let code = raw.split([';', '#']).next().unwrap_or_default();
            let word = code.trim();
            if word.is_empty() && raw.len() <= MAX_LINE_BYTES {
                continue;
            }
            let from = start + (code.len() - code.trim_start().len());
            let line = if source == 0 { index + 1 } else { includer };
            let place = SourcePosition { line, source, span: from..from + word.len() };
            if word.starts_with('[') {
                if source > 0 {
                    faults.push(place.fault(
                        "an included file has no sections",
                        "put the section into the job file, and its lines into the included one",
                    ));
                    continue;
                }
                self.is_in_section = true;
            }
            let is_include = word.split_whitespace().next() == Some("include") && self.is_in_section;
            self.lines.push(SourceLine { place: place.clone(), span: start..at, is_include });
            if is_include {
                let name = word["include".len()..].trim();
                match self.included(source, name, files) {
                    Ok(included) => self.add(included, line, files, faults),
                    Err((message, help)) => faults.push(place.fault(message, help)),
                }
            }
        }
    }

    /// Reads the file of this name that a file includes.
    fn included(
        &mut self,
        by: usize,
        name: &str,
        files: &mut Files<'_>,
    ) -> Result<usize, (String, &'static str)> {
        let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        if !name.split('/').all(is_plain) || name.contains(char::is_control) {
            return Err((
                "`include` reads files in the folder of the job file and below, and no others".into(),
                "put the file next to the job file, and write its path from there, without `..`",
            ));
        }
        let Source { folder, depth, .. } = &self.files[by];
        let (path, depth) = (format!("{folder}{name}"), depth + 1);
        if depth > MAX_DEPTH || self.files.len() > MAX_INCLUDED {
            let message =
                format!("there are more than {MAX_INCLUDED} included files, or {MAX_DEPTH} in each other");
            return Err((message, "does a file include itself?"));
        }
        let text = files(&path).map_err(|why| (why, "copy the lines of that file to this place"))?;
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > MAX_FILE_BYTES {
            let message = format!("the job file and its includes exceed {MAX_FILE_BYTES} bytes");
            return Err((message, "is this the right file? a job file is a page of key=value lines"));
        }
        let folder = path.rfind('/').map_or("", |end| &path[..=end]).to_owned();
        self.files.push(Source { name: path, text, folder, depth });
        Ok(self.files.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Fate, JobFile, Value, inspect, value::tests::host},
        *,
    };
    use proptest::prelude::*;

    /// Reads a job file next to which are these files.
    fn read(text: &str, beside: &[(&str, &str)]) -> JobFile {
        let mut files = |path: &str| {
            let result = beside.iter().find(|(name, _)| *name == path);
            result.map(|(_, text)| (*text).to_owned()).ok_or_else(|| format!("there is no file {path}"))
        };
        JobFile::read("job.fio", text, &host(), &mut files)
    }

    fn faults(text: &str, beside: &[(&str, &str)]) -> Vec<(usize, String)> {
        read(text, beside).faults.into_iter().map(|fault| (fault.line, fault.message)).collect()
    }

    #[test]
    fn included_lines_expand_in_place() {
        // The same files in fio 3.33: a has 8k, b has 16k and 2m.
        let text = "[global]\ninclude all.inc ; why\n[a]\nbs=8k\n[b]\nbs=4k\n include sub/b.inc\nsize=2m\n";
        let beside = [
            ("all.inc", "\n# all\nsize=1m\nbs=64k\n"),
            ("sub/b.inc", "include c\nsize=3m\n"),
            ("sub/c", "bs=16k\n"),
        ];
        let file = read(text, &beside);
        assert_eq!(file.faults, []);
        let value = |job: usize, key: &str| match file.jobs[job].get(key).unwrap().value.clone() {
            Value::Number(number) => number,
            Value::Numbers(list) => list[0].unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!((value(0, "bs"), value(0, "size")), (8 << 10, 1 << 20));
        assert_eq!((value(1, "bs"), value(1, "size")), (16 << 10, 2 << 20));
        // Its treatment is reported at the line in the job file.
        assert_eq!(file.jobs[1].get("bs").unwrap().line, 7);
        let lines: Vec<&str> = file.sections[2].lines.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(lines, ["bs=4k", "include sub/b.inc", "size=2m"]);
    }

    #[test]
    fn only_files_below_the_job_file_have_a_name() {
        for name in ["/etc/shadow", "../x", "a/../../x", "./x", "a//x", "", "a/", "..", "x\u{1b}[2J"] {
            let mut requested = Vec::new();
            let text = format!("[a]\nsize=1m\ninclude {name}\n");
            let file = JobFile::read("job.fio", &text, &host(), &mut |path| {
                requested.push(path.to_owned());
                Ok(String::new())
            });
            assert_eq!(requested, [""; 0], "{name}");
            assert_eq!(file.faults[0].line, 3, "{name}");
        }
        // Nor from an included one.
        let nested = [("sub/x", "include ../../etc/shadow\n")];
        let [(3, message)] = &faults("[a]\nsize=1m\ninclude sub/x\n", &nested)[..] else { panic!() };
        assert!(message.contains("and no others (sub/x, line 1)"), "{message}");
    }

    #[test]
    fn errors_name_the_including_line_and_the_included_one() {
        let job = "[a]\nsize=1m\ninclude x\n";
        for (text, message) in [
            ("bs=4k\n\nnosuch=1\n", "fio 3.33 has no key `nosuch` for files (x, line 3)"),
            ("[b]\n", "an included file has no sections (x, line 1)"),
            ("include y\n", "there is no file y (x, line 1)"),
        ] {
            assert_eq!(faults(job, &[("x", text)]), [(3, message.to_owned())]);
        }
        let mut files = |_: &str| Ok("# x\nexec_prerun=ls\nverify=md5\n".to_owned());
        let result = inspect("job.fio", job, &host(), &mut files);
        assert_eq!(result.faults[0].message, "`exec_prerun` is refused: it runs a command (x, line 2)");
        let key = &result.sections[0].keys[1];
        assert_eq!((key.line, key.fate, key.why.len()), (Some(3), Fate::Refused, 1));
        // A note names the key, as the line has several.
        let mut files = |_: &str| Ok("bs=8k\nrandseed=7\n".to_owned());
        let result = inspect("job.fio", job, &host(), &mut files);
        let key = &result.sections[0].keys[1];
        assert_eq!((key.written.as_str(), key.fate), ("include x", Fate::Note));
        assert!(key.why[0].starts_with("`randseed`: "), "{key:?}");
        assert_eq!(faults(job, &[]), [(3, "there is no file x".to_owned())]);
        assert_eq!(
            faults("include x\n[a]\nsize=1m\n", &[]),
            [(1, "the key is outside of any section".to_owned())]
        );
        let shown = read(job, &[("x", "bs=4k\n\nnosuch=1\n")]).refusal().unwrap();
        assert_eq!(shown.source_code.name(), "x");
        assert_eq!(shown.source_code.inner().lines().nth(2), Some("nosuch=1"));
    }

    #[test]
    fn includes_are_limited_in_depth_and_size() {
        for text in ["include x\n", "include x\ninclude x\n", &"include x\n".repeat(1000)] {
            let result = faults("[a]\nsize=1m\ninclude x\n", &[("x", text)]);
            assert!(result[0].1.contains("64 included files, or 8 in each other"), "{result:?}");
        }
        let large = "#".repeat(4000) + "\n";
        let result = faults("[a]\ninclude x\n", &[("x", &large.repeat(300))]);
        assert!(result[0].1.contains("1048576 bytes"), "{result:?}");
        for long in ["#".repeat(5000), " ".repeat(5000) + "\nbs=4k\n"] {
            let result = faults("[a]\ninclude x\n", &[("x", &long)]);
            assert!(result[0].1.contains("longer than"), "{result:?}");
        }
    }

    proptest! {
        #[test]
        fn any_files_are_read_or_refused(
            text in "(\\[[a-z]{1,4}\\]\n|include [a-z./]{0,4}\n|bs=[0-9k]{1,3}\n|.{0,5}\n){0,8}",
            other in "(\\[[a-z]{1,4}\\]\n|include [ab/.]{0,3}\n|bs=[0-9k]{1,3}\n|.{0,5}\n){0,4}",
        ) {
            let mut requested = Vec::new();
            let file = JobFile::read("any.fio", &text, &host(), &mut |path| {
                requested.push(path.to_owned());
                Ok(other.clone())
            });
            prop_assert!(requested.len() <= MAX_INCLUDED);
            prop_assert!(requested.iter().all(|path| !path.starts_with('/') && path.split('/').all(|part| part != "..")));
            let _ = file.refusal();
        }
    }
}
