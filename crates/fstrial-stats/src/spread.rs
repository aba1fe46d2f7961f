//! How restless one run was: the coefficient of variation of its windows.
//!
//! Operation counts in equal windows of the measured time, sample standard deviation (n − 1)
//! divided by mean. It becomes the weight of a round (quiet rounds count more); it is never a
//! reason to drop one. It says nothing about differences between runs.

/// Mean and sample standard deviation (n − 1). `None` with fewer than two values.
pub fn mean_and_sd(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>();
    Some((mean, (squares / (count - 1.0)).sqrt()))
}

/// Coefficient of variation (a fraction, not percent) of the operation counts of equal windows.
///
/// `None` with fewer than two windows or a mean that is not positive: a run that completed
/// nothing is a failed cell, not a ratio.
pub fn cv(window_counts: &[f64]) -> Option<f64> {
    let (mean, sd) = mean_and_sd(window_counts)?;
    (mean > 0.0).then(|| sd / mean)
}

/// Median; the mean of the middle two for an even count. `None` if empty.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

/// Median of values already in ascending order.
pub(crate) fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_vector() {
        let counts = [980.0, 1010.0, 995.0, 1003.0, 420.0, 990.0, 1001.0, 1012.0, 998.0, 1005.0];
        assert!((cv(&counts).unwrap() - 0.194864).abs() < 5e-7);
    }

    #[test]
    fn nothing_to_say_about_too_little() {
        assert_eq!(cv(&[]), None);
        assert_eq!(cv(&[5.0]), None);
        assert_eq!(cv(&[0.0, 0.0]), None);
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!(median(&[3.0, 1.0, 9.0]), Some(3.0));
    }
}
