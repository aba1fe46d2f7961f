//! Layers between the device of an arm and its filesystem: volumes of the device mapper, each made by its own tool.

use crate::{ability::Ability, rows::rows, units::Bytes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

rows! {
    /// A volume of the device mapper between device and filesystem.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum Layer of LayerRow {
        /// A logical volume of LVM (dm-linear) on four fifths of the device; the rest is for snapshots of it.
        "lvm" Lvm is LVM,
        /// A thin volume of LVM (dm-thin): blocks are allocated when they are first written.
        "thin" Thin is THIN,
        /// LUKS2 encryption (dm-crypt), as cryptsetup makes it by default.
        "crypt" Crypt is CRYPT,
    }
}

/// A layer's tool. In its words `{below}` is the device below, `{volume}` the name that the volume, or its group, is given, `{mib}` the
/// size of a volume that has to be given one, in MiB.
#[derive(Debug, Clone, Copy)]
pub struct LayerRow {
    /// Program that makes the volume: `lvm` or `cryptsetup`.
    pub program: &'static str,
    /// Required programs, each with its packages by apt, dnf, zypper and pacman.
    pub programs: &'static [(&'static str, [&'static str; 4])],
    /// The words of each call that makes the volume.
    pub make: &'static [&'static [&'static str]],
    /// Suffix of the volume's name.
    pub suffix: &'static str,
    /// The share of the device that the volume has, in percent.
    pub share: u64,
    /// Making a snapshot and deleting it, in which `{name}` is its name; `None`: that is the filesystem's.
    pub snapshots: Option<[Ability; 2]>,
}

const DMSETUP: (&str, [&str; 4]) =
    ("dmsetup", ["dmsetup", "device-mapper", "device-mapper", "device-mapper"]);

/// Nothing is looked at but the device below; nothing is kept in `/etc/lvm`, no daemon is notified, and a pool has LVM's defaults.
macro_rules! lvm_config {
    () => {
        "--config=devices { filter=[\"a|^{below}$|\",\"r|.*|\"] global_filter=[\"a|.*|\"] types=[\"zram\",16] use_devicesfile=0 obtain_device_list_from_udev=0 \
         external_device_info_source=\"none\" } activation { monitoring=0 udev_sync=0 udev_rules=0 verify_udev_operations=1 } backup { backup=0 archive=0 } global { use_lvmpolld=0 notify_dbus=0 } \
         allocation { thin_pool_zero=1 thin_pool_chunk_size=64 }"
    };
}

/// Without autoactivation the host's udev rules leave the group alone when its device appears or changes.
const VGCREATE: &[&str] =
    &["vgcreate", lvm_config!(), "--force", "--yes", "--setautoactivation=n", "{volume}", "{below}"];

/// Making a snapshot of a volume of LVM, with the option that its kind takes, and deleting it.
macro_rules! lvm_snapshots {
    ($option:literal) => {
        [
            Ability::Program(
                "lvm",
                &[
                    "lvcreate",
                    lvm_config!(),
                    "--yes",
                    "--snapshot",
                    "--name=of-{name}",
                    $option,
                    "{volume}/arm",
                ],
            ),
            Ability::Program("lvm", &["lvremove", lvm_config!(), "--yes", "{volume}/of-{name}"]),
        ]
    };
}

const LVM: LayerRow = LayerRow {
    program: "lvm",
    programs: &[("lvm", ["lvm2"; 4]), DMSETUP],
    make: &[VGCREATE, &["lvcreate", lvm_config!(), "--yes", "--name=arm", "--extents=80%VG", "{volume}"]],
    suffix: "-arm",
    share: 78,
    snapshots: Some(lvm_snapshots!("--extents=10%ORIGIN")),
};

const THIN: LayerRow = LayerRow {
    programs: &[
        ("lvm", ["lvm2"; 4]),
        DMSETUP,
        (
            "thin_check",
            [
                "thin-provisioning-tools",
                "device-mapper-persistent-data",
                "thin-provisioning-tools",
                "thin-provisioning-tools",
            ],
        ),
    ],
    make: &[
        VGCREATE,
        &[
            "lvcreate",
            lvm_config!(),
            "--yes",
            "--type=thin",
            "--name=arm",
            "--virtualsize={mib}m",
            "--extents=90%VG",
            "--thinpool=pool",
            "{volume}",
        ],
    ],
    share: 85,
    snapshots: Some(lvm_snapshots!("--setactivationskip=n")),
    ..LVM
};

/// The key protects nothing: a file that every kernel has. Its derivation takes no time: unlocking is not measured.
const KEY: &str = "--key-file=/proc/sys/kernel/random/boot_id";

const CRYPT: LayerRow = LayerRow {
    program: "cryptsetup",
    programs: &[("cryptsetup", ["cryptsetup-bin", "cryptsetup", "cryptsetup", "cryptsetup"]), DMSETUP],
    make: &[
        &[
            "luksFormat",
            "--batch-mode",
            "--type=luks2",
            "--pbkdf=pbkdf2",
            "--pbkdf-force-iterations=1000",
            KEY,
            "{below}",
        ],
        &["open", "--type=luks2", KEY, "{below}", "{volume}"],
    ],
    suffix: "",
    share: 90,
    snapshots: None,
};

impl Layer {
    /// Program of the layer, with its packages and its words.
    pub const fn tool(self) -> &'static LayerRow {
        self.row()
    }

    /// The words of each call that makes the volume of a name on a device of this size.
    pub fn words(self, below: &str, volume: &str, size: Bytes) -> Vec<Vec<String>> {
        let mib = (size.0 / 100 * self.row().share) >> 20;
        let filled = |word: &&str| {
            word.replace("{below}", below).replace("{volume}", volume).replace("{mib}", &mib.to_string())
        };
        self.row().make.iter().map(|call| call.iter().map(filled).collect()).collect()
    }

    /// The least device on which the volume has these bytes.
    pub const fn device_for(self, needed: Bytes) -> Bytes {
        Bytes(needed.0 / self.row().share * 100 + HEADERS)
    }
}

const ALIASES: [(&str, Layer); 4] =
    [("luks", Layer::Crypt), ("dm-crypt", Layer::Crypt), ("dm-thin", Layer::Thin), ("lvm2", Layer::Lvm)];

/// The layer that a misspelt word means, or another name of it.
pub fn meant(word: &str) -> Option<Layer> {
    let word = word.to_lowercase();
    let alias = ALIASES.iter().find(|(alias, _)| *alias == word).map(|(_, layer)| *layer);
    alias.or_else(|| {
        Layer::ALL.into_iter().find(|layer| strsim::damerau_levenshtein(&word, layer.name()) <= 1)
    })
}

/// The most that headers take: LUKS2 has 16 MiB, a group of LVM 1 MiB.
const HEADERS: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layer_commands_substitute_all_placeholders() {
        for layer in Layer::ALL {
            for call in layer.words("/dev/loop64", "fstrial_1", Bytes::mib(1000)) {
                assert!(call.join(" ").contains("/dev/loop64"), "{call:?}");
                for part in ["{below}", "{volume}", "{mib}"] {
                    assert!(!call.join(" ").contains(part), "{call:?}");
                }
            }
        }
        let thin = Layer::Thin.words("/dev/loop64", "fstrial_1", Bytes::mib(1000));
        assert!(thin[1].contains(&"--virtualsize=850m".into()), "{thin:?}");
    }

    #[test]
    fn a_device_is_large_enough_for_the_volume() {
        for layer in Layer::ALL {
            for needed in [1 << 20, 1 << 30, 1 << 40] {
                let device = layer.device_for(Bytes(needed)).0;
                assert!(
                    u128::from(device - HEADERS) * u128::from(layer.tool().share) / 100
                        >= u128::from(needed - 100)
                );
            }
        }
    }
}
