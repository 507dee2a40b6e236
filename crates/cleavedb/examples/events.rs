//! An event log: one process appends events and deletes the oldest ones, a range at a time, while a
//! second process reads them in order as they come.
//!
//! `cargo run -p cleavedb --example events`, which starts itself once more as the reader.

use std::error::Error;
use std::ops::Bound;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cleavedb::{Db, Durability, Keyspace, Result, encode};

/// Events in all, those that are kept, and after how many the rest is deleted.
const EVENTS: u64 = 5000;
const KEPT: u64 = 2000;
const STEP: u64 = 500;

/// The key of an event: encoded numbers are ordered as the numbers are.
fn key(number: u64) -> Vec<u8> {
    encode::key(&("event", number))
}

/// Appends events, and keeps the last ones.
fn write(events: &Keyspace) -> Result<()> {
    for number in 0..EVENTS {
        let event = format!("{{\"number\":{number},\"what\":\"something happened\"}}");
        events.put_with(key(number), event, Durability::Os)?;
        if number % STEP == 0 && number > KEPT {
            // One small write, whatever it removes.
            events.delete_range(key(0)..key(number - KEPT))?;
        }
    }
    events.put("end", "")
}

/// Reads events in their order until the end, and returns how many there were, and how many were
/// deleted before they could be read.
fn read(path: &Path) -> std::result::Result<(u64, u64), Box<dyn Error>> {
    let db = Db::open_secondary(path)?;
    let (mut seen, mut missed, mut next) = (0, 0, 0);
    loop {
        // From here on it sees everything that was written before.
        db.catch_up()?;
        let Some(events) = db.find_keyspace("events")? else { continue };
        let ended = events.contains_key("end")?;
        for item in events.range((Bound::Included(key(next)), Bound::Excluded(key(u64::MAX)))) {
            let (_, number): (String, u64) = encode::parts(&item?.key)?;
            assert!(number >= next, "events come in order");
            (seen, missed) = (seen + 1, missed + number - next);
            next = number + 1;
        }
        if ended {
            return Ok((seen, missed));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    if let Some(path) = std::env::args_os().nth(1) {
        let (seen, missed) = read(Path::new(&path))?;
        println!("the reader has seen {seen} events; {missed} were deleted before");
        assert_eq!(seen + missed, EVENTS);
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events.db");
    let db = Db::open(&path, Default::default())?;
    let events = db.keyspace("events")?;
    let mut reader = Command::new(std::env::current_exe()?).arg(&path).spawn()?;
    write(&events)?;
    let first = events.first_key_value()?.map(|item| item.key);
    assert!(first.is_some_and(|first| first[..] >= key(EVENTS - KEPT - STEP)[..]));
    assert!(reader.wait()?.success(), "the reader has failed");
    Ok(())
}
