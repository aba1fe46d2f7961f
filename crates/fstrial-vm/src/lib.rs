//! Kernels other than the host's, and the microVM that boots one.
//!
//! ```text
//! vmlinuz ─► vmlinux ─┐
//! modules ─► closure ─┼─► QEMU ─► init in the guest ─► a program of the host, on a virtio port
//! initramfs ──────────┘
//! ```
//! Trials are not known here: the guest's program and the protocol on its port are the caller's.

#![forbid(unsafe_code)]

pub mod guest;
pub mod image;
pub mod initramfs;
pub mod machine;
pub mod modules;
pub mod port;
