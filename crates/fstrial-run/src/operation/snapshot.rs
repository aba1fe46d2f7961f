//! Making a read-only snapshot, and deleting it.

use super::{Numbers, Run, median, ns};
use fstrial_model::ability::Ability;
use fstrial_stack::operation::Places;

pub(super) fn perform(run: &mut Run<'_>) -> Numbers {
    run.populate()?;
    run.begin();
    let create = run.tool()?;
    let arm = run.order.arm;
    let of_layer = arm.layer.and_then(|layer| layer.tool().snapshots);
    let delete = of_layer.map(|[_, delete]| delete).or(arm.row().map(|row| row.abilities.delete_snapshot));
    let delete = run.words_of(delete.unwrap_or(Ability::Unsupported("it has no snapshots")))?;
    let (mut number, mut deleted) = (0, Vec::new());
    let created = run.repeat(|run| {
        run.settle()?;
        number += 1;
        let snapshot = run.path(&format!("snapshot-{number}"))?;
        let places = Places { snapshot, ..Places::default() };
        let created = run.must(&create, &places)?;
        deleted.push(run.must(&delete, &places)?);
        Ok(created)
    })?;
    Ok(vec![ns(created), ns(median(deleted))])
}
