//! Requests: their kind, size, place and rate.

use super::{
    super::value::{Reading, Surroundings},
    BLOCKS, Files, Mapper, PAGE, Requests,
};
use crate::{
    units::Bytes,
    workload::{Arrivals, Distribution, Rate, Sharing, Sizes},
};
use std::collections::BTreeMap;

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl Mapper<'_> {
    pub(super) fn requests(&mut self) -> (Requests, [Option<Sizes>; 2]) {
        let text = self.word("rw").unwrap_or("read");
        let (word, modifier) = text.split_once(':').map_or((text, None), |(word, n)| (word, Some(n)));
        if word.contains("trim") {
            self.reason("rw", "the native engine does not trim");
        }
        let is_mixed = ["rw", "readwrite", "randrw"].contains(&word);
        let mut reads = if word.ends_with("read") { 100 } else { 0 };
        let shares = [self.number("rwmixread"), self.number("rwmixwrite").map(|share| 100 - share.min(100))];
        if is_mixed {
            let is_write_later = self.job.position("rwmixwrite") > self.job.position("rwmixread");
            let [first, second] = if is_write_later { [shares[1], shares[0]] } else { shares };
            reads = first.or(second).unwrap_or(50);
        }
        let is_random = word.starts_with("rand");
        if is_mixed && !is_random && reads > 0 && reads < 100 {
            self.reason(
                "rw",
                "fio keeps one place for reads and one for writes; native threads have one for both",
            );
        }
        let in_a_row = modifier.map_or(1, |modifier| self.in_a_row(modifier, is_random, is_mixed));
        let sizes = self.sizes(is_mixed, reads);
        let block = self.block(&sizes);
        let own = sizes
            .map(|sizes| sizes.filter(|sizes| sizes.least() != Bytes(block) || sizes.most() != Bytes(block)));
        let has_sizes = own.iter().any(Option::is_some);
        if has_sizes && is_random {
            self.places_of_sizes(&own, block);
        }
        (Requests { is_random, is_mixed, reads, block, has_sizes, in_a_row }, own)
    }

    /// Sizes of reads and of writes; none where nothing is read, or nothing written.
    fn sizes(&mut self, is_mixed: bool, reads: u64) -> [Option<Sizes>; 2] {
        let fixed = self.by_direction("bs").map(|size| size.unwrap_or(PAGE));
        let written: Vec<&'static str> =
            ["bssplit", "bsrange"].into_iter().filter(|key| self.take(key).is_some()).collect();
        let has_fixed = self.job.get("bs").is_some();
        if let [key, others @ ..] = &written[..]
            && (has_fixed || !others.is_empty())
        {
            self.reason(key, "which of bs, bsrange and bssplit counts is left to fio");
        }
        let used = [is_mixed || reads > 0, is_mixed || reads == 0];
        let mut sizes = [None, None];
        for direction in [0, 1].into_iter().filter(|direction| used[*direction]) {
            let read = match written.first() {
                Some(key) => self.written_sizes(key, direction),
                None => Some(Sizes::Listed(vec![(Bytes(fixed[direction]), 1.0)])),
            };
            sizes[direction] = read;
        }
        sizes
    }

    /// What `bssplit` or `bsrange` say for a direction, or the reason why that has no native form.
    fn written_sizes(&mut self, key: &'static str, direction: usize) -> Option<Sizes> {
        let (text, lists): (&str, Vec<&str>) =
            self.word(key).map(|text| (text, text.split(',').collect())).unwrap_or_default();
        let list = if lists.len() > 1 { lists[direction] } else { text };
        // What is worked out from the host is left to fio.
        let nowhere =
            Surroundings { cpus: 1, memory_mib: 0, page_bytes: 4096, variables: BTreeMap::default() };
        let reading = Reading { surroundings: &nowhere, decimal: self.word("kb_base") == Some("1000") };
        let size = |text: &str| (!text.contains(['$', '('])).then(|| reading.number(text).ok().map(Bytes))?;
        let sizes = if key == "bsrange" {
            list.split_once('-')
                .and_then(|(least, most)| Some(Sizes::Between { least: size(least)?, most: size(most)? }))
        } else {
            let part = |part: &str| {
                let (bytes, share) = part.split_once('/')?;
                Some((size(bytes)?, share.parse::<u8>().ok().map(f64::from)?))
            };
            let parts: Option<Vec<_>> = list.split(':').map(part).collect();
            let is_whole =
                |parts: &Vec<(Bytes, f64)>| parts.iter().map(|(_, share)| share).sum::<f64>() == 100.0;
            parts.filter(is_whole).map(Sizes::listed)
        };
        match sizes.filter(|sizes| sizes.problem(sizes.least()).is_none()) {
            Some(sizes) => Some(sizes),
            None => {
                self.reason(
                    key,
                    "native sizes are multiples of the smallest one, each once, with whole percents that are 100 together",
                );
                None
            }
        }
    }

    /// When places of requests of several sizes are the same.
    fn places_of_sizes(&mut self, sizes: &[Option<Sizes>; 2], block: u64) {
        let key = ["bssplit", "bsrange"].into_iter().find(|key| self.job.get(key).is_some()).unwrap_or("bs");
        let distribution = self.word("random_distribution").unwrap_or("random");
        if !self.switch("norandommap").unwrap_or(false) && distribution == "random" {
            self.reason(
                key,
                "fio cuts a request short that comes to a block which was visited, by its random map (norandommap would \
                 not)",
            );
        }
        if distribution != "random" && sizes.iter().flatten().any(|sizes| sizes.least() != Bytes(block)) {
            self.reason(
                key,
                "fio then has hot places for reads and others for writes; native threads have one law",
            );
        }
    }

    /// Requests from each place that is drawn.
    pub(super) fn in_a_row(&mut self, modifier: &str, is_random: bool, is_mixed: bool) -> u32 {
        if !is_random {
            self.reason(
                "rw",
                "fio leaves a hole after each request and begins again at the end; native strides cover all",
            );
        }
        if is_mixed {
            self.reason(
                "rw",
                "fio goes on from the last place of reads, and from that of writes; native threads have one",
            );
        }
        let has_map = !self.switch("norandommap").unwrap_or(false)
            && self.word("random_distribution").unwrap_or("random") == "random";
        if has_map {
            self.reason(
                "rw",
                "only the first of such requests comes from the random map, which the others do not heed (norandommap \
                 would draw it)",
            );
        }
        modifier.parse().ok().filter(|n| *n > 0).unwrap_or_else(|| {
            self.reason("rw", "native requests in a row are a plain number");
            1
        })
    }

    /// What all sizes are multiples of.
    fn block(&mut self, sizes: &[Option<Sizes>; 2]) -> u64 {
        let least = sizes.iter().flatten().map(|sizes| sizes.least().0);
        let block = least.clone().reduce(common_divisor).unwrap_or(PAGE);
        if sizes.iter().flatten().any(|sizes| !BLOCKS.contains(&sizes.most().0)) {
            self.reason("bs", "native requests have at most 64 MiB");
        }
        let aligned = self.by_direction("ba");
        let is_own = |size: &u64| *size == 0 || least.clone().all(|least| least == *size);
        if !aligned.iter().flatten().all(is_own) {
            self.reason("ba", "native offsets are multiples of the block size");
        }
        block.max(1)
    }

    pub(super) fn distribution(
        &mut self,
        requests: Requests,
        files: &Files,
        threads: u64,
    ) -> (Distribution, bool) {
        let text = self.word("random_distribution").unwrap_or("random");
        let has_map = !self.switch("norandommap").unwrap_or(false);
        if !requests.is_random {
            return (Distribution::Uniform, false);
        }
        let (word, parameter) = text.split_once(':').unwrap_or((text, ""));
        let number: Option<f64> = if parameter.is_empty() { "1.1" } else { parameter }.parse().ok();
        let theta = match (word, number) {
            ("random", _) if parameter.is_empty() => {
                self.note(
                    "rw",
                    "what is drawn comes from another generator, from the seed of the round, the same for every arm",
                );
                return (Distribution::Uniform, has_map);
            }
            ("zipf", Some(theta)) => theta,
            ("zoned", _) => return (self.zones(parameter, files), false),
            ("pareto" | "normal", _) => {
                self.reason(
                    "random_distribution",
                    "fio scatters what it draws over the file; native hot blocks of this law are neighbours",
                );
                return (Distribution::Uniform, false);
            }
            _ => {
                self.reason(
                    "random_distribution",
                    "the native forms of fio's distributions are random, zipf:THETA and two zones",
                );
                return (Distribution::Uniform, false);
            }
        };
        self.zipf(theta, files, threads);
        (Distribution::Zipf { theta }, false)
    }

    /// Two zones: what is drawn in the first one, and how large it is.
    pub(super) fn zones(&mut self, text: &str, files: &Files) -> Distribution {
        let key = "random_distribution";
        let zone = |zone: &str| -> Option<(f64, f64)> {
            let (share, size) = zone.split_once('/')?;
            Some((share.parse::<u8>().ok()?.into(), size.parse::<u8>().ok()?.into()))
        };
        let zones: Option<Vec<(f64, f64)>> = text.split(':').map(zone).collect();
        let Some([(share, size), (other_share, other_size)]) = zones.as_deref() else {
            self.reason(key, "native requests have a hot stretch and the rest: two zones of whole percents");
            return Distribution::Uniform;
        };
        let hotspot = Distribution::Hotspot { fraction: size / 100.0, share: share / 100.0 };
        if share + other_share != 100.0 || size + other_size != 100.0 || hotspot.problem().is_some() {
            self.reason(key, "the two zones and what is drawn in them are not 100% together");
            return Distribution::Uniform;
        }
        if files.count > 1 && !files.by_turns {
            self.reason(key, "fio has its zones in each of several files, native threads over all of them");
        }
        self.note(key, "the same zones, from another generator");
        hotspot
    }

    /// When Zipf's law over fio's ranges is that over native blocks.
    pub(super) fn zipf(&mut self, theta: f64, files: &Files, threads: u64) {
        let key = "random_distribution";
        let native = Distribution::Zipf { theta };
        if let Some(problem) = native.problem() {
            self.reason(key, problem);
        }
        if files.count > 1 && !files.by_turns {
            self.reason(key, "fio's law holds in each of several files, the native one over all of them");
        }
        if files.sharing == Sharing::Shared && threads > 1 {
            self.reason(
                key,
                "each of fio's clones has hot blocks of its own in the shared file; native threads have the same ones",
            );
        }
        self.note(
            key,
            "the same law from another generator; hot blocks are scattered over the file, in another order than fio's, \
             which can put two ranks on one block",
        );
    }

    pub(super) fn rate(&mut self, requests: Requests, threads: u64) -> Option<Rate> {
        let arrivals = match self.word("rate_process") {
            Some("poisson") => Arrivals::Poisson,
            _ => Arrivals::Constant,
        };
        let direction = usize::from(requests.reads == 0);
        let bytes = self.by_direction("rate")[direction].filter(|rate| *rate > 0);
        let iops = self.by_direction("rate_iops")[direction].filter(|rate| *rate > 0);
        let (key, per_second) = match (bytes, iops) {
            (None, None) => return None,
            (Some(_), Some(_)) => {
                self.reason("rate", "native threads have one rate");
                return None;
            }
            (Some(bytes), None) => {
                if requests.has_sizes {
                    self.reason("rate", "native rates are requests a second, and these have several sizes");
                }
                if !bytes.is_multiple_of(requests.block) {
                    self.reason("rate", "it is no whole number of requests a second");
                }
                ("rate", bytes / requests.block)
            }
            (None, Some(iops)) => ("rate_iops", iops),
        };
        if requests.is_mixed {
            self.reason(key, "fio holds reads and writes to a rate each, native threads have one for both");
        }
        self.note(key, "fio's latency begins when a request is sent, also when it was due before");
        // fio's rate is each clone's, an entry's that of all its threads.
        Some(Rate { per_second: per_second as f64 * threads as f64, arrivals })
    }
}
