//! Deleting a tree.

use super::{POPULATED, Row, time};
use crate::ability::Ability;

const RM: Ability = Ability::Program("rm", &["-rf", "--", "{tree}"]);

pub(super) const ROW: Row =
    Row { numbers: &[time("delete"), time("durable")], ability: |_| RM, in_a_directory: RM, ..POPULATED };
