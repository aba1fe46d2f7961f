//! The commands that reach places: the one thing that a user may have started outside a sandbox.
//!
//! A [`Reach`] is parsed from words of the command line, and from nothing else: neither a file, nor a store, nor
//! another host can supply one. It has no `Deserialize`.

use super::{PlaceSpec, boot::Boot};
use crate::{error::ExpectedError, plan::Plan};
use fstrial_model::{
    place::{Clock, name_problem},
    problem::did_you_mean,
};
use std::{fmt, str::FromStr};

/// The most words of a command.
const MAX_WORDS: usize = 64;
const EXAMPLE: &str = "node='ssh -o BatchMode=yes node fstrial agent'";

/// The way to a place: a command that runs `fstrial agent` there, with its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    place: String,
    program: String,
    words: Vec<String>,
    /// The clock of the guest that it boots first, which sends nothing before it is up; none: it boots nothing.
    pub(super) boots: Option<Clock>,
}

impl Reach {
    /// The name of the place.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The guest of a kernel of a home: this very program boots it.
    pub fn guest(place: &str, kernel: &str, home: &std::path::Path, boot: &Boot) -> std::io::Result<Self> {
        let program = std::env::current_exe()?.display().to_string();
        let home = format!("--home={}", home.display());
        let how = serde_json::to_string(boot).expect("plain data");
        let words = ["kernels", &home, "boot", kernel, &how].map(str::to_owned).to_vec();
        Ok(Self { place: place.to_owned(), program, words, boots: Some(boot.clock) })
    }

    /// True if it boots a guest in virtual time.
    pub(super) fn is_virtual(&self) -> bool {
        self.boots == Some(Clock::Virtual)
    }

    /// The program that is started.
    pub(super) fn program(&self) -> &str {
        &self.program
    }

    pub(super) fn words(&self) -> &[String] {
        &self.words
    }

    /// One whose words have spaces.
    #[cfg(test)]
    pub(super) fn of(place: &str, program: &str, words: &[&str]) -> Self {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Self { place: place.to_owned(), program: program.to_owned(), words, boots: None }
    }
}

impl FromStr for Reach {
    type Err = String;

    /// `NAME=COMMAND`, the command split at spaces.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |problem: &str| format!("{problem}; write for example {EXAMPLE}");
        let (place, command) = text.split_once('=').ok_or_else(|| wrong("there is no ="))?;
        if let Some(problem) = name_problem(place) {
            return Err(wrong(&problem));
        }
        if command.contains(['\'', '"', '\\']) {
            return Err(wrong(
                "the command is split at spaces, and quotes and backslashes mean nothing in it: put it into a script",
            ));
        }
        let mut words = command.split_whitespace().map(str::to_owned);
        let program = words.next().ok_or_else(|| wrong("there is no command"))?;
        let words: Vec<String> = words.collect();
        if words.len() >= MAX_WORDS {
            return Err(wrong(&format!("a command has at most {MAX_WORDS} words")));
        }
        Ok(Self { place: place.to_owned(), program, words, boots: None })
    }
}

impl fmt::Display for Reach {
    /// The command.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.program, self.words.join(" "))
    }
}

/// The command of a place, if it has one.
pub fn find<'a>(all: &'a [Reach], place: &str) -> Option<&'a Reach> {
    all.iter().find(|reach| reach.place == place)
}

/// The command of a place.
///
/// # Errors
/// There is none.
pub fn of<'a>(all: &'a [Reach], place: &str) -> Result<&'a Reach, ExpectedError> {
    find(all, place).ok_or_else(|| {
        ExpectedError::usage(
            format!("the place `{place}` has no command"),
            format!(
                "pass one: --place {place}='ssh -o BatchMode=yes HOST fstrial agent'; a trial only names places"
            ),
        )
    })
}

/// Refuses a place that is needed and has no command, and commands that belong to no place, or to one that has another.
///
/// # Errors
/// The first one.
pub fn check(all: &[Reach], plan: &Plan) -> Result<(), ExpectedError> {
    let places = &plan.trial.places;
    known_and_single(all, places)?;
    let is_needed = |spec: &&PlaceSpec| !spec.is_here() && plan.places.contains(&Some(spec.name.clone()));
    places.iter().filter(is_needed).try_for_each(|spec| of(all, &spec.name).map(drop))
}

/// Refuses commands that belong to no place on another host, or to one that has another.
///
/// # Errors
/// The first one.
pub fn known_and_single(all: &[Reach], places: &[PlaceSpec]) -> Result<(), ExpectedError> {
    for (index, Reach { place, .. }) in all.iter().enumerate().filter(|(_, reach)| reach.boots.is_none()) {
        let elsewhere = places.iter().filter(|spec| spec.takes_command()).map(|spec| spec.name.as_str());
        if !elsewhere.clone().any(|name| name == place) {
            if let Some(spec) = places.iter().find(|spec| spec.name == *place) {
                let (is, hint) = match &spec.kernel {
                    Some(kernel) => (
                        format!("a guest under the kernel {kernel}, which fstrial boots"),
                        "leave its --place out, or give the place another name",
                    ),
                    None => (
                        "a device of this host".to_owned(),
                        "give it agent = true in the trial file, or leave its --place out",
                    ),
                };
                return Err(ExpectedError::usage(format!("the place `{place}` is {is}"), hint));
            }
            let hint = did_you_mean(place, elsewhere)
                .unwrap_or_else(|| "leave its --place out; the trial has no place on another host".into());
            return Err(ExpectedError::usage(format!("there is no place `{place}`"), hint));
        }
        if all[..index].iter().any(|other| other.place == *place) {
            let message = format!("the place `{place}` has two commands");
            return Err(ExpectedError::usage(message, "leave one --place out"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_command_split_at_spaces() {
        let reach: Reach = "node=ssh  -p 22 node fstrial agent".parse().unwrap();
        assert_eq!(reach, Reach::of("node", "ssh", &["-p", "22", "node", "fstrial", "agent"]));
        for (text, problem) in [("node", "there is no ="), ("a b=ssh", "letters"), ("node= ", "no command")] {
            let error = text.parse::<Reach>().unwrap_err();
            assert!(error.contains(problem) && error.contains("for example"), "{error}");
        }
    }

    #[test]
    fn place_commands_must_match_remote_places() {
        let node: Reach = "node=ssh node fstrial agent".parse().unwrap();
        let places = [PlaceSpec::elsewhere("node"), PlaceSpec::elsewhere("other")];
        let commands = [node.clone()];
        assert!(known_and_single(&commands, &places).is_ok());
        assert_eq!(of(&commands, "node").unwrap(), &node);
        let missing = of(&commands, "other").unwrap_err();
        assert!(missing.hint().unwrap().contains("--place other='ssh"), "{missing}");
        let guest =
            known_and_single(&["6.1=ssh host".parse().unwrap()], &[PlaceSpec::guest("6.1")]).unwrap_err();
        assert!(guest.to_string().contains("is a guest under the kernel 6.1"), "{guest}");
        let unknown = known_and_single(&["nod=ssh".parse().unwrap()], &places).unwrap_err();
        assert!(unknown.hint().unwrap().contains("did you mean `node`?"), "{unknown}");
        assert!(
            known_and_single(&[node.clone(), node], &places)
                .unwrap_err()
                .to_string()
                .contains("two commands")
        );
    }
}
