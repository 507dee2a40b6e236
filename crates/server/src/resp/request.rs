//! Requests: where the arguments of a command lie in what a client has sent.
//!
//! Two forms, as Redis has them (its `processMultibulkBuffer` and `processInlineBuffer`): an array
//! of bulk strings, `*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`, whose arguments are found in place; and a
//! line of words, `GET k\r\n`, for people, whose quotes are resolved into memory of its own
//! ([`inline`]).

use std::ops::Range;

use super::inline;

/// Most bytes of a line: of an inline command, of a count, of a length. Redis's own limit.
const LINE_MAX: usize = 64 << 10;

/// Most arguments of a command.
const ARGUMENTS_MAX: u64 = 1 << 20;

/// Most arguments of a command, and most bytes of one, before a client has said who it is.
const UNKNOWN_ARGUMENTS_MAX: u64 = 10;
const UNKNOWN_LENGTH_TOO_LONG: usize = (16 << 10) + 1;

/// What ends a line and an argument. Redis does not look at it behind an argument.
const END: &[u8] = b"\r\n";

/// Why a client cannot be understood. The connection ends after the reply, since nothing tells
/// where its next command begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// A line of words has more than 64 KiB.
    LongInline,
    /// A line of words has a quote that does not end, or that a word follows.
    Quotes,
    /// The line of the number of arguments has more than 64 KiB.
    LongCount,
    /// The number of arguments is no number, or too large.
    Count,
    /// A command of more arguments than a client may send before it has said who it is.
    UnknownCount,
    /// The line of the length of an argument has more than 64 KiB.
    LongLength,
    /// A length was expected, and this came.
    NoLength(u8),
    /// The length of an argument is no number, or too large.
    Length,
    /// An argument longer than a client may send before it has said who it is.
    UnknownLength,
}

impl ProtocolError {
    /// The text of the reply, as Redis has it.
    pub fn text(self) -> String {
        let what = match self {
            Self::LongInline => "too big inline request",
            Self::Quotes => "unbalanced quotes in request",
            Self::LongCount => "too big mbulk count string",
            Self::Count => "invalid multibulk length",
            Self::UnknownCount => "unauthenticated multibulk length",
            Self::LongLength => "too big bulk count string",
            Self::NoLength(found) => {
                return format!("Protocol error: expected '$', got '{}'", found.escape_ascii());
            }
            Self::Length => "invalid bulk length",
            Self::UnknownLength => "unauthenticated bulk length",
        };
        format!("Protocol error: {what}")
    }
}

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most bytes of an argument.
    pub argument_max: usize,
    /// Whether the client has said who it is, if it has to: else its commands are short.
    pub is_known: bool,
}

/// A command: the words of a line, or where its arguments lie in the buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientRequest<'a> {
    /// Ranges of the buffer.
    Array(&'a [Range<usize>]),
    /// Words of a line, without their quotes.
    Inline(Vec<Vec<u8>>),
}

/// The decoder of a connection. It remembers how far it has come in a command that is not there as
/// a whole, so that no argument is looked at twice.
#[derive(Debug, Default)]
pub struct Decoder {
    arguments: Vec<Range<usize>>,
    /// How far the buffer was decoded.
    at: usize,
    /// Arguments of the array that are still to come; none while its head is not known.
    missing: Option<u64>,
    /// The length of the next argument, if it is known.
    length: Option<usize>,
}

impl Decoder {
    /// The first command in `buffer` and its length there, with what is empty in front of it; none
    /// if it is not there as a whole. The buffer begins where the last command ended. After an
    /// error the connection is to be closed.
    pub fn decode<'a>(
        &'a mut self,
        buffer: &[u8],
        limits: Limits,
    ) -> Result<Option<(ClientRequest<'a>, usize)>, ProtocolError> {
        while self.missing.is_none() {
            match buffer.get(self.at) {
                None => return Ok(None),
                Some(b'*') => {
                    let Some(count) = self.count(buffer, limits)? else { return Ok(None) };
                    self.arguments.clear();
                    self.missing = Some(count).filter(|count| *count > 0);
                }
                Some(_) => {
                    let Some(words) = self.line(buffer)? else { return Ok(None) };
                    if !words.is_empty() {
                        return Ok(Some((
                            ClientRequest::Inline(words),
                            std::mem::take(&mut self.at),
                        )));
                    }
                }
            }
        }
        while self.missing > Some(0) {
            let Some(argument) = self.argument(buffer, limits)? else { return Ok(None) };
            self.arguments.push(argument);
            self.missing = self.missing.map(|missing| missing - 1);
        }
        self.missing = None;
        Ok(Some((ClientRequest::Array(&self.arguments), std::mem::take(&mut self.at))))
    }

    /// Bytes at the begin of the buffer that hold no command, and are not looked at again: to be
    /// dropped when [`Decoder::decode`] has found none.
    pub fn skip_empty(&mut self) -> usize {
        if self.missing.is_none() { std::mem::take(&mut self.at) } else { 0 }
    }

    /// Length of the buffer at which the next argument is there as a whole, if that is known.
    pub fn wanted(&self) -> Option<usize> {
        self.length.map(|length| self.at + length + END.len())
    }

    /// Bytes of memory that it holds.
    pub fn memory(&self) -> usize {
        self.arguments.capacity() * size_of::<Range<usize>>()
    }

    /// The number of arguments, from the head of an array; 0 for one that is less.
    fn count(&mut self, buffer: &[u8], limits: Limits) -> Result<Option<u64>, ProtocolError> {
        let Some(line) = self.number(buffer, ProtocolError::LongCount)? else { return Ok(None) };
        let count = line.ok_or(ProtocolError::Count)?.max(0).cast_unsigned();
        match count {
            _ if count > ARGUMENTS_MAX => Err(ProtocolError::Count),
            _ if count > UNKNOWN_ARGUMENTS_MAX && !limits.is_known => {
                Err(ProtocolError::UnknownCount)
            }
            _ => Ok(Some(count)),
        }
    }

    /// Where the next argument of an array lies, if it is there as a whole.
    fn argument(
        &mut self,
        buffer: &[u8],
        limits: Limits,
    ) -> Result<Option<Range<usize>>, ProtocolError> {
        let length = match self.length {
            Some(length) => length,
            None => {
                let Some(length) = self.length(buffer, limits)? else { return Ok(None) };
                self.length = Some(length);
                length
            }
        };
        let found = self.at..self.at + length;
        if buffer.len() < found.end + END.len() {
            return Ok(None);
        }
        (self.at, self.length) = (found.end + END.len(), None);
        Ok(Some(found))
    }

    fn length(&mut self, buffer: &[u8], limits: Limits) -> Result<Option<usize>, ProtocolError> {
        let first = buffer.get(self.at).copied();
        let Some(line) = self.number(buffer, ProtocolError::LongLength)? else { return Ok(None) };
        if let Some(first @ (..=b'#' | b'%'..)) = first {
            return Err(ProtocolError::NoLength(first));
        }
        let length = line.and_then(|length| usize::try_from(length).ok());
        let length = length.filter(|length| *length <= limits.argument_max);
        match length.ok_or(ProtocolError::Length)? {
            UNKNOWN_LENGTH_TOO_LONG.. if !limits.is_known => Err(ProtocolError::UnknownLength),
            length => Ok(Some(length)),
        }
    }

    /// The number behind the first byte of a line, which is passed; the inner one is none if it is
    /// no number.
    fn number(
        &mut self,
        buffer: &[u8],
        long: ProtocolError,
    ) -> Result<Option<Option<i64>>, ProtocolError> {
        let rest = &buffer[self.at..];
        match memchr::memchr(b'\r', rest) {
            None if rest.len() > LINE_MAX => Err(long),
            Some(end) if rest.len() >= end + END.len() => {
                self.at += end + END.len();
                Ok(Some(rest.get(1..end).and_then(integer)))
            }
            _ => Ok(None),
        }
    }

    /// The words of the line, which is passed.
    fn line(&mut self, buffer: &[u8]) -> Result<Option<Vec<Vec<u8>>>, ProtocolError> {
        let rest = &buffer[self.at..];
        let Some(end) = memchr::memchr(b'\n', rest) else {
            return if rest.len() > LINE_MAX { Err(ProtocolError::LongInline) } else { Ok(None) };
        };
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        self.at += end + 1;
        inline::words(line).map(Some).ok_or(ProtocolError::Quotes)
    }
}

/// A decimal number as Redis writes one: no plus, no space, no zero in front (its `string2ll`).
pub fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', ..] => true,
        _ => false,
    };
    // A sign behind the first digit, or any other byte, does not parse.
    str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OPEN: Limits = Limits { argument_max: 512 << 20, is_known: true };

    type Found = Result<(Vec<Vec<Vec<u8>>>, usize), ProtocolError>;

    /// The commands in `sent`, and how many bytes are left, if it comes in pieces that end at
    /// `cuts`.
    fn decoded(sent: &[u8], cuts: &[usize], limits: Limits) -> Found {
        let (mut decoder, mut begin, mut commands) = (Decoder::default(), 0, Vec::new());
        for end in cuts.iter().copied().chain([sent.len()]) {
            let end = end.min(sent.len()).max(begin);
            while let Some((request, len)) = decoder.decode(&sent[begin..end], limits)? {
                let rest = &sent[begin..];
                commands.push(match request {
                    ClientRequest::Inline(words) => words,
                    ClientRequest::Array(ranges) => {
                        ranges.iter().map(|range| rest[range.clone()].to_vec()).collect()
                    }
                });
                begin += len;
            }
            begin += decoder.skip_empty();
        }
        Ok((commands, sent.len() - begin))
    }

    fn error(sent: &[u8]) -> Option<String> {
        decoded(sent, &[], OPEN).err().map(ProtocolError::text)
    }

    #[test]
    fn both_forms_follow_one_another() {
        let sent = b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n*0\r\n\r\n*-1\r\n\
                     ping \"a b\"\nPING\r\n*1\r\n$4\r\nQU";
        let (commands, left) = decoded(sent, &[], OPEN).unwrap();
        let expected: [&[&[u8]]; 3] = [&[b"GET", b"\r\n"], &[b"ping", b"a b"], &[b"PING"]];
        assert_eq!(
            (commands, left),
            (expected.map(|it| it.iter().map(|it| it.to_vec()).collect()).to_vec(), 10)
        );
    }

    #[test]
    fn errors_are_those_of_redis() {
        for (sent, expected) in [
            (&b"*x\r\n"[..], "Protocol error: invalid multibulk length"),
            (b"*1048577\r\n", "Protocol error: invalid multibulk length"),
            (b"*1\r\nfoo\r\n", "Protocol error: expected '$', got 'f'"),
            (b"*1\r\n\r\n", r"Protocol error: expected '$', got '\r'"),
            (b"*1\r\n$-1\r\n", "Protocol error: invalid bulk length"),
            (b"*1\r\n$01\r\n", "Protocol error: invalid bulk length"),
            (b"*1\r\n$536870913\r\n", "Protocol error: invalid bulk length"),
            (b"'\r\n", "Protocol error: unbalanced quotes in request"),
        ] {
            assert_eq!(error(sent).as_deref(), Some(expected), "{}", sent.escape_ascii());
        }
        let long = |first: &str| error(&[first.as_bytes(), &[b'1'; LINE_MAX + 1]].concat());
        let expected = ["big mbulk count string", "big bulk count string", "big inline request"];
        for (first, expected) in ["*", "*1\r\n$", "a"].into_iter().zip(expected) {
            assert_eq!(long(first), Some(format!("Protocol error: too {expected}")));
        }
    }

    #[test]
    fn strangers_send_short_commands() {
        let stranger = Limits { is_known: false, ..OPEN };
        let text = |sent: &[u8]| decoded(sent, &[], stranger).err().map(ProtocolError::text);
        assert_eq!(text(b"*11\r\n").unwrap(), "Protocol error: unauthenticated multibulk length");
        let long = text(b"*1\r\n$16385\r\n").unwrap();
        assert_eq!(long, "Protocol error: unauthenticated bulk length");
        assert_eq!(text(b"*10\r\n$16384\r\n"), None);
    }

    #[test]
    fn numbers_have_one_form() {
        for (text, number) in [("0", 0), ("-1", -1), ("9223372036854775807", i64::MAX)] {
            assert_eq!(integer(text.as_bytes()), Some(number));
        }
        for text in ["", "-", "-0", "00", "+1", " 1", "1 ", "1-", "9223372036854775808", "x"] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }

    fn command() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let argument = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..20),
            prop::collection::vec(prop::sample::select(b"\r\n$*0123".to_vec()), 0..9),
        ];
        prop::collection::vec(argument, 1..6)
    }

    /// What commands consist of, and any byte.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let known =
            ["*1\r\n", "*2\r\n", "$1\r\n", "\r\n", "\r", "$", "*", "-1", "a", "\"", "'", "\\x"];
        let known = prop::sample::select(known.map(|piece| piece.as_bytes().to_vec()).to_vec());
        prop_oneof![9 => known, 1 => prop::collection::vec(any::<u8>(), 1..3)]
    }

    proptest! {
        /// Whatever the pieces, a client's commands arrive as they were sent.
        #[test]
        fn commands_arrive_however_they_are_cut(
            sent in prop::collection::vec(command(), 1..6),
            cuts in prop::collection::vec(0_usize..400, 0..9),
        ) {
            let mut bytes = Vec::new();
            for command in &sent {
                bytes.extend(format!("*{}\r\n", command.len()).bytes());
                for argument in command {
                    bytes.extend(format!("${}\r\n", argument.len()).bytes());
                    bytes.extend(argument);
                    bytes.extend(END);
                }
            }
            let mut cuts = cuts;
            cuts.sort_unstable();
            prop_assert_eq!(decoded(&bytes, &cuts, OPEN), Ok((sent, 0)));
        }

        /// Any bytes are commands, the begin of one, or an error, and the same however they are
        /// cut.
        #[test]
        fn noise_is_read_alike_however_it_is_cut(
            noise in prop::collection::vec(piece(), 0..20),
            cuts in prop::collection::vec(0_usize..60, 0..9),
        ) {
            let noise = noise.concat();
            let mut cuts = cuts;
            cuts.sort_unstable();
            let whole = decoded(&noise, &[], OPEN);
            let cut = decoded(&noise, &cuts, OPEN);
            match (whole, cut) {
                // Empty commands in front of the begin of one are left, or were skipped in a piece
                // before.
                (Ok(whole), Ok(cut)) => prop_assert_eq!(whole.0, cut.0),
                (whole, cut) => prop_assert_eq!(whole.err(), cut.err()),
            }
        }
    }
}
