//! Every key of fio 3.33 with what is made of it: the one table that decides whether a job file runs natively.
//!
//! Read from `fio --cmdhelp=all` and `fio --enghelp=…`; the meanings were looked up with strace where the manual leaves
//! them open. `docs/fio.md` prints the same table, and a test holds the two together.

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

/// Makes the table: by treatment, the reasons, and the keys of each with their other name and the values that do nothing.
macro_rules! keys {
    ($($treatment:ident {
        $($why:literal => $($name:literal $(| $alias:literal)?: $kind:ident $(= $neutral:literal)?),+;)+
    })+) => {
        /// Every key, by what is made of it.
        pub const KEYS: &[Key] = &[$($($(Key {
            name: $name,
            alias: concat!($($alias)?),
            kind: ValueKind::$kind,
            treatment: Treatment::$treatment,
            neutral: concat!($($neutral)?),
            why: $why,
        }),+),+),+];
    };
}

keys! {
    Exact {
        "a name; nothing measured depends on it" => "name": Text;
        "files that all clones of the job share; for a device or a path there is a file of the arm, with a note" =>
            "filename": Text;
        "size of every request, one for reads and one for writes" =>
            "bs" | "blocksize": Numbers;
        "sizes from one to another, as `read_size` and `write_size`, with norandommap where places are drawn; multiples of the smallest only" =>
            "bsrange" | "blocksize_range": Text;
        "sizes with their shares, as bsrange; percents that are 100 together" => "bssplit": Text;
        "the same as bs; anything else runs through fio" => "ba" | "blockalign": Numbers;
        "without it, each block is visited once before any again, as here with `each_block_once`" =>
            "norandommap": Flag;
        "sync, psync, vsync, pvsync, pvsync2, libaio, io_uring and mmap; other engines for files run through fio" =>
            "ioengine": Text;
        "requests in flight for each thread" => "iodepth": Number;
        "bytes of each clone's files, and what it transfers unless it is time_based" => "size": Number;
        "what each clone transfers" => "io_size" | "io_limit": Number;
        "one size for each file; a range runs through fio" => "filesize": Range;
        "with a shared file and steps of `size`: a region for each thread; else through fio" =>
            "offset_increment": Number;
        "an end after that many requests; with time_based through fio" => "number_ios": Number;
        "files of each clone" => "nrfiles" | "nr_files": Number;
        "how files that are only written are laid out; keep runs through fio" => "fallocate": Text;
        "an fsync after that many writes of a thread; in a mix through fio" => "fsync": Number;
        "an fdatasync after that many writes of a thread; in a mix through fio" => "fdatasync": Number;
        "past the page cache" => "direct": Bool;
        "the opposite of direct; the later of the two counts" => "buffered": Bool;
        "files are written before they are overwritten" => "overwrite": Bool;
        "threads: the one level of the workload" => "numjobs": Number;
        "time measured, with time_based; without it there is an end at size as well, and the job runs through fio" =>
            "runtime" | "timeout": Seconds;
        "run for the whole runtime" => "time_based": Flag;
        "time before the clock starts; without time_based through fio" => "ramp_time": Seconds;
        "share of reads in a mix" => "rwmixread": Number;
        "share of writes in a mix" => "rwmixwrite": Number;
        "bytes a second of each clone, as requests a second; a mix runs through fio" => "rate": Numbers;
        "linear or poisson" => "rate_process": Text;
        "requests a second of each clone; a mix runs through fio" => "rate_iops": Numbers;
        "files opened with O_SYNC or O_DSYNC; for mmap through fio" => "sync": Text;
        "an fsync of every file at the end, inside the time; with time_based through fio" => "end_fsync": Bool;
        "a phase of its own, after those before it" => "stonewall" | "wait_for_previous": Flag;
        "native clones are always threads of one process" => "thread": Flag;
        "data of zeros" => "zero_buffers": Flag;
        "every write has new random data, as here always" => "refill_buffers": Flag;
        "the default; without it fio writes one random buffer over and over, and runs through fio" =>
            "scramble_buffers": Bool;
        "a share of the data that compresses away" => "buffer_compress_percentage": Number;
        "a share of requests that repeat others" => "dedupe_percentage": Number;
        "what k, m and g mean in this section" => "kb_base": Text;
        "with io_uring and direct: completions are polled; else through fio" => "hipri": Flag;
        "a kernel thread fetches the requests" => "sqthread_poll": Flag;
        "what the kernel is told about the order of requests, as `advice`; without effect on direct I/O" =>
            "fadvise_hint": Text;
        "all caches are dropped before every run; passes through the page cache are dropped as with `cold_laps`; reads with 0, and passes of mmap, run through fio" =>
            "invalidate": Bool;
        "this many times `size`; with io_size, number_ios or end_fsync through fio" => "loops": Number = "1";
        "several files: roundrobin by turns, random with random access, sequential with sequential; else through fio" =>
            "file_service_type": Text;
        "with $jobnum files of each clone, without it files that all clones share; native files have names of their own" =>
            "filename_format": Text = "$jobname.$jobnum.$filenum";
        "checksums, as `verify` with crc32c: of a job of one clone that only writes, and of any that only writes with do_verify=0; else through fio" =>
            "verify": Text = "0 none";
        "a phase of its own that reads everything back, in the order of the writes; without it only the checksums are written" =>
            "do_verify": Bool;
        "a checksum for each block; another number of bytes runs through fio" => "verify_interval": Number;
        "a block that is not what was written is reported, and fails the run" => "verify_fatal": Bool;
        "reads and writes; N requests in a row (rw=randread:N), N bytes skipped (rw=read:N) if a multiple of bs; trims, and N of rw=rw, run through fio" =>
            "rw" | "readwrite": Text;
        "random, zipf over one file, zones; zipf over a file that clones share, pareto, normal and centres run through fio" =>
            "random_distribution": Text;
        "share of random requests that go to a place that is drawn, as `jumps`; in sequential jobs nothing, as with fio" =>
            "percentage_random": Numbers;
        "whether N requests in a row (rw=randread:N) go on or stay, as `in_place`; for other jobs nothing, as with fio" =>
            "rw_sequencer": Text;
    }
    Note {
        "a remark; it is not given to fio" => "description": Text;
        "files are made in the arm's own directory instead" => "directory": Text;
        "it is for fio's clients on other machines" => "unique_filename": Bool;
        "the trial draws the seed of each round, the same for every arm" =>
            "randrepeat": Bool, "randseed": Text, "allrandrepeat": Bool;
        "it says what to do when there is no memory for the random map" => "softrandommap": Bool;
        "offsets come from another generator; that each block comes once is kept" => "random_generator": Text;
        "the native engine chooses its clock and says which" => "clocksource": Text;
        "files are laid out before the clock starts, in any order" => "create_serialize": Bool;
        "files are removed with the arm, when the clock has stopped" => "unlink": Bool;
        "it shapes fio's report only; fstrial keeps every latency and a series of its own" =>
            "new_group": Flag, "bwavgtime": Number, "iopsavgtime": Number, "block_error_percentiles": Bool,
            "clat_percentiles": Bool, "lat_percentiles": Bool, "slat_percentiles": Bool, "percentile_list": Floats,
            "significant_figures": Number, "disk_util": Bool, "unified_rw_reporting": Text, "error_dump": Bool,
            "unit_base": Text;
        "it shapes the lines of fio's logs, which are not written" =>
            "per_job_logs": Bool, "log_entries": Number, "log_avg_msec": Number, "log_hist_msec": Number,
            "log_hist_coarseness": Number, "log_max_value": Bool, "log_offset": Bool, "log_prio": Bool,
            "log_compression": Number, "log_compression_cpus": Text, "log_store_compressed": Bool,
            "log_unix_epoch": Bool, "log_alternate_epoch": Bool, "log_alternate_epoch_clock_id": Number;
        "the clones of a job are always reported together" => "group_reporting": Flag;
        "fio would read its clock less often; the native engine times every request, `fstrial doctor` says at what cost" =>
            "gtod_reduce": Bool, "disable_lat": Bool, "disable_clat": Bool, "disable_slat": Bool,
            "disable_bw_measurement" | "disable_bw": Bool;
        "the native ring registers its buffers where the kernel can" => "fixedbufs": Flag;
        "the native ring registers its files where the kernel can" => "registerfiles": Flag;
        "native ring requests are never vectored" => "nonvectored": Flag;
    }
    Foreign {
        "phases follow each other at `stonewall` only" => "wait_for": Text;
        "the native engine takes no locks on files" => "lockfile": Text = "none";
        "native requests that read or write have their size by what they do, not by their order" =>
            "bs_is_seq_rand": Bool = "0";
        "native requests are aligned to their size" => "bs_unaligned" | "blocksize_unaligned": Flag = "0";
        "an error is an outcome of the arm" =>
            "ignore_error": Text, "exitall_on_error": Flag = "0", "continue_on_error": Text = "none 0";
        "the native engine submits what is free and reaps what is done" =>
            "iodepth_batch" | "iodepth_batch_submit": Number = "1",
            "iodepth_batch_complete_min" | "iodepth_batch_complete": Number = "1",
            "iodepth_batch_complete_max": Number, "iodepth_low": Number;
        "the native engine does not look for requests that overlap" => "serialize_overlap": Bool = "0";
        "one thread of fio draws all requests and hands each to one of `iodepth` others, with a queue each; native threads draw their own, and keep times of their own" => "io_submit_mode": Text = "inline";
        "native files have a size" => "fill_device" | "fill_fs": Bool = "0";
        "native appends start with an empty file" => "file_append": Bool = "0";
        "native requests go to the whole file" => "offset" | "fileoffset": Number = "0 0%";
        "native offsets are multiples of the block size" => "offset_align": Number = "0";
        "native files all stay open" => "openfiles": Number;
        "the native engine sends no barriers" => "write_barrier": Number = "0";
        "native calls of it cover the whole file and wait" => "sync_file_range": Text;
        "the native engine has no atomic writes" => "atomic": Bool = "0";
        "native threads start at one instant" => "startdelay": Text = "0";
        "it checks what an earlier run has left, and an arm is empty before each run" => "verify_only": Flag = "0";
        "native headers are at the start of a block" => "verify_offset": Number;
        "native blocks have a checksum and no pattern" => "verify_pattern": Text;
        "native threads look at what they read themselves" =>
            "verify_async": Number, "verify_async_cpus": Text;
        "native threads read back when all is written, not in between" =>
            "verify_backlog": Text, "verify_backlog_batch": Number;
        "native threads hold what they read against what was written, and do not draw it again" =>
            "experimental_verify": Bool = "0";
        "native buffers are ordinary aligned memory" => "mem" | "iomem": Text = "malloc", "hugepage-size": Number;
        "native buffers are aligned to pages" => "iomem_align" | "mem_align": Number = "0";
        "the native engine does not trim" =>
            "trim_percentage": Number = "0", "trim_verify_zero": Bool, "trim_backlog": Text,
            "trim_backlog_batch": Number;
        "the native engine knows no zones" =>
            "zonemode": Text = "none", "zonesize": Text = "0", "zonecapacity": Text = "0", "zonerange": Text = "0",
            "zoneskip": Text = "0", "read_beyond_wp": Bool = "0", "max_open_zones": Number = "0",
            "job_max_open_zones": Number = "0", "ignore_zone_limits": Bool = "0",
            "zone_reset_threshold": Floats = "0", "zone_reset_frequency": Floats = "0";
        "the native engine does not change priorities" => "nice": Text = "0", "prio": Number, "prioclass": Number;
        "the native engine does not think between requests" =>
            "thinktime": Micros = "0", "thinktime_spin": Micros = "0", "thinktime_blocks": Number,
            "thinktime_blocks_type": Text, "thinktime_iotime": Seconds = "0";
        "the native rate has no other rule than its own" =>
            "rate_min" | "ratemin": Numbers = "0", "rate_cycle" | "ratecycle": Number,
            "rate_ignore_thinktime": Bool = "0", "rate_iops_min": Numbers = "0";
        "the native engine does not stop at a slow request" => "max_latency": Micros = "0";
        "the native engine does not search for a depth" =>
            "latency_target": Micros = "0", "latency_window": Micros = "0", "latency_percentile": Floats = "100",
            "latency_run": Bool = "0";
        "the native engine gives no hints on lifetime" => "write_hint": Text = "none";
        "files are always on the device before the clock starts" => "create_fsync": Bool = "1";
        "files are laid out before the clock starts" => "create_on_open": Bool = "0";
        "it measures nothing" => "create_only": Bool = "0";
        "an arm is empty before each run" => "allow_file_create": Bool = "1";
        "caches are empty when a run starts" => "pre_read": Bool = "0";
        "the native engine does not bind its threads to processors or memory" =>
            "cpumask": Number, "cpus_allowed": Text, "cpus_allowed_policy": Text, "numa_cpu_nodes": Text,
            "numa_mem_policy": Text, "sqthread_poll_cpu": Number;
        "native files are closed when the clock has stopped" => "fsync_on_close": Bool = "0";
        "a native run is done once" => "unlink_each_loop": Bool = "0";
        "native thread groups end together" => "exitall": Flag = "0", "exit_what": Text;
        "a native thread is always counted" => "stats": Bool = "1";
        "native data is random, zero or a mix" => "buffer_pattern": Text;
        "native data has a share of zeros, not pieces of a size" => "buffer_compress_chunk": Number;
        "the native data has a share of duplicates, not a way to choose them" =>
            "dedupe_mode": Text = "repeat", "dedupe_working_set_percentage": Number, "dedupe_global": Bool = "0";
        "the native engine has no thread that only reads the clock" => "gtod_cpu": Number;
        "the native engine does not balance jobs by tokens" =>
            "flow_id": Number = "0", "flow": Text = "0", "flow_sleep": Number = "0";
        "native runs end after a time or an amount" =>
            "steadystate" | "ss": Text, "steadystate_duration" | "ss_dur": Seconds = "0",
            "steadystate_ramp_time" | "ss_ramp": Seconds = "0";
        "native completions are fetched with the system call" => "userspace_reap": Flag = "0";
        "native requests wait" => "nowait": Bool = "0";
        "requests of a priority of their own have no native form" =>
            "cmdprio_percentage": Numbers = "0", "cmdprio_class": Numbers, "cmdprio": Numbers,
            "cmdprio_bssplit": Text;
        "native completions are polled or not" => "hipri_percentage": Number;
        "native requests are cached or direct" => "uncached": Bool = "0";
        "native requests are tried at once" => "force_async": Number = "0";
        "native mappings ask for no huge pages" => "thp": Bool = "0";
    }
    Refused {
        "it would use every file it finds" => "opendir": Text;
        "it writes blocks to files of its own" => "verify_dump": Bool = "0";
        "it reads a file of an earlier job" => "verify_state_load": Bool = "0";
        "it writes a file of its own" => "verify_state_save": Bool = "0", "write_iolog": Text;
        "a replay opens the files that are named in the log" =>
            "read_iolog": Text, "read_iolog_chunked": Bool, "replay_no_stall": Bool, "replay_redirect": Text,
            "replay_scale": Number, "replay_align": Number, "replay_time_scale": Number, "replay_skip": Text,
            "merge_blktrace_file": Text, "merge_blktrace_scalars": Floats, "merge_blktrace_iters": Floats;
        "it runs a command" => "exec_prerun": Text, "exec_postrun": Text;
        "it sets the scheduler of the device; write scheduler= on the arm, where it is put back" =>
            "ioscheduler": Text;
        "it takes memory from the whole machine" => "lockmem": Text = "0";
        "it is for writing to devices that are in use" => "allow_mounted_write": Bool = "0";
        "it writes files of its own; every run's series and latencies are stored, and `fstrial results export --format fio` gives them in fio's form" =>
            "write_bw_log": Text, "write_lat_log": Text, "write_iops_log": Text, "write_hist_log": Text;
        "a profile makes jobs that are not in the file" => "profile": Text;
        "it makes control groups on this host; that is the trial's to do, the same for every arm" =>
            "cgroup": Text, "cgroup_nodelete": Bool = "0", "cgroup_weight": Number = "0";
        "who a run belongs to is the trial's to decide" => "uid": Number, "gid": Number;
    }
}

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
