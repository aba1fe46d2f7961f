//! What the rounds so far say of a claim and its parts.

use super::{
    cell::{Cell, Contrast, Of},
    contrast::{Assay, less_is_better},
    judge::Judge,
    parts::ClaimPart,
    sample::Sample,
};
use fstrial_model::{
    claim::{Bound, ClaimQuestion, Spot},
    device::Device,
    metric::Metric,
    unit,
};
use fstrial_stats::{Decision, spread};
use serde::{Deserialize, Serialize};

/// From this share of its limit on, a modelled device is the limit.
const CEILING_SHARE: f64 = 0.95;
/// Share of the processors that others may take from runs at levels that are compared.
const NEIGHBOURS: f64 = 0.05;
/// Rounds in which a workload must be done before it is said that it works.
pub(super) const WORKING_ROUNDS: usize = 5;

/// What is found about a claim, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// As it is claimed.
    Holds,
    /// Not a claim: what was asked is measured.
    Measured,
    Undecided,
    /// There is no difference here, where there could be none: the device was at its limit, or a planted slowdown was not seen
    /// either.
    CannotTell,
    /// It cannot be checked on this machine.
    CannotRun,
    /// Of a claim: some of its parts are as it is claimed, and others decidedly are not; or none is, and in different ways.
    InPart,
    /// In the direction that is claimed, or none that could be detected, but decidedly less than claimed.
    Less,
    /// Decidedly no difference that matters.
    NoDifference,
    /// Decidedly the other way round.
    Reversed,
}

impl ClaimVerdict {
    /// In words, as tables say it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Measured => "measured",
            Self::Undecided => "undecided",
            Self::CannotTell => "cannot tell here",
            Self::InPart => "in part",
            Self::Less => "less than claimed",
            Self::NoDifference => "no difference",
            Self::Reversed => "reversed",
            Self::CannotRun => "cannot run here",
        }
    }
}

/// On which side of what is asked the figure itself lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Above,
    Below,
    Same,
    Unknown,
}

/// The bound of a question about a ratio. Better is beyond 1.
const fn bound_of(asked: &ClaimQuestion) -> Option<Bound> {
    match asked {
        ClaimQuestion::Ratio { bound, .. } | ClaimQuestion::Slope { bound, .. } => Some(*bound),
        ClaimQuestion::Better { .. } => Some(Bound::Above(1.0)),
        _ => None,
    }
}

/// Whether a finding is that there is no difference, or not more of one than a bound allows.
pub fn saw_no_effect(bound: Bound, found: ClaimVerdict) -> bool {
    match (found, bound) {
        (ClaimVerdict::NoDifference, _) | (ClaimVerdict::Holds, Bound::Within(_)) => true,
        (ClaimVerdict::Holds, Bound::Below(bound)) => bound > 1.0,
        (ClaimVerdict::Holds, Bound::Above(bound)) => bound < 1.0,
        _ => false,
    }
}

/// Whether a finding rests on an effect that was not seen, which on a machine that is too small says nothing.
pub fn needs_processors(bound: Bound, found: ClaimVerdict) -> bool {
    let is_of_none = match bound {
        Bound::Within(_) => true,
        // "No more than 5 % faster."
        Bound::Below(bound) => bound > 1.0,
        Bound::Above(_) => false,
    };
    match found {
        ClaimVerdict::Holds => is_of_none,
        ClaimVerdict::Less | ClaimVerdict::NoDifference | ClaimVerdict::Reversed => !is_of_none,
        _ => false,
    }
}

/// The share that others took of the runs: the median, or the mean where a neighbour in fewer of them took more.
#[expect(clippy::cast_precision_loss, reason = "a number of runs")]
fn taken(shares: &[f64]) -> Option<f64> {
    let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    spread::median(shares).map(|median| median.max(mean))
}

/// What the verdicts of its parts make of a claim: nothing before all are known, except that it holds in part, which no verdict on
/// the others could change; *no difference* and *reversed* only if it is that of all that are known; *less* also of parts without
/// a difference. None without parts.
pub fn whole(parts: &[ClaimVerdict]) -> Option<ClaimVerdict> {
    let denies = |found: &&ClaimVerdict| {
        matches!(found, ClaimVerdict::Less | ClaimVerdict::NoDifference | ClaimVerdict::Reversed)
    };
    let mildest = parts.iter().filter(denies).min().copied();
    let worst = parts.iter().filter(denies).max().copied();
    let is_reversed_in_part = worst == Some(ClaimVerdict::Reversed) && mildest != worst;
    if is_reversed_in_part || mildest.is_some() && parts.contains(&ClaimVerdict::Holds) {
        return Some(ClaimVerdict::InPart);
    }
    let open = parts.iter().find(|found| **found == ClaimVerdict::Undecided).copied();
    // What cannot be told or run, else that all hold.
    open.or(mildest).or(parts.iter().max().copied())
}

/// Whether this many bytes a second, or this many of a unit, are what a modelled device allows at most.
pub fn is_at_limit(device: &Device, bytes: Option<f64>, rate: Option<f64>, of: &str) -> bool {
    let Some(limits) = device.modelled().and_then(|model| model.limits) else { return false };
    let is_at = |value: Option<f64>, limit: Option<f64>| {
        value.zip(limit).is_some_and(|(value, limit)| value >= CEILING_SHARE * limit)
    };
    #[expect(clippy::cast_precision_loss, reason = "bandwidths are far below 2^53")]
    let bandwidth = limits.bandwidth.map(|bandwidth| bandwidth.0.0 as f64);
    is_at(bytes, bandwidth) || (of == unit::OPERATIONS && is_at(rate, limits.iops.map(f64::from)))
}

impl Judge<'_> {
    /// What is found about a part of the claim so far. That there is no difference is believed only where one could have been
    /// seen.
    pub fn part(&self, index: usize) -> ClaimVerdict {
        let found = self.part_by_rounds(index);
        let ClaimPart { part, contrasts, .. } = &self.plan.parts[index];
        if part.planted
            && matches!(found, ClaimVerdict::Less | ClaimVerdict::NoDifference | ClaimVerdict::Reversed)
        {
            return ClaimVerdict::CannotTell;
        }
        if found != ClaimVerdict::Undecided
            && self.lost_to_others(index).is_some()
            && !self.is_so_without_others(index, found)
        {
            return ClaimVerdict::CannotTell;
        }
        if self.has_too_few_processors(index, found)
            || found == ClaimVerdict::Less && contrasts.iter().any(|contrast| self.is_at_limit(*contrast))
        {
            return ClaimVerdict::CannotTell;
        }
        if !self.rests_on_a_control(index, found) {
            return found;
        }
        let resting = || contrasts.iter().filter(|contrast| self.is_resting(index, **contrast));
        match resting().map(|contrast| self.assay(*contrast)).max().unwrap_or(Assay::Unasked) {
            _ if resting().any(|contrast| self.is_at_ceiling(*contrast)) => ClaimVerdict::CannotTell,
            Assay::Unseen | Assay::Overdosed => ClaimVerdict::CannotTell,
            Assay::Unknown => ClaimVerdict::Undecided,
            Assay::Unasked | Assay::Seen => found,
        }
    }

    /// Whether the rounds alone say of a part that there is no difference, so that one must have been visible.
    pub fn part_rests_on_a_control(&self, index: usize) -> bool {
        self.rests_on_a_control(index, self.part_by_rounds(index))
    }

    /// Whether the rounds alone decide a part by an effect that so few processors cannot show.
    pub fn part_lacks_processors(&self, index: usize) -> bool {
        self.has_too_few_processors(index, self.part_by_rounds(index))
    }

    /// Whether a part that rests on controls rests on that of this contrast: of a winner only where nobody was beaten.
    pub(super) fn is_resting(&self, part: usize, contrast: usize) -> bool {
        let is_of_winners = matches!(self.plan.parts[part].part.asked, ClaimQuestion::NoSingleWinner(_));
        !is_of_winners || self.decision(contrast).0 == Decision::Equivalent
    }

    /// The share of the processors that others took from a part which they may have decided: one that compares levels, as a
    /// neighbour on one of two processors takes nothing from one thread and half of two, or one about an amount or about the machine's processor time.
    pub fn lost_to_others(&self, index: usize) -> Option<f64> {
        let contrasts = self.plan.parts[index].contrasts.iter().map(|index| &self.plan.contrasts[*index]);
        let is_uneven = |contrast: &&Contrast| {
            let first = self.workers((contrast.a, contrast.result_a));
            contrast.of == Of::Amount
                || contrast.metric == Metric::CpuTime
                || contrast.figures().any(|figure| self.workers(figure) != first)
        };
        let cells: Vec<(usize, usize)> = contrasts.filter(is_uneven).flat_map(Contrast::figures).collect();
        let samples = cells.iter().flat_map(|(cell, result)| self.samples(*cell, *result));
        let shares: Vec<f64> = samples.filter_map(Sample::taken_by_others).collect();
        taken(&shares).filter(|share| *share > NEIGHBOURS)
    }

    /// Whether a finding is so although others took much of the processors: of levels also if all of that was taken from the one
    /// level, or all from the other, and of an amount with all of it given back.
    fn is_so_without_others(&self, index: usize, found: ClaimVerdict) -> bool {
        let ClaimPart { part, contrasts, .. } = &self.plan.parts[index];
        // The machine's processor time has theirs in it, whatever they took.
        if part.metric == Metric::CpuTime {
            return false;
        }
        let bound = match part.asked {
            ClaimQuestion::Ratio { bound, .. } | ClaimQuestion::Slope { bound, .. } => bound,
            ClaimQuestion::Better { .. } => Bound::Above(1.0),
            ClaimQuestion::Amount { bound, .. } => {
                return self.is_amount_without_others(contrasts[0], bound, found);
            }
            _ => return false,
        };
        // The other way round is told by the question about the direction.
        let asked = if found == ClaimVerdict::Reversed { contrasts.last() } else { contrasts.first() };
        let Some((low, high)) = asked.and_then(|contrast| self.widened(*contrast)) else { return false };
        match (found, bound) {
            (ClaimVerdict::Holds, Bound::Above(bound)) | (ClaimVerdict::Less, Bound::Below(bound)) => {
                low > bound
            }
            (ClaimVerdict::Holds, Bound::Below(bound)) | (ClaimVerdict::Less, Bound::Above(bound)) => {
                high < bound
            }
            (ClaimVerdict::Holds, Bound::Within(share)) => low > 1.0 / (1.0 + share) && high < 1.0 + share,
            (ClaimVerdict::Reversed, Bound::Within(share)) => low > 1.0 + share || high < 1.0 / (1.0 + share),
            (ClaimVerdict::Reversed, Bound::Above(bound)) => high < bound.min(1.0),
            (ClaimVerdict::Reversed, Bound::Below(bound)) => low > bound.max(1.0),
            _ => false,
        }
    }

    /// The same of an amount, of which others can only have taken: it may have been more, and a time less.
    fn is_amount_without_others(&self, contrast: usize, bound: Bound, found: ClaimVerdict) -> bool {
        let Contrast { a, result_a, .. } = self.plan.contrasts[contrast];
        let Some((low, high)) = self.standing(contrast).1 else { return false };
        let kept = 1.0 - self.most_taken(a, result_a);
        let (low, high) = if less_is_better(self.plan, &self.plan.contrasts[contrast]) {
            (low * kept, high)
        } else {
            (low, high / kept)
        };
        match (found, bound) {
            (ClaimVerdict::Holds, Bound::Above(bound)) | (ClaimVerdict::Reversed, Bound::Below(bound)) => {
                low > bound
            }
            (ClaimVerdict::Holds, Bound::Below(bound)) | (ClaimVerdict::Reversed, Bound::Above(bound)) => {
                high < bound
            }
            _ => false,
        }
    }

    /// The interval of a contrast, with all that others took given back to the one side, or to the other.
    fn widened(&self, contrast: usize) -> Option<(f64, f64)> {
        let (low, high) = self.standing(contrast).1?;
        let Contrast { a, b, result_a, result_b, .. } = self.plan.contrasts[contrast];
        let kept = |cell, result| 1.0 - self.most_taken(cell, result);
        let (a, b) = (kept(a, result_a), kept(b, result_b));
        // Of times, an arm that had more of the processors would have taken less.
        let (down, up) =
            if less_is_better(self.plan, &self.plan.contrasts[contrast]) { (a, b) } else { (b, a) };
        Some((low * down, high / up))
    }

    /// Threads that run next to a figure's: groups of a phase may have numbers of their own.
    fn workers(&self, (cell, result): (usize, usize)) -> u16 {
        let Cell { workload, threads, .. } = self.plan.cells[cell];
        let phase = self.plan.workloads[workload].phase_of(result);
        phase.map_or(threads, |phase| phase.groups.iter().map(|group| group.workers(threads)).sum())
    }

    /// The share of its speed that others took from a cell at most: theirs of all processors, if it was all on those that the cell
    /// has threads for.
    fn most_taken(&self, cell: usize, result: usize) -> f64 {
        let samples = self.samples(cell, result);
        let share = taken(&samples.iter().filter_map(Sample::taken_by_others).collect::<Vec<_>>());
        let (threads, cpus) = (self.workers((cell, result)).max(1), self.plan.cpus.max(1));
        (share.unwrap_or(0.0) * f64::from(cpus) / f64::from(threads.min(cpus))).min(0.99)
    }

    fn rests_on_a_control(&self, index: usize, found: ClaimVerdict) -> bool {
        let ClaimPart { part, contrasts, .. } = &self.plan.parts[index];
        if let (ClaimQuestion::NoSingleWinner(_), ClaimVerdict::Reversed) = (&part.asked, found) {
            // That nobody beats an arm may rest on its being as good as another.
            return contrasts.iter().any(|index| self.decision(*index).0 == Decision::Equivalent);
        }
        // Less than claimed without a direction: nothing was seen.
        let is_less_of_nothing = found == ClaimVerdict::Less
            && contrasts.get(1).is_some_and(|direction| self.side(*direction) == Side::Unknown);
        is_less_of_nothing
            || bound_of(&part.asked).is_some_and(|bound| saw_no_effect(bound, found))
                && !self.is_plain(&part.asked, found, contrasts)
    }

    /// Whether the machine has fewer processors than a claim takes to see its effect, and a part was found by not seeing one.
    fn has_too_few_processors(&self, index: usize, found: ClaimVerdict) -> bool {
        let claim = self.plan.trial.claim.as_ref();
        let part = &self.plan.parts[index].part;
        claim.and_then(|claim| claim.cpus).is_some_and(|cpus| self.plan.cpus < cpus)
            && !part.planted
            && needs_processors(bound_of(&part.asked).unwrap_or(Bound::Above(1.0)), found)
    }

    /// Whether a ratio that was allowed to be a little beyond 1 is on the good side of 1: that is seen, and needs no control.
    fn is_plain(&self, asked: &ClaimQuestion, found: ClaimVerdict, contrasts: &[usize]) -> bool {
        let (ClaimQuestion::Ratio { bound, .. } | ClaimQuestion::Slope { bound, .. }) = asked else {
            return false;
        };
        let ends = self.standing(contrasts[0]).1.filter(|_| found == ClaimVerdict::Holds);
        ends.is_some_and(|(low, high)| match bound {
            Bound::Above(least) => *least < 1.0 && low > 1.0,
            Bound::Below(most) => *most > 1.0 && high < 1.0,
            Bound::Within(_) => false,
        })
    }

    fn part_by_rounds(&self, index: usize) -> ClaimVerdict {
        let ClaimPart { part, contrasts, watched } = &self.plan.parts[index];
        let cells = contrasts.iter().flat_map(|index| self.plan.contrasts[*index].cells());
        if cells.into_iter().any(|cell| self.cannot(cell).is_some()) {
            return ClaimVerdict::CannotRun;
        }
        match &part.asked {
            ClaimQuestion::Ratio { bound, .. }
            | ClaimQuestion::Slope { bound, .. }
            | ClaimQuestion::Amount { bound, .. } => self.bounded(*bound, contrasts),
            ClaimQuestion::Better { .. } => match self.decision(contrasts[0]).0 {
                Decision::Faster => ClaimVerdict::Holds,
                Decision::Slower => ClaimVerdict::Reversed,
                Decision::Equivalent => ClaimVerdict::NoDifference,
                Decision::Undecided => ClaimVerdict::Undecided,
            },
            ClaimQuestion::Works(_) => self.works(watched[0]),
            ClaimQuestion::Fails(_) => match self.works(watched[0]) {
                ClaimVerdict::Holds => ClaimVerdict::Reversed,
                ClaimVerdict::Reversed => ClaimVerdict::Holds,
                other => other,
            },
            ClaimQuestion::NoSingleWinner(groups) => self.no_single_winner(groups, contrasts),
        }
    }

    /// Whether all cells of a contrast ran at the limit of a modelled device.
    pub(super) fn is_at_ceiling(&self, contrast: usize) -> bool {
        self.plan.contrasts[contrast].figures().all(|figure| self.has_reached_a_limit(figure))
    }

    /// Whether some cell of a contrast did, so that it could have been faster.
    pub(super) fn is_at_limit(&self, contrast: usize) -> bool {
        self.plan.contrasts[contrast].figures().any(|figure| self.has_reached_a_limit(figure))
    }

    fn has_reached_a_limit(&self, (cell, result): (usize, usize)) -> bool {
        let unit = &self.plan.results[self.plan.cells[cell].workload][result].unit;
        let samples = self.samples(cell, result);
        let bytes: Vec<f64> =
            samples.iter().filter_map(|sample| Some(sample.load.as_ref()?.bytes_rate)).collect();
        let rates: Vec<f64> = samples.iter().map(|sample| sample.rate).collect();
        let [bytes, rate] = [bytes, rates].map(|values| spread::median(&values));
        let arm = &self.plan.trial.arms[self.plan.cells[cell].arm];
        is_at_limit(self.plan.trial.device_of(arm), bytes, rate, unit)
    }

    /// Where a figure lies by one contrast. Where less is better the statistics have the roles exchanged.
    fn side(&self, contrast: usize) -> Side {
        let less = less_is_better(self.plan, &self.plan.contrasts[contrast]);
        match (self.decision(contrast).0, less) {
            (Decision::Faster, false) | (Decision::Slower, true) => Side::Above,
            (Decision::Slower, false) | (Decision::Faster, true) => Side::Below,
            (Decision::Equivalent, _) => Side::Same,
            (Decision::Undecided, _) => Side::Unknown,
        }
    }

    fn bounded(&self, bound: Bound, contrasts: &[usize]) -> ClaimVerdict {
        let (wanted, unwanted) = match bound {
            Bound::Above(_) => (Side::Above, Side::Below),
            Bound::Below(_) => (Side::Below, Side::Above),
            Bound::Within(_) => {
                return match self.side(contrasts[0]) {
                    Side::Same => ClaimVerdict::Holds,
                    Side::Above | Side::Below => ClaimVerdict::Reversed,
                    Side::Unknown => ClaimVerdict::Undecided,
                };
            }
        };
        let of_bound = self.side(contrasts[0]);
        let Some(direction) = contrasts.get(1) else {
            return match of_bound {
                side if side == wanted => ClaimVerdict::Holds,
                side if side == unwanted => ClaimVerdict::Reversed,
                Side::Same => ClaimVerdict::NoDifference,
                _ => ClaimVerdict::Undecided,
            };
        };
        let ((_, is_futile), side) = (self.decision(*direction), self.side(*direction));
        match side {
            _ if of_bound == wanted => ClaimVerdict::Holds,
            side if side == unwanted => ClaimVerdict::Reversed,
            Side::Same => ClaimVerdict::NoDifference,
            side if of_bound == unwanted && (side == wanted || is_futile) => ClaimVerdict::Less,
            _ => ClaimVerdict::Undecided,
        }
    }

    fn works(&self, cell: usize) -> ClaimVerdict {
        let rounds = self.plan.trial.trial.rounds.map_or(WORKING_ROUNDS, |rounds| rounds as usize);
        if self.is_out(cell) {
            ClaimVerdict::Reversed
        } else if self.samples(cell, 0).len() >= rounds.min(WORKING_ROUNDS) {
            ClaimVerdict::Holds
        } else {
            ClaimVerdict::Undecided
        }
    }

    /// Holds if every arm is beaten somewhere. The other way round if one is the best, or as good, everywhere.
    fn no_single_winner(&self, groups: &[Vec<Spot>], contrasts: &[usize]) -> ClaimVerdict {
        let mut arms: Vec<usize> = groups.iter().flatten().map(|spot| spot.arm).collect();
        arms.sort_unstable();
        arms.dedup();
        // By arm: whether it is beaten somewhere, and whether nobody can beat it any more.
        let stands = arms.iter().map(|arm| {
            let mut is_beaten = false;
            let mut is_open = false;
            for index in contrasts {
                let contrast = &self.plan.contrasts[*index];
                let (a, b) = (self.plan.cells[contrast.a].arm, self.plan.cells[contrast.b].arm);
                match self.decision(*index).0 {
                    Decision::Faster => is_beaten |= b == *arm,
                    Decision::Slower => is_beaten |= a == *arm,
                    Decision::Undecided => is_open |= a == *arm || b == *arm,
                    Decision::Equivalent => {}
                }
            }
            (is_beaten, is_open)
        });
        let stands: Vec<(bool, bool)> = stands.collect();
        if stands.iter().all(|(is_beaten, _)| *is_beaten) {
            ClaimVerdict::Holds
        } else if stands.iter().any(|(is_beaten, is_open)| !is_beaten && !is_open) {
            ClaimVerdict::Reversed
        } else {
            ClaimVerdict::Undecided
        }
    }

    /// What is found about the whole claim so far. None if the trial is there for no claim.
    pub fn claim(&self) -> Option<ClaimVerdict> {
        let claim = self.plan.trial.claim.as_ref()?;
        if claim.question {
            let states = self.states();
            let is_open = states.iter().any(|state| state.open);
            let is_known =
                states.iter().any(|state| state.metric == Metric::Throughput && state.ratio.is_some());
            let is_measured = is_known && !is_open;
            return Some(if is_measured { ClaimVerdict::Measured } else { ClaimVerdict::Undecided });
        }
        let found = |index: usize| (self.part(index), self.plan.parts[index].part.planted);
        let (planted, claimed): (Vec<_>, Vec<_>) =
            (0..self.plan.parts.len()).map(found).partition(|(_, is_planted)| *is_planted);
        // What is planted was not claimed: that it is seen is no part of the answer; where it is not, nothing is.
        let unseen =
            planted.into_iter().map(|(found, _)| found).filter(|found| *found != ClaimVerdict::Holds).max();
        unseen.or_else(|| whole(&claimed.into_iter().map(|(found, _)| found).collect::<Vec<_>>()))
    }

    /// Whether a contrast no longer matters, as the part it is of is settled without it.
    pub(super) fn is_moot(&self, contrast: usize) -> bool {
        let of = |part: &ClaimPart| part.contrasts.contains(&contrast);
        let part = self.plan.parts.iter().position(of);
        part.is_some_and(|part| self.part(part) != ClaimVerdict::Undecided)
    }

    /// Whether a cell is run to see that it works, and has not been seen often enough.
    pub(super) fn is_watched(&self, cell: usize) -> bool {
        let parts = self.plan.parts.iter().enumerate();
        parts
            .filter(|(_, part)| part.watched.contains(&cell))
            .any(|(index, _)| self.part(index) == ClaimVerdict::Undecided)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ClaimVerdict::{self, *},
        whole,
    };

    #[test]
    fn a_claim_has_never_the_worst_word_of_its_parts() {
        for (parts, found) in [
            (vec![Holds, Holds], Some(Holds)),
            (vec![Holds, Holds, NoDifference], Some(InPart)),
            (vec![Holds, Reversed, CannotTell], Some(InPart)),
            (vec![Reversed, Reversed], Some(Reversed)),
            (vec![Reversed, NoDifference], Some(InPart)),
            (vec![Less, NoDifference], Some(Less)),
            (vec![NoDifference, CannotTell], Some(NoDifference)),
            (vec![Less, CannotTell], Some(Less)),
            (vec![Holds, CannotTell], Some(CannotTell)),
            (vec![Holds, CannotRun, CannotTell], Some(CannotRun)),
            (vec![Reversed, Undecided], Some(Undecided)),
            (vec![Holds, Undecided], Some(Undecided)),
            (vec![Less, NoDifference, Undecided], Some(Undecided)),
            (vec![], None),
        ] {
            assert_eq!(whole(&parts), found, "{parts:?}");
        }
    }

    #[test]
    fn a_claim_is_known_with_open_parts_where_they_could_not_change_it() {
        let any = [Holds, Undecided, CannotTell, CannotRun, Less, NoDifference, Reversed];
        let (mut known, mut open) = (0, 0);
        for (a, b) in any.iter().flat_map(|a| any.iter().map(move |b| (*a, *b))) {
            let of = |c: ClaimVerdict| whole(&[a, b, c]).unwrap();
            let last: Vec<_> = any.iter().filter(|c| **c != Undecided).map(|c| of(*c)).collect();
            let could_be_said = !last.contains(&Undecided) && last.iter().all(|found| *found == last[0]);
            assert_eq!(of(Undecided), if could_be_said { last[0] } else { Undecided }, "{a:?} {b:?}");
            if could_be_said { known += 1 } else { open += 1 }
        }
        assert!(known > 0 && open > 0, "{known} {open}");
    }
}
