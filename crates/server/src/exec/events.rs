//! What is told of keys that change, if `notify-keyspace-events` asks for it.

/// Classes of what is told of keys, as `notify-keyspace-events` names them.
pub mod event {
    /// Commands of keys of any type.
    pub const GENERIC: u16 = 1;
    /// Strings.
    pub const STRING: u16 = 1 << 1;
    /// Lists.
    pub const LIST: u16 = 1 << 2;
    /// Sets.
    pub const SET: u16 = 1 << 3;
    /// Hashes.
    pub const HASH: u16 = 1 << 4;
    /// Sorted sets.
    pub const SORTED_SET: u16 = 1 << 5;
    /// Streams.
    pub const STREAM: u16 = 1 << 6;
    /// Collections that were given elements: told to clients that wait for them.
    pub const READY: u16 = 1 << 7;
    /// Keys that have lost what they had: told to clients that wait for it to stay.
    pub const GONE: u16 = 1 << 8;
}

/// What is told of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEvent {
    /// A bit of [`event`].
    pub class: u16,
    /// What has happened, as Redis names it.
    pub name: &'static str,
    /// The number of the database.
    pub database: usize,
    /// The key.
    pub key: Vec<u8>,
}

/// Whether channels are named after keys, after events, or after both: above the bits of classes.
const BY_KEY: u16 = 1 << 14;
const BY_EVENT: u16 = 1 << 15;

/// The letters of classes.
const LETTERS: [(u8, u16); 10] = [
    (b'g', event::GENERIC),
    (b'$', event::STRING),
    (b'l', event::LIST),
    (b's', event::SET),
    (b'h', event::HASH),
    (b'z', event::SORTED_SET),
    (b't', event::STREAM),
    (b'K', BY_KEY),
    (b'E', BY_EVENT),
    // What Redis tells of keys that are over or are not there; of a store's keys that is not known.
    (b'x', 0),
];

/// The letters that have no class here: keys that are new, evicted or missed, modules.
const OTHERS: &[u8] = b"edmn";

/// All classes that `A` stands for.
const ALL: u16 = event::GENERIC
    | event::STRING
    | event::LIST
    | event::SET
    | event::HASH
    | event::SORTED_SET
    | event::STREAM;

/// What is told of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventClasses(u16);

impl EventClasses {
    /// The classes of letters; none if one is not known.
    pub fn of(letters: &[u8]) -> Option<Self> {
        let mut bits = 0;
        for letter in letters {
            let known = LETTERS.iter().find(|(known, _)| known == letter);
            bits |= match known {
                Some((_, class)) => *class,
                None if *letter == b'A' => ALL,
                None if OTHERS.contains(letter) => 0,
                None => return None,
            };
        }
        Some(Self(bits))
    }

    /// The letters.
    pub fn letters(self) -> String {
        let mut bits = self.0;
        let mut letters = String::new();
        if bits & ALL == ALL {
            letters.push('A');
            bits &= !ALL;
        }
        let set = LETTERS.iter().filter(|(_, class)| bits & class != 0);
        letters.extend(set.map(|(letter, _)| char::from(*letter)));
        letters
    }

    /// The classes that commands tell of: bits of [`event`].
    pub fn told(self) -> u16 {
        match self.0 & (BY_KEY | BY_EVENT) {
            0 => 0,
            by => self.0 & !by,
        }
    }

    /// Whether channels are named after keys.
    pub fn by_key(self) -> bool {
        self.0 & BY_KEY != 0
    }

    /// Whether channels are named after events.
    pub fn by_event(self) -> bool {
        self.0 & BY_EVENT != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_those_of_redis() {
        for (given, letters) in
            [("", ""), ("KEA", "AKE"), ("Ktg$", "g$tK"), ("AKn", "AK"), ("x", "")]
        {
            let classes = EventClasses::of(given.as_bytes()).unwrap();
            assert_eq!(classes.letters(), letters, "{given}");
        }
        assert_eq!(EventClasses::of(b"KEq"), None);
        assert_eq!(EventClasses::of(b"A").unwrap().told(), 0);
        assert_eq!(EventClasses::of(b"El").unwrap().told(), event::LIST);
    }
}
