//! A catalogue of the places where the kernel waits: it names the reason for a wait by the functions of its stack.
//!
//! A row applies to a stack that has all of its functions; the first row counts. Special rows come first, those that only say
//! how a thread waits last. Kernels differ in the names of functions, so a row may be without effect on one.

use crate::rows::words;
use serde::{Deserialize, Serialize};

words! {
    /// A kind of thread time. Together they are all of it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Category {
        /// On a processor.
        "processor" Processor,
        /// Waiting for a lock, spinning included.
        "lock" Lock,
        /// Waiting for the device.
        "io" Io,
        /// Waiting for a filesystem's journal, log or transaction.
        "journal" Journal,
        /// Waiting because there are too many dirty pages or writes.
        "throttling" Throttling,
        /// Waiting for time to pass.
        "sleep" Sleep,
        /// Waiting for another thread or process.
        "others" Others,
        /// Runnable, and not on a processor.
        "runnable" Runnable,
        /// Waiting at a place that the catalogue does not know.
        "unknown" Unknown,
    }
}

/// Reason for which a thread does not get on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cause {
    /// Its kind.
    pub category: Category,
    /// The thing that is waited for, to follow "for"; on a processor the mode.
    pub what: String,
}

/// Reason for a wait with these functions in its stack.
struct Row {
    functions: &'static [&'static str],
    category: Category,
    /// Completes "waiting for".
    what: &'static str,
    /// The thread spins there. Others of a lock may be on a processor too, as they go to sleep and wake up.
    spins: bool,
}

const fn row(category: Category, functions: &'static [&'static str], what: &'static str) -> Row {
    Row { functions, category, what, spins: false }
}

/// A lock for which a thread spins in a function.
const fn spin(functions: &'static [&'static str], what: &'static str) -> Row {
    Row { functions, category: Category::Lock, what, spins: true }
}

const ROWS: &[Row] = &[
    // Throttling of writers.
    row(Category::Throttling, &["balance_dirty_pages"], "dirty pages to be written (balance_dirty_pages)"),
    row(Category::Throttling, &["rq_qos_wait"], "the block layer's throttling"),
    row(Category::Throttling, &["ioc_rqos_throttle"], "the block layer's throttling"),
    row(Category::Throttling, &["__mem_cgroup_handle_over_high"], "memory to be reclaimed"),
    row(Category::Throttling, &["mem_cgroup_handle_over_high"], "memory to be reclaimed"),
    row(Category::Throttling, &["try_to_free_mem_cgroup_pages"], "memory to be reclaimed"),
    row(Category::Throttling, &["try_to_free_pages"], "memory to be reclaimed"),
    // The journals and logs of filesystems. fs/jbd2.
    row(Category::Journal, &["jbd2_log_wait_commit"], "the journal's commit"),
    row(Category::Journal, &["wait_transaction_locked"], "a transaction that is being committed"),
    row(Category::Journal, &["add_transaction_credits"], "room in the running transaction"),
    row(Category::Journal, &["__jbd2_log_wait_for_space"], "space in the journal"),
    row(Category::Journal, &["jbd2_fc_begin_commit"], "another thread's fast commit"),
    row(Category::Journal, &["ext4_fc_commit"], "the fast commit"),
    row(Category::Journal, &["do_get_write_access"], "a block that the committing transaction writes"),
    // fs/xfs.
    row(Category::Journal, &["xlog_wait_on_iclog"], "the write of the log"),
    row(Category::Journal, &["xlog_force_lsn"], "another thread's write of the log"),
    row(Category::Journal, &["xlog_grant_head_wait"], "space in the log"),
    row(Category::Journal, &["xlog_state_get_iclog_space"], "space in the log's buffers"),
    row(Category::Journal, &["xlog_cil_push_background"], "the log's pending changes to be written"),
    row(Category::Journal, &["xlog_cil_force_seq"], "the log's pending changes to be formatted"),
    row(Category::Journal, &["xlog_cil_push_now"], "the log's pending changes to be formatted"),
    row(Category::Journal, &["wait_log_commit"], "another thread's commit of the log tree"),
    row(Category::Journal, &["write_all_supers"], "the superblocks and their flush"),
    row(Category::Journal, &["btrfs_wait_tree_log_extents"], "writes of the log tree"),
    // fs/btrfs/tree-log.c: without `ssd` a sync lets others join, for a tick.
    row(
        Category::Sleep,
        &["schedule_timeout", "btrfs_sync_log"],
        "other syncs to join, one tick (btrfs without ssd)",
    ),
    row(Category::Journal, &["__reserve_bytes"], "space for metadata to be reserved"),
    row(Category::Io, &["btrfs_start_ordered_extent_nowriteback"], "writes of the file's data"),
    row(Category::Io, &["btrfs_start_ordered_extent"], "writes of the file's data"),
    row(Category::Journal, &["wait_for_commit"], "the transaction's commit"),
    row(Category::Journal, &["wait_current_trans"], "the transaction's commit"),
    row(Category::Journal, &["btrfs_commit_transaction"], "the transaction's commit"),
    row(Category::Journal, &["start_this_handle"], "a transaction to begin"),
    row(Category::Journal, &["f2fs_issue_checkpoint"], "a checkpoint"),
    // Locks: their call site is the first function outside of `MECHANISMS`.
    row(Category::Lock, &["rwsem_down_write_slowpath"], "an exclusive lock"),
    row(Category::Lock, &["rwsem_down_read_slowpath"], "a shared lock"),
    row(Category::Lock, &["__mutex_lock"], "a mutex"),
    row(Category::Lock, &["percpu_rwsem_wait"], "a shared lock"),
    row(Category::Lock, &["__down_common"], "a semaphore"),
    row(Category::Lock, &["__down"], "a semaphore"),
    row(Category::Lock, &["inode_dio_wait"], "direct I/O of the file to end"),
    spin(&["osq_lock"], "a lock, spinning"),
    spin(&["rwsem_spin_on_owner"], "an exclusive lock, spinning"),
    spin(&["mutex_spin_on_owner"], "a mutex, spinning"),
    spin(&["native_queued_spin_lock_slowpath"], "a spinlock"),
    spin(&["queued_spin_lock_slowpath"], "a spinlock"),
    spin(&["queued_read_lock_slowpath"], "a spinning read lock"),
    spin(&["queued_write_lock_slowpath"], "a spinning write lock"),
    spin(&["__pv_queued_spin_lock_slowpath"], "a spinlock"),
    row(Category::Lock, &["__folio_lock"], "a page's lock"),
    row(Category::Lock, &["__folio_lock_killable"], "a page's lock"),
    // The device.
    row(Category::Io, &["blkdev_issue_flush"], "a flush of the device"),
    row(Category::Io, &["blk_mq_get_tag"], "a free request of the device"),
    row(Category::Io, &["folio_wait_stable"], "pages under write to become stable"),
    row(Category::Io, &["folio_wait_writeback"], "writes of pages"),
    row(Category::Io, &["filemap_read"], "reads of the file's pages"),
    row(Category::Io, &["filemap_fault"], "reads of the file's pages"),
    row(Category::Io, &["iomap_dio_rw"], "direct I/O"),
    row(Category::Io, &["__iomap_dio_rw"], "direct I/O"),
    row(Category::Io, &["read_events"], "asynchronous I/O (io_getevents)"),
    row(Category::Io, &["io_cqring_wait"], "asynchronous I/O (io_uring)"),
    row(Category::Io, &["io_schedule"], "the device"),
    row(Category::Io, &["io_schedule_timeout"], "the device"),
    row(Category::Io, &["blk_io_schedule"], "the device"),
    row(Category::Io, &["xfs_buf_iowait"], "reads of metadata"),
    // Other threads, and time.
    row(Category::Others, &["futex_wait"], "another thread (futex)"),
    row(Category::Others, &["pipe_read"], "a pipe"),
    row(Category::Others, &["pipe_write"], "a pipe"),
    row(Category::Others, &["anon_pipe_read"], "a pipe"),
    row(Category::Others, &["anon_pipe_write"], "a pipe"),
    row(Category::Others, &["do_epoll_wait"], "events (epoll)"),
    row(Category::Others, &["ep_poll"], "events (epoll)"),
    row(Category::Others, &["do_sys_poll"], "events (poll)"),
    row(Category::Others, &["do_wait"], "a child process"),
    row(Category::Sleep, &["hrtimer_nanosleep"], "a sleep in user mode"),
    row(Category::Others, &["__flush_workqueue"], "a worker of the kernel"),
    row(Category::Others, &["__flush_work"], "a worker of the kernel"),
    row(Category::Others, &["btrfs_sync_log"], "other writers of the log tree"),
    row(Category::Others, &["wait_for_completion"], "a worker of the kernel"),
];

/// Functions in which a thread waits until another one of the load has done the same work, and that work: it waits for the same things as
/// that thread waits for.
const JOINS: [(&str, &str); 1] = [("wait_log_commit", "btrfs_sync_log")];

/// The work of another thread that a stack waits for.
pub fn joins<S: AsRef<str>>(frames: &[S]) -> Option<&'static str> {
    JOINS.iter().find(|(waits, _)| is_in(frames, waits)).map(|(_, work)| *work)
}

/// True if a stack is in a function.
pub fn is_in<S: AsRef<str>>(frames: &[S], function: &str) -> bool {
    frames.iter().any(|frame| plain(frame.as_ref()) == function)
}

/// Beginnings of the names of functions that only do the waiting or the locking; the next one outwards is the call site.
const MECHANISMS: [&str; 21] = [
    "__schedule",
    "schedule",
    "io_schedule",
    "__folio_lock",
    "rwsem_",
    "down_",
    "__down",
    "down",
    "__mutex_lock",
    "mutex_lock",
    "mutex_spin",
    "percpu_rwsem",
    "__percpu_down",
    "percpu_down",
    "osq_lock",
    "native_queued_spin",
    "__pv_queued_spin",
    "_raw_spin_lock",
    "_raw_read_lock",
    "_raw_write_lock",
    "wait_for_completion",
];

/// The reason for a wait by its functions, the innermost first; none if the catalogue does not know it.
pub fn cause<S: AsRef<str>>(frames: &[S]) -> Option<Cause> {
    cause_among(frames, |_| true)
}

/// The lock that a running thread spins for.
pub fn spins<S: AsRef<str>>(frames: &[S]) -> Option<Cause> {
    let spins = |row: &Row| row.spins && row.functions.iter().all(|function| is_in(frames, function));
    if !ROWS.iter().any(spins) {
        return None;
    }
    cause_among(frames, |category| category == Category::Lock)
}

fn cause_among<S: AsRef<str>>(frames: &[S], is_wanted: impl Fn(Category) -> bool) -> Option<Cause> {
    let names: Vec<&str> = frames.iter().map(|frame| plain(frame.as_ref())).collect();
    let has_all = |row: &&Row| row.functions.iter().all(|function| names.contains(function));
    let row = ROWS.iter().filter(|row| is_wanted(row.category)).find(has_all)?;
    let site = match row.category {
        Category::Lock => names.iter().find(|name| !MECHANISMS.iter().any(|known| name.starts_with(known))),
        _ => None,
    };
    let what = site.map_or_else(|| row.what.to_owned(), |site| format!("{} in {site}", row.what));
    Some(Cause { category: row.category, what })
}

/// Reasons with the functions that tell them, one entry for each set of functions: kernels differ in their names.
pub fn catalogue() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    ROWS.iter().map(|row| (row.what, row.functions))
}

/// The function of the place where an unknown stack waits.
pub fn place<S: AsRef<str>>(frames: &[S]) -> &str {
    let names = frames.iter().map(|frame| plain(frame.as_ref()));
    let mut outside = names.skip_while(|name| MECHANISMS.iter().any(|known| name.starts_with(known)));
    outside.next().unwrap_or("an unknown place")
}

/// A name without the suffixes of the compiler, such as `.constprop.0`.
fn plain(function: &str) -> &str {
    function.split('.').next().unwrap_or(function)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stacks as Linux 6.18 shows them.
    #[test]
    fn stacks_of_a_kernel_have_their_causes() {
        for (stack, category, what) in [
            (
                "__schedule<schedule<jbd2_log_wait_commit<ext4_sync_file<do_fsync",
                Category::Journal,
                "the journal's commit",
            ),
            (
                "__schedule<schedule<io_schedule<folio_wait_bit<folio_wait_writeback<__filemap_fdatawait_range<xfs_file_fsync",
                Category::Io,
                "writes of pages",
            ),
            (
                "__schedule<schedule<schedule_preempt_disabled<rwsem_down_write_slowpath<down_write<ext4_buffered_write_iter<vfs_write",
                Category::Lock,
                "an exclusive lock in ext4_buffered_write_iter",
            ),
            (
                "__schedule<schedule<schedule_preempt_disabled<__mutex_lock.constprop.0<btrfs_log_inode_parent<btrfs_sync_file",
                Category::Lock,
                "a mutex in btrfs_log_inode_parent",
            ),
            (
                "osq_lock<rwsem_down_write_slowpath<down_write<ext4_buffered_write_iter<vfs_write",
                Category::Lock,
                "an exclusive lock in ext4_buffered_write_iter",
            ),
            (
                "__schedule<schedule<io_schedule<__folio_lock<extent_write_cache_pages<btrfs_writepages<do_writepages",
                Category::Lock,
                "a page's lock in extent_write_cache_pages",
            ),
            (
                "__schedule<schedule<schedule_timeout<btrfs_sync_log<btrfs_sync_file",
                Category::Sleep,
                "other syncs to join, one tick (btrfs without ssd)",
            ),
            (
                "__schedule<schedule<io_schedule_timeout<balance_dirty_pages<balance_dirty_pages_ratelimited_flags<generic_perform_write",
                Category::Throttling,
                "dirty pages to be written (balance_dirty_pages)",
            ),
        ] {
            let frames: Vec<&str> = stack.split('<').collect();
            assert_eq!(cause(&frames), Some(Cause { category, what: what.into() }), "{stack}");
        }
        for stack in ["crc32c_x86_3way<crc32c<csum_tree_block", "__schedule<schedule<some_new_wait<vfs_write"]
        {
            assert_eq!(cause(&stack.split('<').collect::<Vec<_>>()), None, "{stack}");
        }
        let wakes = [
            "finish_task_switch",
            "__schedule",
            "schedule",
            "rwsem_down_read_slowpath",
            "down_read",
            "vfs_read",
        ];
        assert_eq!(spins(&wakes), None);
        let spinning = spins(&["osq_lock", "rwsem_down_write_slowpath", "down_write", "vfs_write"]).unwrap();
        assert_eq!(
            (spinning.category, spinning.what.as_str()),
            (Category::Lock, "an exclusive lock in vfs_write")
        );
        assert_eq!(place(&["__schedule", "schedule", "some_new_wait.isra.0", "vfs_write"]), "some_new_wait");
        assert_eq!(place::<&str>(&[]), "an unknown place");
    }
}
