//! How a separated value is compressed: by the thread of its writer, by itself, before the checksum
//! of its record is computed. Log, flush and collection then move bytes that they do not look into,
//! and only readers decompress (decision 0052; format: `docs/format.md`, "Record").

use std::cell::RefCell;
use std::num::NonZeroU32;

use cleavedb_base::codec::{get_varint, put_varint};
use cleavedb_base::limits::VALUE_LEN_MAX;
use cleavedb_base::record::Header;
use cleavedb_base::{Error, Result};
use zstd::zstd_safe::{CCtx, DCtx, compress_bound, get_dict_id_from_frame, get_frame_content_size};

use crate::dictionary::{Dictionaries, Dictionary, ZSTD_LEVEL};

/// Longest value that is compressed, in bytes: a longer one would be in memory twice.
pub const COMPRESSED_MAX: usize = 64 << 20;

/// Longest value that is compressed with a dictionary, in bytes: a longer one has its own bytes to
/// refer to, and starts more slowly with a dictionary.
pub const DICTIONARY_FOR: usize = 16 << 10;

/// First byte of a compressed value.
const LZ4: u8 = 1;
const ZSTD: u8 = 2;

/// How values outside the index are compressed, each by itself.
///
/// A value that would not shrink by an eighth is stored as it is, and so is one of more than
/// 64 MiB. Values in the index are compressed with their blocks, if at all
/// (`Options::compression`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValueCompression {
    /// Values are stored as they are.
    #[default]
    None,
    /// LZ4: the fastest one to read.
    Lz4,
    /// Zstandard, level 3: smaller.
    Zstd,
    /// Zstandard with a dictionary, which the keyspace gets once it has 512 KiB of values: for
    /// values of up to 16 KiB that are alike, such as JSON, much smaller than by themselves. Longer
    /// values, and all before there is a dictionary, are compressed as with [`Self::Zstd`].
    ZstdDictionary,
}

impl ValueCompression {
    /// All of them, by the names that command lines use.
    pub const ALL: [(&str, Self); 4] = [
        ("none", Self::None),
        ("lz4", Self::Lz4),
        ("zstd", Self::Zstd),
        ("zstd-dictionary", Self::ZstdDictionary),
    ];

    /// The name of the compression on command lines.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// Compresses `value` behind the bytes of `front`; `None` if that saves less than an eighth.
    #[doc(hidden)]
    pub fn compress(
        self,
        value: &[u8],
        dictionary: Option<&Dictionary>,
        front: &[u8],
    ) -> Option<Vec<u8>> {
        let most = value.len() - value.len() / 8;
        if value.len() > COMPRESSED_MAX {
            return None;
        }
        let mut out = front.to_vec();
        match self {
            Self::None => return None,
            Self::Lz4 => {
                out.push(LZ4);
                put_varint(&mut out, value.len() as u64);
                let begin = out.len();
                out.resize(begin + lz4_flex::block::get_maximum_output_size(value.len()), 0);
                let len = lz4_flex::block::compress_into(value, &mut out[begin..]).ok()?;
                out.truncate(begin + len);
            }
            Self::Zstd | Self::ZstdDictionary => {
                out.push(ZSTD);
                let begin = out.len();
                out.resize(begin + compress_bound(value.len()), 0);
                let len = zstd(value, dictionary, &mut out[begin..])?;
                out.truncate(begin + len);
            }
        }
        (out.len() - front.len() < most).then_some(out)
    }
}

thread_local! {
    /// Contexts of Zstandard: too expensive to set up for each value.
    static COMPRESSING: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSING: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

fn zstd(value: &[u8], dictionary: Option<&Dictionary>, out: &mut [u8]) -> Option<usize> {
    COMPRESSING.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = CCtx::try_create();
        }
        let context = slot.as_mut()?;
        match dictionary.filter(|_| value.len() <= DICTIONARY_FOR) {
            Some(dictionary) => {
                context.compress_using_cdict(out, value, dictionary.for_compression()?).ok()
            }
            None => context.compress(out, value, ZSTD_LEVEL).ok(),
        }
    })
}

/// Length of a compressed value once it is decompressed, in bytes.
pub fn decompressed_len(compressed: &[u8]) -> Result<usize> {
    let parts = Parts::of(compressed)?;
    Ok(parts.len)
}

/// The dictionary that a compressed value names.
pub fn dictionary_of(compressed: &[u8]) -> Result<Option<NonZeroU32>> {
    Ok(Parts::of(compressed)?.number)
}

/// Decompresses a value, which its checksum has verified, behind the bytes of `out`.
pub fn decompress(compressed: &[u8], dictionaries: &Dictionaries, out: &mut Vec<u8>) -> Result<()> {
    let Parts { codec, len, number, packed } = Parts::of(compressed)?;
    let begin = out.len();
    out.resize(begin + len, 0);
    let room = &mut out[begin..];
    let written = match (codec, number) {
        (LZ4, _) => lz4_flex::block::decompress_into(packed, room).ok(),
        (_, None) => with_context(|context| context.decompress(room, packed).ok()),
        (_, Some(number)) => {
            let dictionary = dictionaries.find(number).ok_or_else(|| lost(number))?;
            let prepared = dictionary.for_decompression();
            let prepared = prepared.ok_or_else(|| damaged("its dictionary cannot be used"))?;
            with_context(|context| context.decompress_using_ddict(room, packed, prepared).ok())
        }
    };
    match written {
        Some(written) if written == len => Ok(()),
        _ => Err(damaged("it does not decompress to the length that it states")),
    }
}

/// The value of a record of this header, decompressed, behind its expiry if it has one; `None` if
/// that is what is `stored`.
pub fn whole(
    header: &Header,
    stored: &[u8],
    dictionaries: &Dictionaries,
) -> Result<Option<Vec<u8>>> {
    if !header.compressed {
        return Ok(None);
    }
    let value = header.kind.split(stored)?.value;
    let mut whole = stored[..stored.len() - value.len()].to_vec();
    decompress(value, dictionaries, &mut whole)?;
    Ok(Some(whole))
}

fn with_context(work: impl FnOnce(&mut DCtx<'static>) -> Option<usize>) -> Option<usize> {
    DECOMPRESSING.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = DCtx::try_create();
        }
        work(slot.as_mut()?)
    })
}

/// A compressed value, taken apart.
struct Parts<'a> {
    codec: u8,
    len: usize,
    /// The dictionary that it names.
    number: Option<NonZeroU32>,
    packed: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(compressed: &'a [u8]) -> Result<Self> {
        let too_short = || damaged("it is too short");
        let (&codec, rest) = compressed.split_first().ok_or_else(too_short)?;
        let (len, number, packed) = match codec {
            LZ4 => {
                let (len, used) = get_varint(rest).ok_or_else(too_short)?;
                (Some(len), None, &rest[used..])
            }
            ZSTD => {
                (get_frame_content_size(rest).ok().flatten(), get_dict_id_from_frame(rest), rest)
            }
            _ => return Err(damaged("its codec is not known").with("codec", codec)),
        };
        match len.and_then(|len| usize::try_from(len).ok()) {
            Some(len) if len <= VALUE_LEN_MAX => Ok(Self { codec, len, number, packed }),
            _ => Err(damaged("it states no length that a value can have")),
        }
    }
}

#[cold]
fn damaged(what: &str) -> Error {
    Error::corruption(format!("a compressed value cannot be read: {what}"))
}

#[cold]
fn lost(number: NonZeroU32) -> Error {
    damaged("its dictionary is missing").with("dictionary", number)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const COMPRESSIONS: [ValueCompression; 3] =
        [ValueCompression::Lz4, ValueCompression::Zstd, ValueCompression::ZstdDictionary];

    fn number(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).unwrap()
    }

    /// A value as services store them; `n` makes it one of its own.
    fn json(n: u64) -> Vec<u8> {
        let hash = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!(
            "{{\"id\":{n},\"name\":\"user {hash:x}\",\"email\":\"{hash}@example.org\",\
             \"active\":{},\"address\":{{\"street\":\"{} Main Street\",\"city\":\"Springfield\"}},\
             \"tags\":[\"customer\",\"newsletter\"],\"created\":\"2026-11-{:02}T12:{:02}:00Z\"}}",
            n.is_multiple_of(3),
            hash % 1000,
            n % 28,
            hash % 60,
        )
        .into_bytes()
    }

    fn trained() -> Dictionary {
        let samples: Vec<Vec<u8>> = (0..2000).map(json).collect();
        let lens: Vec<usize> = samples.iter().map(Vec::len).collect();
        Dictionary::train(number(7), &samples.concat(), &lens).unwrap()
    }

    fn round_trip(compressed: &[u8], dictionaries: &Dictionaries) -> Result<Vec<u8>> {
        let mut out = b"front".to_vec();
        decompress(compressed, dictionaries, &mut out)?;
        assert_eq!(decompressed_len(compressed)?, out.len() - 5);
        assert_eq!(&out[..5], b"front");
        Ok(out.split_off(5))
    }

    #[test]
    fn values_round_trip_with_and_without_a_dictionary() {
        let (dictionary, dictionaries) = (Arc::new(trained()), Dictionaries::default());
        dictionaries.add(dictionary.clone());
        let long = json(1).repeat(100);
        let mut shortest = usize::MAX;
        for how in COMPRESSIONS {
            for value in [&json(5000), &long, &vec![0; 1 << 20]] {
                let dictionary = (how == COMPRESSIONS[2]).then_some(&*dictionary);
                let Some(stored) = how.compress(value, dictionary, b"12345678") else {
                    assert!(how == ValueCompression::Lz4 && value.len() < 1000, "{how:?}");
                    continue;
                };
                assert_eq!(&stored[..8], b"12345678");
                assert_eq!(round_trip(&stored[8..], &dictionaries).unwrap(), **value, "{how:?}");
                shortest = shortest.min(if value.len() < 1000 { stored.len() } else { shortest });
            }
        }
        assert!(shortest < 8 + json(5000).len() / 2, "{shortest} with the dictionary");
    }

    #[test]
    fn every_compression_has_its_name() {
        for (name, how) in ValueCompression::ALL {
            assert_eq!(how.name(), name);
        }
    }

    #[test]
    fn what_does_not_shrink_is_not_compressed() {
        let mut noise = Vec::new();
        let mut state = 1u64;
        while noise.len() < 4096 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            noise.extend_from_slice(&(state >> 32).to_le_bytes()[..4]);
        }
        for how in COMPRESSIONS {
            assert_eq!(how.compress(&noise, None, b""), None, "{how:?}");
            assert_eq!(how.compress(b"", None, b""), None, "{how:?}");
        }
    }

    #[test]
    fn a_missing_dictionary_is_named() {
        let dictionary = trained();
        let stored = COMPRESSIONS[2].compress(&json(9), Some(&dictionary), b"").unwrap();
        let lost = round_trip(&stored, &Dictionaries::default()).unwrap_err();
        assert!(lost.to_string().contains("dictionary is missing"), "{lost}");
        let stored = Dictionary::parse(dictionary.bytes().to_vec()).unwrap();
        assert_eq!(stored.number(), number(7));
        assert!(Dictionary::parse(dictionary.bytes()[..100].to_vec()).is_err());
        assert!(Dictionary::parse(Vec::new()).is_err());
    }

    #[test]
    fn no_bytes_make_a_reader_panic() {
        let (dictionary, dictionaries) = (Arc::new(trained()), Dictionaries::default());
        dictionaries.add(dictionary.clone());
        for how in COMPRESSIONS {
            let stored = how.compress(&json(3).repeat(3), Some(&dictionary), b"").unwrap();
            for len in 0..stored.len() {
                assert!(round_trip(&stored[..len], &dictionaries).is_err(), "{how:?} {len}");
            }
            for at in 0..stored.len() {
                for bit in 0..8 {
                    let mut damaged = stored.clone();
                    damaged[at] ^= 1 << bit;
                    // The checksum of the record refuses most of this before.
                    _ = round_trip(&damaged, &dictionaries);
                }
            }
        }
        let mut lying = vec![LZ4];
        put_varint(&mut lying, u64::MAX);
        assert!(round_trip(&lying, &dictionaries).is_err());
    }
}
