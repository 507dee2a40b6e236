//! Numbers as C reads them, and sums of `INCRBYFLOAT`, which Redis reckons in the `long double` of
//! x86: 64 binary digits.
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

/// The text of the sum of two texts.
pub fn sum(one: &[u8], other: &[u8]) -> Result<String, NoSum> {
    let (one, other) = (ParsedFloat::of(one)?, ParsedFloat::of(other)?);
    let (ParsedFloat::Finite(one), ParsedFloat::Finite(other)) = (one, other) else {
        return Err(NoSum::Infinite);
    };
    one.plus(other).map(|sum| sum.text()).ok_or(NoSum::Infinite)
}

/// A text without the blanks in front of it, as C's `strtod` leaves them out.
pub fn behind_blanks(text: &[u8]) -> &[u8] {
    let is_blank = |byte: &&u8| byte.is_ascii_whitespace() || **byte == 0x0b;
    &text[text.iter().take_while(is_blank).count()..]
}

/// The double that a whole text stands for, in the forms of C's `strtod`: infinite beyond the
/// largest one, and 0 where nothing else is near.
pub fn any_double(text: &[u8]) -> Option<f64> {
    let text = str::from_utf8(text).ok()?;
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !matches!(digits.get(..2), Some("0x" | "0X")) {
        return text.parse().ok();
    }
    let FloatText { is_negative, integer, exponent, .. } = FloatText::of(text).ok()??;
    let size = Exact { integer, exponent }.double();
    Some(if is_negative { -size } else { size })
}

/// The double that a text stands for, if that is no more than its nearest one: neither beyond the
/// largest one, nor 0 for another number.
pub fn double(text: &[u8]) -> Option<f64> {
    let number = any_double(text)?;
    let is_hexadecimal = text.iter().any(|byte| b"xX".contains(byte));
    let marks: &[u8] = if is_hexadecimal { b"pP" } else { b"eE" };
    let digits = text.split(|byte| marks.contains(byte)).next().unwrap_or_default();
    let is_zero = |byte: &u8| !byte.is_ascii_hexdigit() || *byte == b'0';
    let is_near = match number {
        _ if number.is_nan() => false,
        _ if number.is_infinite() => !text.iter().any(u8::is_ascii_digit),
        0.0 => digits.iter().all(is_zero),
        _ => true,
    };
    is_near.then_some(number)
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
        let Some(number) = FloatText::of(text.ok_or(NoSum::NoNumber)?)? else {
            return Ok(Self::Infinite);
        };
        let FloatText { is_negative, radix, integer, exponent } = number;
        let integer = if is_negative { -integer } else { integer };
        let number = match radix {
            10 => Exact::of_decimal(integer, exponent),
            _ => Exact { integer, exponent }.rounded(false),
        };
        number.map(Self::Finite).ok_or(NoSum::NoNumber)
    }
}

/// The parts of a number's text.
struct FloatText {
    is_negative: bool,
    /// 10, or 16.
    radix: u32,
    /// The digits.
    integer: BigInt,
    /// The exponent of 10, or of 2 behind hexadecimal digits.
    exponent: i64,
}

impl FloatText {
    /// The parts of a text; none if it is infinite.
    fn of(text: &str) -> Result<Option<Self>, NoSum> {
        let (is_negative, digits) = match text.as_bytes() {
            [b'-', ..] => (true, &text[1..]),
            [b'+', ..] => (false, &text[1..]),
            _ => (false, text),
        };
        if ["inf", "infinity"].iter().any(|word| digits.eq_ignore_ascii_case(word)) {
            return Ok(None);
        }
        let (radix, digits, mark, width) = match digits.get(..2) {
            Some("0x" | "0X") => (16, &digits[2..], ['p', 'P'], 4),
            _ => (10, digits, ['e', 'E'], 1),
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
        let exponent = exponent.saturating_sub(width * part.len() as i64);
        Ok(Some(Self { is_negative, radix, integer, exponent }))
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

    fn plus(self, other: Self) -> Option<Self> {
        let exponent = self.exponent.min(other.exponent);
        let scaled = |it: Self| it.integer << (it.exponent - exponent).unsigned_abs();
        Self { integer: scaled(self) + scaled(other), exponent }.rounded(false)
    }

    /// The nearest double of one that is not negative.
    fn double(self) -> f64 {
        // Behind the last digit of a double there is nothing, nor below the smallest one.
        let (smallest, digits) = (-1074_i64, 53);
        let surplus = (self.integer.bits() as i64).saturating_sub(digits);
        let surplus = surplus.max(smallest.saturating_sub(self.exponent)).max(0).cast_unsigned();
        let integer = nearest(&self.integer, surplus, false);
        let exponent = self.exponent.saturating_add_unsigned(surplus).min(1 << 11) as i32;
        let integer = integer.iter_u64_digits().next().unwrap_or_default() as f64;
        // In two steps, since a power of the smallest exponents is no double.
        integer * 2_f64.powi(exponent / 2) * 2_f64.powi(exponent - exponent / 2)
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
    fn doubles_are_those_of_c() {
        for (text, expected) in [
            ("1.5", 1.5),
            ("-.5e1", -5.0),
            ("+inf", f64::INFINITY),
            ("-0", -0.0),
            ("0e-400", 0.0),
            ("5.", 5.0),
            ("-Infinity", f64::NEG_INFINITY),
            ("-0x0p9", -0.0),
            ("0x1.8p1", 3.0),
            ("-0XA", -10.0),
            ("0x1.00000000000008p0", 1.0),
            ("0x1.00000000000018p0", 1.000_000_000_000_000_4),
            ("0x.000000000000000000000000000001p120", 1.0),
            ("0x1p-1074", f64::from_bits(1)),
            ("0x1.8p-1074", f64::from_bits(2)),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("1e-310", 1e-310),
        ] {
            let [one, other] = [any_double, double].map(|read| read(text.as_bytes()).unwrap());
            assert_eq!((one.to_bits(), other.to_bits()), (expected.to_bits(), one.to_bits()));
        }
        for (text, expected) in [
            ("1e400", f64::INFINITY),
            ("-0x1p1024", f64::NEG_INFINITY),
            ("0x1p99999999999999999999", f64::INFINITY),
            ("1e-400", 0.0),
            ("0x1p-1075", 0.0),
            ("-0x1p-99999999999999999999", -0.0),
        ] {
            assert_eq!(
                any_double(text.as_bytes()).unwrap().to_bits(),
                expected.to_bits(),
                "{text}"
            );
            assert_eq!(double(text.as_bytes()), None, "{text}");
        }
        for text in ["", " 1", "1 ", "0x", "0x1p", "1e", "1_0", "in", "1\0", "--1", "1x"] {
            assert_eq!(any_double(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(double(b"nan"), None);
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
