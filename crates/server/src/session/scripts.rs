//! Scripts in a session: how their commands run, and what becomes of their effects.

use std::sync::Arc;
use std::time::Instant;

use bumpalo::Bump;

use super::script_call::ScriptCall;
use super::{ClientSession, sessionless};
use crate::acl::Denied;
use crate::command::args::showing;
use crate::command::table::{self, CommandAction, CommandRow, flag};
use crate::command::{keys, streams};
use crate::exec::{Answer, Halt, View};
use crate::resp::reply::Reply;
use crate::script::{self, ScriptEnd, ScriptHost, ScriptRun};
use crate::shared::ServerShared;

/// Most bytes of the arguments of all commands of a script, and what each counts besides its own.
const ARGUMENTS_MAX: usize = 256 << 20;
const ARGUMENT_BYTES: usize = 64;

/// What a script has published, and which command did.
pub(super) type Published<'a> = Vec<(&'static CommandRow, &'a [&'a [u8]])>;

/// What became of a script: its answer, or none if it is to be run again with the locks of all
/// keys; and what it has changed and published.
pub(super) type RanScript<'a> = (Option<Answer>, View<'a>, Published<'a>);

impl ClientSession {
    /// Runs a script in a transaction, which holds all locks; what it changes is in the view that
    /// is given back, and nothing if it fails.
    pub(super) fn eval_within<'a>(
        &mut self,
        shared: &'a Arc<ServerShared>,
        command: &CommandRow,
        args: &[&[u8]],
        arena: &'a Bump,
        view: View<'a>,
    ) -> (Answer, View<'a>) {
        let call = match ScriptCall::of(shared, command.name, args) {
            Ok(call) => call,
            Err(halt) => return (Err(halt), view),
        };
        let (before, database) = (view.effects().to_owned(), view.database);
        let (answer, mut view, published) = self.run_script(shared, &call, true, arena, view);
        view.database = database;
        let answer = answer.unwrap_or(Err(Halt::Wait));
        match answer {
            Ok(_) => publish(shared, &published),
            Err(_) => view = view.behind(before),
        }
        (answer, view)
    }

    /// Runs a script, which may use all keys if it `has_all`.
    pub(super) fn run_script<'a>(
        &mut self,
        shared: &'a Arc<ServerShared>,
        call: &ScriptCall<'_>,
        has_all: bool,
        arena: &'a Bump,
        view: View<'a>,
    ) -> RanScript<'a> {
        let run = ScriptRun {
            sha: &call.script.sha,
            code: &call.script.code,
            keys: call.keys,
            args: call.args,
            until: call.until,
            is_killed: Box::new(call.running.is_killed()),
        };
        let (published, stopped) = (Vec::new(), None);
        let session = &mut *self;
        let mut host = Host {
            session,
            shared,
            call,
            has_all,
            arena,
            view,
            published,
            left: ARGUMENTS_MAX,
            stopped,
        };
        host.session.is_in_script = true;
        let end = script::run(run, &mut host);
        host.session.is_in_script = false;
        let answer = match end {
            ScriptEnd::ByHost => host.stopped.map(Err),
            ScriptEnd::Failed(error) => Some(Err(Halt::Error(error))),
            ScriptEnd::Reply(reply) => Some(Ok(reply)),
        };
        (answer, host.view, host.published)
    }
}

/// Sends what a script has published.
pub(super) fn publish(shared: &ServerShared, published: &Published<'_>) {
    for (command, args) in published {
        match command.name {
            "publish" => shared.topics.publish(args[1], args[2]),
            _ => shared.topics.publish_to_shard(args[1], args[2]),
        };
    }
}

/// Runs the commands of a script.
struct Host<'s, 'a> {
    session: &'s mut ClientSession,
    shared: &'a Arc<ServerShared>,
    call: &'s ScriptCall<'s>,
    /// Whether it may use all keys.
    has_all: bool,
    /// Where arguments lie as long as the view.
    arena: &'a Bump,
    view: View<'a>,
    published: Published<'a>,
    /// Bytes of arguments that it may still use.
    left: usize,
    /// Why it was stopped, if not to be run again.
    stopped: Option<Halt>,
}

impl<'a> Host<'_, 'a> {
    /// The command that is called, if the script may call it so, or why not.
    fn checked(&self, args: &[&[u8]]) -> Result<&'static CommandRow, &'static str> {
        let command = table::find(args).ok_or("ERR Unknown Redis command called from script")?;
        if !command.takes(args.len()) {
            return Err("ERR Wrong number of args calling Redis command from script");
        }
        if command.is(flag::NOSCRIPT) {
            return Err("ERR This Redis command is not allowed from script");
        }
        if let Some(denied) = self.session.denied(self.shared, command, args) {
            return Err(match denied {
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
        if self.call.reads_only && (command.is(flag::WRITE | flag::KEEPS) || publishes(command)) {
            return Err("ERR Write commands are not allowed from read-only scripts.");
        }
        Ok(command)
    }

    /// Whether a command uses keys whose locks are not held.
    fn uses_others(&self, command: &CommandRow, args: &[&[u8]]) -> bool {
        let is_other = |key: &[u8]| !self.call.keys.contains(&key);
        !self.has_all && (command.writes_unnamed() || command.keys_of(args).any(is_other))
    }

    fn run(&mut self, command: &'static CommandRow, args: &'a [&'a [u8]]) -> Answer {
        match command.action {
            CommandAction::Data(_) if command.keys.found.is_some() && streams::waits(args) => {
                let why = " command is not allowed with BLOCK option from scripts";
                Err(showing("ERR ", args[0], why))
            }
            CommandAction::Data(run) => run(args, &mut self.view),
            _ if publishes(command) => {
                self.published.push((command, args));
                let kind = crate::topics::TopicKind::Shard;
                let reach = match command.name {
                    "publish" => self.shared.topics.reach(args[1]),
                    _ => self.shared.topics.clients(kind, args[1]),
                };
                Ok(Reply::Integer(reach as i64))
            }
            _ if command.name == "select" => {
                self.view.database = keys::database(args[1], self.view.databases)?;
                Ok(Reply::OK)
            }
            CommandAction::Session => sessionless::run(self.shared, command.name, args),
        }
    }
}

fn publishes(command: &CommandRow) -> bool {
    matches!(command.name, "publish" | "spublish")
}

impl ScriptHost for Host<'_, '_> {
    fn call(&mut self, args: &[&[u8]]) -> Option<Reply> {
        let command = match self.checked(args) {
            Ok(command) => command,
            Err(why) => return Some(Reply::error(why)),
        };
        if self.uses_others(command, args) {
            return None;
        }
        let bytes: usize = args.iter().map(|argument| argument.len() + ARGUMENT_BYTES).sum();
        let Some(left) = self.left.checked_sub(bytes) else {
            return Some(Reply::error(
                "ERR the commands of the script have too many arguments: 256 MiB in all",
            ));
        };
        self.left = left;
        let copies = args.iter().map(|argument| &*self.arena.alloc_slice_copy(argument));
        let args = &*self.arena.alloc_slice_fill_iter(copies.collect::<Vec<_>>());
        let begun = Instant::now();
        let reply = match self.run(command, args) {
            Ok(reply) | Err(Halt::Error(reply)) => reply,
            Err(Halt::Block(block)) => block.in_transaction,
            Err(halt @ Halt::Wait) => {
                self.stopped = Some(halt);
                return None;
            }
        };
        self.session.calls.add_of_script(
            &self.shared.observer,
            &self.session.client,
            command,
            args,
            begun.elapsed(),
            &reply,
        );
        Some(reply)
    }

    fn allows(&mut self, args: &[&[u8]]) -> Option<bool> {
        let command = table::find(args)?;
        Some(self.session.user.rules.load().denied(command, args).is_none())
    }
}
