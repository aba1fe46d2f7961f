//! A command on a pseudo-terminal, with an emulator behind it that keeps the screen.

use crate::support::{FSTRIAL, Lab, eventually};
use rustix::{
    process::{Pid, Signal},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};
use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Child, ExitStatus},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

/// Longer than anything on a screen takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command on a terminal.
pub(crate) struct OnTerminal {
    master: File,
    child: Child,
    output: Receiver<Vec<u8>>,
    emulator: vt100::Parser,
}

impl OnTerminal {
    /// Starts `fstrial` with words separated by spaces on a terminal of 80 × 24.
    pub(crate) fn start(lab: &Lab, words: &str) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        tcsetwinsize(&master, size(80, 24)).unwrap();
        let slave = || -> OwnedFd {
            let path = name.to_str().unwrap();
            File::options().read(true).write(true).open(path).unwrap().into()
        };
        // It must be the controlling terminal, or a change of size sends no signal.
        let mut command = lab.prepare("setsid");
        command
            .args(["--ctty", FSTRIAL])
            .args(words.split_whitespace())
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .stdin(slave())
            .stdout(slave())
            .stderr(slave());
        let child = command.spawn().unwrap();
        drop(command);
        let master = File::from(master);
        let (sender, output) = mpsc::channel();
        let mut reader = master.try_clone().unwrap();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // When the last process on the terminal has gone, reading fails.
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { master, child, output, emulator: vt100::Parser::new(24, 80, 0) }
    }

    /// Waits until the screen is as wished.
    pub(crate) fn wait(&mut self, what: &str, holds: impl Fn(&vt100::Screen) -> bool) {
        let (output, emulator) = (&self.output, &mut self.emulator);
        let result = eventually(PATIENCE, || {
            output.try_iter().for_each(|bytes| emulator.process(&bytes));
            holds(emulator.screen())
        });
        assert!(result, "no {what} on:\n{}", self.emulator.screen().contents());
    }

    /// Waits until these words are on the screen.
    pub(crate) fn wait_for(&mut self, words: &str) {
        self.wait(words, |screen| screen.contents().contains(words));
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.emulator.screen_mut().set_size(rows, columns);
        tcsetwinsize(&self.master, size(columns, rows)).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Whether keys reach the command one by one and without echo.
    pub(crate) fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.master).unwrap().local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
    }

    pub(crate) fn screen(&self) -> &vt100::Screen {
        self.emulator.screen()
    }

    /// Waits for the command's end, and for the terminal to be as it was: no other screen, a cursor, and keys that
    /// echo. Gives the exit code.
    pub(crate) fn end_as_it_began(&mut self) -> i32 {
        let child = &mut self.child;
        let mut status: Option<ExitStatus> = None;
        assert!(
            eventually(PATIENCE, || {
                status = child.try_wait().unwrap();
                status.is_some()
            }),
            "it does not end"
        );
        self.wait("screen as it was", |screen| !screen.alternate_screen() && !screen.hide_cursor());
        let modes = tcgetattr(&self.master).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG), "{modes:?}");
        status.unwrap().code().expect("no signal ended it")
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}
