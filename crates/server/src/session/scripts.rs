//! Scripts in a session: how their commands run, and what becomes of their effects.

use std::sync::Arc;
use std::time::Instant;

use bumpalo::Bump;

use super::calls::{InnerCall, error_of};
use super::published::Published;
use super::script_call::{ARGUMENT_BYTES, ScriptCall};
use super::{ClientSession, sessionless};
use crate::acl::Denied;
use crate::command::args::showing;
use crate::command::table::{self, CommandAction, CommandRow, flag};
use crate::command::{keys, streams};
use crate::exec::{Answer, Halt, View};
use crate::resp::reply::Reply;
use crate::script::{self, ScriptEnd, ScriptHost, ScriptRun};
use crate::shared::ServerShared;

/// Most bytes of the arguments of all commands of a script, and what each command counts besides.
const ARGUMENTS_MAX: usize = 256 << 20;
const COMMAND_BYTES: usize = 128;

/// How a script runs.
#[derive(Clone, Copy)]
pub(super) struct HowRun {
    /// Whether it may use all keys.
    pub(super) has_all: bool,
    /// Whether it may wait; else it stops where it would have to, having done nothing.
    pub(super) may_wait: bool,
}

/// What became of a script: its answer, or none if it is to be run again with the locks of all
/// keys; and what it has changed and published.
pub(super) type RanScript<'a> = (Option<Answer>, View<'a>, Published<'a>);

impl ClientSession {
    /// Runs a script in a transaction, which holds all locks; what it changes is in the view that
    /// is given back, and what it publishes in `published`, and nothing if it fails.
    pub(super) fn eval_within<'a>(
        &mut self,
        shared: &'a Arc<ServerShared>,
        command: &CommandRow,
        args: &[&[u8]],
        arena: &'a Bump,
        view: View<'a>,
        published: &mut Published<'a>,
    ) -> (Answer, View<'a>) {
        let call = match ScriptCall::of(shared, command.name, args, true) {
            Ok(call) => call,
            Err(halt) => return (Err(halt), view),
        };
        let (before, database) = (view.effects().to_owned(), view.database);
        let (answer, mut view, by_script) =
            self.run_script(shared, &call, HowRun { has_all: true, may_wait: true }, arena, view);
        view.database = database;
        let answer = answer.unwrap_or(Err(Halt::Wait));
        match answer {
            Ok(_) => published.append(by_script),
            Err(_) => view = view.behind(before),
        }
        (answer, view)
    }

    /// Runs a script.
    pub(super) fn run_script<'a>(
        &mut self,
        shared: &'a Arc<ServerShared>,
        call: &ScriptCall<'_>,
        how: HowRun,
        arena: &'a Bump,
        view: View<'a>,
    ) -> RanScript<'a> {
        let run = ScriptRun {
            sha: &call.script.sha,
            code: &call.script.code,
            function: call.script.function.as_deref(),
            keys: call.keys,
            args: call.args,
            limits: call.limits,
            is_killed: Box::new(call.running.is_killed()),
        };
        self.is_in_script = true;
        let mut host = Host {
            session: self,
            shared,
            call,
            how,
            arena,
            view,
            published: Published::default(),
            inner: Vec::new(),
            left: ARGUMENTS_MAX,
            stopped: None,
        };
        let end = script::run(run, &mut host);
        let Host { view, published, inner, stopped, .. } = host;
        self.is_in_script = false;
        let answer = match end {
            ScriptEnd::ByHost => stopped.map(Err),
            ScriptEnd::Failed(_) if !how.may_wait => {
                call.script.note_try();
                Some(Err(Halt::Wait))
            }
            ScriptEnd::Failed(error) => Some(Err(Halt::Error(error))),
            ScriptEnd::Reply(reply) => Some(Ok(reply)),
        };
        // What is run again is counted then.
        if !matches!(answer, None | Some(Err(Halt::Wait | Halt::Hold))) {
            if !shared.monitors.is_empty() {
                shared.monitors.show(self.database, &self.client.address, call.words);
            }
            self.end_inner(shared, "lua", &inner);
            let error = match &answer {
                Some(Ok(reply) | Err(Halt::Error(reply))) => error_of(reply),
                _ => None,
            };
            let is_of = |call: &InnerCall<'_>| {
                call.error.as_ref().zip(error).is_some_and(|(of, error)| error.starts_with(of))
            };
            self.calls.is_counted = inner.iter().any(is_of);
        }
        (answer, view, published)
    }
}

/// Runs the commands of a script.
struct Host<'s, 'a> {
    session: &'s mut ClientSession,
    shared: &'a Arc<ServerShared>,
    call: &'s ScriptCall<'s>,
    how: HowRun,
    /// Where arguments lie as long as the view.
    arena: &'a Bump,
    view: View<'a>,
    published: Published<'a>,
    /// Commands so far.
    inner: Vec<InnerCall<'a>>,
    /// Bytes of arguments that it may still use.
    left: usize,
    /// Why it was stopped, if not to be run again.
    stopped: Option<Halt>,
}

impl<'a> Host<'_, 'a> {
    /// The command that is called, if the script may call it so, or why not.
    fn checked(&self, args: &[&[u8]]) -> Answer<&'static CommandRow> {
        let no = |why: &'static str| Err(Halt::error(why));
        let Some(command) = table::find(args) else {
            return no("ERR Unknown Redis command called from script");
        };
        if !command.takes(args.len()) {
            return no("ERR Wrong number of args calling Redis command from script");
        }
        if command.is(flag::NOSCRIPT) {
            return no("ERR This Redis command is not allowed from script");
        }
        if let Some(denied) = self.session.user.rules.load().denied(command, args) {
            // What is denied is noted once, where the script runs to its end.
            if !self.how.may_wait {
                return Err(Halt::Wait);
            }
            self.session.note_denied(self.shared, command, args, &denied);
            return no(match denied {
                Denied::Command => {
                    "ERR The user executing the script can't run this command or subcommand"
                }
                Denied::Key(_) => {
                    "ERR The user executing the script can't access at least one of the keys \
                     mentioned in the command arguments"
                }
                Denied::Channel(_) => {
                    "ERR The user executing the script can't publish to the channel mentioned in \
                     the command"
                }
            });
        }
        if self.call.reads_only && (command.is(flag::WRITE | flag::KEEPS) || command.publishes()) {
            return no("ERR Write commands are not allowed from read-only scripts.");
        }
        Ok(command)
    }

    /// The reply of what a script calls, or none if that stops it.
    fn reply(&mut self, answer: Answer) -> Option<Reply> {
        match answer {
            Ok(reply) | Err(Halt::Error(reply)) => Some(reply),
            Err(Halt::Block(block)) => Some(block.in_transaction),
            Err(halt @ (Halt::Wait | Halt::Hold | Halt::Long(_))) => {
                self.stopped = Some(halt);
                None
            }
        }
    }

    /// Whether a command uses keys whose locks are not held.
    fn uses_others(&self, command: &CommandRow, args: &[&[u8]]) -> bool {
        let is_other = |key: &[u8]| !self.call.keys.contains(&key);
        !self.how.has_all && (command.writes_unnamed() || command.keys_of(args).any(is_other))
    }

    fn run(&mut self, command: &'static CommandRow, args: &'a [&'a [u8]]) -> Answer {
        self.view.let_go();
        self.view.check_held()?;
        match command.action {
            CommandAction::Data(_) if command.keys.found.is_some() && streams::waits(args) => {
                let why = " command is not allowed with BLOCK option from scripts";
                Err(showing("ERR ", args[0], why))
            }
            CommandAction::Data(run) => run(args, &mut self.view),
            _ if command.publishes() => Ok(self.published.add(&self.shared.topics, command, args)),
            _ if command.name == "select" => {
                self.view.database = keys::database(args[1], self.view.databases)?;
                Ok(Reply::OK)
            }
            CommandAction::Session => sessionless::run(self.shared, command.name, args),
        }
    }
}

impl ScriptHost for Host<'_, '_> {
    fn call(&mut self, args: &[&[u8]]) -> Option<Reply> {
        let command = match self.checked(args) {
            Ok(command) => command,
            Err(halt) => return self.reply(Err(halt)),
        };
        if self.uses_others(command, args) {
            return None;
        }
        let bytes: usize = args.iter().map(|argument| argument.len() + ARGUMENT_BYTES).sum();
        let Some(left) = self.left.checked_sub(bytes + COMMAND_BYTES) else {
            return Some(Reply::error(
                "ERR the commands of the script have too many arguments: 256 MiB in all",
            ));
        };
        self.left = left;
        let copies = args.iter().map(|argument| &*self.arena.alloc_slice_copy(argument));
        let args = &*self.arena.alloc_slice_fill_iter(copies.collect::<Vec<_>>());
        let (begun, edits) = (Instant::now(), self.view.effects().edits);
        let answer = self.run(command, args);
        // What failed behind a change of its own must not be committed with the rest.
        if matches!(answer, Err(Halt::Error(_))) && self.view.effects().edits != edits {
            self.stopped = answer.err();
            return None;
        }
        let reply = self.reply(answer)?;
        let (time, error) = (begun.elapsed(), error_of(&reply).cloned());
        self.inner.push(InnerCall { command, args, time, error, is_counted: false });
        Some(reply)
    }

    fn allows(&mut self, args: &[&[u8]]) -> Option<bool> {
        let command = table::find(args)?;
        Some(self.session.user.rules.load().denied(command, args).is_none())
    }
}
