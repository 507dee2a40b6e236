//! The page: health, metrics, tokens, and requests that are none.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use cleavedb_server::{Config, Running, start};

mod metrics;
mod requests;

const TOKEN: &str = "0123456789abcdef0123";

/// A server with a page, which is stopped at the end of its test.
struct Server {
    running: Option<Running>,
    dir: tempfile::TempDir,
}

/// What a server answered.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Server {
    fn start(change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(&dir);
        change(&mut config);
        Self { running: Some(start(config).unwrap()), dir }
    }

    /// A server whose page asks for the token.
    fn with_token() -> Self {
        Self::start(|config| config.http_token_file = Some(token_file(config, TOKEN)))
    }

    fn page(&self) -> SocketAddr {
        self.running.as_ref().unwrap().http_address().unwrap()
    }

    /// The replies of the server to these lines.
    fn redis(&self, lines: &str) -> String {
        let mut client = TcpStream::connect(self.running.as_ref().unwrap().addresses()[0]).unwrap();
        client.write_all(format!("{lines}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut replies = String::new();
        client.read_to_string(&mut replies).unwrap();
        replies
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.page()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client
    }

    /// The answer to what is sent, up to the end of the connection.
    fn sent(&self, request: &[u8]) -> Answer {
        let mut client = self.connect();
        // The server may have answered and gone before all is sent.
        let _ = client.write_all(request);
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    fn asked(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let mut lines = vec![format!("{method} {path} HTTP/1.1"), "Connection: close".to_owned()];
        if !headers.iter().any(|line| line.starts_with("Host:")) {
            lines.push(format!("Host: {}", self.page()));
        }
        lines.extend(headers.iter().map(|line| (*line).to_owned()));
        lines.push(format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        self.sent(lines.join("\r\n").as_bytes())
    }

    fn get(&self, path: &str, headers: &[&str]) -> Answer {
        self.asked("GET", path, headers, "")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let running = self.running.take().unwrap();
        running.stop();
        running.wait().unwrap();
    }
}

fn config(dir: &tempfile::TempDir) -> Config {
    let mut config = Config::new(dir.path().join("store"));
    config.listen = vec!["127.0.0.1:0".parse().unwrap()];
    config.http = Some("127.0.0.1:0".parse().unwrap());
    config
}

/// A file with a token, beside the store.
fn token_file(config: &Config, token: &str) -> std::path::PathBuf {
    let path = config.dir.with_file_name("token");
    std::fs::write(&path, format!("{token}\n")).unwrap();
    path
}

/// Why a server does not start.
fn refusal(change: impl FnOnce(&mut Config)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&dir);
    change(&mut config);
    let why = start(config).err().expect("a server that does not start").to_string();
    assert!(!dir.path().join("store").exists());
    why
}

#[test]
fn health_and_metrics_are_those_of_the_server() {
    let server = Server::start(|_| {});
    server.redis("SET a 1\r\nGET a");
    assert_eq!(server.get("/health/live", &[]).body, "live\n");
    let ready = server.get("/health/ready", &[]);
    assert_eq!((ready.status, &*ready.body), (200, "ready\n"));
    let metrics = server.get("/metrics", &[]);
    assert!(metrics.head.contains("content-type: text/plain; version=0.0.4"));
    assert!(metrics.body.contains("\ncleavedb_server_commands_total 3\n"), "{}", metrics.body);
    assert!(metrics.body.contains("\ncleavedb_writes_total "));
}

#[test]
fn a_server_that_stops_is_alive_but_not_ready() {
    let server = Server::start(|_| {});
    server.running.as_ref().unwrap().stop();
    assert_eq!(server.get("/health/live", &[]).status, 200);
    assert_eq!(server.get("/health/ready", &[]).status, 503);
}

#[test]
fn every_answer_tells_the_browser_to_be_careful() {
    let server = Server::with_token();
    for path in ["/", "/login", "/style.css", "/metrics", "/api/live", "/nowhere"] {
        let head = server.get(path, &[]).head;
        for line in [
            "content-security-policy: default-src 'self'; ",
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "referrer-policy: no-referrer",
        ] {
            assert!(head.contains(line), "{path}: {head}");
        }
    }
}

#[test]
fn names_that_other_sites_gave_this_machine_are_refused() {
    let server = Server::start(|_| {});
    for host in ["Host: evil.example", "Host: localhost.evil.example:80"] {
        assert_eq!(server.get("/metrics", &[host]).status, 421, "{host}");
    }
    for host in ["Host: localhost", "Host: [::1]:80", "Host: 127.0.0.1"] {
        assert_eq!(server.get("/metrics", &[host]).status, 200, "{host}");
    }
    assert_eq!(server.sent(b"GET /metrics HTTP/1.0\r\n\r\n").status, 421);
}

#[test]
fn a_token_opens_all_doors_and_no_other_one_does() {
    let server = Server::with_token();
    for path in ["/health/live", "/health/ready", "/login", "/style.css"] {
        assert_eq!(server.get(path, &[]).status, 200, "{path}");
    }
    let page = server.get("/", &[]);
    assert_eq!((page.status, page.head.contains("location: /login")), (303, true));
    let wrong = TOKEN.replace('f', "e");
    for token in ["", "x", &TOKEN[1..], &wrong] {
        for path in ["/metrics", "/api/live", "/script.js"] {
            let bearer = format!("Authorization: Bearer {token}");
            let cookie = format!("Cookie: cleave-{}={token}", server.page().port());
            let answer = server.get(path, &[&bearer, &cookie]);
            assert_eq!(answer.status, 401, "{path} {token}");
        }
        let answer = server.asked("POST", "/login", &[FORM], &format!("token={token}"));
        assert!(answer.head.contains("location: /login#wrong"), "{token}");
        assert!(!answer.head.contains("set-cookie"));
    }
    let bearer = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(server.get("/metrics", &[&bearer]).status, 200);
    let by_form = server.asked("POST", "/login", &[FORM], &format!("token={TOKEN}"));
    for answer in [by_form, server.get(&format!("/?token={TOKEN}"), &[])] {
        assert!(answer.head.contains("location: /\r\n"), "{}", answer.head);
        let cookie = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        let (cookie, how) = cookie.unwrap().split_once("; ").unwrap();
        assert_eq!(how, "path=/; httponly; samesite=strict");
        assert_eq!(server.get("/", &[&format!("Cookie: a=b; {cookie}")]).status, 200);
    }
}

const FORM: &str = "Content-Type: application/x-www-form-urlencoded";

#[test]
fn what_would_be_open_to_all_does_not_start() {
    let beyond = |config: &mut Config| config.http = Some("0.0.0.0:0".parse().unwrap());
    assert!(refusal(beyond).contains("--http-token-file"));
    let why = refusal(|config| config.http_token_file = Some(token_file(config, "short")));
    assert!(why.contains("openssl rand -hex 32"), "{why}");
    let why = refusal(|config| config.http_token_file = Some("/nowhere/token".into()));
    assert!(why.contains("/nowhere/token"), "{why}");
    let browse = |config: &mut Config| {
        config.requirepass = Some("secret".to_owned());
        config.http_browse = Some(true);
    };
    assert!(refusal(browse).contains("--http-browse"));
    let taken = Server::start(|_| {});
    let page = taken.page();
    let why = start(Config { http: Some(page), ..config(&tempfile::tempdir().unwrap()) });
    assert!(why.err().unwrap().to_string().contains("in use"), "{}", taken.dir.path().display());
}

#[test]
fn changes_need_a_header_that_other_sites_cannot_send() {
    let server = Server::start(|_| {});
    assert_eq!(server.asked("POST", "/metrics", &[], "").status, 403);
    assert_eq!(server.asked("POST", "/metrics", &["X-Cleave-Page: 1"], "").status, 405);
}

#[test]
fn what_is_no_request_ends_its_connection_alone() {
    let server = Server::start(|_| {});
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(64 << 10));
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "A: b\r\n".repeat(1000));
    for (request, statuses) in [
        (&b"\0\xff\xff\r\n\r\n"[..], &[400][..]),
        (b"*1\r\n$4\r\nPING\r\n", &[400]),
        (b"GET / HTTP/9.9\r\n\r\n", &[400, 505]),
        (long.as_bytes(), &[414, 431]),
        (many.as_bytes(), &[431]),
    ] {
        let status = server.sent(request).status;
        assert!(statuses.contains(&status), "{status}: {:?}", &request[..20.min(request.len())]);
    }
    let mut draw = fastrand::Rng::with_seed(7);
    for _ in 0..200 {
        let noise: Vec<u8> = (0..draw.usize(1..300)).map(|_| draw.u8(..)).collect();
        server.sent(&[&noise[..], b"\r\n\r\n"].concat());
    }
    assert_eq!(server.get("/health/live", &[]).status, 200);
}

#[test]
fn watchers_are_told_each_second_and_those_above_the_most_are_not() {
    let server = Server::start(|_| {});
    let watch = || {
        let mut client = server.connect();
        let host = server.page();
        let request = format!("GET /api/live HTTP/1.1\r\nHost: {host}\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        let mut lines = BufReader::new(client);
        let mut status = String::new();
        lines.read_line(&mut status).unwrap();
        (status, lines)
    };
    let mut watchers: Vec<_> = (0..32).map(|_| watch()).collect();
    assert!(watchers.iter().all(|(status, _)| status.contains("200")));
    assert!(watch().0.contains("503"));
    let data = watchers[0].1.by_ref().lines().map(Result::unwrap);
    let mut data = data.filter_map(|line| line.strip_prefix("data: ").map(str::to_owned));
    for _ in 0..2 {
        let figures: serde_json::Value = serde_json::from_str(&data.next().unwrap()).unwrap();
        assert_eq!(figures["clients"]["count"], 0);
    }
    drop(watchers);
    // The places come back when the server sees that their watchers have gone.
    while !watch().0.contains("200") {}
}

#[test]
fn connections_that_say_nothing_leave_room_for_others() {
    let server = Server::start(|_| {});
    let held: Vec<_> = (0..100).map(|_| server.connect()).collect();
    assert_eq!(server.get("/health/live", &[]).status, 200);
    drop(held);
}

/// The value of a line of `INFO`.
fn value<'a>(info: &'a str, name: &str) -> &'a str {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name} in {info}"))
}

/// What a watcher of the page is told next.
fn told(server: &Server) -> serde_json::Value {
    let mut client = server.connect();
    let host = server.page();
    let request = format!("GET /api/live HTTP/1.1\r\nHost: {host}\r\n\r\n");
    client.write_all(request.as_bytes()).unwrap();
    let lines = BufReader::new(client).lines().map(Result::unwrap);
    let mut data = lines.filter_map(|line| line.strip_prefix("data: ").map(str::to_owned));
    serde_json::from_str(&data.next().unwrap()).unwrap()
}

#[test]
fn every_call_is_counted_once_with_what_became_of_it() {
    let server = Server::start(|_| {});
    let lines = [
        "SET a 1",
        "SET b 2",
        "SET c",
        "INCR a",
        "SETRANGE a 536870912 x",
        "NOSUCH a",
        "MULTI",
        "GET a",
        "GET b",
        "INCRBY a 9223372036854775807",
        "EXEC",
        "GET a",
        "DBSIZE",
    ];
    server.redis(&lines.join("\r\n"));
    let info = server.redis("INFO all");
    for (name, begin) in [
        ("cmdstat_set", "calls=2,usec="),
        ("cmdstat_get", "calls=3,usec="),
        ("cmdstat_exec", "calls=1,usec="),
        ("cmdstat_setrange", "calls=1,usec="),
        ("errorstat_ERR", "count=4"),
        ("db0", "keys=2"),
        ("total_error_replies", "4"),
    ] {
        assert!(value(&info, name).starts_with(begin), "{name} {}", value(&info, name));
    }
    assert!(value(&info, "cmdstat_set").ends_with("rejected_calls=1,failed_calls=0"));
    assert!(value(&info, "cmdstat_setrange").ends_with("rejected_calls=0,failed_calls=1"));
    assert!(value(&info, "latency_percentiles_usec_get").starts_with("p50="));
    assert!(!info.contains("cmdstat_nosuch"));
    let memory = server.redis("MEMORY STATS");
    assert!(memory.contains("keys.count\r\n:2\r\n"), "{memory}");
    let [peak, total, dataset] = ["peak.allocated", "total.allocated", "dataset.bytes"].map(|it| {
        let number = memory.split_once(&format!("{it}\r\n:")).unwrap().1;
        number.split_once("\r\n").unwrap().0.parse::<u64>().unwrap()
    });
    // A process has more than a megabyte.
    assert!(peak.min(total) > 1 << 20 && (1..total).contains(&dataset), "{memory}");
    let told = server.redis("CONFIG RESETSTAT\r\nINFO commandstats errorstats");
    assert!(!told.contains("cmdstat_set:") && !told.contains("errorstat_"), "{told}");
}

#[test]
fn sections_are_those_that_are_asked_for() {
    let server = Server::start(|_| {});
    let sections = |words: &str| {
        let info = server.redis(&format!("INFO {words}"));
        let heads = info.lines().filter_map(|line| line.strip_prefix("# ").map(str::to_owned));
        heads.collect::<Vec<_>>().join(" ")
    };
    let default = "Server Clients Memory Persistence Stats Replication CPU Errorstats Cluster \
                   Keyspace CleaveDB";
    assert_eq!(sections(""), default);
    assert_eq!(sections("default"), default);
    assert_eq!(sections("memory SERVER nothing"), "Server Memory");
    assert!(sections("everything").contains("Commandstats Errorstats Latencystats"));
    let info = server.redis("INFO");
    let number = |name| value(&info, name).parse::<f64>().unwrap();
    assert!(number("used_memory_rss") <= number("total_system_memory"));
    assert!(number("space_amplification_goal") >= 1.0 && number("connected_clients") >= 1.0);
}

#[test]
fn slow_commands_are_kept_without_passwords() {
    let server = Server::start(|config| {
        config.slowlog_log_slower_than = 0;
        config.requirepass = Some("secret".to_owned());
        config.http_token_file = Some(token_file(config, TOKEN));
    });
    let long = "x".repeat(200);
    let auth = "AUTH secret\r\nHELLO 2 AUTH default secret";
    let lines =
        format!("{auth}\r\nSET a {long}\r\nCONFIG SET requirepass secret\r\nSLOWLOG GET -1");
    let log = server.redis(&lines);
    let log = log.rsplit_once("\r\n*").map_or("", |_| &log);
    assert_eq!(log.matches("secret").count(), 0, "{log}");
    assert!(log.contains("(redacted)") && log.contains("... (72 more bytes)"), "{log}");
    let kept = server.redis("AUTH secret\r\nSLOWLOG RESET\r\nSLOWLOG LEN");
    assert!(kept.contains(":1\r\n"), "{kept}");
    let queued = "MULTI\r\nSTRLEN a\r\nEXEC\r\nSLOWLOG GET";
    let queued = server.redis(&format!("AUTH secret\r\n{queued}"));
    assert!(queued.contains("$6\r\nSTRLEN\r\n") && !queued.contains("$4\r\nEXEC"), "{queued}");
    let pipeline = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n".repeat(100);
    let gathered = server.redis(&format!("AUTH secret\r\n{pipeline}SLOWLOG GET"));
    let first = "$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n$";
    assert!(gathered.contains(first) && gathered.contains(" more commands)"), "{gathered}");
}

#[test]
fn watchers_see_commands_jobs_and_slow_commands() {
    let server = Server::start(|config| {
        config.slowlog_log_slower_than = 0;
        config.store = vec!["memory_bytes=48MiB".to_owned(), "preset=lsm".to_owned()];
    });
    let value = "v".repeat(60_000);
    let writes: String = (0..800).map(|key| format!("SET {key} {value}\r\n")).collect();
    server.redis(&format!("{writes}GET 1\r\nKEYS x*"));
    let told = std::iter::repeat_with(|| {
        std::thread::sleep(Duration::from_millis(200));
        told(&server)
    });
    let is_whole = |told: &serde_json::Value| {
        told["calls"][1]["recent"].as_u64() >= Some(800) && told["jobs"][0]["ended"] == true
    };
    let told = told.take(100).find(is_whole).expect("calls and jobs that are told");
    assert_eq!(told["calls"][1]["group"], "writes");
    assert!(told["calls"][1]["p99"].as_f64() > told["calls"][1]["p50"].as_f64().map(|it| it / 2.0));
    assert_eq!((&told["calls"][0]["recent"], &told["calls"][2]["recent"]), (&1.into(), &1.into()));
    assert!(told["amplification"]["user_bytes"].as_u64() > Some(40_000_000));
    assert!(told["slow"][0]["args"].as_array().is_some_and(|args| !args.is_empty()));
    assert_eq!(told["advice"], serde_json::json!([]));
    assert_eq!(
        (&told["server"]["browses"], &told["server"]["edits"]),
        (&true.into(), &false.into())
    );
}

#[test]
fn the_page_and_info_tell_what_the_store_has_decided() {
    let server = Server::start(|_| {});
    let info = server.redis("INFO cleavedb");
    let decided = value(&info, "decided");
    assert!(decided.contains("so level 0 may have "), "{decided}");
    assert!(decided.ends_with("writers are not slowed"), "{decided}");
    let told = told(&server);
    assert_eq!(
        (&told["decided"], &told["files"]["separated_from"]),
        (&decided.into(), &768.into())
    );
}

#[test]
fn metrics_and_info_tell_what_to_do() {
    let server = Server::start(|config| config.max_clients = 1);
    let _held = TcpStream::connect(server.running.as_ref().unwrap().addresses()[0]).unwrap();
    let advised = |metrics: &str| metrics.contains("cleavedb_server_advice{name=\"clients\"} 1\n");
    while !advised(&server.get("/metrics", &[]).body) {}
    assert!(told(&server)["advice"][0]["cause"].as_str().unwrap().contains("1 of at most 1"));
    let metrics = server.get("/metrics", &[]).body;
    assert!(metrics.contains("cleavedb_server_advice{name=\"poisoned\"} 0\n"));
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn json(answer: &Answer) -> serde_json::Value {
    let why = || panic!("{} {}", answer.status, answer.body);
    serde_json::from_str(&answer.body).unwrap_or_else(|_| why())
}

#[test]
fn keys_are_listed_page_by_page_and_shown_with_their_values() {
    let server = Server::start(|_| {});
    let sets: String = (0..120).map(|key| format!("SET k{key:03} {key}\r\n")).collect();
    let lines = [
        "SET other \"\\xff\\x00\" EX 1000",
        "HSET h a 1",
        "ZADD z inf c 1.5 b -inf a",
        "RPUSH l x y",
        "SADD s m",
        "XADD x 1-2 a b",
        "SELECT 3",
        "SET x y",
    ];
    server.redis(&[&sets, &*lines.join("\r\n")].concat());
    let mut from = String::new();
    let mut pages = Vec::new();
    loop {
        let query = format!("/api/keys?prefix={}&from={from}", hex("k"));
        let page = json(&server.get(&query, &[]));
        pages.push(page["keys"].as_array().unwrap().len());
        match page["next"].as_str() {
            Some(next) => from = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(pages, [50, 50, 20]);
    let other = json(&server.get("/api/keys?database=3", &[]));
    assert_eq!(other["keys"], serde_json::json!([{ "key": "78", "text": "x" }]));
    let show = |key| json(&server.get(&format!("/api/key?key={}", hex(key)), &[]));
    let shown = show("k007");
    assert_eq!((&shown["value"], &shown["millis_left"]), (&"7".into(), &None::<u64>.into()));
    let shown = show("other");
    assert_eq!((&shown["value"]["hex"], &shown["len"]), (&"ff00".into(), &2.into()));
    assert!((1..=1_000_000).contains(&shown["millis_left"].as_i64().unwrap()));
    for (key, len, rows) in [
        ("h", 1, serde_json::json!([["a", "1"]])),
        ("z", 3, serde_json::json!([["a", "-inf"], ["b", "1.5"], ["c", "inf"]])),
        ("l", 2, serde_json::json!([[0, "x"], [1, "y"]])),
        ("s", 1, serde_json::json!([["m"]])),
        ("x", 1, serde_json::json!([["1-2", "a", "b"]])),
    ] {
        let shown = show(key);
        assert_eq!((&shown["rows"], &shown["len"]), (&rows, &len.into()), "{key}");
    }
    assert_eq!(show("nothing")["type"], "none");
    for path in ["/api/keys?prefix=0", "/api/keys?database=16", "/api/key?key=zz", "/api/key"] {
        assert_eq!(server.get(path, &[]).status, 400, "{path}");
    }
}

/// A list of 40 values of a MiB, a hash of 300 fields, and a stream of 1000 fields in an entry.
#[test]
fn a_large_value_is_shown_by_its_begin() {
    let server = Server::start(|_| {});
    let value = "v".repeat(1 << 20);
    let words = |words: &[&str]| {
        let head = format!("*{}\r\n", words.len());
        let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        head + &words.collect::<String>()
    };
    let mut lines: String = (0..40).map(|_| words(&["RPUSH", "l", &value])).collect();
    lines.extend((0..300).map(|field| words(&["HSET", "h", &field.to_string(), "\u{e9}"])));
    lines += &words(&[&["XADD", "x", "*"][..], &["field"; 1000]].concat());
    lines += &words(&["SET", "s", &format!("{value}é")]);
    server.redis(&lines);
    let shown = |key| {
        let answer = server.get(&format!("/api/key?key={}", hex(key)), &[]);
        assert!(answer.body.len() < 100_000, "{key} {}", answer.body.len());
        json(&answer)
    };
    let rows = |key| shown(key)["rows"].as_array().unwrap().clone();
    let begin = format!("{}... (1047552 more bytes)", "v".repeat(1024));
    // No more than 16 MiB are read.
    assert_eq!((rows("l").len(), &rows("l")[15]), (16, &serde_json::json!([15, begin])));
    assert_eq!((rows("h").len(), &rows("h")[0]), (100, &serde_json::json!(["0", "\u{e9}"])));
    assert_eq!(
        (shown("h")["len"].as_u64(), rows("x")[0].as_array().unwrap().len()),
        (Some(300), 21)
    );
    assert_eq!(shown("s")["value"].as_str().map(str::len), Some(65_536));
}

const PAGE: [&str; 2] = ["X-Cleave-Page: 1", "Content-Type: application/json"];

#[test]
fn the_page_changes_keys_if_it_may() {
    let server = Server::start(|config| config.http_edit = true);
    let edit = |words: &str| {
        let body = format!("{{\"database\":2,\"words\":{words}}}");
        server.asked("POST", "/api/edit", &PAGE, &body)
    };
    assert_eq!(edit(r#"["set",{"hex":"61"},"one"]"#).status, 200);
    assert_eq!(edit(r#"["pexpire","a","100000"]"#).status, 200);
    assert_eq!(edit(r#"["set",{"hex":"61"},"two","keepttl"]"#).status, 200);
    assert!(server.redis("SELECT 2\r\nGET a\r\nTTL a").contains("$3\r\ntwo\r\n:100\r\n"));
    assert_eq!(json(&edit(r#"["persist","a"]"#)), 1);
    let wrong = edit(r#"["pexpire","a","x"]"#);
    assert_eq!((wrong.status, json(&wrong)["error"].is_string()), (422, true));
    assert_eq!(json(&edit(r#"["del","a"]"#)), 1);
    for words in [r#"["flushall"]"#, r#"["shutdown"]"#, r#"["client","list"]"#, "[]", r#"["no"]"#] {
        assert_eq!(edit(words).status, 403, "{words}");
    }
    assert_eq!(server.asked("POST", "/api/edit", &PAGE[1..], "{}").status, 403);
    let mut client = TcpStream::connect(server.running.as_ref().unwrap().addresses()[0]).unwrap();
    client.write_all(b"CLIENT ID\r\n").unwrap();
    let mut id = [0; 16];
    let len = client.read(&mut id).unwrap();
    let id = String::from_utf8_lossy(&id[1..len - 2]).into_owned();
    assert_eq!(edit(&format!("[\"client\",\"kill\",\"id\",\"{id}\"]")).status, 200);
    assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 0);
    let long = format!(r#"["set","a","{}"]"#, "x".repeat(3 << 20));
    assert_eq!(edit(&long).status, 413);
}

#[test]
fn keys_stay_hidden_where_they_are_to_be() {
    let closed = Server::start(|config| config.http_browse = Some(false));
    let secret = Server::start(|config| config.requirepass = Some("secret".to_owned()));
    // A password that is set while the server runs counts, too.
    let later = Server::start(|config| config.http_edit = true);
    assert_eq!(later.get("/api/keys", &[]).status, 200);
    later.redis("CONFIG SET requirepass secret");
    let fewer = Server::start(|_| {});
    fewer.redis("ACL SETUSER default -@dangerous");
    for server in [&closed, &secret, &later, &fewer] {
        for path in ["/api/keys", "/api/key?key=61"] {
            assert_eq!(server.get(path, &[]).status, 403, "{path}");
        }
        let edit = server.asked("POST", "/api/edit", &PAGE, r#"{"words":["set","a","b"]}"#);
        assert_eq!(edit.status, 403);
        assert_eq!(told(server)["server"]["browses"], false);
    }
    let open = Server::start(|config| {
        config.requirepass = Some("secret".to_owned());
        config.http_token_file = Some(token_file(config, TOKEN));
    });
    open.redis("AUTH secret\r\nSET a b\r\nACL SETUSER default off");
    let bearer = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(open.get("/api/keys", &[&bearer]).status, 200);
    assert_eq!(json(&open.get("/api/key?key=61", &[&bearer]))["value"], "b");
    assert_eq!(open.get("/api/keys", &[]).status, 401);
}
