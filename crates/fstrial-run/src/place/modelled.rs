//! `model`: a device that follows a model, served by a separate process (see `fstrial_device::serve`).
//!
//! We hold its file open under one number for as long as the trial lasts. If the serving process dies, every request
//! gets EIO, the run it happened in is lost, and another process takes its place under the same number: no state of a
//! device has to outlive a run.

use super::child::lines_of;
use crate::{
    error::ExpectedError,
    exit_code, numbers,
    probe::{Probe, probe, rehearsed},
};
use fstrial_device::{
    fuse::Fuse,
    nbd::Nbd,
    serve::{self, Command as DeviceOrder, Offer, Reply},
    server::Counts,
};
use fstrial_engine::Usage;
use fstrial_model::{
    arm::Arm,
    device_model::{DeviceModel, Service},
    job::{CutFiles, DeviceBinding, Job},
    measurement::Stage,
    units::{Bytes, Nanos, Percent},
};
use fstrial_stack::{
    StackError,
    device::{Device, DeviceRequest, Progress, require_room},
    host, isolation,
    ledger::Ledger,
    loopdev::{self, LoopDevice},
};
use fstrial_vm::{guest, port::Port};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::{
    cell::{Cell, RefCell},
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Time to take the memory of a device and mount it.
const START_DEADLINE: Duration = Duration::from_secs(120);
/// Time for the answer to an order.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);
/// Interval of the process's heartbeat.
const PULSE: Duration = Duration::from_millis(500);
/// Limit of its silence before it is ended: all writeback to the device waits for it, and so does every `sync` of the
/// machine. A process with the highest priority and locked memory is never silent for this long.
const SILENCE: Duration = Duration::from_secs(6);
/// Its time to end once it was killed.
const END_DEADLINE: Duration = Duration::from_secs(2);
/// The latency of the device on which the cost of the way to it is measured: long enough that it sleeps.
const PRETENDED: Nanos = Nanos(300_000);
/// Room for every probe.
pub const MIN_SIZE: Bytes = Bytes::mib(16);
/// The state of each page has to fit in memory.
const MAX_SIZE: Bytes = Bytes::gib(4096);
/// Requests in flight with which a device and its host are tried at their limits.
const DEEP: u16 = 32;
/// A model that needs this multiple of the host's capacity is beyond it.
const BEYOND: f64 = 1.1;
/// A larger share of late answers is reported.
const LATE_SHARE: f64 = 0.02;

/// Makes one and measures the overhead of the path to it.
///
/// # Errors
/// No memory or space, no FUSE, no loop device.
///
/// # Panics
/// If the device section was not checked.
pub fn provide(requested: &DeviceRequest<'_>, _: Progress<'_>) -> Result<Box<dyn Device>, ExpectedError> {
    let model = requested.spec.modelled().expect("validated: a modelled device has a model");
    Ok(Box::new(Modelled::of_model(model, requested.size, requested.spec.path.clone(), requested.ledger)?))
}

/// A modelled device that a trial owns.
pub struct Modelled {
    offer: Offer,
    /// Its file, always under the same number.
    file: RefCell<OwnedFd>,
    serving: RefCell<Serving>,
    /// Overhead of the path to it here.
    way: Nanos,
    /// Requests in a second that this host can serve, under any model.
    ceiling: f64,
    /// Its work in all runs.
    done: Cell<Counts>,
}

/// The process that serves it.
struct Serving {
    /// None: it is on the host of this guest.
    child: Option<Child>,
    /// Its files for power cuts; none of a guest's device.
    cuts: Option<CutFiles>,
    orders: Box<dyn Write>,
    answers: mpsc::Receiver<String>,
    /// It was silent for too long, and ended for it.
    was_silent: Arc<AtomicBool>,
    /// A late answer may still arrive.
    is_lost: bool,
}

fn unable(what: impl Into<String>, hint: impl Into<String>) -> StackError {
    StackError::Unable { what: what.into(), hint: hint.into() }
}

impl Modelled {
    /// Makes one that follows a model; its data are in a sparse file in `folder`, or in memory.
    ///
    /// # Errors
    /// As [`provide`].
    pub fn of_model(
        model: DeviceModel,
        size: Bytes,
        folder: Option<PathBuf>,
        ledger: &Ledger,
    ) -> Result<Self, ExpectedError> {
        if size < MIN_SIZE {
            let what = format!("a modelled device of {size} is smaller than can be modelled ({MIN_SIZE})");
            return Err(unable(what, "use a larger device (its size)").into());
        }
        if size > MAX_SIZE {
            let what = format!("a modelled device of {size} is larger than can be modelled ({MAX_SIZE})");
            return Err(unable(what, "use a smaller device (its size)").into());
        }
        let served =
            guest::served().map_err(|error| StackError::io("open", "the host's modelled device", error))?;
        if served.is_none() {
            require_room(folder.as_deref(), size, "a modelled device")?;
        }
        // Loop devices are identified by the name of their file, so names are unique.
        let name = format!("fstrial-{}", host::unique_name());
        let offer = Offer { model, size, folder, name, to_hypervisor: false };
        let (serving, file) = match served {
            Some((port, disk)) => Serving::on_host(port, disk, size)?,
            None => Serving::start(&offer)?,
        };
        let mut device = Self {
            offer,
            file: RefCell::new(file.into()),
            serving: RefCell::new(serving),
            way: Nanos(0),
            ceiling: 0.0,
            done: Cell::new(Counts::default()),
        };
        (device.way, device.ceiling) = device.measure_way(ledger)?;
        device.order(&DeviceOrder::HeadStart { time: device.way })?;
        device.renew(0, Percent::default())?;
        Ok(device)
    }

    /// Model that the device was started with, even while it follows another one.
    pub fn model(&self) -> &DeviceModel {
        &self.offer.model
    }

    /// Overhead of the path to it on this machine: a system call, the loop device, FUSE, and waking up.
    pub fn way(&self) -> Nanos {
        self.way
    }

    /// Puts it back to its first state, keeping to its model, or slower than that by some share.
    ///
    /// # Errors
    /// Its process is gone.
    pub fn renew(&self, seed: u64, slowed: Percent) -> Result<(), StackError> {
        self.order(&DeviceOrder::Renew { seed, slowed }).map(drop)
    }

    /// A block device on it, for this process.
    ///
    /// # Errors
    /// There is no loop device.
    pub fn attach(&self, ledger: &Ledger) -> Result<LoopDevice, StackError> {
        LoopDevice::attach(self.file.borrow().as_fd(), true, ledger)
    }

    /// The lesser of the medians of reads and writes that should take a known time, without that time; and how many
    /// requests of no time at all are served in a second.
    fn measure_way(&self, ledger: &Ledger) -> Result<(Nanos, f64), ExpectedError> {
        let service = Service { latency: PRETENDED, ..Service::default() };
        let known = DeviceModel { read: service, write: service, ..DeviceModel::default() };
        self.order(&DeviceOrder::Pretend { model: Box::new(known) })?;
        let attached = self.attach(ledger)?;
        let mut way = Nanos(u64::MAX);
        for reads in [true, false] {
            let shown = probe(&attached.path(), Usage::ReadWrite, &self.small(reads, 1))?;
            way = way.min(Nanos(shown.p50.0.saturating_sub(PRETENDED.0)));
        }
        self.order(&DeviceOrder::Pretend { model: Box::new(DeviceModel::default()) })?;
        let most = probe(&attached.path(), Usage::ReadWrite, &self.small(true, DEEP))?.iops;
        attached.close();
        Ok((way, most))
    }

    /// Random requests of 4 KiB for a quarter of a second.
    fn small(&self, reads: bool, depth: u16) -> Probe {
        Probe {
            reads,
            random: true,
            block: Bytes::kib(4),
            depth,
            flushes: false,
            span: Bytes(self.offer.size.0.min(64 << 20)),
            duration: Nanos::millis(250),
        }
    }

    fn order(&self, order: &DeviceOrder) -> Result<Reply, StackError> {
        self.serving.borrow_mut().order(order)
    }

    /// Its work since the last renewal.
    ///
    /// # Errors
    /// Its process is gone.
    pub fn counts(&self) -> Result<Counts, StackError> {
        match self.order(&DeviceOrder::Count)? {
            Reply::Counted { counts } => Ok(counts),
            other => Err(unexpected(&other)),
        }
    }

    /// Puts another process in the place of a dead one, under the same number.
    fn start_again(&self) -> Result<(), StackError> {
        // First the end of the old one, which may live and not answer: there is memory for one of them.
        self.serving.borrow_mut().end();
        if self.serving.borrow().child.is_none() {
            return Err(unable(
                "the process on the host that serves the modelled device is gone",
                "resume the trial",
            ));
        }
        let (serving, file) = Serving::start(&self.offer)?;
        let mut held = self.file.borrow_mut();
        rustix::io::dup2(&file, &mut held).map_err(|e| StackError::io("hold", "the device's file", e))?;
        drop(held);
        self.serving.replace(serving);
        self.order(&DeviceOrder::HeadStart { time: self.way })?;
        Ok(())
    }
}

fn unexpected(message: &Reply) -> StackError {
    match message {
        Reply::Failed { why } if why.contains("FUSE") => unable(
            format!("a modelled device needs FUSE: {why}"),
            "try `modprobe fuse`; a container needs /dev/fuse and the right to mount",
        ),
        Reply::Failed { why } => {
            unable(format!("no modelled device: {why}"), "use a smaller device (its size)")
        }
        other => unable(format!("the device's process sent {other:?}"), "please report it"),
    }
}

/// The process that serves a device.
fn device_server() -> Command {
    #[expect(clippy::disallowed_methods, reason = "starts this very program, not a tool")]
    let mut command = Command::new("/proc/self/exe");
    // Ctrl-C is for us: we end it when the last worker is gone.
    command.arg("device-server").process_group(0);
    command
}

impl Serving {
    fn start(offer: &Offer) -> Result<(Self, File), StackError> {
        let failed = |e| StackError::io("start", "the process that serves the device", e);
        let mut child = device_server()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(failed)?;
        let id = child.id();
        let orders = child.stdin.take().expect("requested above");
        let stdout = child.stdout.take().expect("requested above");
        let was_silent = Arc::new(AtomicBool::new(false));
        let process = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let process = process.map_err(|error| failed(error.into()))?;
        let answers = watched(Some(process), lines_of(stdout), Arc::clone(&was_silent));
        let mut serving = Self {
            child: Some(child),
            cuts: None,
            orders: Box::new(orders),
            answers,
            was_silent,
            is_lost: false,
        };
        serving.say(&serde_json::to_string(offer).expect("an offer is plain data"))?;
        match serving.hear(START_DEADLINE)? {
            Reply::Ready { descriptor, cuts } => {
                let path_of = |descriptor| PathBuf::from(format!("/proc/{id}/fd/{descriptor}"));
                serving.cuts = cuts.map(|(control, image)| CutFiles {
                    control: path_of(control),
                    image: path_of(image),
                    kept: None,
                });
                let path = path_of(descriptor);
                let file = File::options().read(true).write(true).open(&path);
                Ok((serving, file.map_err(|e| StackError::io("open", path, e))?))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// The one that the host of this guest has started with it: orders go through a port, and the device is a disk.
    fn on_host(port: Port, disk: PathBuf, size: Bytes) -> Result<(Self, File), StackError> {
        let failed = |error| StackError::io("open", &disk, error);
        let mut file = File::options().read(true).write(true).open(&disk).map_err(failed)?;
        let served = Bytes(file.seek(SeekFrom::End(0)).map_err(failed)?);
        if served != size {
            let what =
                format!("the host serves a modelled device of {served}, and the trial requires {size}");
            return Err(unable(what, "please report it"));
        }
        let was_silent = Arc::new(AtomicBool::new(false));
        let listening = port.try_clone().map_err(failed)?;
        let answers = watched(None, lines_of(listening), Arc::clone(&was_silent));
        Ok((
            Self { child: None, cuts: None, orders: Box::new(port), answers, was_silent, is_lost: false },
            file,
        ))
    }

    fn order(&mut self, order: &DeviceOrder) -> Result<Reply, StackError> {
        self.say(&serde_json::to_string(order).expect("an order is plain data"))?;
        self.hear(ANSWER_DEADLINE)
    }

    fn say(&mut self, line: &str) -> Result<(), StackError> {
        if self.is_lost {
            return Err(self.gone());
        }
        writeln!(self.orders, "{line}").map_err(|_| self.gone())
    }

    fn hear(&mut self, deadline: Duration) -> Result<Reply, StackError> {
        let Ok(line) = self.answers.recv_timeout(deadline) else {
            let error = self.gone();
            // A late answer would be mistaken for that to the next order.
            self.end();
            return Err(error);
        };
        serde_json::from_str(&line)
            .map_err(|_| unable(format!("the device's process sent `{line:.100}`"), "please report it"))
    }

    fn gone(&mut self) -> StackError {
        if self.was_silent.load(Ordering::Relaxed) {
            return unable(
                format!(
                    "the process that serves the modelled device sent nothing for {} s and was abandoned",
                    SILENCE.as_secs()
                ),
                "was it stopped (SIGSTOP, a frozen control group), or has this machine far too much to do?",
            );
        }
        let how = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
        let how = how.map_or_else(|| "does not answer".into(), |status| format!("has died ({status})"));
        unable(
            format!("the process that serves the modelled device {how}"),
            "was it killed, for example for lack of memory?",
        )
    }

    /// Anyone who uses the device gets EIO and does not hang.
    fn end(&mut self) {
        self.is_lost = true;
        let Some(child) = &mut self.child else { return };
        let _ = child.kill();
        // One that waits in the kernel for the disk that its data are on is not waited for.
        let until = Instant::now() + END_DEADLINE;
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
            thread::park_timeout(Duration::from_millis(2));
        }
    }
}

/// Passes on the answers of a process, and ends it, if possible, when it is silent: on a separate thread, because
/// everything else may be waiting for the device.
fn watched(
    process: Option<OwnedFd>,
    lines: mpsc::Receiver<String>,
    was_silent: Arc<AtomicBool>,
) -> mpsc::Receiver<String> {
    let alive = serde_json::to_string(&Reply::Alive).expect("an answer is plain data");
    let (sender, answers) = mpsc::channel();
    thread::spawn(move || {
        // Counted, not timed: it may have sent a lot while we were stopped ourselves.
        let mut missed = 0;
        loop {
            match lines.recv_timeout(PULSE) {
                Ok(line) => {
                    missed = 0;
                    if line != alive && sender.send(line).is_err() {
                        break;
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    missed += 1;
                    if PULSE * missed >= SILENCE {
                        was_silent.store(true, Ordering::Relaxed);
                        let kill = |process| rustix::process::pidfd_send_signal(process, Signal::KILL);
                        let _ = process.as_ref().map(kill);
                        break;
                    }
                }
            }
        }
    });
    answers
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end();
    }
}

impl Modelled {
    /// The model's name; one that is written out in a trial has none.
    fn name(&self) -> &str {
        match self.offer.model.name.as_str() {
            "" => "of the trial's own",
            name => name,
        }
    }
}

impl Device for Modelled {
    fn describe(&self) -> String {
        let whose = if self.serving.borrow().child.is_none() { " of the guest's host" } else { "" };
        let place = match &self.offer.folder {
            None => format!("memory{whose}"),
            Some(folder) => format!("a sparse file in {}{whose}", folder.display()),
        };
        format!(
            "modelled: {} ({}), {} in {place}",
            self.name(),
            self.offer.model.summary(),
            self.offer.size.human()
        )
    }

    fn binding(&self, _arm: &Arm) -> DeviceBinding {
        // The worker opens it through us, as an image.
        DeviceBinding::Loop {
            file: host::path_of_descriptor(self.file.borrow().as_fd()),
            size: self.offer.size,
            direct_io: true,
            discards: self.offer.model.discard.is_some(),
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!(
            "the device is modelled: its times come from a model ({}), not from hardware; the path to it takes {} here, which is \
             subtracted from requests that take longer; CPU/op includes the process that answers for it",
            self.name(),
            numbers::nanos(self.way.as_secs_f64() * 1e9)
        )];
        notes.extend(self.cautions());
        if self.offer.folder.is_some() {
            notes.push(
                "its data are in a file in the host's page cache: writeback on the host is not modelled"
                    .into(),
            );
        }
        notes
    }

    fn cautions(&self) -> Vec<String> {
        let needed = |reads, depth| rehearsed(self.model(), self.offer.size, &self.small(reads, depth));
        let beyond = |reads: bool| {
            let (one, most) = (needed(reads, 1), needed(reads, DEEP).iops);
            let kind = if reads { "reads" } else { "writes" };
            // A model without limits tests the host's capacity.
            let cache = self.model().cache.filter(|cache| !reads && cache.latency > Nanos(0));
            let least = cache.map_or(one.p50, |cache| cache.latency.min(one.p50));
            let quick = (Nanos(1)..self.way).contains(&least).then(|| {
                let time = numbers::nanos(least.as_secs_f64() * 1e9);
                format!(
                    "its {kind} take {time} one at a time{}",
                    if least < one.p50 { " where the cache takes them" } else { "" }
                )
            });
            let many = most.is_finite() && most > BEYOND * self.ceiling;
            let many =
                many.then(|| format!("it has {} {kind} a second for {DEEP} in flight", numbers::rate(most)));
            quick.into_iter().chain(many).collect::<Vec<_>>()
        };
        let what: Vec<String> = [true, false].into_iter().flat_map(beyond).collect();
        let (way, ceiling) = (numbers::nanos(self.way.as_secs_f64() * 1e9), numbers::rate(self.ceiling));
        let line = format!(
            "this host cannot keep up with the model {}: {}, but here a request takes at least {way}, and {ceiling} a second are \
             served at most. A load that asks for more measures the host, not the model",
            self.name(),
            what.join(", ")
        );
        if what.is_empty() { Vec::new() } else { vec![line] }
    }

    fn before_run(&self, job: &Job) -> Result<(), StackError> {
        let (seed, slowed) = (job.seed(), job.arm.slowed.unwrap_or_default());
        // It may have died since the last run, too.
        if self.renew(seed, slowed).is_err() {
            self.start_again()?;
            self.renew(seed, slowed)?;
        }
        self.order(&DeviceOrder::Free { is_free: true }).map(drop)
    }

    /// Preparations before the clock starts, and teardown after it, cost no modelled time.
    fn enter(&self, stage: Stage) -> Result<(), StackError> {
        self.order(&DeviceOrder::Free { is_free: stage != Stage::Load }).map(drop)
    }

    fn abandon(&self) {
        self.serving.borrow_mut().end();
    }

    fn after_run(&self) -> Result<(), StackError> {
        let counts = self.counts();
        match counts {
            Ok(counts) => {
                let mut done = self.done.get();
                done.add(counts);
                self.done.set(done);
                Ok(())
            }
            Err(error) => {
                self.start_again()?;
                Err(error)
            }
        }
    }

    fn cut_files(&self) -> Option<CutFiles> {
        self.serving.borrow().cuts.clone()
    }

    fn warnings(&self) -> Vec<String> {
        let done = self.done.get();
        #[expect(clippy::cast_precision_loss, reason = "counts")]
        let share = done.late as f64 / done.requests().max(1) as f64;
        let text = format!(
            "the modelled device answered {:.0} % of its requests more than 0.2 ms late: this machine was too busy to keep its times",
            share * 100.0
        );
        if share > LATE_SHARE { vec![text] } else { Vec::new() }
    }

    fn is_released(&self) -> Result<bool, StackError> {
        Ok(loopdev::attached_to(self.file.borrow().as_fd())?.is_empty())
    }

    fn close(self: Box<Self>) -> Result<(), StackError> {
        Ok(())
    }
}

/// The process that serves a device: reads its description, then orders, until there are no more.
///
/// # Errors
/// Its input cannot be read, or it may not have a mount namespace.
pub fn serve() -> Result<u8, ExpectedError> {
    isolation::die_with_parent()?;
    let mut lines = io::stdin().lines().map_while(Result::ok);
    let offer = lines.next().and_then(|line| serde_json::from_str::<Offer>(&line).ok()).ok_or_else(|| {
        ExpectedError::usage(
            "this is not a device to serve",
            "`fstrial device-server` is started by fstrial itself",
        )
    })?;
    let (input, output) =
        (io::stdin().as_fd().try_clone_to_owned(), io::stdout().as_fd().try_clone_to_owned());
    let failed = |error| StackError::io("copy", "standard input and output", error);
    let (input, output) = (input.map_err(failed)?, output.map_err(failed)?);
    // For a hypervisor the input is a socket in both directions, and the output is the device's.
    let (answers, socket) = if offer.to_hypervisor { (input, Some(output)) } else { (output, None) };
    let answers = Arc::new(File::from(answers));
    let say = move |message: &Reply| {
        let line = serde_json::to_string(message).expect("an answer is plain data");
        // Without a reader this process ends in a moment.
        let _ = (&*answers).write_all(format!("{line}\n").as_bytes());
    };
    let pulse = say.clone();
    thread::spawn(move || {
        loop {
            pulse(&Reply::Alive);
            thread::park_timeout(PULSE);
        }
    });
    let mut orders = lines.map_while(|line| serde_json::from_str(&line).ok());
    if let Err(why) = shown(offer, socket, &mut orders, &mut |message| say(&message)) {
        say(&Reply::Failed { why });
    }
    Ok(exit_code::VERDICT)
}

/// Serves a device to a hypervisor at the other end of a socket, or to the kernel.
fn shown(
    offer: Offer,
    socket: Option<OwnedFd>,
    orders: &mut dyn Iterator<Item = DeviceOrder>,
    say: &mut dyn FnMut(Reply),
) -> Result<(), String> {
    let in_words = |error: StackError| error.to_string();
    if let Some(socket) = socket {
        return serve::serve(offer, &Nbd::on(socket), orders, say).map_err(|error| error.to_string());
    }
    isolation::unshare_mounts().map_err(in_words)?;
    let point = isolation::mount_point().map_err(in_words)?;
    serve::serve(offer, &Fuse { folder: &point }, orders, say).map_err(|error| error.to_string())
}

/// A line, and no part of the next.
fn line_of(mut from: impl Read) -> io::Result<Vec<u8>> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while from.read(&mut byte)? == 1 && byte != *b"\n" {
        line.extend(byte);
    }
    Ok(line)
}

/// The device of a guest, served by a process that ends with this one or its successor: the sockets of the hypervisor's
/// disk and of the port for orders.
///
/// # Errors
/// Not enough memory or space.
pub fn for_hypervisor(offer: &Offer) -> Result<[OwnedFd; 2], ExpectedError> {
    let failed = |error| StackError::io("start", "the process that serves the device", error);
    require_room(offer.folder.as_deref(), offer.size, "a modelled device")?;
    let (disk, theirs) = UnixStream::pair().map_err(failed)?;
    let (mut port, orders) = UnixStream::pair().map_err(failed)?;
    device_server().stdin(OwnedFd::from(orders)).stdout(OwnedFd::from(theirs)).spawn().map_err(failed)?;
    let line = serde_json::to_string(offer).expect("an offer is plain data");
    writeln!(port, "{line}").map_err(failed)?;
    // Answers after the first are for the guest.
    loop {
        match serde_json::from_slice(&line_of(&port).map_err(failed)?) {
            Ok(Reply::Alive) => {}
            Ok(Reply::Ready { .. }) => break,
            Ok(other) => return Err(unexpected(&other).into()),
            Err(_) => {
                return Err(unable("the process that serves the modelled device is gone", "try again").into());
            }
        }
    }
    Ok([disk.into(), port.into()])
}
