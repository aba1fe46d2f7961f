//! What is run, and what is compared: cells, and contrasts of them.

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

/// A comparison of two cells, `a` over `b`. Where a claim asks for it, of one cell with a number, or of several.
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
    /// Whether the trial goes on until this is decided.
    pub holds_open: bool,
    pub ask: Ask,
    pub of: Of,
    /// The slowdown that a control must have shown before it is believed that there is no difference; of a control the one that
    /// it plants. None where nothing rests on that.
    pub dose: Option<Percent>,
}

/// What is asked about a contrast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ask {
    Difference,
    /// Whether it lies above this.
    Above(f64),
    /// Whether the two are the same within this fraction.
    Within(f64),
    /// Whether a control is slower by about what was planted, this fraction.
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
    /// Whether it is of the ratios at two places.
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
