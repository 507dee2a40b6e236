//! Keys and values, looked at page by page, and changed.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Page;
use super::bytes::{ShownBytes, hex, unhex};
use super::value::shown;
use crate::clients::Clients;
use crate::command::table;
use crate::exec::{Answer, Halt, View};
use crate::observe::times::WorkerTimes;
use crate::resp::reply::Reply;
use crate::session::{ClientSession, RanCommand, Waits, now};
use crate::shared::ServerShared;

/// Keys of a page.
const KEYS_MAX: usize = 50;

/// How often an edit is tried while others hold its key, and how long it rests in between.
const TRIES: usize = 200;
const REST: Duration = Duration::from_millis(10);

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
    look(page, asked.database, move |view| {
        let (mut keys, mut next) = (Vec::new(), None);
        view.walk(from.as_slice().max(&prefix), false, &mut |key, _| {
            if !key.starts_with(&prefix) {
                return ControlFlow::Break(());
            }
            if keys.len() == KEYS_MAX {
                next = Some(hex(key));
                return ControlFlow::Break(());
            }
            keys.push(json!({ "key": hex(key), "text": String::from_utf8_lossy(key) }));
            ControlFlow::Continue(())
        })?;
        Ok(json!({ "keys": keys, "next": next }))
    })
    .await
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
    look(page, asked.database, move |view| shown(view, &key)).await
}

/// Looks at a database as it is now.
async fn look<F>(page: Page, database: usize, seen: F) -> Response
where
    F: FnOnce(&View<'_>) -> Answer<Value> + Send + 'static,
{
    answer(&page, move |shared| {
        let reads = shared.store.reads_at_once(true);
        let view = shared.moment(&reads, now()).view(database);
        seen(&view).unwrap_or_else(|halt| match halt {
            Halt::Error(why) => told(&why),
            Halt::Wait | Halt::Hold | Halt::Long(_) | Halt::Block(_) => {
                told(&Reply::error("ERR the read waits"))
            }
        })
    })
    .await
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
        told(&run(shared, times, asked.database, &args))
    };
    answer(&page, change).await
}

/// Runs what reads and writes in a thread that may wait, in its turn.
async fn answer<F>(page: &Page, job: F) -> Response
where
    F: FnOnce(&Arc<ServerShared>) -> Value + Send + 'static,
{
    let (shared, turn) = (page.shared.clone(), page.turns.clone().acquire_owned().await);
    let job = move || {
        let _turn = turn;
        job(&shared)
    };
    match tokio::task::spawn_blocking(job).await {
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

/// Runs a command in a session of its own, which other clients do not see.
fn run(
    shared: &Arc<ServerShared>,
    times: Arc<WorkerTimes>,
    database: usize,
    args: &[&[u8]],
) -> Reply {
    let client = Clients::new(0).add(0, "page".to_owned(), "page".to_owned());
    let mut session = ClientSession::new(shared, client, times);
    session.admit();
    let mut run = |args: &[&[u8]]| {
        session.begin(Instant::now());
        for _ in 0..TRIES {
            match session.run(shared, args, true) {
                Ok(RanCommand::Reply(reply)) => return reply,
                Ok(RanCommand::Long(_) | RanCommand::Blocked(_)) => {
                    return Reply::error("ERR the command waits");
                }
                Err(Waits) => std::thread::sleep(REST),
            }
        }
        Reply::error(
            "ERR a script or a transaction of another client has held the key for two seconds: \
             try again when it has ended",
        )
    };
    run(&[b"SELECT", database.to_string().as_bytes()]);
    run(args)
}

/// The reply of a command that changes something, as JSON.
fn told(reply: &Reply) -> Value {
    match reply {
        Reply::Error(text) => json!({ "error": String::from_utf8_lossy(text) }),
        Reply::Integer(number) => json!(number),
        _ => json!("OK"),
    }
}
