//! Axes: positions of values between two ends, and the round numbers of the ticks.

use std::rc::Rc;

/// Layout of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm.
    Log,
    /// Shares of at most 1 by how much is left: p90, p99 and p99.9 at even distances.
    Tail,
}

/// Writes a number on an axis.
pub(crate) type Words = Rc<dyn Fn(f64) -> String>;

/// An axis from one value to another.
pub(crate) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    words: Words,
    /// The numbers that are written, where they are not to be round ones.
    marked: Vec<f64>,
    /// Unit in which tick labels are round.
    unit: f64,
}

/// The remainder at the end of [`Scale::Tail`], as zero has no logarithm.
const LEAST_LEFT: f64 = 1e-5;

impl Axis {
    pub(crate) fn new(scale: Scale, (low, high): (f64, f64), words: Words) -> Self {
        Self { scale, low, high, words, marked: Vec::new(), unit: 1.0 }
    }

    /// An axis on which all of these values fit, with some room beyond them; a linear one begins at zero if requested.
    /// Infinite values, and on a logarithm nonpositive ones, are beyond it.
    pub(crate) fn around(
        values: impl Iterator<Item = f64>,
        scale: Scale,
        from_zero: bool,
        words: Words,
    ) -> Self {
        let fits = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let (low, high) = values
            .filter(fits)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low > high { (1.0, 1.0) } else { (low, high) };
        let ends = match scale {
            Scale::Log => {
                let room = (high / low).powf(0.05).max(1.02);
                (low / room, high * room)
            }
            _ => {
                let low = if from_zero { low.min(0.0) } else { low };
                let room = match high - low {
                    reach if reach > 0.0 => reach * 0.05,
                    _ if high == 0.0 => 1.0,
                    _ => high.abs() * 0.1,
                };
                (if from_zero && low >= 0.0 { low } else { low - room }, high + room)
            }
        };
        Self::new(scale, ends, words)
    }

    /// The same with numbers that are round in this unit: 1 MiB, of bytes.
    pub(crate) fn round_in(self, unit: f64) -> Self {
        Self { unit, ..self }
    }

    /// The same with these numbers written on it.
    pub(crate) fn marked(self, marked: Vec<f64>) -> Self {
        Self { marked, ..self }
    }

    /// Position of a value: 0 at the low end, 1 at the high one, less or more beyond them.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let map = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.ln(),
            Scale::Tail => -(1.0 - value).max(LEAST_LEFT).ln(),
        };
        let share = (map(value) - map(self.low)) / (map(self.high) - map(self.low));
        if share.is_nan() { 0.0 } else { share }
    }

    /// True if a value is on it.
    pub(crate) fn holds(&self, value: f64) -> bool {
        (0.0..=1.0).contains(&self.share(value))
    }

    /// Numbers far enough from each other on a line of this length, with their labels. `room` is the width of a label.
    pub(crate) fn ticks(&self, length: f64, room: impl Fn(&str) -> f64) -> Vec<(f64, String)> {
        let mut chosen: Vec<(f64, String)> = Vec::new();
        for value in self.candidates().into_iter().filter(|value| self.holds(*value)) {
            let (at, words) = (self.share(value) * length, (self.words)(value));
            let is_free = |(other, word): &(f64, String)| {
                (other - at).abs() > (room(word) + room(&words)) / 2.0 && *word != words
            };
            if chosen.iter().all(is_free) {
                chosen.push((at, words));
            }
        }
        chosen
    }

    /// Numbers for it, the more important ones first.
    fn candidates(&self) -> Vec<f64> {
        if !self.marked.is_empty() {
            return self.marked.clone();
        }
        if self.scale == Scale::Tail {
            return vec![0.5, 0.99, 0.9, 0.999, 0.9999, 0.0];
        }
        if self.scale == Scale::Linear || self.high / self.low < 4.0 {
            let one = (self.scale == Scale::Log).then_some(1.0);
            return one.into_iter().chain(self.even_steps()).collect();
        }
        let parts = [[1.0, 1.0], [2.0, 5.0], [3.0, 1.5]];
        let unit = self.unit;
        let of = |parts: [f64; 2]| {
            (-12..13).flat_map(move |power| parts.map(|part| part * unit * 10_f64.powi(power)))
        };
        std::iter::once(1.0).chain(parts.into_iter().flat_map(of)).collect()
    }

    fn even_steps(&self) -> impl Iterator<Item = f64> + use<> {
        let raw = (self.high - self.low) / self.unit / 5.0;
        let power = 10_f64.powf(raw.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|part| part * power);
        let step = steps.into_iter().find(|step| *step >= raw * 0.999).unwrap_or(raw);
        let step = step * self.unit;
        let first = (self.low / step).ceil();
        (0..40).map(move |index| (first + f64::from(index)) * step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(scale: Scale, ends: (f64, f64)) -> Vec<String> {
        let axis = Axis::new(scale, ends, Rc::new(|value| format!("{value}")));
        let mut ticks = axis.ticks(400.0, |_| 40.0);
        ticks.sort_by(|x, y| x.0.total_cmp(&y.0));
        ticks.into_iter().map(|(_, words)| words).collect()
    }

    #[test]
    fn ticks_are_round_and_apart() {
        assert_eq!(ticks(Scale::Linear, (0.0, 102.0)), ["0", "25", "50", "75", "100"]);
        assert_eq!(ticks(Scale::Log, (0.8, 120.0)), ["1", "2", "5", "10", "20", "50", "100"]);
        assert_eq!(ticks(Scale::Tail, (0.5, 0.9999)), ["0.5", "0.9", "0.99", "0.999", "0.9999"]);
    }

    #[test]
    fn axis_share_follows_scale() {
        let at = |scale, ends, value| Axis::new(scale, ends, Rc::new(|_| String::new())).share(value);
        assert!((at(Scale::Linear, (0.0, 10.0), 2.5) - 0.25).abs() < 1e-9);
        assert!((at(Scale::Log, (1.0, 100.0), 10.0) - 0.5).abs() < 1e-9);
        assert!((at(Scale::Tail, (0.9, 0.999), 0.99) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn axis_spans_finite_values_and_ignores_others() {
        let values = || [3.0, f64::NAN, 7.0, f64::INFINITY, 5.0].into_iter();
        for scale in [Scale::Linear, Scale::Log] {
            let axis = Axis::around(values(), scale, false, Rc::new(|_| String::new()));
            assert!([3.0, 5.0, 7.0].iter().all(|value| axis.holds(*value)) && !axis.holds(f64::INFINITY));
        }
        let one = Axis::around([5.0].into_iter(), Scale::Linear, true, Rc::new(|_| String::new()));
        assert!(one.holds(0.0) && one.holds(5.0));
        let none = Axis::around(std::iter::empty(), Scale::Log, false, Rc::new(|_| String::new()));
        assert!(none.share(1.0).is_finite());
    }
}
