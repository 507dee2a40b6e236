//! Commands that need nothing of a session, so that scripts call them, too.

use super::{about, functions, latency, script_call, slow_log, subscriptions};
use crate::command::args::number;
use crate::exec::{Answer, Halt};
use crate::resp::reply::Reply;
use crate::resp::request::integer;
use crate::shared::ServerShared;

/// Runs such a command.
pub(super) fn run(shared: &ServerShared, name: &str, args: &[&[u8]]) -> Answer {
    let topics = &shared.topics;
    match name {
        "ping" => match args {
            [_] => Ok(Reply::Status("PONG")),
            [_, text] => Ok(Reply::Bulk(text.to_vec().into())),
            _ => Err(Halt::error("ERR wrong number of arguments for 'ping' command")),
        },
        "echo" => Ok(Reply::Bulk(args[1].to_vec().into())),
        "publish" => Ok(Reply::Integer(topics.publish(args[1], args[2]) as i64)),
        "spublish" => Ok(Reply::Integer(topics.publish_to_shard(args[1], args[2]) as i64)),
        "wait" => wait(args),
        name if name.starts_with("latency|") => latency::latency(shared, name, args),
        name if name.starts_with("function|") => functions::about(shared, name, args),
        name if name.starts_with("script|") => script_call::about(shared, name, args),
        name if name.starts_with("slowlog|") => slow_log::slow_log(shared, name, args),
        name if name.starts_with("pubsub|") => subscriptions::about(shared, name, args),
        name => about::about(shared, name, args),
    }
}

/// `WAIT copies milliseconds`: no copy is there, and none comes while a client waits.
fn wait(args: &[&[u8]]) -> Answer {
    number(args[1])?;
    match integer(args[2]) {
        None => Err(Halt::error("ERR timeout is not an integer or out of range")),
        Some(..0) => Err(Halt::error("ERR timeout is negative")),
        Some(_) => Ok(Reply::Integer(0)),
    }
}
