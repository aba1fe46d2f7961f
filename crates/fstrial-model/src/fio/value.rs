//! Values of a job file: numbers with fio's units, times, lists by direction, and arithmetic in parentheses.
//!
//! Stricter than fio in cases that fio 3.33 silently misreads: `1.5m` is 1 byte to it, `0.3` seconds sets no limit, and
//! with blanks around `=` it loses the unit.

use super::keys::ValueKind;
use crate::units::Nanos;

/// Parentheses and operators inside each other, at most.
const MAX_DEPTH: u32 = 32;
/// Numbers in one expression, at most.
const MAX_TERMS: u32 = 256;

/// Values of the run's host, for `$ncpus` and the like, and the only variables allowed in `${…}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// Processors: `$ncpus`.
    pub cpus: u32,
    /// Memory in mebibytes: `$mb_memory`.
    pub memory_mib: u64,
    /// Size of a page: `$pagesize`.
    pub page_bytes: u32,
    /// Variables for `${NAME}`. The environment is not consulted here.
    pub variables: std::collections::BTreeMap<String, String>,
}

/// A value as it is meant.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Words with a special meaning.
    Text,
    /// True for `1` or a key without a value, false for `0`.
    Switch(bool),
    /// A number without or with a unit of size.
    Number(u64),
    /// A percentage.
    Percent(u64),
    /// From one number to another.
    Range(u64, u64),
    /// Numbers for reads, writes and trims; none where the list has a gap.
    Numbers(Vec<Option<u64>>),
    /// A duration, in nanoseconds for any unit of the key.
    Time(Nanos),
}

/// The problem with a value, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueError {
    pub(crate) problem: String,
    pub(crate) hint: String,
}

fn value_error(problem: impl Into<String>, hint: impl Into<String>) -> ValueError {
    ValueError { problem: problem.into(), hint: hint.into() }
}

/// Context for reading the numbers of a section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) surroundings: &'a Surroundings,
    /// `kb_base`: whether `k` is 1000 and `ki` 1024, instead of the reverse.
    pub(crate) decimal: bool,
}

impl Reading<'_> {
    /// Reads the value of a key of a kind. None is a key without a value.
    pub(crate) fn value(self, kind: ValueKind, text: Option<&str>) -> Result<Value, ValueError> {
        let Some(text) = text else {
            return match kind {
                ValueKind::Flag | ValueKind::Text => Ok(Value::Switch(true)),
                _ => Err(value_error("it needs a value", "write key=value")),
            };
        };
        match kind {
            ValueKind::Text => Ok(Value::Text),
            ValueKind::Bool | ValueKind::Flag => match text {
                "0" => Ok(Value::Switch(false)),
                "1" => Ok(Value::Switch(true)),
                _ => Err(value_error(format!("`{}` is not a switch", cut(text)), "write 0 or 1")),
            },
            ValueKind::Number => match text.strip_suffix('%') {
                Some(percent) => match self.number(percent)? {
                    share @ 0..=100 => Ok(Value::Percent(share)),
                    _ => Err(value_error("the share is above 100%", "write 0% to 100%")),
                },
                None => self.number(text).map(Value::Number),
            },
            ValueKind::Range => match text.split_once('-').filter(|_| !text.starts_with('(')) {
                Some((low, high)) => Ok(Value::Range(self.number(low)?, self.number(high)?)),
                None => self.number(text).map(Value::Number),
            },
            ValueKind::Numbers => self.numbers(text),
            ValueKind::Seconds => time(text, 1_000_000_000),
            ValueKind::Micros => time(text, 1000),
            ValueKind::Floats => floats(text),
        }
    }

    fn numbers(self, text: &str) -> Result<Value, ValueError> {
        let parts: Vec<&str> = text.split(',').collect();
        if parts.len() > 3 {
            return Err(value_error(
                "there are more than three values",
                "write those for reads, writes and trims",
            ));
        }
        let read = |part: &&str| if part.is_empty() { Ok(None) } else { self.number(part).map(Some) };
        Ok(Value::Numbers(parts.iter().map(read).collect::<Result<_, _>>()?))
    }

    /// A number, or an expression if it is in parentheses or holds a `$` word.
    pub(crate) fn number(self, text: &str) -> Result<u64, ValueError> {
        if !text.starts_with('(') && !text.contains('$') {
            let (number, rest) = self.literal(text)?;
            return match rest {
                "" => Ok(number),
                _ => Err(value_error(
                    format!("`{}` is more than a number", cut(text)),
                    "write one number with its unit, such as 16k; calculations go in parentheses",
                )),
            };
        }
        let mut expression = Expression { rest: text, reading: self, terms: 0 };
        let result = expression.sum(0)?;
        if !expression.rest.trim_start().is_empty() {
            return Err(value_error(
                format!("`{}` is left over", cut(expression.rest.trim_start())),
                "write numbers, $ncpus, $pagesize, $mb_memory, + - * / % ^ and parentheses",
            ));
        }
        u64::try_from(result)
            .map_err(|_| value_error(format!("it comes to {result}"), "it must be between 0 and 2^64"))
    }

    /// A number at the start of a text, with its unit, and the rest.
    fn literal(self, text: &str) -> Result<(u64, &str), ValueError> {
        let wrong = |problem: String| value_error(problem, "write a number such as 4096, 4k or 1g");
        let (digits, radix, skipped) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(rest) => (rest, 16, 2),
            None => (text, 10, 0),
        };
        let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
        if end == 0 {
            return Err(wrong(format!("`{}` is not a number", cut(text))));
        }
        let number = u64::from_str_radix(&digits[..end], radix)
            .map_err(|_| wrong(format!("`{}` is too large", cut(text))))?;
        let rest = &text[skipped + end..];
        if rest.starts_with('.') {
            return Err(value_error(
                format!("`{}` has a fraction, of which fio reads the whole part only", cut(text)),
                "write it in a smaller unit: 1536k instead of 1.5m",
            ));
        }
        let unit_end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let scale = self
            .scale(&rest[..unit_end].to_ascii_lowercase())
            .ok_or_else(|| wrong(format!("`{}` has an unknown unit; use one of k, m, g, t, p", cut(text))))?;
        let scaled =
            number.checked_mul(scale).ok_or_else(|| wrong(format!("`{}` is too large", cut(text))))?;
        Ok((scaled, &rest[unit_end..]))
    }

    /// fio swaps the two families of units: by default `k` is 1024 and `ki` is 1000.
    fn scale(self, unit: &str) -> Option<u64> {
        let unit = unit.strip_suffix('b').unwrap_or(unit);
        let (letter, other) = match unit.strip_suffix('i') {
            Some(letter) => (letter, true),
            None => (unit, false),
        };
        let power = match letter {
            "" if !other => 0,
            "k" => 1,
            "m" => 2,
            "g" => 3,
            "t" => 4,
            "p" => 5,
            _ => return None,
        };
        let base: u64 = if self.decimal == other { 1024 } else { 1000 };
        Some(base.pow(power))
    }
}

/// A calculation that is being read.
struct Expression<'a> {
    rest: &'a str,
    reading: Reading<'a>,
    terms: u32,
}

impl Expression<'_> {
    fn take(&mut self, symbols: &[char]) -> Option<char> {
        let text = self.rest.trim_start();
        let symbol = text.chars().next().filter(|c| symbols.contains(c))?;
        self.rest = &text[symbol.len_utf8()..];
        Some(symbol)
    }

    fn sum(&mut self, depth: u32) -> Result<i128, ValueError> {
        let mut left = self.product(depth)?;
        while let Some(symbol) = self.take(&['+', '-']) {
            let right = self.product(depth)?;
            left = within(if symbol == '+' { left.checked_add(right) } else { left.checked_sub(right) })?;
        }
        Ok(left)
    }

    fn product(&mut self, depth: u32) -> Result<i128, ValueError> {
        let mut left = self.power(depth)?;
        while let Some(symbol) = self.take(&['*', '/', '%']) {
            let right = self.power(depth)?;
            if right == 0 && symbol != '*' {
                return Err(value_error("it divides by zero", "divide by something else"));
            }
            left = within(match symbol {
                '*' => left.checked_mul(right),
                '/' => left.checked_div(right),
                _ => left.checked_rem(right),
            })?;
        }
        Ok(left)
    }

    fn power(&mut self, depth: u32) -> Result<i128, ValueError> {
        let base = self.term(depth)?;
        if self.take(&['^']).is_none() {
            return Ok(base);
        }
        let exponent = self.term(depth)?;
        within(u32::try_from(exponent).ok().and_then(|exponent| base.checked_pow(exponent)))
    }

    fn term(&mut self, depth: u32) -> Result<i128, ValueError> {
        self.terms += 1;
        if depth > MAX_DEPTH || self.terms > MAX_TERMS {
            return Err(value_error("the calculation is too deep or too long", "write its result"));
        }
        if self.take(&['(']).is_some() {
            let inner = self.sum(depth + 1)?;
            return match self.take(&[')']) {
                Some(_) => Ok(inner),
                None => Err(value_error("a parenthesis is not closed", "add `)`")),
            };
        }
        let text = self.rest.trim_start();
        let host = self.reading.surroundings;
        let words = [
            ("$pagesize", u64::from(host.page_bytes)),
            ("$mb_memory", host.memory_mib),
            ("$ncpus", u64::from(host.cpus)),
        ];
        for (word, number) in words {
            if let Some(rest) = text.strip_prefix(word) {
                self.rest = rest;
                return Ok(number.into());
            }
        }
        let (number, rest) = self.reading.literal(text)?;
        self.rest = rest;
        Ok(number.into())
    }
}

/// Keeps intermediate results small enough for the next step.
fn within(result: Option<i128>) -> Result<i128, ValueError> {
    result
        .filter(|value| value.unsigned_abs() < 1 << 96)
        .ok_or_else(|| value_error("the calculation leaves every range", "write smaller numbers"))
}

/// A time: one whole number with one unit. `bare` is the length of a number without one.
fn time(text: &str, bare: u64) -> Result<Value, ValueError> {
    let hint = "write one whole number with d, h, m, s, ms or us, such as 90s";
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 =
        text[..end].parse().map_err(|_| value_error(format!("`{}` is not a time", cut(text)), hint))?;
    let scale: u64 = match text[end..].to_ascii_lowercase().as_str() {
        "" => bare,
        "d" => 86_400_000_000_000,
        "h" => 3_600_000_000_000,
        "m" => 60_000_000_000,
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" | "usec" => 1000,
        _ => {
            let problem = format!("`{}` is not a time that fio accepts", cut(text));
            return Err(value_error(problem, hint));
        }
    };
    let length = number.checked_mul(scale).filter(|length| *length <= i64::MAX.unsigned_abs());
    length.map(|length| Value::Time(Nanos(length))).ok_or_else(|| value_error("a time without end", hint))
}

fn floats(text: &str) -> Result<Value, ValueError> {
    let is_number = |part: &str| part.parse::<f64>().is_ok_and(|number| number.is_finite() && number >= 0.0);
    if text.split(':').count() <= 64 && text.split(':').all(|part| is_number(part.trim_end_matches('z'))) {
        return Ok(Value::Text);
    }
    Err(value_error(
        format!("`{}` is not a list of numbers", cut(text)),
        "write numbers separated by colons, such as 50:99:99.9",
    ))
}

/// The beginning of a text, for messages.
pub(crate) fn cut(text: &str) -> String {
    const SHOWN: usize = 40;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain(['…']).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn host() -> Surroundings {
        let variables = [("SIZE".to_owned(), "64m".to_owned())].into();
        Surroundings { cpus: 4, memory_mib: 2048, page_bytes: 4096, variables }
    }

    fn number(text: &str) -> Result<u64, ValueError> {
        let host = host();
        Reading { surroundings: &host, decimal: false }.number(text)
    }

    #[test]
    fn sizes_match_fio_interpretation() {
        // The left column was given to fio 3.33 as size= or bs= with ioengine=null, and io_bytes read back.
        for (text, bytes) in [
            ("4k", 4096),
            ("4ki", 4000),
            ("1MiB", 1_000_000),
            ("1MB", 1 << 20),
            ("0x100000", 1 << 20),
            ("4000000", 4_000_000),
            ("8*$pagesize", 32768),
            ("(8*$pagesize)", 32768),
        ] {
            assert_eq!(number(text), Ok(bytes), "{text}");
        }
        let host = host();
        let decimal = Reading { surroundings: &host, decimal: true };
        assert_eq!((decimal.number("4k"), decimal.number("4ki")), (Ok(4000), Ok(4096)));
    }

    #[test]
    fn calculations_follow_the_usual_order() {
        for (text, result) in
            [("(2+3*4)", 14), ("((2+3)*4k)", 20480), ("(2^10 - 24)", 1000), ("(17%5)", 2), ("($ncpus*2)", 8)]
        {
            assert_eq!(number(text), Ok(result), "{text}");
        }
        for wrong in
            ["(1-2)", "(1/0)", "(1", "(2^200)", "1+1", "$home", "1.5m", "-1", "", "k", "99999999999p"]
        {
            assert!(number(wrong).is_err(), "{wrong}");
        }
        assert!(number(&"(".repeat(4000)).is_err());
        assert!(number(&format!("({}1)", "1+".repeat(2000))).is_err());
    }

    #[test]
    fn times_are_whole_numbers_with_one_unit() {
        for (text, ns) in [
            ("10", 10_000_000_000),
            ("300ms", 300_000_000),
            ("2m", 120_000_000_000),
            ("1H", 3_600_000_000_000),
        ] {
            assert_eq!(time(text, 1_000_000_000), Ok(Value::Time(Nanos(ns))), "{text}");
        }
        for wrong in ["0.3", "1m30s", "", "s", "10 s", "9999999999999999999", "300000000d"] {
            assert!(time(wrong, 1_000_000_000).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn sums_and_products_agree_with_plain_arithmetic(a in 0_u64..1 << 30, b in 0_u64..1 << 30, c in 1_u64..1000) {
            prop_assert_eq!(number(&format!("({a}+{b}*{c})")), Ok(a + b * c));
            prop_assert_eq!(number(&format!("(({a} + {b}) / {c})")), Ok((a + b) / c));
        }
        #[test]
        fn any_text_is_a_value_or_an_error(text in "[0-9kmg(.)+*^$%a-z ]{0,30}|.{0,30}") {
            let host = host();
            let reading = Reading { surroundings: &host, decimal: false };
            for kind in [ValueKind::Text, ValueKind::Number, ValueKind::Numbers, ValueKind::Seconds, ValueKind::Floats] {
                let _ = reading.value(kind, Some(&text));
            }
        }
    }
}
