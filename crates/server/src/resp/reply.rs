//! Replies: one typed value, in the form that each version of the protocol has for it.

use bytes::{BufMut, Bytes, BytesMut};

/// The version of the protocol that a client has asked for by `HELLO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, until another is asked for.
    #[default]
    Two,
    /// RESP3.
    Three,
}

impl Protocol {
    /// The number of the version.
    pub fn number(self) -> i64 {
        if self == Self::Two { 2 } else { 3 }
    }
}

/// What a command answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A word or a sentence, as `OK`, without a line break.
    Status(&'static str),
    /// A status whose words are made when it is sent, without a line break.
    Line(Bytes),
    /// An error: a first word in capitals, and a sentence.
    Error(Bytes),
    /// A number.
    Integer(i64),
    /// Bytes.
    Bulk(Bytes),
    /// No bytes.
    Nil,
    /// No array.
    NilArray,
    /// Several replies.
    Array(Vec<Reply>),
    /// Pairs; in RESP2 one array of both.
    Map(Vec<(Reply, Reply)>),
    /// Pairs in an order; in RESP2 one array of both, in RESP3 an array for each.
    Pairs(Vec<(Reply, Reply)>),
    /// Pairs; in RESP2 an array for each, in RESP3 a map.
    Keyed(Vec<(Reply, Reply)>),
    /// Several replies in no order; in RESP2 an array.
    Set(Vec<Reply>),
    /// Several replies, one behind the other, as if they were those of several commands.
    Several(Vec<Reply>),
    /// A number; in RESP2 its text.
    Double(f64),
    /// A number without an exponent, with up to 17 digits behind the point; in RESP2 its text.
    Decimal(f64),
    /// In RESP2 1 or 0.
    Bool(bool),
    /// A text for people; in RESP2 bytes.
    Text(Bytes),
    /// A text in a format with a name of three letters; in RESP2 bytes.
    Marked([u8; 3], Bytes),
    /// A number with any number of digits; in RESP2 bytes.
    BigNumber(Bytes),
    /// A reply in the form of a version, whatever the client's is by then.
    Fixed(Protocol, Box<Reply>),
    /// No reply, since the client wants none.
    Silence,
    /// What comes without a command; in RESP2 an array.
    Push(Vec<Reply>),
}

impl Reply {
    /// `OK`.
    pub const OK: Self = Self::Status("OK");

    /// An array of bytes.
    pub fn bulks<T: Into<Bytes>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::Array(items.into_iter().map(|item| Self::Bulk(item.into())).collect())
    }

    /// An error; a line break in it would end it.
    pub fn error(text: impl Into<Bytes>) -> Self {
        let text = text.into();
        let is_end = |byte: &u8| b"\r\n".contains(byte);
        match text.iter().any(is_end) {
            true => {
                let plain = text.iter().map(|byte| if is_end(byte) { b' ' } else { *byte });
                Self::Error(plain.collect())
            }
            false => Self::Error(text),
        }
    }

    /// Memory that it takes, in bytes, about.
    pub fn memory(&self) -> usize {
        let all = |items: &[Self]| items.iter().map(Self::memory).sum();
        let all_pairs = |pairs: &[(Self, Self)]| {
            pairs.iter().map(|(key, value)| key.memory() + value.memory()).sum()
        };
        let inner = match self {
            Self::Line(bytes) | Self::Error(bytes) | Self::Bulk(bytes) => bytes.len(),
            Self::Text(bytes) | Self::Marked(_, bytes) | Self::BigNumber(bytes) => bytes.len(),
            Self::Array(items) | Self::Set(items) => all(items),
            Self::Several(items) | Self::Push(items) => all(items),
            Self::Map(pairs) | Self::Pairs(pairs) | Self::Keyed(pairs) => all_pairs(pairs),
            Self::Fixed(_, reply) => reply.memory(),
            _ => 0,
        };
        size_of::<Self>() + inner
    }

    /// Bytes of the bulks in it, or of its line.
    pub fn bulk_len(&self) -> usize {
        match self {
            Self::Bulk(bytes) | Self::Line(bytes) => bytes.len(),
            Self::Push(items) => items.iter().map(Self::bulk_len).sum(),
            _ => 0,
        }
    }

    /// Appends it to what is sent.
    pub fn write(&self, protocol: Protocol, out: &mut BytesMut) {
        let is_old = protocol == Protocol::Two;
        match self {
            Self::Status(text) => line(out, b'+', text.as_bytes()),
            Self::Line(text) => line(out, b'+', text),
            Self::Error(text) => line(out, b'-', text),
            Self::Integer(number) => head(out, b':', *number),
            Self::Bulk(bytes) => bulk(out, b'$', &[bytes]),
            Self::Nil if is_old => out.put_slice(b"$-1\r\n"),
            Self::NilArray if is_old => out.put_slice(b"*-1\r\n"),
            Self::Nil | Self::NilArray => out.put_slice(b"_\r\n"),
            Self::Array(items) => all(ReplyForm::Array, items, protocol, out),
            Self::Set(items) => all(ReplyForm::Set, items, protocol, out),
            Self::Push(items) => all(ReplyForm::Push, items, protocol, out),
            Self::Map(pairs) => all_pairs(ReplyForm::Map, pairs, protocol, out),
            Self::Keyed(pairs) => all_pairs(ReplyForm::Keyed, pairs, protocol, out),
            Self::Pairs(pairs) => all_pairs(ReplyForm::Pairs, pairs, protocol, out),
            Self::Several(replies) => replies.iter().for_each(|it| it.write(protocol, out)),
            Self::Double(number) if is_old => bulk(out, b'$', &[double(*number).as_bytes()]),
            Self::Double(number) => line(out, b',', double(*number).as_bytes()),
            Self::Decimal(number) if is_old => bulk(out, b'$', &[decimal(*number).as_bytes()]),
            Self::Decimal(number) => line(out, b',', decimal(*number).as_bytes()),
            Self::Bool(yes) if is_old => head(out, b':', i64::from(*yes)),
            Self::Bool(yes) => line(out, b'#', if *yes { b"t" } else { b"f" }),
            Self::Fixed(protocol, reply) => reply.write(*protocol, out),
            Self::Silence => {}
            Self::Text(text) | Self::Marked(_, text) | Self::BigNumber(text) if is_old => {
                bulk(out, b'$', &[text]);
            }
            Self::Text(text) => bulk(out, b'=', &[b"txt:", text]),
            Self::Marked(format, text) => bulk(out, b'=', &[format, b":", text]),
            Self::BigNumber(digits) => line(out, b'(', digits),
        }
    }
}

fn line(out: &mut BytesMut, kind: u8, text: &[u8]) {
    out.reserve(text.len() + 3);
    out.put_u8(kind);
    out.put_slice(text);
    out.put_slice(b"\r\n");
}

fn head(out: &mut BytesMut, kind: u8, number: i64) {
    line(out, kind, itoa::Buffer::new().format(number).as_bytes());
}

fn bulk(out: &mut BytesMut, kind: u8, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    head(out, kind, len as i64);
    out.reserve(len + 2);
    parts.iter().for_each(|part| out.put_slice(part));
    out.put_slice(b"\r\n");
}

fn all(form: ReplyForm, items: &[Reply], protocol: Protocol, out: &mut BytesMut) {
    form.begin(items.len() as u64, protocol, out);
    items.iter().for_each(|item| item.write(protocol, out));
}

fn all_pairs(form: ReplyForm, pairs: &[(Reply, Reply)], protocol: Protocol, out: &mut BytesMut) {
    form.begin(pairs.len() as u64, protocol, out);
    pairs.iter().for_each(|(key, value)| form.write_pair(key, value, protocol, out));
}

/// The form of a reply that has several parts; see the variants of [`Reply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyForm {
    /// Several replies.
    Array,
    /// Several replies in no order.
    Set,
    /// What comes without a command.
    Push,
    /// Pairs.
    Map,
    /// Pairs in an order.
    Pairs,
    /// Pairs, in RESP2 an array for each.
    Keyed,
}

impl ReplyForm {
    /// Appends what stands in front of a number of parts or pairs.
    pub fn begin(self, count: u64, protocol: Protocol, out: &mut BytesMut) {
        let kind = match (self, protocol) {
            (_, Protocol::Two) | (Self::Array | Self::Pairs, _) => b'*',
            (Self::Set, _) => b'~',
            (Self::Push, _) => b'>',
            (Self::Map | Self::Keyed, _) => b'%',
        };
        let is_flat = protocol == Protocol::Two && matches!(self, Self::Map | Self::Pairs);
        head(out, kind, count.cast_signed() * if is_flat { 2 } else { 1 });
    }

    /// Appends a pair.
    pub fn write_pair(self, key: &Reply, value: &Reply, protocol: Protocol, out: &mut BytesMut) {
        let is_nested = match protocol {
            Protocol::Two => self == Self::Keyed,
            Protocol::Three => self == Self::Pairs,
        };
        if is_nested {
            head(out, b'*', 2);
        }
        key.write(protocol, out);
        value.write(protocol, out);
    }
}

/// The text of a number without an exponent, as C's `%.17f` but for zeros at the end.
pub fn decimal(number: f64) -> String {
    let text = format!("{number:.17}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// The text of a number as Redis 7.0 has it: that of C's `%.17g`.
pub fn double(number: f64) -> String {
    general(number, 17)
}

/// The text of a number as C's `%g` has it, with `most` digits.
pub fn general(number: f64, most: u16) -> String {
    let most = i32::from(most.max(1));
    if !number.is_finite() {
        let text = if number.is_nan() { "nan" } else { "inf" };
        return format!("{}{text}", if number < 0.0 { "-" } else { "" });
    }
    let scientific = format!("{number:.*e}", most as usize - 1);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..most).contains(&exponent) {
        return trimmed(&format!("{number:.*}", (most - 1 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &Reply) -> [String; 2] {
        [Protocol::Two, Protocol::Three].map(|protocol| {
            let mut out = BytesMut::new();
            reply.write(protocol, &mut out);
            String::from_utf8(out.to_vec()).unwrap()
        })
    }

    #[test]
    fn each_version_has_its_form() {
        let bulk = |text: &'static str| Reply::Bulk(text.into());
        for (reply, two, three) in [
            (Reply::OK, "+OK\r\n", "+OK\r\n"),
            (Reply::error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (Reply::Integer(-5), ":-5\r\n", ":-5\r\n"),
            (bulk(""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (Reply::Nil, "$-1\r\n", "_\r\n"),
            (Reply::NilArray, "*-1\r\n", "_\r\n"),
            (
                Reply::bulks(["a", "bc"]),
                "*2\r\n$1\r\na\r\n$2\r\nbc\r\n",
                "*2\r\n$1\r\na\r\n$2\r\nbc\r\n",
            ),
            (
                Reply::Map(vec![(bulk("k"), Reply::Bool(true))]),
                "*2\r\n$1\r\nk\r\n:1\r\n",
                "%1\r\n$1\r\nk\r\n#t\r\n",
            ),
            (
                Reply::Pairs(vec![(bulk("k"), Reply::Integer(1))]),
                "*2\r\n$1\r\nk\r\n:1\r\n",
                "*1\r\n*2\r\n$1\r\nk\r\n:1\r\n",
            ),
            (
                Reply::Keyed(vec![(bulk("k"), Reply::Integer(1))]),
                "*1\r\n*2\r\n$1\r\nk\r\n:1\r\n",
                "%1\r\n$1\r\nk\r\n:1\r\n",
            ),
            (Reply::Set(vec![Reply::Bool(false)]), "*1\r\n:0\r\n", "~1\r\n#f\r\n"),
            (Reply::Push(vec![]), "*0\r\n", ">0\r\n"),
            (Reply::Double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (Reply::Decimal(0.1), "$19\r\n0.10000000000000001\r\n", ",0.10000000000000001\r\n"),
            (Reply::Decimal(-0.0), "$1\r\n0\r\n", ",0\r\n"),
            (Reply::Decimal(120.0), "$3\r\n120\r\n", ",120\r\n"),
            (Reply::Fixed(Protocol::Two, Box::new(Reply::Nil)), "$-1\r\n", "$-1\r\n"),
            (Reply::Silence, "", ""),
            (Reply::Several(vec![Reply::OK, Reply::Nil]), "+OK\r\n$-1\r\n", "+OK\r\n_\r\n"),
            (Reply::Text("hi".into()), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
            (Reply::Marked(*b"mkd", "hi".into()), "$2\r\nhi\r\n", "=6\r\nmkd:hi\r\n"),
            (Reply::BigNumber("12".into()), "$2\r\n12\r\n", "(12\r\n"),
            (Reply::Line("FINE".into()), "+FINE\r\n", "+FINE\r\n"),
        ] {
            assert_eq!(written(&reply), [two, three], "{reply:?}");
        }
    }

    #[test]
    fn doubles_are_those_of_c() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (3.1, "3.1000000000000001"),
            (-1e-5, "-1.0000000000000001e-05"),
            (0.0001, "0.0001"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(double(number), text);
        }
    }
}
