//! A port to the host whose readers and writers do not block when the host has closed it.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    io::{self, Read, Write},
    os::fd::OwnedFd,
    time::Duration,
};

/// The longest that the host may take to make room for more.
const ROOM: Duration = Duration::from_secs(10);

/// A virtio port, or a socket. On a blocking virtio port a writer waits until the host opens it again; this one does not block.
#[derive(Debug)]
pub struct Port(OwnedFd);

impl Port {
    /// A port on an open file, which is made non-blocking.
    ///
    /// # Errors
    /// The file cannot be made non-blocking.
    pub(crate) fn of(opened: impl Into<OwnedFd>) -> io::Result<Self> {
        let opened = opened.into();
        rustix::io::ioctl_fionbio(&opened, true)?;
        Ok(Self(opened))
    }

    /// The same port for one more that reads or writes.
    ///
    /// # Errors
    /// Too many open files.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Waits until it can be read or written; false: not in this time.
    fn wait(&self, flags: PollFlags, at_most: Option<Duration>) -> io::Result<bool> {
        let at_most = at_most.map(|time| Timespec::try_from(time).expect("seconds"));
        let mut port = [PollFd::new(&self.0, flags)];
        poll(&mut port, at_most.as_ref())?;
        let result = port[0].revents();
        if flags.contains(PollFlags::OUT) && result.intersects(PollFlags::HUP | PollFlags::ERR) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(!result.is_empty())
    }
}

impl Read for Port {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::io::read(&self.0, &mut *buffer) {
                Err(rustix::io::Errno::AGAIN) => self.wait(PollFlags::IN, None).map(drop)?,
                other => return Ok(other?),
            }
        }
    }
}

impl Write for Port {
    /// # Errors
    /// The other end is closed, or stays full until the timeout.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            if !self.wait(PollFlags::OUT, Some(ROOM))? {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match rustix::io::write(&self.0, bytes) {
                Err(rustix::io::Errno::AGAIN) => {}
                other => return Ok(other?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::net::UnixStream, thread};

    #[test]
    fn port_transfers_long_data_in_both_directions() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut port = Port::of(ours).unwrap();
        let long = vec![b'x'; 4 << 20];
        let echo = thread::spawn(move || {
            let mut all = vec![0; 4 << 20];
            theirs.read_exact(&mut all).unwrap();
            theirs.write_all(&all).unwrap();
        });
        port.write_all(&long).unwrap();
        let mut back = Vec::new();
        port.try_clone().unwrap().read_to_end(&mut back).unwrap();
        echo.join().unwrap();
        assert!(back == long);
    }

    #[test]
    fn closed_peer_fails_writes_and_ends_reads() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut port = Port::of(ours).unwrap();
        drop(theirs);
        assert_eq!(port.write(b"order").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(port.read(&mut [0]).unwrap(), 0);
    }
}
