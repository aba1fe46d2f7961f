//! Randomized controlled trials for Linux filesystems: the command.
