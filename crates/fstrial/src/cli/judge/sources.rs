//! The named files and their arms, and their reading: each by its own reader into one table.

use super::{JudgeArgs, builder::Builder, csv_table, format::Format, go_bench, json, tools};
use crate::cli::in_file;
use fstrial_run::{elsewhere::Table, error::ExpectedError};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Most files.
const MAX_FILES: usize = 4096;

/// The files of an arm.
#[derive(Debug, PartialEq)]
pub(super) struct NamedInput {
    pub(super) arm: String,
    pub(super) files: Vec<PathBuf>,
}

/// The operands' input.
#[derive(Debug, PartialEq)]
pub(super) enum Sources {
    /// A file that names its arms itself.
    Whole(PathBuf),
    /// Files for each arm.
    Sides(Vec<NamedInput>),
}

/// The content of the files.
pub(super) struct Read {
    pub(super) table: Table,
    pub(super) format: Format,
    /// The files, as text.
    pub(super) files: String,
    pub(super) notes: Vec<String>,
}

impl Sources {
    /// `NAME=FILE[,FILE…]` is an arm; a file alone names its arms, and of several each is an arm of that name.
    pub(super) fn of(operands: &[OsString]) -> Result<Self, ExpectedError> {
        if let [only] = operands
            && named(only).is_none()
        {
            return Ok(Self::Whole(only.into()));
        }
        let mut sides: Vec<NamedInput> = Vec::new();
        for operand in operands {
            let side = named(operand).unwrap_or_else(|| unnamed(operand));
            if side.arm.is_empty() || side.files.iter().any(|file| file.as_os_str().is_empty()) {
                return Err(ExpectedError::usage(
                    format!("`{}` lacks a name or a file", operand.display()),
                    "write NAME=FILE, or NAME=FILE,FILE for several runs",
                ));
            }
            match sides.iter_mut().find(|known| known.arm == side.arm) {
                Some(known) if named(operand).is_some() => known.files.extend(side.files),
                Some(_) => {
                    return Err(ExpectedError::usage(
                        format!("two files are called `{}`", side.arm),
                        "name the arms: old=FILE new=FILE",
                    ));
                }
                None => sides.push(side),
            }
        }
        let files: usize = sides.iter().map(|side| side.files.len()).sum();
        if files > MAX_FILES {
            return Err(ExpectedError::usage(
                format!("{files} files are more than the {MAX_FILES} that are read"),
                "put the numbers into one CSV file with the columns arm and value",
            ));
        }
        Ok(Self::Sides(sides))
    }
}

/// `NAME=FILE,…`, unless there is a file of that name.
fn named(operand: &OsString) -> Option<NamedInput> {
    let (arm, files) = operand.to_str()?.split_once('=')?;
    if arm.contains('/') || Path::new(operand).exists() {
        return None;
    }
    Some(NamedInput { arm: arm.to_owned(), files: files.split(',').map(PathBuf::from).collect() })
}

fn unnamed(operand: &OsString) -> NamedInput {
    let path = PathBuf::from(operand);
    let arm = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    NamedInput { arm, files: vec![path] }
}

/// Reads everything.
pub(super) fn read(sources: &Sources, args: &JudgeArgs) -> Result<Read, ExpectedError> {
    let (table, format, files) = match sources {
        Sources::Whole(path) => {
            let (text, files) = (in_file::figures(path)?, shown(path));
            let format = args.format.unwrap_or_else(|| Format::of(&text));
            let mut builder = Builder::new(args, format);
            read_whole(&mut builder, &text, &files, format)?;
            (builder.finish(&files)?, format, files)
        }
        Sources::Sides(sides) => {
            let first = in_file::figures(&sides[0].files[0])?;
            let format = args.format.unwrap_or_else(|| Format::of(&first));
            let mut builder = Builder::new(args, format);
            read_sides(&mut builder, sides, first, args.format.is_some(), format)?;
            let files = in_words(sides);
            (builder.finish(&files)?, format, files)
        }
    };
    check_direction(args, format, &files)?;
    let (table, notes) = table;
    Ok(Read { table, format, files, notes })
}

fn shown(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".into() } else { path.display().to_string() }
}

/// `old=a.txt, new=b.txt`, or how many there are.
fn in_words(sides: &[NamedInput]) -> String {
    let side = |side: &NamedInput| match side.files.as_slice() {
        [only] => format!("{}={}", side.arm, shown(only)),
        several => format!("{}={} files", side.arm, several.len()),
    };
    sides.iter().map(side).collect::<Vec<_>>().join(", ")
}

/// A file that holds all arms.
fn read_whole(
    builder: &mut Builder<'_>,
    text: &str,
    name: &str,
    format: Format,
) -> Result<(), ExpectedError> {
    match format {
        Format::Csv => csv_table::read(builder, text, name),
        Format::Hyperfine => json::hyperfine(builder, text, name, None),
        Format::Go => go_bench::read(builder, text, name, None),
        Format::Pgbench | Format::Sysbench | Format::Fio => Err(ExpectedError::usage(
            format!("{name} looks like {}, which is one side of a comparison", format.words()),
            format!(
                "name both sides: fstrial judge old=FILE new=FILE, or NAME=FILE,FILE for several runs{}",
                hint_of(name)
            ),
        )),
    }
}

fn hint_of(name: &str) -> String {
    if name.contains(' ') { String::new() } else { format!(", such as old={name}") }
}

/// Files that hold an arm each.
fn read_sides(
    builder: &mut Builder<'_>,
    sides: &[NamedInput],
    first: String,
    is_told: bool,
    format: Format,
) -> Result<(), ExpectedError> {
    let mut first = Some(first);
    for side in sides {
        for path in &side.files {
            let (text, name) = (first.take().map_or_else(|| in_file::figures(path), Ok)?, shown(path));
            let looks = Format::of(&text);
            if !is_told && looks != format {
                return Err(ExpectedError::usage(
                    format!(
                        "{name} looks like {}, and the file before it looks like {}",
                        looks.words(),
                        format.words()
                    ),
                    "judge files of one kind, or set the kind with --format",
                ));
            }
            builder.name_arm(&side.arm, &name)?;
            match format {
                Format::Csv => {
                    return Err(ExpectedError::usage(
                        format!("{name} looks like CSV, which names its arms itself"),
                        "put all arms into one file, with a column arm: fstrial judge FILE",
                    ));
                }
                Format::Hyperfine => json::hyperfine(builder, &text, &name, Some(&side.arm))?,
                Format::Go => go_bench::read(builder, &text, &name, Some(&side.arm))?,
                Format::Pgbench => tools::pgbench(builder, &text, &name, &side.arm)?,
                Format::Sysbench => tools::sysbench(builder, &text, &name, &side.arm)?,
                Format::Fio => json::fio(builder, &text, &name, &side.arm)?,
            }
        }
    }
    Ok(())
}

/// Other programs' numbers have their directions.
fn check_direction(args: &JudgeArgs, format: Format, files: &str) -> Result<(), ExpectedError> {
    if !args.less_is_better || format == Format::Csv {
        return Ok(());
    }
    Err(ExpectedError::usage(
        format!("--less-is-better: {files}: {} already defines the direction", format.words()),
        "leave it out",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(words: &str) -> Result<Sources, String> {
        let operands: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        Sources::of(&operands).map_err(|error| error.to_string())
    }

    fn side(arm: &str, files: &[&str]) -> NamedInput {
        NamedInput { arm: arm.into(), files: files.iter().map(PathBuf::from).collect() }
    }

    #[test]
    fn operands_parse_as_arms_or_whole_files() {
        assert_eq!(sources("pairs.csv"), Ok(Sources::Whole("pairs.csv".into())));
        assert_eq!(sources("runs/a=b.csv"), Ok(Sources::Whole("runs/a=b.csv".into())));
        let sides = [side("ext4", &["a1", "a2", "a3"]), side("xfs", &["b1"])];
        assert_eq!(sources("ext4=a1,a2 xfs=b1 ext4=a3"), Ok(Sources::Sides(sides.into())));
        let sides = [side("old", &["x/old.txt"]), side("new", &["x/new.txt"])];
        assert_eq!(sources("x/old.txt x/new.txt"), Ok(Sources::Sides(sides.into())));
        for (words, part) in [
            ("a/x.txt b/x.txt", "two files are called `x`"),
            ("=a b=c", "`=a` lacks"),
            ("a=b, c=d", "lacks a name or a file"),
        ] {
            assert!(sources(words).unwrap_err().contains(part), "{words}");
        }
    }
}
