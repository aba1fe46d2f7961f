//! Looks beyond the length of a run, before the first round.

use super::{Coordinator, Event, JobOutcome};
use crate::{
    error::ExpectedError,
    look::{Looks, Seen},
};
use fstrial_model::{job::FailureKind, units::Nanos};

impl Coordinator<'_, '_, '_> {
    /// Takes the pilot runs, and reports the results; false if interrupted. Nothing if a round exists already.
    pub(super) fn look(&mut self) -> Result<bool, ExpectedError> {
        if self.round > 0 {
            return Ok(true);
        }
        let Some(looks) = Looks::of(self.plan) else {
            if let Some(line) = Looks::no_room(self.plan) {
                self.tell(&Event::Preparing { line: &line })?;
            }
            return Ok(true);
        };
        let began = self.context.clock.now();
        for cells in &looks.cells {
            let gone = Nanos(self.context.clock.now().0 - began.0);
            let needed: u64 = cells.iter().map(|cell| self.guess(&looks.longer, *cell).0).sum();
            let title = looks.title(cells[0]);
            if !looks.fit(Nanos(gone.0.saturating_add(needed))) {
                let line = format!("pilot: none of {title}, as preparations take longer than expected");
                self.tell(&Event::Preparing { line: &line })?;
                continue;
            }
            let line = format!(
                "pilot: one run of {} of {title} in each arm, long enough for effects that shorter \
                     runs miss; it does not count",
                looks.length
            );
            self.tell(&Event::Preparing { line: &line })?;
            let (mut seen, mut is_whole) = (Vec::new(), true);
            for cell in cells {
                let Some(of_cell) = self.look_at(&looks, *cell)? else { return Ok(false) };
                is_whole &= !of_cell.is_empty();
                seen.extend(of_cell);
            }
            let workload = &self.plan.workloads[looks.longer.cells[cells[0]].workload];
            let lines = looks.lines(workload.phases()[0].duration, &seen);
            if !lines.is_empty() {
                self.tell(&Event::Noted { lines: &lines })?;
            } else if is_whole {
                self.tell(&Event::Preparing { line: &looks.nothing(&seen) })?;
            }
        }
        Ok(true)
    }

    /// Looks at one cell; none if interrupted. A failure of the arm itself recurs in the first round and is reported there.
    fn look_at(&mut self, looks: &Looks, cell: usize) -> Result<Option<Vec<Seen>>, ExpectedError> {
        if self.context.interrupt.is_raised() {
            return Ok(None);
        }
        let arm = looks.longer.cells[cell].arm;
        let mut job = self.job(arm, Some((&looks.longer, cell, 1)))?;
        job.task = Some(looks.longer.task(cell, 0, self.data));
        let failure = match self.send_until_not_lost(arm, &job)?.0 {
            JobOutcome::Interrupted => return Ok(None),
            JobOutcome::Measured(measured) => {
                return Ok(Some(measured.map_or_else(Vec::new, |measured| looks.seen(cell, &measured))));
            }
            JobOutcome::Failed(failure) => failure,
        };
        let context = self.plan.cell_name(cell);
        match failure.kind {
            FailureKind::ArmFailed | FailureKind::Unsupported | FailureKind::Lost => {
                let line = format!("pilot: nothing was seen of {context}: {failure}");
                self.tell(&Event::Preparing { line: &line })?;
                Ok(Some(Vec::new()))
            }
            FailureKind::HostLacks
            | FailureKind::ArmRefused
            | FailureKind::LoadRefused
            | FailureKind::CleanUp => Err(ExpectedError::Run { context, failure }),
        }
    }
}
