//! Sums of `INCRBYFLOAT`, which Redis reckons in C's `long double` of x86: 64 binary digits.
//!
//! A number is exact here, an integer times a power of two, and rounded where that type rounds:
//! when a text is read, and when a sum is made. So the texts of sums are those of Redis.

use num_bigint::{BigInt, Sign};

/// Binary digits of a number.
const DIGITS: u64 = 64;

/// Decimal digits behind the point of a text: those of C's `%.17Lf`.
const DECIMALS: u32 = 17;

/// Most bytes of a text.
const TEXT_MAX: usize = 5 << 10;

/// The exponents of a decimal text that is neither 0 nor beyond the largest number.
const EXPONENTS: std::ops::Range<i64> = -4951..4933;

/// The exponents of the power of two behind a number that is neither 0 nor beyond the largest one.
const SIZES: std::ops::RangeInclusive<i64> = -16_444..=16_384;

/// A finite number: an integer times a power of two.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Exact {
    integer: BigInt,
    exponent: i64,
}

/// Why there is no sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSum {
    /// A text is no number.
    NoNumber,
    /// The sum would be no finite number.
    Infinite,
}

/// The number of a text, in the forms of C's `strtod`; none if it is no number, or if it is not
/// infinite and has no double near.
pub fn double(text: &[u8]) -> Option<f64> {
    let text = str::from_utf8(text).ok()?;
    let digits = text.trim_start_matches(['-', '+']);
    if digits.len() + 1 < text.len() {
        return None;
    }
    if digits.starts_with("0x") || digits.starts_with("0X") {
        let ParsedFloat::Finite(exact) = ParsedFloat::of(text.as_bytes()).ok()? else {
            return None;
        };
        return Some(exact.double());
    }
    let number: f64 = text.parse().ok().filter(|number: &f64| !number.is_nan())?;
    let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
    let is_zero = !mantissa.bytes().any(|digit| (b'1'..=b'9').contains(&digit));
    let is_named = digits.starts_with(['i', 'I']);
    ((number == 0.0) == is_zero || is_named)
        .then_some(number)
        .filter(|it| it.is_finite() || is_named)
}

/// The text of the sum of two texts.
pub fn sum(one: &[u8], other: &[u8]) -> Result<String, NoSum> {
    let (one, other) = (ParsedFloat::of(one)?, ParsedFloat::of(other)?);
    let (ParsedFloat::Finite(one), ParsedFloat::Finite(other)) = (one, other) else {
        return Err(NoSum::Infinite);
    };
    one.plus(other).map(|sum| sum.text()).ok_or(NoSum::Infinite)
}

/// What a text stands for.
enum ParsedFloat {
    Finite(Exact),
    Infinite,
}

impl ParsedFloat {
    /// The number of a text, in the forms of C's `strtold`.
    fn of(text: &[u8]) -> Result<Self, NoSum> {
        let text = str::from_utf8(text).ok().filter(|text| text.len() < TEXT_MAX);
        let text = text.ok_or(NoSum::NoNumber)?;
        let (is_negative, digits) = match text.as_bytes() {
            [b'-', ..] => (true, &text[1..]),
            [b'+', ..] => (false, &text[1..]),
            _ => (false, text),
        };
        if ["inf", "infinity"].iter().any(|word| digits.eq_ignore_ascii_case(word)) {
            return Ok(Self::Infinite);
        }
        let (radix, digits, mark) = match digits.get(..2) {
            Some("0x" | "0X") => (16, &digits[2..], ['p', 'P']),
            _ => (10, digits, ['e', 'E']),
        };
        let (mantissa, exponent) = match digits.split_once(mark) {
            None => (digits, 0),
            Some((mantissa, exponent)) => (mantissa, exponent_of(exponent)?),
        };
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, part].concat();
        if all.is_empty() || !all.chars().all(|digit| digit.is_digit(radix)) {
            return Err(NoSum::NoNumber);
        }
        let integer = BigInt::parse_bytes(all.as_bytes(), radix).ok_or(NoSum::NoNumber)?;
        let integer = if is_negative { -integer } else { integer };
        let behind = part.len() as i64;
        let number = match radix {
            10 => Exact::of_decimal(integer, exponent.saturating_sub(behind)),
            _ => Exact { integer, exponent: exponent.saturating_sub(4 * behind) }.rounded(false),
        };
        number.map(Self::Finite).ok_or(NoSum::NoNumber)
    }
}

/// The exponent of a text; one that is too long is as good as the largest.
fn exponent_of(text: &str) -> Result<i64, NoSum> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NoSum::NoNumber);
    }
    let size = digits.parse().unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
    Ok(if text.starts_with('-') { -size } else { size })
}

impl Exact {
    /// The number nearest to an integer times a power of ten; none beyond the largest one, and
    /// where nothing but 0 is near.
    fn of_decimal(integer: BigInt, exponent: i64) -> Option<Self> {
        if integer.sign() == Sign::NoSign {
            return Some(Self { integer, exponent: 0 });
        }
        let leading = exponent.saturating_add(integer.magnitude().to_string().len() as i64 - 1);
        if !EXPONENTS.contains(&leading) {
            return None;
        }
        let power = BigInt::from(10).pow(exponent.unsigned_abs() as u32);
        if exponent >= 0 {
            return Self { integer: integer * power, exponent: 0 }.rounded(false);
        }
        // The quotient has more digits than it needs: what is left of it breaks ties only.
        let shift = DIGITS + 2 + power.bits();
        let shifted = integer << shift;
        let has_rest = &shifted % &power != BigInt::ZERO;
        Self { integer: shifted / power, exponent: -(shift as i64) }.rounded(has_rest)
    }

    /// The nearest number of [`DIGITS`], and of two that are as near the even one. `has_rest` says
    /// that it is a bit further from 0 than it stands here. None beyond the largest one, and where
    /// nothing but 0 is near.
    fn rounded(self, has_rest: bool) -> Option<Self> {
        let surplus = self.integer.bits().saturating_sub(DIGITS);
        let integer = nearest(&self.integer, surplus, has_rest);
        if integer.sign() == Sign::NoSign {
            return Some(Self { integer, exponent: 0 });
        }
        let exponent = self.exponent.saturating_add(surplus as i64);
        let end = exponent.saturating_add(integer.bits() as i64);
        SIZES.contains(&end).then_some(Self { integer, exponent })
    }

    fn double(&self) -> f64 {
        let Self { integer, exponent } = self;
        let surplus = integer.bits().saturating_sub(53);
        let (_, digits) = nearest(integer, surplus, false).to_u64_digits();
        let size = digits.first().copied().unwrap_or_default() as f64;
        let number = size * 2f64.powi((exponent + surplus as i64).clamp(-2000, 2000) as i32);
        if integer.sign() == Sign::Minus { -number } else { number }
    }

    fn plus(self, other: Self) -> Option<Self> {
        let exponent = self.exponent.min(other.exponent);
        let scaled = |it: Self| it.integer << (it.exponent - exponent).unsigned_abs();
        Self { integer: scaled(self) + scaled(other), exponent }.rounded(false)
    }

    /// The number with [`DECIMALS`] behind the point, without zeros at the end.
    fn text(&self) -> String {
        let scaled = &self.integer * BigInt::from(10).pow(DECIMALS);
        let scaled = match self.exponent {
            0.. => scaled << self.exponent.unsigned_abs(),
            _ => nearest(&scaled, self.exponent.unsigned_abs(), false),
        };
        let digits = format!("{:0>width$}", scaled.magnitude().to_string(), width = 18);
        let (whole, part) = digits.split_at(digits.len() - DECIMALS as usize);
        let text = format!("{whole}.{part}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let is_negative = scaled.sign() == Sign::Minus;
        if is_negative { format!("-{text}") } else { text.to_owned() }
    }
}

/// An integer without its last binary digits, rounded to the nearest, and of two to the even one.
fn nearest(integer: &BigInt, digits: u64, has_rest: bool) -> BigInt {
    if digits == 0 {
        return integer.clone();
    }
    let size = integer.magnitude();
    let mut kept = size >> digits;
    let is_half = size.bit(digits - 1);
    let is_more = has_rest || size.trailing_zeros().is_some_and(|zeros| zeros < digits - 1);
    if is_half && (is_more || kept.bit(0)) {
        kept += 1_u32;
    }
    BigInt::from_biguint(integer.sign(), kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_those_of_c() {
        for (text, number) in [
            ("1.5", Some(1.5)),
            ("+.5", Some(0.5)),
            ("5.", Some(5.0)),
            ("-0", Some(-0.0)),
            ("0x10", Some(16.0)),
            ("-0x1.8p1", Some(-3.0)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("1e308", Some(1e308)),
            ("1e309", None),
            ("1e-400", None),
            ("0e-400", Some(0.0)),
            ("nan", None),
            ("--1", None),
            ("", None),
            (" 1", None),
            ("1x", None),
        ] {
            let found = double(text.as_bytes());
            assert_eq!(found.map(f64::to_bits), number.map(f64::to_bits), "{text}");
        }
    }

    #[test]
    fn sums_are_those_of_a_long_double() {
        let long = "123456789012345678901234567890";
        for (one, other, expected) in [
            ("0", "0.1", "0.1"),
            ("0.1", "0.2", "0.3"),
            ("10.5", "0.1", "10.6"),
            ("3.0e3", "200", "3200"),
            ("-1.5", "1.5", "0"),
            ("0", "-0.0", "0"),
            ("0", "1e-30", "0"),
            ("0", "-1e-30", "0"),
            (".5", "5.", "5.5"),
            ("0x1.8p1", "-0xA", "-7"),
            ("0", "1e20", "100000000000000000000"),
            (long, "1", "123456789012345678899921813504"),
            ("0", "0.12345678901234567890", "0.12345678901234568"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("18446744073709551615", "0.5", "18446744073709551616"),
            ("1", "1e-19", "1"),
        ] {
            assert_eq!(sum(one.as_bytes(), other.as_bytes()).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_has_no_sum_says_why() {
        for text in [
            "",
            ".",
            "x",
            "1e",
            "1e+",
            " 1",
            "1 ",
            "--1",
            "1\0",
            "nan",
            "1e5000",
            "1e-5000",
            "0x",
            "0x1p",
            "0x1p99999",
            "0x1p-99999",
            "0xg",
        ] {
            assert_eq!(sum(b"0", text.as_bytes()), Err(NoSum::NoNumber), "{text:?}");
        }
        assert_eq!(sum(b"0", &[b'1'; TEXT_MAX]), Err(NoSum::NoNumber));
        assert_eq!(sum(b"0", b"-INF"), Err(NoSum::Infinite));
        assert_eq!(sum(b"1.1e4932", b"1.1e4932"), Err(NoSum::Infinite));
    }
}
