//! Rounds of measurements, and their output.

use crate::contenders::{Contender, Kind, Load, Outcome, Sample, Tools};
use rustix::fs::statfs;
use std::{
    io::{self, Write},
    path::Path,
};

/// fstrial's promise for a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// At least this share of another's rate.
    Rate { of: Contender, least: f64 },
    /// At least this many times the rate of the same row with one thread.
    Scaling { least: f64 },
}

pub(crate) struct Row {
    pub(crate) load: Load,
    pub(crate) goals: Vec<Goal>,
}

impl Row {
    pub(crate) fn name(&self) -> String {
        let Load { kind, threads, place } = &self.load;
        let what = match kind {
            Kind::Read => "pread",
            Kind::Write => "pwrite of one page",
            Kind::Fresh => "pwrite of fresh pages",
            Kind::Ring => "io_uring reads, 32 deep",
            Kind::Files => "make, write, delete",
        };
        let threads = if *threads == 1 { String::new() } else { format!(", {threads} threads") };
        format!("{what}, {}{threads}", filesystem(place))
    }
}

/// The better of each contender's two slices.
type Round = [Option<Sample>; 4];

/// All rounds of all rows.
pub(crate) struct Table {
    rows: Vec<Row>,
    contenders: Vec<Contender>,
    rounds: Vec<Vec<Round>>,
}

impl Table {
    pub(crate) fn new(rows: Vec<Row>, contenders: Vec<Contender>) -> Self {
        let rounds = rows.iter().map(|_| Vec::new()).collect();
        Self { rows, contenders, rounds }
    }

    /// Measures every row once. The first time, each contender first has a slice that does not count.
    pub(crate) fn round(&mut self, tools: &Tools, first: bool) -> Outcome<()> {
        for (row, rounds) in self.rows.iter().zip(&mut self.rounds) {
            let able: Vec<Contender> =
                self.contenders.iter().copied().filter(|who| who.can(row.load.kind)).collect();
            if first {
                for contender in &able {
                    tools.measure(*contender, &row.load)?;
                }
            }
            let mut best = [None; 4];
            for contender in able.iter().chain(able.iter().rev()) {
                let sample = tools.measure(*contender, &row.load)?;
                let best: &mut Option<Sample> = &mut best[*contender as usize];
                *best = Some(best.map_or(sample, |other| other.better(sample)));
            }
            rounds.push(best);
        }
        Ok(())
    }

    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "\nns for each operation: median [least greatest] of the rounds")?;
        self.print_cells(out, 0, |round, who| Some(round[who as usize]?.ns))?;
        writeln!(out, "\nrate by the bare C loop's rate in the same round")?;
        let bare = Contender::Bare as usize;
        self.print_cells(out, 2, |round, who| Some(round[bare]?.ns / round[who as usize]?.ns))?;
        writeln!(out, "\nthe same by processor time, without what the rest of the machine took")?;
        self.print_cells(out, 2, |round, who| Some(round[bare]?.cpu_ns? / round[who as usize]?.cpu_ns?))?;
        writeln!(out, "\ngoals")?;
        for (at, row) in self.rows.iter().enumerate() {
            for goal in &row.goals {
                self.print_goal(out, at, *goal)?;
            }
        }
        Ok(())
    }

    fn print_cells(
        &self,
        out: &mut impl Write,
        decimals: usize,
        value: impl Fn(&Round, Contender) -> Option<f64>,
    ) -> io::Result<()> {
        write!(out, "{:32}", "")?;
        Contender::ALL.iter().try_for_each(|who| write!(out, "{who:>19}"))?;
        writeln!(out)?;
        for (row, rounds) in self.rows.iter().zip(&self.rounds) {
            write!(out, "{:32}", row.name())?;
            for who in Contender::ALL {
                let cell = spread(rounds.iter().filter_map(|round| value(round, who)).collect()).map_or_else(
                    || "-".to_owned(),
                    |[low, middle, high]| format!("{middle:.decimals$} [{low:.decimals$} {high:.decimals$}]"),
                );
                write!(out, "{cell:>19}")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn print_goal(&self, out: &mut impl Write, at: usize, goal: Goal) -> io::Result<()> {
        let (name, rounds) = (self.rows[at].name(), &self.rounds[at]);
        let fstrial = Contender::Fstrial as usize;
        let (what, least, ratios): (String, f64, Vec<f64>) = match goal {
            Goal::Rate { of, least } => {
                let ratios =
                    rounds.iter().filter_map(|round| Some(round[of as usize]?.ns / round[fstrial]?.ns));
                (format!("the rate of {of}"), least, ratios.collect())
            }
            Goal::Scaling { least } => {
                let single = self.rows.iter().position(|row| {
                    row.load.threads == 1
                        && row.load.kind == self.rows[at].load.kind
                        && row.load.place == self.rows[at].load.place
                });
                let ones = single.map_or(&[][..], |single| &self.rounds[single]);
                let ratios = ones
                    .iter()
                    .zip(rounds)
                    .filter_map(|(one, many)| Some(one[fstrial]?.ns / many[fstrial]?.ns));
                ("the rate of one thread".into(), least, ratios.collect())
            }
        };
        match spread(ratios) {
            Some([low, middle, high]) => {
                let word = if middle >= least { "met   " } else { "missed" };
                writeln!(
                    out,
                    "  {word} {name}: {middle:.2} [{low:.2} {high:.2}] of {what}; at least {least:.2}"
                )
            }
            None => writeln!(out, "  not measured {name}: of {what}"),
        }
    }
}

impl Sample {
    /// The lower of each: disturbances only ever add.
    fn better(self, other: Self) -> Self {
        let cpu_ns = self.cpu_ns.zip(other.cpu_ns).map(|(a, b)| a.min(b));
        Self { ns: self.ns.min(other.ns), cpu_ns }
    }
}

/// Least, median and greatest.
fn spread(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.first()?, values.last()?);
    let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
    Some([*low, median, *high])
}

/// Kind of a folder's filesystem.
fn filesystem(path: &Path) -> String {
    match statfs(path).map(|stat| stat.f_type) {
        Ok(0xef53) => "ext4".into(),
        Ok(0x5846_5342) => "xfs".into(),
        Ok(0x9123_683e) => "btrfs".into(),
        Ok(0x0102_1994) => "tmpfs".into(),
        Ok(magic) => format!("{magic:x}"),
        Err(errno) => errno.to_string(),
    }
}

/// The machine, in a line.
pub(crate) fn machine(home: &Path) -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let cpu = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    format!(
        "Linux {}, {} x {}, files in /dev/shm and in {}; load of the machine at the start {}",
        read("/proc/sys/kernel/osrelease").trim(),
        std::thread::available_parallelism().map_or(1, usize::from),
        cpu.map_or("unknown processor", |(_, name)| name),
        home.display(),
        read("/proc/loadavg").split(' ').next().unwrap_or_default(),
    )
}
