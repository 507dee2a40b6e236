//! `ACL`: users, and what was denied to them. Who a client is, and what it may do.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::ClientSession;
use crate::acl::{self, DEFAULT, Denial, Denied, Permissions, User, describe, has_spaces};
use crate::command::args::{is, number, showing, shown, wrong_subcommand};
use crate::command::help::{self, help};
use crate::command::table;
use crate::exec::{Answer, Halt};
use crate::files;
use crate::resp::reply::Reply;
use crate::shared::ServerShared;
use crate::topics::TopicKind;

/// Most bits of a password that is drawn, and how many if nothing is said.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4096;

fn text(text: impl Into<Bytes>) -> Reply {
    Reply::Bulk(text.into())
}

impl ClientSession {
    pub(super) fn acl(
        &mut self,
        shared: &ServerShared,
        name: &str,
        args: &[&[u8]],
        may_wait: bool,
    ) -> Answer {
        let users = &shared.users;
        match name {
            "acl|cat" => categories(args),
            "acl|deluser" => self.remove_users(shared, &args[2..]),
            "acl|dryrun" => dry_run(shared, args[2], &args[3..]),
            "acl|genpass" => match &args[2..] {
                [] => generated(PASSWORD_BITS),
                [bits] => generated(number(bits)?),
                _ => Err(wrong_subcommand(args)),
            },
            "acl|getuser" => Ok(users.named(args[2]).map_or(Reply::Nil, |user| described(&user))),
            "acl|help" => Ok(help(help::ACL)),
            "acl|list" => Ok(Reply::bulks(users.all().iter().map(|user| user.line()))),
            "acl|load" | "acl|save" if !may_wait => Err(Halt::Wait),
            "acl|load" => self.load_users(shared),
            "acl|log" => denials(shared, args),
            "acl|save" => save_users(shared),
            "acl|setuser" => {
                if has_spaces(args[2]) {
                    let why = "ERR Usernames can't contain spaces or null characters";
                    return Err(Halt::error(why));
                }
                let set = users.set(args[2], &args[3..]);
                set.map_err(|why| Halt::error([b"ERR ", &why[..]].concat()))?;
                end_subscribers(shared, args[2]);
                Ok(Reply::OK)
            }
            "acl|users" => Ok(Reply::bulks(users.all().iter().map(|user| user.name.clone()))),
            _ => Ok(text(self.user.name.clone())),
        }
    }

    /// `ACL DELUSER name [name ...]`
    fn remove_users(&mut self, shared: &ServerShared, names: &[&[u8]]) -> Answer {
        if names.contains(&DEFAULT) {
            return Err(Halt::error("ERR The 'default' user cannot be removed"));
        }
        let removed = shared.users.remove(names);
        self.send_away(shared, &removed);
        Ok(Reply::Integer(removed.len() as i64))
    }

    /// Ends the connections of users who are not there any more.
    fn send_away(&mut self, shared: &ServerShared, users: &[Arc<User>]) {
        let is_gone = |user: &Arc<User>| users.iter().any(|gone| Arc::ptr_eq(gone, user));
        for client in shared.clients.all() {
            if client.id != self.client.id && client.chosen().user.is_some_and(|it| is_gone(&it)) {
                client.killed.cancel();
            }
        }
        if is_gone(&self.user) {
            self.become_user(shared.users.default().clone(), false);
            self.is_over = true;
        }
    }

    /// `ACL LOAD`
    fn load_users(&mut self, shared: &ServerShared) -> Answer {
        let path = shared.config.load().aclfile.clone().ok_or_else(no_file)?;
        let failed = |why: Vec<u8>| Halt::error([b"ERR ", &why[..]].concat());
        let before = shared.users.load_file(&path).map_err(failed)?;
        self.send_away(shared, &before);
        Ok(Reply::OK)
    }
}

/// Ends the connections of a user that have channels which it may not have any more.
fn end_subscribers(shared: &ServerShared, name: &[u8]) {
    let Some(user) = shared.users.named(name) else { return };
    let rules = user.rules.load();
    shared.topics.end(|client, kind, topic| {
        let is_of_user = client.chosen().user.is_some_and(|other| Arc::ptr_eq(&other, &user));
        is_of_user && !rules.allows_channel(topic, kind == TopicKind::Pattern)
    });
}

fn no_file() -> Halt {
    Halt::error(
        "ERR This Redis instance is not configured to use an ACL file. You may want to specify \
         users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a \
         Redis configuration file set) in order to store users in the Redis configuration.",
    )
}

/// `ACL SAVE`
fn save_users(shared: &ServerShared) -> Answer {
    let path = shared.config.load().aclfile.clone().ok_or_else(no_file)?;
    let saved = files::replace(&path, &shared.users.saved());
    let why =
        |error| Halt::error(format!("ERR There was an error trying to save the ACLs: {error}"));
    saved.map(|()| Reply::OK).map_err(why)
}

/// `ACL CAT [category]`
fn categories(args: &[&[u8]]) -> Answer {
    match &args[2..] {
        [] => Ok(Reply::bulks(acl::NAMES.iter().map(|name| &name[1..]))),
        [name] => {
            let why = || showing("ERR Unknown category '", shown(name, 128), "'");
            let category = acl::named(name).ok_or_else(why)?;
            Ok(Reply::bulks(acl::commands_of(category).map(|row| row.name)))
        }
        _ => Err(wrong_subcommand(args)),
    }
}

/// `ACL DRYRUN user command [argument ...]`
fn dry_run(shared: &ServerShared, name: &[u8], call: &[&[u8]]) -> Answer {
    let no_user = || showing("ERR User '", name, "' not found");
    let user = shared.users.named(name).ok_or_else(no_user)?;
    let no_command = || showing("ERR Command '", call[0], "' not found");
    let command = table::find(call).ok_or_else(no_command)?;
    if !command.takes(call.len()) {
        let name = command.name;
        return Err(Halt::error(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let (before, what, behind) = match user.rules.load().denied(command, call) {
        None => return Ok(Reply::OK),
        Some(Denied::Command) => ("run the '", command.name.as_bytes(), "' command"),
        Some(Denied::Key(at)) => ("access the '", call[at], "' key"),
        Some(Denied::Channel(at)) => ("access the '", call[at], "' channel"),
    };
    let before = format!("This user has no permissions to {before}");
    Ok(text([before.as_bytes(), shown(what, usize::MAX), behind.as_bytes()].concat()))
}

/// `ACL GENPASS [bits]`
fn generated(bits: i64) -> Answer {
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(Halt::error(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a \
             positive number up to {PASSWORD_BITS_MAX}"
        )));
    }
    let digits = (bits as usize).div_ceil(4);
    let mut drawn = vec![0; digits.div_ceil(2)];
    let failed = |error| Halt::error(format!("ERR no random bytes: {error}"));
    rustix::rand::getrandom(&mut drawn, rustix::rand::GetRandomFlags::empty()).map_err(failed)?;
    let mut password: String = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
    password.truncate(digits);
    Ok(text(password))
}

/// The reply of `ACL GETUSER`.
fn described(user: &User) -> Reply {
    let rules = user.rules.load();
    let flags = rules.flags().into_iter().map(text).collect();
    let mut pairs = vec![
        (text("flags"), Reply::Set(flags)),
        (text("passwords"), Reply::bulks(rules.passwords.clone())),
    ];
    pairs.extend(permissions(&rules.root));
    let others = rules.selectors.iter().map(|it| Reply::Map(permissions(it)));
    pairs.push((text("selectors"), Reply::Array(others.collect())));
    Reply::Map(pairs)
}

fn permissions(of: &Permissions) -> Vec<(Reply, Reply)> {
    vec![
        (text("commands"), text(describe::commands(of))),
        (text("keys"), text(describe::keys(of))),
        (text("channels"), text(describe::channels(of))),
    ]
}

/// `ACL LOG [count | RESET]`
fn denials(shared: &ServerShared, args: &[&[u8]]) -> Answer {
    let count = match &args[2..] {
        [] => 10,
        [word] if is(word, "RESET") => {
            shared.denials.clear();
            return Ok(Reply::OK);
        }
        [count] => usize::try_from(number(count)?).unwrap_or_default(),
        _ => return Err(wrong_subcommand(args)),
    };
    let described = |denial: Denial| {
        let age: Duration = denial.when.elapsed();
        Reply::Map(vec![
            (text("count"), Reply::Integer(denial.count)),
            (text("reason"), text(denial.reason)),
            (text("context"), text(denial.context)),
            (text("object"), text(denial.object)),
            (text("username"), text(denial.user)),
            (text("age-seconds"), Reply::Double(age.as_millis() as f64 / 1000.0)),
            (text("client-info"), text(denial.client)),
        ])
    };
    Ok(Reply::Array(shared.denials.newest(count).into_iter().map(described).collect()))
}
