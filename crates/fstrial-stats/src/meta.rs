//! Meta-analysis: the trials of many hosts together.
//!
//! Random effects: the log-ratio of host i is y_i = μ + u_i + e_i, with u_i ~ N(0, τ²) between hosts and the known
//! variance v_i of the host's trial within. With weights w_i = 1/(v_i + τ²), μ̂ = Σ w_i y_i / Σ w_i.
//!
//! - τ² by restricted maximum likelihood (Viechtbauer 2005): 0, or the root of its score that is likelier than all others.
//! - The interval of μ by Hartung and Knapp 1999, Sidik and Jonkman 2002: t with k − 1 degrees of freedom and the variance
//!   q / Σ w_i, q = Σ w_i (y_i − μ̂)² / (k − 1). q below 1 counts as 1, so that agreement by chance cannot make the interval
//!   shorter than the trials themselves allow (the ad hoc correction of Knapp and Hartung 2003).
//! - The interval for the next host: μ̂ ± t · √(τ² + SE²) (Higgins, Thompson, Spiegelhalter 2009, with k − 2 degrees), with k − 1
//!   degrees as metafor has it.
//! - Q, and I² as the share of τ² in τ² + the typical variance within (Higgins and Thompson 2002).
//!
//! It assumes that hosts are a sample of the population of interest, and that the y_i are independent. Below
//! [`MIN_HOSTS`] hosts there is no interval: the spread between two hosts says nothing about a third.

use crate::student;

/// Hosts below which there is no interval.
pub const MIN_HOSTS: usize = 3;

/// Smallest variance of an effect: a standard error of 0.001 %. Equal rounds, as in virtual time, would weigh infinitely.
pub const MIN_VARIANCE: f64 = 1e-10;

/// The factor between the values of τ² at which the restricted likelihood is looked at.
const GRID: f64 = 2.0;

/// Result of a host's trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    /// y, a natural logarithm.
    pub log_ratio: f64,
    /// v, the square of its standard error.
    pub variance: f64,
}

/// Pooled result of many hosts. Natural logarithms throughout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Synthesis {
    /// Number of hosts k.
    pub hosts: usize,
    /// μ̂.
    pub log_ratio: f64,
    /// Standard error of μ̂; infinite of a single host.
    pub standard_error: f64,
    /// τ², the variance between hosts.
    pub between: f64,
    /// Q, the weighted sum of squares around the mean of fixed effects.
    pub q: f64,
    /// I², 0 to 1: the share of the variance between hosts in all of it.
    pub inconsistency: f64,
}

impl Synthesis {
    /// The synthesis of some hosts. None without any.
    ///
    /// # Panics
    /// A log-ratio or variance is not finite, or a variance is negative.
    pub fn of(effects: &[Effect]) -> Option<Synthesis> {
        let fit = Fit::reml(effects, &[])?;
        let fixed = Fit::new(effects, &[], 0.0)?;
        let typical = fixed.degrees() / fixed.projected;
        let inconsistency = if fit.between > 0.0 { fit.between / (fit.between + typical) } else { 0.0 };
        Some(Synthesis {
            hosts: effects.len(),
            log_ratio: fit.mean,
            standard_error: fit.factor() / fit.weight.sqrt(),
            between: fit.between,
            q: fixed.squares,
            inconsistency,
        })
    }

    /// The interval of the mean at a level such as 0.95. None below [`MIN_HOSTS`] hosts.
    pub fn interval(&self, level: f64) -> Option<(f64, f64)> {
        self.around(level, self.standard_error)
    }

    /// The interval in which the ratio of one more host like these is expected. None below [`MIN_HOSTS`] hosts.
    pub fn prediction(&self, level: f64) -> Option<(f64, f64)> {
        self.around(level, (self.between + self.standard_error * self.standard_error).sqrt())
    }

    fn around(&self, level: f64, error: f64) -> Option<(f64, f64)> {
        let half = (self.hosts >= MIN_HOSTS)
            .then(|| student::two_sided_quantile(1.0 - level, self.hosts - 1) * error)?;
        Some((self.log_ratio - half, self.log_ratio + half))
    }
}

/// The syntheses that leave out one host each, in their order.
pub fn leave_one_out(effects: &[Effect]) -> Vec<Synthesis> {
    let without = |left: usize| {
        let others = effects.iter().enumerate().filter(|(index, _)| *index != left);
        Synthesis::of(&others.map(|(_, effect)| *effect).collect::<Vec<_>>())
    };
    (0..effects.len()).filter_map(without).collect()
}

/// Dependence of the log-ratio on a property of the hosts: mixed-effects meta-regression on one moderator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// The change of the log-ratio for one unit of the moderator.
    pub per_unit: f64,
    /// Standard error of `per_unit`.
    pub standard_error: f64,
    /// τ² that the moderator leaves.
    pub between: f64,
    /// Number of hosts k.
    pub hosts: usize,
}

impl Slope {
    /// The regression on a moderator, a value for each host. None if it is the same for all, or with fewer than four hosts.
    ///
    /// # Panics
    /// As [`Synthesis::of`], or a host has no value of the moderator.
    pub fn of(effects: &[Effect], moderator: &[f64]) -> Option<Slope> {
        assert_eq!(effects.len(), moderator.len(), "a value for each host");
        let is_constant = moderator.iter().all(|x| *x == moderator[0]);
        if effects.len() <= MIN_HOSTS || is_constant {
            return None;
        }
        let fit = Fit::reml(effects, moderator)?;
        let standard_error = fit.factor() / fit.leverage.sqrt();
        Some(Slope { per_unit: fit.slope, standard_error, between: fit.between, hosts: effects.len() })
    }

    /// The interval of the change at a level such as 0.95: t with k − 2 degrees of freedom.
    pub fn interval(&self, level: f64) -> (f64, f64) {
        let half = student::two_sided_quantile(1.0 - level, self.hosts - 2) * self.standard_error;
        (self.per_unit - half, self.per_unit + half)
    }
}

/// The fit whose score is 0, between a τ² with a positive one and a greater one with a negative one, to machine
/// precision.
fn root(fit: impl Fn(f64) -> Option<Fit>, mut low: f64, mut high: f64) -> Option<Fit> {
    while low < f64::midpoint(low, high) && f64::midpoint(low, high) < high {
        let middle = f64::midpoint(low, high);
        if fit(middle)?.score > 0.0 { low = middle } else { high = middle }
    }
    fit(high)
}

/// A weighted fit of a mean, or of a line if there is a moderator, at one τ².
#[derive(Clone, Copy)]
struct Fit {
    hosts: usize,
    parameters: usize,
    between: f64,
    /// Σ w.
    weight: f64,
    /// Mean of the log-ratios, at the mean of the moderator.
    mean: f64,
    slope: f64,
    /// Σ w (x − x̄)²; 0 without a moderator.
    leverage: f64,
    /// Σ w e² of the residuals e.
    squares: f64,
    /// The trace of P = W − W X (XᵀWX)⁻¹ XᵀW.
    projected: f64,
    /// yᵀPPy − tr P: twice the score of the restricted likelihood.
    score: f64,
    /// The restricted log-likelihood, without its constants.
    likelihood: f64,
}

impl Fit {
    fn new(effects: &[Effect], moderator: &[f64], between: f64) -> Option<Fit> {
        let weight = |effect: &Effect| 1.0 / (effect.variance.max(MIN_VARIANCE) + between);
        let all: f64 = effects.iter().map(weight).sum();
        let mean_of = |value: &dyn Fn(usize) -> f64| {
            effects.iter().enumerate().map(|(i, effect)| weight(effect) * value(i)).sum::<f64>() / all
        };
        let centre = if moderator.is_empty() { 0.0 } else { mean_of(&|i| moderator[i]) };
        let x = |i: usize| moderator.get(i).map_or(0.0, |x| x - centre);
        let mean = mean_of(&|i| effects[i].log_ratio);
        let leverage = all * mean_of(&|i| x(i) * x(i));
        let slope = if leverage > 0.0 {
            all * mean_of(&|i| x(i) * (effects[i].log_ratio - mean)) / leverage
        } else {
            0.0
        };
        let (mut squares, mut weighted, mut projected, mut logs) = (0.0, 0.0, 0.0, 0.0);
        for (i, effect) in effects.iter().enumerate() {
            let (w, x) = (weight(effect), x(i));
            let residual = effect.log_ratio - mean - slope * x;
            squares += w * residual * residual;
            weighted += w * w * residual * residual;
            let of_line = if leverage > 0.0 { x * x / leverage } else { 0.0 };
            projected += w - w * w * (1.0 / all + of_line);
            logs += libm::log(w);
        }
        let information = libm::log(all) + if leverage > 0.0 { libm::log(leverage) } else { 0.0 };
        let likelihood = (logs - information - squares) / 2.0;
        let parameters = if moderator.is_empty() { 1 } else { 2 };
        let score = weighted - projected;
        let hosts = effects.len();
        (hosts > 0).then_some(Fit {
            hosts,
            parameters,
            between,
            weight: all,
            mean,
            slope,
            leverage,
            squares,
            projected,
            score,
            likelihood,
        })
    }

    /// The fit at the τ² of restricted maximum likelihood, to the last bits of a number.
    fn reml(effects: &[Effect], moderator: &[f64]) -> Option<Fit> {
        for effect in effects {
            let is_valid =
                effect.log_ratio.is_finite() && effect.variance.is_finite() && effect.variance >= 0.0;
            assert!(is_valid, "an invalid effect: {effect:?}");
        }
        let fit = |between: f64| Fit::new(effects, moderator, between);
        let mut best = fit(0.0)?;
        if best.degrees() < 1.0 {
            return Some(best);
        }
        // Where errors differ much, the likelihood may have several maxima: each is between two points of a grid where the score
        // falls through 0, and beyond the last point, above all squares, it is negative.
        let most: f64 = effects.iter().map(|effect| effect.log_ratio * effect.log_ratio).sum::<f64>() + 1.0;
        let mut low = best;
        while low.between < most {
            let high = fit((low.between * GRID).max(MIN_VARIANCE))?;
            if low.score > 0.0 && high.score <= 0.0 {
                let root = root(fit, low.between, high.between)?;
                if root.likelihood > best.likelihood {
                    best = root;
                }
            }
            low = high;
        }
        Some(best)
    }

    fn degrees(&self) -> f64 {
        self.hosts as f64 - self.parameters as f64
    }

    /// The square root of q, at least 1.
    fn factor(&self) -> f64 {
        if self.degrees() < 1.0 { f64::INFINITY } else { (self.squares / self.degrees()).max(1.0).sqrt() }
    }
}
