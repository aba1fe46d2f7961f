//! The documentation of the command line is true: every command in README.md, in `docs/` and in the examples of the
//! help is parsed by the definition of the command line, and the manual pages are sound.
//!
//! Nothing is run. Commands are those of code blocks: each line of `sh`, and lines after a prompt (`$ `) of others. A
//! command in which a word is `…` is not whole: such are counted and left out.

use crate::support::{self, Lab, names_in};
use clap::{Command, CommandFactory, Parser};
use fstrial::cli::Cli;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Words that may precede a command on its line.
const BEFORE: [&str; 7] = ["sudo", "ssh", "time", "do", "then", "if", "!"];
/// Words that end a command on its line.
const SEPARATORS: [&str; 5] = ["|", "||", "&&", ";", "&"];

/// A command and its place in the documentation.
#[derive(Debug)]
struct Written {
    place: String,
    words: Vec<String>,
}

impl Written {
    /// Whether part of it is omitted.
    fn is_partial(&self) -> bool {
        self.words.iter().any(|word| word == "…")
    }

    /// Why the definition refuses it.
    fn problem(&self) -> Option<String> {
        let error = Cli::try_parse_from(&self.words).err().filter(clap::Error::use_stderr)?;
        Some(format!("{}: {}\n{error}", self.place, self.words.join(" ")))
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README.md and every page below `docs/`.
fn pages() -> Vec<PathBuf> {
    let (mut pages, mut folders) = (vec![root().join("README.md")], vec![root().join("docs")]);
    while let Some(folder) = folders.pop() {
        for path in names_in(&folder).into_iter().map(|name| folder.join(name)) {
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|end| end == "md") => pages.push(path),
                false => {}
            }
        }
    }
    pages
}

/// The lines of a page's code blocks that a shell would read, with their numbers; a line ending with `\` continues on
/// the next.
fn shell_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let (mut block, mut goes_on) = (None, false);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(language) = line.strip_prefix("```") {
            block = if block.is_some() { None } else { Some(language.to_owned()) };
            goes_on = false;
            continue;
        }
        let shown = match (&block, line.strip_prefix("$ ")) {
            (None, _) => continue,
            (Some(_), Some(typed)) => typed,
            (Some(language), None) if language == "sh" || goes_on => line,
            (Some(_), None) => continue,
        };
        let (shown, continued) = match shown.strip_suffix('\\') {
            Some(shown) => (shown, true),
            None => (shown, false),
        };
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, whole)) => whole.push_str(shown),
            None => lines.push((number + 1, shown.to_owned())),
        }
        goes_on = continued;
    }
    lines
}

/// The commands of this program on a shell line, without redirections.
fn commands(line: &str) -> Vec<Vec<String>> {
    let words = shlex::split(line).unwrap_or_else(|| panic!("no shell reads: {line}"));
    let parts = words.split(|word| SEPARATORS.contains(&word.as_str()));
    parts.filter_map(command_of).collect()
}

fn command_of(part: &[String]) -> Option<Vec<String>> {
    let at = part.iter().position(|word| word == "fstrial")?;
    let is_before = |word: &String| BEFORE.contains(&word.as_str()) || word.contains('=');
    let builds_it = part[..at].iter().any(|word| word == "cargo");
    if builds_it || !part.first().is_some_and(|first| at == 0 || is_before(first)) {
        return None;
    }
    let is_redirection = |word: &String| word.trim_start_matches(['1', '2']).starts_with(['>', '<']);
    let words: Vec<String> = part[at..].iter().take_while(|word| !is_redirection(word)).cloned().collect();
    (words.len() > 1).then_some(words)
}

/// The problems of commands in a page's prose (`fstrial …`): often a part of one, of which every option must be there.
fn problems_of_prose(text: &str, place: &str, program: &Command) -> Vec<String> {
    let mut is_block = false;
    let mut prose = String::new();
    for line in text.lines() {
        let is_fence = line.trim().starts_with("```");
        if !is_fence && !is_block {
            prose.push_str(line);
            prose.push('\n');
        }
        is_block ^= is_fence;
    }
    let spans = prose.split('`').skip(1).step_by(2);
    let problems = spans.filter_map(|span| unknown(span.strip_prefix("fstrial ")?, program));
    problems.map(|problem| format!("{place}: {problem}")).collect()
}

/// The unknown part of a command in prose: the command, or one of its options.
fn unknown(span: &str, program: &Command) -> Option<String> {
    let (mut command, mut has_arguments) = (program, false);
    for word in span.split_whitespace() {
        if let Some(option) = word.strip_prefix("--") {
            let name =
                option.split(|c: char| !(c.is_ascii_lowercase() || c == '-')).next().unwrap_or_default();
            let is_general = ["help", "version"].contains(&name);
            if !is_general && !command.get_arguments().any(|arg| arg.get_long() == Some(name)) {
                return Some(format!("`fstrial {span}`: no --{name}"));
            }
            has_arguments = true;
        } else if let Some(below) = command.find_subcommand(word).filter(|_| !has_arguments) {
            command = below;
        } else if std::ptr::eq(command, program) && word.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Some(format!("`fstrial {span}`: no command {word}"));
        } else {
            has_arguments = true;
        }
    }
    None
}

/// The commands of all pages.
fn documented() -> Vec<Written> {
    let mut result = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let name = page.strip_prefix(root()).unwrap().display().to_string();
        for (number, line) in shell_lines(&text) {
            let place = format!("{name}:{number}");
            result.extend(commands(&line).into_iter().map(|words| Written { place: place.clone(), words }));
        }
    }
    result
}

/// The example lines in the help of a command and of its subcommands. The explanation of a line follows after two
/// spaces.
fn in_help(command: &Command, result: &mut Vec<Written>) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let examples = help.split_once("Examples:\n").map_or("", |(_, examples)| examples);
    for line in examples.lines().map_while(|line| line.strip_prefix("  ")) {
        let line = line.split("   ").next().unwrap_or(line);
        let place = format!("{name} --help");
        result.extend(commands(line).into_iter().map(|words| Written { place: place.clone(), words }));
    }
    command
        .get_subcommands()
        .filter(|below| below.get_name() != "help")
        .for_each(|below| in_help(below, result));
}

fn assert_read(all: &[Written]) {
    let problems: Vec<String> =
        all.iter().filter(|one| !one.is_partial()).filter_map(Written::problem).collect();
    assert!(problems.is_empty(), "{} of {} are refused:\n{}", problems.len(), all.len(), problems.join("\n"));
}

#[test]
fn every_documented_command_is_read() {
    let all = documented();
    let partial = all.iter().filter(|one| one.is_partial()).count();
    assert!(all.len() > 60, "the pages have more commands than {}", all.len());
    assert!(partial * 10 < all.len(), "{partial} of {} commands have `…` in the place of a word", all.len());
    assert_read(&all);
}

#[test]
fn every_command_in_prose_is_known() {
    let mut program = Cli::command();
    program.build();
    let all: Vec<String> = pages()
        .iter()
        .flat_map(|page| {
            problems_of_prose(&fs::read_to_string(page).unwrap(), &page.display().to_string(), &program)
        })
        .collect();
    assert!(all.is_empty(), "{all:#?}");
    let stale = "`fstrial compare --bugdet`, `fstrial compair`, `fstrial results list\n--tag x`, `fstrial COMMAND --help`";
    let result = problems_of_prose(stale, "page", &program);
    assert_eq!(
        result,
        ["page: `fstrial compare --bugdet`: no --bugdet", "page: `fstrial compair`: no command compair"]
    );
}

/// Commands in blocks of output would be left out without a word.
#[test]
fn commands_are_in_blocks_of_a_shell() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let mut block = None;
        for (number, line) in text.lines().enumerate() {
            if let Some(language) = line.trim().strip_prefix("```") {
                block = if block.is_some() { None } else { Some(language) };
                continue;
            }
            // The processes of a trial are a tree in which commands are explained.
            let is_tree = page.ends_with("docs/architecture.md");
            let is_command =
                !is_tree && ["fstrial ", "sudo fstrial "].iter().any(|start| line.starts_with(start));
            let is_read = block.is_none_or(|language| language == "sh");
            let place = format!("{}:{}", page.display(), number + 1);
            assert!(!is_command || is_read, "{place}: write ```sh above it, or `$ ` before it: {line}");
        }
    }
}

#[test]
fn every_example_of_the_help_is_read() {
    let mut program = Cli::command();
    program.build();
    let mut all = Vec::new();
    in_help(&program, &mut all);
    assert!(all.len() > 60, "the help has more examples than {}", all.len());
    assert!(!all.iter().any(Written::is_partial), "examples are whole");
    assert_read(&all);
}

#[test]
fn a_stale_command_is_found() {
    let text = "fstrial compare in prose\n```sh\nsudo fstrial compare ext4 xfs \\\n  --bugdet 1m > out # what it costs\n\
                fstrial doctor | head\n```\n```text\nfstrial 0.1.0\n$ fstrial nosuch …\n```\n";
    let lines = shell_lines(text);
    assert_eq!(lines.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [3, 5, 9]);
    let all: Vec<Written> = lines
        .iter()
        .flat_map(|(_, line)| commands(line))
        .map(|words| Written { place: String::new(), words })
        .collect();
    assert_eq!(all.iter().map(|one| one.problem().is_some()).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(all[0].words, ["fstrial", "compare", "ext4", "xfs", "--bugdet", "1m"]);
    assert!(all[2].is_partial() && !all[0].is_partial());
    assert!(command_of(&["rm".into(), "fstrial".into(), "x".into()]).is_none());
}

#[test]
fn manual_pages_are_sound() {
    let lab = Lab::new();
    assert_eq!(lab.run("generate man man1").code(), 0);
    let folder = lab.path("man1");
    let names = names_in(&folder);
    assert!(names.len() > 30, "{names:?}");
    let name = "docs::manual_pages_are_sound";
    if support::command("man").arg("--version").output().is_err() {
        return support::skip(name, "man is not installed");
    }
    for page in &names {
        let path = folder.join(page);
        // As Debian checks pages: every warning of groff, in a locale that has all characters.
        let mut man = support::command("man");
        man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]).arg(&path);
        man.env("LC_ALL", "C.UTF-8").env("MANROFFSEQ", "").env("MANWIDTH", "80");
        let shown = man.output().unwrap();
        let warnings = String::from_utf8_lossy(&shown.stderr);
        assert!(shown.status.success() && warnings.is_empty(), "{page}: {warnings}");
        assert!(!shown.stdout.is_empty(), "{page} shows nothing");
    }
}
