//! `LATENCY`: how long commands took. Events are not noted: what took long is in `SLOWLOG`.

use crate::command::args::showing;
use crate::command::help::{self, help};
use crate::command::table::{COMMANDS, CommandRow};
use crate::exec::Answer;
use crate::observe::times::CallSums;
use crate::resp::reply::Reply;
use crate::shared::ServerShared;

const ADVICE: &str = "What took long is in SLOWLOG, how long each command takes in LATENCY \
                      HISTOGRAM, and what to do about it in INFO cleavedb.\n";

/// The commands about times, by their names.
pub(super) fn latency(shared: &ServerShared, name: &str, args: &[&[u8]]) -> Answer {
    match name {
        "latency|doctor" => Ok(Reply::Text(ADVICE.into())),
        "latency|graph" => Err(showing("ERR No samples available for event '", args[2], "'")),
        "latency|histogram" => Ok(histogram(&shared.observer.rows(), &args[2..])),
        "latency|history" | "latency|latest" => Ok(Reply::Array(Vec::new())),
        "latency|reset" => Ok(Reply::Integer(0)),
        _ => Ok(help(help::LATENCY)),
    }
}

/// `LATENCY HISTOGRAM [command ...]`: of each command that was called, how often, and how many
/// calls ended within doubled times in microseconds.
fn histogram(rows: &[CallSums], names: &[&[u8]]) -> Reply {
    let is_wanted = |command: &CommandRow| {
        let own = command.name.as_bytes();
        let is_it = |name: &&[u8]| {
            let begin = own.get(..name.len()).is_some_and(|own| own.eq_ignore_ascii_case(name));
            begin && matches!(own.get(name.len()), None | Some(b'|'))
        };
        names.is_empty() || names.iter().any(is_it)
    };
    let called = COMMANDS.iter().zip(rows);
    let called = called.filter(|(command, sums)| sums.calls() > 0 && is_wanted(command));
    let bulk = |text: &'static str| Reply::Bulk(text.into());
    let number = |number: u64| Reply::Integer(number.cast_signed());
    let told = called.map(|(command, sums)| {
        let doubled = sums.doublings().into_iter();
        let doubled = doubled.map(|(micros, calls)| (number(micros), number(calls))).collect();
        let calls = (bulk("calls"), number(sums.calls()));
        let times = (bulk("histogram_usec"), Reply::Map(doubled));
        (bulk(command.name), Reply::Map(vec![calls, times]))
    });
    Reply::Map(told.collect())
}
