//! Entrances for the fuzzer (`crates/fstrial-attack`) to parsers that are private here: each takes text of the kernel or
//! of a tool as the one who reads it does.

use crate::{
    cgroup::Version,
    command::{self, CommandOutput},
    counters, memory, mounts, queue, signatures,
};
use fstrial_model::{
    filesystem::{FILESYSTEMS, Observation},
    units::{Bytes, Nanos},
};
use std::{hint::black_box, os::unix::process::ExitStatusExt, process::ExitStatus};

/// `/proc/self/mountinfo`.
pub fn mountinfo(text: &str) {
    for mounted in mounts::parse(text) {
        black_box(mounted.options());
    }
}

/// Short texts of the kernel's: queue settings, control groups, counters of a device.
pub fn kernel_values(text: &str) {
    black_box((queue::selected(text), counters::amounts(text)));
    for version in [Version::V1, Version::V2] {
        black_box(memory::CONTROLLER.own_group(version, text));
    }
    black_box((memory::kills_in(text), memory::is_taken(text, Bytes::mib(64))));
}

/// Output of `wipefs --json`.
pub fn signatures(text: &str) {
    let _ = black_box(signatures::parse(text));
}

/// Output of the tools of the filesystems.
pub fn tools(text: &str) {
    black_box(command::version_in(text));
    let done = CommandOutput {
        line: "tool".into(),
        stdout: text.into(),
        stderr: text.into(),
        status: ExitStatus::from_raw(256),
        wall: Nanos(0),
    };
    black_box(done.last_lines());
    for row in FILESYSTEMS {
        black_box(row.free_space.and_then(|tool| (tool.read)("tool", text)));
        black_box(row.mkfs_block.and_then(|block| (block.read)(text)));
        black_box((row.complaint)(text));
        let options: Vec<String> = text.lines().map(str::to_owned).collect();
        black_box(row.character(&Observation { options: &options, mkfs_output: text, header: text }));
    }
}
