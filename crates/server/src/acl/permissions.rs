//! What a user may do: commands, keys and channels, as rules such as `+get ~user:*` have set them.

use std::collections::{BTreeMap, HashSet};

use super::access::{self, KeyAccess};
use super::categories;
use crate::command::args::is;
use crate::command::glob;
use crate::command::table::{self, COMMANDS, CommandRow, flag};

/// Why a rule is refused, in Redis's words.
pub type RuleError = &'static str;

pub(super) const UNKNOWN: RuleError = "Unknown command or category name in ACL";
pub(super) const SYNTAX: RuleError = "Syntax error";
const KEYS_ALREADY: RuleError = "Adding a pattern after the * pattern (or the 'allkeys' flag) is \
                                 not valid and does not have any effect. Try 'resetkeys' to start \
                                 with an empty list of patterns";
const CHANNELS_ALREADY: RuleError = "Adding a pattern after the * pattern (or the 'allchannels' \
                                     flag) is not valid and does not have any effect. Try \
                                     'resetchannels' to start with an empty list of channels";
const OF_SUBCOMMAND: RuleError = "Allowing first-arg of a subcommand is not supported";

/// Keys of a pattern, and what may be done with them.
#[derive(Clone, Debug)]
pub(super) struct KeyPattern {
    pub access: KeyAccess,
    pub pattern: Vec<u8>,
}

/// What may not be done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denied {
    /// The command.
    Command,
    /// What it would do with the key at this place among the arguments.
    Key(usize),
    /// What it would do with the channel at this place.
    Channel(usize),
}

/// What is allowed. A user has one of these, and may have more, of which each allows by itself.
#[derive(Clone, Debug, Default)]
pub struct Permissions {
    /// Names of commands and subcommands.
    pub(super) commands: HashSet<&'static str>,
    /// Whether commands to come are allowed: what begins with all of them.
    pub(super) future: bool,
    /// First arguments with which commands are allowed that are not.
    pub(super) first_arguments: BTreeMap<&'static str, Vec<Vec<u8>>>,
    pub(super) all_keys: bool,
    pub(super) keys: Vec<KeyPattern>,
    pub(super) all_channels: bool,
    pub(super) channels: Vec<Vec<u8>>,
}

/// Whether a text has white space, or a zero.
pub fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b))
}

impl Permissions {
    /// Whether everything is allowed.
    pub(super) fn allows_all(&self) -> bool {
        self.future && self.all_keys && self.all_channels && self.commands.len() == COMMANDS.len()
    }

    /// Applies a rule.
    pub(super) fn set(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule {
            _ if is(rule, "allkeys") || rule == b"~*" => self.set_all_keys(true),
            _ if is(rule, "resetkeys") => self.set_all_keys(false),
            _ if is(rule, "allchannels") || rule == b"&*" => self.set_all_channels(true),
            _ if is(rule, "resetchannels") => self.set_all_channels(false),
            _ if is(rule, "allcommands") || is(rule, "+@all") => self.set_all_commands(true),
            _ if is(rule, "nocommands") || is(rule, "-@all") => self.set_all_commands(false),
            [b'~', pattern @ ..] => self.add_keys(KeyAccess::of("rw"), pattern)?,
            [b'%', rest @ ..] => self.add_keys_with_access(rest)?,
            [b'&', pattern @ ..] => self.add_channels(pattern)?,
            [b'+', b'@', category @ ..] => self.change_category(category, true)?,
            [b'-', b'@', category @ ..] => self.change_category(category, false)?,
            [b'+', command @ ..] => self.allow(command)?,
            [b'-', command @ ..] => {
                self.change(table::named(command).ok_or(UNKNOWN)?, false);
            }
            _ => return Err(SYNTAX),
        }
        Ok(())
    }

    fn set_all_keys(&mut self, all: bool) {
        self.all_keys = all;
        self.keys.clear();
    }

    fn set_all_channels(&mut self, all: bool) {
        self.all_channels = all;
        self.channels.clear();
    }

    fn set_all_commands(&mut self, all: bool) {
        let names = COMMANDS.iter().filter(|_| all).map(|row| row.name);
        self.commands = names.collect();
        self.future = all;
        self.first_arguments.clear();
    }

    fn add_keys_with_access(&mut self, rest: &[u8]) -> Result<(), RuleError> {
        let mut access = KeyAccess::default();
        for (at, byte) in rest.iter().enumerate() {
            match byte.to_ascii_lowercase() {
                b'r' if !access.reads => access.reads = true,
                b'w' if !access.writes => access.writes = true,
                b'~' if access != KeyAccess::default() => {
                    return self.add_keys(access, &rest[at + 1..]);
                }
                _ => break,
            }
        }
        Err(if self.all_keys { KEYS_ALREADY } else { SYNTAX })
    }

    fn add_keys(&mut self, access: KeyAccess, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(KEYS_ALREADY);
        }
        if has_spaces(pattern) {
            return Err(SYNTAX);
        }
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(KeyPattern { access: known, .. }) => {
                known.reads |= access.reads;
                known.writes |= access.writes;
            }
            None => self.keys.push(KeyPattern { access, pattern: pattern.to_vec() }),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(CHANNELS_ALREADY);
        }
        if has_spaces(pattern) {
            return Err(SYNTAX);
        }
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    fn change_category(&mut self, name: &[u8], allow: bool) -> Result<(), RuleError> {
        let category = categories::named(name).ok_or(UNKNOWN)?;
        categories::commands_of(category).for_each(|row| self.change(row, allow));
        Ok(())
    }

    /// Allows a command, a subcommand, or a command with a first argument: `select|0`.
    fn allow(&mut self, text: &[u8]) -> Result<(), RuleError> {
        let bar = text.iter().rposition(|byte| *byte == b'|');
        let Some((name, [_, word @ ..])) = bar.map(|at| text.split_at(at)) else {
            self.change(table::named(text).ok_or(UNKNOWN)?, true);
            return Ok(());
        };
        let command = table::named(name).ok_or(UNKNOWN)?;
        match word {
            _ if command.is_subcommand() => return Err(OF_SUBCOMMAND),
            [] => return Err(SYNTAX),
            _ if command.is(flag::CONTAINER) => {
                self.change(table::named(text).ok_or(UNKNOWN)?, true);
            }
            _ => {
                let words = self.first_arguments.entry(command.name).or_default();
                if !words.iter().any(|known| known.eq_ignore_ascii_case(word)) {
                    words.push(word.to_vec());
                }
            }
        }
        Ok(())
    }

    /// Allows a command and its subcommands, or no longer.
    pub(super) fn change(&mut self, command: &'static CommandRow, allow: bool) {
        self.first_arguments.remove(command.name);
        let is_within = |row: &&CommandRow| {
            let rest = row.name.strip_prefix(command.name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
        };
        for row in COMMANDS.iter().filter(is_within) {
            match allow {
                true => self.commands.insert(row.name),
                false => self.commands.remove(row.name),
            };
        }
    }

    /// What of a call is not allowed, if something is not.
    pub(super) fn denied(&self, command: &CommandRow, args: &[&[u8]]) -> Option<Denied> {
        if !self.allows_command(command, args) {
            return Some(Denied::Command);
        }
        if !self.all_keys {
            let all = |it: &KeyPattern| it.access.reads && it.pattern == b"*";
            if access::reads_unnamed(command, args) && !self.keys.iter().any(all) {
                return Some(Denied::Command);
            }
            let [first, others] = access::of_keys(command, args);
            let wanted = std::iter::once(first).chain(std::iter::repeat(others));
            let mut keys = command.keys_of(args).zip(wanted);
            let is_denied = |(key, wanted): &(&[u8], KeyAccess)| !self.allows_key(key, *wanted);
            if let Some((key, _)) = keys.find(is_denied) {
                let at = args.iter().position(|argument| std::ptr::eq(*argument, key));
                return Some(Denied::Key(at.unwrap_or_default()));
            }
        }
        let (channels, are_patterns) = access::channels(command, args);
        let is_denied = |channel: &&[u8]| !self.allows_channel(channel, are_patterns);
        channels.iter().position(is_denied).map(|at| Denied::Channel(at + 1))
    }

    fn allows_command(&self, command: &CommandRow, args: &[&[u8]]) -> bool {
        let words = || self.first_arguments.get(command.name).map_or(&[][..], Vec::as_slice);
        let is_first = |word: &Vec<u8>| args.get(1).is_some_and(|it| it.eq_ignore_ascii_case(word));
        command.is(flag::NO_AUTH)
            || self.commands.contains(command.name)
            || words().iter().any(is_first)
    }

    fn allows_key(&self, key: &[u8], wanted: KeyAccess) -> bool {
        let matches = |it: &KeyPattern| it.access.has(wanted) && glob::matches(&it.pattern, key);
        self.keys.iter().any(matches)
    }

    /// A pattern is allowed as it is written, and a channel as it matches one.
    pub(super) fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let matches = |pattern: &Vec<u8>| match is_pattern {
            true => pattern == channel,
            false => glob::matches(pattern, channel),
        };
        self.all_channels || self.channels.iter().any(matches)
    }
}
