//! A program shut in on a real arm: what it cannot do, and that nothing of it holds the device afterwards.

use crate::support::{Lab, arm, assert_all_down, attach, isolated};
use fstrial_model::units::Nanos;
use fstrial_stack::{confined::Confined, isolation, stack::Target};
use std::{fs, path::Path};

fn shell(place: &Confined, script: &str) -> String {
    let words = ["sh", "-c", script].map(str::to_owned);
    let ended = place.run(&words, &[], Nanos::secs(60)).unwrap_or_else(|e| panic!("{e}"));
    format!("{}{}", ended.finished.stdout, ended.finished.stderr)
}

#[test]
fn nothing_but_its_folder_can_be_written() {
    isolated(|| {
        let lab = Lab::new();
        let arm = lab.folder("arm");
        let place = Confined::make(&arm).unwrap();
        let device = lab.device("disk", 8);
        let targets = format!(
            "/ /etc /usr /var /tmp /root /proc/sys /sys/kernel {} {} {}",
            isolation_cover(),
            arm.display(),
            lab.path("").display()
        );
        let script = format!(
            "for d in {targets}; do (echo x > $d/fstrial-escape) 2>/dev/null && echo wrote $d; done
             (echo x > {device}) 2>/dev/null && echo wrote the device
             (echo b > /proc/sysrq-trigger) 2>/dev/null && echo wrote sysrq
             (echo 3 > /proc/sys/vm/drop_caches) 2>/dev/null && echo dropped caches
             mount -t tmpfs x . 2>/dev/null && echo mounted
             kill -9 {pid} 2>/dev/null && echo killed
             unshare -r true 2>/dev/null && unshare -r mount -o remount,rw / 2>/dev/null && echo remounted
             id -u; id -G; grep -E '^(CapPrm|CapBnd|NoNewPrivs)' /proc/self/status | head -1
             cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '
             echo mine > file && cat file && echo $$",
            device = device.path().display(),
            pid = std::process::id(),
        );
        let said = shell(&place, &script);
        assert_eq!(said, "65534\n65534\nCapPrm:\t0000000000000000\nlo\nmine\n1\n");
        assert_eq!(fs::read_to_string(place.folder().join("file")).unwrap(), "mine\n");
        // And this process, which shut it in, is as free as before.
        fs::write(arm.join("free"), "x").unwrap();
        assert!(Path::new("/sys/class/net").read_dir().unwrap().count() >= 1);
        device.close();
    });
}

fn isolation_cover() -> &'static str {
    ["/mnt", "/media", "/srv"].into_iter().find(|folder| Path::new(folder).is_dir()).unwrap()
}

#[test]
fn a_service_left_behind_does_not_hold_the_arm() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(64);
        let arm = arm("ext4");
        let (mut attached, _) = attach(&image, &arm, &lab);
        let printed = attached.make(&arm).unwrap();
        let device = attached.path().to_owned();
        let point = isolation::mount_point().unwrap();
        let standing = attached.mount(&arm, &printed, &point).map_err(|(_, e)| e).unwrap();
        let Target::Directory(folder) = standing.target().clone() else { panic!("a directory") };
        let place = Confined::make(&folder).unwrap();
        // A daemon: in a session of its own, with a file of the arm open.
        let said = shell(
            &place,
            "setsid sh -c 'exec sleep 1000 3> held' > /dev/null 2>&1 & sleep 0.2; echo started",
        );
        assert_eq!(said, "started\n");
        assert_eq!(shell(&place, "cat held; ls"), "held\n");
        let mut attached = standing.unmount().unwrap().unwrap();
        // The check opens the device exclusively: it would fail if any namespace still had the arm mounted.
        attached.check(&arm).unwrap();
        attached.detach().unwrap();
        assert_all_down(&image, &device, &lab);
    });
}
