//! Median, mean and standard deviation of a few numbers.

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
    fn mean_and_median_need_enough_values() {
        assert_eq!(mean_and_sd(&[5.0]), None);
        assert_eq!(mean_and_sd(&[1.0, 3.0]), Some((2.0, std::f64::consts::SQRT_2)));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!(median(&[3.0, 1.0, 9.0]), Some(3.0));
    }
}
