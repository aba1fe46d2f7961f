//! The fairness audit: unrequested differences between arms, and arms of unequal durability.

use super::plan::Plan;
use crate::numbers;
use fstrial_model::{
    arm::Arm,
    facts::{ArmFacts, DataUpdate, Fact},
    filesystem::OnRotating,
    workload,
};
use std::collections::BTreeSet;

/// One line for every fact in which arms differ: `journal: metadata (ext4) · none (ext2)`. Tools can differ where arms
/// are built at several places.
pub fn differences(arms: &[Arm], facts: &[ArmFacts]) -> Vec<String> {
    let slowed = arms.iter().filter_map(|arm| {
        let how = match (arm.handicap, arm.slowed) {
            (Some(handicap), _) => format!("every wait for the kernel takes {handicap} longer"),
            (None, slowed) => format!("its modelled device is slower by {}", slowed?),
        };
        Some(format!("{} is slowed down on purpose: {how}", arm.name))
    });
    // Mount options as a whole differ by name only: their effects are in the other facts.
    let facts_audited = Fact::ALL.iter().filter(|fact| **fact != Fact::MountOptions);
    let audited = facts_audited.filter_map(|fact| {
        let requested = if arms.iter().any(|arm| asks_for(arm, *fact)) { " (as requested)" } else { "" };
        difference(&format!("{}{requested}", fact.name()), arms, facts, |known| {
            // One filesystem that is looked at twice has not two amounts of free space.
            let looked_at = if *fact == Fact::SpaceAvailable { first_on_it(facts, known) } else { known };
            looked_at.facts.get(fact)
        })
    });
    let tools: BTreeSet<&String> = facts.iter().flat_map(|known| known.tools.keys()).collect();
    let tools = tools.into_iter().filter_map(|tool| {
        difference(&format!("version of {tool}"), arms, facts, |known| known.tools.get(tool))
    });
    slowed.chain(audited).chain(tools).collect()
}

/// The first arm on the same filesystem; the arm itself if that is unknown.
fn first_on_it<'a>(facts: &'a [ArmFacts], known: &'a ArmFacts) -> &'a ArmFacts {
    let of = |known: &'a ArmFacts| known.facts.get(&Fact::LiesOn);
    facts.iter().find(|other| of(known).is_some() && of(other) == of(known)).unwrap_or(known)
}

/// Reports existing directories on one filesystem: a comparison of them measures noise.
pub fn on_one_filesystem(arms: &[Arm], facts: &[ArmFacts]) -> Option<String> {
    let lies_on = |known: &ArmFacts| known.facts.get(&Fact::LiesOn).cloned();
    let (place, names) = facts.iter().find_map(|known| {
        let place = lies_on(known)?;
        let on_it = arms.iter().zip(facts).filter(|(_, other)| lies_on(other).as_ref() == Some(&place));
        let names: Vec<&str> = on_it.map(|(arm, _)| arm.name.as_str()).collect();
        (names.len() > 1).then_some((place, names))
    })?;
    let mount_point = facts.iter().find_map(|known| {
        known.facts.get(&Fact::MountPoint).filter(|_| lies_on(known).as_ref() == Some(&place))
    });
    let at = mount_point.map_or_else(String::new, |point| format!(", mounted at {point}"));
    let are = if names.len() == 2 { "are both" } else { "are all" };
    Some(format!(
        "comparing {} measures noise, as they {are} on one filesystem: {place}{at}",
        names.join(", ")
    ))
}

/// Remarks on the arms in addition to their differences.
pub fn remarks(plan: &Plan, facts: &[ArmFacts], tick_hz: Option<u32>) -> impl Iterator<Item = String> {
    let one_filesystem = on_one_filesystem(&plan.trial.arms, facts);
    one_filesystem
        .into_iter()
        .chain(from_the_cache(facts))
        .chain(on_one_kernel(plan, facts))
        .chain(on_rotating(plan, facts, tick_hz))
}

/// Warns about reads that the page cache may answer, as without root it is not dropped.
fn from_the_cache(facts: &[ArmFacts]) -> Option<String> {
    let kept = facts
        .iter()
        .any(|known| known.facts.get(&Fact::CachesDropped).is_some_and(|dropped| dropped == "no"));
    kept.then(|| {
        "reads may come from memory: the page cache is not dropped before runs, which needs root".into()
    })
}

/// Warns if all compared boots ran the same kernel, as when the boot menu was left alone.
fn on_one_kernel(plan: &Plan, facts: &[ArmFacts]) -> Option<String> {
    let booted =
        |known: &ArmFacts| [Fact::Kernel, Fact::KernelParameters].map(|fact| known.facts.get(&fact).cloned());
    let first = facts.first().map(booted)?;
    let names: Vec<&str> = plan.trial.boots().collect();
    let is_one = names.len() > 1 && facts.iter().all(|known| booted(known) == first);
    is_one.then(|| {
        format!(
            "the boots {} had the same kernel, build and parameters: only the arms can differ",
            names.join(", ")
        )
    })
}

/// Reports a filesystem that lacks an option because its device is marked as rotating, as a virtual disk may be
/// regardless of its hardware, and a loop device on it.
fn on_rotating<'p>(plan: &'p Plan, facts: &[ArmFacts], tick_hz: Option<u32>) -> Option<String> {
    let arms = &plan.trial.arms;
    let lacks = |(index, (arm, known)): (usize, (&'p Arm, &ArmFacts))| {
        let row = arm.row()?.on_rotating?;
        let says = |fact| known.facts.get(&fact).map(String::as_str);
        let has_it = says(Fact::DeviceOptions)?.split(", ").any(|taken| taken.starts_with(row.option));
        let is_of_the_host = says(Fact::Rotational)? == "yes" && plan.trial.built(arm).rotational.is_none();
        (is_of_the_host && !asks_for(arm, Fact::DeviceOptions) && !has_it && syncs_side_by_side(plan, index))
            .then_some((arm, row))
    };
    let lacking: Vec<(&Arm, OnRotating)> = arms.iter().zip(facts).enumerate().filter_map(lacks).collect();
    let (first, OnRotating { option, cost }) = *lacking.first()?;
    let names: Vec<&str> = lacking.iter().map(|(arm, _)| arm.name.as_str()).collect();
    let run = if names.len() == 1 { "runs" } else { "run" };
    let mut twin = first.clone();
    twin.mount.push(option.into());
    let is_twin = |arm: &&Arm| Arm { name: twin.name.clone(), ..(*arm).clone() } == twin;
    let shown = match arms.iter().find(is_twin) {
        Some(arm) => format!("{} is the same arm with `{option}`: compare the two", arm.name),
        None => format!("{} shows the cost", twin.configuration()),
    };
    let tick = tick_hz.map_or_else(String::new, |hz| format!(" ({})", numbers::nanos(1e9 / f64::from(hz))));
    Some(format!(
        "{} {run} without `{option}`, which is on by default only on devices not marked as rotating; \
             a virtual disk may be marked so regardless of its hardware. {cost}{tick}. {shown}",
        names.join(", ")
    ))
}

/// True if any load on an arm syncs from several tasks at a time; a program may.
fn syncs_side_by_side(plan: &Plan, arm: usize) -> bool {
    plan.cells.iter().filter(|cell| cell.arm == arm).any(|cell| {
        let workload = &plan.workloads[cell.workload];
        let syncs = |group: &&workload::Group| group.durability() > workload::Durability::AtEnd;
        let tasks = |phase: &workload::Phase| -> u32 {
            phase.groups.iter().filter(syncs).map(|group| u32::from(group.workers(cell.threads))).sum()
        };
        workload.program().is_some() || workload.phases().iter().any(|phase| tasks(phase) > 1)
    })
}

fn difference<'a>(
    what: &str,
    arms: &[Arm],
    facts: &'a [ArmFacts],
    value: impl Fn(&'a ArmFacts) -> Option<&'a String>,
) -> Option<String> {
    let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
    for (arm, known) in arms.iter().zip(facts) {
        // A missing property (the bare device has no block size) is not a difference.
        let Some(value) = value(known) else { continue };
        match values.iter_mut().find(|(seen, _)| seen == value) {
            Some((_, names)) => names.push(&arm.name),
            None => values.push((value.as_str(), vec![&arm.name])),
        }
    }
    let parts: Vec<String> =
        values.iter().map(|(value, names)| format!("{value} ({})", names.join(", "))).collect();
    (parts.len() > 1).then(|| format!("{what}: {}", parts.join(" · ")))
}

/// True if an arm sets a fact by one of its fields.
fn asks_for(arm: &Arm, fact: Fact) -> bool {
    match fact {
        Fact::Kernel | Fact::KernelParameters | Fact::Machine => arm.place.is_some(),
        Fact::DeviceOptions => arm.row().and_then(|row| row.on_rotating).is_some_and(|row| {
            arm.mount
                .iter()
                .any(|requested| requested.strip_prefix("no").unwrap_or(requested).starts_with(row.option))
        }),
        Fact::State => arm.state.is_some(),
        Fact::Memory => arm.memory.is_some(),
        Fact::Journal => arm.log.is_some(),
        Fact::Members => arm.profile.is_some(),
        Fact::Discard | Fact::DeviceDiscards => arm.discard.is_some(),
        _ => arm.queue_settings().iter().any(|setting| setting.attribute.fact() == fact),
    }
}

/// The reason why two arms are of unequal durability, if they are: a loss in a crash or power cut that only one risks.
/// Between different filesystems, the update policy of data blocks is part of their nature; within one it is a setting
/// traded for speed.
pub fn unequal_durability(a: (&Arm, &ArmFacts), b: (&Arm, &ArmFacts)) -> Option<String> {
    let mut reasons = Vec::new();
    let mut say = |lacking_a: bool, lacking_b: bool, what: &str| {
        if lacking_a != lacking_b {
            let name = if lacking_a { &a.0.name } else { &b.0.name };
            reasons.push(format!("{what} on {name}"));
        }
    };
    let (x, y) = (&a.1.durability, &b.1.durability);
    say(!x.flushes, !y.flushes, "no cache flushes (barriers off)");
    say(!x.volatile_cache, !y.volatile_cache, "device cache assumed non-volatile (write through)");
    if !a.0.is_raw() && !b.0.is_raw() {
        say(!x.crash_consistent, !y.crash_consistent, "no journal");
        let stale = |d: &fstrial_model::facts::Durability| d.crash_consistent && !d.no_stale_data;
        say(stale(x), stale(y), "old data may surface after a crash");
    }
    if a.0.filesystem == b.0.filesystem && x.data != y.data {
        let in_words = |data: DataUpdate| match data {
            DataUpdate::InPlace => "overwrites data in place",
            DataUpdate::CopyOnWrite => "copies data on write",
            DataUpdate::Journalled => "journals data",
        };
        reasons.push(format!("{} {}, {} {}", a.0.name, in_words(x.data), b.0.name, in_words(y.data)));
    }
    if reasons.is_empty() { None } else { Some(reasons.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fstrial_model::{facts::Durability, units::Percent};
    use std::collections::BTreeMap;

    fn facts(journal: &str, durability: Durability) -> ArmFacts {
        ArmFacts {
            facts: BTreeMap::from([(Fact::Journal, journal.to_owned()), (Fact::BlockSize, "4 KiB".into())]),
            durability,
            queue: BTreeMap::new(),
            tools: BTreeMap::new(),
            notes: Vec::new(),
            state: None,
        }
    }

    const SAFE: Durability = Durability {
        flushes: true,
        crash_consistent: true,
        no_stale_data: true,
        data: DataUpdate::InPlace,
        volatile_cache: true,
    };

    #[test]
    fn lists_only_differing_facts_with_their_arms() {
        let arms = [Arm::plain("ext4"), Arm::plain("xfs"), Arm::plain("ext2")];
        let all = [facts("metadata", SAFE), facts("metadata", SAFE), facts("none", SAFE)];
        assert_eq!(differences(&arms, &all), ["journal: metadata (ext4, xfs) · none (ext2)"]);
    }

    #[test]
    fn reports_btrfs_without_ssd_option_on_rotational_device() {
        let message = |arm: &str, workload: &str, rotates: &str, taken: &str| {
            let text = format!("[[arm]]\nfilesystem = 'ext4'\n[[arm]]\n{arm}\n[[workload]]\n{workload}\n");
            let trial = fstrial_model::trial::Trial::parse("t.toml", &text).unwrap();
            let plan = Plan::new(trial.settled(4).unwrap(), 1).unwrap();
            let of = |options: Option<&str>| {
                let mut known = facts("x", SAFE);
                known.facts.insert(Fact::Rotational, rotates.into());
                known.facts.extend(options.map(|text| (Fact::DeviceOptions, text.to_owned())));
                known
            };
            on_rotating(&plan, &[of(Some("none")), of(Some(taken)), of(Some("ssd"))], Some(250))
        };
        let btrfs = "filesystem = 'btrfs'";
        let synced = "use = 'append-fsync'\nthreads = [1, 4]";
        assert_eq!(
            message(btrfs, synced, "yes", "none").unwrap(),
            "btrfs runs without `ssd`, which is on by default only on devices not marked as rotating; a virtual disk \
             may be marked so regardless of its hardware. Without it, where several threads sync in one subvolume, each commit \
             of its log waits for at least one clock tick (4.00 ms). btrfs:ssd shows the cost"
        );
        let with = |mount: &str| {
            message(
                &format!("{btrfs}\n[[arm]]\nname = 'b2'\n{btrfs}\nmount = {mount}"),
                synced,
                "yes",
                "none",
            )
            .unwrap()
        };
        let twin = with("['ssd']");
        assert!(twin.ends_with("b2 is the same arm with `ssd`: compare the two"), "{twin}");
        let other = with("['ssd', 'noatime']");
        assert!(other.ends_with("btrfs:ssd shows the cost"), "{other}");
        let packed =
            message("filesystem = 'btrfs'\nmount = ['compress=zstd']", synced, "yes", "none").unwrap();
        assert!(packed.ends_with("btrfs:compress=zstd,ssd shows the cost"), "{packed}");
        // A committer and a flush group are two tasks at one thread.
        assert!(message(btrfs, "use = 'checkpoint-bursts'\nthreads = [1]", "yes", "none").is_some());
        for (arm, workload, rotates, taken) in [
            (btrfs, synced, "no", "ssd"),
            (btrfs, "use = 'append-fsync'\nthreads = [1]", "yes", "none"),
            (btrfs, "use = 'random-read'\nthreads = [4]", "yes", "none"),
            ("filesystem = 'btrfs'\nrotational = 'on'", synced, "yes", "none"),
            ("filesystem = 'btrfs'\nmount = ['nossd']", synced, "yes", "none"),
            ("filesystem = 'btrfs'\nmount = ['ssd_spread']", synced, "yes", "ssd_spread"),
            ("filesystem = 'xfs'", synced, "yes", "none"),
        ] {
            assert_eq!(message(arm, workload, rotates, taken), None, "{arm} {workload} {rotates}");
        }
    }

    #[test]
    fn directories_on_same_filesystem_have_no_differences() {
        let on = |device: &str, point: &str, space: &str| ArmFacts {
            facts: BTreeMap::from([
                (Fact::LiesOn, format!("ext4 on {device}")),
                (Fact::MountPoint, point.to_owned()),
                (Fact::SpaceAvailable, space.to_owned()),
            ]),
            ..facts("metadata", SAFE)
        };
        let arms = ["dir:/a", "dir:/b", "dir:/c"].map(|text| text.parse::<Arm>().unwrap());
        let two = [on("/dev/sda1 (8:1)", "/", "75.6 GiB"), on("/dev/sda1 (8:1)", "/", "75.1 GiB")];
        assert_eq!(differences(&arms[..2], &two), Vec::<String>::new());
        assert_eq!(
            on_one_filesystem(&arms[..2], &two).as_deref(),
            Some(
                "comparing dir:/a, dir:/b measures noise, as they are both on one filesystem: ext4 on /dev/sda1 (8:1), mounted at /"
            )
        );
        let apart = [two[0].clone(), on("/dev/sdb1 (8:17)", "/srv", "1 GiB")];
        assert_eq!(on_one_filesystem(&arms[..2], &apart), None);
        let lines = differences(&arms[..2], &apart);
        assert_eq!(lines[0], "is on: ext4 on /dev/sda1 (8:1) (dir:/a) · ext4 on /dev/sdb1 (8:17) (dir:/b)");
        assert!(
            lines[1].starts_with("mount point: / (dir:/a)") && lines[2].starts_with("space available"),
            "{lines:?}"
        );
        let three = [apart[1].clone(), two[0].clone(), two[1].clone()];
        assert!(
            on_one_filesystem(&arms, &three)
                .is_some_and(|message| message.starts_with("comparing dir:/b, dir:/c measures noise"))
        );
    }

    #[test]
    fn a_tool_of_two_versions_is_listed() {
        let with = |version: &str| ArmFacts {
            tools: BTreeMap::from([("mkfs.xfs".to_owned(), version.to_owned())]),
            ..facts("metadata", SAFE)
        };
        let arms = [Arm::plain("ext4"), Arm::plain("xfs"), Arm { name: "there".into(), ..Arm::plain("xfs") }];
        let all = [facts("metadata", SAFE), with("6.1.0"), with("6.13.0")];
        assert_eq!(differences(&arms, &all), ["version of mkfs.xfs: 6.1.0 (xfs) · 6.13.0 (there)"]);
        assert_eq!(differences(&arms[..2], &all[..2]), Vec::<String>::new());
    }

    #[test]
    fn unequal_durability_names_the_weaker_arm() {
        let (ext4, fast) = (Arm::plain("ext4"), Arm { name: "fast".into(), ..Arm::plain("ext4") });
        let safe = facts("metadata", SAFE);
        for (weak, wanted) in [
            (Durability { flushes: false, ..SAFE }, "no cache flushes (barriers off) on fast"),
            (
                Durability { volatile_cache: false, ..SAFE },
                "device cache assumed non-volatile (write through) on fast",
            ),
            (Durability { crash_consistent: false, no_stale_data: false, ..SAFE }, "no journal on fast"),
            (Durability { no_stale_data: false, ..SAFE }, "old data may surface after a crash on fast"),
            (
                Durability { data: DataUpdate::Journalled, ..SAFE },
                "ext4 overwrites data in place, fast journals data",
            ),
        ] {
            assert_eq!(
                unequal_durability((&ext4, &safe), (&fast, &facts("x", weak))).as_deref(),
                Some(wanted)
            );
        }
        assert_eq!(unequal_durability((&ext4, &safe), (&fast, &safe)), None);
    }

    #[test]
    fn planted_slowdown_is_listed_first() {
        let slow = Arm { handicap: Some(Percent(10.0)), name: "slow".into(), ..Arm::plain("ext4") };
        let all = [facts("metadata", SAFE), facts("none", SAFE)];
        let lines = differences(&[Arm::plain("ext4"), slow], &all);
        assert_eq!(lines[0], "slow is slowed down on purpose: every wait for the kernel takes 10% longer");
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn how_different_filesystems_update_data_is_not_a_trade() {
        let btrfs = facts("cow", Durability { data: DataUpdate::CopyOnWrite, ..SAFE });
        assert_eq!(
            unequal_durability(
                (&Arm::plain("ext4"), &facts("metadata", SAFE)),
                (&Arm::plain("btrfs"), &btrfs)
            ),
            None
        );
    }
}
