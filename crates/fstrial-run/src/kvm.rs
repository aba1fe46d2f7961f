//! Tests whether guests run on this machine's own processors. An openable `/dev/kvm` proves nothing (on nested hosts it
//! opens, and guests hang), so a guest is booted; a yes is kept for a kernel until a reboot or another QEMU, a no for
//! all kernels for an hour at most.

use crate::{
    error::ExpectedError,
    interrupt::Interrupt,
    kernels::{Kernel, require_qemu},
    place::{
        boot::Boot,
        reach::Reach,
        transport::Transport,
        wire::{self, AgentOrder, Voice},
    },
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, BufReader},
    os::unix::fs::MetadataExt,
    path::Path,
    sync::mpsc,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Time limit for a guest's first message under KVM.
const FIRST_WORD: Duration = Duration::from_secs(20);
/// Time limit for a silent one to end.
const FAREWELL: Duration = Duration::from_millis(200);
/// Lifetime of a negative result: the machine may have been busy.
const BELIEVED: Duration = Duration::from_secs(3600);

/// Result of a test, with its machine, QEMU and kernel.
#[derive(Debug, Serialize, Deserialize)]
struct Tried {
    boot: String,
    qemu: [i64; 3],
    kernel: String,
    /// In seconds since 1970.
    at: u64,
    problem: Option<String>,
}

/// The reason why guests do not run by KVM here; none if they do. `tell` is notified of a test, which takes 20 seconds
/// at most.
///
/// # Errors
/// QEMU is not installed, or the result cannot be stored.
pub fn problem(
    home: &Path,
    kernel: &Kernel,
    tell: &mut dyn FnMut(&str),
) -> Result<Option<String>, ExpectedError> {
    if let Err(error) = File::options().read(true).write(true).open("/dev/kvm") {
        return Ok(Some(format!("/dev/kvm cannot be opened: {error}")));
    }
    let kept = home.join("kvm.json");
    let failed = |what: &'static str| {
        let path = kept.clone();
        move |source| ExpectedError::File { what, path, source }
    };
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let qemu = fs::metadata(require_qemu()?).map_err(failed("look for QEMU for"))?;
    let qemu = [qemu.mtime(), qemu.size().cast_signed(), qemu.ino().cast_signed()];
    let before: Option<Tried> =
        fs::read_to_string(&kept).ok().and_then(|text| serde_json::from_str(&text).ok());
    let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let is_known = |tried: &Tried| {
        // A feature missing from the machine is missing for every kernel.
        let is_valid = match tried.problem {
            None => tried.kernel == kernel.release,
            Some(_) => at.saturating_sub(tried.at) < BELIEVED.as_secs(),
        };
        (&tried.boot, tried.qemu) == (&boot, qemu) && is_valid
    };
    if let Some(tried) = before.filter(is_known) {
        return Ok(tried.problem);
    }
    tell(&format!("checking whether guests can use KVM here ({} s at most)", FIRST_WORD.as_secs()));
    let problem = booted(home, kernel).map_err(failed("boot a guest for"))?;
    let tried = Tried { boot, qemu, kernel: kernel.release.clone(), at, problem };
    let text = serde_json::to_string(&tried).expect("plain data");
    // Whole or not at all.
    let draft = kept.with_extension(std::process::id().to_string());
    fs::write(&draft, text).and_then(|()| fs::rename(&draft, &kept)).map_err(failed("write"))?;
    Ok(tried.problem)
}

/// True if the last messages are QEMU's, by its exit code or a signal; other codes mean that this program could not
/// start it.
fn is_of_qemu(words: &str) -> bool {
    words.is_empty() || words.starts_with("signal: ") || words.split(": ").take(2).eq(["exit status", "1"])
}

/// Boots a guest until its agent sends the first message.
fn booted(home: &Path, kernel: &Kernel) -> io::Result<Option<String>> {
    let reach = Reach::guest("kvm", &kernel.name, &std::path::absolute(home)?, &Boot::default())?;
    let transport = Transport::by_command(&reach)?;
    let mut received = BufReader::new(transport.socket()?);
    // Which it answers immediately.
    let voice = Voice::to(transport.socket()?, Duration::MAX, || AgentOrder::Alive);
    voice.say(AgentOrder::Close);
    let (sender, first) = mpsc::channel();
    thread::spawn(move || sender.send(wire::next_line(&mut received)));
    let received = first.recv_timeout(FIRST_WORD);
    let words = transport.end(FAREWELL, &Interrupt::default());
    Ok(match received {
        Ok(Some(_)) => None,
        Ok(None) if is_of_qemu(&words) => Some(format!("QEMU ended: {words}")),
        Ok(None) => return Err(io::Error::other(words)),
        Err(_) => Some(format!("a guest sent nothing for {} s", FIRST_WORD.as_secs())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_qemu_failure_from_exit_message() {
        for (words, is_its) in [
            ("exit status: 1: no KVM: none", true),
            ("exit status: 1", true),
            ("exit status: 11", false),
            ("exit status: 11: the kernel has no 9p", false),
            ("signal: 6 (SIGABRT) (core dumped): assertion", true),
            ("", true),
        ] {
            assert_eq!(is_of_qemu(words), is_its, "{words}");
        }
    }
}
