//! Making it smaller while it is mounted.

use super::{Numbers, Run, grow::resize};
use fstrial_model::units::Bytes;
use fstrial_stack::operation::Places;

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    let size = run.part(Bytes::lt)?;
    resize(run, &Places { size, ..Places::default() }, |before, after| after < before)
}
