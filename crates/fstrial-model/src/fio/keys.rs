//! Every key of fio 3.33 with what is made of it: the one table that decides whether a job file runs natively.
//!
//! Read from `fio --cmdhelp=all` and `fio --enghelp=…`; the meanings were looked up with strace where the manual leaves
//! them open. `docs/fio.md` prints the same table, and a test holds the two together.

use Treatment::{Exact, Foreign, Note, Refused};
use ValueKind::{Bool, Flag, Floats, Micros, Number, Numbers, Range, Seconds, Text};

/// What is made of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Treatment {
    /// It has a native form; values that have none make the job run through fio.
    Exact,
    /// It does not change what is measured, or only in a way that is said in a note.
    Note,
    /// Only fio does it: the job runs through fio, unless the value is the one that does nothing.
    Foreign,
    /// It reaches beyond the files of the arm, or changes the machine: such a job file is not run.
    Refused,
}

impl Treatment {
    /// The word in the table of `docs/fio.md`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Note => "note",
            Self::Foreign => "through fio",
            Self::Refused => "refused",
        }
    }
}

/// What the value of a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// Words with a meaning of their own.
    Text,
    /// One number, perhaps with a unit of size, or a percentage.
    Number,
    /// One number, or two with a dash between them.
    Range,
    /// Up to three numbers, for reads, writes and trims.
    Numbers,
    /// A time whose bare number is seconds.
    Seconds,
    /// A time whose bare number is microseconds.
    Micros,
    /// `0` or `1`, which must be there.
    Bool,
    /// `0`, `1` or no value at all, which means 1.
    Flag,
    /// Numbers with a fraction, separated by colons.
    Floats,
}

/// A key of a job file.
#[derive(Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its other name, or nothing.
    pub alias: &'static str,
    /// What its value is.
    pub kind: ValueKind,
    /// What is made of it.
    pub treatment: Treatment,
    /// Values that do nothing, separated by blanks.
    pub neutral: &'static str,
    /// Why it is treated so, in lower case.
    pub why: &'static str,
}

const fn key(
    name: &'static str,
    alias: &'static str,
    kind: ValueKind,
    treatment: Treatment,
    neutral: &'static str,
    why: &'static str,
) -> Key {
    Key { name, alias, kind, treatment, neutral, why }
}

impl Key {
    /// Finds a key by its name or its other name.
    pub fn find(word: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == word || (!key.alias.is_empty() && key.alias == word))
    }

    /// Whether a value does nothing.
    pub(crate) fn is_neutral(&self, text: &str) -> bool {
        self.neutral.split_whitespace().any(|neutral| neutral == text)
    }
}

const NAME_ONLY: &str = "a name; nothing measured depends on it";
const REPORT: &str = "it shapes fio's report only; fstrial keeps every latency and a series of its own";
const CLOCK: &str = "fio would read its clock less often; the native engine times every request, `fstrial doctor` says at what cost";
const LOG: &str = "it shapes the lines of fio's logs, which are not written";
const LOG_FILE: &str = "it writes files of its own; every run's series and latencies are stored, and \
                        `fstrial results fio` gives them in fio's form";
const ZONES: &str = "the native engine knows no zones";
const VERIFY: &str = "the native engine does not verify what it reads";
const REPLAY: &str = "a replay opens the files that are named in the log";
const TRIM: &str = "the native engine does not trim";
const PLACE: &str = "the native engine does not bind its threads to processors or memory";
const PRIORITY: &str = "the native engine does not change priorities";
const THINK: &str = "the native engine does not think between requests";
const RATE: &str = "the native rate has no other rule than its own";
const TARGET: &str = "the native engine does not search for a depth";
const STEADY: &str = "native runs end after a time or an amount";
const BATCH: &str = "the native engine submits what is free and reaps what is done";
const FLOW: &str = "the native engine does not balance jobs by tokens";
const DEDUPE: &str = "the native data has a share of duplicates, not a way to choose them";
const CGROUP: &str =
    "it makes control groups on this host; that is the trial's to do, the same for every arm";
const NO_PRIORITY: &str = "requests of a priority of their own have no native form";
const RANDOM: &str = "the trial draws the seed of each round, the same for every arm";

/// The table, in the order of `fio --cmdhelp=all`, then the keys of engines.
pub const KEYS: &[Key] = &[
    key("description", "", Text, Note, "", "a remark; it is not given to fio"),
    key("name", "", Text, Exact, "", NAME_ONLY),
    key("wait_for", "", Text, Foreign, "", "phases follow each other at `stonewall` only"),
    key(
        "filename",
        "",
        Text,
        Exact,
        "",
        "files that all clones of the job share; for a device or a path there is a file of the arm, with a note",
    ),
    key("lockfile", "", Text, Foreign, "none", "the native engine takes no locks on files"),
    key("directory", "", Text, Note, "", "files are made in the arm's own directory instead"),
    key(
        "filename_format",
        "",
        Text,
        Foreign,
        "$jobname.$jobnum.$filenum",
        "native files have names of their own",
    ),
    key("unique_filename", "", Bool, Note, "", "it is for fio's clients on other machines"),
    key("opendir", "", Text, Refused, "", "it would use every file it finds"),
    key("rw", "readwrite", Text, Exact, "", "reads and writes; trims and offset modifiers run through fio"),
    key(
        "bs",
        "blocksize",
        Numbers,
        Exact,
        "",
        "one size for every request; another for reads than for writes runs through fio",
    ),
    key("ba", "blockalign", Numbers, Exact, "", "the same as bs; anything else runs through fio"),
    key("bsrange", "blocksize_range", Text, Foreign, "", "native requests all have one size"),
    key("bssplit", "", Text, Foreign, "", "native requests all have one size"),
    key(
        "bs_unaligned",
        "blocksize_unaligned",
        Flag,
        Foreign,
        "0",
        "native requests are aligned to their size",
    ),
    key("bs_is_seq_rand", "", Bool, Foreign, "0", "native requests all have one size"),
    key("randrepeat", "", Bool, Note, "", RANDOM),
    key("randseed", "", Text, Note, "", RANDOM),
    key(
        "norandommap",
        "",
        Flag,
        Exact,
        "",
        "without it, each block is visited once before any again, as here with `each_block_once`",
    ),
    key("softrandommap", "", Bool, Note, "", "it says what to do when there is no memory for the random map"),
    key("ignore_error", "", Text, Foreign, "", "an error is an outcome of the arm"),
    key("rw_sequencer", "", Text, Foreign, "sequential", "it belongs to offset modifiers"),
    key(
        "ioengine",
        "",
        Text,
        Exact,
        "",
        "sync, psync, vsync, pvsync, pvsync2, libaio, io_uring and mmap; other engines for files run through fio",
    ),
    key("iodepth", "", Number, Exact, "", "requests in flight for each thread"),
    key("iodepth_batch", "iodepth_batch_submit", Number, Foreign, "1", BATCH),
    key("iodepth_batch_complete_min", "iodepth_batch_complete", Number, Foreign, "1", BATCH),
    key("iodepth_batch_complete_max", "", Number, Foreign, "", BATCH),
    key("iodepth_low", "", Number, Foreign, "", BATCH),
    key(
        "serialize_overlap",
        "",
        Bool,
        Foreign,
        "0",
        "the native engine does not look for requests that overlap",
    ),
    key("io_submit_mode", "", Text, Foreign, "inline", "native threads submit their own requests"),
    key(
        "size",
        "",
        Number,
        Exact,
        "",
        "bytes of each clone's files, and what it transfers unless it is time_based",
    ),
    key("io_size", "io_limit", Number, Exact, "", "what each clone transfers"),
    key("fill_device", "fill_fs", Bool, Foreign, "0", "native files have a size"),
    key("filesize", "", Range, Exact, "", "one size for each file; a range runs through fio"),
    key("file_append", "", Bool, Foreign, "0", "native appends start with an empty file"),
    key("offset", "fileoffset", Number, Foreign, "0 0%", "native requests go to the whole file"),
    key(
        "offset_increment",
        "",
        Number,
        Exact,
        "",
        "with a shared file and steps of `size`: a region for each thread; else through fio",
    ),
    key("offset_align", "", Number, Foreign, "0", "native offsets are multiples of the block size"),
    key("number_ios", "", Number, Exact, "", "an end after that many requests; with time_based through fio"),
    key(
        "random_generator",
        "",
        Text,
        Note,
        "",
        "offsets come from another generator; that each block comes once is kept",
    ),
    key(
        "random_distribution",
        "",
        Text,
        Exact,
        "",
        "random, and zipf over one file; zipf over a file that clones share, pareto, normal, zones and centres run through fio",
    ),
    key("percentage_random", "", Numbers, Foreign, "100", "native access is random or sequential"),
    key("allrandrepeat", "", Bool, Note, "", RANDOM),
    key("nrfiles", "nr_files", Number, Exact, "", "files of each clone"),
    key(
        "file_service_type",
        "",
        Text,
        Exact,
        "",
        "several files: random with random access, sequential with sequential; else through fio",
    ),
    key("openfiles", "", Number, Foreign, "", "native files all stay open"),
    key(
        "fallocate",
        "",
        Text,
        Exact,
        "",
        "how files that are only written are laid out; keep runs through fio",
    ),
    key(
        "fadvise_hint",
        "",
        Text,
        Exact,
        "",
        "without effect on direct I/O; reads through the page cache are native with 0 only",
    ),
    key("fsync", "", Number, Exact, "", "an fsync after that many writes of a thread; in a mix through fio"),
    key(
        "fdatasync",
        "",
        Number,
        Exact,
        "",
        "an fdatasync after that many writes of a thread; in a mix through fio",
    ),
    key("write_barrier", "", Number, Foreign, "0", "the native engine sends no barriers"),
    key("sync_file_range", "", Text, Foreign, "", "native calls of it cover the whole file and wait"),
    key("direct", "", Bool, Exact, "", "past the page cache"),
    key("atomic", "", Bool, Foreign, "0", "the native engine has no atomic writes"),
    key("buffered", "", Bool, Exact, "", "the opposite of direct; the later of the two counts"),
    key("overwrite", "", Bool, Exact, "", "files are written before they are overwritten"),
    key("loops", "", Number, Foreign, "1", "a native run is done once; rounds repeat it"),
    key("numjobs", "", Number, Exact, "", "threads: the one level of the workload"),
    key("startdelay", "", Text, Foreign, "0", "native threads start at one instant"),
    key(
        "runtime",
        "timeout",
        Seconds,
        Exact,
        "",
        "time measured, with time_based; without it there is an end at size as well, and the job runs through fio",
    ),
    key("time_based", "", Flag, Exact, "", "run for the whole runtime"),
    key("verify_only", "", Flag, Foreign, "0", VERIFY),
    key("ramp_time", "", Seconds, Exact, "", "time before the clock starts; without time_based through fio"),
    key("clocksource", "", Text, Note, "", "the native engine chooses its clock and says which"),
    key("mem", "iomem", Text, Foreign, "malloc", "native buffers are ordinary aligned memory"),
    key("iomem_align", "mem_align", Number, Foreign, "0", "native buffers are aligned to pages"),
    key("verify", "", Text, Foreign, "0", VERIFY),
    key("do_verify", "", Bool, Foreign, "", VERIFY),
    key("verify_interval", "", Number, Foreign, "", VERIFY),
    key("verify_offset", "", Number, Foreign, "", VERIFY),
    key("verify_pattern", "", Text, Foreign, "", VERIFY),
    key("verify_fatal", "", Bool, Foreign, "", VERIFY),
    key("verify_dump", "", Bool, Refused, "0", "it writes blocks to files of its own"),
    key("verify_async", "", Number, Foreign, "", VERIFY),
    key("verify_async_cpus", "", Text, Foreign, "", VERIFY),
    key("verify_backlog", "", Text, Foreign, "", VERIFY),
    key("verify_backlog_batch", "", Number, Foreign, "", VERIFY),
    key("experimental_verify", "", Bool, Foreign, "0", VERIFY),
    key("verify_state_load", "", Bool, Refused, "0", "it reads a file of an earlier job"),
    key("verify_state_save", "", Bool, Refused, "0", "it writes a file of its own"),
    key("trim_percentage", "", Number, Foreign, "0", TRIM),
    key("trim_verify_zero", "", Bool, Foreign, "", TRIM),
    key("trim_backlog", "", Text, Foreign, "", TRIM),
    key("trim_backlog_batch", "", Number, Foreign, "", TRIM),
    key("write_iolog", "", Text, Refused, "", "it writes a file of its own"),
    key("read_iolog", "", Text, Refused, "", REPLAY),
    key("read_iolog_chunked", "", Bool, Refused, "", REPLAY),
    key("replay_no_stall", "", Bool, Refused, "", REPLAY),
    key("replay_redirect", "", Text, Refused, "", REPLAY),
    key("replay_scale", "", Number, Refused, "", REPLAY),
    key("replay_align", "", Number, Refused, "", REPLAY),
    key("replay_time_scale", "", Number, Refused, "", REPLAY),
    key("replay_skip", "", Text, Refused, "", REPLAY),
    key("merge_blktrace_file", "", Text, Refused, "", REPLAY),
    key("merge_blktrace_scalars", "", Floats, Refused, "", REPLAY),
    key("merge_blktrace_iters", "", Floats, Refused, "", REPLAY),
    key("exec_prerun", "", Text, Refused, "", "it runs a command"),
    key("exec_postrun", "", Text, Refused, "", "it runs a command"),
    key(
        "ioscheduler",
        "",
        Text,
        Refused,
        "",
        "it sets the scheduler of the device; write scheduler= on the arm, where it is put back",
    ),
    key("zonemode", "", Text, Foreign, "none", ZONES),
    key("zonesize", "", Text, Foreign, "0", ZONES),
    key("zonecapacity", "", Text, Foreign, "0", ZONES),
    key("zonerange", "", Text, Foreign, "0", ZONES),
    key("zoneskip", "", Text, Foreign, "0", ZONES),
    key("read_beyond_wp", "", Bool, Foreign, "0", ZONES),
    key("max_open_zones", "", Number, Foreign, "0", ZONES),
    key("job_max_open_zones", "", Number, Foreign, "0", ZONES),
    key("ignore_zone_limits", "", Bool, Foreign, "0", ZONES),
    key("zone_reset_threshold", "", Floats, Foreign, "0", ZONES),
    key("zone_reset_frequency", "", Floats, Foreign, "0", ZONES),
    key("lockmem", "", Text, Refused, "0", "it takes memory from the whole machine"),
    key("rwmixread", "", Number, Exact, "", "share of reads in a mix"),
    key("rwmixwrite", "", Number, Exact, "", "share of writes in a mix"),
    key("nice", "", Text, Foreign, "0", PRIORITY),
    key("prio", "", Number, Foreign, "", PRIORITY),
    key("prioclass", "", Number, Foreign, "", PRIORITY),
    key("thinktime", "", Micros, Foreign, "0", THINK),
    key("thinktime_spin", "", Micros, Foreign, "0", THINK),
    key("thinktime_blocks", "", Number, Foreign, "", THINK),
    key("thinktime_blocks_type", "", Text, Foreign, "", THINK),
    key("thinktime_iotime", "", Seconds, Foreign, "0", THINK),
    key(
        "rate",
        "",
        Numbers,
        Exact,
        "",
        "bytes a second of each clone, as requests a second; a mix runs through fio",
    ),
    key("rate_min", "ratemin", Numbers, Foreign, "0", RATE),
    key("rate_process", "", Text, Exact, "", "linear or poisson"),
    key("rate_cycle", "ratecycle", Number, Foreign, "", RATE),
    key("rate_ignore_thinktime", "", Bool, Foreign, "0", RATE),
    key("rate_iops", "", Numbers, Exact, "", "requests a second of each clone; a mix runs through fio"),
    key("rate_iops_min", "", Numbers, Foreign, "0", RATE),
    key("max_latency", "", Micros, Foreign, "0", "the native engine does not stop at a slow request"),
    key("latency_target", "", Micros, Foreign, "0", TARGET),
    key("latency_window", "", Micros, Foreign, "0", TARGET),
    key("latency_percentile", "", Floats, Foreign, "100", TARGET),
    key("latency_run", "", Bool, Foreign, "0", TARGET),
    key(
        "invalidate",
        "",
        Bool,
        Exact,
        "",
        "all caches are dropped before every run; passes through the page cache that fio drops again run through fio",
    ),
    key("sync", "", Text, Exact, "", "files opened with O_SYNC or O_DSYNC; for mmap through fio"),
    key("write_hint", "", Text, Foreign, "none", "the native engine gives no hints on lifetime"),
    key("create_serialize", "", Bool, Note, "", "files are laid out before the clock starts, in any order"),
    key("create_fsync", "", Bool, Foreign, "1", "files are always on the device before the clock starts"),
    key("create_on_open", "", Bool, Foreign, "0", "files are laid out before the clock starts"),
    key("create_only", "", Bool, Foreign, "0", "it measures nothing"),
    key("allow_file_create", "", Bool, Foreign, "1", "an arm is empty before each run"),
    key("allow_mounted_write", "", Bool, Refused, "0", "it is for writing to devices that are in use"),
    key("pre_read", "", Bool, Foreign, "0", "caches are empty when a run starts"),
    key("cpumask", "", Number, Foreign, "", PLACE),
    key("cpus_allowed", "", Text, Foreign, "", PLACE),
    key("cpus_allowed_policy", "", Text, Foreign, "", PLACE),
    key("numa_cpu_nodes", "", Text, Foreign, "", PLACE),
    key("numa_mem_policy", "", Text, Foreign, "", PLACE),
    key(
        "end_fsync",
        "",
        Bool,
        Exact,
        "",
        "an fsync of every file at the end, inside the time; with time_based through fio",
    ),
    key("fsync_on_close", "", Bool, Foreign, "0", "native files are closed when the clock has stopped"),
    key("unlink", "", Bool, Note, "", "files are removed with the arm, when the clock has stopped"),
    key("unlink_each_loop", "", Bool, Foreign, "0", "a native run is done once"),
    key("exitall", "", Flag, Foreign, "0", "native thread groups end together"),
    key("exit_what", "", Text, Foreign, "", "native thread groups end together"),
    key("exitall_on_error", "", Flag, Foreign, "0", "an error is an outcome of the arm"),
    key("stonewall", "wait_for_previous", Flag, Exact, "", "a phase of its own, after those before it"),
    key("new_group", "", Flag, Note, "", REPORT),
    key("thread", "", Flag, Exact, "", "native clones are always threads of one process"),
    key("per_job_logs", "", Bool, Note, "", LOG),
    key("write_bw_log", "", Text, Refused, "", LOG_FILE),
    key("bwavgtime", "", Number, Note, "", REPORT),
    key("write_lat_log", "", Text, Refused, "", LOG_FILE),
    key("write_iops_log", "", Text, Refused, "", LOG_FILE),
    key("iopsavgtime", "", Number, Note, "", REPORT),
    key("log_entries", "", Number, Note, "", LOG),
    key("log_avg_msec", "", Number, Note, "", LOG),
    key("log_hist_msec", "", Number, Note, "", LOG),
    key("log_hist_coarseness", "", Number, Note, "", LOG),
    key("write_hist_log", "", Text, Refused, "", LOG_FILE),
    key("log_max_value", "", Bool, Note, "", LOG),
    key("log_offset", "", Bool, Note, "", LOG),
    key("log_prio", "", Bool, Note, "", LOG),
    key("log_compression", "", Number, Note, "", LOG),
    key("log_compression_cpus", "", Text, Note, "", LOG),
    key("log_store_compressed", "", Bool, Note, "", LOG),
    key("log_unix_epoch", "", Bool, Note, "", LOG),
    key("log_alternate_epoch", "", Bool, Note, "", LOG),
    key("log_alternate_epoch_clock_id", "", Number, Note, "", LOG),
    key("block_error_percentiles", "", Bool, Note, "", REPORT),
    key("group_reporting", "", Flag, Note, "", "the clones of a job are always reported together"),
    key("stats", "", Bool, Foreign, "1", "a native thread is always counted"),
    key("zero_buffers", "", Flag, Exact, "", "data of zeros"),
    key("refill_buffers", "", Flag, Exact, "", "every write has new random data, as here always"),
    key(
        "scramble_buffers",
        "",
        Bool,
        Exact,
        "",
        "the default; without it fio writes one random buffer over and over, and runs through fio",
    ),
    key("buffer_pattern", "", Text, Foreign, "", "native data is random, zero or a mix"),
    key("buffer_compress_percentage", "", Number, Exact, "", "a share of the data that compresses away"),
    key(
        "buffer_compress_chunk",
        "",
        Number,
        Foreign,
        "",
        "native data has a share of zeros, not pieces of a size",
    ),
    key("dedupe_percentage", "", Number, Exact, "", "a share of requests that repeat others"),
    key("dedupe_mode", "", Text, Foreign, "repeat", DEDUPE),
    key("dedupe_working_set_percentage", "", Number, Foreign, "", DEDUPE),
    key("dedupe_global", "", Bool, Foreign, "0", DEDUPE),
    key("clat_percentiles", "", Bool, Note, "", REPORT),
    key("lat_percentiles", "", Bool, Note, "", REPORT),
    key("slat_percentiles", "", Bool, Note, "", REPORT),
    key("percentile_list", "", Floats, Note, "", REPORT),
    key("significant_figures", "", Number, Note, "", REPORT),
    key("disk_util", "", Bool, Note, "", REPORT),
    key("gtod_reduce", "", Bool, Note, "", CLOCK),
    key("disable_lat", "", Bool, Note, "", CLOCK),
    key("disable_clat", "", Bool, Note, "", CLOCK),
    key("disable_slat", "", Bool, Note, "", CLOCK),
    key("disable_bw_measurement", "disable_bw", Bool, Note, "", CLOCK),
    key("gtod_cpu", "", Number, Foreign, "", "the native engine has no thread that only reads the clock"),
    key("unified_rw_reporting", "", Text, Note, "", REPORT),
    key("continue_on_error", "", Text, Foreign, "none 0", "an error is an outcome of the arm"),
    key("error_dump", "", Bool, Note, "", REPORT),
    key("profile", "", Text, Refused, "", "a profile makes jobs that are not in the file"),
    key("cgroup", "", Text, Refused, "", CGROUP),
    key("cgroup_nodelete", "", Bool, Refused, "0", CGROUP),
    key("cgroup_weight", "", Number, Refused, "0", CGROUP),
    key("uid", "", Number, Refused, "", "who a run belongs to is the trial's to decide"),
    key("gid", "", Number, Refused, "", "who a run belongs to is the trial's to decide"),
    key("kb_base", "", Text, Exact, "", "what k, m and g mean in this section"),
    key("unit_base", "", Text, Note, "", REPORT),
    key("hugepage-size", "", Number, Foreign, "", "native buffers are ordinary aligned memory"),
    key("flow_id", "", Number, Foreign, "0", FLOW),
    key("flow", "", Text, Foreign, "0", FLOW),
    key("flow_sleep", "", Number, Foreign, "0", FLOW),
    key("steadystate", "ss", Text, Foreign, "", STEADY),
    key("steadystate_duration", "ss_dur", Seconds, Foreign, "0", STEADY),
    key("steadystate_ramp_time", "ss_ramp", Seconds, Foreign, "0", STEADY),
    key("userspace_reap", "", Flag, Foreign, "0", "native completions are fetched with the system call"),
    key("nowait", "", Bool, Foreign, "0", "native requests wait"),
    key("cmdprio_percentage", "", Numbers, Foreign, "0", NO_PRIORITY),
    key("cmdprio_class", "", Numbers, Foreign, "", NO_PRIORITY),
    key("cmdprio", "", Numbers, Foreign, "", NO_PRIORITY),
    key("cmdprio_bssplit", "", Text, Foreign, "", NO_PRIORITY),
    key("hipri", "", Flag, Exact, "", "with io_uring and direct: completions are polled; else through fio"),
    key("hipri_percentage", "", Number, Foreign, "", "native completions are polled or not"),
    key("fixedbufs", "", Flag, Note, "", "the native ring registers its buffers where the kernel can"),
    key("registerfiles", "", Flag, Note, "", "the native ring registers its files where the kernel can"),
    key("sqthread_poll", "", Flag, Exact, "", "a kernel thread fetches the requests"),
    key("sqthread_poll_cpu", "", Number, Foreign, "", PLACE),
    key("nonvectored", "", Flag, Note, "", "native ring requests are never vectored"),
    key("uncached", "", Bool, Foreign, "0", "native requests are cached or direct"),
    key("force_async", "", Number, Foreign, "0", "native requests are tried at once"),
    key("thp", "", Bool, Foreign, "0", "native mappings ask for no huge pages"),
];

/// Engines of fio that stay inside the files of a job, and run through fio.
pub(crate) const FOREIGN_ENGINES: [&str; 8] =
    ["posixaio", "splice", "null", "ftruncate", "falloc", "filecreate", "filestat", "filedelete"];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_every_key_says_why() {
        let mut seen = BTreeSet::new();
        for key in KEYS {
            assert!(seen.insert(key.name), "{} is there twice", key.name);
            assert!(key.alias.is_empty() || seen.insert(key.alias), "{} is there twice", key.alias);
            assert!(key.why.len() > 8, "{} says why", key.name);
        }
    }

    #[test]
    fn the_manual_lists_every_key_as_it_is_treated() {
        let docs = include_str!("../../../../docs/fio.md");
        for key in KEYS {
            let name = match key.alias {
                "" => format!("`{}`", key.name),
                alias => format!("`{}` (`{alias}`)", key.name),
            };
            let row = format!("| {name} | {} | {} |", key.treatment.name(), key.why);
            assert!(docs.contains(&row), "docs/fio.md lacks: {row}");
        }
    }
}
