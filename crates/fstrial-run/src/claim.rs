//! Verdicts on a claim and its parts, from the rounds so far.

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
/// Share of the processors that others may take from runs at levels that are compared, and from those that explain a difference by waits
/// for processors.
pub const NEIGHBOURS: f64 = 0.05;
/// Rounds in which a workload must complete before it counts as working.
pub(super) const WORKING_ROUNDS: usize = 5;

/// Verdict on a claim, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// As it is claimed.
    Confirmed,
    /// A question, not a claim: the figure is measured.
    Measured,
    Undecided,
    /// No difference was found, but none could have been: the device was at its limit, or a planted slowdown was not
    /// detected either.
    Insensitive,
    /// It cannot be checked on this machine.
    NotTestable,
    /// Some parts of a claim are confirmed, and others refuted; or all are refuted, in different ways.
    PartlyConfirmed,
    /// In the direction that is claimed, or none that could be detected, but decidedly less than claimed.
    Smaller,
    /// Decidedly no difference that matters.
    NoDifference,
    /// Decidedly the other way round.
    Reversed,
}

impl ClaimVerdict {
    /// Its text in tables.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Measured => "measured",
            Self::Undecided => "undecided",
            Self::Insensitive => "insensitive",
            Self::PartlyConfirmed => "partly confirmed",
            Self::Smaller => "smaller than claimed",
            Self::NoDifference => "no difference",
            Self::Reversed => "reversed",
            Self::NotTestable => "not testable here",
        }
    }
}

/// The side of a bound on which the figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BoundSide {
    Above,
    Below,
    Same,
    Unknown,
}

/// The bound of a question about a ratio. Better is beyond 1.
const fn bound_of(requested: &ClaimQuestion) -> Option<Bound> {
    match requested {
        ClaimQuestion::Ratio { bound, .. } | ClaimQuestion::Slope { bound, .. } => Some(*bound),
        ClaimQuestion::Better { .. } => Some(Bound::Above(1.0)),
        _ => None,
    }
}

/// True for a finding without a difference, or without one beyond a bound.
pub fn saw_no_effect(bound: Bound, verdict: ClaimVerdict) -> bool {
    match (verdict, bound) {
        (ClaimVerdict::NoDifference, _) | (ClaimVerdict::Confirmed, Bound::Within(_)) => true,
        (ClaimVerdict::Confirmed, Bound::Below(bound)) => bound > 1.0,
        (ClaimVerdict::Confirmed, Bound::Above(bound)) => bound < 1.0,
        _ => false,
    }
}

/// True if a finding depends on an effect not being seen, which is meaningless on a machine that is too small.
pub fn needs_processors(bound: Bound, verdict: ClaimVerdict) -> bool {
    let is_of_none = match bound {
        Bound::Within(_) => true,
        // "No more than 5 % faster."
        Bound::Below(bound) => bound > 1.0,
        Bound::Above(_) => false,
    };
    match verdict {
        ClaimVerdict::Confirmed => is_of_none,
        ClaimVerdict::Smaller | ClaimVerdict::NoDifference | ClaimVerdict::Reversed => !is_of_none,
        _ => false,
    }
}

/// Other programs' share of the runs: the median, or the mean if fewer runs were affected but more strongly.
#[expect(clippy::cast_precision_loss, reason = "a number of runs")]
fn taken(shares: &[f64]) -> Option<f64> {
    let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    spread::median(shares).map(|median| median.max(mean))
}

/// The verdict on a claim from those on its parts: undecided until all are known, except *partly confirmed*, which no
/// further verdict can change; *no difference* and *reversed* only if all known parts agree; *smaller* also with parts
/// without a difference. None without parts.
fn whole(parts: &[ClaimVerdict]) -> Option<ClaimVerdict> {
    let denies = |verdict: &&ClaimVerdict| {
        matches!(verdict, ClaimVerdict::Smaller | ClaimVerdict::NoDifference | ClaimVerdict::Reversed)
    };
    let mildest = parts.iter().filter(denies).min().copied();
    let worst = parts.iter().filter(denies).max().copied();
    let is_reversed_in_part = worst == Some(ClaimVerdict::Reversed) && mildest != worst;
    if is_reversed_in_part || mildest.is_some() && parts.contains(&ClaimVerdict::Confirmed) {
        return Some(ClaimVerdict::PartlyConfirmed);
    }
    let open = parts.iter().find(|verdict| **verdict == ClaimVerdict::Undecided).copied();
    // Parts that cannot be judged or run, else that all hold.
    open.or(mildest).or(parts.iter().max().copied())
}

/// The verdict on a claim from those on its parts, each with whether it is about a planted effect. Those are not claimed:
/// detecting them is not part of the answer, and not detecting them voids it.
pub fn of_parts(parts: impl Iterator<Item = (ClaimVerdict, bool)>) -> Option<ClaimVerdict> {
    let (planted, claimed): (Vec<_>, Vec<_>) = parts.partition(|(_, is_planted)| *is_planted);
    let verdicts = |parts: Vec<(ClaimVerdict, bool)>| parts.into_iter().map(|(verdict, _)| verdict);
    let unseen = verdicts(planted).filter(|verdict| *verdict != ClaimVerdict::Confirmed).max();
    unseen.or_else(|| whole(&verdicts(claimed).collect::<Vec<_>>()))
}

/// True if this many bytes a second, or this many of a unit, are at a modelled device's limit.
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
    /// The verdict on a part of the claim so far. *No difference* only if a difference would have been detected.
    pub fn part(&self, index: usize) -> ClaimVerdict {
        let verdict = self.part_by_rounds(index);
        let ClaimPart { part, contrasts, .. } = &self.plan.parts[index];
        if part.planted
            && matches!(verdict, ClaimVerdict::Smaller | ClaimVerdict::NoDifference | ClaimVerdict::Reversed)
        {
            return ClaimVerdict::Insensitive;
        }
        if verdict != ClaimVerdict::Undecided
            && self.lost_to_others(index).is_some()
            && !self.is_so_without_others(index, verdict)
        {
            return ClaimVerdict::Insensitive;
        }
        if self.has_too_few_processors(index, verdict)
            || verdict == ClaimVerdict::Smaller
                && contrasts.iter().any(|contrast| self.is_at_limit(*contrast))
        {
            return ClaimVerdict::Insensitive;
        }
        if !self.rests_on_a_control(index, verdict) {
            return verdict;
        }
        let resting = || contrasts.iter().filter(|contrast| self.is_resting(index, **contrast));
        match resting().map(|contrast| self.assay(*contrast)).max().unwrap_or(Assay::Unasked) {
            _ if resting().any(|contrast| self.is_at_ceiling(*contrast)) => ClaimVerdict::Insensitive,
            Assay::Unseen | Assay::Overdosed => ClaimVerdict::Insensitive,
            Assay::Unknown => ClaimVerdict::Undecided,
            Assay::Unasked | Assay::Seen => verdict,
        }
    }

    /// True if the rounds alone find no difference in a part, so that its detectability must be shown.
    pub fn part_rests_on_a_control(&self, index: usize) -> bool {
        self.rests_on_a_control(index, self.part_by_rounds(index))
    }

    /// True if the rounds alone decide a part by an effect that so few processors cannot show.
    pub fn part_lacks_processors(&self, index: usize) -> bool {
        self.has_too_few_processors(index, self.part_by_rounds(index))
    }

    /// True if a part that depends on controls depends on that of this contrast: of a question about a winner only
    /// those of equivalent contrasts do.
    pub(super) fn is_resting(&self, part: usize, contrast: usize) -> bool {
        let is_of_winners = matches!(self.plan.parts[part].part.question, ClaimQuestion::NoSingleWinner(_));
        !is_of_winners || self.decision(contrast).0 == Decision::Equivalent
    }

    /// The share of the processors that others took from a part which they may have decided: one that compares levels,
    /// as a neighbour on one of two processors takes nothing from one thread and half of two, or one about an amount or
    /// about the machine's processor time.
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

    /// True if a finding holds although others took much of the processors: for levels also if all of that was taken
    /// from one level, or all from the other, and for an amount with all of it given back.
    fn is_so_without_others(&self, index: usize, verdict: ClaimVerdict) -> bool {
        let ClaimPart { part, contrasts, .. } = &self.plan.parts[index];
        // The machine's processor time includes theirs, regardless of the amount.
        if part.metric == Metric::CpuTime {
            return false;
        }
        let bound = match part.question {
            ClaimQuestion::Ratio { bound, .. } | ClaimQuestion::Slope { bound, .. } => bound,
            ClaimQuestion::Better { .. } => Bound::Above(1.0),
            ClaimQuestion::Amount { bound, .. } => {
                return self.is_amount_without_others(contrasts[0], bound, verdict);
            }
            _ => return false,
        };
        // The opposite is covered by the question about the direction.
        let contrast = if verdict == ClaimVerdict::Reversed { contrasts.last() } else { contrasts.first() };
        let Some((low, high)) = contrast.and_then(|contrast| self.widened(*contrast)) else { return false };
        match (verdict, bound) {
            (ClaimVerdict::Confirmed, Bound::Above(bound)) | (ClaimVerdict::Smaller, Bound::Below(bound)) => {
                low > bound
            }
            (ClaimVerdict::Confirmed, Bound::Below(bound)) | (ClaimVerdict::Smaller, Bound::Above(bound)) => {
                high < bound
            }
            (ClaimVerdict::Confirmed, Bound::Within(share)) => {
                low > 1.0 / (1.0 + share) && high < 1.0 + share
            }
            (ClaimVerdict::Reversed, Bound::Within(share)) => low > 1.0 + share || high < 1.0 / (1.0 + share),
            (ClaimVerdict::Reversed, Bound::Above(bound)) => high < bound.min(1.0),
            (ClaimVerdict::Reversed, Bound::Below(bound)) => low > bound.max(1.0),
            _ => false,
        }
    }

    /// The same of an amount, of which others can only have taken: it may have been more, and a time less.
    fn is_amount_without_others(&self, contrast: usize, bound: Bound, verdict: ClaimVerdict) -> bool {
        let Contrast { a, result_a, .. } = self.plan.contrasts[contrast];
        let Some((low, high)) = self.ratio_and_interval(contrast).1 else { return false };
        let kept = 1.0 - self.most_taken(a, result_a);
        let (low, high) = if less_is_better(self.plan, &self.plan.contrasts[contrast]) {
            (low * kept, high)
        } else {
            (low, high / kept)
        };
        match (verdict, bound) {
            (ClaimVerdict::Confirmed, Bound::Above(bound))
            | (ClaimVerdict::Reversed, Bound::Below(bound)) => low > bound,
            (ClaimVerdict::Confirmed, Bound::Below(bound))
            | (ClaimVerdict::Reversed, Bound::Above(bound)) => high < bound,
            _ => false,
        }
    }

    /// The interval of a contrast, with all that others took given back to the one side, or to the other.
    fn widened(&self, contrast: usize) -> Option<(f64, f64)> {
        let (low, high) = self.ratio_and_interval(contrast).1?;
        let Contrast { a, b, result_a, result_b, .. } = self.plan.contrasts[contrast];
        let kept = |cell, result| 1.0 - self.most_taken(cell, result);
        let (a, b) = (kept(a, result_a), kept(b, result_b));
        // Of times, an arm that had more of the processors would have taken less.
        let (down, up) =
            if less_is_better(self.plan, &self.plan.contrasts[contrast]) { (a, b) } else { (b, a) };
        Some((low * down, high / up))
    }

    /// Concurrent threads of a figure: groups of a phase may have separate numbers.
    fn workers(&self, (cell, result): (usize, usize)) -> u16 {
        let Cell { workload, threads, .. } = self.plan.cells[cell];
        let phase = self.plan.workloads[workload].phase_of(result);
        phase.map_or(threads, |phase| phase.groups.iter().map(|group| group.workers(threads)).sum())
    }

    /// The share of its speed that others took from a cell at most: theirs of all processors, if it was all on those
    /// that the cell has threads for.
    fn most_taken(&self, cell: usize, result: usize) -> f64 {
        let samples = self.samples(cell, result);
        let share = taken(&samples.iter().filter_map(Sample::taken_by_others).collect::<Vec<_>>());
        let (threads, cpus) = (self.workers((cell, result)).max(1), self.plan.cpus.max(1));
        (share.unwrap_or(0.0) * f64::from(cpus) / f64::from(threads.min(cpus))).min(0.99)
    }

    fn rests_on_a_control(&self, index: usize, verdict: ClaimVerdict) -> bool {
        let ClaimPart { part, contrasts, .. } = &self.plan.parts[index];
        if let (ClaimQuestion::NoSingleWinner(_), ClaimVerdict::Reversed) = (&part.question, verdict) {
            // An unbeaten arm may merely equal another.
            return contrasts.iter().any(|index| self.decision(*index).0 == Decision::Equivalent);
        }
        // Smaller than claimed without a direction: nothing was seen.
        let is_less_of_nothing = verdict == ClaimVerdict::Smaller
            && contrasts.get(1).is_some_and(|direction| self.side(*direction) == BoundSide::Unknown);
        is_less_of_nothing
            || bound_of(&part.question).is_some_and(|bound| saw_no_effect(bound, verdict))
                && !self.is_plain(&part.question, verdict, contrasts)
    }

    /// True if the machine has fewer processors than a claim requires to show its effect, and a part was decided by its
    /// absence.
    fn has_too_few_processors(&self, index: usize, verdict: ClaimVerdict) -> bool {
        let claim = self.plan.trial.claim.as_ref();
        let part = &self.plan.parts[index].part;
        claim.and_then(|claim| claim.cpus).is_some_and(|cpus| self.plan.cpus < cpus)
            && !part.planted
            && needs_processors(bound_of(&part.question).unwrap_or(Bound::Above(1.0)), verdict)
    }

    /// True if a ratio allowed to be a little beyond 1 is on the good side of 1: that is a detected effect, and needs
    /// no control.
    fn is_plain(&self, requested: &ClaimQuestion, verdict: ClaimVerdict, contrasts: &[usize]) -> bool {
        let (ClaimQuestion::Ratio { bound, .. } | ClaimQuestion::Slope { bound, .. }) = requested else {
            return false;
        };
        let ends = self.ratio_and_interval(contrasts[0]).1.filter(|_| verdict == ClaimVerdict::Confirmed);
        ends.is_some_and(|(low, high)| match bound {
            Bound::Above(least) => *least < 1.0 && low > 1.0,
            Bound::Below(most) => *most > 1.0 && high < 1.0,
            Bound::Within(_) => false,
        })
    }

    fn part_by_rounds(&self, index: usize) -> ClaimVerdict {
        let ClaimPart { part, contrasts, watched } = &self.plan.parts[index];
        let cells = contrasts.iter().flat_map(|index| self.plan.contrasts[*index].cells());
        if cells.into_iter().any(|cell| self.unsupported(cell).is_some()) {
            return ClaimVerdict::NotTestable;
        }
        match &part.question {
            ClaimQuestion::Ratio { bound, .. }
            | ClaimQuestion::Slope { bound, .. }
            | ClaimQuestion::Amount { bound, .. } => self.bounded(*bound, contrasts),
            ClaimQuestion::Better { .. } => match self.decision(contrasts[0]).0 {
                Decision::Faster => ClaimVerdict::Confirmed,
                Decision::Slower => ClaimVerdict::Reversed,
                Decision::Equivalent => ClaimVerdict::NoDifference,
                Decision::Undecided => ClaimVerdict::Undecided,
            },
            ClaimQuestion::Works(_) => self.works(watched[0]),
            ClaimQuestion::Fails(_) => match self.works(watched[0]) {
                ClaimVerdict::Confirmed => ClaimVerdict::Reversed,
                ClaimVerdict::Reversed => ClaimVerdict::Confirmed,
                other => other,
            },
            ClaimQuestion::NoSingleWinner(groups) => self.no_single_winner(groups, contrasts),
        }
    }

    /// True if all cells of a contrast ran at the limit of a modelled device.
    pub(super) fn is_at_ceiling(&self, contrast: usize) -> bool {
        self.plan.contrasts[contrast].figures().all(|figure| self.has_reached_a_limit(figure))
    }

    /// True if some cell of a contrast did, so that it could have been faster.
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

    /// The side of a figure by one contrast. If less is better the statistics have the roles exchanged.
    fn side(&self, contrast: usize) -> BoundSide {
        let less = less_is_better(self.plan, &self.plan.contrasts[contrast]);
        match (self.decision(contrast).0, less) {
            (Decision::Faster, false) | (Decision::Slower, true) => BoundSide::Above,
            (Decision::Slower, false) | (Decision::Faster, true) => BoundSide::Below,
            (Decision::Equivalent, _) => BoundSide::Same,
            (Decision::Undecided, _) => BoundSide::Unknown,
        }
    }

    fn bounded(&self, bound: Bound, contrasts: &[usize]) -> ClaimVerdict {
        let (wanted, unwanted) = match bound {
            Bound::Above(_) => (BoundSide::Above, BoundSide::Below),
            Bound::Below(_) => (BoundSide::Below, BoundSide::Above),
            Bound::Within(_) => {
                return match self.side(contrasts[0]) {
                    BoundSide::Same => ClaimVerdict::Confirmed,
                    BoundSide::Above | BoundSide::Below => ClaimVerdict::Reversed,
                    BoundSide::Unknown => ClaimVerdict::Undecided,
                };
            }
        };
        let of_bound = self.side(contrasts[0]);
        let Some(direction) = contrasts.get(1) else {
            return match of_bound {
                side if side == wanted => ClaimVerdict::Confirmed,
                side if side == unwanted => ClaimVerdict::Reversed,
                BoundSide::Same => ClaimVerdict::NoDifference,
                _ => ClaimVerdict::Undecided,
            };
        };
        let ((_, is_futile), side) = (self.decision(*direction), self.side(*direction));
        match side {
            _ if of_bound == wanted => ClaimVerdict::Confirmed,
            side if side == unwanted => ClaimVerdict::Reversed,
            BoundSide::Same => ClaimVerdict::NoDifference,
            side if of_bound == unwanted && (side == wanted || is_futile) => ClaimVerdict::Smaller,
            _ => ClaimVerdict::Undecided,
        }
    }

    fn works(&self, cell: usize) -> ClaimVerdict {
        let rounds = self.plan.trial.trial.rounds.map_or(WORKING_ROUNDS, |rounds| rounds as usize);
        if self.is_out(cell) {
            ClaimVerdict::Reversed
        } else if self.samples(cell, 0).len() >= rounds.min(WORKING_ROUNDS) {
            ClaimVerdict::Confirmed
        } else {
            ClaimVerdict::Undecided
        }
    }

    /// Confirmed if every arm is beaten somewhere. The other way round if one is the best, or as good, everywhere.
    fn no_single_winner(&self, groups: &[Vec<Spot>], contrasts: &[usize]) -> ClaimVerdict {
        let mut arms: Vec<usize> = groups.iter().flatten().map(|spot| spot.arm).collect();
        arms.sort_unstable();
        arms.dedup();
        // By arm: whether it is beaten somewhere, and whether it may still be beaten.
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
            ClaimVerdict::Confirmed
        } else if stands.iter().any(|(is_beaten, is_open)| !is_beaten && !is_open) {
            ClaimVerdict::Reversed
        } else {
            ClaimVerdict::Undecided
        }
    }

    /// The verdict on the whole claim so far. None for a trial without a claim.
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
        of_parts(
            (0..self.plan.parts.len()).map(|index| (self.part(index), self.plan.parts[index].part.planted)),
        )
    }

    /// True if a contrast no longer matters, as its part is settled without it.
    pub(super) fn is_moot(&self, contrast: usize) -> bool {
        let of = |part: &ClaimPart| part.contrasts.contains(&contrast);
        let part = self.plan.parts.iter().position(of);
        part.is_some_and(|part| self.part(part) != ClaimVerdict::Undecided)
    }

    /// True if a cell is run to check that it works, and has too few runs so far.
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
    fn combines_part_verdicts_into_claim_verdict() {
        for (parts, verdict) in [
            (vec![Confirmed, Confirmed], Some(Confirmed)),
            (vec![Confirmed, Confirmed, NoDifference], Some(PartlyConfirmed)),
            (vec![Confirmed, Reversed, Insensitive], Some(PartlyConfirmed)),
            (vec![Reversed, Reversed], Some(Reversed)),
            (vec![Reversed, NoDifference], Some(PartlyConfirmed)),
            (vec![Smaller, NoDifference], Some(Smaller)),
            (vec![NoDifference, Insensitive], Some(NoDifference)),
            (vec![Smaller, Insensitive], Some(Smaller)),
            (vec![Confirmed, Insensitive], Some(Insensitive)),
            (vec![Confirmed, NotTestable, Insensitive], Some(NotTestable)),
            (vec![Reversed, Undecided], Some(Undecided)),
            (vec![Confirmed, Undecided], Some(Undecided)),
            (vec![Smaller, NoDifference, Undecided], Some(Undecided)),
            (vec![], None),
        ] {
            assert_eq!(whole(&parts), verdict, "{parts:?}");
        }
    }

    #[test]
    fn claim_is_decided_if_open_part_cannot_matter() {
        let any = [Confirmed, Undecided, Insensitive, NotTestable, Smaller, NoDifference, Reversed];
        let (mut known, mut open) = (0, 0);
        for (a, b) in any.iter().flat_map(|a| any.iter().map(move |b| (*a, *b))) {
            let of = |c: ClaimVerdict| whole(&[a, b, c]).unwrap();
            let last: Vec<_> = any.iter().filter(|c| **c != Undecided).map(|c| of(*c)).collect();
            let could_be_said = !last.contains(&Undecided) && last.iter().all(|verdict| *verdict == last[0]);
            assert_eq!(of(Undecided), if could_be_said { last[0] } else { Undecided }, "{a:?} {b:?}");
            if could_be_said { known += 1 } else { open += 1 }
        }
        assert!(known > 0 && open > 0, "{known} {open}");
    }
}
