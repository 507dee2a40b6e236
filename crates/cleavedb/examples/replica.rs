//! A replica: copies what a snapshot sees, and then applies what is committed.
//!
//! `cargo run -p cleavedb --example replica`

use cleavedb::{ChangeBatch, ChangeKind, Db, Keyspace, Options, PutOptions, Snapshot, WriteBatch};

/// Where the replica keeps the sequence number from which on it goes on: in the same batch as the
/// changes before, so that a crash repeats and leaves out none.
const NEXT: &str = "replica";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let kept = Options { change_retention_bytes: Some(64 << 20), ..Options::default() };
    let source = Db::open(dir.path().join("source"), kept)?;
    source.put("bolts", "400")?;
    source.put("nuts", "350")?;

    let replica = Db::open(dir.path().join("replica"), Options::default())?;
    copy(&source, &replica)?;

    source.put("bolts", "399")?;
    source.merge("nuts", &cleavedb::Operand::add(-50))?;
    source.keyspace("orders")?.put("1", "50 nuts")?;
    follow(&source, &replica)?;
    source.delete_range("a".."c")?;
    follow(&source, &replica)?;
    // Of a bulk load only the range is told.
    let mut load = source.default_keyspace().bulk_load()?;
    load.put("screws", "7")?;
    load.finish()?;
    source.merge("screws", &cleavedb::Operand::add(1))?;
    follow(&source, &replica)?;

    println!("the replica, after all changes:");
    for item in replica.range(..) {
        let item = item?;
        println!("  {:?}: {:?}", item.key, item.value);
    }
    println!("  orders, 1: {:?}", replica.keyspace("orders")?.get("1")?);
    assert_eq!(replica.get("bolts")?, None);
    assert_eq!(replica.get("screws")?.as_deref(), Some(&b"8"[..]));
    assert_eq!(replica.get("nuts")?.as_deref(), Some(&b"300"[..]));
    assert_eq!(replica.keyspace("orders")?.get("1")?.as_deref(), Some(&b"50 nuts"[..]));
    Ok(())
}

/// Copies everything that is there now, in place of what the replica has.
fn copy(source: &Db, replica: &Db) -> cleavedb::Result<()> {
    let snapshot = source.snapshot();
    for keyspace in replica.keyspaces()?.iter().filter(|keyspace| keyspace.name() != NEXT) {
        replica.drop_keyspace(keyspace.name())?;
    }
    copy_keyspace(snapshot.clone(), replica.default_keyspace())?;
    for keyspace in source.keyspaces()? {
        copy_keyspace(snapshot.keyspace(&keyspace), &replica.keyspace(keyspace.name())?)?;
    }
    replica.keyspace(NEXT)?.put(NEXT, (snapshot.seq() + 1).to_string())
}

fn copy_keyspace(from: Snapshot, to: &Keyspace) -> cleavedb::Result<()> {
    to.delete_range(..)?;
    let mut cursor = from.cursor(..);
    while cursor.next()? {
        let (item, expires) = (cursor.item()?, cursor.expiry());
        if let Some(item) = item {
            to.put_with(item.key, item.value, PutOptions::new().until(expires))?;
        }
    }
    Ok(())
}

/// Applies what was committed since the last call. A program would go on after `Changes::wait`.
fn follow(source: &Db, replica: &Db) -> Result<(), Box<dyn std::error::Error>> {
    let next = replica.keyspace(NEXT)?.get(NEXT)?.ok_or("nothing was copied")?;
    for batch in source.changes(str::from_utf8(&next)?.parse()?)? {
        let batch = batch?;
        if batch.changes.iter().any(|change| matches!(change.kind, ChangeKind::Loaded { .. })) {
            // The pairs of a bulk load are not told. What a copy reads is newer than the load, so
            // the changes up to the copy must not be applied any more: merges would count twice.
            return Ok(copy(source, replica)?);
        }
        apply(source, replica, batch)?;
    }
    Ok(())
}

fn apply(source: &Db, replica: &Db, batch: ChangeBatch) -> cleavedb::Result<()> {
    let (next, mut writes) = (batch.next_seq(), WriteBatch::new());
    let (blobs, changes): (Vec<_>, Vec<_>) = (batch.changes.into_iter())
        .partition(|change| matches!(change.kind, ChangeKind::PutBlob { .. }));
    for blob in blobs {
        // Too long to be told. If it is gone by now, a later change says why.
        let (ChangeKind::PutBlob { key, .. }, Some(keyspace)) =
            (blob.kind, source.find_keyspace(&blob.keyspace)?)
        else {
            continue;
        };
        if let Some(blob) = keyspace.get_reader(&key)? {
            let expires = blob.expires();
            replica.keyspace(keyspace.name())?.put_reader_with(
                &key,
                blob,
                PutOptions::new().until(expires),
            )?;
        }
    }
    replica.add_changes(&ChangeBatch { changes, ..batch }, &mut writes)?;
    let own = replica.keyspace(NEXT)?;
    writes.keyspace(&own).put(NEXT, next.to_string())?;
    replica.write(&writes)
}
