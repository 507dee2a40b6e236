//! Keyspaces as an export has them, with their options, and as an import makes them.

use std::fmt;

use cleavedb::{Db, Keyspace, KeyspaceOptions};
use cleavedb_named as named;
use serde::{Deserialize, Serialize};

use crate::expiry;
use crate::failure::Result;

/// The name of the keyspace that every database has.
pub const DEFAULT: &str = "default";

/// A keyspace of a file, and its options as `keyspace create` takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    min_separated: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compression: Option<String>,
}

impl From<KeyspaceOptions> for StoredOptions {
    fn from(options: KeyspaceOptions) -> Self {
        let KeyspaceOptions { min_separated, ttl, compression } = options;
        Self {
            min_separated,
            ttl: ttl.map(|ttl| humantime::format_duration(ttl).to_string()),
            compression: compression.map(|compression| compression.name().to_owned()),
        }
    }
}

/// As arguments of `keyspace create`, each behind a tab.
impl fmt::Display for StoredOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { min_separated, ttl, compression } = self;
        if let Some(least) = min_separated {
            write!(f, "\t--min-separated {least}")?;
        }
        if let Some(ttl) = ttl {
            write!(f, "\t--ttl {}", ttl.replace(' ', ""))?;
        }
        if let Some(how) = compression {
            write!(f, "\t--compression {how}")?;
        }
        Ok(())
    }
}

impl StoredOptions {
    /// The options; `Err` says which one is wrong.
    pub fn parse(&self) -> std::result::Result<KeyspaceOptions, String> {
        let Self { min_separated, ttl, compression } = self;
        Ok(KeyspaceOptions {
            min_separated: *min_separated,
            ttl: ttl.as_deref().map(expiry::ttl).transpose()?,
            compression: compression.as_deref().map(named::value_compression).transpose()?,
        })
    }
}

/// What of a keyspace of this name and with these options the database cannot have or keeps
/// otherwise, in words.
pub fn differs(db: &Db, name: &str, options: KeyspaceOptions) -> Result<Option<String>> {
    let wanted = fitting(db, options);
    Ok(match db.find_keyspace(name)? {
        Some(found) if found.stored_options()? != wanted => {
            Some(format!("keyspace {name} is there, and keeps the options that it has"))
        }
        None if wanted != options => {
            let why = "min_separated is left out, this layout keeps values in the index";
            Some(format!("keyspace {name}: {why}"))
        }
        _ => None,
    })
}

/// The keyspace of this name, which is created with these options if there is none.
pub fn make(db: &Db, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
    Ok(match db.find_keyspace(name)? {
        Some(found) => found,
        None => db.create_keyspace(name, fitting(db, options))?,
    })
}

/// The options without those that the layout of the database has no use for.
fn fitting(db: &Db, options: KeyspaceOptions) -> KeyspaceOptions {
    let min_separated = options.min_separated.filter(|_| db.options().layout().separates());
    KeyspaceOptions { min_separated, ..options }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cleavedb::ValueCompression;

    use super::*;

    #[test]
    fn options_are_read_as_they_are_written() {
        let ttl = Duration::from_millis(90_061_001);
        for ((_, how), ttl) in
            ValueCompression::ALL.into_iter().zip([Some(ttl), None].into_iter().cycle())
        {
            let options = KeyspaceOptions { min_separated: Some(0), ttl, compression: Some(how) };
            let stored = StoredOptions::from(options);
            let text = serde_json::to_string(&stored).unwrap();
            let read: StoredOptions = serde_json::from_str(&text).unwrap();
            assert_eq!(read.parse().unwrap(), options, "{text}");
        }
        let text = StoredOptions::from(KeyspaceOptions { ttl: Some(ttl), ..Default::default() });
        assert_eq!(text.to_string(), "\t--ttl 1day1h1m1s1ms");
        assert_eq!(expiry::ttl("1day1h1m1s1ms"), Ok(ttl), "as an argument it is one word");
        assert_eq!(serde_json::to_string(&StoredOptions::default()).unwrap(), "{}");
        assert!(serde_json::from_str::<StoredOptions>("{\"color\":1}").is_err());
    }
}
