//! Keys and values, looked at page by page, and changed.

use std::ops::ControlFlow;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Page;
use crate::clients::Clients;
use crate::command::table;
use crate::exec::Halt;
use crate::observe::times::WorkerTimes;
use crate::resp::reply::Reply;
use crate::session::{ClientSession, RanCommand, now};
use crate::shared::ServerShared;

/// Keys and elements of a page, and bytes of a string that are shown.
const KEYS_MAX: usize = 50;
const ELEMENTS_MAX: &str = "100";
const ELEMENT_LAST: &str = "99";
const STRING_LAST: &str = "65535";

/// Commands that change keys and clients, as far as the page needs them.
const EDITS: [&str; 5] = ["set", "del", "pexpire", "persist", "client|kill"];

/// Where to look for keys; keys are in hexadecimal digits.
#[derive(Deserialize)]
pub(super) struct KeysAsked {
    #[serde(default)]
    database: usize,
    /// What keys begin with.
    #[serde(default)]
    prefix: String,
    /// The key where the page begins.
    #[serde(default)]
    from: String,
}

/// A key, in hexadecimal digits.
#[derive(Deserialize)]
pub(super) struct KeyAsked {
    #[serde(default)]
    database: usize,
    key: String,
}

/// A command.
#[derive(Deserialize)]
pub(super) struct EditAsked {
    #[serde(default)]
    database: usize,
    words: Vec<ShownBytes>,
}

/// Bytes as JSON: a text, or hexadecimal digits.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum ShownBytes {
    Text(String),
    Hex { hex: String },
}

impl ShownBytes {
    fn of(bytes: &[u8]) -> Self {
        match str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Hex { hex: hex(bytes) },
        }
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone().into()),
            Self::Hex { hex } => unhex(hex),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

/// A page of keys, and the key where the next one begins.
pub(super) async fn list(State(page): State<Page>, Query(asked): Query<KeysAsked>) -> Response {
    if !page.browses() {
        return hidden();
    }
    let (Some(prefix), Some(from)) = (unhex(&asked.prefix), unhex(&asked.from)) else {
        return no_hex();
    };
    if !page.has_database(asked.database) {
        return no_database();
    }
    let look = move |shared: &Arc<ServerShared>| {
        let reads = shared.store.reads_at_once(true);
        let view = shared.moment(&reads, now()).view(asked.database);
        let (mut keys, mut next) = (Vec::new(), None);
        let walked = view.walk(from.as_slice().max(&prefix), false, &mut |key, _| {
            if !key.starts_with(&prefix) {
                return ControlFlow::Break(());
            }
            if keys.len() == KEYS_MAX {
                next = Some(hex(key));
                return ControlFlow::Break(());
            }
            keys.push(json!({ "key": hex(key), "text": String::from_utf8_lossy(key) }));
            ControlFlow::Continue(())
        });
        match walked {
            Ok(()) => json!({ "keys": keys, "next": next }),
            Err(Halt::Error(why)) => told(&why),
            Err(Halt::Wait | Halt::Hold | Halt::Long(_) | Halt::Block(_)) => {
                told(&Reply::error("ERR the read waits"))
            }
        }
    };
    answer(&page, look).await
}

/// A key: its type, its deadline and the begin of its value.
pub(super) async fn show(State(page): State<Page>, Query(asked): Query<KeyAsked>) -> Response {
    if !page.browses() {
        return hidden();
    }
    let Some(key) = unhex(&asked.key) else { return no_hex() };
    if !page.has_database(asked.database) {
        return no_database();
    }
    let times = page.times.clone();
    let look = move |shared: &Arc<ServerShared>| {
        let mut session = Visitor::new(shared, times, asked.database);
        let mut run = |words: &[&str]| {
            let mut words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            words.insert(1, &key);
            session.run(&words)
        };
        let kind = run(&["TYPE"]);
        let (len, value) = match told(&kind).as_str().unwrap_or_default() {
            "string" => (run(&["STRLEN"]), run(&["GETRANGE", "0", STRING_LAST])),
            "hash" => (run(&["HLEN"]), run(&["HSCAN", "0", "COUNT", ELEMENTS_MAX])),
            "set" => (run(&["SCARD"]), run(&["SSCAN", "0", "COUNT", ELEMENTS_MAX])),
            "zset" => (run(&["ZCARD"]), run(&["ZRANGE", "0", ELEMENT_LAST, "WITHSCORES"])),
            "list" => (run(&["LLEN"]), run(&["LRANGE", "0", ELEMENT_LAST])),
            "stream" => (run(&["XLEN"]), run(&["XRANGE", "-", "+", "COUNT", ELEMENTS_MAX])),
            _ => (Reply::Nil, Reply::Nil),
        };
        let left = run(&["PTTL"]);
        json!({
            "type": told(&kind),
            "len": told(&len),
            "value": told(&value),
            "millis_left": told(&left),
        })
    };
    answer(&page, look).await
}

/// Runs one of the commands that the page has.
pub(super) async fn edit(State(page): State<Page>, Json(asked): Json<EditAsked>) -> Response {
    if !page.edits() {
        let why = "nothing is changed here: see --http-edit\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let words = asked.words.iter().map(ShownBytes::bytes).collect::<Option<Vec<_>>>();
    let Some(words) = words else { return no_hex() };
    if !page.has_database(asked.database) {
        return no_database();
    }
    let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let command = if args.is_empty() { None } else { table::find(&args) };
    if !command.is_some_and(|command| EDITS.contains(&command.name)) {
        let why = format!("the page has these commands: {}\n", EDITS.join(", "));
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let times = page.times.clone();
    let change = move |shared: &Arc<ServerShared>| {
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        told(&Visitor::new(shared, times, asked.database).run(&args))
    };
    answer(&page, change).await
}

/// Runs what reads and writes in a thread that may wait.
async fn answer<F>(page: &Page, job: F) -> Response
where
    F: FnOnce(&Arc<ServerShared>) -> Value + Send + 'static,
{
    let shared = page.shared.clone();
    match tokio::task::spawn_blocking(move || job(&shared)).await {
        Ok(told) if told.get("error").is_some() => {
            (StatusCode::UNPROCESSABLE_ENTITY, Json(told)).into_response()
        }
        Ok(told) => Json(told).into_response(),
        // A panic was reported by its thread.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn hidden() -> Response {
    (StatusCode::FORBIDDEN, "keys are not shown here: see --http-browse\n").into_response()
}

fn no_hex() -> Response {
    (StatusCode::BAD_REQUEST, "keys are pairs of hexadecimal digits\n").into_response()
}

fn no_database() -> Response {
    (StatusCode::BAD_REQUEST, "there is no such database\n").into_response()
}

/// The session of a request, which other clients do not see.
struct Visitor<'a> {
    shared: &'a Arc<ServerShared>,
    session: ClientSession,
}

impl<'a> Visitor<'a> {
    fn new(shared: &'a Arc<ServerShared>, times: Arc<WorkerTimes>, database: usize) -> Self {
        let client = Clients::default().add(0, "page".to_owned(), "page".to_owned());
        let mut session = ClientSession::new(shared, client, times);
        session.admit();
        let mut visitor = Self { shared, session };
        visitor.run(&[b"SELECT", database.to_string().as_bytes()]);
        visitor
    }

    fn run(&mut self, args: &[&[u8]]) -> Reply {
        self.session.begin();
        match self.session.run(self.shared, args, true) {
            Ok(RanCommand::Reply(reply)) => reply,
            Ok(RanCommand::Long(_) | RanCommand::Blocked(_)) | Err(_) => {
                Reply::error("ERR the command waits")
            }
        }
    }
}

/// A reply as JSON.
fn told(reply: &Reply) -> Value {
    match reply {
        Reply::Status(text) => json!(text),
        Reply::Error(text) => json!({ "error": String::from_utf8_lossy(text) }),
        Reply::Integer(number) => json!(number),
        Reply::Bulk(bytes)
        | Reply::Text(bytes)
        | Reply::Line(bytes)
        | Reply::Marked(_, bytes)
        | Reply::BigNumber(bytes) => json!(ShownBytes::of(bytes)),
        Reply::Nil | Reply::NilArray | Reply::Silence => Value::Null,
        Reply::Array(items) | Reply::Set(items) | Reply::Several(items) | Reply::Push(items) => {
            items.iter().map(told).collect()
        }
        Reply::Map(pairs) | Reply::Pairs(pairs) | Reply::Keyed(pairs) => {
            pairs.iter().flat_map(|(key, value)| [told(key), told(value)]).collect()
        }
        Reply::Double(number) | Reply::Decimal(number) => json!(number),
        Reply::Bool(yes) => json!(yes),
        Reply::Fixed(_, reply) => told(reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_the_bytes_that_they_were() {
        for bytes in [&b""[..], b"a", b"\0\xff\x10"] {
            assert_eq!(unhex(&hex(bytes)), Some(bytes.to_vec()));
        }
        for text in ["0", "0g", "é", "+1", "00 "] {
            assert_eq!(unhex(text), None, "{text}");
        }
    }
}
