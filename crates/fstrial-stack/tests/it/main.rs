//! Real stacks on real kernels: every refusal, every filesystem, every way to take a stack down. Needs root and loop
//! devices; without them the tests print `SKIPPED`. Only files in temporary folders and devices made from them are
//! used.

mod base;
mod confined;
mod cpu;
mod delete;
mod device_image;
mod directory;
mod disk;
mod dress;
mod external_log;
mod facts;
mod failures;
mod freeze;
mod holders;
mod memory;
mod recorded;
mod settings;
mod support;
mod zram;
