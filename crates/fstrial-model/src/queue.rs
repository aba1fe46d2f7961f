//! The settings of a device's queue that an arm can change: what the kernel calls them, and what people do.

use crate::{
    arm::{Arm, Switch},
    rows::words,
    units::Bytes,
};
use serde::{Deserialize, Serialize};

words! {
    /// A setting of a device's queue, by its file below `queue/`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum QueueAttribute {
        /// The I/O scheduler.
        "scheduler" Scheduler,
        /// Requests that the scheduler holds.
        "nr_requests" NrRequests,
        /// `write back` or `write through`.
        "write_cache" WriteCache,
        /// 1: a disk that rotates.
        "rotational" Rotational,
        /// Read-ahead in KiB.
        "read_ahead_kb" ReadAheadKb,
    }
}

/// A setting with the value that an arm asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSetting {
    /// Which.
    pub attribute: QueueAttribute,
    /// What is written into its file.
    pub value: String,
    /// What people call it: `cache mode`.
    pub words: &'static str,
    /// The value as the arm has it.
    pub asked: String,
}

impl Arm {
    /// What it asks of the device's queue, in the order in which it is set: a scheduler brings its own number of requests, and
    /// with a limit of the queue the kernel computes the read-ahead again.
    pub fn queue_settings(&self) -> Vec<QueueSetting> {
        use QueueAttribute::{NrRequests, ReadAheadKb, Rotational, Scheduler, WriteCache};
        let plain = |value: String| (value.clone(), value);
        let flag = |switch: Switch| if switch == Switch::On { "1" } else { "0" };
        let kib = |Bytes(bytes): Bytes| (bytes >> 10).to_string();
        let rows = [
            (Scheduler, "scheduler", self.scheduler.clone().map(plain)),
            (NrRequests, "number of requests", self.nr_requests.map(|number| plain(number.to_string()))),
            (
                WriteCache,
                "cache mode",
                self.cache.map(|mode| (mode.name().replace('-', " "), mode.name().to_owned())),
            ),
            (
                Rotational,
                "rotational flag",
                self.rotational.map(|rotates| (flag(rotates).to_owned(), rotates.name().to_owned())),
            ),
            (ReadAheadKb, "read-ahead", self.read_ahead.map(|size| (kib(size), size.to_string()))),
        ];
        let setting = |(attribute, words, value): (_, _, Option<(String, String)>)| {
            value.map(|(value, asked)| QueueSetting { attribute, value, words, asked })
        };
        rows.into_iter().filter_map(setting).collect()
    }
}
