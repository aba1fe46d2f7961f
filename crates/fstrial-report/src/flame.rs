//! Thread time by stack: as trees for flame graphs, and as folded text for other programs.
//!
//! A path begins with the kind of the time (on a processor, waiting, runnable), then has the functions from the outermost.

use crate::plain;
use fstrial_model::{evidence::Spent, filesystem::waits::Category};
use std::fmt::Write as _;

pub(crate) const RUNNING: &str = "on a processor";
pub(crate) const WAITING: &str = "waiting";
pub(crate) const RUNNABLE: &str = "waiting for a processor";
/// The observer gives no deeper stacks.
const DEEPEST: usize = 64;

/// Time in a function and those that it called.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Frame {
    pub(crate) name: String,
    /// In nanoseconds of a thread for an operation.
    pub(crate) time: f64,
    pub(crate) children: Vec<Frame>,
}

impl Frame {
    fn add<'p>(&mut self, path: impl IntoIterator<Item = &'p str>, time: f64) {
        self.time += time;
        let mut path = path.into_iter();
        let Some(name) = path.next() else { return };
        let index = self.children.iter().position(|child| child.name == name).unwrap_or_else(|| {
            self.children.push(Self { name: name.to_owned(), ..Self::default() });
            self.children.len() - 1
        });
        self.children[index].add(path, time);
    }

    /// The largest first.
    fn sort(&mut self) {
        self.children.sort_by(|one, other| other.time.total_cmp(&one.time));
        self.children.iter_mut().for_each(Self::sort);
    }
}

/// The path of a place. A thread that runs has frames in the kernel, a sample of one, or none in user mode.
fn path<'s>(spent: &'s Spent<'_>) -> Vec<&'s str> {
    let kind = match spent.cause.category {
        Category::Runnable => return vec![RUNNABLE],
        Category::Processor if spent.frames.is_empty() => return vec![RUNNING, &spent.cause.what],
        Category::Processor => RUNNING,
        Category::Lock if !is_wait(spent.frames) => RUNNING,
        _ => WAITING,
    };
    std::iter::once(kind).chain(spent.frames.iter().rev().take(DEEPEST).map(String::as_str)).collect()
}

/// True if a stack is that of a wait, and not of a thread on a processor.
pub(crate) fn is_wait(frames: &[String]) -> bool {
    frames.first().is_some_and(|innermost| innermost == "__schedule")
}

/// The tree of an arm.
pub(crate) fn tree(name: &str, all: &[Spent<'_>]) -> Frame {
    let mut root = Frame { name: name.to_owned(), ..Frame::default() };
    all.iter().filter(|spent| spent.time > 0.0).for_each(|spent| root.add(path(spent), spent.time));
    root.sort();
    root
}

/// The tree of a difference: the paths on which one spends more, then those on which the other does.
pub(crate) fn difference(names: [&str; 2], all: [&[Spent<'_>]; 2]) -> Frame {
    let mut paths: Vec<(Vec<&str>, f64)> = Vec::new();
    for (own, sign) in all.iter().zip([1.0, -1.0]) {
        for spent in *own {
            let path = path(spent);
            match paths.iter_mut().find(|(known, _)| *known == path) {
                Some((_, time)) => *time += sign * spent.time,
                None => paths.push((path, sign * spent.time)),
            }
        }
    }
    let more = names.map(|name| format!("more of {}", plain(name)));
    let mut root = Frame { name: "difference".into(), ..Frame::default() };
    for (path, time) in paths.into_iter().filter(|(_, time)| *time != 0.0) {
        let side = more[usize::from(time < 0.0)].as_str();
        root.add(std::iter::once(side).chain(path), time.abs());
    }
    root.sort();
    root
}

/// Folded stacks, as `flamegraph.pl` and its relatives read them: a line for each path, with its nanoseconds per operation.
pub(crate) fn folded(first: &[&str], all: &[Spent<'_>]) -> String {
    let mut out = String::new();
    let word = |name: &&str| plain(name).replace(';', "_");
    for spent in all {
        let path: Vec<String> = first.iter().chain(&path(spent)).map(word).collect();
        let time = spent.time.round();
        if time > 0.0 {
            let _ = writeln!(out, "{} {time}", path.join(";"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::filesystem::waits::Cause;

    fn spent<'a>(frames: &'a [String], category: Category, time: f64) -> Spent<'a> {
        Spent { frames, cause: Cause { category, what: "in user mode".into() }, time, count: 1 }
    }

    #[test]
    fn trees_and_lines_have_all_time() {
        let frames = |stack: &str| stack.split('<').map(str::to_owned).collect::<Vec<_>>();
        let (wait, spin, copy) =
            (frames("__schedule<down<write"), frames("osq_lock<down<write"), frames("copy<write"));
        let a = [
            spent(&[], Category::Runnable, 5.0),
            spent(&[], Category::Processor, 7.0),
            spent(&wait, Category::Lock, 100.0),
            spent(&spin, Category::Lock, 20.0),
            spent(&copy, Category::Processor, 30.0),
        ];
        let b = [spent(&copy, Category::Processor, 42.0), spent(&[], Category::Processor, 7.0)];
        let tree = tree("a", &a);
        let kinds: Vec<(&str, f64)> = tree.children.iter().map(|it| (it.name.as_str(), it.time)).collect();
        assert_eq!(kinds, [(WAITING, 100.0), (RUNNING, 57.0), (RUNNABLE, 5.0)]);
        assert_eq!(tree.children[1].children[0].name, "write");
        assert_eq!(tree.children[1].children[0].time, 50.0);
        assert_eq!(tree.time, 162.0);
        let difference = difference(["a", "b"], [&a, &b]);
        let sides: Vec<(&str, f64)> =
            difference.children.iter().map(|it| (it.name.as_str(), it.time)).collect();
        assert_eq!(sides, [("more of a", 125.0), ("more of b", 12.0)]);
        assert_eq!(
            folded(&["a;b"], &a),
            "a_b;waiting for a processor 5\na_b;on a processor;in user mode 7\na_b;waiting;write;down;__schedule 100\n\
             a_b;on a processor;write;down;osq_lock 20\na_b;on a processor;write;copy 30\n"
        );
    }
}
