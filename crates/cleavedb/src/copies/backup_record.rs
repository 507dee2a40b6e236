//! The file `backup`: marks a directory as a backup, and says when it was made and of which files.
//!
//! See `docs/format.md`, "Backup".

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cleavedb_base::{Error, ErrorKind, Result};
use cleavedb_storage::{Access, FileKind, Mode, Name, Storage};

use crate::store::manifest::text;

/// Longest file of this kind, in bytes: that of a backup of a million files.
const LEN_MAX: u64 = 64 << 20;

/// The content of the file `backup`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BackupRecord {
    /// Seconds since 1970.
    made: u64,
    /// The identity that each settled file had in the database, as far as it is known.
    identities: BTreeMap<Name, u64>,
}

fn name() -> Name {
    Name::fixed(FileKind::Backup)
}

impl BackupRecord {
    /// The record of a backup that is made now.
    pub(crate) fn now(identities: BTreeMap<Name, u64>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self { made: since.map_or(0, |since| since.as_secs()), identities }
    }

    /// When the backup was made; `None` if that is no time of this system.
    pub(crate) fn made(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_secs(self.made))
    }

    /// The identity that file `name` had in the database when it was copied.
    pub(crate) fn identity_of(&self, name: &Name) -> Option<u64> {
        self.identities.get(name).copied()
    }

    fn encode(&self) -> String {
        let mut text = format!("cleavedb backup 1\nmade {}\n", self.made);
        for (name, identity) in &self.identities {
            text.push_str(&format!("file {name} {identity:016x}\n"));
        }
        text::sealed(text)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.lines().skip(1);
        let made = lines.next()?.strip_prefix("made ")?.parse().ok()?;
        let mut identities = BTreeMap::new();
        for line in lines.map_while(|line| line.strip_prefix("file ")) {
            let (name, identity) = line.split_once(' ')?;
            identities.insert(Name::parse(name)?, u64::from_str_radix(identity, 16).ok()?);
        }
        let record = Self { made, identities };
        (record.encode() == text).then_some(record)
    }

    /// Reads the record of the backup in `storage`.
    pub(crate) fn read(storage: &dyn Storage) -> Result<Self> {
        let bytes = text::read(storage, name(), LEN_MAX)?;
        bytes.and_then(|bytes| Self::decode(&bytes)).ok_or_else(|| {
            let message = "the file that describes the backup is missing or damaged; data is not \
                           affected, but the next backup reads more to find out what has changed";
            Error::corruption(message).with("file", name())
        })
    }

    /// Writes the record to `storage`, durable except for its name.
    pub(crate) fn write(&self, storage: &dyn Storage) -> Result<()> {
        text::prepare(storage, name(), &self.encode()).map_err(Error::with_remedy)
    }
}

/// Fails if there is a backup in `storage`, which must not be changed.
pub(crate) fn check_no_backup(storage: &dyn Storage) -> Result<()> {
    match storage.open(&name(), Mode::Read, Access::Random) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        // Whatever is wrong with it, it is there.
        _ => {}
    }
    let message = "the directory is a backup, which must stay as it is; restore it elsewhere, or \
                   open it for reading only. A copy of it can be written without its file `backup`";
    Err(Error::new(ErrorKind::ReadOnly, message))
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;

    use super::*;

    #[test]
    fn every_damaged_byte_is_noticed() {
        let table = Name::numbered(FileKind::Table, FileNumber(7));
        let log = Name::numbered(FileKind::Log, FileNumber(1 << 40));
        for identities in [BTreeMap::new(), BTreeMap::from([(table, 1), (log, u64::MAX)])] {
            let record = BackupRecord::now(identities);
            let bytes = record.encode().into_bytes();
            assert_eq!(BackupRecord::decode(&bytes).unwrap(), record);
            text::assert_damage_is_noticed(&bytes, |bytes| BackupRecord::decode(bytes).is_some());
        }
    }
}
