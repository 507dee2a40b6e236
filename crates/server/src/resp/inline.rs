//! The words of a line, with quotes as Redis has them (its `sdssplitargs`).

/// The words of a line; none if a quote does not end, or a word goes on behind it.
pub fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut words, mut rest) = (Vec::new(), line.trim_ascii_start());
    while !rest.is_empty() {
        let mut word = Vec::new();
        rest = loop {
            match rest {
                [quote @ (b'"' | b'\''), behind @ ..] => break quoted(*quote, behind, &mut word)?,
                [byte, behind @ ..] if !byte.is_ascii_whitespace() => {
                    word.push(*byte);
                    rest = behind;
                }
                behind => break behind,
            }
        };
        words.push(word);
        rest = rest.trim_ascii_start();
    }
    Some(words)
}

/// Adds what stands in front of the closing quote to `word`; returns what stands behind it.
fn quoted<'a>(quote: u8, mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, behind) = match rest {
            [b'\\', b'x', high, low, behind @ ..] if quote == b'"' && is_hex(*high, *low) => {
                (hex(*high) << 4 | hex(*low), behind)
            }
            [b'\\', escaped, behind @ ..] if quote == b'"' => (unescaped(*escaped), behind),
            [b'\\', b'\'', behind @ ..] => (b'\'', behind),
            [byte, behind @ ..] if *byte == quote => {
                let ends = behind.first().is_none_or(u8::is_ascii_whitespace);
                return ends.then_some(behind);
            }
            [byte, behind @ ..] => (*byte, behind),
            [] => return None,
        };
        word.push(byte);
        rest = behind;
    }
}

fn unescaped(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn is_hex(high: u8, low: u8) -> bool {
    high.is_ascii_hexdigit() && low.is_ascii_hexdigit()
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_those_of_redis() {
        let found = |line: &str| {
            words(line.as_bytes()).map(|words| {
                words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>()
            })
        };
        assert_eq!(found("  SET  k\tv "), Some(vec!["SET".into(), "k".into(), "v".into()]));
        assert_eq!(
            found(r#""\x41\n" 'a\'b' x"y z""#),
            Some(vec![r"A\n".into(), r"a\'b".into(), "xy z".into()])
        );
        assert_eq!(
            found(r#""\xzz" "" '\n'"#),
            Some(vec!["xzz".into(), String::new(), r"\\n".into()])
        );
        assert_eq!((found(r#""open"#), found(r#"'a'b"#), found("'\\")), (None, None, None));
        assert_eq!(found(" \t"), Some(vec![]));
    }
}
