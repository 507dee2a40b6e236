//! The table of commands: a row each, from which `COMMAND`, checks and locks follow.

mod rows;
mod hints;

use std::collections::HashMap;
use std::sync::LazyLock;

use super::args::is;
use crate::exec::Run;
use crate::resp::request::integer;

pub use self::rows::COMMANDS;

/// What a command is for: bits of [`CommandRow::flags`].
pub mod flag {
    /// Writes keys.
    pub const WRITE: u32 = 1;
    /// Reads keys.
    pub const READONLY: u32 = 1 << 1;
    /// May make a store grow.
    pub const DENYOOM: u32 = 1 << 2;
    /// Takes little time, whatever the keys have.
    pub const FAST: u32 = 1 << 3;
    /// Is for administrators.
    pub const ADMIN: u32 = 1 << 4;
    /// Is not for scripts.
    pub const NOSCRIPT: u32 = 1 << 5;
    /// Is answered while a store is loaded.
    pub const LOADING: u32 = 1 << 6;
    /// Is answered where a copy is behind.
    pub const STALE: u32 = 1 << 7;
    /// Needs no password.
    pub const NO_AUTH: u32 = 1 << 8;
    /// Is refused in a transaction.
    pub const NO_MULTI: u32 = 1 << 9;
    /// Arguments of it are not to be seen in logs.
    pub const SKIP_MONITOR: u32 = 1 << 10;
    /// Is run at once in a transaction, too.
    pub const AT_ONCE: u32 = 1 << 13;
    /// Is called by the names of subcommands.
    pub const CONTAINER: u32 = 1 << 12;
    /// Waits for the disk, whatever the keys have.
    pub const WAITS: u32 = 1 << 15;
    /// Reads keys and may keep in them what it has found, so that it holds them as a write does.
    pub const KEEPS: u32 = 1 << 16;
    /// Reads one record, which is as of one moment by itself.
    pub const ONE_RECORD: u32 = 1 << 14;

    /// Names of the bits, as `COMMAND` has them.
    pub const NAMES: [(u32, &str); 11] = [
        (WRITE, "write"),
        (READONLY, "readonly"),
        (DENYOOM, "denyoom"),
        (ADMIN, "admin"),
        (NOSCRIPT, "noscript"),
        (LOADING, "loading"),
        (STALE, "stale"),
        (SKIP_MONITOR, "skip_monitor"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
        (NO_MULTI, "no_multi"),
    ];
}

/// What runs a command.
#[derive(Clone, Copy)]
pub enum CommandAction {
    /// A function of arguments and records.
    Data(Run),
    /// The session, by the name.
    Session,
}

/// Where keys stand among arguments.
#[derive(Clone, Copy)]
pub struct KeyPlaces {
    /// The place of the first one; 0 if there is none.
    pub first: usize,
    /// The place of the last one, counted from the end if it is negative.
    pub last: isize,
    /// The step between keys.
    pub step: usize,
    /// The place of a number of more keys, which stand behind it; 0 if there is none.
    pub counted: usize,
    /// The words that one more key stands behind, with a bar between two; empty if there is none.
    pub word: &'static str,
    /// What finds the places, if nothing else tells them.
    pub found: Option<FindPlaces>,
}

/// What finds places among arguments.
pub type FindPlaces = fn(&[&[u8]]) -> std::ops::Range<usize>;

impl KeyPlaces {
    /// No keys.
    pub const NONE: Self = Self::new(0, 0, 0);

    const fn new(first: usize, last: isize, step: usize) -> Self {
        Self { first, last, step, counted: 0, word: "", found: None }
    }

    const fn counted(self, counted: usize) -> Self {
        Self { counted, ..self }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.first == 0 && self.counted == 0 && self.found.is_none()
    }
}

/// A row of the table.
pub struct CommandRow {
    /// The name in small letters.
    pub name: &'static str,
    /// Number of arguments with the name; at least as many if it is negative.
    pub arity: i32,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Where keys stand among its arguments.
    pub keys: KeyPlaces,
    /// What runs it.
    pub action: CommandAction,
}

impl CommandRow {
    /// Whether a number of arguments will do.
    pub fn takes(&self, arguments: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { arguments >= least } else { arguments == least }
    }

    /// Whether it changes keys that are not among its arguments.
    pub fn writes_unnamed(&self) -> bool {
        self.is(flag::WRITE) && self.keys.is_empty()
    }

    /// Whether it may be committed together with others like it: it changes keys that it names,
    /// and waits for none.
    pub fn can_be_gathered(&self) -> bool {
        self.is(flag::WRITE) && !self.is(flag::NOSCRIPT) && !self.keys.is_empty()
    }

    /// Whether it only reads keys that it names.
    pub fn reads_named(&self) -> bool {
        self.is(flag::READONLY)
            && !self.keys.is_empty()
            && matches!(self.action, CommandAction::Data(_))
    }

    /// Whether it runs a script, or a function of a library.
    pub fn is_script(&self) -> bool {
        self.name.starts_with("eval") || self.name.starts_with("fcall")
    }

    /// Whether it publishes a message.
    pub fn publishes(&self) -> bool {
        matches!(self.name, "publish" | "spublish")
    }

    /// Whether it, or what it runs, may write or publish.
    pub fn may_write(&self) -> bool {
        self.is(flag::WRITE | flag::KEEPS)
            || self.is_script() && !self.is(flag::READONLY)
            || self.publishes()
    }

    /// Whether it is called by two words.
    pub fn is_subcommand(&self) -> bool {
        self.name.contains('|')
    }

    /// Whether where its keys stand is told by its arguments.
    pub fn has_movable_keys(&self) -> bool {
        let KeyPlaces { counted, word, found, .. } = self.keys;
        // Patterns of sorts name keys, too.
        counted > 0 || !word.is_empty() || found.is_some() || self.name == "sort_ro"
    }

    /// Whether it has a bit of [`flag`].
    pub fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// The keys among its arguments.
    pub fn keys_of<'a, 'k>(
        &self,
        args: &'a [&'k [u8]],
    ) -> impl Iterator<Item = &'k [u8]> + use<'a, 'k> {
        let KeyPlaces { first, last, step, counted, word, found } = self.keys;
        let end = if last < 0 { args.len().saturating_add_signed(last) } else { last as usize };
        // Channels of a shard stand where other commands have keys.
        let names_channels = matches!(self.name, "spublish" | "ssubscribe" | "sunsubscribe");
        let count = args.get(counted).filter(|_| counted > 0).and_then(|text| integer(text));
        let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
        // A call with a wrong count fails for that, and uses no key.
        let is_wrong = counted > 0 && (count == 0 || count >= args.len().saturating_sub(counted));
        let names_none = step == 0 || names_channels || is_wrong;
        let places = if names_none { 0..0 } else { first..args.len().min(end + 1) };
        let more = if is_wrong { 0..0 } else { counted + 1..counted + 1 + count };
        let is_word = |argument| !word.is_empty() && word.split('|').any(|word| is(argument, word));
        let is_behind = |at: &usize| is_word(args[at - 1]);
        let behind = (2..args.len()).rev().find(is_behind);
        let found = found.map_or(0..0, |found| found(args));
        places.step_by(step.max(1)).chain(more).chain(behind).chain(found).map(|at| args[at])
    }
}

/// The command of a name in whatever case, where a bar stands between command and subcommand.
pub fn named(name: &[u8]) -> Option<&'static CommandRow> {
    static BY_NAME: LazyLock<HashMap<&[u8], &CommandRow>> =
        LazyLock::new(|| COMMANDS.iter().map(|row| (row.name.as_bytes(), row)).collect());
    let mut small = [0; 24];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    BY_NAME.get(&*small).copied()
}

/// The command that is called: a subcommand, if the first word has them and there is a second one.
pub fn find(args: &[&[u8]]) -> Option<&'static CommandRow> {
    // A bar in the first word would name a subcommand as if it was a command.
    let command = named(args[0]).filter(|command| !command.is_subcommand())?;
    match args.get(1) {
        Some(word) if command.is(flag::CONTAINER) => named(&[args[0], b"|", word].concat()),
        _ => Some(command),
    }
}
