//! Thaws a filesystem frozen by a process that was killed.

use crate::support::{Background, Lab, MountGuard, arm, assert_torn_down, attach, isolated, wait_until};
use fstrial_stack::ledger::Ledger;
use std::{fs, path::Path};

/// Keeps a file open that XFS has allocated more for than was written, which its close gives back.
const HOLD_GROWING_FILE: &str = "exec 9>\"$0\"; printf '%0300000d' 0 >&9; printf '%0300000d' 0 >&9; \
                                 echo ready; while :; do sleep 1 9>&-; done";

/// The state of a process, such as `D`.
fn state_of(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(") ")?.1.split(' ').next().map(str::to_owned)
}

#[test]
fn thaw_releases_killed_process_stuck_in_own_freeze() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(320);
        let requested = arm("xfs");
        let (mut attached, _) = attach(&image, &requested, &lab);
        let device = attached.path().to_owned();
        let printed = attached.make(requested.checked().unwrap()).unwrap();
        let point = lab.folder("point");
        let guard = MountGuard::of(&point);
        let mut ready_arm =
            attached.mount(requested.checked().unwrap(), &printed, &point).map_err(|(_, e)| e).unwrap();

        let mut holder = Background::start(false, HOLD_GROWING_FILE, &[&point.join("file")]);
        let owner = Ledger::open(lab.ledger.folder(), holder.pid()).unwrap();
        let mut freezer = ready_arm.freezer(&requested, &owner).unwrap();
        freezer.freeze().unwrap();
        holder.kill();
        wait_until("its last close waits for the thaw", || state_of(holder.pid()).as_deref() == Some("D"));

        lab.ledger.thaw().unwrap();
        wait_until("it has ended", || state_of(holder.pid()).is_none_or(|state| state == "Z"));
        assert!(Path::new(&device).exists());
        // Should this test fail before, it thaws.
        drop(freezer);
        ready_arm.unmount().unwrap();
        drop((guard, holder));
        lab.ledger.replay().unwrap();
        assert_torn_down(&image, &device, &lab);
    });
}
