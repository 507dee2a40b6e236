//! The messages to the Go program and its answers; `wire.go` beside its source says what they are.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use cleavedb_bench::engine::VisitPair;

/// Bytes of a connection's read buffer: a value of 64 KiB arrives in one piece.
const BUFFER_LEN: usize = 80 << 10;

/// The operation that a message requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    Put = b'P',
    Get = b'G',
    Delete = b'D',
    Scan = b'S',
    /// Is answered at once.
    Idle = b'I',
    Settle = b'W',
    Describe = b'O',
    Count = b'C',
    Close = b'Q',
}

/// How an operation ended; a failure is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done; the body is the result.
    Done,
    /// There is no such key.
    Absent,
    /// Some pairs of a scan; more answers follow.
    Part,
}

/// A connection to the Go program, for one client at a time.
pub struct Connection {
    stream: BufReader<UnixStream>,
    message: Vec<u8>,
    body: Vec<u8>,
}

impl Connection {
    /// A connection on `stream`.
    pub fn new(stream: UnixStream) -> Self {
        let stream = BufReader::with_capacity(BUFFER_LEN, stream);
        Self { stream, message: Vec::new(), body: Vec::new() }
    }

    /// Asks for `operation` and waits for its (first) answer, whose body is kept.
    pub fn call(&mut self, operation: Operation, key: &[u8], body: &[u8]) -> io::Result<Answer> {
        self.message.clear();
        self.message.push(operation as u8);
        for part in [key, body] {
            let len = u32::try_from(part.len()).map_err(|_| malformed("too long for a message"))?;
            self.message.extend(len.to_le_bytes());
        }
        self.message.extend(key);
        self.message.extend(body);
        self.stream.get_mut().write_all(&self.message)?;
        self.receive()
    }

    /// The body of the last answer.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Shows up to `limit` pairs from `from` on to `visit`; returns how many.
    pub fn scan(&mut self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> io::Result<usize> {
        let limit = (limit as u64).to_le_bytes();
        let mut answer = self.call(Operation::Scan, from, &limit)?;
        let mut visited = 0;
        while answer == Answer::Part {
            visited += show(&self.body, visit)?;
            answer = self.receive()?;
        }
        Ok(visited)
    }

    fn receive(&mut self) -> io::Result<Answer> {
        let mut header = [0; 5];
        self.stream.read_exact(&mut header)?;
        let [status, len @ ..] = header;
        self.body.resize(u32::from_le_bytes(len) as usize, 0);
        self.stream.read_exact(&mut self.body)?;
        match status {
            0 => Ok(Answer::Done),
            1 => Ok(Answer::Absent),
            2 => Err(io::Error::other(String::from_utf8_lossy(&self.body).into_owned())),
            3 => Ok(Answer::Part),
            _ => Err(malformed("unknown status")),
        }
    }
}

/// Shows the pairs of a part of a scan; returns how many.
fn show(mut part: &[u8], visit: VisitPair<'_>) -> io::Result<usize> {
    let mut visited = 0;
    while !part.is_empty() {
        let (key_len, value_len) = (take_len(&mut part)?, take_len(&mut part)?);
        let (key, value) = (take(&mut part, key_len)?, take(&mut part, value_len)?);
        visit(key, value);
        visited += 1;
    }
    Ok(visited)
}

fn take<'a>(part: &mut &'a [u8], len: usize) -> io::Result<&'a [u8]> {
    part.split_off(..len).ok_or_else(|| malformed("a part of a scan ends too early"))
}

fn take_len(part: &mut &[u8]) -> io::Result<usize> {
    let (bytes, rest) = part.split_first_chunk().ok_or_else(|| malformed("a length is cut off"))?;
    *part = rest;
    Ok(u32::from_le_bytes(*bytes) as usize)
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("message of badger-peer: {what}"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::{Answer, Connection, Operation, show};

    /// The other side of a connection, which has already answered `answers`.
    fn answered(answers: &[u8]) -> (Connection, UnixStream) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(answers).unwrap();
        (Connection::new(ours), theirs)
    }

    #[test]
    fn a_request_carries_lengths_key_and_body() {
        let (mut connection, mut theirs) = answered(b"\0\x02\0\0\0ok");
        assert_eq!(connection.call(Operation::Put, b"key", b"value").unwrap(), Answer::Done);
        assert_eq!(connection.body(), b"ok");
        let mut request = [0; 17];
        theirs.read_exact(&mut request).unwrap();
        assert_eq!(&request, b"P\x03\0\0\0\x05\0\0\0keyvalue");
    }

    #[test]
    fn a_failure_is_an_error_in_the_words_of_the_other_side() {
        let (mut connection, _theirs) = answered(b"\x02\x04\0\0\0full");
        let error = connection.call(Operation::Get, b"key", b"").unwrap_err();
        assert_eq!(error.to_string(), "full");
        let (mut connection, _theirs) = answered(b"\x09\0\0\0\0");
        let error = connection.call(Operation::Get, b"key", b"").unwrap_err();
        assert!(error.to_string().contains("unknown status"));
    }

    #[test]
    fn a_scan_is_made_of_parts() {
        let one = b"\x03\x0c\0\0\0\x01\0\0\0\x03\0\0\0aone";
        let two = b"\x03\x0c\0\0\0\x01\0\0\0\x03\0\0\0btwo";
        let (mut connection, _theirs) = answered(&[&one[..], two, b"\0\0\0\0\0"].concat());
        let mut seen = Vec::new();
        let visited = connection.scan(b"", 9, &mut |key, value| {
            seen.push([key, value].concat());
        });
        assert_eq!(visited.unwrap(), 2);
        assert_eq!(seen, [b"aone", b"btwo"]);
    }

    #[test]
    fn a_part_that_is_cut_off_is_an_error() {
        let whole = b"\x01\0\0\0\x03\0\0\0aone";
        assert_eq!(show(whole, &mut |_, _| {}).unwrap(), 1);
        for len in 1..whole.len() {
            assert!(show(&whole[..len], &mut |_, _| {}).is_err(), "{len}");
        }
    }
}
