//! Images: nameless, fully allocated, and never more than there is room for.

use crate::support::{Lab, arm, isolated, skip, wait_until};
use fstrial_model::{job::DeviceBinding, units::Bytes};
use fstrial_stack::{
    command::{Program, find},
    device::{Device, image::Image},
    host, loopdev,
    stack::AttachedDevices,
};
use std::{
    fs::{self, File},
    ops::ControlFlow,
    os::{
        fd::AsFd,
        unix::fs::{FileExt, MetadataExt},
    },
    path::PathBuf,
};

/// The file of an image, through the link that a worker uses.
fn file_of(image: &Image) -> (File, PathBuf) {
    let DeviceBinding::Loop { file, .. } = image.binding(&arm("raw")) else { panic!("not a loop device") };
    (File::open(&file).unwrap(), file)
}

#[test]
fn nameless_and_fully_allocated() {
    // The second one is written through the page cache.
    for size in [Bytes::mib(9), Bytes(Bytes::mib(9).0 + 512)] {
        nameless_and_fully_allocated_with(size);
    }
}

fn nameless_and_fully_allocated_with(size: Bytes) {
    let home = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    let image = Image::make(home.path(), size, &mut |done, of| {
        seen.push((done, of));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(fs::read_dir(home.path()).unwrap().next().is_none(), "it has a name");
    let (file, link) = file_of(&image);
    let matched = file.metadata().unwrap();
    assert_eq!((matched.len(), matched.nlink()), (size.0, 0));
    assert!(matched.blocks() * 512 >= size.0, "{} blocks", matched.blocks());
    assert_eq!(seen.last(), Some(&(size, size)));
    assert!(seen.is_sorted_by_key(|(done, _)| *done));
    // Neither zero nor twice the same.
    let chunk = |at: u64| {
        let mut chunk = vec![0_u8; 4096];
        file.read_exact_at(&mut chunk, at).unwrap();
        chunk
    };
    assert!(chunk(0) != chunk(4 << 20) && chunk(0).iter().filter(|byte| **byte == 0).count() < 64);
    assert!(image.is_released().unwrap());
    assert!(image.notes()[0].contains(&fs::canonicalize(home.path()).unwrap().display().to_string()));
    drop(file);
    Box::new(image).close().unwrap();
    assert!(!link.exists() || fs::read_link(&link).is_ok_and(|name| !name.starts_with(home.path())));
}

/// The image may be larger than memory, and the page cache belongs to other programs.
#[test]
fn image_data_stays_out_of_page_cache() {
    let name = "device_image::image_data_stays_out_of_page_cache";
    if find("fincore").is_none() {
        return skip(name, "there is no fincore here (util-linux-extra)");
    }
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    if host::filesystem_of(home.path()).unwrap() == "tmpfs" {
        return skip(name, "the target folder is in memory");
    }
    let image = Image::make(home.path(), Bytes::mib(64), &mut |_, _| ControlFlow::Continue(())).unwrap();
    let (_, link) = file_of(&image);
    let counted = Program::new("fincore")
        .args(["--bytes", "--noheadings", "--output", "RES"])
        .args([link.display().to_string()])
        .run()
        .unwrap();
    let resident: u64 = counted.stdout.trim().parse().unwrap();
    assert!(resident < Bytes::mib(8).0, "{resident} bytes of 64 MiB");
}

#[test]
fn too_little_space() {
    let home = tempfile::tempdir().unwrap();
    let available = host::space_available(home.path()).unwrap();
    let mut called = false;
    let result = Image::make(home.path(), Bytes(available.0 / 100 * 95), &mut |_, _| {
        called = true;
        ControlFlow::Continue(())
    });
    let Err(error) = result else { panic!("it was made") };
    assert!(error.to_string().contains("does not fit"), "{error}");
    assert!(error.to_string().contains(" free)"), "{error}");
    let hint = error.hint().unwrap();
    assert!(hint.contains("its size") && hint.contains("another folder"), "{hint}");
    assert!(!called && fs::read_dir(home.path()).unwrap().next().is_none());
}

#[test]
fn image_in_missing_folder_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let error =
        Image::make(&home.path().join("nowhere"), Bytes::mib(1), &mut |_, _| ControlFlow::Continue(()))
            .unwrap_err();
    assert!(error.to_string().starts_with("could not find the folder"), "{error}");
}

#[test]
fn image_is_held_until_worker_detaches() {
    isolated(|| {
        let lab = Lab::new();
        let image = lab.image(16);
        let raw = arm("raw");
        let attached =
            AttachedDevices::attach(&image.binding(&raw), &raw, std::process::id(), &lab.ledger).unwrap();
        assert!(!image.is_released().unwrap());
        let (file, _) = file_of(&image);
        assert_eq!(loopdev::attached_to(file.as_fd()).unwrap(), [attached.path()]);
        attached.detach().unwrap();
        wait_until("it is released", || image.is_released().unwrap());
        assert_eq!(loopdev::attached_to(file.as_fd()).unwrap(), [] as [PathBuf; 0]);
    });
}

#[test]
fn distinguishes_two_images_in_memory() {
    isolated(|| {
        let lab = Lab::new();
        let make = || Image::in_memory(Bytes::mib(8), &mut |_, _| ControlFlow::Continue(())).unwrap();
        let (one, two) = (make(), make());
        let raw = arm("raw");
        let attached =
            AttachedDevices::attach(&one.binding(&raw), &raw, std::process::id(), &lab.ledger).unwrap();
        assert!(!one.is_released().unwrap());
        assert!(two.is_released().unwrap(), "the loop device of another image counts as its own");
        attached.detach().unwrap();
        wait_until("it is released", || one.is_released().unwrap());
    });
}

#[test]
fn interrupted_image_creation_leaves_no_files() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let result = Image::make(home.path(), Bytes::mib(64), &mut |_, _| ControlFlow::Break(()));
    assert!(matches!(result, Err(fstrial_stack::StackError::Interrupted)));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}
