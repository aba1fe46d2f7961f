//! Labs with made-up trials in their store, for whatever is made from a store.

use crate::{
    made::{self, Shape},
    support::Lab,
};
use fstrial_store::Store;
use std::fs;

/// What a trial file or a tool can have in it that a browser would act on.
pub(crate) const HOSTILE: &str =
    "<img src=x onerror=\"window.__pwned=1\">'\"></script><script>alert(1)</script>";

/// The same for a terminal: a colour, a line of its own, a cleared screen, a turned direction.
pub(crate) const COMMANDS: &str = "\u{1b}[31m\nforged\u{9b}2J\u{202e}\u{7}";

/// A lab with made-up trials in its store.
pub(crate) fn with(shapes: &[Shape]) -> Lab {
    let lab = Lab::new();
    fs::create_dir_all(lab.home()).unwrap();
    let mut store = Store::open(lab.home().join("results.db")).unwrap();
    for (seed, shape) in shapes.iter().enumerate() {
        made::add(&mut store, shape, 100 + seed as u64);
    }
    lab
}

/// A trial in which everything that has a name has a hostile one.
pub(crate) fn hostile() -> Shape {
    Shape {
        name: HOSTILE.into(),
        arms: vec![("<script>alert(3)</script>".into(), 1.0), ("'\"><b>".into(), 1.2), ("a".repeat(60), 0.7)],
        workloads: vec!["\"><img src=x onerror=window.__pwned=2>".into()],
        kernel: format!("{HOSTILE}{COMMANDS}"),
        tool: format!("{HOSTILE}{COMMANDS}"),
        rounds: 5,
        ..Shape::default()
    }
}
