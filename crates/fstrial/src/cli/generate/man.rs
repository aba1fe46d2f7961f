//! Manual pages: one for every command that is shown, made of the one definition of the command line.

use clap::Command;
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

/// A manual page.
pub(super) struct Page {
    /// Name of its file, without `.1`.
    pub(super) name: String,
    pub(super) text: Vec<u8>,
}

/// The pages of a program: its own first, then those of its commands and of theirs.
pub(super) fn pages(program: Command) -> Vec<Page> {
    let mut program = in_full(program.disable_help_subcommand(true));
    program.build();
    let mut pages = Vec::new();
    add(&program, &[], &mut pages);
    pages
}

/// The same commands with every description as a long one: of options that `-h` leaves out, clap_mangen leaves out the
/// description, unless there is a longer one for `--help`.
fn in_full(command: Command) -> Command {
    let command = command.mut_args(|arg| match (arg.get_long_help(), arg.get_help().cloned()) {
        (None, Some(help)) => arg.long_help(help),
        _ => arg,
    });
    command.mut_subcommands(in_full)
}

/// Adds the page of a command and those below it. `above` are the names of the pages over it.
fn add(command: &Command, above: &[&str], pages: &mut Vec<Page>) {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    pages.push(Page { name: name.to_owned(), text: text(command, above) });
    let above: Vec<&str> = above.iter().copied().chain([name]).collect();
    for below in command.get_subcommands().filter(|below| is_shown(below)) {
        add(below, &above, pages);
    }
}

/// True if a command has a page: internal ones have none.
fn is_shown(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

/// A page. clap_mangen writes all but the end: it would run the lines of examples together.
fn text(command: &Command, above: &[&str]) -> Vec<u8> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let source = format!("fstrial {}", command.get_version().unwrap_or_default());
    let page = Man::new(command.clone()).title(name.to_uppercase()).source(source).manual("fstrial");
    let mut out = Vec::new();
    let mut written = page.render_title(&mut out);
    for part in [
        Man::render_name_section,
        Man::render_synopsis_section,
        Man::render_description_section,
        Man::render_options_section,
    ] {
        written = written.and_then(|()| part(&page, &mut out));
    }
    if command.get_subcommands().any(is_shown) {
        written = written.and_then(|()| page.render_subcommands_section(&mut out));
    }
    let mut end = Roff::default();
    if let Some(help) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        sections(&help.to_string(), &mut end);
    }
    see_also(above, &mut end);
    written.and_then(|()| end.to_writer(&mut out)).expect("memory takes everything");
    out
}

/// Text with headings such as `Examples:` as sections. Indented lines stay as they are.
fn sections(text: &str, out: &mut Roff) {
    let mut is_kept = false;
    for line in text.lines() {
        let is_indented = line.starts_with(' ');
        if is_indented != is_kept && !line.is_empty() {
            out.control(if is_indented { "nf" } else { "fi" }, []);
            is_kept = is_indented;
        }
        match line.strip_suffix(':').filter(|_| !is_indented) {
            Some(heading) => drop(out.control("SH", [heading.to_uppercase().as_str()])),
            None if line.is_empty() => drop(out.control("PP", [])),
            None => drop(out.text([roman(line)])),
        }
    }
    if is_kept {
        out.control("fi", []);
    }
}

/// The pages over this one; those below it are among its commands.
fn see_also(above: &[&str], out: &mut Roff) {
    if above.is_empty() {
        return;
    }
    let pages: Vec<String> = above.iter().map(|name| format!("{name}(1)")).collect();
    out.control("SH", ["SEE ALSO"]);
    out.text([roman(pages.join(", "))]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    /// Every command that is shown, from the program down.
    fn commands(command: &Command) -> Vec<&Command> {
        let below = command.get_subcommands().filter(|below| is_shown(below));
        [command].into_iter().chain(below.flat_map(commands)).collect()
    }

    fn built() -> Command {
        let mut program = Cli::command();
        program.build();
        program
    }

    #[test]
    fn every_option_and_argument_is_described() {
        let program = built();
        let mut missing = Vec::new();
        for command in commands(&program) {
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                if arg.get_help().is_none_or(|help| help.to_string().trim().is_empty()) {
                    missing.push(format!("{}: {}", command.get_display_name().unwrap(), arg.get_id()));
                }
            }
        }
        assert!(missing.is_empty(), "these lack help: {missing:#?}");
    }

    #[test]
    fn only_filters_are_under_their_heading() {
        let program = built();
        for command in commands(&program) {
            for other in command
                .get_arguments()
                .filter(|arg| ["json", "limit", "home"].contains(&arg.get_id().as_str()))
            {
                assert_eq!(
                    other.get_help_heading(),
                    None,
                    "{:?} --{}",
                    command.get_bin_name(),
                    other.get_id()
                );
            }
        }
    }

    #[test]
    fn every_command_has_examples_of_itself() {
        let program = built();
        let mut missing = Vec::new();
        for command in commands(&program).into_iter().filter(|command| !command.has_subcommands()) {
            let name = command.get_bin_name().unwrap();
            let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            if !help.contains("Examples:\n") || !help.contains(name) {
                missing.push(name);
            }
        }
        assert!(missing.is_empty(), "these lack `Examples:` with a line that runs them: {missing:#?}");
    }

    #[test]
    fn examples_are_in_the_long_help_only() {
        let program = built();
        for command in commands(&program) {
            assert!(command.get_after_help().is_none(), "{:?} -h is for one screen", command.get_bin_name());
        }
    }

    #[test]
    fn every_page_describes_every_option() {
        for page in pages(Cli::command()) {
            let text = String::from_utf8(page.text).unwrap();
            let (_, options) = text.split_once(".SH OPTIONS").unwrap();
            let options = options.split("\n.SH").next().unwrap();
            for entry in options.split("\n.TP\n").skip(1) {
                let (option, description) = entry.split_once('\n').unwrap_or((entry, ""));
                assert!(!description.trim().is_empty(), "{}: {option} is not described", page.name);
            }
        }
    }

    #[test]
    fn man_page_references_exist() {
        let pages = pages(Cli::command());
        let names: BTreeSet<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        assert!(names.contains("fstrial-results-list") && !names.contains("fstrial-worker"), "{names:?}");
        for page in &pages {
            let text = String::from_utf8(page.text.clone()).unwrap().replace("\\-", "-");
            for (before, _) in text.match_indices("(1)").map(|(at, _)| text.split_at(at)) {
                let named = before.rsplit(|c: char| c.is_whitespace()).next().unwrap();
                assert!(names.contains(named), "{} names {named}(1), which is not made", page.name);
            }
        }
    }

    #[test]
    fn lines_of_examples_stay_lines() {
        let mut roff = Roff::default();
        sections("Examples:\n  fstrial a\n  fstrial b\n\nMore of it.", &mut roff);
        let text = roff.render();
        assert!(
            text.contains(".SH EXAMPLES\n.nf\n  fstrial a\n  fstrial b\n.PP\n.fi\nMore of it."),
            "{text}"
        );
    }
}
