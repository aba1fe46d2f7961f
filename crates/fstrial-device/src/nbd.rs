//! Shows a served device to a hypervisor, over a socket that is connected already: the server of the NBD protocol (fixed newstyle
//! negotiation, simple replies; <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>). A flush comes as a flush.

use crate::{
    error::DeviceError,
    front::{ExposedDevice, FrontEnd},
    server::Server,
};
use rustix::io::Errno;
use std::{
    cell::RefCell,
    fs::File,
    io::{self, BufReader, Read, Write},
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

const SERVER_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
/// Fixed newstyle, and no zeroes after the answer to an old option.
const HANDSHAKE_FLAGS: u16 = 0b11;
/// Flags are there; flushes and zeroes may be sent.
const EXPORT_FLAGS: u16 = 1 | 1 << 2 | 1 << 6;
/// Discards, too.
const SEND_TRIM: u16 = 1 << 5;
const NO_ZEROES: u32 = 0b10;
const OPTION_EXPORT_NAME: u32 = 1;
const OPTION_ABORT: u32 = 2;
const OPTION_INFO: u32 = 6;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = 1 << 31 | 1;
const INFO_EXPORT: u16 = 0;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;
/// Flag of `WRITE_ZEROES`: do not discard.
const NO_HOLE: u16 = 0b10;
/// The largest option and the largest request that are believed; QEMU sends at most 32 MiB.
const MAX_OPTION: u32 = 4096;
const MAX_LENGTH: u32 = 32 << 20;

/// A connected socket, whose other end is a client's.
pub struct Nbd {
    socket: RefCell<Option<UnixStream>>,
}

impl Nbd {
    /// On this socket.
    pub fn on(socket: OwnedFd) -> Self {
        Self { socket: RefCell::new(Some(socket.into())) }
    }
}

impl FrontEnd for Nbd {
    fn show(&self, server: Arc<Server>, name: &str) -> Result<ExposedDevice, DeviceError> {
        let failed = |error: io::Error| DeviceError::io("serve", name, error);
        let socket = self.socket.take().ok_or_else(|| failed(io::ErrorKind::NotConnected.into()))?;
        let shown = File::from(OwnedFd::from(socket.try_clone().map_err(failed)?));
        let end = HangUp(socket.try_clone().map_err(failed)?);
        let serving = move || {
            // However it ends, the client must not wait for answers: others have the socket open, too.
            let _end = end;
            let _ = serve(&server, socket);
        };
        thread::Builder::new().name("nbd".into()).spawn(serving).map_err(failed)?;
        Ok(ExposedDevice::new(shown, ()))
    }
}

/// Ends a connection when it is dropped.
struct HangUp(UnixStream);

impl Drop for HangUp {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

fn number<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn u16_of(from: &mut impl Read) -> io::Result<u16> {
    number(from).map(u16::from_be_bytes)
}

fn u32_of(from: &mut impl Read) -> io::Result<u32> {
    number(from).map(u32::from_be_bytes)
}

fn u64_of(from: &mut impl Read) -> io::Result<u64> {
    number(from).map(u64::from_be_bytes)
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn serve(server: &Arc<Server>, socket: UnixStream) -> io::Result<()> {
    let mut from = BufReader::with_capacity(1 << 17, socket.try_clone()?);
    let mut to = socket;
    let flags = EXPORT_FLAGS | if server.takes_discards() { SEND_TRIM } else { 0 };
    if !negotiate(server.size(), flags, &mut from, &mut to)? {
        return Ok(());
    }
    let replies = Replies(Arc::new(Mutex::new(to)));
    while transmit(server, &mut from, &replies)? {}
    Ok(())
}

/// Agrees on the options; false if the client gives up.
fn negotiate(size: u64, flags: u16, from: &mut impl Read, to: &mut impl Write) -> io::Result<bool> {
    to.write_all(
        &[&SERVER_MAGIC.to_be_bytes()[..], &OPTION_MAGIC.to_be_bytes(), &HANDSHAKE_FLAGS.to_be_bytes()]
            .concat(),
    )?;
    let flags_of_client = u32_of(from)?;
    if flags_of_client & !u32::from(HANDSHAKE_FLAGS) != 0 {
        return Err(wrong("unknown flags"));
    }
    let has_zeroes = flags_of_client & NO_ZEROES == 0;
    let export = [&size.to_be_bytes()[..], &flags.to_be_bytes()].concat();
    loop {
        if u64_of(from)? != OPTION_MAGIC {
            return Err(wrong("not an option"));
        }
        let (option, length) = (u32_of(from)?, u32_of(from)?);
        if length > MAX_OPTION {
            return Err(wrong("an option of more than 4 KiB"));
        }
        io::copy(&mut from.take(length.into()), &mut io::sink())?;
        let mut reply = |kind: u32, data: &[u8]| {
            let length = u32::try_from(data.len()).expect("a few bytes").to_be_bytes();
            let head = [option.to_be_bytes(), kind.to_be_bytes(), length].concat();
            to.write_all(&[&OPTION_REPLY_MAGIC.to_be_bytes()[..], &head, data].concat())
        };
        match option {
            OPTION_EXPORT_NAME => {
                to.write_all(&export)?;
                to.write_all(&[0; 124][..if has_zeroes { 124 } else { 0 }])?;
                return Ok(true);
            }
            OPTION_INFO | OPTION_GO => {
                reply(REPLY_INFO, &[&INFO_EXPORT.to_be_bytes()[..], &export].concat())?;
                reply(REPLY_ACK, &[])?;
                if option == OPTION_GO {
                    return Ok(true);
                }
            }
            OPTION_ABORT => {
                reply(REPLY_ACK, &[])?;
                return Ok(false);
            }
            _ => reply(REPLY_UNSUPPORTED, &[])?,
        }
    }
}

/// The way back for answers, from any thread.
#[derive(Clone)]
struct Replies(Arc<Mutex<UnixStream>>);

impl Replies {
    /// With the number of an error, or 0.
    fn send(&self, cookie: u64, error: u32, data: &[u8]) {
        let head = [REPLY_MAGIC.to_be_bytes(), error.to_be_bytes()].concat();
        let whole = [&head, &cookie.to_be_bytes()[..], data].concat();
        // A client that has gone wants no answer.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&whole);
    }

    fn refuse(&self, cookie: u64, error: &io::Error) {
        let errno = error.raw_os_error().and_then(|number| u32::try_from(number).ok());
        self.send(cookie, errno.unwrap_or(Errno::IO.raw_os_error().unsigned_abs()), &[]);
    }
}

/// Takes a request; whether there may be more.
fn transmit(server: &Arc<Server>, from: &mut impl Read, replies: &Replies) -> io::Result<bool> {
    if u32_of(from)? != REQUEST_MAGIC {
        return Err(wrong("not a request"));
    }
    let (flags, kind) = (u16_of(from)?, u16_of(from)?);
    let (cookie, offset, length) = (u64_of(from)?, u64_of(from)?, u32_of(from)?);
    if length > MAX_LENGTH && kind != TRIM && kind != WRITE_ZEROES {
        return Err(wrong("a request of more than 32 MiB"));
    }
    let done = replies.clone();
    let done = move || done.send(cookie, 0, &[]);
    let request = match kind {
        READ => match server.read(offset, length) {
            Ok((request, data)) => {
                let replies = replies.clone();
                server.submit(request, Box::new(move || replies.send(cookie, 0, &data)));
                return Ok(true);
            }
            Err(error) => Err(error),
        },
        WRITE => {
            let mut data = vec![0; length as usize];
            from.read_exact(&mut data)?;
            server.write(offset, &data)
        }
        DISCONNECT => return Ok(false),
        FLUSH => Ok(Server::flush()),
        TRIM => server.discard(offset, length.into()),
        WRITE_ZEROES => server.write_zeroes(offset, length.into(), flags & NO_HOLE == 0),
        _ => Err(Errno::INVAL.into()),
    };
    match request {
        Ok(request) => server.submit(request, Box::new(done)),
        Err(error) => replies.refuse(cookie, &error),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{backing::Backing, server::Counts};
    use fstrial_model::{device_model::DeviceModel, units::Bytes};

    /// A client in the middle of an exchange, as QEMU has it: `NBD_OPT_STRUCTURED_REPLY` first, then `NBD_OPT_GO`.
    fn connected() -> (Arc<Server>, ExposedDevice, UnixStream) {
        let server = Server::start(DeviceModel::default(), Backing::in_memory(Bytes::mib(1)).unwrap());
        let (mut client, theirs) = UnixStream::pair().unwrap();
        let shown = Nbd::on(theirs.into()).show(Arc::clone(&server), "a device").unwrap();
        assert_eq!(&number::<8>(&mut client).unwrap(), b"NBDMAGIC");
        assert_eq!(&number::<8>(&mut client).unwrap(), b"IHAVEOPT");
        assert_eq!(u16_of(&mut client).unwrap(), 3);
        client.write_all(&3_u32.to_be_bytes()).unwrap();
        let ask = |client: &mut UnixStream, option: u32, data: &[u8]| {
            let length = u32::try_from(data.len()).unwrap();
            client.write_all(b"IHAVEOPT").unwrap();
            client.write_all(&[&option.to_be_bytes()[..], &length.to_be_bytes(), data].concat()).unwrap();
        };
        let answer = |client: &mut UnixStream| {
            assert_eq!(u64_of(client).unwrap(), 0x0003_e889_0455_65a9);
            let (option, kind, length) =
                (u32_of(client).unwrap(), u32_of(client).unwrap(), u32_of(client).unwrap());
            let mut data = vec![0; length as usize];
            client.read_exact(&mut data).unwrap();
            (option, kind, data)
        };
        ask(&mut client, 8, &[]);
        assert_eq!(answer(&mut client), (8, 0x8000_0001, vec![]));
        ask(&mut client, 7, &[0; 6]);
        let (option, kind, data) = answer(&mut client);
        assert_eq!((option, kind), (7, 3));
        assert_eq!(data[..10], [&[0, 0][..], &(1_u64 << 20).to_be_bytes()].concat()[..]);
        assert_eq!(answer(&mut client), (7, 1, vec![]));
        (server, shown, client)
    }

    /// The error and the data of an answer.
    fn requested(
        client: &mut UnixStream,
        kind: u16,
        offset: u64,
        length: u32,
        data: &[u8],
        back: usize,
    ) -> (u32, Vec<u8>) {
        let head = [&0x2560_9513_u32.to_be_bytes()[..], &0_u16.to_be_bytes(), &kind.to_be_bytes()].concat();
        let rest = [&7_u64.to_be_bytes()[..], &offset.to_be_bytes(), &length.to_be_bytes(), data].concat();
        client.write_all(&[head, rest].concat()).unwrap();
        assert_eq!(u32_of(client).unwrap(), 0x6744_6698);
        let error = u32_of(client).unwrap();
        assert_eq!(u64_of(client).unwrap(), 7);
        let mut data = vec![0; if error == 0 { back } else { 0 }];
        client.read_exact(&mut data).unwrap();
        (error, data)
    }

    #[test]
    fn requests_of_every_kind_are_done_and_counted() {
        let (server, _shown, mut client) = connected();
        let none = (0, Vec::new());
        assert_eq!(requested(&mut client, WRITE, 4096, 4, b"data", 0), none);
        assert_eq!(requested(&mut client, FLUSH, 0, 0, &[], 0), none);
        assert_eq!(requested(&mut client, READ, 4095, 6, &[], 6), (0, b"\0data\0".to_vec()));
        assert_eq!(requested(&mut client, WRITE_ZEROES, 4096, 2, &[], 0), none);
        assert_eq!(requested(&mut client, READ, 4096, 4, &[], 4), (0, b"\0\0ta".to_vec()));
        assert_eq!(requested(&mut client, TRIM, 0, 4096, &[], 0).0, 95, "its model has no discards");
        assert_eq!(requested(&mut client, READ, (1 << 20) - 1, 2, &[], 0).0, 22, "beyond the end");
        assert_eq!(requested(&mut client, WRITE, 1 << 20, 2, b"ab", 0).0, 28, "beyond the end");
        assert_eq!(requested(&mut client, 9, 0, 0, &[], 0).0, 22, "unknown");
        let counts =
            Counts { reads: 2, bytes_read: 10, writes: 2, bytes_written: 6, flushes: 1, ..Counts::default() };
        assert_eq!(server.counts(), counts);
    }

    /// Closed, or reset where something was not read.
    fn assert_ended(client: &mut UnixStream) {
        assert!(!matches!(client.read(&mut [0]), Ok(1..)));
    }

    #[test]
    fn nonsense_ends_the_connection() {
        let (_server, _shown, mut client) = connected();
        client.write_all(&[0xff; 28]).unwrap();
        assert_ended(&mut client);
        let (_server, _shown, mut client) = connected();
        let head = [&0x2560_9513_u32.to_be_bytes()[..], &0_u16.to_be_bytes(), &WRITE.to_be_bytes()].concat();
        client.write_all(&[&head[..], &[0; 16], &u32::MAX.to_be_bytes()].concat()).unwrap();
        // Four gibibytes are not allocated.
        assert_ended(&mut client);
    }
}
