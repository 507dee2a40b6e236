//! The content of a database with keyspaces as a map of maps, and its comparison with a database.

use std::collections::BTreeMap;

use cleavedb::{Db, Error, Keyspace, Snapshot};

use crate::op::{Scan, Write, short};
use crate::read::{Checked, collect, compare, compare_value, everything};
use crate::state::State;

/// The keyspace that is always there.
pub(super) const DEFAULT: &str = "default";

/// An error as text.
pub(super) fn failed(error: Error) -> String {
    error.to_string()
}

/// What a keyspace has, and how long its values live, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Space {
    pub(super) state: State,
    pub(super) ttl: Option<u64>,
}

impl Space {
    /// The write that has the effect of `write` here: values live as long as the keyspace says.
    pub(super) fn own(&self, write: &Write) -> Write {
        let Some(ttl) = self.ttl else { return write.clone() };
        match &write.operand {
            Some(_) => self.merged(write),
            None => {
                let lives = write.value.is_some().then_some(ttl);
                Write { ttl: write.ttl.or(lives), ..write.clone() }
            }
        }
    }

    /// A put of what a merge makes of what is there, which keeps its expiry.
    pub(super) fn merged(&self, merge: &Write) -> Write {
        let (key, mut made) = (&merge.key, self.state.clone());
        made.apply(std::slice::from_ref(merge));
        let goes = self.state.expiry(key).map(|at| at - self.state.now());
        let ttl = if self.state.get(key).is_some() { goes } else { self.ttl };
        Write { ttl, ..Write::put(key, made.get(key).unwrap_or_default().to_vec()) }
    }
}

/// A map for each keyspace, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Content(pub(super) BTreeMap<String, Space>);

impl Content {
    /// The content of a new database, at the time `now`.
    pub(super) fn new(now: u64) -> Self {
        let mut content = Self(BTreeMap::from([(DEFAULT.to_owned(), Space::default())]));
        content.pass_until(now);
        content
    }

    /// Lets time pass in all keyspaces.
    pub(super) fn pass_until(&mut self, now: u64) {
        self.0.values_mut().for_each(|space| space.state.pass_until(now));
    }

    /// What a keyspace has, or nothing.
    pub(super) fn space(&mut self, name: &str) -> Checked<&mut Space> {
        self.0.get_mut(name).ok_or_else(|| format!("the model has no keyspace {name}"))
    }

    /// Applies writes in order.
    pub(super) fn apply(&mut self, writes: &[(String, Write)]) -> Checked {
        for (name, write) in writes {
            let space = self.space(name)?;
            let own = space.own(write);
            space.state.apply(&[own]);
        }
        Ok(())
    }

    /// Compares names and everything else with a database.
    pub(super) fn check(&self, db: &Db) -> Checked {
        let mut handles = db.keyspaces().map_err(failed)?;
        let names: Vec<&str> = handles.iter().map(|keyspace| keyspace.name()).collect();
        let known: Vec<&str> =
            self.0.keys().map(|name| &**name).filter(|n| *n != DEFAULT).collect();
        if names != known {
            return Err(format!("the keyspaces are {names:?}, expected {known:?}"));
        }
        handles.extend(db.find_keyspace(DEFAULT).map_err(failed)?);
        for keyspace in &handles {
            let expected = &self.0[keyspace.name()].state;
            check_keyspace(keyspace, expected)
                .map_err(|e| format!("keyspace {}: {e}", keyspace.name()))?;
        }
        Ok(())
    }

    /// Compares everything with a snapshot, by handles of when it was taken.
    pub(super) fn check_snapshot(&self, snapshot: &Snapshot, handles: &[Keyspace]) -> Checked {
        for keyspace in handles {
            let (seen, expected) = (snapshot.keyspace(keyspace), &self.0[keyspace.name()].state);
            let what = format!("a snapshot of {}", keyspace.name());
            let pairs = expected.range(None, None);
            compare(&what, &collect(seen.range(..), Scan::Forward)?, &pairs)?;
            compare(&what, &collect(seen.range(..), Scan::Backward)?, &pairs)?;
            for (key, value) in pairs {
                let got = seen.get(key).map_err(failed)?;
                compare_value(&what, key, got.as_ref(), Some(value))?;
            }
        }
        Ok(())
    }
}

fn check_keyspace(keyspace: &Keyspace, expected: &State) -> Checked {
    let pairs = expected.range(None, None);
    compare("backwards", &collect(keyspace.range(..), Scan::Backward)?, &pairs)?;
    compare("forwards", &collect(keyspace.range(..), Scan::Forward)?, &pairs)?;
    let found = everything(keyspace)?;
    if found != *expected {
        let differs = |(key, _): &(&[u8], &[u8])| found.expiry(key) != expected.expiry(key);
        let key = pairs.into_iter().find(differs).map(|(key, _)| key).unwrap_or_default();
        let expiries = (found.expiry(key), expected.expiry(key));
        return Err(format!("{} expires at {expiries:?}: found, expected", short(key)));
    }
    for (key, value) in pairs {
        let got = keyspace.get(key).map_err(failed)?;
        compare_value("get", key, got.as_ref(), Some(value))?;
    }
    Ok(())
}
