//! Every preset on real filesystems. In a separate program, so that it does not run alongside tests whose runs are so
//! short that a busy disk delays them too long.

mod presets;
#[path = "../it/support.rs"]
#[expect(dead_code, reason = "shared with the other tests, which use the rest")]
mod support;
