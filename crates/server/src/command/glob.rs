//! Patterns as Redis has them: `*`, `?`, `[a-z]`, `[^x]`, and a backslash in front of any byte.

/// Whether a text matches a pattern. Takes time in the product of both lengths at most.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Where the last `*` stands, and how much of the text it stands for.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern.first(), text.first()) {
            (None, None) => return true,
            (Some(b'*'), _) => {
                pattern = &pattern[1..];
                star = Some((pattern, text));
                continue;
            }
            (Some(_), Some(&byte)) => {
                let (is_match, behind) = one(pattern, byte);
                if is_match {
                    (pattern, text) = (behind, &text[1..]);
                    continue;
                }
            }
            _ => {}
        }
        match star {
            Some((behind, [_, rest @ ..])) => {
                star = Some((behind, rest));
                (pattern, text) = (behind, rest);
            }
            _ => return false,
        }
    }
}

/// Whether a byte matches the first element of a pattern, and what stands behind that.
fn one(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    match pattern {
        [b'?', behind @ ..] => (true, behind),
        [b'[', behind @ ..] => set(behind, byte),
        [b'\\', escaped, behind @ ..] => (*escaped == byte, behind),
        [first, behind @ ..] => (*first == byte, behind),
        [] => (false, pattern),
    }
}

/// As [`one`], behind the opening bracket. A set without an end reaches to the end of the pattern.
fn set(mut pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let is_negated = pattern.first() == Some(&b'^');
    if is_negated {
        pattern = &pattern[1..];
    }
    let mut is_in = false;
    loop {
        pattern = match pattern {
            [] => return (is_in != is_negated, pattern),
            [b']', behind @ ..] => return (is_in != is_negated, behind),
            [b'\\', escaped, behind @ ..] => {
                is_in |= *escaped == byte;
                behind
            }
            [from, b'-', to, behind @ ..] => {
                is_in |= (*from.min(to)..=*from.max(to)).contains(&byte);
                behind
            }
            [other, behind @ ..] => {
                is_in |= *other == byte;
                behind
            }
        };
    }
}

/// What all texts that match a pattern begin with.
pub fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| b"*?[\\".contains(byte));
    &pattern[..end.unwrap_or(pattern.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("h?llo", "hello", true),
            ("h*llo", "hllo", true),
            ("h*l*o", "heeelllo", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[z-a]llo", "hbllo", true),
            (r"h\*llo", "h*llo", true),
            (r"h\*llo", "hxllo", false),
            (r"[\]]", "]", true),
            ("a*b", "acbc", false),
            ("", "a", false),
            ("[ab", "a", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        let slow = "a*".repeat(40) + "b";
        assert!(!matches(slow.as_bytes(), &[b'a'; 2000]));
        assert_eq!(literal_prefix(b"user:*:x"), b"user:");
    }
}
