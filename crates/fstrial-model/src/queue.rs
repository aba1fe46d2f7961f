//! The settings of a device's queue that an arm can change: what the kernel calls them, and what people do.

use crate::{
    arm::{Arm, Switch},
    facts::Fact,
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

impl QueueAttribute {
    /// The fact that is read back of it.
    pub const fn fact(self) -> Fact {
        match self {
            Self::Scheduler => Fact::Scheduler,
            Self::NrRequests => Fact::QueueRequests,
            Self::WriteCache => Fact::CacheMode,
            Self::Rotational => Fact::Rotational,
            Self::ReadAheadKb => Fact::ReadAhead,
        }
    }

    /// A value of it as a fact has it; none where its file says nothing.
    pub fn shown(self, value: &str) -> Option<String> {
        match self {
            Self::Rotational => Some(if value == "0" { "no" } else { "yes" }.into()),
            Self::ReadAheadKb => Some(Bytes::kib(value.parse().ok()?).human()),
            Self::Scheduler | Self::NrRequests | Self::WriteCache => {
                Some(value.to_owned()).filter(|value| !value.is_empty())
            }
        }
    }

    /// Whether it is one of the queue's limits: with every change of one the kernel computes the read-ahead again
    /// (`queue_limits_commit_update`).
    pub const fn is_limit(self) -> bool {
        matches!(self, Self::WriteCache | Self::Rotational)
    }

    /// Whether it is asked of an array itself, which has no queue, and not of its members.
    pub const fn is_of_array(self) -> bool {
        matches!(self, Self::ReadAheadKb)
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
    /// The same without what it asks of the queue but this.
    #[must_use]
    pub fn with_queue(&self, keep: impl Fn(QueueAttribute) -> bool) -> Self {
        let mut arm = self.clone();
        for attribute in QueueAttribute::ALL.into_iter().filter(|attribute| !keep(*attribute)) {
            match attribute {
                QueueAttribute::Scheduler => arm.scheduler = None,
                QueueAttribute::NrRequests => arm.nr_requests = None,
                QueueAttribute::WriteCache => arm.cache = None,
                QueueAttribute::Rotational => arm.rotational = None,
                QueueAttribute::ReadAheadKb => arm.read_ahead = None,
            }
        }
        arm
    }

    /// What it asks of the device's queue, in the order in which it is set: a scheduler brings its own number of requests, and
    /// with a limit of the queue the kernel computes the read-ahead again.
    pub fn queue_settings(&self) -> Vec<QueueSetting> {
        use QueueAttribute::{NrRequests, ReadAheadKb, Rotational, Scheduler, WriteCache};
        let plain = |value: String| (value.clone(), value);
        let flag = |switch: Switch| u8::from(switch == Switch::On).to_string();
        let kib = |Bytes(bytes): Bytes| (bytes >> 10).to_string();
        let rows = [
            (Scheduler, "scheduler", self.scheduler.clone().map(plain)),
            (NrRequests, "number of requests", self.nr_requests.map(|number| plain(number.to_string()))),
            (
                WriteCache,
                "cache mode",
                self.cache.map(|mode| (mode.name().replace('-', " "), mode.name().to_owned())),
            ),
            (Rotational, "rotational flag", self.rotational.map(|on| (flag(on), on.name().to_owned()))),
            (ReadAheadKb, "read-ahead", self.read_ahead.map(|size| (kib(size), size.to_string()))),
        ];
        let setting = |(attribute, words, value): (_, _, Option<(String, String)>)| {
            value.map(|(value, asked)| QueueSetting { attribute, value, words, asked })
        };
        rows.into_iter().filter_map(setting).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_asked_read_back_and_left_out() {
        let all = "ext4:scheduler=none,nr_requests=64,read_ahead=64KiB,cache=write-back,rotational=on";
        let arm: Arm = all.parse().unwrap();
        let settings = arm.queue_settings();
        assert_eq!(settings.len(), QueueAttribute::ALL.len());
        for QueueSetting { attribute, value, .. } in settings {
            assert_eq!(
                serde_json::to_value(attribute).unwrap(),
                attribute.name(),
                "ledgers have the file's name"
            );
            assert!(attribute.shown(&value).is_some(), "{attribute:?}");
            let alone = arm.with_queue(|one| one == attribute).queue_settings();
            assert_eq!(alone.iter().map(|one| one.attribute).collect::<Vec<_>>(), [attribute]);
        }
    }
}
