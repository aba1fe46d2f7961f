//! Journals and logs on another device: made, mounted, checked, and their damage detected.

use crate::support::{Lab, MountGuard, arm, assert_torn_down, attach, isolated, wait_until};
use fstrial_model::{facts::Fact, job::Setup};
use fstrial_stack::device::{Device, image::Image};
use std::{fs, path::PathBuf};

fn setup(log: &Image) -> Setup {
    Setup { log: Some(log.binding(&arm("raw"))), ..Setup::default() }
}

#[test]
fn mount_and_check_use_external_log_device() {
    isolated(|| {
        let lab = Lab::new();
        let (image, log) = (lab.image(320), lab.image(64));
        for text in ["ext4:log=external", "ext3:log=external,-b 2048", "xfs:log=external,-l lazy-count=1"] {
            let requested = arm(text);
            let (attached, _) = attach(&image, &requested, &lab);
            let mut attached = attached.with(&setup(&log), std::process::id(), &lab.ledger).unwrap();
            let device = attached.path().to_owned();
            let printed = attached.make(requested.checked().unwrap()).unwrap();
            let point = lab.path("point");
            fs::create_dir_all(&point).unwrap();
            let _guard = MountGuard::of(&point);
            let ready_arm = attached
                .mount(requested.checked().unwrap(), &printed, &point)
                .map_err(|(_, error)| error)
                .unwrap();
            let journal = &ready_arm.facts().facts[&Fact::Journal];
            assert!(journal.ends_with(", on the log device"), "{text}: {journal}");
            fs::write(point.join("file"), [7; 100_000]).unwrap();
            assert!(!log.is_released().unwrap(), "{text}");
            let mut attached = ready_arm.unmount().unwrap().unwrap();
            attached.check(&requested).unwrap();
            let commands = attached.commands().to_vec();
            let mount = commands.iter().find(|line| line.starts_with("mount ")).unwrap();
            assert!(
                mount.contains("journal_path=/dev/loop") || mount.contains("logdev=/dev/loop"),
                "{mount}"
            );
            let check = commands.last().unwrap();
            assert!(check.contains(" -j /dev/loop") || check.contains(" -l /dev/loop"), "{check}");
            attached.detach().unwrap();
            wait_until("the log is released", || log.is_released().unwrap());
            assert_torn_down(&image, &device, &lab);
        }
    });
}

#[test]
fn missing_log_device_releases_main_device() {
    isolated(|| {
        let lab = Lab::new();
        let (image, log) = (lab.image(64), lab.image(64));
        let gone = setup(&log);
        let fstrial_model::job::DeviceBinding::Loop { file, .. } = gone.log.clone().unwrap() else {
            panic!("not a loop device")
        };
        drop(log);
        let requested = arm("ext4:log=external,scheduler=mq-deadline");
        let (attached, _) = attach(&image, &requested, &lab);
        let device: PathBuf = attached.path().to_owned();
        let error = attached.with(&gone, std::process::id(), &lab.ledger).unwrap_err();
        assert!(error.to_string().contains(&file.display().to_string()), "{error}");
        assert_torn_down(&image, &device, &lab);
    });
}
