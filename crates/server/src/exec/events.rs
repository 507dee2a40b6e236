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
    /// Keys that were not there before.
    pub const NEW: u16 = 1 << 9;
    /// Keys whose end has come.
    pub const EXPIRED: u16 = 1 << 10;
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
    /// The database in which the key must not have been before all that is committed with it, if
    /// it is told only then: by the number of before.
    pub absent_from: Option<usize>,
}

/// What Redis tells and this server has no cause to: evicted keys, those of modules, missed keys.
const EVICTED: u16 = 1 << 11;
const MODULE: u16 = 1 << 12;
const MISSED: u16 = 1 << 13;

/// Whether channels are named after keys, after events, or after both: above the bits of classes.
const BY_KEY: u16 = 1 << 14;
const BY_EVENT: u16 = 1 << 15;

/// The letters of classes that `A` stands for.
const ALL: [(u8, u16); 10] = [
    (b'g', event::GENERIC),
    (b'$', event::STRING),
    (b'l', event::LIST),
    (b's', event::SET),
    (b'h', event::HASH),
    (b'z', event::SORTED_SET),
    (b'x', event::EXPIRED),
    (b'e', EVICTED),
    (b't', event::STREAM),
    (b'd', MODULE),
];

/// The letter of a class that `A` hides, and letters that it does not stand for.
const HIDDEN: (u8, u16) = (b'n', event::NEW);
const MORE: [(u8, u16); 3] = [(b'K', BY_KEY), (b'E', BY_EVENT), (b'm', MISSED)];

/// What is told of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventClasses(u16);

impl EventClasses {
    /// The classes of letters; none if one is not known.
    pub fn of(letters: &[u8]) -> Option<Self> {
        let mut bits = 0;
        for letter in letters {
            let mut known = ALL.iter().chain([&HIDDEN]).chain(&MORE);
            bits |= match known.find(|(known, _)| known == letter) {
                Some((_, class)) => *class,
                None if *letter == b'A' => ALL.iter().map(|(_, class)| class).sum(),
                None => return None,
            };
        }
        Some(Self(bits))
    }

    /// The letters.
    pub fn letters(self) -> String {
        let is_set = |(_, class): &&(u8, u16)| self.0 & class != 0;
        let begin: Vec<u8> = match ALL.iter().all(|row| is_set(&row)) {
            true => vec![b'A'],
            false => {
                let set = ALL.iter().chain([&HIDDEN]).filter(is_set);
                set.map(|(letter, _)| *letter).collect()
            }
        };
        let more = MORE.iter().filter(is_set).map(|(letter, _)| *letter);
        begin.into_iter().chain(more).map(char::from).collect()
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
        for (given, letters) in [
            ("", ""),
            ("KEA", "AKE"),
            ("Ktg$", "g$tK"),
            ("AKn", "AK"),
            ("g$lshztxedmEK", "AKEm"),
            ("nxK", "xnK"),
        ] {
            let classes = EventClasses::of(given.as_bytes()).unwrap();
            assert_eq!(classes.letters(), letters, "{given}");
        }
        assert_eq!(EventClasses::of(b"KEq"), None);
        assert_eq!(EventClasses::of(b"A").unwrap().told(), 0);
        assert_eq!(EventClasses::of(b"El").unwrap().told(), event::LIST);
    }
}
