//! `SLOWLOG`: commands that took long.

use crate::command::args::showing;
use crate::command::help::{self, help};
use crate::exec::{Answer, Halt};
use crate::observe::slow_log::SlowCall;
use crate::resp::reply::Reply;
use crate::resp::request::integer;
use crate::shared::ServerShared;

/// The commands about the slow log, by their names.
pub(super) fn slow_log(shared: &ServerShared, name: &str, args: &[&[u8]]) -> Answer {
    let log = &shared.observer.slow_log;
    match name {
        "slowlog|get" => {
            let why = "ERR count should be greater than or equal to -1";
            let count = match &args[2..] {
                [] => 10,
                [count] => integer(count).ok_or_else(|| Halt::error(why))?,
                _ => {
                    let why = "ERR unknown subcommand or wrong number of arguments for '";
                    return Err(showing(why, args[1], "'. Try SLOWLOG HELP."));
                }
            };
            let count = match count {
                -1 => usize::MAX,
                count => usize::try_from(count).map_err(|_| Halt::error(why))?,
            };
            Ok(Reply::Array(log.last(count).into_iter().map(told).collect()))
        }
        "slowlog|len" => Ok(Reply::Integer(log.len() as i64)),
        "slowlog|reset" => {
            log.reset();
            Ok(Reply::OK)
        }
        _ => Ok(help(help::SLOWLOG)),
    }
}

fn told(call: SlowCall) -> Reply {
    Reply::Array(vec![
        Reply::Integer(call.id.cast_signed()),
        Reply::Integer(call.at.cast_signed()),
        Reply::Integer(i64::try_from(call.time.as_micros()).unwrap_or(i64::MAX)),
        Reply::bulks(call.args),
        Reply::Bulk(call.address.into()),
        Reply::Bulk(call.name.into()),
    ])
}
