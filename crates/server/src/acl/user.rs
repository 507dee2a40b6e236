//! A user: a name, passwords, and what they give the right to.

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::describe;
use super::permissions::{Denied, Permissions, RuleError};
use crate::command::args::is;
use crate::command::table::CommandRow;
use crate::resp::inline;

const NO_HASH: RuleError = "The password hash must be exactly 64 characters and contain only \
                            lowercase hexadecimal characters";
const NO_PASSWORD: RuleError = "The password you are trying to remove from the user does not exist";

/// What a user may do, and with which passwords. It does not change: a user gets another one.
#[derive(Clone, Debug, Default)]
pub struct UserRules {
    /// Whether clients may say that they are this user.
    pub is_on: bool,
    /// Whether every password will do.
    pub needs_none: bool,
    /// Whether values of `RESTORE` are looked through, if that was said: they all are.
    sanitizes: Option<bool>,
    /// SHA-256 of passwords, in hexadecimal digits.
    pub passwords: Vec<String>,
    /// What is allowed by rules outside of parentheses.
    pub root: Permissions,
    /// What is allowed besides, by rules in parentheses.
    pub selectors: Vec<Permissions>,
    /// Whether everything is allowed, which is asked for each command.
    allows_all: bool,
}

impl UserRules {
    /// Rules that allow everything, without a password.
    pub fn open() -> Self {
        let mut rules = Self::default();
        for rule in ["+@all", "~*", "&*", "on", "nopass"] {
            // None of these fails.
            let _ = rules.set(rule.as_bytes());
        }
        rules
    }

    /// Applies a rule.
    pub fn set(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule {
            [] => {}
            _ if is(rule, "on") => self.is_on = true,
            _ if is(rule, "off") => self.is_on = false,
            _ if is(rule, "skip-sanitize-payload") => self.sanitizes = Some(false),
            _ if is(rule, "sanitize-payload") => self.sanitizes = Some(true),
            _ if is(rule, "nopass") => self.set_passwords(true),
            _ if is(rule, "resetpass") => self.set_passwords(false),
            [b'>', password @ ..] => self.add_password(hashed(password)),
            [b'#', hash @ ..] => self.add_password(checked(hash)?),
            [b'<', password @ ..] => self.remove_password(&hashed(password))?,
            [b'!', hash @ ..] => self.remove_password(&checked(hash)?)?,
            [b'(', rules @ .., b')'] => {
                let mut selector = Permissions::default();
                for rule in inline::words(rules).unwrap_or_default() {
                    selector.set(&rule)?;
                }
                self.selectors.push(selector);
            }
            _ if is(rule, "clearselectors") => self.selectors.clear(),
            _ if is(rule, "reset") => *self = Self { sanitizes: Some(true), ..Self::default() },
            _ => self.root.set(rule)?,
        }
        self.allows_all = self.root.allows_all();
        Ok(())
    }

    fn set_passwords(&mut self, needs_none: bool) {
        self.needs_none = needs_none;
        self.passwords.clear();
    }

    fn add_password(&mut self, hash: String) {
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        self.needs_none = false;
    }

    fn remove_password(&mut self, hash: &str) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| known == hash).ok_or(NO_PASSWORD)?;
        self.passwords.remove(at);
        Ok(())
    }

    /// Whether a client may be this user, with this password. How long this takes tells nothing of
    /// the passwords.
    pub fn admits(&self, password: &[u8]) -> bool {
        let hash = hashed(password);
        let equal = |known: &String| bool::from(known.as_bytes().ct_eq(hash.as_bytes()));
        let count = self.passwords.iter().filter(|known| equal(known)).count();
        self.is_on && (self.needs_none || count > 0)
    }

    /// Whether clients are this user without a password.
    pub fn is_open(&self) -> bool {
        self.is_on && self.needs_none
    }

    /// Whether clients may do everything without a password.
    pub fn is_unrestricted(&self) -> bool {
        self.is_open() && self.allows_all
    }

    /// What of a call is not allowed, if something is not: of several permissions the last key or
    /// channel, or the command, if none of them allows that.
    pub fn denied(&self, command: &CommandRow, args: &[&[u8]]) -> Option<Denied> {
        if self.allows_all {
            return None;
        }
        let all = std::iter::once(&self.root).chain(&self.selectors);
        let denied = all.map(|it| it.denied(command, args)).collect::<Option<Vec<_>>>()?;
        denied.into_iter().max()
    }

    /// Whether a client may be sent the messages of a channel, or of a pattern.
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let mut all = std::iter::once(&self.root).chain(&self.selectors);
        all.any(|permissions| permissions.allows_channel(channel, is_pattern))
    }

    /// The names of what is on and off.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        flags.extend(self.needs_none.then_some("nopass"));
        flags.extend(self.sanitizes.map(|does| match does {
            true => "sanitize-payload",
            false => "skip-sanitize-payload",
        }));
        flags
    }

    /// The rules that make a user what it is.
    pub fn described(&self) -> Vec<u8> {
        let flags = self.flags().into_iter().map(|flag| flag.as_bytes().to_vec());
        let passwords = self.passwords.iter().map(|hash| format!("#{hash}").into_bytes());
        let selectors =
            self.selectors.iter().map(|it| [b"(", &describe::all(it)[..], b")"].concat());
        let root = std::iter::once(describe::all(&self.root));
        flags.chain(passwords).chain(root).chain(selectors).collect::<Vec<_>>().join(&b' ')
    }
}

/// The SHA-256 of a password, in hexadecimal digits.
fn hashed(password: &[u8]) -> String {
    Sha256::digest(password).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn checked(hash: &[u8]) -> Result<String, RuleError> {
    let is_hash = hash.len() == 64 && hash.iter().all(|it| b"0123456789abcdef".contains(it));
    String::from_utf8(hash.to_vec()).ok().filter(|_| is_hash).ok_or(NO_HASH)
}

/// A user. Clients hold it, so that changes of its rules count for them at once.
#[derive(Debug)]
pub struct User {
    /// The name.
    pub name: Vec<u8>,
    /// What it may do.
    pub rules: ArcSwap<UserRules>,
}

impl User {
    /// A user with rules.
    pub fn new(name: &[u8], rules: UserRules) -> Self {
        Self { name: name.to_vec(), rules: ArcSwap::from_pointee(rules) }
    }

    /// The line of `ACL LIST`, and of a file.
    pub fn line(&self) -> Vec<u8> {
        [b"user ", &self.name[..], b" ", &self.rules.load().described()].concat()
    }
}
