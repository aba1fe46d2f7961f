//! The settings of a device's queue that an arm can change, under the kernel's names and the common ones.

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

    /// The fact for a value of it; none for an empty file.
    pub fn shown(self, value: &str) -> Option<String> {
        match self {
            Self::Rotational => Some(if value == "0" { "no" } else { "yes" }.into()),
            Self::ReadAheadKb => Some(Bytes::kib(value.parse().ok()?).human()),
            Self::Scheduler | Self::NrRequests | Self::WriteCache => {
                Some(value.to_owned()).filter(|value| !value.is_empty())
            }
        }
    }

    /// True for one of the queue's limits: with every change of one the kernel recomputes the read-ahead
    /// (`queue_limits_commit_update`).
    pub const fn is_limit(self) -> bool {
        matches!(self, Self::WriteCache | Self::Rotational)
    }

    /// True if it is set on an array itself, which has no queue, and not on its members.
    pub const fn is_of_array(self) -> bool {
        matches!(self, Self::ReadAheadKb)
    }
}

/// A setting with the value that an arm asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSetting {
    /// File in the device's `queue` folder in sysfs that `value` is written to.
    pub attribute: QueueAttribute,
    /// The value to write.
    pub value: String,
    /// Common name: `cache mode`.
    pub words: &'static str,
    /// The value as the arm has it.
    pub requested: String,
}

impl Arm {
    /// The same, with only this setting of the queue.
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

    /// Its queue settings, in the order of application: a scheduler resets the number of requests, and a change of a
    /// limit the read-ahead.
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
            value.map(|(value, requested)| QueueSetting { attribute, value, words, requested })
        };
        rows.into_iter().filter_map(setting).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_settings_cover_every_attribute() {
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
