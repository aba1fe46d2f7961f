//! Display of numbers: three significant digits, units that fit.

use fstrial_model::unit;

/// A number of things: `1 trial`, `2 trials`.
pub fn counted(count: impl TryInto<u64>, what: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The first of some names, and how many others there are: `a, b and 3 more`.
pub fn first_of(names: &[impl AsRef<str>], most: usize) -> String {
    let shown = names.iter().take(most).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Bytes as hexadecimal digits: `00ff`.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A rate: `812`, `12.3k`, `1.20M`.
pub fn rate(per_second: f64) -> String {
    let (value, unit) = match per_second {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e4 => (v / 1e3, "k"),
        v => (v, ""),
    };
    format!("{}{unit}", three_digits(value))
}

/// Three significant digits for a column that has the unit above it, thousands apart: `13 200`, `81.4`, `0.50`.
pub fn grouped(value: f64) -> String {
    if value.abs() < 999.5 {
        return three_digits(value);
    }
    let unit = 10_f64.powf(value.abs().log10().floor() - 2.0);
    thousands(&format!("{:.0}", (value / unit).round() * unit))
}

/// Digits in groups: `12345678` as `12 345 678`.
pub fn thousands(digits: &str) -> String {
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// A figure in its unit, for a column that has the unit above it: bytes in MiB, times with their own unit.
pub fn figure(value: f64, unit: &str) -> String {
    match unit {
        unit::BYTES_PER_SECOND => rate(value / f64::from(1 << 20)),
        unit::TIME => nanos(value),
        unit::BYTES | unit::BYTES_PER_FILE => bytes(value),
        _ => rate(value),
    }
}

/// An amount of bytes: `512 B`, `17.2 KiB`, `441 MiB`.
pub fn bytes(count: f64) -> String {
    let (value, unit) = match count {
        v if v >= f64::from(1 << 30) => (v / f64::from(1 << 30), "GiB"),
        v if v >= f64::from(1 << 20) => (v / f64::from(1 << 20), "MiB"),
        v if v >= 1024.0 => (v / 1024.0, "KiB"),
        v => (v, "B"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A length of time given in nanoseconds: `81 µs`, `1.20 ms`.
pub fn nanos(ns: f64) -> String {
    let (value, unit) = match ns {
        v if v >= 1e9 => (v / 1e9, "s"),
        v if v >= 1e6 => (v / 1e6, "ms"),
        v if v >= 1e3 => (v / 1e3, "µs"),
        v => (v, "ns"),
    };
    format!("{} {unit}", three_digits(value))
}

/// Three significant digits, but never fewer than the whole part.
fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v > 0.0 => 2,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// A ratio: `1.42×`, `1.008×`, `12.3×`, `0.031×`.
pub fn ratio(value: f64) -> String {
    format!("{}×", ratio_digits(value))
}

/// The ends of a ratio's interval: `[1.36, 1.49]`.
pub fn ratio_interval(ends: (f64, f64)) -> String {
    interval(ends, ratio_digits)
}

/// The ends of an interval in these words: `[1.2 ms, 1.4 ms]`.
pub fn interval((low, high): (f64, f64), words: impl Fn(f64) -> String) -> String {
    format!("[{}, {}]", words(low), words(high))
}

/// A value with its interval, if it has one, in this format: `1.3 ms [1.2 ms, 1.4 ms]`.
pub fn with_interval(value: f64, ends: Option<(f64, f64)>, words: impl Fn(f64) -> String) -> String {
    let interval = ends.map(|ends| format!(" {}", interval(ends, &words)));
    format!("{}{}", words(value), interval.unwrap_or_default())
}

/// A ratio without its sign: enough decimals to distinguish it from 1, and from 0.
pub fn ratio_digits(value: f64) -> String {
    let decimals = match value {
        v if (v - 1.0).abs() < 0.095 => 3,
        v if v >= 9.995 => 1,
        v if v < 0.1 => 3,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// A number as people write it: without zeros behind it, and four digits at most.
pub fn plain(value: f64) -> String {
    let digits = if value.abs() >= 1000.0 { 0 } else { 3 };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A length of time for waiting people: `45 s`, `3 min 20 s`, `2 h 5 min`.
pub fn wait(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped first")]
    let seconds = seconds.clamp(0.0, 1e9).round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A range of times: `8 to 20 min`, `45 s to 3 min`. Its ends are rounded to the precision of an estimate.
pub fn wait_range(low: f64, high: f64) -> String {
    let rounded = |seconds: f64| match seconds {
        s if s < 60.0 => (s.round(), "s"),
        s if s < 5400.0 => ((s / 60.0).round(), "min"),
        s if s < 172_800.0 => ((s / 3600.0).round(), "h"),
        s => ((s / 86_400.0).round(), "days"),
    };
    let ((low, small), (high, unit)) = (rounded(low), rounded(high));
    match (low == high, small == unit) {
        (true, true) => format!("{high} {unit}"),
        (_, true) => format!("{low} to {high} {unit}"),
        _ => format!("{low} {small} to {high} {unit}"),
    }
}

/// A length of time as `--budget` takes it, rounded up: `9m`, `3h`.
pub fn budget(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil().clamp(1.0, 1e6);
    if minutes <= 120.0 { format!("{minutes:.0}m") } else { format!("{:.0}h", (minutes / 60.0).ceil()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([1.0, 61.0, 7200.0, 7201.0].map(budget), ["1m", "2m", "120m", "3h"]);
        assert_eq!([812.4, 12_345.0, 1_204_000.0, 0.5].map(rate), ["812", "12.3k", "1.20M", "0.50"]);
        assert_eq!(
            [0.5, 81.44, 999.6, 13_249.0, 1_204_000.0].map(grouped),
            ["0.50", "81.4", "1 000", "13 200", "1 200 000"]
        );
        assert_eq!(
            [81_000.0, 1_204_000.0, 999.0, 2.5e9].map(nanos),
            ["81.0 µs", "1.20 ms", "999 ns", "2.50 s"]
        );
        assert_eq!(
            [1.424, 1.0081, 0.0312, 12.34, 0.93].map(ratio),
            ["1.42×", "1.008×", "0.031×", "12.3×", "0.930×"]
        );
        assert_eq!(
            [512.0, 17_600.0, 462_422_016.0, 2_147_483_648.0].map(bytes),
            ["512 B", "17.2 KiB", "441 MiB", "2.00 GiB"]
        );
        assert_eq!(wait_range(480.0, 1215.0), "8 to 20 min");
        assert_eq!(wait_range(45.0, 190.0), "45 s to 3 min");
        assert_eq!(wait_range(120.0, 121.0), "2 min");
        assert_eq!([44.6, 200.0, 7500.0, 120.0].map(wait), ["45 s", "3 min 20 s", "2 h 5 min", "2 min"]);
    }
}
