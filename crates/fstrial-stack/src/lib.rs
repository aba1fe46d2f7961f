//! Builds and takes down storage stacks: devices, mkfs, mount, queue settings; guards, refusals and the ledger.
