//! All users, and the file that keeps them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::permissions::{RuleError, UNKNOWN};
use super::user::{User, UserRules};
use crate::command::args::shown;

pub use super::permissions::has_spaces;

/// The name of the user that clients are before they say who they are.
pub const DEFAULT: &[u8] = b"default";

/// Users by their names.
type ByName = BTreeMap<Vec<u8>, Arc<User>>;

/// All users.
pub struct Users {
    all: Mutex<ByName>,
    default: Arc<User>,
}

impl Users {
    /// One user, whom clients are: with a password, if there is one.
    pub fn new(password: Option<&str>) -> Self {
        let default = Arc::new(User::new(DEFAULT, UserRules::open()));
        let all = Mutex::new([(DEFAULT.to_vec(), default.clone())].into());
        let users = Self { all, default };
        users.set_password(password);
        users
    }

    /// The user that clients are before they say who they are.
    pub fn default(&self) -> &Arc<User> {
        &self.default
    }

    /// Gives that user one password, or has it need none.
    pub fn set_password(&self, password: Option<&str>) {
        let mut rules = UserRules::clone(&self.default.rules.load());
        let rule = password.map_or("nopass".to_owned(), |password| format!(">{password}"));
        for rule in ["resetpass", &rule] {
            // None of these fails.
            let _ = rules.set(rule.as_bytes());
        }
        self.default.rules.store(Arc::new(rules));
    }

    /// A user.
    pub fn named(&self, name: &[u8]) -> Option<Arc<User>> {
        self.all.lock().get(name).cloned()
    }

    /// All users, by their names.
    pub fn all(&self) -> Vec<Arc<User>> {
        self.all.lock().values().cloned().collect()
    }

    /// Applies rules to a user, which is made if it is not there: all rules or none.
    pub fn set(&self, name: &[u8], rules: &[&[u8]]) -> Result<(), Vec<u8>> {
        let mut all = self.all.lock();
        let known = all.get(name);
        let mut changed =
            known.map_or_else(UserRules::default, |it| UserRules::clone(&it.rules.load()));
        let rules = merged(rules).map_err(|open| {
            let before = b"Unmatched parenthesis in acl selector starting at '";
            [&before[..], shown(open, usize::MAX), b"'."].concat()
        })?;
        for rule in rules {
            changed.set(&rule).map_err(|why| {
                let shown = shown(&rule, usize::MAX);
                [b"Error in ACL SETUSER modifier '", shown, b"': ", why.as_bytes()].concat()
            })?;
        }
        match known {
            Some(user) => user.rules.store(Arc::new(changed)),
            None => _ = all.insert(name.to_vec(), Arc::new(User::new(name, changed))),
        }
        Ok(())
    }

    /// Removes users, and returns them: they may do nothing any more.
    pub fn remove(&self, names: &[&[u8]]) -> Vec<Arc<User>> {
        let mut all = self.all.lock();
        let removed: Vec<_> = names.iter().filter_map(|name| all.remove(*name)).collect();
        removed.iter().for_each(|user| user.rules.store(Arc::default()));
        removed
    }

    /// The users as lines of a file.
    pub fn saved(&self) -> Vec<u8> {
        self.all().iter().flat_map(|user| [user.line(), b"\n".to_vec()].concat()).collect()
    }

    /// Takes the users of a file in place of all others, and returns these, without any right; on
    /// an error everything stays. A file without the default user leaves that one as it is.
    pub fn load_file(&self, path: &Path) -> Result<Vec<Arc<User>>, Vec<u8>> {
        let failed = |error| {
            let path = path.display();
            format!("Error loading ACLs, opening file '{path}': {error}").into_bytes()
        };
        let mut loaded = parsed(path, &std::fs::read(path).map_err(failed)?)?;
        let mut all = self.all.lock();
        if let Some(default) = loaded.remove(DEFAULT) {
            self.default.rules.store(default.rules.load_full());
        }
        loaded.insert(DEFAULT.to_vec(), self.default.clone());
        let mut before = std::mem::replace(&mut *all, loaded);
        before.remove(DEFAULT);
        before.values().for_each(|user| user.rules.store(Arc::default()));
        Ok(before.into_values().collect())
    }
}

/// Rules of which those from one that opens a parenthesis to one that closes it are one; an error
/// is the rule with the parenthesis that stays open.
fn merged<'a>(rules: &[&'a [u8]]) -> Result<Vec<Vec<u8>>, &'a [u8]> {
    let (mut merged, mut open) = (Vec::<Vec<u8>>::new(), None);
    for rule in rules {
        let closes = rule.ends_with(b")");
        match open {
            _ if rule.starts_with(b"(") && !closes => {
                merged.push(rule.to_vec());
                open = Some(*rule);
            }
            None => merged.push(rule.to_vec()),
            Some(_) => {
                if let Some(last) = merged.last_mut() {
                    last.extend([b" ", *rule].concat());
                }
                open = open.filter(|_| !closes);
            }
        }
    }
    open.map_or(Ok(merged), Err)
}

/// The users of a file, or what is wrong with it, in Redis's words.
fn parsed(path: &Path, text: &[u8]) -> Result<ByName, Vec<u8>> {
    let (mut users, mut errors) = (ByName::new(), Vec::new());
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let place = format!("{}:{}", path.display(), number + 1).into_bytes();
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let [b"user", name, rules @ ..] = &words[..] else {
            let why = b" should start with user keyword followed by the username. ";
            errors.extend([&place[..], why].concat());
            continue;
        };
        if has_spaces(name) {
            let parts =
                [b"'", &place[..], b": username '", name, b"' contains invalid characters. "];
            errors.extend(parts.concat());
            continue;
        }
        if users.contains_key(*name) {
            let line = format!("' found on line {}. ", number + 1);
            errors.extend([b"WARNING: Duplicate user '", *name, line.as_bytes()].concat());
            continue;
        }
        let mut user = UserRules::default();
        match merged(rules) {
            Err(_) => {
                let why = b": Unmatched parenthesis in selector definition.";
                errors.extend([&place[..], why].concat());
            }
            Ok(rules) => errors.extend(applied(&mut user, &place, &rules)),
        }
        users.insert(name.to_vec(), Arc::new(User::new(name, user)));
    }
    if errors.is_empty() {
        return Ok(users);
    }
    errors.extend(
        b"WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
    );
    Err(errors)
}

/// Applies the rules of a line, and says which ones cannot be: all unknown names, else the first,
/// without the rule, which may have a password.
fn applied(user: &mut UserRules, place: &[u8], rules: &[Vec<u8>]) -> Vec<u8> {
    let (mut errors, mut is_told) = (Vec::new(), false);
    for rule in rules {
        let rule = rule.trim_ascii();
        let result: Result<(), RuleError> = user.set(rule);
        let Err(why) = result else { continue };
        if why == UNKNOWN {
            let parts =
                [place, b": Error in applying operation '", rule, b"': ", why.as_bytes(), b". "];
            errors.extend(parts.concat());
        } else if !is_told {
            errors.extend([place, b": ", why.as_bytes(), b". "].concat());
            is_told = true;
        }
    }
    errors
}
