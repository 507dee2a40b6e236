//! Patterns of Lua 5.1: a match takes as many steps as it needs, and a script may be ended at each.
//! Those of the library of Lua cannot be ended, and nest without bound.

/// How deep the parts of a pattern nest, and most captures.
const DEPTH_MAX: usize = 2000;
const CAPTURES_MAX: usize = 32;

/// Steps between two looks whether the script is to end.
const STEPS: usize = 1 << 14;

/// Bytes that are compared in a step.
const COMPARED: usize = 256;

/// Characters that have a meaning in patterns.
pub(super) const SPECIAL: &[u8] = b"^$*+?.([%-";

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum PatternError {
    /// The pattern is none.
    Words(&'static str),
    /// The script is to end.
    Ended(mlua::Error),
}

type Outcome<T> = Result<T, PatternError>;

fn wrong<T>(words: &'static str) -> Outcome<T> {
    Err(PatternError::Words(words))
}

/// A part of the subject that a pattern has captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    /// The bytes from a place to another.
    Bytes(usize, usize),
    /// A place.
    Place(usize),
    /// From a place on: the end is not known yet.
    Open(usize),
}

/// Matches a pattern with a subject.
pub(super) struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    /// What the last match has captured.
    pub(super) captures: Vec<Capture>,
    depth: usize,
    /// Steps until the next look whether the script is to end.
    left: usize,
    /// Fails if the script is to end.
    look: &'a dyn Fn() -> mlua::Result<()>,
}

impl<'a> Matcher<'a> {
    /// For a pattern, which ends at a zero.
    pub(super) fn new(
        subject: &'a [u8],
        pattern: &'a [u8],
        look: &'a dyn Fn() -> mlua::Result<()>,
    ) -> Self {
        let pattern = pattern.split(|byte| *byte == 0).next().unwrap_or_default();
        Self { subject, pattern, captures: Vec::new(), depth: 0, left: STEPS, look }
    }

    /// The end of a match that begins at a place of the subject, if there is one.
    pub(super) fn at(&mut self, start: usize, pattern: usize) -> Outcome<Option<usize>> {
        self.captures.clear();
        self.matched(start, pattern)
    }

    /// The first match from a place on, or at that place alone if the pattern begins with `^`.
    pub(super) fn first(&mut self, from: usize) -> Outcome<Option<(usize, usize)>> {
        let is_anchored = self.pattern.first() == Some(&b'^');
        for start in from..=self.subject.len() {
            if let Some(end) = self.at(start, is_anchored.into())? {
                return Ok(Some((start, end)));
            }
            if is_anchored {
                break;
            }
        }
        Ok(None)
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.pattern.get(at).copied()
    }

    fn step(&mut self) -> Outcome<()> {
        self.take(1)
    }

    fn take(&mut self, steps: usize) -> Outcome<()> {
        if let Some(left) = self.left.checked_sub(steps) {
            self.left = left;
            return Ok(());
        }
        self.left = STEPS;
        (self.look)().map_err(PatternError::Ended)
    }

    /// Matches what is nested.
    fn nested(&mut self, start: usize, pattern: usize) -> Outcome<Option<usize>> {
        if self.depth == DEPTH_MAX {
            return wrong("pattern too complex");
        }
        self.depth += 1;
        let end = self.matched(start, pattern);
        self.depth -= 1;
        end
    }

    fn matched(&mut self, mut start: usize, mut pattern: usize) -> Outcome<Option<usize>> {
        loop {
            self.step()?;
            let Some(kind) = self.byte(pattern) else { return Ok(Some(start)) };
            let behind = self.byte(pattern + 1);
            match (kind, behind) {
                (b'(', Some(b')')) => return self.open(start, pattern + 2, Capture::Place(start)),
                (b'(', _) => return self.open(start, pattern + 1, Capture::Open(start)),
                (b')', _) => return self.close(start, pattern + 1),
                (b'$', None) => return Ok(Some(start).filter(|at| *at == self.subject.len())),
                (b'%', Some(b'b')) => {
                    let Some(end) = self.balanced(start, pattern + 2)? else { return Ok(None) };
                    (start, pattern) = (end, pattern + 4);
                }
                (b'%', Some(b'f')) => {
                    let Some(end) = self.frontier(start, pattern + 2)? else { return Ok(None) };
                    pattern = end;
                }
                (b'%', Some(digit @ b'0'..=b'9')) => {
                    let Some(end) = self.again(start, digit)? else { return Ok(None) };
                    (start, pattern) = (end, pattern + 2);
                }
                _ => {
                    let end = self.class_end(pattern)?;
                    let is_one = self.is_one(start, pattern, end);
                    match self.byte(end) {
                        Some(b'?') => {
                            if is_one && let Some(end) = self.nested(start + 1, end + 1)? {
                                return Ok(Some(end));
                            }
                            pattern = end + 1;
                        }
                        Some(b'*') => return self.longest(start, pattern, end),
                        Some(b'+') if is_one => return self.longest(start + 1, pattern, end),
                        Some(b'+') => return Ok(None),
                        Some(b'-') => return self.shortest(start, pattern, end),
                        _ if is_one => (start, pattern) = (start + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    fn longest(&mut self, start: usize, pattern: usize, end: usize) -> Outcome<Option<usize>> {
        let mut count = 0;
        while self.is_one(start + count, pattern, end) {
            count += 1;
            self.step()?;
        }
        for count in (0..=count).rev() {
            if let Some(end) = self.nested(start + count, end + 1)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    fn shortest(&mut self, mut start: usize, pattern: usize, end: usize) -> Outcome<Option<usize>> {
        loop {
            if let Some(end) = self.nested(start, end + 1)? {
                return Ok(Some(end));
            }
            if !self.is_one(start, pattern, end) {
                return Ok(None);
            }
            start += 1;
        }
    }

    fn open(&mut self, start: usize, pattern: usize, capture: Capture) -> Outcome<Option<usize>> {
        if self.captures.len() == CAPTURES_MAX {
            return wrong("too many captures");
        }
        let before = self.captures.len();
        self.captures.push(capture);
        let end = self.nested(start, pattern)?;
        if end.is_none() {
            self.captures.truncate(before);
        }
        Ok(end)
    }

    fn close(&mut self, start: usize, pattern: usize) -> Outcome<Option<usize>> {
        let is_open = |capture: &Capture| matches!(capture, Capture::Open(_));
        let Some(at) = self.captures.iter().rposition(is_open) else {
            return wrong("invalid pattern capture");
        };
        let before = self.captures[at];
        if let Capture::Open(from) = before {
            self.captures[at] = Capture::Bytes(from, start);
        }
        let end = self.nested(start, pattern)?;
        if end.is_none() {
            self.captures[at] = before;
        }
        Ok(end)
    }

    /// What a pair of brackets holds, of which the pattern has both ends.
    fn balanced(&mut self, start: usize, pattern: usize) -> Outcome<Option<usize>> {
        let (Some(open), Some(close)) = (self.byte(pattern), self.byte(pattern + 1)) else {
            return wrong("unbalanced pattern");
        };
        if self.subject.get(start) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for at in start + 1..self.subject.len() {
            self.step()?;
            match self.subject[at] {
                byte if byte == close => depth -= 1,
                byte if byte == open => depth += 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(Some(at + 1));
            }
        }
        Ok(None)
    }

    /// The end of a set in the pattern, if the subject begins at this place to be in it.
    fn frontier(&mut self, start: usize, pattern: usize) -> Outcome<Option<usize>> {
        if self.byte(pattern) != Some(b'[') {
            return wrong("missing '[' after '%f' in pattern");
        }
        let end = self.class_end(pattern)?;
        let at = |at: Option<usize>| at.and_then(|at| self.subject.get(at)).copied();
        let before = at(start.checked_sub(1)).unwrap_or_default();
        let byte = at(Some(start)).unwrap_or_default();
        let is_there =
            !self.is_in_set(before, pattern, end - 1) && self.is_in_set(byte, pattern, end - 1);
        Ok(is_there.then_some(end))
    }

    /// The end of what was captured before, if it is there again.
    fn again(&mut self, start: usize, digit: u8) -> Outcome<Option<usize>> {
        let at = usize::from(digit).checked_sub(usize::from(b'1'));
        let (from, to) = match at.and_then(|at| self.captures.get(at)) {
            Some(Capture::Bytes(from, to)) => (*from, *to),
            Some(Capture::Place(_)) => return Ok(None),
            _ => return wrong("invalid capture index"),
        };
        self.take((to - from) / COMPARED)?;
        let is_there = self.subject[start..].starts_with(&self.subject[from..to]);
        Ok(is_there.then_some(start + to - from))
    }

    /// The end of a class that begins at a place of the pattern.
    fn class_end(&self, pattern: usize) -> Outcome<usize> {
        let mut at = pattern + 1;
        match self.byte(pattern) {
            Some(b'%') => match self.byte(at) {
                None => wrong("malformed pattern (ends with '%')"),
                Some(_) => Ok(at + 1),
            },
            Some(b'[') => {
                at += usize::from(self.byte(at) == Some(b'^'));
                loop {
                    let Some(byte) = self.byte(at) else {
                        return wrong("malformed pattern (missing ']')");
                    };
                    at += 1;
                    if byte == b'%' && self.byte(at).is_some() {
                        at += 1;
                    }
                    if self.byte(at) == Some(b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(at),
        }
    }

    /// Whether the byte at a place of the subject is of the class between two of the pattern.
    fn is_one(&self, at: usize, pattern: usize, end: usize) -> bool {
        let Some(byte) = self.subject.get(at) else { return false };
        match self.pattern[pattern] {
            b'.' => true,
            b'%' => is_of_class(*byte, self.pattern[pattern + 1]),
            b'[' => self.is_in_set(*byte, pattern, end - 1),
            other => other == *byte,
        }
    }

    /// Whether a byte is in the set between two places of the pattern, of which the second is `]`.
    fn is_in_set(&self, byte: u8, pattern: usize, end: usize) -> bool {
        let is_inverse = self.pattern[pattern + 1] == b'^';
        let mut at = pattern + 1 + usize::from(is_inverse);
        while at < end {
            let is_range = self.pattern[at + 1] == b'-' && at + 2 < end;
            let is_it = match self.pattern[at] {
                b'%' => {
                    at += 1;
                    is_of_class(byte, self.pattern[at])
                }
                from if is_range => {
                    at += 2;
                    (from..=self.pattern[at]).contains(&byte)
                }
                other => other == byte,
            };
            if is_it {
                return !is_inverse;
            }
            at += 1;
        }
        is_inverse
    }
}

/// Whether a byte is of the class of a letter; a capital stands for all others.
fn is_of_class(byte: u8, class: u8) -> bool {
    let is_it = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_it != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_that_takes_long_can_be_ended() {
        let (subject, pattern) = ([b'a'; 3000], b"a-a-a-a-a-a-b");
        let looks = std::cell::Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            if looks.get() < 5 { Ok(()) } else { Err(mlua::Error::runtime("end")) }
        };
        let found = Matcher::new(&subject, pattern, &look).first(0);
        assert!(matches!(found, Err(PatternError::Ended(_))));
        assert_eq!(looks.get(), 5);
        // Each step compares more of what was captured.
        looks.set(i32::MIN);
        let found = Matcher::new(&[b'a'; 40_000], b"^(.-)%1b", &look).first(0);
        assert!(matches!(found, Ok(None)) && looks.get() - i32::MIN > 20);
    }

    #[test]
    fn a_pattern_nests_as_deep_as_the_stack_allows() {
        let found = |parts: usize| {
            let (subject, pattern) = (vec![b'a'; parts], b"a?".repeat(parts));
            Matcher::new(&subject, &pattern, &|| Ok(())).first(0)
        };
        assert!(matches!(found(DEPTH_MAX), Ok(Some((0, DEPTH_MAX)))));
        assert!(matches!(found(DEPTH_MAX + 1), Err(PatternError::Words("pattern too complex"))));
    }
}
