//! Dictionaries of Zstandard: bytes that values of one kind have in common, found by training.
//!
//! A compressed value names its dictionary by a number that is never used for another one, so a
//! record can be moved without a look at its value. All dictionaries of a database are in memory.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};

use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::swap::ArcSwap;
use cleavedb_base::{Error, Result};
use zstd::zstd_safe::{CDict, DDict, get_dict_id_from_dict, train_from_buffer};

/// Level of Zstandard: its default.
pub(crate) const ZSTD_LEVEL: i32 = 3;

/// Length of a dictionary, in bytes.
pub const DICTIONARY_LEN: usize = 32 << 10;

/// Where a dictionary has its number, in bytes: behind the mark of its format.
const NUMBER_AT: std::ops::Range<usize> = 4..8;

/// A dictionary. What the library makes of its bytes is made when it is first needed.
pub struct Dictionary {
    number: NonZeroU32,
    bytes: Vec<u8>,
    compressing: OnceLock<Option<CDict<'static>>>,
    decompressing: OnceLock<Option<DDict<'static>>>,
}

impl Dictionary {
    /// Makes dictionary `number` of `samples`, which lie one behind the other in `bytes`; `None` if
    /// they are too few, or have nothing in common.
    pub fn train(number: NonZeroU32, bytes: &[u8], samples: &[usize]) -> Option<Self> {
        let mut trained = Vec::with_capacity(DICTIONARY_LEN);
        train_from_buffer(&mut trained, bytes, samples).ok()?;
        trained.get_mut(NUMBER_AT)?.copy_from_slice(&number.get().to_le_bytes());
        Self::parse(trained).ok()
    }

    /// The dictionary in `bytes`.
    pub fn parse(bytes: Vec<u8>) -> Result<Self> {
        let bad = || Error::corruption("a dictionary for values cannot be decoded");
        let number = get_dict_id_from_dict(&bytes).ok_or_else(bad)?;
        let (compressing, decompressing) = Default::default();
        let this = Self { number, bytes, compressing, decompressing };
        this.for_decompression().ok_or_else(bad)?;
        Ok(this)
    }

    /// The number by which compressed values name it.
    pub fn number(&self) -> NonZeroU32 {
        self.number
    }

    /// The bytes of the dictionary, as they are stored.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn for_compression(&self) -> Option<&CDict<'static>> {
        let make = || CDict::try_create(&self.bytes, ZSTD_LEVEL);
        self.compressing.get_or_init(make).as_ref()
    }

    pub(crate) fn for_decompression(&self) -> Option<&DDict<'static>> {
        self.decompressing.get_or_init(|| DDict::try_create(&self.bytes)).as_ref()
    }
}

/// The dictionaries of a database, by their numbers. Clones share them.
#[derive(Clone)]
pub struct Dictionaries(Arc<Shared>);

struct Shared {
    all: ArcSwap<BTreeMap<NonZeroU32, Arc<Dictionary>>>,
    /// Held while one is added.
    adding: Mutex<()>,
}

impl Default for Dictionaries {
    fn default() -> Self {
        Self(Arc::new(Shared {
            all: ArcSwap::from_pointee(BTreeMap::new()),
            adding: Mutex::new(()),
        }))
    }
}

impl Dictionaries {
    /// Adds one, before a value that names it is stored or read.
    pub fn add(&self, dictionary: Arc<Dictionary>) {
        let _adding = self.0.adding.lock();
        let mut all = BTreeMap::clone(&self.0.all.load());
        all.insert(dictionary.number(), dictionary);
        self.0.all.swap(Arc::new(all));
    }

    /// A copy of the dictionaries; the ones that are added later to one are not in the other.
    #[must_use]
    pub fn apart(&self) -> Self {
        let all = ArcSwap::new(self.0.all.load_full());
        Self(Arc::new(Shared { all, adding: Mutex::new(()) }))
    }

    /// The dictionary of this number.
    pub fn find(&self, number: NonZeroU32) -> Option<Arc<Dictionary>> {
        self.0.all.load().get(&number).cloned()
    }
}
