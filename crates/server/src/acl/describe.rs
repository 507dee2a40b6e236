//! The rules that make permissions what they are.

use super::access::KeyAccess;
use super::categories::{NAMES, commands_of};
use super::permissions::{KeyPattern, Permissions};
use crate::command::table::COMMANDS;

/// Rules for keys: `~*`, or patterns with spaces between them.
pub fn keys(of: &Permissions) -> Vec<u8> {
    if of.all_keys {
        return b"~*".to_vec();
    }
    let described = |KeyPattern { access, pattern }: &KeyPattern| {
        let before = match *access {
            KeyAccess { reads: true, writes: true } => &b"~"[..],
            KeyAccess { reads: true, .. } => b"%R~",
            _ => b"%W~",
        };
        [before, pattern].concat()
    };
    of.keys.iter().map(described).collect::<Vec<_>>().join(&b' ')
}

/// Rules for channels: `&*`, or patterns with spaces between them.
pub fn channels(of: &Permissions) -> Vec<u8> {
    if of.all_channels {
        return b"&*".to_vec();
    }
    let described = |pattern: &Vec<u8>| [b"&", &pattern[..]].concat();
    of.channels.iter().map(described).collect::<Vec<_>>().join(&b' ')
}

/// Rules for commands: from all or from none, categories that come near, one after another the
/// nearest, then single commands. The algorithm is that of Redis, so that its words are.
pub fn commands(of: &Permissions) -> Vec<u8> {
    let adds = !of.future;
    let sign = |allow: bool| if allow { "+" } else { "-" };
    let mut rules = vec![format!("{}@all", sign(!adds)).into_bytes()];
    let mut made = Permissions::default();
    let mut left = of.clone();
    // Of all commands or none, neither of which can fail.
    let _ = made.set(&rules[0]);
    let mut applied = 0;
    while let Some(at) = nearest(&left, applied, adds) {
        let rule = |allow: bool| format!("{}{}", sign(allow), NAMES[at]).into_bytes();
        let _ = made.set(&rule(adds));
        let _ = left.set(&rule(!adds));
        rules.push(rule(adds));
        applied |= 1 << at;
    }
    for row in COMMANDS {
        let allowed = of.commands.contains(row.name);
        if allowed != made.commands.contains(row.name) {
            rules.push([sign(allowed), row.name].concat().into_bytes());
            made.change(row, allowed);
        }
        let words = of.first_arguments.get(row.name).filter(|_| !allowed);
        let rule = |word: &Vec<u8>| [b"+", row.name.as_bytes(), b"|", word].concat();
        rules.extend(words.into_iter().flatten().map(rule));
    }
    rules.join(&b' ')
}

/// All rules.
pub fn all(of: &Permissions) -> Vec<u8> {
    let (keys, mut channels) = (keys(of), channels(of));
    if !of.all_channels {
        let between = if channels.is_empty() { &b""[..] } else { b" " };
        channels = [b"resetchannels", between, &channels].concat();
    }
    let all = [keys, channels, commands(of)];
    let told: Vec<_> = all.into_iter().filter(|rules| !rules.is_empty()).collect();
    told.join(&b' ')
}

/// The category, of those that were not `applied`, with the fewest commands that a rule for it
/// would change and should not, and of these the one with the most that it should.
fn nearest(left: &Permissions, applied: u32, adds: bool) -> Option<usize> {
    let mut best: Option<(usize, usize, usize)> = None;
    for at in (0..NAMES.len()).filter(|at| applied & 1 << at == 0) {
        let category = 1 << at;
        let (on, off): (Vec<_>, Vec<_>) =
            commands_of(category).partition(|row| left.commands.contains(row.name));
        let (same, other) = if adds { (on.len(), off.len()) } else { (off.len(), on.len()) };
        let is_better =
            best.is_none_or(|(_, least, most)| other < least || other == least && same > most);
        if same > other && is_better {
            best = Some((at, other, same));
        }
    }
    best.map(|(at, ..)| at)
}
