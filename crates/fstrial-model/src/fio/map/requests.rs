//! Requests: their kind, size, place and rate.

use super::{
    super::value::{Reading, Surroundings},
    BLOCKS, Files, Mapper, PAGE, Requests, Timing,
};
use crate::{
    units::{Bytes, Percent},
    workload::{Arrivals, Distribution, Entry, Extent, Rate, Sharing, Sizes, Zone},
};
use std::collections::BTreeMap;

/// A size in the middle of a value. What is worked out from the host is left to fio.
fn written_size(text: &str, decimal: bool) -> Option<Bytes> {
    let nowhere = Surroundings { cpus: 1, memory_mib: 0, page_bytes: 4096, variables: BTreeMap::default() };
    let reading = Reading { surroundings: &nowhere, decimal };
    (!text.contains(['$', '('])).then(|| reading.number(text).ok().map(Bytes))?
}

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
        let sizes = self.sizes(is_mixed, reads);
        let block = self.block(&sizes);
        let in_a_row = modifier.filter(|_| is_random).map_or(1, |modifier| self.in_a_row(modifier));
        let stride =
            modifier.filter(|_| !is_random).and_then(|skipped| self.stride(skipped, block, is_mixed));
        let jumps = self.jumps(is_random, is_mixed, reads, in_a_row);
        // Nothing but requests in a row heeds it.
        let in_place = self.word("rw_sequencer") == Some("identical") && in_a_row > 1;
        if in_a_row == 1 {
            self.idle("rw_sequencer", "fio looks at it for N requests in a row only (rw=randread:N)");
        }
        // fio keeps one place for reads and one for writes.
        let apart = is_mixed && reads > 0 && reads < 100 && (!is_random || in_a_row > 1 || jumps.is_some());
        let own = sizes
            .map(|sizes| sizes.filter(|sizes| sizes.least() != Bytes(block) || sizes.most() != Bytes(block)));
        let has_sizes = own.iter().any(Option::is_some);
        if has_sizes && is_random {
            self.places_of_sizes(&own, block);
        }
        let kind = Requests {
            is_random,
            is_mixed,
            reads,
            block,
            has_sizes,
            in_a_row,
            in_place,
            jumps,
            stride,
            apart,
        };
        (kind, own)
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
        let decimal = self.decimal();
        let size = |text: &str| written_size(text, decimal);
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

    /// A key that says nothing here, if it is there.
    fn idle(&mut self, key: &'static str, why: &str) {
        if self.take(key).is_some() {
            self.note(key, why);
        }
    }

    fn decimal(&mut self) -> bool {
        self.word("kb_base") == Some("1000")
    }

    /// Whether fio keeps a map of what was visited.
    pub(super) fn has_map(&mut self) -> bool {
        !self.switch("norandommap").unwrap_or(false)
            && self.word("random_distribution").unwrap_or("random") == "random"
    }

    /// Requests from each place that is drawn.
    fn in_a_row(&mut self, modifier: &str) -> u32 {
        modifier.parse().ok().filter(|n| *n > 0).unwrap_or_else(|| {
            self.reason("rw", "native requests in a row are a plain number");
            1
        })
    }

    /// From the start of one request to that of the next, with this many bytes skipped between them.
    fn stride(&mut self, skipped: &str, block: u64, is_mixed: bool) -> Option<u64> {
        let skipped = written_size(skipped, self.decimal()).map(|size| size.0);
        if skipped == Some(0) {
            return None;
        }
        if is_mixed || !skipped.is_some_and(|skipped| skipped.is_multiple_of(block)) {
            self.reason(
                "rw",
                "native strides go forward by a multiple of the block size, and have one place for reads and writes",
            );
        }
        Some(block.saturating_add(skipped.unwrap_or_default()))
    }

    /// Percent of reads and of writes that go to places that are drawn; none if all do, or nothing is drawn at all.
    fn jumps(&mut self, is_random: bool, is_mixed: bool, reads: u64, in_a_row: u32) -> Option<[u64; 2]> {
        let key = "percentage_random";
        let [read, write] = self.by_direction(key).map(|share| share.unwrap_or(100));
        let shares = match (is_mixed, reads) {
            (true, 1..100) => [read, write],
            (_, 0) => [write; 2],
            _ => [read; 2],
        };
        if !is_random {
            self.idle(key, "in a job that is not random fio does not look at it");
            return None;
        }
        if shares == [100; 2] {
            return None;
        }
        if in_a_row > 1 {
            self.reason(key, "native requests go on in rows, or by a share of all");
        }
        Some(shares)
    }

    /// What must hold where requests go on from others otherwise than one after the other.
    pub(super) fn going_on(&mut self, requests: Requests, files: &Files, timing: &Timing) {
        let Some(key) = requests.going_on() else { return };
        if timing.repeats && timing.amount.is_some() {
            self.reason(key, "fio begins at the first block again whenever it has gone through `size`");
        }
        if files.sharing == Sharing::Region && (requests.is_random || !requests.apart) {
            self.reason(key, "fio ends at the end of a region, native requests begin it again");
        }
        if requests.has_sizes && (requests.is_random || requests.stride.is_some()) {
            self.reason(key, "native requests that go on so have one size");
        }
        if requests.is_random && !requests.in_place && timing.amount.is_some() {
            self.note(
                key,
                "at the end of the file fio draws the next place, native threads go on at its beginning",
            );
        }
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

    /// Where the requests go, and what they write.
    pub(super) fn places(&mut self, requests: Requests, files: &Files, threads: u64) -> Entry {
        let (distribution, write_distribution, each_block_once) = self.distribution(requests, files, threads);
        let is = |on: bool| on.then_some(true);
        let share = |percent: u64| Percent(percent as f64);
        let Requests { stride, in_a_row, in_place, jumps, apart, .. } = requests;
        Entry {
            stride: stride.map(Bytes),
            one_lane: is(stride.is_some()),
            distribution: (!distribution.is_uniform()).then_some(distribution),
            write_distribution,
            each_block_once: is(each_block_once),
            in_a_row: (in_a_row > 1).then_some(in_a_row),
            in_place: is(in_place),
            jumps: jumps.map(|[reads, _]| share(reads)),
            write_jumps: jumps.and_then(|[reads, writes]| (reads != writes).then_some(share(writes))),
            apart: is(apart),
            ..self.data(requests)
        }
    }

    /// How blocks are drawn, for writes on their own if they have a law of their own, and whether each comes once.
    fn distribution(
        &mut self,
        requests: Requests,
        files: &Files,
        threads: u64,
    ) -> (Distribution, Option<Distribution>, bool) {
        let key = "random_distribution";
        let text = self.word(key).unwrap_or("random");
        let has_map = self.has_map();
        let uniform = (Distribution::Uniform, None, false);
        if !requests.is_random {
            return uniform;
        }
        let (word, parameter) = text.split_once(':').unwrap_or((text, ""));
        let number: Option<f64> = if parameter.is_empty() { "1.1" } else { parameter }.parse().ok();
        match (word, number) {
            ("random", _) if parameter.is_empty() => {
                self.note(
                    "rw",
                    "what is drawn comes from another generator, from the seed of the round, the same for every arm",
                );
                (Distribution::Uniform, None, has_map)
            }
            ("zipf", Some(theta)) => {
                self.zipf(theta, files, threads);
                (Distribution::Zipf { theta }, None, false)
            }
            ("zoned" | "zoned_abs", _) => {
                let (reads, writes) = self.zones(word, parameter, requests, files);
                (reads, writes, false)
            }
            ("pareto" | "normal", _) => {
                self.reason(
                    key,
                    "fio scatters what it draws over the file; native hot blocks of this law are neighbours",
                );
                uniform
            }
            _ => {
                self.reason(key, "the native forms of fio's distributions are random, zipf:THETA and zones");
                uniform
            }
        }
    }

    /// Zones for reads, and others for writes.
    fn zones(
        &mut self,
        word: &str,
        text: &str,
        requests: Requests,
        files: &Files,
    ) -> (Distribution, Option<Distribution>) {
        let key = "random_distribution";
        let lists: Vec<&str> = text.split(',').collect();
        let (reads, writes) = (lists[0], if lists.len() > 1 { lists[1] } else { text });
        let (first, second) = match (requests.has_reads(), requests.writes()) {
            (true, true) if reads != writes => (reads, Some(writes)),
            (true, _) => (reads, None),
            _ => (writes, None),
        };
        let decimal = self.decimal();
        let room = files.each_clone / files.count.max(1);
        let read =
            |list: &str| if word == "zoned" { zones(list) } else { zones_in_bytes(list, decimal, room) };
        let (Some(first), Some(second)) =
            (read(first), second.map_or(Some(None), |list| read(list).map(Some)))
        else {
            self.reason(
                key,
                "native zones have whole percents of the requests, 100 together, and a size each, not larger than the file \
                 together",
            );
            return (Distribution::Uniform, None);
        };
        if files.count > 1 && !files.by_turns {
            self.reason(key, "fio has its zones in each of several files, native threads over all of them");
        }
        let note = match lists.len() {
            1 => "the same zones, from another generator",
            _ => {
                "the same zones, from another generator; fio 3.33 fails to read lists with a comma, others take them so"
            }
        };
        self.note(key, note);
        (first, second)
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
                    self.reason("rate", "it is not a whole number of requests a second");
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

/// Parts of a list of zones: the percent of the requests, and what follows it.
fn shares(list: &str) -> Option<Vec<(f64, Option<&str>)>> {
    let mut all = Vec::new();
    let mut sum = 0_u32;
    for part in list.split(':') {
        let (share, size) = part.split_once('/').map_or((part, None), |(share, size)| (share, Some(size)));
        let share: u8 = share.parse().ok()?;
        sum += u32::from(share);
        all.push((f64::from(share), size));
    }
    (sum == 100).then_some(all)
}

/// Zones in percent of the file. Those without a size share what the others leave.
fn zones(list: &str) -> Option<Distribution> {
    let shares = shares(list)?;
    let size = |size: Option<&str>| match size {
        None | Some("") => Some(0),
        Some(size) => size.parse::<u8>().ok().map(u32::from),
    };
    let sizes: Vec<u32> = shares.iter().map(|(_, text)| size(*text)).collect::<Option<_>>()?;
    let open = sizes.iter().filter(|size| **size == 0).count() as u32;
    let rest = 100_u32.checked_sub(sizes.iter().sum())?.checked_div(open).unwrap_or(0);
    let zone = |(size, (weight, _)): (u32, &(f64, _))| {
        let percent = if size == 0 { rest } else { size };
        Zone { extent: Extent::Percent(percent.into()), weight: *weight }
    };
    sound(sizes.into_iter().zip(&shares).map(zone).collect())
}

/// Zones in bytes, with room for this many.
fn zones_in_bytes(list: &str, decimal: bool, room: u64) -> Option<Distribution> {
    let zone = |(weight, text): (f64, Option<&str>)| {
        let bytes = written_size(text?, decimal)?;
        Some((bytes.0, Zone { extent: Extent::Bytes(bytes), weight }))
    };
    let (sizes, zones): (Vec<u64>, Vec<Zone>) =
        shares(list)?.into_iter().map(zone).collect::<Option<Vec<_>>>()?.into_iter().unzip();
    let all = sizes.into_iter().try_fold(0, u64::checked_add)?;
    (all <= room).then_some(zones).and_then(sound)
}

fn sound(zones: Vec<Zone>) -> Option<Distribution> {
    Some(Distribution::Zones(zones)).filter(|zones| zones.problem().is_none())
}
