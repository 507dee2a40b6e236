//! The part of a flush that moves to the hot store what reads have found hot (HoaKV, algorithm 1).

use cleavedb_base::checksum::hash64;
use cleavedb_base::key::split_encoded_key;
use cleavedb_base::limits::{BLOCK, SEQ_MAX};
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{Header, Record, RecordKind};
use cleavedb_base::{EntryKind, KeyspaceId, Result, SeqNo, ValuePointer};
use cleavedb_hot::change::HotReason;
use cleavedb_index::Entry;
use cleavedb_storage::mapped::Arena;

use super::super::pending::ValueSource;
use super::super::plan::FlushPlan;
use super::{HotArrival, HotFlush};
use crate::store::limit::PROMOTED;
use crate::store::state::MemSlot;

impl<'e> HotFlush<'_, 'e> {
    /// Takes the newest versions of the keys that reads have found hot, if they lie in the tables,
    /// or where these point: the run gets a marker for each.
    ///
    /// The copy gets the last sequence number of the MemTable, under which the key has no version:
    /// so the old entry is an older version, and is counted as dead when a compaction drops it.
    pub(crate) fn promote(
        &mut self,
        slot: &MemSlot,
        arena: &'e Arena,
        plan: &mut FlushPlan<'e>,
    ) -> Result<()> {
        // Promotions take no room that others need. A store that is too long takes none either, but
        // goes on to ask for flushes, each of which evacuates segments: else nothing would where
        // there are reads alone.
        let is_full = self.engine.space().is_disk_full() || self.engine.space().lacks_space();
        let freezes = planted(Bug::PromotionsFrozen) && !self.has_room_for_key();
        self.store.set_promotes(!is_full && !freezes);
        let mut room = self.capacity / PROMOTED;
        let last = slot.sealed().map_or(0, |sealed| sealed.last_seq);
        for encoded_key in self.store.take_promotions() {
            if is_full || !self.has_room_for_key() {
                continue;
            }
            let Some((entry, header)) = self.cold_version(&encoded_key, last, arena)? else {
                continue;
            };
            let Some(left) = room.checked_sub(header.record_len() as u64) else { break };
            room = left;
            let (key, reason) = (self.store.key(entry.key), HotReason::Promoted);
            let heat = self.store.heat(key);
            let item = plan.record(entry, ValueSource::Memory(header), last);
            let replaced = if self.is_short(entry.key, &header) { 0 } else { item.len() };
            self.take_new(item, HotArrival { key, heat, reason }, replaced);
        }
        Ok(())
    }

    /// The newest version of a key that may be promoted, with the header of a record of sequence
    /// number `last` for it.
    fn cold_version(
        &self,
        encoded_key: &[u8],
        last: SeqNo,
        arena: &'e Arena,
    ) -> Result<Option<(Entry<'e>, Header)>> {
        let (key, hash) = (self.store.key(encoded_key), hash64(encoded_key, 0));
        let mut young = self.state.memtables.iter();
        let is_young = young.any(|slot| slot.table.get(encoded_key, hash, SEQ_MAX).is_some());
        if (is_young && !planted(Bug::PromoteOverNewer)) || self.store.find(key).is_some() {
            return Ok(None);
        }
        if !self.store.is_on() || self.store.heat(key) < self.store.limit() {
            return Ok(None);
        }
        let newest = self.state.version.get(encoded_key, hash, SEQ_MAX)?;
        // The copy gets a sequence number that is newer than a range tombstone over the value.
        let newest = newest.filter(|it| it.seq < last && !self.deleted.covers(encoded_key, it.seq));
        let Some(newest) = newest else { return Ok(None) };
        let (keyspace, user_key) = split_encoded_key(encoded_key).unwrap_or_default();
        let entry = |value: &[u8]| Entry {
            key: arena.copy(&[encoded_key]),
            seq: last,
            kind: EntryKind::Pointer,
            repeat: false,
            value: arena.copy(&[value]),
        };
        Ok(match newest.kind {
            EntryKind::Inline if keyspace != KeyspaceId::SYSTEM => {
                let value = &newest.value;
                let header = Header::new(RecordKind::Separated, keyspace, last, user_key, value);
                self.engine.fits_apart(header.record_len() as u64).then(|| (entry(value), header))
            }
            EntryKind::Pointer => {
                let pointer = ValuePointer::decode(&newest.value)?;
                if !self.state.segments.is_there(pointer)
                    || !self.engine.fits_apart(pointer.len.into())
                {
                    return Ok(None);
                }
                let segment = self.state.segments.find(pointer)?;
                let mut bytes = vec![0; pointer.len as usize];
                segment.read(pointer.offset, &mut bytes)?;
                // Readers will find the copy: the page has room for what they read elsewhere.
                let begin = pointer.offset - pointer.offset % BLOCK as u64;
                let end = (pointer.offset + u64::from(pointer.len)).next_multiple_of(BLOCK as u64);
                segment.wont_need(begin, (end - begin) as usize);
                // A damaged record stays where it is, and its reader is told.
                let record = Record::parse(&bytes, segment.identity(), pointer.offset).ok();
                let record = record.filter(|record| {
                    let Header { seq, kind, keyspace: of, .. } = record.header;
                    seq == newest.seq
                        && kind == RecordKind::Separated
                        && (of, record.key) == (keyspace, user_key)
                });
                record.map(|it| (entry(it.value), Header { seq: last, more: false, ..it.header }))
            }
            _ => None,
        })
    }
}
