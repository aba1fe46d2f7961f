//! How the free space of an unmounted filesystem is split, by the filesystem's own tool.

use crate::{
    command::{Finished, Program},
    error::StackError,
};
use fstrial_model::{state::FreeSpace, units::Bytes};
use std::path::Path;

/// Looks at the filesystem on a device. What cannot be known says why.
pub fn of(filesystem: &str, device: &Path) -> FreeSpace {
    let node = device.display().to_string();
    let (row, program, arguments) = match filesystem {
        "ext2" | "ext3" | "ext4" => ("ext4", "e2freefrag", vec![node]),
        "xfs" => {
            let commands = ["-r", "-c", "sb 0", "-c", "print blocksize", "-c", "freesp -s"];
            ("xfs", "xfs_db", commands.into_iter().map(str::to_owned).chain([node]).collect())
        }
        other => return FreeSpace::Unknown(format!("{other} has no tool that tells")),
    };
    let parse = if program == "xfs_db" { of_xfs_db } else { of_e2freefrag };
    match Program::new(program).of(row).args(arguments).run() {
        Ok(done) => parse(&done)
            .unwrap_or_else(|| FreeSpace::Unknown(format!("`{}` says something unexpected", done.line))),
        Err(StackError::MissingProgram { .. }) => FreeSpace::Unknown(format!("{program} is not installed")),
        Err(error) => FreeSpace::Unknown(error.to_string()),
    }
}

/// The number behind a word at the beginning of a line, whatever follows it.
fn number(text: &str, word: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.trim().strip_prefix(word))?;
    rest.trim_start_matches([':', '=', ' ']).split_whitespace().next()?.parse().ok()
}

fn bytes(value: f64) -> Option<Bytes> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "range checked")]
    (0.0..9e18).contains(&value).then_some(Bytes(value as u64))
}

/// `Max. free extent: 1020 KB`, `Avg. free extent: 12 KB`, `Num. free extent: 7`.
pub(crate) fn of_e2freefrag(done: &Finished) -> Option<FreeSpace> {
    let text = &done.stdout;
    Some(FreeSpace::Known {
        tool: done.line.clone(),
        extents: bytes(number(text, "Num. free extent")?)?.0,
        mean: bytes(number(text, "Avg. free extent")? * 1024.0)?,
        largest: bytes(number(text, "Max. free extent")? * 1024.0)?,
    })
}

/// A histogram (`from to extents blocks pct`) whose last row begins with the least that the largest extent can have,
/// then `total free extents 4`, `average free extent size 63000`.
pub(crate) fn of_xfs_db(done: &Finished) -> Option<FreeSpace> {
    let text = &done.stdout;
    let block = number(text, "blocksize")?;
    let row = |line: &str| {
        let fields: Vec<f64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        (fields.len() == 5).then(|| fields[0])
    };
    let largest = text.lines().filter_map(row).fold(0.0, f64::max);
    Some(FreeSpace::Known {
        tool: done.line.clone(),
        extents: bytes(number(text, "total free extents")?)?.0,
        mean: bytes(number(text, "average free extent size")? * block)?,
        largest: bytes(largest * block)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn printed(stdout: &str) -> Finished {
        Finished {
            wall: fstrial_model::units::Nanos(0),
            line: "tool".into(),
            stdout: stdout.into(),
            stderr: String::new(),
            status: std::process::ExitStatus::from_raw(0),
        }
    }

    #[test]
    fn e2freefrag_is_understood() {
        let text = "Device: /dev/loop3\nBlocksize: 4096 bytes\nTotal blocks: 16384\nFree blocks: 8192 (50.0%)\n\n\
                    Min. free extent: 4 KB \nMax. free extent: 31744 KB\nAvg. free extent: 8192 KB\nNum. free extent: 4\n\n\
                    HISTOGRAM OF FREE EXTENT SIZES:\nExtent Size Range :  Free extents   Free Blocks  Percent\n";
        let known = FreeSpace::Known {
            tool: "tool".into(),
            extents: 4,
            mean: Bytes::mib(8),
            largest: Bytes::mib(31),
        };
        assert_eq!(of_e2freefrag(&printed(text)), Some(known));
        assert_eq!(of_e2freefrag(&printed("no such file")), None);
    }

    #[test]
    fn xfs_db_is_understood() {
        let text = "blocksize = 4096\n   from      to extents  blocks    pct\n      1       1       3       3   0.00\n\
                    \x20  16384   32767       1   20000  99.99\ntotal free extents 4\ntotal free blocks 20003\n\
                    average free extent size 5000.75\n";
        let known = FreeSpace::Known {
            tool: "tool".into(),
            extents: 4,
            mean: Bytes(20_483_072),
            largest: Bytes::mib(64),
        };
        assert_eq!(of_xfs_db(&printed(text)), Some(known));
        assert_eq!(of_xfs_db(&printed("xfs_db: not an XFS filesystem")), None);
    }
}
