//! Modules of a kernel: which must be loaded for one, in which order.
//!
//! Read from the output of `depmod`: `modules.dep` (a module, and all its dependencies), `modules.softdep` (its
//! requests at run time), `modules.builtin` (built-in features of this kernel).

use crate::image;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

/// The modules of a kernel, in the folder that is `/lib/modules/RELEASE` of a system that runs it.
#[derive(Debug, Default)]
pub struct Modules {
    folder: PathBuf,
    /// By name: the file, and the names of its dependencies.
    known: BTreeMap<String, (PathBuf, Vec<String>)>,
    /// None if the kernel has no list.
    builtin: Option<BTreeSet<String>>,
    /// Modules that a module wants loaded before it.
    before: BTreeMap<String, Vec<String>>,
}

/// A name as the kernel has it: of `kernel/fs/xfs/xfs.ko.xz` it is `xfs`, of `crc32c-intel.ko` `crc32c_intel`.
fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

impl Modules {
    /// Reads the output of depmod in a folder.
    ///
    /// # Errors
    /// `modules.dep` is not there or cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let optional = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let mut all = Self { folder: folder.to_owned(), ..Self::default() };
        for line in fs::read_to_string(folder.join("modules.dep"))?.lines() {
            let Some((path, needs)) = line.split_once(':') else { continue };
            let needs = needs.split_whitespace().map(name_of).collect();
            all.known.insert(name_of(path), (path.into(), needs));
        }
        let builtin = fs::read_to_string(folder.join("modules.builtin")).ok();
        all.builtin = builtin.map(|text| text.lines().map(name_of).collect());
        for line in optional("modules.softdep").lines() {
            let mut words = line.split_whitespace().skip_while(|word| *word != "softdep").skip(1);
            let Some(name) = words.next() else { continue };
            let before = words.skip_while(|word| *word != "pre:").skip(1).take_while(|word| *word != "post:");
            all.before.insert(name_of(name), before.map(name_of).collect());
        }
        Ok(all)
    }

    /// True if this kernel has it, built in or as a module. Without a list of built-in features, everything else is
    /// assumed built in.
    pub fn has(&self, name: &str) -> bool {
        let name = name_of(name);
        self.known.contains_key(&name) || self.builtin.as_ref().is_none_or(|all| all.contains(&name))
    }

    /// The files of these modules and of all their dependencies, each after its dependencies, without built-in ones.
    ///
    /// # Errors
    /// The name of the first that this kernel does not have.
    pub fn in_order(&self, wanted: &[&str]) -> Result<Vec<PathBuf>, String> {
        let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
        for name in wanted {
            if !self.has(name) {
                return Err((*name).to_owned());
            }
            self.add(&name_of(name), &mut seen, &mut order);
        }
        Ok(order)
    }

    fn add(&self, name: &str, seen: &mut BTreeSet<String>, order: &mut Vec<PathBuf>) {
        let Some((path, needs)) = self.known.get(name) else { return };
        if !seen.insert(name.to_owned()) {
            return;
        }
        // The most basic dependency comes last.
        for other in self.before.get(name).into_iter().flatten().chain(needs.iter().rev()) {
            self.add(other, seen, order);
        }
        order.push(self.folder.join(path));
    }
}

/// A module as the kernel takes it, unpacked.
///
/// # Errors
/// It cannot be read.
pub fn contents(path: &Path) -> io::Result<Vec<u8>> {
    image::unpacked(fs::read(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules() -> (tempfile::TempDir, Modules) {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(
            "modules.dep",
            "kernel/fs/xfs/xfs.ko.xz: kernel/lib/libcrc32c.ko.xz kernel/crypto/crc32c_generic.ko.xz\n\
             kernel/lib/libcrc32c.ko.xz: kernel/crypto/crc32c_generic.ko.xz\n\
             kernel/crypto/crc32c_generic.ko.xz:\n\
             kernel/arch/x86/crypto/crc32c-intel.ko.xz:\n\
             kernel/a.ko: kernel/b.ko\nkernel/b.ko: kernel/a.ko\n",
        );
        write("modules.builtin", "kernel/fs/ext4/ext4.ko\n");
        write("modules.softdep", "# comment\nsoftdep libcrc32c pre: crc32c-intel nowhere post: later\n");
        let modules = Modules::read(folder.path()).unwrap();
        (folder, modules)
    }

    #[test]
    fn modules_follow_their_dependencies() {
        let (folder, modules) = modules();
        let named = |wanted: &[&str]| {
            let order = modules.in_order(wanted).unwrap();
            order.iter().map(|path| name_of(path.to_str().unwrap())).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(named(&["xfs"]), "crc32c_generic crc32c_intel libcrc32c xfs");
        assert_eq!(named(&["crc32c-intel", "xfs", "xfs"]), "crc32c_intel crc32c_generic libcrc32c xfs");
        assert_eq!(named(&["ext4"]), "", "it is in the kernel");
        assert_eq!(named(&["a"]), "b a", "a circle ends");
        assert_eq!(modules.in_order(&["xfs", "reiserfs"]).unwrap_err(), "reiserfs");
        fs::remove_file(folder.path().join("modules.builtin")).unwrap();
        let silent = Modules::read(folder.path()).unwrap();
        assert_eq!(silent.in_order(&["virtio_pci", "b"]).unwrap().len(), 2, "it may be built in");
        assert!(modules.in_order(&["xfs"]).unwrap()[0].starts_with(folder.path()));
    }
}
