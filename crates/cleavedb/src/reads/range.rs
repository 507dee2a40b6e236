//! Ranges: keys and values in order, from both ends, as of one moment.
//!
//! A cursor reads from the front, and another one, made when it is needed, from the back.

use bytes::{Buf, Bytes};
use cleavedb_base::limits::KEYSPACE_PREFIX_LEN;
use cleavedb_base::{Error, Result};

use crate::control::debug::debug;
use crate::reads::cursor::Cursor;
use crate::reads::item::Item;

/// Iterator over a range, from both ends; yields every key once. After an error it ends; a cursor
/// steps on behind a value that cannot be read.
///
/// It sees the database as of its creation, and keeps the files that it needs until it is dropped.
pub struct Range {
    front: Cursor,
    back: Option<Cursor>,
    /// The last tree key from the front; empty before the first.
    front_key: Vec<u8>,
    keys_only: bool,
    done: bool,
}

debug!(Range, |_| {});

impl Range {
    /// The range of a new cursor.
    pub(crate) fn of(cursor: Cursor) -> Self {
        let front = cursor.one_way();
        Self { front, back: None, front_key: Vec::new(), keys_only: false, done: false }
    }

    /// The range without its values, which are not read: those of its items are empty.
    #[must_use]
    pub fn keys_only(self) -> Self {
        Self { keys_only: true, ..self }
    }

    /// The range, of which about `items` items will be taken: their values are prefetched from
    /// the first on, and no others. Does not limit the range.
    #[must_use]
    pub fn with_limit_hint(mut self, items: usize) -> Self {
        self.front.expect(items);
        self
    }

    /// The range, for a thread that must not wait for the device, before its first step: a step
    /// that would have to fails with [`crate::ErrorKind::WouldWait`], and the range ends. Then
    /// another thread reads anew. See [`crate::Keyspace::get_resident`], whose exceptions hold
    /// here, too.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cleavedb::Db::open(dir.path().join("db"), Default::default())?;
    /// use cleavedb::{ErrorKind, Item, Result};
    ///
    /// db.put("key", "value")?;
    /// let items: Vec<Item> = match db.range(..).resident().collect::<Result<_>>() {
    ///     Err(e) if e.kind() == ErrorKind::WouldWait => {
    ///         db.range(..).collect::<Result<_>>()? // in a thread that may wait
    ///     }
    ///     items => items?,
    /// };
    /// assert_eq!(items[0].value, "value");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    #[must_use]
    pub fn resident(self) -> Self {
        Self { front: self.front.resident(), ..self }
    }

    /// The next item from the front.
    fn step_front(&mut self) -> Result<Option<Item>> {
        self.front.next()?;
        let Some((key, value)) = self.front.take(self.keys_only)? else { return Ok(None) };
        match &mut self.back {
            Some(back) => back.stop_at(&key),
            None => {
                self.front_key.clear();
                self.front_key.extend_from_slice(&key);
            }
        }
        item(key, value).map(Some)
    }

    /// The next item from the back.
    fn step_back(&mut self) -> Result<Option<Item>> {
        let back = self.back.get_or_insert_with(|| {
            let mut back = self.front.twin();
            if !self.front_key.is_empty() {
                back.stop_at(&self.front_key);
            }
            back
        });
        back.prev()?;
        let Some((key, value)) = back.take(self.keys_only)? else { return Ok(None) };
        self.front.stop_at(&key);
        item(key, value).map(Some)
    }

    fn stepped(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<Option<Item>>,
    ) -> Option<Result<Item>> {
        if self.done {
            return None;
        }
        let step = step(self);
        self.done = !matches!(step, Ok(Some(_)));
        step.transpose()
    }
}

/// The item with this tree key.
fn item(mut key: Bytes, value: Bytes) -> Result<Item> {
    if key.len() < KEYSPACE_PREFIX_LEN {
        return Err(Error::corruption("a tree key is too short"));
    }
    key.advance(KEYSPACE_PREFIX_LEN);
    Ok(Item { key, value })
}

impl Iterator for Range {
    type Item = Result<Item>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.stepped(Self::step_front)
    }
}

impl DoubleEndedIterator for Range {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.stepped(Self::step_back)
    }
}
