//! Settling of an entry: its preset laid under it, its phases and groups one by one, until nothing is implicit.

use super::{
    Data, Entry, Figure, Group, Kind, Pattern, Phase, RateTarget, SetName, TimedProgram, Until, Work,
    Workload, Ycsb, clients,
    entry::EntryLevel,
    entry_error::{EntryError, entry_error},
};
use crate::units::Nanos;
use std::{collections::BTreeMap, ops::RangeInclusive};

/// Phases of a workload, and groups of a phase, at most.
const MAX_PARTS: usize = 64;

/// The name that a phase or a group gives itself.
fn part_name(own: &Entry) -> Result<String, EntryError> {
    let name = own.name.clone().unwrap_or_default();
    if name.len() > 40 || name.contains(['\n', '\t', '@', '/']) {
        return Err(entry_error(
            "name",
            format!("`{name}` is not valid as the name of a phase or a group"),
            "use up to 40 characters without / and @",
        ));
    }
    Ok(name)
}

/// Times that a workload may measure for.
pub(crate) const DURATIONS: RangeInclusive<Nanos> = Nanos::millis(50)..=Nanos::secs(86_400);

fn check_times(warmup: Nanos, duration: Nanos) -> Result<(), EntryError> {
    if !DURATIONS.contains(&duration) {
        return Err(entry_error(
            "duration",
            "duration is out of range (50ms to 1d)",
            "use 50ms to 1d, such as 1s",
        ));
    }
    if warmup > *DURATIONS.end() {
        return Err(entry_error("warmup", "warmup is longer than a day", "use 0s to 1d, such as 250ms"));
    }
    Ok(())
}

impl Entry {
    /// Lays this entry's fields over the preset it names.
    fn over_preset(&self) -> Result<Self, EntryError> {
        if self.fio.is_some() {
            return Err(entry_error(
                "fio",
                "job files are not read here: use `fio` in a trial file, with `fstrial run`",
                "name the job file itself: fstrial compare … --workload job.fio",
            ));
        }
        let Some(name) = &self.preset else { return Ok(self.clone()) };
        let base = super::preset::preset(name).ok_or_else(|| {
            entry_error(
                "use",
                format!("there is no workload `{name}`"),
                super::preset::hint_for_unknown(name),
            )
        })?;
        Ok(self.over(base.keys()))
    }

    /// Settles every field. `cpus` decides the default levels: 1 and all of them.
    ///
    /// # Errors
    /// The key at fault, the problem and the remedy.
    pub fn resolve(&self, cpus: u16) -> Result<Workload, EntryError> {
        let full = self.over_preset()?;
        let mut threads = full.threads.clone().unwrap_or_else(|| vec![1, cpus.max(1)]);
        threads.sort_unstable();
        threads.dedup();
        if threads.is_empty() || threads[0] == 0 || threads[threads.len() - 1] > 1024 {
            return Err(entry_error(
                "threads",
                "numbers of threads must be between 1 and 1024",
                "write threads = [1, 4, 16]",
            ));
        }
        let name = full.name.clone().unwrap_or_else(|| "workload".into());
        if name.is_empty() || name.len() > 60 || name.contains(['\n', '\t', '@']) {
            return Err(entry_error(
                "name",
                format!("`{name}` is not valid as a name"),
                "use 1 to 60 characters without @",
            ));
        }
        if full.period.is_some_and(|period| !(Nanos::millis(1)..=Nanos::secs(86_400)).contains(&period)) {
            return Err(entry_error("period", "period is out of range (1ms to 1d)", "write period = \"5s\""));
        }
        if full.warmup.is_some() && matches!(full.kind, Some(Kind::Program | Kind::Operation)) {
            return Err(entry_error("warmup", "only loads have a warm-up", "leave warmup out"));
        }
        if full.kind == Some(Kind::Program) {
            let duration = full.duration.unwrap_or(Nanos::secs(10));
            check_times(Nanos(0), duration)?;
            let work = Work::Program(Box::new(TimedProgram { program: full.program()?, duration }));
            return Ok(Workload { name, work, threads, period: full.period });
        }
        if full.kind == Some(Kind::Operation) {
            // Few operations are done by threads.
            let threads = if full.threads.is_none() { vec![1] } else { threads };
            let work = Work::Operation(full.operation(&threads)?);
            return Ok(Workload { name, work, threads, period: None });
        }
        let mut phases = full.resolve_phases()?;
        phases.iter_mut().for_each(|phase| phase.one_folder = full.one_folder.unwrap_or(false));
        clients::check(&phases)?;
        if full.find_rate.is_some() && phases.iter().all(|phase| phase.find_rate.is_none()) {
            return Err(entry_error(
                "find_rate",
                "no phase that measures a time has operations that can be offered at a rate",
                "leave find_rate out, or this workload",
            ));
        }
        if !phases.iter().any(|phase| phase.results().next().is_some()) {
            return Err(entry_error("phase", "no phase is measured", "leave out measured = false in one"));
        }
        let workload = Workload { name, work: Work::Load(phases), threads, period: full.period };
        let mut names: Vec<String> = workload.results().map(|result| result.name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let problem = match twice[0].as_str() {
                "" => "phases or groups without a name".to_owned(),
                name => format!("two phases or groups are called `{name}`"),
            };
            return Err(entry_error("phase", problem, "give each a unique name = \"…\""));
        }
        check_records(workload.phases())?;
        Ok(workload)
    }

    /// The entry with the preset's fields and the default levels written out: it means the same on another machine and
    /// with another version's presets.
    ///
    /// # Errors
    /// There is no such preset.
    pub fn settled(&self, cpus: u16) -> Result<Self, EntryError> {
        let threads = self.resolve(cpus)?.threads;
        // Search words do not affect the work.
        Ok(Self { threads: Some(threads), keywords: None, ..self.over_preset()? })
    }

    /// Sets the duration of every run, overriding its phases.
    pub fn lasts(&mut self, duration: Nanos) {
        self.duration = Some(duration);
        self.phases.iter_mut().flatten().for_each(|phase| phase.duration = None);
    }

    fn resolve_phases(&self) -> Result<Vec<Phase>, EntryError> {
        let Some(phases) = &self.phases else {
            return Ok(vec![self.phase(self, String::new())?]);
        };
        if phases.is_empty() || phases.len() > MAX_PARTS || self.groups.is_some() {
            return Err(entry_error(
                "phase",
                "a workload has 1 to 64 phases, or groups of threads, not both",
                "write groups inside phases: [[workload.phase.group]]",
            ));
        }
        let phase = |own: &Self| {
            own.only_keys_in(EntryLevel::Phase)?;
            own.over(self.inherited()).phase(own, part_name(own)?)
        };
        phases.iter().map(phase).collect()
    }

    /// Settles the groups of a phase; `own` is its own table.
    fn resolve_groups(&self, own: &Self) -> Result<Vec<Group>, EntryError> {
        match &self.groups {
            None => {
                self.kind.map_or(Ok(()), |kind| own.only_keys_of(kind))?;
                Ok(vec![self.group(String::new())?])
            }
            Some(groups) if groups.is_empty() || groups.len() > MAX_PARTS => {
                Err(entry_error("group", "a phase has 1 to 64 groups", "leave out the empty list"))
            }
            Some(groups) => groups
                .iter()
                .map(|own| {
                    own.only_keys_in(EntryLevel::Group)?;
                    own.kind.or(self.kind).map_or(Ok(()), |kind| own.only_keys_of(kind))?;
                    own.over(self.inherited()).group(part_name(own)?)
                })
                .collect(),
        }
    }

    /// Settles one phase; `own` is its own table.
    fn phase(&self, own: &Self, name: String) -> Result<Phase, EntryError> {
        let groups = self.resolve_groups(own)?;
        let goes_on = groups.iter().all(|group| group.pattern.goes_on());
        let until = self.until.unwrap_or(if goes_on { Until::Time } else { Until::Done });
        let slow = groups.iter().any(|group| group.pattern.is_buffered_write());
        let (warmup, duration) = match until {
            Until::Time => (
                self.warmup.unwrap_or(if slow { Nanos::secs(2) } else { Nanos::millis(250) }),
                self.duration.unwrap_or(if slow { Nanos::secs(10) } else { Nanos::secs(1) }),
            ),
            Until::Done => (Nanos(0), self.duration.unwrap_or(Nanos::secs(3600))),
        };
        check_times(warmup, duration)?;
        self.check_end(&groups, until, goes_on)?;
        let mut phase = Phase {
            name,
            groups,
            until,
            warmup,
            duration,
            measured: self.measured.unwrap_or(true),
            settle: self.settle.unwrap_or(false),
            one_folder: false,
            host_offset: self.host_offset.unwrap_or(0),
            find_rate: self.find_rate.clone(),
        };
        match phase.search_problem() {
            None => {}
            // Settings of the whole workload apply to the phases that support them.
            Some(_) if own.find_rate.is_none() => phase.find_rate = None,
            Some((problem, hint)) => return Err(entry_error("find_rate", problem, hint)),
        }
        Ok(phase)
    }

    /// Refuses ends of a phase that its groups cannot reach.
    fn check_end(&self, groups: &[Group], until: Until, goes_on: bool) -> Result<(), EntryError> {
        let (timed, done) = (until == Until::Time, until == Until::Done);
        let any = |is: fn(&Group) -> bool| groups.iter().any(is);
        let rules = [
            (
                done && any(|group| !group.pattern.ends()),
                "until",
                "a group's load has no end here",
                "leave out until = \"done\", or give it an amount: requests, turns, commits or batches",
            ),
            (
                timed && !goes_on,
                "until",
                "a group's load can end here before the duration of the phase",
                "write until = \"done\", or leave the amount out",
            ),
            (
                timed && any(|group| group.figure == Figure::Time),
                "figure",
                "a phase that measures a time takes that time",
                "use until = \"done\" for a time that is a result",
            ),
            (
                done && any(|group| group.background),
                "background",
                "a group in the background has no end that a phase could wait for",
                "leave out until = \"done\"",
            ),
        ];
        let broken = rules.into_iter().find(|(is_broken, ..)| *is_broken);
        broken.map_or(Ok(()), |(_, key, problem, hint)| Err(entry_error(key, problem, hint)))
    }

    /// Settles the work of a group's threads.
    fn pattern(&self) -> Result<Pattern, EntryError> {
        let Some(kind) = self.kind else {
            return Err(entry_error(
                "kind",
                "the workload has neither `use` nor `kind`",
                "write use = \"random-write\", or kind = \"io\" (or another) and its fields",
            ));
        };
        if matches!(kind, Kind::Program | Kind::Operation) {
            return Err(entry_error(
                "kind",
                "programs and operations are neither phases nor groups of threads",
                "give it a separate [[workload]]",
            ));
        }
        let mut keys = self.pattern_keys(kind);
        keys.insert("kind".into(), kind.name().into());
        // All was parsed once with its types here, except the steps, which depend on the kind.
        let pattern: Pattern = keys.try_into().map_err(|error: toml::de::Error| EntryError {
            key: "steps",
            problem: error.message().to_owned(),
            hint: None,
        })?;
        pattern.check().map(|()| pattern)
    }

    /// Settles one group.
    fn group(&self, name: String) -> Result<Group, EntryError> {
        let pattern = self.pattern()?;
        if self.workers.is_some_and(|workers| !(1..=1024).contains(&workers)) {
            return Err(entry_error(
                "workers",
                "numbers of threads must be between 1 and 1024",
                "workers = 1",
            ));
        }
        if self.rate.is_some() && !pattern.takes_rate() {
            return Err(entry_error(
                "rate",
                "a rate is offered to kind = \"io\", \"files\", \"flow\", \"log\" and \"ycsb\", and to \"flush\" without an interval",
                "leave rate out",
            ));
        }
        let set = self.set.as_deref().map_or(Ok(SetName::load()), str::parse);
        let set = set.map_err(|bad| entry_error("set", bad, "use 1 to 40 letters, digits, - and _"))?;
        Ok(Group {
            name,
            workers: self.workers,
            set,
            data: Data::of_entry(self.data, self.compressible, self.duplicates)?,
            rate: self.rate,
            background: self.background.unwrap_or(false),
            figure: self.figure_of(&pattern)?,
            pattern,
        })
    }

    /// Basis of a pattern's throughput.
    fn figure_of(&self, pattern: &Pattern) -> Result<Figure, EntryError> {
        let figure = self.figure.unwrap_or(Figure::Operations);
        if figure == Figure::BytesWritten && !matches!(pattern, Pattern::Io(io) if io.writes()) {
            return Err(entry_error(
                "figure",
                "bytes written are counted apart from bytes read only in a kind = \"io\" that writes",
                "use figure = \"bytes\" or figure = \"operations\"",
            ));
        }
        Ok(figure)
    }
}

impl Phase {
    /// The reason why no rate can be searched here despite a request, and the remedy.
    fn search_problem(&self) -> Option<(String, String)> {
        let target = self.find_rate.as_ref()?;
        if self.until == Until::Done || !self.measured {
            let what = "finding a rate needs a duration, and this phase has none".to_owned();
            return Some((what, "leave out until = \"done\" and measured = false".into()));
        }
        if self.searched().is_some() {
            return None;
        }
        let able: Vec<&str> = self
            .groups
            .iter()
            .filter(|group| group.can_be_searched())
            .map(|group| group.name.as_str())
            .collect();
        match &target.group {
            Some(name) if !able.is_empty() => {
                let hint = match able.as_slice() {
                    [""] => format!("leave the name out: {}", RateTarget { group: None, ..target.clone() }),
                    names => format!("rates can be looked for of: {}", names.join(", ")),
                };
                Some((format!("no group of threads `{name}` can be offered a rate"), hint))
            }
            _ => Some((
                "nothing here can be offered a rate that is not offered one already".into(),
                "leave rate and background = true out; batches with an interval have a rate already".into(),
            )),
        }
    }
}

/// Refuses groups that share records at the same time, or after a phase that leaves an unknown number of them.
fn check_records(phases: &[Phase]) -> Result<(), EntryError> {
    let mut earlier: BTreeMap<&SetName, Ycsb> = BTreeMap::new();
    for phase in phases {
        let mut now = BTreeMap::new();
        for group in &phase.groups {
            let Pattern::Ycsb(ycsb) = &group.pattern else { continue };
            let set = &group.set;
            let follows = earlier.get(set).is_none_or(|before| ycsb.may_follow(before));
            if now.insert(set, *ycsb).is_some() || !follows {
                let problem =
                    format!("two groups of kind = \"ycsb\" cannot share the records of the set `{set}`");
                let hint = "give each a unique set = \"…\"; phases may share one if their engine, records and \
                     cache agree, and no phase before the last inserts, except a \"load\" of all records";
                return Err(entry_error("set", problem, hint));
            }
        }
        earlier.append(&mut now);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        units::Percent,
        workload::{Access, Distribution, Io, Mix, Sharing},
    };

    fn resolve(text: &str) -> Result<Workload, EntryError> {
        toml::from_str::<Entry>(text).unwrap().resolve(2)
    }

    #[test]
    fn the_tools_workloads_can_be_written() {
        for (text, check) in [
            (
                "use = 'random-read'\ndistribution = 'zipf'",
                (|io| io.distribution == Distribution::Zipf { theta: 0.99 }) as fn(&Io) -> bool,
            ),
            ("use = 'random-write'\neach_block_once = true", |io| io.each_block_once),
            ("use = 'sequential-write'\nsharing = 'region'", |io| io.sharing == Sharing::Region),
            ("use = 'sequential-read'\nupdate = '100%'", |io| io.writes() && io.reads == Percent(100.0)),
            ("use = 'random-mixed'\nmix = 'ratio'\nreads = '60%'", |io| io.mix == Mix::Ratio),
            ("use = 'append-fsync'\naccess = 'extend'", |io| io.access == Access::Extend),
        ] {
            let workload = resolve(text).unwrap_or_else(|e| panic!("{text}: {}", e.problem));
            let Pattern::Io(io) = &workload.phases()[0].groups[0].pattern else { panic!("{text}: io") };
            assert!(check(io), "{text}: {io:?}");
            let stored = serde_json::to_string(&workload).unwrap();
            assert_eq!(serde_json::from_str::<Workload>(&stored).unwrap(), workload);
        }
    }

    #[test]
    fn data_and_rate_belong_to_both_kinds() {
        for preset in ["random-write", "create-files"] {
            let plain = resolve(&format!("use = '{preset}'")).unwrap();
            assert_eq!((plain.phases()[0].groups[0].data, plain.phases()[0].groups[0].rate), (None, None));
            let text = format!("use = '{preset}'\ndata = 'mixed'\nduplicates = '20%'\nrate = '50/s poisson'");
            let workload = resolve(&text).unwrap();
            let mixed = Data::Mixed { compressible: Percent(0.0), duplicate: Percent(20.0) };
            let group = &workload.phases()[0].groups[0];
            assert_eq!(group.data, Some(mixed));
            assert_eq!(group.rate.unwrap().to_string(), "50/s poisson");
            let stored = serde_json::to_string(&workload).unwrap();
            assert_eq!(serde_json::from_str::<Workload>(&stored).unwrap(), workload);
        }
    }

    #[test]
    fn a_rate_is_looked_for_wherever_operations_can_be_offered() {
        let searched = |text: &str| {
            let workload = resolve(text).unwrap_or_else(|e| panic!("{text}: {}", e.problem));
            workload.results().map(|result| (result.name, result.unit)).collect::<Vec<_>>()
        };
        let rate = |name: &str| vec![(name.to_owned(), "op/s".to_owned())];
        for (preset, name) in [
            ("wal-group-commit", ""),
            ("create-files", ""),
            ("varmail", ""),
            ("innodb-flush", "redo"),
            ("checkpoint-bursts", "commits"),
            ("lsm-compaction", "commits"),
            ("htap", "writers"),
        ] {
            assert_eq!(searched(&format!("use = '{preset}'\nfind_rate = 'p99<5ms'")), rate(name), "{preset}");
        }
        let named = "use = 'innodb-flush'\nfind_rate = 'flusher p99<1s'";
        assert_eq!(searched(named), rate("flusher"), "batches of pages are operations too");
    }

    #[test]
    fn invalid_find_rate_error_has_cause_and_hint() {
        for (text, problem, hint) in [
            ("use = 'innodb-flush'\nfind_rate = 'red p99<1s'", "no group of threads `red`", "redo, flusher"),
            ("use = 'checkpoint-bursts'\nfind_rate = 'checkpointer p99<1s'", "no group", "of: commits"),
            (
                "use = 'random-read'\nfind_rate = 'x p99<1s'",
                "no group of threads `x`",
                "leave the name out: p99<1s",
            ),
            (
                "use = 'random-read'\nrate = '5/s'\nfind_rate = 'p99<1s'",
                "not offered one already",
                "leave rate",
            ),
            (
                "use = 'postmark'\nfind_rate = 'p99<1s'",
                "no phase that measures a time",
                "leave find_rate out",
            ),
            ("use = 'mdtest'\nfind_rate = 'p99<1s'", "no phase that measures a time", "leave find_rate out"),
        ] {
            let error = resolve(text).unwrap_err();
            assert_eq!(error.key, "find_rate", "{text}");
            assert!(error.problem.contains(problem), "{text}: {}", error.problem);
            assert!(
                error.hint.as_ref().is_some_and(|output| output.contains(hint)),
                "{text}: {:?}",
                error.hint
            );
        }
    }

    #[test]
    fn keys_of_something_else_are_refused() {
        for (text, key) in [
            ("use = 'random-write'\ncompressible = '10%'", "compressible"),
            ("use = 'random-write'\ndata = 'zero'\nduplicates = '10%'", "duplicates"),
            ("use = 'random-write'\ndata = 'mixed'", "data"),
            ("use = 'create-files'\ndistribution = 'zipf'", "distribution"),
            ("use = 'create-files'\neach_block_once = true", "each_block_once"),
            ("use = 'create-files'\nupdate = '1%'", "update"),
            ("use = 'create-files'\nmix = 'ratio'", "mix"),
            ("use = 'append-fsync'\neach_block_once = true", "each_block_once"),
            ("use = 'random-write'\nupdate = '10%'", "update"),
            ("use = 'random-read'\nfigure = 'bytes-written'", "figure"),
            ("use = 'varmail'\nfigure = 'bytes-written'", "figure"),
            ("use = 'varmail'\nfsync_at_end = true", "fsync_at_end"),
            ("use = 'create-files'\nfsync_at_end = true", "fsync_at_end"),
            ("use = 'sysbench-rndrw'\nsharing = 'cursor'\none_folder = true", "one_folder"),
            ("use = 'postmark'\none_folder = true", "one_folder"),
            ("use = 'varmail'\none_folder = true", "one_folder"),
            ("use = 'random-read'\ndistribution = 'zipf'\none_folder = true", "one_folder"),
            ("use = 'random-read'\nhost_offset = 1", "host_offset"),
            ("use = 'create-files'\nhost_offset = 1", "host_offset"),
        ] {
            let error = resolve(text).unwrap_err();
            assert_eq!(error.key, key, "{text}: {}", error.problem);
            assert!(error.hint.is_some());
        }
    }
}
