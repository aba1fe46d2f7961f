//! Labs with invented trials in their store, for every command that reads a store.

use crate::{
    made::{self, Shape},
    support::Lab,
};
use fstrial_store::Store;
use std::fs;

/// Text that a trial file or a tool can contain and that a browser would execute.
pub(crate) const HOSTILE: &str =
    "<img src=x onerror=\"window.__pwned=1\">'\"></script><script>alert(1)</script>";

/// The same for a terminal: a colour, a line break, a cleared screen, a reversed direction.
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
