//! The question about a contrast.

/// A question about one contrast. Logs are natural logs of a ratio a/b where more is better; for latency the caller
/// exchanges a and b.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// δ = ln(1 + practical), > 0: differences strictly inside ±δ do not matter in practice.
    pub band: f64,
    /// c, subtracted from every log-ratio: ln r of a claim `ratio(a, b) > r`, the middle of a range for the ratio, or
    /// 0.
    pub threshold: f64,
    /// True if EQUIVALENT is a possible answer.
    pub equivalence: bool,
    /// True if a directional answer needs the interval to be wholly outside the band, not only on one side of the
    /// threshold (the claim `a = b within p %`).
    pub beyond_band: bool,
    /// True if the trial continues for this question's sake. If not, it never becomes futile and
    /// [`Panel::is_open`](crate::Panel::is_open) is always false, but it takes in all rounds, may be decided and is one
    /// of the m questions.
    pub holds_open: bool,
    /// Rounds that an answer takes at least, for the sake of stalls ([`crate::total::rounds_to_see`]).
    pub least_rounds: usize,
}

impl Question {
    /// "Is a faster than b?", with three possible answers. `band` is δ = ln(1 + practical).
    pub fn comparison(band: f64) -> Question {
        Question {
            band,
            threshold: 0.0,
            equivalence: true,
            beyond_band: false,
            holds_open: true,
            least_rounds: 0,
        }
    }

    /// The claim `ratio(a, b) > ratio` (`ratio` > 0): FASTER means it holds, SLOWER that it is reversed.
    pub fn ratio_above(ratio: f64, band: f64) -> Question {
        Question { threshold: libm::log(ratio), equivalence: false, ..Question::comparison(band) }
    }

    /// The claim `a = b within p %`, `fraction` = p/100: EQUIVALENT means that it holds, FASTER or SLOWER (the interval
    /// is wholly outside the band) that it is reversed.
    pub fn within(fraction: f64) -> Question {
        Question { beyond_band: true, ..Question::comparison(libm::log1p(fraction)) }
    }

    /// A ratio between two bounds (both > 0): EQUIVALENT means that it is inside, FASTER that it is above them, SLOWER
    /// that it is below.
    pub fn ratio_between(least: f64, most: f64) -> Question {
        let (low, high) = (libm::log(least), libm::log(most));
        let threshold = f64::midpoint(low, high);
        Question { threshold, beyond_band: true, ..Question::comparison((high - low) / 2.0) }
    }

    /// The same question, not keeping the trial going.
    #[must_use]
    pub fn not_holding_open(self) -> Question {
        Question { holds_open: false, ..self }
    }
}
