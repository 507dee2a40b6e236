//! Cursors of `SCAN`: numbers, which stand for the key where a client goes on.
//!
//! A number has the first four bytes of the key, and the low bits of how many cursors there were,
//! by which the key is found among those of recent cursors. If it is not there any more, or the
//! server has started anew, the scan goes on at the four bytes: some keys come twice, which Redis
//! allows, and none is missed.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Most recent cursors whose keys are kept, and most bytes of these keys.
const KEPT_MAX: usize = 1 << 16;
const BYTES_MAX: usize = 16 << 20;

/// Bits of a cursor below those of the key: a number from 1 on, since 0 is the begin and the end.
const NUMBER_BITS: u32 = 21;
const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 1;

/// Bytes of the key in a cursor.
const PREFIX_LEN: usize = 4;

/// The keys of recent cursors.
#[derive(Default)]
pub struct Scans {
    recent: Mutex<RecentCursors>,
}

#[derive(Default)]
struct RecentCursors {
    /// Cursors with their keys, the oldest first.
    cursors: VecDeque<(u64, Box<[u8]>)>,
    /// Bytes of the keys.
    bytes: usize,
    /// The number of the last one.
    last: u64,
}

impl Scans {
    /// A cursor for `key`: not 0, and below 2^53, since scripts read it as a double.
    pub fn cursor(&self, key: Box<[u8]>) -> u64 {
        let mut prefix = [0; 8];
        let len = key.len().min(PREFIX_LEN);
        prefix[8 - PREFIX_LEN..][..len].copy_from_slice(&key[..len]);
        let mut recent = self.recent.lock();
        recent.last = recent.last % NUMBER_MAX + 1;
        let cursor = u64::from_be_bytes(prefix) << NUMBER_BITS | recent.last;
        recent.bytes += key.len();
        recent.cursors.push_back((cursor, key));
        while (recent.cursors.len() > KEPT_MAX || recent.bytes > BYTES_MAX)
            && let Some((_, oldest)) = recent.cursors.pop_front()
        {
            recent.bytes -= oldest.len();
        }
        cursor
    }

    /// The key where the scan of a cursor goes on; none for the first one.
    pub fn place(&self, cursor: u64) -> Option<Box<[u8]>> {
        if cursor == 0 {
            return None;
        }
        let recent = self.recent.lock();
        let behind = (recent.last + NUMBER_MAX - cursor % (1 << NUMBER_BITS)) % NUMBER_MAX;
        let at = recent.cursors.len().checked_sub(behind as usize + 1);
        let known = at.and_then(|at| recent.cursors.get(at)).filter(|(known, _)| *known == cursor);
        let prefix = (cursor >> NUMBER_BITS).to_be_bytes();
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
        let cursors: Vec<u64> = (0..2 * KEPT_MAX).map(|number| scans.cursor(key(number))).collect();
        for (number, cursor) in cursors.iter().enumerate() {
            assert!(*cursor > 0 && *cursor < 1 << 53);
            let place = scans.place(*cursor).unwrap();
            match number < KEPT_MAX {
                true => assert_eq!(&*place, b"key "),
                false => assert_eq!(place, key(number)),
            }
        }
        assert_eq!(scans.place(0), None);
        let short = scans.cursor(b"ab".as_slice().into());
        assert_eq!(&*Scans::default().place(short).unwrap(), b"ab");
    }
    #[test]
    fn keys_of_cursors_take_little_memory_however_long_they_are() {
        let scans = Scans::default();
        let key = |number: usize| {
            let mut key = number.to_be_bytes().to_vec();
            key.resize(64 << 10, b'k');
            key.into_boxed_slice()
        };
        let cursors: Vec<u64> = (0..600).map(|number| scans.cursor(key(number))).collect();
        let kept = |number: usize| scans.place(cursors[number]).unwrap() == key(number);
        assert!(!kept(343) && (344..600).all(kept));
        assert_eq!(scans.recent.lock().bytes, BYTES_MAX);
    }

    #[test]
    fn numbers_of_cursors_begin_anew() {
        let scans = Scans::default();
        for number in 0..=NUMBER_MAX {
            let key = || number.to_string().into_bytes().into_boxed_slice();
            let cursor = scans.cursor(key());
            assert!(cursor & NUMBER_MAX > 0 && scans.place(cursor) == Some(key()));
        }
    }
}
