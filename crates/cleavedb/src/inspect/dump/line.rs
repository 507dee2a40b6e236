//! The lines of a dump: one for each part of a file, as named facts, so that the text and the JSON
//! output show the same.

use std::borrow::Cow;
use std::ops::ControlFlow;

use cleavedb_base::key::split_encoded_key;
use cleavedb_base::{Error, KeyspaceId};

/// The value of one fact of a [`DumpLine`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpFact<'a> {
    /// A number: a file number, a sequence number, a number of bytes.
    Number(u64),
    /// Text.
    Text(Cow<'a, str>),
    /// A user key.
    Key(&'a [u8]),
    /// A value.
    Value(&'a [u8]),
}

impl From<u64> for DumpFact<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl<'a> From<&'a str> for DumpFact<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for DumpFact<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

/// One part of a file: a record, an edit, a block, a header.
#[derive(Clone, Debug)]
pub struct DumpLine<'a> {
    /// Name of the file.
    pub file: &'a str,
    /// Offset in the file, in bytes; `None` for a part without a place of its own.
    pub offset: Option<u64>,
    /// The kind of the part, in words.
    pub what: &'static str,
    /// Whether it is an edit, a record or an entry: a bound on the number of items counts only
    /// these.
    pub is_item: bool,
    /// The facts about it. Their names are words joined by `_`; all sizes are in bytes.
    pub facts: Vec<(&'static str, DumpFact<'a>)>,
}

/// One result of a dump, in the order of the files.
#[derive(Clone, Debug)]
pub enum Dumped<'a> {
    /// A part that was read and whose checksum holds.
    Line(DumpLine<'a>),
    /// A part that is damaged or missing; the error names file and offset.
    Damage(Error),
}

/// Called with each result of a dump; a break ends the dump.
pub type DumpVisit<'v> = dyn FnMut(Dumped<'_>) -> ControlFlow<()> + 'v;

/// Facts of a line.
pub(super) type Facts<'a> = Vec<(&'static str, DumpFact<'a>)>;

/// Passes the lines of a file to the visitor.
pub(super) struct Out<'v> {
    visit: &'v mut DumpVisit<'v>,
    file: String,
    /// Whether lines have values.
    pub(super) values: bool,
}

impl<'v> Out<'v> {
    pub(super) fn new(visit: &'v mut DumpVisit<'v>, values: bool) -> Self {
        Self { visit, file: String::new(), values }
    }

    /// Begins the next file.
    pub(super) fn begin(&mut self, file: impl ToString) {
        self.file = file.to_string();
    }

    /// Passes on a line that is no item: a part of an item, or of a file.
    pub(super) fn line(
        &mut self,
        offset: impl Into<Option<u64>>,
        what: &'static str,
        facts: Facts<'_>,
    ) -> ControlFlow<()> {
        self.say(offset.into(), what, false, facts)
    }

    /// Passes on an item: an edit, a record or an entry.
    pub(super) fn item(
        &mut self,
        offset: impl Into<Option<u64>>,
        what: &'static str,
        facts: Facts<'_>,
    ) -> ControlFlow<()> {
        self.say(offset.into(), what, true, facts)
    }

    fn say(
        &mut self,
        offset: Option<u64>,
        what: &'static str,
        is_item: bool,
        facts: Facts<'_>,
    ) -> ControlFlow<()> {
        (self.visit)(Dumped::Line(DumpLine { file: &self.file, offset, what, is_item, facts }))
    }

    /// Reports damage, in this file if the error names no other.
    pub(super) fn damage(&mut self, error: Error) -> ControlFlow<()> {
        let named = error.fact("file").is_some() || self.file.is_empty();
        let error = if named { error } else { error.with("file", &self.file) };
        (self.visit)(Dumped::Damage(error))
    }

    /// Reports damage at a place of this file.
    pub(super) fn damage_at(&mut self, offset: u64, what: &str) -> ControlFlow<()> {
        let error = Error::corruption(what).with("file", &self.file).with("offset", offset);
        (self.visit)(Dumped::Damage(error))
    }
}

/// The facts of a user key.
pub(super) fn key_facts(keyspace: KeyspaceId, key: &[u8]) -> Facts<'_> {
    let mut facts = vec![("key", DumpFact::Key(key))];
    if keyspace != KeyspaceId::default() {
        facts.push(("keyspace", u64::from(keyspace.0).into()));
    }
    facts
}

/// The user key of a tree key, or the bytes as they are if they are too short to be one.
pub(super) fn user_key(encoded_key: &[u8]) -> DumpFact<'_> {
    DumpFact::Key(split_encoded_key(encoded_key).map_or(encoded_key, |(_, key)| key))
}
