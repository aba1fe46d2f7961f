//! The process that serves a modelled device: the line protocol of orders and answers.
//!
//! ```text
//! coordinator ── fstrial device-server: own mount namespace, a front end (FUSE mounted in it), the file held open
//!      │             ▲ /proc/PID/fd/N
//!      └── worker ───┴─ loop device on it ─ mkfs, mount, load
//! ```
//! It is a separate process because all writeback passes through it: it must not wait for memory, for the device it
//! serves, or for the coordinator. When it dies, by any signal, the kernel ends the FUSE connection: every request gets
//! EIO immediately, and nothing hangs.

use crate::{
    backing::Backing,
    error::DeviceError,
    front::{ExposedDevice, FrontEnd},
    server::{Counts, Server},
};
use fstrial_model::{
    device_model::DeviceModel,
    units::{Bytes, Nanos, Percent},
};
use rustix::mm::MlockAllFlags;
use serde::{Deserialize, Serialize};
use std::{os::fd::AsRawFd, path::PathBuf, sync::Arc};

/// The priority of the serving process: before all that are not real-time.
const FIRST: i32 = -20;

/// A line to the serving process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "command")]
pub enum Command {
    /// Put the device back to its first state; sent before every run.
    Renew {
        /// Seed of everything drawn: the same for every arm of a round.
        seed: u64,
        /// Slowdown against its model until the next renewal.
        slowed: Percent,
    },
    /// Follow another model until it is renewed, with no head start.
    Pretend {
        /// Replaces [`Offer::model`] until the next [`Command::Renew`].
        model: Box<DeviceModel>,
    },
    /// Take this off every latency from now on.
    HeadStart {
        /// Overhead of the path to the device.
        time: Nanos,
    },
    /// Let requests take no time, or the model's again; a device that is renewed keeps to its model.
    Free {
        /// No time.
        is_free: bool,
    },
    /// Report the work done since the last renewal.
    Count,
}

/// The device to serve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// Its behaviour.
    pub model: DeviceModel,
    /// Capacity of the device.
    pub size: Bytes,
    /// Folder of its data; none: in memory.
    pub folder: Option<PathBuf>,
    /// Name of its file, unique on a host.
    pub name: String,
    /// It is a guest's: orders come and answers go over the standard input, and the standard output is the socket of its disk.
    #[serde(default)]
    pub to_hypervisor: bool,
}

/// A line from the serving process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum Reply {
    /// The device is there: this is the number of the descriptor of its file.
    Ready {
        /// N of `/proc/PID/fd/N`.
        descriptor: i32,
        /// The same of its control file and its image for power cuts; none of a guest's device.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cuts: Option<(i32, i32)>,
    },
    /// Heartbeat: sent regularly, between other answers.
    Alive,
    /// The order was carried out.
    Done,
    /// The work done.
    Counted {
        /// By kind.
        counts: Counts,
    },
    /// It cannot be served.
    Failed {
        /// The reason, as text for the user.
        why: String,
    },
}

/// Serves a device through a front end until there are no more commands.
///
/// # Errors
/// No memory, no space, no such front end here.
pub fn serve(
    offer: Offer,
    front: &dyn FrontEnd,
    commands: &mut dyn Iterator<Item = Command>,
    say: &mut dyn FnMut(Reply),
) -> Result<(), DeviceError> {
    // Before any thread is started: they inherit it. Without the right to do so it works too, until memory is short.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    // A device does not wait for a processor until the load leaves it one.
    let _ = rustix::process::setpriority_process(None, FIRST);
    let backing = match &offer.folder {
        None => Backing::in_memory(offer.size)?,
        Some(folder) => Backing::in_folder(folder, offer.size)?,
    };
    let server = Server::start(offer.model, backing);
    let shown = front.show(Arc::clone(&server), &offer.name)?;
    let _ = rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE);
    attend(&server, &shown, commands, say);
    Ok(())
}

/// Reports that the device is there, and carries out orders.
fn attend(
    server: &Server,
    shown: &ExposedDevice,
    commands: &mut dyn Iterator<Item = Command>,
    say: &mut dyn FnMut(Reply),
) {
    let cuts = shown.cuts().map(|files| (files.control.as_raw_fd(), files.image.as_raw_fd()));
    say(Reply::Ready { descriptor: shown.file().as_raw_fd(), cuts });
    for command in commands {
        say(match command {
            Command::Renew { seed, slowed } => {
                server.renew(seed, slowed);
                Reply::Done
            }
            Command::Pretend { model } => {
                server.pretend(&model);
                Reply::Done
            }
            Command::HeadStart { time } => {
                server.set_head_start(time);
                Reply::Done
            }
            Command::Free { is_free } => {
                server.set_free(is_free);
                Reply::Done
            }
            Command::Count => Reply::Counted { counts: server.counts() },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::device_model::Service;

    /// A front end whose kernel is this test: it makes one request of each kind, and has a separate file.
    struct Alone;

    impl FrontEnd for Alone {
        fn show(&self, server: Arc<Server>, _: &str) -> Result<ExposedDevice, DeviceError> {
            let request = server.write(4096, b"data").unwrap();
            server.submit(request, Box::new(|| ()));
            server.submit(Server::flush(), Box::new(|| ()));
            let (request, data) = server.read(4096, 4).unwrap();
            server.submit(request, Box::new(move || assert_eq!(data, b"data")));
            Ok(ExposedDevice::new(tempfile::tempfile().unwrap(), ()))
        }
    }

    #[test]
    fn front_end_reports_ready_and_request_counts() {
        let slow = Service { latency: Nanos::secs(3600), ..Service::default() };
        let model = DeviceModel { write: slow, ..DeviceModel::default() };
        let server = Server::start(model, Backing::in_memory(Bytes::mib(1)).unwrap());
        let shown = Alone.show(Arc::clone(&server), "alone").unwrap();
        let free = |is_free| Command::Free { is_free };
        let renewed = Command::Renew { seed: 1, slowed: Percent(6.0) };
        let commands = [Command::Count, free(true), free(false), renewed, Command::Count];
        let mut message = Vec::new();
        attend(&server, &shown, &mut commands.into_iter(), &mut |answer| message.push(answer));
        let descriptor = shown.file().as_raw_fd();
        let counts =
            Counts { reads: 1, bytes_read: 4, writes: 1, bytes_written: 4, flushes: 1, ..Counts::default() };
        let none = Counts::default();
        assert_eq!(message[..2], [Reply::Ready { descriptor, cuts: None }, Reply::Counted { counts }]);
        assert_eq!(message[2..], [Reply::Done, Reply::Done, Reply::Done, Reply::Counted { counts: none }]);
    }
}
