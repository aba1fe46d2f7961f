//! States in a folder of the host: the same from the same seed, of the requested shape and sizes.

use super::*;
use fstrial_model::state::Loaded;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// On a disk: a folder in memory has no extents.
fn folder() -> TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

/// Every file below a folder, with a sum of its bytes.
fn listing(folder: &Path) -> BTreeMap<PathBuf, (u64, u64)> {
    let mut result = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let bytes = fs::read(entry.path()).unwrap();
            let sum =
                bytes.iter().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
            result.insert(entry.path().strip_prefix(folder).unwrap().to_owned(), (bytes.len() as u64, sum));
        }
    }
    result
}

/// Ages a folder without the filling up at the end, which depends on the host's space.
fn aged(text: &str, seed: u64, target: Bytes) -> (BTreeMap<PathBuf, (u64, u64)>, f64, Option<bool>) {
    let State::Aged(aged) = text.parse().unwrap() else { panic!("{text}") };
    let folder = folder();
    let mut writer = Writer::new(folder.path(), Data::Random, seed).unwrap();
    let mut ageing = Ageing::new(aged, target, seed, &mut writer).unwrap();
    let mut reported = Vec::new();
    let (turnovers, reached) = ageing.run(&mut |done, total| reported.push((done, total))).unwrap();
    let files = ageing.files();
    assert!(reported.windows(2).all(|two| two[0].0 <= two[1].0), "progress never decreases");
    let listing = listing(folder.path());
    assert_eq!(listing.len(), files);
    (listing, turnovers, reached)
}

#[test]
fn ageing_is_deterministic_per_seed() {
    let target = Bytes::mib(12);
    let (first, turnovers, reached) = aged("aged:70%:turnovers=2:file_size=16KiB", 7, target);
    let (again, ..) = aged("aged:70%:turnovers=2:file_size=16KiB", 7, target);
    assert_eq!(first, again);
    let (other, ..) = aged("aged:70%:turnovers=2:file_size=16KiB", 8, target);
    assert_ne!(first, other);
    assert_eq!(reached, None);
    assert!((2.0..2.3).contains(&turnovers), "{turnovers}");
    let bytes: u64 = first.values().map(|(length, _)| length).sum();
    assert!(bytes <= target.0 && bytes > target.0 / 4 * 3, "{bytes} of {target}");
    // Files of the first fill are there next to such of the last turnover.
    let number = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap();
    let (oldest, newest) = (first.keys().map(number).min().unwrap(), first.keys().map(number).max().unwrap());
    assert!(newest as usize > first.len() * 2 && (oldest as usize) < first.len(), "{oldest} {newest}");
}

#[test]
fn unreachable_layout_score_is_reported() {
    let (_, turnovers, reached) = aged("aged:70%:0:turnovers=1", 3, Bytes::mib(8));
    assert_eq!(reached, Some(false));
    assert!(turnovers >= 1.0, "{turnovers}");
    let (_, turnovers, reached) = aged("aged:70%:1:turnovers=9", 3, Bytes::mib(8));
    assert!(turnovers < 1.0, "every layout scores 1 or less: {turnovers} {reached:?}");
}

#[test]
fn sizes_are_lognormal_around_their_median() {
    let mut generator = Generator::new(1, Stream::Layout);
    let mut sizes: Vec<f64> = (0..20_001).map(|_| lognormal(&mut generator)).collect();
    sizes.sort_by(f64::total_cmp);
    assert!((0.95..1.05).contains(&sizes[10_000]), "{}", sizes[10_000]);
    // One standard deviation above the median: 84.13 %.
    let above = sizes[16_827].ln();
    assert!((1.45..1.55).contains(&above), "{above}");
}

#[test]
fn tree_has_requested_shape() {
    let folder = folder();
    let state: State = "populated:250:per_directory=10:width=3:file_size=4KiB".parse().unwrap();
    let recipe = Recipe { state, seed: 5, data: Data::Zero, room: Bytes::gib(1) };
    make_state(folder.path(), &recipe, &mut |_, _| {}).unwrap();
    let made = finish_state(folder.path(), &recipe).unwrap();
    assert_eq!(made.files, 250);
    let files = listing(&folder.path().join(FOLDER));
    assert_eq!(files.len(), 250);
    let mut folders: BTreeMap<&Path, usize> = BTreeMap::new();
    files.keys().for_each(|path| *folders.entry(path.parent().unwrap()).or_default() += 1);
    assert_eq!((folders.len(), folders.values().max()), (25, Some(&10)));
    // 1 + 3 + 9 + 12: the deepest are three below the root.
    assert_eq!(folders.keys().map(|path| path.components().count()).max(), Some(3));
    assert!(made.utilisation > 0.0 && made.available.0 > 0);
}

#[test]
fn oversized_state_is_refused_before_creating_files() {
    let folder = folder();
    let state: State = "populated:10000000:file_size=64MiB".parse().unwrap();
    let recipe = Recipe { state, seed: 5, data: Data::Zero, room: Bytes::gib(1) };
    let error = make_state(folder.path(), &recipe, &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, EngineError::NoSpace { .. }), "{error}");
    assert!(listing(folder.path()).is_empty());
}

#[test]
fn fresh_state_creates_no_files() {
    let folder = folder();
    let recipe = Recipe { state: State::Fresh, seed: 5, data: Data::Zero, room: Bytes::gib(1) };
    assert_eq!(make_state(folder.path(), &recipe, &mut |_, _| {}).unwrap(), Made::default());
    let made = finish_state(folder.path(), &recipe).unwrap();
    assert_eq!((made.files, made.layout), (0, None));
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
}

/// Entries a server leaves next to its files: a link to a device, one to nowhere, a pipe, a socket. None is opened or
/// counted.
#[test]
fn only_regular_files_are_looked_at() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("data"), [7; 20_000]).unwrap();
    fs::create_dir(at("inner")).unwrap();
    fs::write(at("inner/log"), [7; 20_000]).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at("device")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
    std::os::unix::fs::symlink("..", at("upwards")).unwrap();
    rustix::fs::mknodat(CWD, at("pipe"), rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _listening = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let recipe =
        Recipe { state: State::Loaded(Loaded::default()), seed: 1, data: Data::Random, room: Bytes::mib(1) };
    let finished = finish_state(folder.path(), &recipe).unwrap();
    assert_eq!(finished.files, 2);
    assert_eq!(finished.layout.unwrap().files, 2);
}
