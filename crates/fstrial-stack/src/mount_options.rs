//! The mount option refused by the kernel, with its message, and the nearest one that it accepts. mount(8) reports only
//! a generic failure.
//!
//! Each option is tried on its own in a filesystem context (fsopen, fsconfig), which is discarded: nothing is mounted.
//! The kernel's message is read from the context. A filesystem whose driver does not use contexts yet accepts
//! everything there, and then there is nothing to report.

use fstrial_model::problem::closest_spelling;
use rustix::{
    fd::OwnedFd,
    io::Errno,
    mount::{FsOpenFlags, fsconfig_set_flag, fsconfig_set_string, fsopen},
};

/// Options that mount(8) sets on the mount itself; a filesystem's context does not accept these words.
const OF_THE_MOUNT: &str = "rw ro atime noatime relatime norelatime strictatime nostrictatime diratime nodiratime suid \
    nosuid dev nodev exec noexec symfollow nosymfollow silent loud iversion noiversion sync async dirsync lazytime \
    nolazytime mand nomand";

/// Options of filesystems, as candidates for the nearest; the kernel is asked which it accepts. Those with a value have
/// a common one.
const OF_FILESYSTEMS: &str = "acl noacl user_xattr nouser_xattr data=ordered data=writeback data=journal commit=5 \
    barrier nobarrier barrier=1 delalloc nodelalloc journal_checksum journal_async_commit noload norecovery discard \
    nodiscard discard=async discard=sync dax=never dax=always inode_readahead_blks=32 stripe=16 auto_da_alloc \
    noauto_da_alloc dioread_lock dioread_nolock min_batch_time=0 max_batch_time=15000 journal_ioprio=3 block_validity \
    noblock_validity init_itable noinit_itable mb_optimize_scan=1 errors=continue errors=remount-ro bsddf minixdf \
    grpid nogrpid quota noquota usrquota grpquota uquota gquota pquota prjquota allocsize=64k attr2 inode32 inode64 \
    largeio nolargeio logbufs=8 logbsize=256k noalign nouuid swalloc sunit=128 swidth=512 wsync ikeep noikeep \
    filestreams lifetime nolifetime autodefrag noautodefrag compress compress=zstd compress=lzo compress=zlib \
    compress=no compress-force compress-force=zstd datacow nodatacow datasum nodatasum flushoncommit noflushoncommit \
    max_inline=2048 metadata_ratio=0 space_cache=v2 nospace_cache clear_cache ssd nossd ssd_spread nossd_spread \
    thread_pool=4 treelog notreelog degraded skip_balance background_gc=on background_gc=off mode=adaptive mode=lfs \
    active_logs=6 inline_data noinline_data inline_dentry noinline_dentry extent_cache noextent_cache fastboot \
    flush_merge noflush_merge fsync_mode=posix fsync_mode=strict alloc_mode=default alloc_mode=reuse checkpoint_merge \
    nocheckpoint_merge gc_merge nogc_merge atgc compress_algorithm=lz4 compress_algorithm=zstd order=relaxed \
    order=strict pp nopp integrity nointegrity iocharset=utf8";

/// An option that the kernel refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// As requested.
    pub(crate) option: String,
    /// The kernel's message.
    pub(crate) says: String,
    /// The likely intended option.
    pub(crate) near: Option<String>,
}

/// The first of some mount options that the kernel refuses for a filesystem; none if it accepts each on its own, or
/// cannot be asked.
pub(crate) fn refusal(filesystem: &str, options: &[String]) -> Option<Refusal> {
    // A word of the user's may hold several, as mount(8) splits them.
    let mut all = options.iter().flat_map(|option| option.split(','));
    first_refused(&mut all, &mut |option| refused(filesystem, option))
}

/// As [`refusal`]; `ask` returns the kernel's refusal of an option.
fn first_refused(
    options: &mut dyn Iterator<Item = &str>,
    ask: &mut dyn FnMut(&str) -> Option<String>,
) -> Option<Refusal> {
    let (option, says) = options
        .filter(|option| !is_of_the_mount(option))
        .find_map(|option| Some((option.to_owned(), ask(option)?)))?;
    let near = near(&option, &mut |option| ask(option).is_none());
    Some(Refusal { option, says, near })
}

/// The accepted option nearest to a refused one. If a known option has a bad value, only other values of it are near.
fn near(option: &str, takes: &mut dyn FnMut(&str) -> bool) -> Option<String> {
    let value = option.split_once('=').map(|(_, value)| value);
    let all = || OF_FILESYSTEMS.split_whitespace().chain(OF_THE_MOUNT.split_whitespace());
    let is_known_key = all().any(|known| key_of(known) == key_of(option));
    // Whole options of one key are compared, or keys.
    let shown = |known: &'static str| if is_known_key { known } else { key_of(known) };
    let requested = if is_known_key { option } else { key_of(option) };
    let mut candidates: Vec<&'static str> =
        all().filter(|known| !is_known_key || key_of(known) == key_of(option)).collect();
    while let Some(nearest) = closest_spelling(requested, candidates.iter().map(|known| shown(known))) {
        let is_found =
            |known: &&'static str| shown(known) == nearest && known.contains('=') == value.is_some();
        let place = candidates.iter().position(is_found);
        let known = candidates.remove(place.or(candidates.iter().position(|known| shown(known) == nearest))?);
        if is_of_the_mount(known) || takes(known) {
            return Some(match (is_known_key, known.contains('='), value) {
                (false, true, Some(value)) => format!("{}={value}", key_of(known)),
                _ => known.to_owned(),
            });
        }
    }
    None
}

/// An option without its value.
pub(crate) fn key_of(option: &str) -> &str {
    option.split('=').next().unwrap_or(option)
}

fn is_of_the_mount(option: &str) -> bool {
    OF_THE_MOUNT.split_whitespace().any(|known| known == option)
}

/// The kernel's message for an option that it refuses; none if it accepts it, or cannot be asked.
fn refused(filesystem: &str, option: &str) -> Option<String> {
    let context = fsopen(filesystem, FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
    let set = match option.split_once('=') {
        Some((key, value)) => fsconfig_set_string(&context, key, value),
        None => fsconfig_set_flag(&context, option),
    };
    let error = set.err()?;
    Some(words_of(&context).unwrap_or_else(|| std::io::Error::from(error).to_string()))
}

/// The errors that a context holds, without the letter that marks them as such.
fn words_of(context: &OwnedFd) -> Option<String> {
    let mut message = Vec::new();
    let mut line = [0; 512];
    // Each read gives one message; ENODATA is the end.
    while let Ok(length) = retry(|| rustix::io::read(context, &mut line)) {
        let text = String::from_utf8_lossy(&line[..length]).trim().to_owned();
        message.extend(text.strip_prefix("e ").map(|words| words.replace(char::is_control, " ")));
        if length == 0 || message.len() > 8 {
            break;
        }
    }
    message.pop()
}

fn retry(mut call: impl FnMut() -> rustix::io::Result<usize>) -> rustix::io::Result<usize> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that takes these options.
    fn kernel(known: &'static [&str]) -> impl FnMut(&str) -> Option<String> {
        move |option| (!known.contains(&option)).then(|| format!("Unknown parameter '{option}'"))
    }

    fn result(options: &[&str], known: &'static [&str]) -> Option<Refusal> {
        first_refused(&mut options.iter().copied(), &mut kernel(known))
    }

    #[test]
    fn refused_option_suggests_nearest_accepted_option() {
        for (option, known, near) in [
            ("noatim", &["barrier"][..], Some("noatime")),
            ("nobarier", &["nobarrier"], Some("nobarrier")),
            ("nobarier", &["discard"], None),
            ("comit=30", &["commit=5"], Some("commit=30")),
            ("data=writebak", &["data=writeback", "data=journal"], Some("data=writeback")),
            ("data=writebak", &["compress=zstd"], None),
            ("compres=zstd:3", &["compress", "compress=zstd"], Some("compress=zstd:3")),
            ("nonsense", &["discard"], None),
        ] {
            let refused = result(&["noatime", option], known).unwrap();
            assert_eq!((refused.option.as_str(), refused.near.as_deref()), (option, near), "{option}");
            assert_eq!(refused.says, format!("Unknown parameter '{option}'"));
        }
    }

    #[test]
    fn accepted_options_are_not_reported() {
        assert_eq!(result(&["noatime", "discard"], &["discard"]), None);
        assert_eq!(result(&[], &[]), None);
    }

    #[test]
    fn running_kernel_names_refused_option() {
        // Needs root, and a driver that has been moved to contexts; tmpfs is built into every kernel.
        let Some(message) = refused("tmpfs", "nosuchword") else { return };
        assert!(message.contains("nosuchword"), "{message}");
        assert_eq!(refused("tmpfs", "size=1m"), None);
    }
}
