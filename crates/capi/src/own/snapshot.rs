//! Snapshots.

use cleavedb::{Keyspace, Result, Snapshot};

use super::cursor::HeldCursor;
use super::errors::ErrorOut;
use super::keyspace::of;
use super::terms::{HeldValue, held};
use crate::border::needed;
use crate::handles::{Handle, export};
use crate::slices::Chars;

fn view(snapshot: &Handle<Snapshot>) -> Result<&Snapshot> {
    needed(snapshot.get(), "cleavedb_snapshot")
}

export! {
    fn cleavedb_snapshot_take(keyspace: Handle<Keyspace>; error: ErrorOut) -> Handle<Snapshot> {
        Ok(Handle::new(of(&keyspace)?.snapshot()))
    }

    fn cleavedb_snapshot_keyspace(snapshot: Handle<Snapshot>, keyspace: Handle<Keyspace>;
        error: ErrorOut) -> Handle<Snapshot> {
        Ok(Handle::new(view(&snapshot)?.keyspace(of(&keyspace)?)))
    }

    fn cleavedb_snapshot_seq(snapshot: Handle<Snapshot>) -> u64 {
        snapshot.get().map_or(0, |it| it.seq())
    }

    fn cleavedb_snapshot_free(snapshot: Handle<Snapshot>) {
        drop(snapshot.take());
    }

    fn cleavedb_snapshot_get(snapshot: Handle<Snapshot>, key: Chars, key_len: usize;
        error: ErrorOut) -> HeldValue {
        view(&snapshot)?.get(key.bytes(key_len)?).map(held)
    }

    fn cleavedb_snapshot_cursor(snapshot: Handle<Snapshot>, from: Chars, from_len: usize,
        to: Chars, to_len: usize; error: ErrorOut) -> Handle<HeldCursor> {
        let range = (from.some_bytes(from_len)?, to.some_bytes(to_len)?);
        Ok(HeldCursor::handle(view(&snapshot)?.cursor(range)))
    }
}
