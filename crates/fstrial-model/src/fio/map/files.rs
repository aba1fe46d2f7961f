//! The files of a job, how they are laid out, and what the page cache does with them.

use super::{super::value::Value, Files, Mapper, PAGE, Requests, Timing};
use crate::workload::{Access, Advice, Backend, Layout, Sharing};
use std::collections::BTreeSet;

impl Mapper<'_> {
    pub(super) fn files(&mut self, requests: Requests, threads: u64) -> Files {
        let mut size = self.number("size");
        let mut count = self.number("nrfiles").unwrap_or(1);
        let named = self.take("filename").map(|setting| setting.text.split(':').collect::<Vec<_>>());
        let format = self.word("filename_format").unwrap_or("$jobnum.$filenum");
        if self.job.get("filename_format").is_some() {
            self.note("filename_format", "native files have names of their own");
        }
        let is_named = named.is_some() || !format.contains("$jobnum");
        if let Some(names) = named {
            count = self.named(&names);
        } else if count > 1 && !format.contains("$filenum") {
            self.reason("filename_format", "without $filenum all files of a clone are one");
        }
        if let Some(each) = self.file_size() {
            let together = each.saturating_mul(count);
            if size.is_some_and(|size| size != together) {
                self.reason("filesize", "native threads transfer what their files hold");
            }
            size = Some(together);
        }
        let each_clone = size.unwrap_or(requests.block);
        if !each_clone.is_multiple_of(count) || !(each_clone / count).is_multiple_of(requests.block) {
            self.reason("size", "native files are whole numbers of requests");
        }
        let by_turns = count > 1 && self.service(requests.is_random);
        if count > 1
            && let Some(key) = requests.going_on()
        {
            self.reason(
                key,
                "of several files fio takes the next one all the same; native requests go on in theirs",
            );
        }
        self.take("file_service_type");
        if count > 100_000 {
            self.reason("nrfiles", "native threads have at most 100000 files");
        }
        let sharing = self.sharing(requests, threads, is_named, each_clone);
        if count > 1 && sharing == Sharing::Region {
            self.reason("offset_increment", "native regions are those of one file");
        }
        let parts = if sharing == Sharing::Shared { 1 } else { threads };
        Files { total: each_clone.saturating_mul(parts), each_clone, count, by_turns, sharing }
    }

    /// How many files a list of names comes to.
    pub(super) fn named(&mut self, names: &[&str]) -> u64 {
        let count = names.len() as u64;
        if let Some(Value::Number(asked)) = self.job.get("nrfiles").map(|setting| &setting.value)
            && *asked != count
        {
            match count {
                1 => self.note("nrfiles", "`filename` names the one file, and this says nothing"),
                _ => self.reason("nrfiles", "which of the named files it means is left to fio"),
            }
        }
        if names.iter().collect::<BTreeSet<_>>().len() != names.len() {
            self.reason("filename", "a file is named twice; native threads have each file once");
        }
        count
    }

    /// The size of each file, if it is given as one.
    pub(super) fn file_size(&mut self) -> Option<u64> {
        match self.take("filesize")?.value {
            Value::Number(size) => Some(size),
            _ => {
                self.reason("filesize", "native files all have one size");
                None
            }
        }
    }

    /// Whether requests go from file to file by turns.
    pub(super) fn service(&mut self, is_random: bool) -> bool {
        match (self.word("file_service_type"), is_random) {
            (None | Some("roundrobin" | "roundrobin:1"), _) => return true,
            (Some("random"), true) => {
                self.note("file_service_type", "a file and a block in it are drawn, from another generator");
            }
            (Some("sequential"), false) => {}
            _ => self.reason(
                "file_service_type",
                "native threads take the files by turns (roundrobin), draw one (random access) or finish one first \
                 (sequential access)",
            ),
        }
        false
    }

    pub(super) fn sharing(
        &mut self,
        requests: Requests,
        threads: u64,
        is_named: bool,
        each_clone: u64,
    ) -> Sharing {
        let step = self.number("offset_increment").unwrap_or(0);
        match (is_named, threads, step) {
            (_, 1, _) | (false, _, 0) => Sharing::PerThread,
            (true, _, 0) => {
                if !requests.is_random {
                    self.reason(
                        "filename",
                        "fio's clones all start at the beginning of the shared file; native threads start at evenly \
                         spaced places",
                    );
                }
                Sharing::Shared
            }
            (true, _, step) if step == each_clone => Sharing::Region,
            _ => {
                self.reason("offset_increment", "native regions are as large as what each thread transfers");
                Sharing::PerThread
            }
        }
    }

    pub(super) fn layout(&mut self, requests: Requests, backend: Backend) -> Layout {
        let mode = self.word("fallocate").unwrap_or("native");
        let is_overwrite = self.switch("overwrite").unwrap_or(false);
        if requests.has_reads() || is_overwrite || backend == Backend::Mmap {
            if mode != "native" && mode != "none" && mode != "0" {
                self.note("fallocate", "the files are written in full in any case");
            }
            return Layout::Written;
        }
        match mode {
            "none" | "0" => return Layout::Empty,
            "truncate" => return Layout::Sparse,
            "keep" => self.reason("fallocate", "native files with space have their size, too"),
            "native" => self.note(
                "fallocate",
                "as with fio, first writes go to space without data; where a filesystem has no fallocate, fio leaves \
                 the file empty",
            ),
            _ => {}
        }
        Layout::Fallocated
    }

    pub(super) fn access(&mut self, requests: Requests, files: &Files, layout: Layout) -> Access {
        match (requests.is_random, layout == Layout::Empty) {
            (true, true) if files.sharing == Sharing::Shared => {
                self.reason("fallocate", "native clones do not share a file that is empty");
                Access::Random
            }
            (true, _) => Access::Random,
            (false, _) if requests.stride.is_some() => {
                if layout == Layout::Empty {
                    self.reason("fallocate", "native strides go over files that have their size");
                }
                Access::Strided
            }
            (false, false) => Access::Sequential,
            (false, true) => Access::Extend,
        }
    }

    /// What fio tells the kernel of the order of requests, and whether it drops what it has gone through.
    pub(super) fn page_cache(
        &mut self,
        requests: Requests,
        files: &Files,
        timing: &Timing,
        backend: Backend,
        direct: bool,
        layout: Layout,
    ) -> (Advice, bool) {
        let hint = self.word("fadvise_hint").unwrap_or("1");
        let invalidates = self.switch("invalidate").unwrap_or(true);
        if direct && backend != Backend::Mmap {
            return (Advice::None, false);
        }
        // A write of part of a page reads the rest of it, and a mapping reads what it writes to.
        let is_partial = !requests.block.is_multiple_of(PAGE) && layout == Layout::Written;
        let reads = requests.has_reads() || is_partial || backend == Backend::Mmap;
        let advice = match hint {
            _ if !reads => Advice::None,
            "0" => Advice::None,
            "random" => Advice::Random,
            "sequential" => Advice::Sequential,
            _ if requests.is_random => Advice::Random,
            _ => Advice::Sequential,
        };
        let is_timed = timing.amount.is_none();
        // Each of fio's loops begins with a drop. In a job for a time the end of the file makes it, or that of the random
        // map: without a map nothing does.
        let drops = !is_timed || !requests.is_random || self.has_map();
        let ends = match requests.going_on() {
            Some(_) if requests.stride.is_some() => files.lane(requests).is_some(),
            going_on => going_on.is_some() && !requests.in_place,
        };
        if invalidates && is_timed && ends {
            self.reason(
                "invalidate",
                "fio drops the file from the page cache whenever such requests come to its end; native laps count \
                 requests",
            );
        }
        let cold_laps = timing.repeats && invalidates && drops && requests.stride.is_none();
        if cold_laps && backend == Backend::Mmap {
            self.reason(
                "invalidate",
                "whenever fio has gone through `size` it remaps the file and drops it from the page cache; native \
                 maps stay",
            );
        }
        if !invalidates && reads {
            self.reason(
                "invalidate",
                "fio then reads what its own layout left in memory; native runs start with empty caches",
            );
        }
        (advice, cold_laps)
    }
}
