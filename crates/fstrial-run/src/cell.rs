//! Units of running and of comparing: cells, and contrasts of them.

use fstrial_model::{metric::Metric, units::Percent};

/// One cell: an arm under a workload at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// Index of the workload.
    pub workload: usize,
    pub threads: u16,
    /// Index of the arm.
    pub arm: usize,
}

/// A comparison of two cells, `a` over `b`. For a claim also of one cell with a number, or of several.
#[derive(Debug, Clone, PartialEq)]
pub struct Contrast {
    /// Index of the cell that is measured against the other.
    pub a: usize,
    /// Index of the cell it is measured against.
    pub b: usize,
    /// Index of the result in those of the workload of `a`.
    pub result_a: usize,
    /// Index of the result in those of the workload of `b`.
    pub result_b: usize,
    pub metric: Metric,
    /// True if the trial continues until this is decided.
    pub holds_open: bool,
    pub ask: Ask,
    pub of: Of,
    /// The slowdown that a control must have shown before "no difference" is accepted; of a control the planted one.
    /// None if nothing depends on it.
    pub dose: Option<Percent>,
}

/// The question of a contrast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ask {
    Difference,
    /// Is it above this?
    Above(f64),
    /// Are the two equal within this fraction?
    Within(f64),
    /// Is a control slower by about the planted fraction?
    Planted(f64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    /// The ratio of its two cells.
    Ratio,
    /// The first cell itself; the second one is the same.
    Amount,
    /// The factor for each doubling of the threads over these cells, the first of the lowest level.
    Slope(Vec<usize>),
    /// The ratio of its two cells over that of the same arms at another place.
    Lead([usize; 2]),
}

impl Contrast {
    /// True for the ratio of the ratios at two places.
    pub const fn is_lead(&self) -> bool {
        matches!(self.of, Of::Lead(_))
    }

    /// Every cell it needs.
    pub fn cells(&self) -> impl Iterator<Item = usize> {
        let between = match &self.of {
            Of::Slope(cells) => cells.as_slice(),
            Of::Lead(cells) => cells,
            Of::Ratio | Of::Amount => &[],
        };
        [self.a, self.b].into_iter().chain(between.iter().copied())
    }

    /// The same, each with its result.
    pub fn figures(&self) -> impl Iterator<Item = (usize, usize)> {
        let of_slope = matches!(self.of, Of::Slope(_));
        let later = [self.result_a, if of_slope { self.result_a } else { self.result_b }];
        let results = [self.result_a, self.result_b].into_iter().chain(later.into_iter().cycle());
        self.cells().zip(results)
    }
}
