//! Cursors of `SCAN`: numbers, which stand for the key where a client goes on.
//!
//! A number has the first four bytes of the key, and a place in a table of the keys of recent
//! cursors. If the place has another key by now, or the server has started anew, the scan goes on
//! at the four bytes: some keys come twice, which Redis allows, and none is missed.

use parking_lot::Mutex;

/// Places of the table: a power of two.
const PLACES: usize = 1 << 16;

/// Bits of a cursor below those of the key: a place, and five of the number of its use.
const LOW_BITS: u32 = 16 + GENERATION_BITS;
const GENERATION_BITS: u32 = 5;

/// Bytes of the key in a cursor.
const PREFIX_LEN: usize = 4;

/// The keys of recent cursors.
#[derive(Default)]
pub struct Scans {
    table: Mutex<CursorTable>,
}

#[derive(Default)]
struct CursorTable {
    /// The cursor and the key of each place that was used.
    places: Vec<(u64, Box<[u8]>)>,
    given: u64,
}

impl Scans {
    /// A cursor for `key`: not 0, and below 2^53, since scripts read it as a double.
    pub fn cursor(&self, key: Box<[u8]>) -> u64 {
        let mut prefix = [0; 8];
        let len = key.len().min(PREFIX_LEN);
        prefix[8 - PREFIX_LEN..][..len].copy_from_slice(&key[..len]);
        let mut table = self.table.lock();
        // From 1 on: 0 is the begin and the end.
        table.given += 1;
        let given = table.given % (1 << LOW_BITS);
        let given = if given == 0 { 1 } else { given };
        table.given = given;
        let cursor = u64::from_be_bytes(prefix) << LOW_BITS | given;
        let place = given as usize % PLACES;
        if place < table.places.len() {
            table.places[place] = (cursor, key);
        } else {
            table.places.resize(place, (0, Box::default()));
            table.places.push((cursor, key));
        }
        cursor
    }

    /// The key where the scan of a cursor goes on; none for the first one.
    pub fn place(&self, cursor: u64) -> Option<Box<[u8]>> {
        if cursor == 0 {
            return None;
        }
        let place = (cursor % (1 << LOW_BITS)) as usize % PLACES;
        let table = self.table.lock();
        let known = table.places.get(place).filter(|(known, _)| *known == cursor);
        let prefix = (cursor >> LOW_BITS).to_be_bytes();
        // Shorter keys were filled up with zeros; what lies in front of the key will do.
        let prefix = &prefix[8 - PREFIX_LEN..];
        let len = prefix.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Some(known.map_or_else(|| prefix[..len].into(), |(_, key)| key.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_its_key_or_lies_in_front_of_it() {
        let scans = Scans::default();
        let key = |number: usize| format!("key {number:08}").into_bytes().into_boxed_slice();
        let cursors: Vec<u64> = (0..2 * PLACES).map(|number| scans.cursor(key(number))).collect();
        for (number, cursor) in cursors.iter().enumerate() {
            assert!(*cursor > 0 && *cursor < 1 << 53);
            let place = scans.place(*cursor).unwrap();
            match number < PLACES {
                true => assert_eq!(&*place, b"key "),
                false => assert_eq!(place, key(number)),
            }
        }
        assert_eq!(scans.place(0), None);
        let short = scans.cursor(b"ab".as_slice().into());
        assert_eq!(&*Scans::default().place(short).unwrap(), b"ab");
    }
}
