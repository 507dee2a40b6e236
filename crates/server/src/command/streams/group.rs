//! A group of a stream while a command works on it.

use std::ops::{Bound, ControlFlow};

use bytes::Bytes;

use super::ids::IdRange;
use super::{damaged, find};
use crate::exec::{Answer, ElementRange, View, VisitElement, event};
use crate::model::element::{self, CONSUMERS, GROUPS, OWNED, PENDING};
use crate::model::group::{
    ConsumerState, GroupState, PendingEntry, of_entry, within_consumer, within_group,
};
use crate::model::record::Collection;
use crate::model::stream::StreamId;

/// A group, with the stream that it reads.
pub(super) struct OpenGroup<'g> {
    pub(super) stream: Collection,
    pub(super) name: &'g [u8],
    pub(super) state: GroupState,
    /// What is written of it; nothing of a new one.
    written: Option<GroupState>,
}

/// A consumer of a group.
pub(super) struct OpenConsumer<'g> {
    pub(super) name: &'g [u8],
    pub(super) state: ConsumerState,
}

/// An entry that is pending, with its id.
pub(super) type PendingFound = (StreamId, PendingEntry);

impl<'g> OpenGroup<'g> {
    /// A group of a key's stream, if both are there.
    pub(super) fn find(key: &[u8], name: &'g [u8], view: &View<'_>) -> Answer<Option<Self>> {
        match find(key, view)? {
            Some((stream, _)) => Self::of(stream, name, view),
            None => Ok(None),
        }
    }

    /// A group of a stream, if it is there.
    pub(super) fn of(stream: Collection, name: &'g [u8], view: &View<'_>) -> Answer<Option<Self>> {
        let Some(value) = view.element(stream.id, GROUPS, name)? else { return Ok(None) };
        let state = GroupState::of_bytes(value).ok_or_else(|| damaged(&stream, "a group"))?;
        Ok(Some(Self { stream, name, state, written: Some(state) }))
    }

    /// A group that a stream has not.
    pub(super) fn new(stream: Collection, name: &'g [u8], state: GroupState) -> Self {
        Self { stream, name, state, written: None }
    }

    /// Writes what has changed of the group itself.
    pub(super) fn save(&self, view: &mut View<'_>) {
        if self.written != Some(self.state) {
            view.put_element(self.stream.id, GROUPS, self.name, self.state.to_bytes());
        }
    }

    fn of_consumer(&self, consumer: &[u8]) -> Vec<u8> {
        [&within_group(self.name)[..], consumer].concat()
    }

    /// What a consumer has, if it is there.
    pub(super) fn consumer(&self, name: &[u8], view: &View<'_>) -> Answer<Option<ConsumerState>> {
        match view.element(self.stream.id, CONSUMERS, &self.of_consumer(name))? {
            None => Ok(None),
            Some(value) => {
                let state = ConsumerState::of_bytes(&value);
                state.map(Some).ok_or_else(|| damaged(&self.stream, "a consumer"))
            }
        }
    }

    /// Writes what has changed of a consumer.
    pub(super) fn save_consumer(&self, name: &[u8], state: ConsumerState, view: &mut View<'_>) {
        let value = state.to_bytes().to_vec();
        view.put_element(self.stream.id, CONSUMERS, &self.of_consumer(name), value);
    }

    /// A consumer that is seen now, and made if it was not there.
    pub(super) fn see<'a>(
        &mut self,
        name: &'g [u8],
        key: &'a [u8],
        view: &mut View<'a>,
    ) -> Answer<OpenConsumer<'g>> {
        let pending = match self.consumer(name, view)? {
            Some(found) => found.pending,
            None => {
                self.state.consumers += 1;
                view.tell(event::STREAM, "xgroup-createconsumer", key);
                0
            }
        };
        Ok(OpenConsumer { name, state: ConsumerState { seen: view.now, pending } })
    }

    /// The pending entry of an id.
    pub(super) fn pending(&self, id: StreamId, view: &View<'_>) -> Answer<Option<PendingEntry>> {
        // Most groups have few.
        if self.state.pending == 0 {
            return Ok(None);
        }
        let name = of_entry(&within_group(self.name), id);
        match view.element(self.stream.id, PENDING, &name)? {
            None => Ok(None),
            Some(value) => {
                let entry = PendingEntry::of_bytes(value);
                entry.map(Some).ok_or_else(|| damaged(&self.stream, "a pending entry"))
            }
        }
    }

    /// Gives a consumer an entry that was pending with what `old` has, or was not.
    pub(super) fn give(
        &mut self,
        consumer: &mut OpenConsumer<'_>,
        id: StreamId,
        old: Option<&PendingEntry>,
        times: u64,
        given: u64,
        view: &mut View<'_>,
    ) -> Answer<()> {
        let is_new = match old {
            Some(old) if old.consumer == consumer.name => false,
            Some(old) => {
                self.take_from(&old.consumer, id, view)?;
                true
            }
            None => {
                self.state.pending += 1;
                true
            }
        };
        if is_new {
            consumer.state.pending += 1;
            let owned = of_entry(&within_consumer(self.name, consumer.name), id);
            view.put_element(self.stream.id, OWNED, &owned, &b""[..]);
        }
        let consumer = Bytes::copy_from_slice(consumer.name);
        self.save_pending(id, &PendingEntry { given, times, consumer }, view);
        Ok(())
    }

    /// Writes what has changed of a pending entry.
    pub(super) fn save_pending(&self, id: StreamId, entry: &PendingEntry, view: &mut View<'_>) {
        let name = of_entry(&within_group(self.name), id);
        view.put_element(self.stream.id, PENDING, &name, entry.to_bytes());
    }

    /// Takes an entry from the consumer that has it.
    fn take_from(&self, consumer: &[u8], id: StreamId, view: &mut View<'_>) -> Answer<()> {
        let owned = of_entry(&within_consumer(self.name, consumer), id);
        view.delete_element(self.stream.id, OWNED, &owned);
        if let Some(mut state) = self.consumer(consumer, view)? {
            state.pending = state.pending.saturating_sub(1);
            self.save_consumer(consumer, state, view);
        }
        Ok(())
    }

    /// Has an entry pending no more. The consumer that had it is written.
    pub(super) fn settle(
        &mut self,
        id: StreamId,
        entry: &PendingEntry,
        view: &mut View<'_>,
    ) -> Answer<()> {
        self.take_from(&entry.consumer, id, view)?;
        view.delete_element(self.stream.id, PENDING, &of_entry(&within_group(self.name), id));
        self.state.pending = self.state.pending.saturating_sub(1);
        Ok(())
    }

    /// Visits pending entries of a range in their order, or the last one first.
    pub(super) fn walk_pending(
        &self,
        within: IdRange,
        is_reversed: bool,
        view: &View<'_>,
        visit: &mut dyn FnMut(StreamId, PendingEntry) -> ControlFlow<()>,
    ) -> Answer<()> {
        let mut is_damaged = false;
        let how = ElementRange { part: PENDING, is_reversed, ..ElementRange::ALL };
        self.walk_ids(&within_group(self.name), within, how, view, &mut |id, value| {
            match PendingEntry::of_bytes(Bytes::copy_from_slice(value)) {
                Some(entry) => visit(id, entry),
                None => {
                    is_damaged = true;
                    ControlFlow::Break(())
                }
            }
        })?;
        if is_damaged { Err(damaged(&self.stream, "a pending entry")) } else { Ok(()) }
    }

    /// Visits the ids of entries of a range that a consumer has.
    pub(super) fn walk_owned(
        &self,
        consumer: &[u8],
        within: IdRange,
        view: &View<'_>,
        visit: &mut dyn FnMut(StreamId) -> ControlFlow<()>,
    ) -> Answer<()> {
        let how = ElementRange { part: OWNED, ..ElementRange::ALL };
        let begin = within_consumer(self.name, consumer);
        self.walk_ids(&begin, within, how, view, &mut |id, _| visit(id))
    }

    /// Visits elements whose names are a begin and an id of a range.
    fn walk_ids(
        &self,
        begin: &[u8],
        within: IdRange,
        how: ElementRange<'_>,
        view: &View<'_>,
        visit: &mut dyn FnMut(StreamId, &[u8]) -> ControlFlow<()>,
    ) -> Answer<()> {
        let [from, to] = [within.from, within.to].map(|id| of_entry(begin, id));
        let range = (Bound::Included(&from[..]), Bound::Included(&to[..]));
        let within = ElementRange { range, ..how };
        view.elements(self.stream.id, within, &mut |name, value| {
            let id = name.get(begin.len()..).and_then(StreamId::of_bytes);
            id.map_or(ControlFlow::Continue(()), |id| visit(id, value))
        })
    }

    /// The consumers, in the order of their names.
    pub(super) fn consumers(&self, view: &View<'_>) -> Answer<Vec<(Bytes, ConsumerState)>> {
        let (mut found, mut is_damaged) = (Vec::new(), false);
        self.walk(CONSUMERS, &within_group(self.name), view, &mut |name, value| {
            match ConsumerState::of_bytes(value) {
                Some(state) => found.push((Bytes::copy_from_slice(name), state)),
                None => is_damaged = true,
            }
            view.holding(name.len())
        })?;
        if is_damaged { Err(damaged(&self.stream, "a consumer")) } else { Ok(found) }
    }

    /// The names of all elements of a part that begin so.
    pub(super) fn names(&self, part: u8, begin: &[u8], view: &View<'_>) -> Answer<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        self.walk(part, begin, view, &mut |rest, _| {
            found.push([begin, rest].concat());
            view.holding(begin.len() + rest.len())
        })?;
        Ok(found)
    }

    /// Removes all elements of a part whose names begin so.
    pub(super) fn delete_all(&self, part: u8, begin: &[u8], view: &mut View<'_>) -> Answer<()> {
        let behind = element::behind_all(begin);
        let range = (Bound::Included(begin), Bound::Excluded(&behind[..]));
        view.delete_elements(self.stream.id, part, range)
    }

    /// Visits elements of a part whose names begin so.
    fn walk(
        &self,
        part: u8,
        begin: &[u8],
        view: &View<'_>,
        visit: &mut VisitElement<'_>,
    ) -> Answer<()> {
        let behind = element::behind_all(begin);
        let range = (Bound::Included(begin), Bound::Excluded(&behind[..]));
        let within = ElementRange { part, range, ..ElementRange::ALL };
        view.elements(self.stream.id, within, &mut |name, value| visit(&name[begin.len()..], value))
    }
}
