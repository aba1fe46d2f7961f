//! Inputs of programs that jobs name by the digest of their content: read where the trial is, put once at each place,
//! and given to each worker after its job. A job stays small, and needs no path that is valid elsewhere.

use crate::{error::ExpectedError, plan::Plan};
use base64::{Engine, engine::general_purpose::STANDARD};
use fstrial_model::{
    job::Job,
    units::Bytes,
    workload::{ContentDigest, InputFile},
};
use fstrial_stack::confined::Input;
use rustix::fs::{CWD, Mode, OFlags, openat};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Write},
    path::Path,
    sync::Arc,
};

/// Most bytes of all inputs of a trial: each place keeps them in memory.
pub const MOST: Bytes = Bytes::mib(64);
/// Bytes of a part from place to place: a slow connection still gives a sign of life between two.
const PART: usize = 128 << 10;

/// The content of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    pub digest: ContentDigest,
    pub bytes: Arc<[u8]>,
}

impl Content {
    pub fn of(bytes: Vec<u8>) -> Self {
        let digits: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { digest: format!("sha256:{digits}").parse().expect("64 digits"), bytes: bytes.into() }
    }

    /// Its digest, and what every run of a place shares.
    pub(crate) fn shared(&self) -> (ContentDigest, Arc<[u8]>) {
        (self.digest.clone(), Arc::clone(&self.bytes))
    }

    /// Its parts as text, one of an empty file; true with the last.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (String, bool)> {
        let count = self.bytes.len().div_ceil(PART).max(1);
        (1..=count).map(move |number| {
            let part = &self.bytes[(number - 1) * PART..self.bytes.len().min(number * PART)];
            (STANDARD.encode(part), number == count)
        })
    }
}

/// The inputs of a plan by their digests.
fn named(plan: &Plan) -> BTreeMap<&ContentDigest, &InputFile> {
    let programs = plan.workloads.iter().filter_map(|workload| workload.program());
    let files = programs.flat_map(|timed| timed.program.attached.values());
    files.filter_map(|file| Some((file.digest.as_ref()?, file))).collect()
}

/// True if a plan has inputs.
pub(crate) fn has_some(plan: &Plan) -> bool {
    !named(plan).is_empty()
}

/// Reads the inputs of a plan.
///
/// # Errors
/// One cannot be read, or has changed since the trial was written down; they are too large.
pub(crate) fn read(plan: &Plan) -> Result<Vec<Content>, ExpectedError> {
    let mut left = MOST.0;
    let contents = named(plan).into_iter().map(|(digest, InputFile { file, .. })| {
        let failed = |source| ExpectedError::File { what: "read", path: file.clone(), source };
        let content = read_from(open(file).map_err(failed)?, &mut left).map_err(failed)?;
        match content.digest == *digest {
            true => Ok(content),
            // Its digest would tell of a file that the trial only guesses.
            false => Err(ExpectedError::usage(
                format!("{} is not the file that the trial began with, which was {digest}", file.display()),
                "put the old file back, or begin a new trial with `fstrial run`",
            )),
        }
    });
    contents.collect()
}

/// Opens a regular file by its path from the root.
fn open(path: &Path) -> io::Result<File> {
    if path.is_relative() {
        return Err(io::Error::other("it is not a path from the root"));
    }
    let open =
        |flags| Ok::<_, io::Error>(File::from(openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())?));
    let regular = |file: File| match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    };
    // First as a place only: opening a device may do something.
    regular(open(OFlags::PATH)?)?;
    regular(open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?)
}

/// Reads a file of which this much is left to be read, and counts it.
///
/// # Errors
/// It cannot be read, or is larger.
pub fn read_from(file: File, left: &mut u64) -> io::Result<Content> {
    let mut bytes = Vec::new();
    file.take(*left + 1).read_to_end(&mut bytes)?;
    *left = left
        .checked_sub(bytes.len() as u64)
        .ok_or_else(|| io::Error::other(format!("the inputs of a trial have more than {}", MOST.human())))?;
    Ok(Content::of(bytes))
}

/// The contents that arrive at a place, part by part, one after the other.
#[derive(Default)]
pub(crate) struct Arriving {
    /// The one that has begun.
    begun: Option<(ContentDigest, Vec<u8>)>,
    /// Bytes of all.
    bytes: u64,
}

impl Arriving {
    /// Takes a part; returns the content with the last one.
    ///
    /// # Errors
    /// The plan has no such input, they are too large, or something else arrived.
    pub(crate) fn take(
        &mut self,
        plan: &Plan,
        digest: &ContentDigest,
        part: &str,
        is_last: bool,
    ) -> Result<Option<Content>, ExpectedError> {
        let refused = |what: &str| ExpectedError::usage(what, "use one version of fstrial everywhere");
        if !named(plan).contains_key(digest) {
            return Err(refused("the trial sends a file that its plan does not have"));
        }
        let part = STANDARD.decode(part).map_err(|_| refused("the trial sends a file that is not Base64"))?;
        self.bytes += part.len() as u64;
        if self.bytes > MOST.0 {
            return Err(refused("the trial sends files that are too large"));
        }
        let (begun, mut bytes) = self.begun.take().unwrap_or_else(|| (digest.clone(), Vec::new()));
        bytes.extend(part);
        if begun != *digest {
            return Err(refused("the trial sends two files at the same time"));
        }
        if !is_last {
            self.begun = Some((begun, bytes));
            return Ok(None);
        }
        let content = Content::of(bytes);
        match content.digest == *digest {
            true => Ok(Some(content)),
            false => Err(refused("a file of the trial was damaged in transit")),
        }
    }
}

/// Sends the contents of a job's files to its worker: of each its length, and its bytes.
///
/// # Errors
/// The worker is gone, or the place lacks one.
pub(crate) fn send(
    job: &Job,
    inputs: &BTreeMap<ContentDigest, Arc<[u8]>>,
    to: &mut impl Write,
) -> io::Result<()> {
    job.attached().try_for_each(|file| {
        let bytes = file.digest.as_ref().and_then(|digest| inputs.get(digest));
        let bytes = bytes.ok_or_else(|| io::Error::other("the place did not get an input of the job"))?;
        to.write_all(&(bytes.len() as u64).to_le_bytes()).and_then(|()| to.write_all(bytes))
    })
}

/// Takes the contents of a job's files, and sets their paths, valid as long as the result lives.
///
/// # Errors
/// They do not come, or there is no memory.
pub(crate) fn receive(job: &mut Job, mut from: impl Read) -> io::Result<Vec<Input>> {
    let take = |file: &mut InputFile| {
        let mut length = [0; 8];
        from.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length).min(MOST.0);
        let mut bytes = Vec::new();
        from.by_ref().take(length).read_to_end(&mut bytes)?;
        let input = Input::new("input", &bytes).map_err(io::Error::other)?;
        file.file = input.path();
        Ok(input)
    };
    job.attached_mut().map(take).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::trial::Trial;

    const TRIAL: &str = "
        [[arm]]
        filesystem = 'ext4'
        [[arm]]
        filesystem = 'xfs'
        [[workload]]
        kind = 'program'
        threads = [1]
        command = ['cat', '{input:a}', '{input:b}']
        inputs = { a = { file = 'PATH', digest = 'DIGEST' }, b = { file = 'PATH', digest = 'DIGEST' } }
        [[workload.metric]]
        name = 'wall'
        measure = 'wall'
    ";

    fn plan(path: &Path, digest: &ContentDigest) -> Plan {
        let text = TRIAL.replace("PATH", &path.display().to_string()).replace("DIGEST", &digest.to_string());
        Plan::new(Trial::parse("trial", &text).unwrap().settled(2).unwrap(), 7).unwrap()
    }

    #[test]
    fn digest_is_that_of_sha256sum() {
        // FIPS 180-2, appendix B.1.
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Content::of(b"abc".to_vec()).digest.to_string(), abc);
    }

    #[test]
    fn parts_arrive_whole_or_not_at_all() {
        for size in [0, 1, PART - 1, PART, PART + 1, 2 * PART] {
            let content = Content::of((0..size).map(|n| (n % 251) as u8).collect());
            let plan = plan(Path::new("/a"), &content.digest);
            let mut arriving = Arriving::default();
            let mut all: Vec<_> = content.parts().collect();
            let (last, rest) = all.split_last_mut().unwrap();
            for (part, is_last) in rest {
                assert!(arriving.take(&plan, &content.digest, part, *is_last).unwrap().is_none());
            }
            let arrived = arriving.take(&plan, &content.digest, &last.0, last.1).unwrap();
            assert_eq!(arrived, Some(content.clone()), "{size}");
            let damaged = arriving.take(&plan, &content.digest, &STANDARD.encode("other"), true).unwrap_err();
            assert!(damaged.to_string().contains("damaged"), "{damaged}");
            let other = Content::of(b"unknown".to_vec()).digest;
            assert!(arriving.take(&plan, &other, "", true).is_err(), "its plan has none");
            assert!(arriving.take(&plan, &content.digest, "!", true).is_err());
        }
        let content = Content::of(vec![7; PART]);
        let (plan, mut arriving) = (plan(Path::new("/a"), &content.digest), Arriving::default());
        let mut take = || arriving.take(&plan, &content.digest, &STANDARD.encode(&content.bytes), false);
        let most = MOST.0 as usize / PART;
        assert!((0..most).all(|_| take().is_ok()) && take().is_err(), "a place has limits");
    }

    #[test]
    fn only_the_file_that_the_trial_began_with_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        std::fs::write(&path, "abc").unwrap();
        let digest = Content::of(b"abc".to_vec()).digest;
        // Two names of one content are read once.
        assert_eq!(read(&plan(&path, &digest)).unwrap_or_default().len(), 1);
        std::fs::write(&path, "abd").unwrap();
        assert!(read(&plan(&path, &digest)).unwrap_err().to_string().contains("is not the file"));
        for odd in ["/dev/zero", "/dev", "/nowhere/at/all", "rows"] {
            let error = read(&plan(Path::new(odd), &digest)).unwrap_err();
            assert!(error.to_string().starts_with("could not read"), "{odd}: {error}");
        }
        let large = File::create(&path).unwrap();
        large.set_len(MOST.0 + 1).unwrap();
        assert!(read(&plan(&path, &digest)).unwrap_err().to_string().contains("more than 64 MiB"));
    }
}
