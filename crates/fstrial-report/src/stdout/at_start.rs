//! Detects whether standard output was closed when the process began.
//!
//! Rust's runtime opens `/dev/null` in the place of a closed descriptor before `main`, so that no file that is opened
//! later gets its number. Answers written there would be lost without a word, so this is looked at earlier still: by a
//! function that the loader calls.

#![expect(
    unsafe_code,
    reason = "the loader's list of functions, and one call that only looks at a descriptor"
)]

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// The loader's list of functions to call before `main`.
// SAFETY: the section holds pointers to functions of the C ABI; glibc and musl call them once, on the one thread there is.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: F_GETFD takes any number, open or not, and changes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags < 0, Ordering::Relaxed);
}

/// True if standard output was closed when the process began.
pub(super) fn was_closed() -> bool {
    // Named here so that the linker keeps it.
    std::hint::black_box(LOOK);
    CLOSED.load(Ordering::Relaxed)
}
