//! The calls of a session as they are counted: when each began, and what became of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::clients::Connected;
use crate::command::args::is;
use crate::command::table::{self, CommandRow};
use crate::observe::Observer;
use crate::observe::times::{CallError, WorkerTimes};
use crate::resp::reply::Reply;

/// The calls of a session. The end of one is the begin of the next, so that a clock is read once
/// for each.
pub(super) struct SessionCalls {
    times: Arc<WorkerTimes>,
    begun: Instant,
    /// The command that runs.
    running: Option<&'static CommandRow>,
    /// Whether the error of the script that has run was counted, since a command of it has
    /// answered that.
    pub(super) is_counted: bool,
    /// Commands that ran, and whose writes are not committed yet.
    gathered: Vec<&'static CommandRow>,
}

impl SessionCalls {
    /// No calls yet; they are counted in `times`.
    pub(super) fn new(times: Arc<WorkerTimes>) -> Self {
        Self {
            times,
            begun: Instant::now(),
            running: None,
            is_counted: false,
            gathered: Vec::new(),
        }
    }

    /// Where calls are counted.
    pub(super) fn times(&self) -> Arc<WorkerTimes> {
        self.times.clone()
    }

    /// Says that the next command begins at a time.
    pub(super) fn begin(&mut self, at: Instant) {
        self.begun = at;
    }

    /// When the next command begins.
    pub(super) fn begun(&self) -> Instant {
        self.begun
    }

    /// Says that a command runs.
    pub(super) fn run(&mut self, command: &'static CommandRow) {
        self.running = Some(command);
    }

    /// Counts a command that does not run.
    pub(super) fn reject(&mut self, args: &[&[u8]]) {
        if let Some(command) = table::find(args) {
            self.times.add_error(command, CallError::Rejected);
        }
    }

    /// Counts the command that has run, if one has, and the error that the client is told.
    pub(super) fn end(
        &mut self,
        observer: &Observer,
        client: &Connected,
        args: &[&[u8]],
        reply: &Reply,
    ) {
        let time = self.lap();
        let is_counted = std::mem::take(&mut self.is_counted);
        match self.running.take() {
            Some(command) => {
                let error = error_of(reply).cloned();
                let call = InnerCall { command, args, time, error, is_counted };
                self.add(observer, client, &call);
            }
            None => error_of(reply).into_iter().for_each(|text| observer.add_error(text)),
        }
    }

    /// Counts the error that a command has answered that had waited, if it has.
    pub(super) fn end_wait(&self, observer: &Observer, command: &CommandRow, reply: &Reply) {
        if let Some(text) = error_of(reply) {
            observer.add_error(text);
            self.times.add_error(command, CallError::Failed);
        }
    }

    /// Counts a command that has run, and the error that it has answered, if it has.
    fn add(
        &self,
        observer: &Observer,
        client: &Connected,
        InnerCall { command, args, time, error, is_counted }: &InnerCall<'_>,
    ) {
        let time = *time;
        self.times.add(command, 1, time, time);
        if let Some(text) = error {
            if !is_counted {
                observer.add_error(text);
            }
            self.times.add_error(command, CallError::Failed);
        }
        // The commands of a transaction are there one by one.
        if observer.slow_log.is_slow(time) && command.name != "exec" {
            let args = without_secrets(command, args);
            observer.slow_log.add(time, &args, &client.address, client.chosen().name);
        }
    }

    /// Notes a command that has run, and whose write is not committed yet.
    pub(super) fn gather(&mut self, command: &'static CommandRow) {
        self.gathered.push(command);
    }

    /// Forgets these commands.
    pub(super) fn forget_gathered(&mut self) {
        self.gathered.clear();
    }

    /// Counts these commands, of which `first` are the arguments of the first one: all took as long
    /// as their commit, of which each had a part.
    pub(super) fn end_gathered(
        &mut self,
        observer: &Observer,
        client: &Connected,
        first: &[&[u8]],
        replies: &[Reply],
    ) {
        let time = self.lap();
        let all = self.gathered.len() as u32;
        for calls in self.gathered.chunk_by(|one, other| std::ptr::eq(*one, *other)) {
            let (command, count) = (calls[0], calls.len() as u32);
            self.times.add(command, count.into(), time, time / all * count);
        }
        for (command, text) in self.gathered.iter().zip(replies.iter().map(error_of)) {
            let Some(text) = text else { continue };
            observer.add_error(text);
            self.times.add_error(command, CallError::Failed);
        }
        if observer.slow_log.is_slow(time) {
            let more = format!("... ({} more commands)", all - 1);
            let more = Some(more.as_bytes()).filter(|_| all > 1);
            let args: Vec<&[u8]> = first.iter().copied().chain(more).collect();
            observer.slow_log.add(time, &args, &client.address, client.chosen().name);
        }
        self.gathered.clear();
    }

    /// Counts the commands of a transaction or a script.
    pub(super) fn add_inner(
        &self,
        observer: &Observer,
        client: &Connected,
        commands: &[InnerCall<'_>],
    ) {
        commands.iter().for_each(|call| self.add(observer, client, call));
    }

    /// The time since the last command ended.
    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.begun, now))
    }
}

/// A command that has run, such as one of a transaction or a script: how long it took, and the
/// error that it has answered, if it has, and whether that was counted.
pub(super) struct InnerCall<'a> {
    pub(super) command: &'static CommandRow,
    pub(super) args: &'a [&'a [u8]],
    pub(super) time: Duration,
    pub(super) error: Option<Bytes>,
    pub(super) is_counted: bool,
}

/// The text of an error.
pub(super) fn error_of(reply: &Reply) -> Option<&Bytes> {
    if let Reply::Error(text) = reply { Some(text) } else { None }
}

/// The arguments of a command as they may be shown: passwords are not among them.
pub(super) fn without_secrets<'a>(command: &CommandRow, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let shown = match command.name {
        "auth" => 1,
        "hello" => {
            let user = args.iter().position(|word| is(word, "AUTH"));
            user.map_or(args.len(), |at| at + 1)
        }
        "acl|setuser" => 3,
        "config|set" if args.iter().any(|word| is(word, "requirepass")) => 2,
        _ => args.len(),
    };
    let of =
        |(at, argument): (usize, &&'a [u8])| if at < shown { argument } else { &b"(redacted)"[..] };
    args.iter().enumerate().map(of).collect()
}
