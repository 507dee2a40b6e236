//! A replica: copies what a snapshot sees, and then applies what is committed.
//!
//! `cargo run -p cleavedb --example replica`

use cleavedb::{ChangeBatch, ChangeKind, Db, Options, WriteBatch};

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

    println!("the replica, after all changes:");
    for item in replica.range(..) {
        let item = item?;
        println!("  {:?}: {:?}", item.key, item.value);
    }
    println!("  orders, 1: {:?}", replica.keyspace("orders")?.get("1")?);
    assert_eq!(replica.get("bolts")?, None);
    assert_eq!(replica.get("nuts")?.as_deref(), Some(&b"300"[..]));
    assert_eq!(replica.keyspace("orders")?.get("1")?.as_deref(), Some(&b"50 nuts"[..]));
    Ok(())
}

/// Copies everything that is there now.
fn copy(source: &Db, replica: &Db) -> cleavedb::Result<()> {
    let snapshot = source.snapshot();
    for keyspace in source.keyspaces()? {
        let target = replica.keyspace(keyspace.name())?;
        for item in snapshot.keyspace(&keyspace).range(..) {
            let item = item?;
            target.put(item.key, item.value)?;
        }
    }
    for item in snapshot.range(..) {
        let item = item?;
        replica.put(item.key, item.value)?;
    }
    replica.keyspace(NEXT)?.put(NEXT, (snapshot.seq() + 1).to_string())
}

/// Applies what was committed since the last call. A program would go on after `Changes::wait`.
fn follow(source: &Db, replica: &Db) -> Result<(), Box<dyn std::error::Error>> {
    let next = replica.keyspace(NEXT)?.get(NEXT)?.ok_or("nothing was copied")?;
    for batch in source.changes(str::from_utf8(&next)?.parse()?)? {
        apply(source, replica, &batch?)?;
    }
    Ok(())
}

fn apply(source: &Db, replica: &Db, batch: &ChangeBatch) -> cleavedb::Result<()> {
    let mut writes = WriteBatch::new();
    for change in &batch.changes {
        if change.kind == ChangeKind::KeyspaceDropped {
            // A crash may repeat it.
            if replica.find_keyspace(&change.keyspace)?.is_some() {
                replica.drop_keyspace(&change.keyspace)?;
            }
            continue;
        }
        let target = replica.keyspace(&change.keyspace)?;
        let mut writes = writes.keyspace(&target);
        match &change.kind {
            ChangeKind::Put { key, value, expires } => {
                writes.put_until(key, value, *expires)?;
            }
            ChangeKind::PutBlob { key, .. } => {
                // Too long to be told. If it is gone by now, a later change says why.
                let Some(keyspace) = source.find_keyspace(&change.keyspace)? else { continue };
                if let Some(blob) = keyspace.get_reader(key)? {
                    let expires = blob.expires();
                    target.put_reader_until(key, blob, expires)?;
                }
            }
            ChangeKind::Delete { key } => {
                writes.delete(key)?;
            }
            ChangeKind::DeleteRange { from, upto } => {
                writes.delete_range((Some(from), upto.as_ref()))?;
            }
            ChangeKind::Merge { key, operand } => {
                writes.merge(key, operand)?;
            }
            ChangeKind::Loaded { first, last } => {
                let Some(loaded) = source.find_keyspace(&change.keyspace)? else { continue };
                writes.delete_range(first..=last)?;
                for item in loaded.range(first..=last) {
                    let item = item?;
                    writes.put(item.key, item.value)?;
                }
            }
            _ => {}
        }
    }
    let own = replica.keyspace(NEXT)?;
    writes.keyspace(&own).put(NEXT, batch.next_seq().to_string())?;
    replica.write(&writes)
}
