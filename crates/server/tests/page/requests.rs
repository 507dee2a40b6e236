//! Drawn requests: of every path, cut, doubled, with other hosts, and with bodies that do not fit.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config as Runs, TestRunner};

use crate::TOKEN;

/// How a request may begin.
const METHODS: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PRI", "get", ""];

/// How its first line may end.
const VERSIONS: [&str; 5] = ["HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/1.1 ", ""];

/// Beginnings of what follows the method.
const PATHS: [&str; 20] = [
    "/",
    "/login",
    "/script.js",
    "/style.css",
    "/icon.svg",
    "/health/live",
    "/health/ready",
    "/metrics",
    "/api/live",
    "/api/keys",
    "/api/key",
    "/api/edit",
    "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "//etc/passwd",
    "/api/key%00",
    "http://example.com/metrics",
    "*",
    "nowhere",
    "",
];

/// What may stand behind a path.
const QUERIES: [&str; 10] = [
    "",
    "?",
    "?token=0123456789abcdef",
    "?key=6b",
    "?key=zz",
    "?key=%36%62&database=99999999999999999999",
    "?database=-1&from=00",
    "?prefix=%ff%00&from=%",
    "#/..",
    "?key=\u{e9}",
];

/// Lines of a head: the host, the page that asks, and how long the body is.
const LINES: [&[u8]; 26] = [
    b"Host: localhost",
    b"Host: 127.0.0.1:80",
    b"Host: other.example",
    b"Host: localhost, other.example",
    b"Host: \xff\xfe",
    b"Host:",
    b"Origin: http://example.com",
    b"Origin: null",
    b"Cookie: cleave-1=0123456789abcdef; =; ;",
    b"Authorization: Bearer \xc3\xa9",
    b"Authorization: Basic OjA=",
    b"Content-Type: application/json",
    b"Content-Type: application/x-www-form-urlencoded",
    b"Content-Type: \x80",
    b"Content-Length: 0",
    b"Content-Length: 5",
    b"Content-Length: -1",
    b"Content-Length: 99999999999999999999",
    b"Content-Length: 4000000000",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Expect: 100-continue",
    b"Upgrade: h2c",
    b"Range: bytes=0-99999999999",
    b" folded",
    b"No colon",
];

/// What may follow a head.
const BODIES: [&[u8]; 10] = [
    b"",
    b"token=x",
    br#"{"words":["set","k","other"]}"#,
    br#"{"words":[{"hex":"zz"}],"database":-1}"#,
    b"[[[[[[[[[[[[[[[[[[[[",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"fffffffffffffffff\r\nx",
    b"-1\r\n\r\n",
    b"3;a=\"\r\n\r\n\r\nabc\r\n0\r\nX: y\r\n\r\n",
    b"\0\xff\xff\0",
];

/// One request, which may be none.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let seldom = |other: usize| prop_oneof![9 => Just(0), 1 => Just(other)];
    let target = (select(&PATHS[..]), seldom(40_000), select(&QUERIES[..]));
    let begin = (select(&METHODS[..]), target, select(&VERSIONS[..]));
    let lines = vec(select(&LINES[..]), 0..6);
    let end = prop_oneof![9 => Just(&b"\r\n"[..]), 1 => Just(&b"\n"[..])];
    let body = (select(&BODIES[..]), seldom(3 << 20));
    (begin, lines, end, body).prop_map(|(begin, lines, end, (body, more))| {
        let (method, (path, padding, query), version) = begin;
        let begin = format!("{method} {path}{}{query} {version}", "a".repeat(padding));
        let head = [begin.as_bytes()].into_iter().chain(lines).chain([&b""[..]]);
        let mut bytes: Vec<u8> = head.flat_map(|line| [line, end].concat()).collect();
        bytes.extend(body);
        bytes.resize(bytes.len() + more, b'x');
        bytes
    })
}

/// The program in a process of its own, whose memory nothing else takes.
struct Program {
    child: Child,
    redis: String,
    page: String,
}

impl Program {
    fn start(dir: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cleave-server"));
        let any = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-edit", "yes"];
        command.arg("--dir").arg(dir).args(any).args(more).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let [ready, page] =
            lines.take(2).map(Result::unwrap).collect::<Vec<_>>().try_into().unwrap();
        let redis = ready.split_once(" -h ").unwrap().1.replace(" -p ", ":");
        let page = page.rsplit_once('/').unwrap().1.to_owned();
        Self { child, redis, page }
    }

    /// What comes back for bytes that are sent in pieces with a rest between them, behind which the
    /// client says that it has no more.
    fn answer(address: &str, bytes: &[u8], pieces: usize) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // A client that is told what goes on is not listened to.
        client.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        for piece in bytes.chunks(bytes.len().div_ceil(pieces).max(1)) {
            // The server may have answered and gone.
            let _ = client.write_all(piece);
            std::thread::sleep(Duration::from_micros(50));
        }
        let _ = client.shutdown(Shutdown::Write);
        let (mut answers, mut piece) = (Vec::new(), [0; 4096]);
        // What goes on is told without an end.
        while !answers.windows(12).any(|bytes| bytes == b"event-stream") {
            match client.read(&mut piece) {
                Ok(len @ 1..) => answers.extend(&piece[..len]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
            }
        }
        String::from_utf8_lossy(&answers).into_owned()
    }

    fn redis(&self, line: &str) -> String {
        Self::answer(&self.redis, format!("{line}\r\n").as_bytes(), 1)
    }

    fn is_live(&self) -> bool {
        let request = b"GET /health/live HTTP/1.0\r\nHost: localhost\r\n\r\n";
        Self::answer(&self.page, request, 1).ends_with("live\n")
    }

    /// Most memory that it has had, in KiB.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        most.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The statuses of answers, one behind the other.
fn statuses(answers: &str) -> Vec<u16> {
    let heads = answers.split("HTTP/1.").skip(1);
    heads.filter_map(|head| head.get(2..5)?.parse().ok()).collect()
}

/// Whatever comes, it gets answers that are none of the server's own errors, soon, and without what
/// it may not see.
#[test]
fn drawn_requests_end_no_server_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    let open = Program::start(&dir.path().join("open"), &[]);
    let token = ["--http-token-file", token.to_str().unwrap()];
    let with_token = Program::start(&dir.path().join("closed"), &token);
    let all = [&open, &with_token];
    all.iter().for_each(|server| assert_eq!(server.redis("SET k own"), "+OK\r\n"));
    // Up to three requests, and of how many parts of a hundred they are sent.
    let sent = (any::<bool>(), vec(request(), 1..4), 0..200_usize, 1..9_usize);
    let mut runner =
        TestRunner::new(Runs { cases: 1000, failure_persistence: None, ..Runs::default() });
    let result = runner.run(&sent, |(is_open, requests, part, pieces)| {
        let bytes = requests.concat();
        let bytes = &bytes[..bytes.len() * part.min(100) / 100];
        let (server, begun) = (if is_open { &open } else { &with_token }, Instant::now());
        let answers = Program::answer(&server.page, bytes, pieces);
        let told = statuses(&answers);
        prop_assert!(begun.elapsed() < Duration::from_secs(5), "late: {told:?}");
        let may_be = |status: &u16| matches!(status, 100 | 200 | 303 | 400..=431 | 505);
        let may_be_more = answers.contains("watch already");
        prop_assert!(may_be_more || told.iter().all(may_be), "{told:?}");
        let names = |name: &str| bytes.windows(name.len()).any(|it| it == name.as_bytes());
        let is_ours = names("localhost") || names("127.0.0.1");
        let may_see = is_open && is_ours;
        prop_assert!(may_see || !answers.contains("cleavedb_"), "{answers}");
        prop_assert!(is_ours || !is_open || !told.contains(&200), "{answers}");
        prop_assert!(!answers.contains("root:x:") && !answers.contains(TOKEN), "{answers}");
        Ok(())
    });
    result.unwrap();
    for server in all {
        assert!(server.is_live());
        assert_eq!(server.redis("GET k"), "$3\r\nown\r\n");
        let memory = server.memory();
        assert!(memory < 100 << 10, "{memory} KiB");
    }
}
