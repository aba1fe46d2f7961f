//! Options removed from kernels and tools, and their replacements: rules, as data (`claims/eras.toml`).

use crate::{
    arm::{Arm, CacheMode},
    problem::{TrialError, read_toml},
    trial::Trial,
};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The rules that ship.
const SHIPPED: &str = include_str!("../../../../claims/eras.toml");
/// Size limit of a file of rules, in bytes.
const MAX_FILE_BYTES: usize = 1 << 16;

/// Version of a kernel: the first three numbers, the last of which may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version(pub u32, pub u32, pub u32);

impl FromStr for Version {
    type Err = String;

    /// Reads `6.18`, and the release of a kernel such as `6.18.44-amd64`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => {
                Ok(Self(major, minor, numbers.next().and_then(Result::ok).unwrap_or(0)))
            }
            _ => Err(format!("`{text}` is not a version of a kernel; write 5.0")),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)?;
        if self.2 > 0 { write!(f, ".{}", self.2) } else { Ok(()) }
    }
}

strings_in_files!(Version);

/// The rules of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// In the order in which they are tried.
    #[serde(rename = "rule")]
    rules: Vec<Rule>,
}

/// A removed feature: exactly one of `scheduler`, `mount`, `mkfs` and `filesystem`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Rule {
    scheduler: Option<String>,
    mount: Option<String>,
    mkfs: Option<Vec<String>>,
    filesystem: Option<String>,
    /// For options: their filesystem; default: all.
    on: Option<String>,
    /// The first kernel without it.
    gone: Option<Version>,
    /// The replacement; default: none.
    instead: Option<Instead>,
    /// The reason, as text.
    why: String,
    /// The requirement of a check without a replacement.
    needs: Option<String>,
}

/// The replacement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Instead {
    scheduler: Option<String>,
    cache: Option<CacheMode>,
    mount: Vec<String>,
    mkfs: Vec<String>,
}

impl fmt::Display for Instead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cache = self.cache.map(|mode| format!("cache={}", mode.name()));
        let words = |words: &[String]| (!words.is_empty()).then(|| words.join(" "));
        let parts = [self.scheduler.clone(), cache, words(&self.mount), words(&self.mkfs)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { f.write_str("left out") } else { f.write_str(&parts.join(", ")) }
    }
}

impl Rules {
    /// The rules that ship.
    ///
    /// # Panics
    /// Never: a test reads them.
    pub fn shipped() -> Self {
        Self::parse("eras.toml", SHIPPED).expect("a test reads the rules that ship")
    }

    /// Reads rules.
    ///
    /// # Errors
    /// The place of the problem.
    pub fn parse(name: &str, text: &str) -> Result<Self, Box<TrialError>> {
        read_toml(name, text, MAX_FILE_BYTES)
    }

    /// Puts the replacements into the arms of a trial; returns them.
    ///
    /// # Errors
    /// The removed feature without a replacement, and the requirement of a check.
    pub fn apply(&self, trial: &mut Trial, kernel: Version) -> Result<Vec<String>, String> {
        // The replacements, each with its arms.
        let mut replaced: Vec<(Vec<String>, String)> = Vec::new();
        for arm in &mut trial.arms {
            let name = arm.name.clone();
            for rule in self.rules.iter().filter(|rule| rule.gone.is_none_or(|gone| kernel >= gone)) {
                if !rule.is_in(arm) {
                    continue;
                }
                let when =
                    |word: &str| rule.gone.map_or_else(String::new, |gone| format!(" {word} Linux {gone}"));
                let what = rule.what();
                let Some(instead) = &rule.instead else {
                    let needs = rule.needs.as_deref().unwrap_or("an older kernel");
                    return Err(format!("{what} was removed{}: the check needs {needs}", when("in")));
                };
                rule.replace(arm, instead);
                let other =
                    if rule.filesystem.is_some() { "another driver".into() } else { instead.to_string() };
                let replacement = format!("{what}: {other}{} ({})", when("since"), rule.why);
                match replaced.iter_mut().find(|(_, known)| *known == replacement) {
                    Some((arms, _)) => arms.push(name.clone()),
                    None => replaced.push((vec![name.clone()], replacement)),
                }
            }
        }
        let line = |(arms, by): (Vec<String>, String)| format!("{}: {by}", arms.join(", "));
        Ok(replaced.into_iter().map(line).collect())
    }
}

impl Rule {
    fn what(&self) -> String {
        let on = self.on.as_ref().map_or_else(String::new, |on| format!(" of {on}"));
        match (&self.scheduler, &self.mount, &self.mkfs, &self.filesystem) {
            (Some(scheduler), ..) => format!("the scheduler {scheduler}"),
            (_, Some(mount), ..) => format!("the mount option {mount}{on}"),
            (_, _, Some(mkfs), _) => format!("the mkfs option {}{on}", mkfs.join(" ")),
            (.., filesystem) => filesystem.clone().unwrap_or_default(),
        }
    }

    fn is_in(&self, arm: &Arm) -> bool {
        if self.on.as_ref().is_some_and(|on| *on != arm.filesystem) {
            return false;
        }
        match (&self.scheduler, &self.mount, &self.mkfs, &self.filesystem) {
            (Some(scheduler), ..) => arm.scheduler.as_ref() == Some(scheduler),
            (_, Some(mount), ..) => arm.mount.contains(mount),
            (_, _, Some(mkfs), _) => place_of(&arm.mkfs, mkfs).is_some(),
            (.., filesystem) => filesystem.as_ref() == Some(&arm.filesystem),
        }
    }

    fn replace(&self, arm: &mut Arm, instead: &Instead) {
        if self.scheduler.is_some() {
            arm.scheduler = None;
        }
        if let Some(gone) = &self.mount {
            arm.mount.retain(|option| option != gone);
        }
        if let Some(gone) = &self.mkfs
            && let Some(at) = place_of(&arm.mkfs, gone)
        {
            arm.mkfs.drain(at..at + gone.len());
        }
        arm.scheduler = instead.scheduler.clone().or(arm.scheduler.take());
        arm.cache = instead.cache.or(arm.cache);
        arm.mount.extend(instead.mount.iter().cloned());
        arm.mkfs.extend(instead.mkfs.iter().cloned());
    }
}

/// Position of a sequence of words in another.
fn place_of(words: &[String], wanted: &[String]) -> Option<usize> {
    words.windows(wanted.len().max(1)).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(arms: &[Arm]) -> Trial {
        Trial { arms: arms.to_vec(), ..Trial::default() }
    }

    fn arm(text: &str, scheduler: &str, mount: &[&str], mkfs: &[&str]) -> Arm {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
        let scheduler = Some(scheduler.to_owned()).filter(|name| !name.is_empty());
        Arm { scheduler, mount: words(mount), mkfs: words(mkfs), ..text.parse().unwrap() }
    }

    #[test]
    fn removed_features_are_replaced_and_reported() {
        let rules = Rules::shipped();
        let tuned =
            arm("xfs", "deadline", &["nobarrier", "noatime"], &["-l", "lazy-count=1", "-d", "agcount=4"]);
        let mut now = trial(&[arm("xfs", "cfq", &[], &[]), tuned.clone()]);
        let message = rules.apply(&mut now, Version(6, 18, 0)).unwrap();
        assert_eq!(now.arms[0].scheduler.as_deref(), Some("bfq"));
        assert_eq!(now.arms[1].scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!(now.arms[1].cache, Some(CacheMode::WriteThrough), "{message:?}");
        assert_eq!(
            (now.arms[1].mount.as_slice(), now.arms[1].mkfs.join(" ").as_str()),
            (&["noatime".to_owned()][..], "-d agcount=4")
        );
        assert_eq!(message.len(), 4, "{message:?}");
        assert!(message[0].contains("cfq: bfq since Linux 5.0"), "{message:?}");
        // A kernel of then had them.
        let mut then = trial(std::slice::from_ref(&tuned));
        rules.apply(&mut then, Version(3, 2, 0)).unwrap();
        assert_eq!(
            (then.arms[0].scheduler.as_deref(), &then.arms[0].mount),
            (Some("deadline"), &tuned.mount)
        );
    }

    #[test]
    fn removed_feature_without_replacement_is_reported() {
        let mut now = trial(&[arm("reiserfs", "", &[], &[])]);
        let missing = Rules::shipped().apply(&mut now, Version(6, 18, 0)).unwrap_err();
        assert!(missing.contains("6.13") && missing.contains("the check needs"), "{missing}");
        assert_eq!(Rules::shipped().apply(&mut now, Version(6, 1, 0)).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn versions_are_read_from_releases() {
        assert_eq!("6.18.44-fc-v595".parse(), Ok(Version(6, 18, 44)));
        assert_eq!("2.6.30".parse::<Version>().map(|version| version.to_string()), Ok("2.6.30".into()));
        assert_eq!("5.10".parse(), Ok(Version(5, 10, 0)));
        assert!(Version(5, 9, 0) < Version(5, 10, 0));
        assert!("six".parse::<Version>().is_err() && "6".parse::<Version>().is_err());
    }
}
