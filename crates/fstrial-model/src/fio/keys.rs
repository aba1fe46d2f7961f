//! Every key of fio 3.33 for files with its treatment.
//!
//! Read from `fio --cmdhelp=all` and `fio --enghelp=…`. `docs/fio.md` lists those that fio does not get, and a test holds
//! the two together.

/// Treatment of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Treatment {
    /// fio gets it as it is meant.
    Passed,
    /// fio does not get it, with a note.
    LeftOut,
    /// It reaches beyond the files of the arm, or changes the machine: such a job file is not run.
    Refused,
}

impl Treatment {
    /// The word in the table of `docs/fio.md`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed on",
            Self::LeftOut => "left out",
            Self::Refused => "refused",
        }
    }
}

/// Type of a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// Words with a special meaning.
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
    /// Main name in job files, such as `iodepth`.
    pub name: &'static str,
    /// Its other name, or nothing.
    pub alias: &'static str,
    /// Its type.
    pub kind: ValueKind,
    /// Passed to fio, left out with a note, or a reason to refuse the job file.
    pub treatment: Treatment,
    /// Values that do nothing, separated by blanks.
    pub neutral: &'static str,
    /// Why it is not passed on, in lower case.
    pub why: &'static str,
}

impl Key {
    /// Finds a key by its name or its other name.
    pub fn find(word: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == word || (!key.alias.is_empty() && key.alias == word))
    }

    /// True if a value has no effect.
    pub(crate) fn is_neutral(&self, text: &str) -> bool {
        self.neutral.split_whitespace().any(|neutral| neutral == text)
    }
}

/// Makes the table: by treatment, the reasons, and the keys of each with their other name and the values that do nothing.
macro_rules! keys {
    ($($treatment:ident {
        $($why:literal => $($name:literal $(| $alias:literal)?: $kind:ident $(= $neutral:literal)?),+;)+
    })+) => {
        /// Every key, by treatment.
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
    Passed {
        "" =>
            "name": Text, "filename": Text, "bs" | "blocksize": Numbers, "bsrange" | "blocksize_range": Text,
            "bssplit": Text, "ba" | "blockalign": Numbers, "norandommap": Flag, "ioengine": Text,
            "iodepth": Number, "size": Number, "io_size" | "io_limit": Number, "filesize": Range,
            "offset_increment": Number, "number_ios": Number, "nrfiles" | "nr_files": Number,
            "fallocate": Text, "fsync": Number, "fdatasync": Number, "direct": Bool, "buffered": Bool,
            "overwrite": Bool, "numjobs": Number, "runtime" | "timeout": Seconds, "time_based": Flag,
            "ramp_time": Seconds, "rwmixread": Number, "rwmixwrite": Number, "rate": Numbers,
            "rate_process": Text, "rate_iops": Numbers, "sync": Text, "end_fsync": Bool,
            "stonewall" | "wait_for_previous": Flag, "thread": Flag, "zero_buffers": Flag,
            "refill_buffers": Flag, "scramble_buffers": Bool, "buffer_compress_percentage": Number,
            "dedupe_percentage": Number, "kb_base": Text, "hipri": Flag, "sqthread_poll": Flag,
            "fadvise_hint": Text, "invalidate": Bool, "loops": Number, "file_service_type": Text,
            "filename_format": Text, "verify": Text, "do_verify": Bool, "verify_interval": Number,
            "verify_fatal": Bool, "rw" | "readwrite": Text, "random_distribution": Text,
            "percentage_random": Numbers, "rw_sequencer": Text, "softrandommap": Bool,
            "random_generator": Text, "clocksource": Text, "create_serialize": Bool, "unlink": Bool,
            "new_group": Flag, "bwavgtime": Number, "iopsavgtime": Number, "significant_figures": Number,
            "disk_util": Bool, "error_dump": Bool, "per_job_logs": Bool, "log_entries": Number,
            "log_avg_msec": Number, "log_hist_msec": Number, "log_hist_coarseness": Number,
            "log_max_value": Bool, "log_offset": Bool, "log_prio": Bool, "log_compression": Number,
            "log_compression_cpus": Text, "log_store_compressed": Bool, "log_unix_epoch": Bool,
            "log_alternate_epoch": Bool, "log_alternate_epoch_clock_id": Number, "group_reporting": Flag,
            "fixedbufs": Flag, "registerfiles": Flag, "nonvectored": Flag, "wait_for": Text, "lockfile": Text,
            "bs_is_seq_rand": Bool, "bs_unaligned" | "blocksize_unaligned": Flag, "ignore_error": Text,
            "exitall_on_error": Flag, "continue_on_error": Text,
            "iodepth_batch" | "iodepth_batch_submit": Number,
            "iodepth_batch_complete_min" | "iodepth_batch_complete": Number,
            "iodepth_batch_complete_max": Number, "iodepth_low": Number, "serialize_overlap": Bool,
            "io_submit_mode": Text, "file_append": Bool,
            "offset" | "fileoffset": Number, "offset_align": Number, "openfiles": Number,
            "write_barrier": Number, "sync_file_range": Text, "atomic": Bool, "startdelay": Text,
            "verify_only": Flag, "verify_offset": Number, "verify_pattern": Text, "verify_async": Number,
            "verify_async_cpus": Text, "verify_backlog": Text, "verify_backlog_batch": Number,
            "experimental_verify": Bool, "mem" | "iomem": Text, "hugepage-size": Number,
            "iomem_align" | "mem_align": Number, "trim_percentage": Number, "trim_verify_zero": Bool,
            "trim_backlog": Text, "trim_backlog_batch": Number, "zonemode": Text, "zonesize": Text,
            "zonecapacity": Text, "zonerange": Text, "zoneskip": Text, "read_beyond_wp": Bool,
            "max_open_zones": Number, "job_max_open_zones": Number, "ignore_zone_limits": Bool,
            "zone_reset_threshold": Floats, "zone_reset_frequency": Floats, "nice": Text, "prio": Number,
            "prioclass": Number, "thinktime": Micros, "thinktime_spin": Micros, "thinktime_blocks": Number,
            "thinktime_blocks_type": Text, "thinktime_iotime": Seconds, "rate_min" | "ratemin": Numbers,
            "rate_cycle" | "ratecycle": Number, "rate_ignore_thinktime": Bool, "rate_iops_min": Numbers,
            "max_latency": Micros, "latency_target": Micros, "latency_window": Micros,
            "latency_percentile": Floats, "latency_run": Bool, "write_hint": Text, "create_fsync": Bool,
            "create_on_open": Bool, "create_only": Bool, "allow_file_create": Bool, "pre_read": Bool,
            "cpumask": Number, "cpus_allowed": Text, "cpus_allowed_policy": Text, "numa_cpu_nodes": Text,
            "numa_mem_policy": Text, "sqthread_poll_cpu": Number, "fsync_on_close": Bool,
            "unlink_each_loop": Bool, "exitall": Flag, "exit_what": Text,
            "buffer_pattern": Text, "buffer_compress_chunk": Number, "dedupe_mode": Text,
            "dedupe_working_set_percentage": Number, "dedupe_global": Bool, "gtod_cpu": Number,
            "flow_id": Number, "flow": Text, "flow_sleep": Number, "steadystate" | "ss": Text,
            "steadystate_duration" | "ss_dur": Seconds, "steadystate_ramp_time" | "ss_ramp": Seconds,
            "userspace_reap": Flag, "nowait": Bool, "cmdprio_percentage": Numbers, "cmdprio_class": Numbers,
            "cmdprio": Numbers, "cmdprio_bssplit": Text, "hipri_percentage": Number, "uncached": Bool,
            "force_async": Number, "thp": Bool;
    }
    LeftOut {
        "a remark only" => "description": Text;
        "files are made in the arm's own directory instead" => "directory": Text;
        "it is for fio's clients on other machines" => "unique_filename": Bool;
        "the trial draws the seed of each round, the same for every arm" =>
            "randrepeat": Bool, "randseed": Text, "allrandrepeat": Bool;
        "it would hide or rename numbers that are read" =>
            "block_error_percentiles": Bool = "0", "clat_percentiles": Bool = "1", "lat_percentiles": Bool = "0",
            "slat_percentiles": Bool = "0", "percentile_list": Floats, "unified_rw_reporting": Text = "none 0",
            "unit_base": Text = "0 8", "gtod_reduce": Bool = "0", "disable_lat": Bool = "0",
            "disable_clat": Bool = "0", "disable_slat": Bool = "0",
            "disable_bw_measurement" | "disable_bw": Bool = "0", "stats": Bool = "1";
        "it writes another file" =>
            "verify_dump": Bool = "0", "verify_state_save": Bool = "0", "write_iolog": Text;
        "fio's logs are not written" =>
            "write_bw_log": Text, "write_lat_log": Text, "write_iops_log": Text, "write_hist_log": Text;
    }
    Refused {
        "it would use every file it finds" => "opendir": Text;
        "it fills the filesystem, which may be yours: write size= instead" => "fill_device" | "fill_fs": Bool = "0";
        "it reads a file of an earlier job" => "verify_state_load": Bool = "0";
        "a replay opens the files that are named in the log" =>
            "read_iolog": Text, "read_iolog_chunked": Bool, "replay_no_stall": Bool, "replay_redirect": Text,
            "replay_scale": Number, "replay_align": Number, "replay_time_scale": Number, "replay_skip": Text,
            "merge_blktrace_file": Text, "merge_blktrace_scalars": Floats, "merge_blktrace_iters": Floats;
        "it runs a command" => "exec_prerun": Text, "exec_postrun": Text;
        "it sets the device's scheduler; write scheduler= on the arm, which restores it" =>
            "ioscheduler": Text;
        "it takes memory from the whole machine" => "lockmem": Text = "0";
        "it is for writing to devices that are in use" => "allow_mounted_write": Bool = "0";
        "a profile makes jobs that are not in the file" => "profile": Text;
        "it makes control groups on this host; that is the trial's to do, the same for every arm" =>
            "cgroup": Text, "cgroup_nodelete": Bool = "0", "cgroup_weight": Number = "0";
        "who a run belongs to is the trial's to decide" => "uid": Number, "gid": Number;
    }
}

/// Engines of fio that stay inside the files of a job.
pub(crate) const ENGINES: [&str; 16] = [
    "sync",
    "psync",
    "vsync",
    "pvsync",
    "pvsync2",
    "libaio",
    "io_uring",
    "mmap",
    "posixaio",
    "splice",
    "null",
    "ftruncate",
    "falloc",
    "filecreate",
    "filestat",
    "filedelete",
];

/// Keys of engines that do no I/O on files, from `fio --enghelp=…`; those of `http` begin with `http_`.
pub(crate) const ENGINE_KEYS: [&str; 37] = [
    "arguments",
    "bindname",
    "brick",
    "busy_poll",
    "chunk_size",
    "clientname",
    "clustername",
    "conf",
    "cpuchunks",
    "cpuload",
    "cpumode",
    "donorname",
    "exit_on_io_done",
    "grace_time",
    "hostname",
    "inplace",
    "interface",
    "listen",
    "mss",
    "namenode",
    "nfs_url",
    "nodelay",
    "pingpong",
    "pool",
    "port",
    "program",
    "protocol",
    "rbdname",
    "single-instance",
    "skip_bad",
    "std_redirect",
    "touch_objects",
    "ttl",
    "uri",
    "verb",
    "volume",
    "window_size",
];

/// Engines that are known and refused, and why.
pub(crate) const OUTSIDE: [(&str, &[&str]); 4] = [
    (
        "it goes over a network",
        &[
            "http",
            "nbd",
            "nfs",
            "rbd",
            "rados",
            "gfapi",
            "gfapi_async",
            "net",
            "netsplice",
            "rdma",
            "librpma_apm_client",
            "librpma_apm_server",
            "librpma_gpspm_client",
            "librpma_gpspm_server",
            "libiscsi",
            "libhdfs",
            "dfs",
            "ime_psync",
            "ime_psyncv",
            "ime_aio",
        ],
    ),
    (
        "it drives hardware itself, past the filesystem's calls",
        &[
            "sg",
            "libzbc",
            "io_uring_cmd",
            "xnvme",
            "mtd",
            "dev-dax",
            "libcufile",
            "libpmem",
            "pmemblk",
            "libblkio",
        ],
    ),
    ("it runs a command", &["exec"]),
    (
        "it measures something else than I/O on files, or needs more than one",
        &["cpuio", "cpp_null", "e4defrag", "guasi"],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn key_names_are_unique_and_restrictions_explained() {
        let mut seen = BTreeSet::new();
        for key in KEYS {
            assert!(seen.insert(key.name), "{} is there twice", key.name);
            assert!(key.alias.is_empty() || seen.insert(key.alias), "{} is there twice", key.alias);
            assert_eq!(key.why.len() > 8, key.treatment != Treatment::Passed, "{} says why", key.name);
        }
    }

    #[test]
    fn manual_lists_every_key_withheld_from_fio() {
        let docs = include_str!("../../../../docs/fio.md");
        for key in KEYS.iter().filter(|key| key.treatment != Treatment::Passed) {
            let name = match key.alias {
                "" => format!("`{}`", key.name),
                alias => format!("`{}` (`{alias}`)", key.name),
            };
            let row = format!("| {name} | {} | {} |", key.treatment.name(), key.why);
            assert!(docs.contains(&row), "docs/fio.md lacks: {row}");
        }
    }
}
