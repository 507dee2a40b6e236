//! The format of tables on disk, and the metadata that the engine keeps of each.
//!
//! A table is written once, front to back, and never changed (`docs/format.md`, "Table"):
//!
//! ```text
//! data block*  · filter block · index block · properties block · footer (64 bytes)
//! stored block = payload · compression u8 · check u32
//! ```
//!
//! A *stored block* is checked before any byte of it is used: `check` covers payload and
//! compression byte and is seeded with the file's identity and the block's offset, so a stale,
//! swapped or misplaced block never passes. The payload of a compressed block is the length of the
//! block as u32 and then the compressed bytes.

use std::cell::RefCell;

use bytes::Bytes;
use cleavedb_base::checksum::check32;
use cleavedb_base::codec::{Cursor, put_bytes, put_varint};
use cleavedb_base::limits::{SEQ_MAX, VALUE_LEN_MAX};
use cleavedb_base::record::FileIdentity;
use cleavedb_base::{EntryKind, Error, ErrorKind, Expiry, FileNumber, Result, SeqNo, ValuePointer};
use cleavedb_storage::aligned::AlignedBuf;

use crate::entry::Entry;
use crate::expiry_sample::ExpirySample;

/// First bytes of the last field of every table.
const MAGIC: [u8; 8] = *b"CLVTABLE";

/// Version of the table format that this release writes, and the newest that it reads.
const VERSION: u32 = 1;

/// Length of the footer, in bytes.
pub const FOOTER_LEN: usize = 64;

/// Bytes behind the payload of a stored block: compression and checksum.
pub const TRAILER_LEN: usize = 5;

/// Longest block: one value of the greatest size, its key, and a block's worth of smaller entries.
pub const BLOCK_LEN_MAX: usize = VALUE_LEN_MAX + (1 << 21);

/// Greatest `block_bytes` that is allowed: 1 MiB.
pub const BLOCK_TARGET_MAX: usize = 1 << 20;

/// Level of Zstandard: the fastest of its ordinary ones, as compaction is bound by CPU.
const ZSTD_LEVEL: i32 = 1;

/// How blocks are compressed; each block stores its own method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Compression {
    /// Not at all.
    #[default]
    None = 0,
    /// LZ4: decompresses at memory speed.
    Lz4 = 1,
    /// Zstandard at level 1: smaller, a few times slower.
    Zstd = 2,
}

/// How a table is built.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// Length at which a data block is finished, in bytes. Default 4 KiB, at most 1 MiB.
    pub block_bytes: usize,
    /// Bits of the filter per key. Default 10; 0 builds no filter.
    pub bits_per_key: u32,
    /// Compression of data blocks. Default none; a block that does not shrink by an eighth is
    /// stored as it is.
    pub compression: Compression,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self { block_bytes: 4096, bits_per_key: 10, compression: Compression::None }
    }
}

/// Place of a stored block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHandle {
    /// Offset of the payload, in bytes.
    pub offset: u64,
    /// Length of the payload, without the trailer, in bytes.
    pub len: u32,
}

impl BlockHandle {
    /// Length of payload and trailer, in bytes.
    pub fn stored_len(&self) -> usize {
        self.len as usize + TRAILER_LEN
    }

    /// Offset behind the trailer.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.stored_len() as u64)
    }

    /// Appends the encoding of an index entry: two varints.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, u64::from(self.len));
    }

    /// Reads a handle of the blocks in front of `limit`.
    #[inline]
    pub fn decode(bytes: &[u8], limit: u64) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, "block handle");
        let handle = Self { offset: cursor.varint()?, len: cursor.varint_u32()? };
        cursor.end()?;
        handle.checked(limit)
    }

    /// Fails unless the block lies in front of `limit`.
    fn checked(self, limit: u64) -> Result<Self> {
        if self.end() > limit {
            let error = Error::corruption("block handle points outside its part of the table");
            return Err(error.with("block", self.offset).with("len", self.len));
        }
        Ok(self)
    }
}

/// The end of a table, which locates all other parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The filter; data blocks end where it begins.
    pub filter: BlockHandle,
    /// The index: one entry per data block.
    pub index: BlockHandle,
    /// The properties.
    pub properties: BlockHandle,
}

impl Footer {
    /// The bytes of the footer at `offset` of the file `identity`.
    pub fn encode(&self, identity: FileIdentity, offset: u64) -> [u8; FOOTER_LEN] {
        let mut bytes = [0; FOOTER_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        for (i, handle) in [self.filter, self.index, self.properties].into_iter().enumerate() {
            let at = 12 + 12 * i;
            bytes[at..at + 8].copy_from_slice(&handle.offset.to_le_bytes());
            bytes[at + 8..at + 12].copy_from_slice(&handle.len.to_le_bytes());
        }
        let check = check32(&bytes[..60], identity.seed(offset));
        bytes[60..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads the footer that lies at `offset` of the file `identity`.
    pub fn decode(bytes: &[u8], identity: FileIdentity, offset: u64) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, "table footer");
        let magic = cursor.take(8)?;
        let version = cursor.u32()?;
        let mut handle = || -> Result<BlockHandle> {
            BlockHandle { offset: cursor.u64()?, len: cursor.u32()? }.checked(offset)
        };
        let handles = [handle(), handle(), handle()];
        let reserved = cursor.take(12)?;
        let check = cursor.u32()?;
        cursor.end()?;
        if magic != MAGIC || check != check32(&bytes[..60], identity.seed(offset)) {
            return Err(Error::corruption("table footer does not match its checksum"));
        }
        if version > VERSION {
            let message = "table was written by a newer release of CleaveDB";
            return Err(Error::new(ErrorKind::NewerFormat, message).with("version", version));
        }
        if version != VERSION || reserved.iter().any(|&byte| byte != 0) {
            return Err(Error::corruption("table footer has invalid fields"));
        }
        let [filter, index, properties] = handles;
        Ok(Self { filter: filter?, index: index?, properties: properties? })
    }
}

/// Compresses and checksums blocks.
pub struct Sealer {
    compression: Compression,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    scratch: Vec<u8>,
}

impl Sealer {
    /// A sealer that tries `compression` on every block.
    pub fn new(compression: Compression) -> Result<Self> {
        let zstd = match compression {
            Compression::Zstd => Some(
                zstd::bulk::Compressor::new(ZSTD_LEVEL)
                    .map_err(|e| Error::io("set up Zstandard", e))?,
            ),
            Compression::None | Compression::Lz4 => None,
        };
        Ok(Self { compression, zstd, scratch: Vec::new() })
    }

    /// Whether blocks are stored uncompressed, so that their length is known before.
    pub fn stores_as_is(&self) -> bool {
        self.compression == Compression::None
    }

    /// Appends `block` to `out` as a stored block that will lie at `offset`; returns its handle.
    pub fn seal(
        &mut self,
        block: &[u8],
        identity: FileIdentity,
        offset: u64,
        out: &mut AlignedBuf,
    ) -> Result<BlockHandle> {
        let start = out.len();
        let compressed = self.compress(block)?;
        // Saving less than an eighth does not pay for decompressing at every later read.
        let compression = match compressed {
            Some(len) if len + 4 <= block.len() - block.len() / 8 => {
                out.extend_from_slice(&(block.len() as u32).to_le_bytes());
                out.extend_from_slice(&self.scratch[..len]);
                self.compression
            }
            _ => {
                out.extend_from_slice(block);
                Compression::None
            }
        };
        let len = (out.len() - start) as u32;
        out.extend_from_slice(&[compression as u8]);
        let check = check32(&out[start..], identity.seed(offset));
        out.extend_from_slice(&check.to_le_bytes());
        Ok(BlockHandle { offset, len })
    }

    /// Compresses `block` into the scratch buffer; returns the length.
    fn compress(&mut self, block: &[u8]) -> Result<Option<usize>> {
        let bound = match self.compression {
            Compression::None => return Ok(None),
            Compression::Lz4 => lz4_flex::block::get_maximum_output_size(block.len()),
            Compression::Zstd => zstd::zstd_safe::compress_bound(block.len()),
        };
        self.scratch.resize(self.scratch.len().max(bound), 0);
        let len = match &mut self.zstd {
            Some(zstd) => zstd.compress_to_buffer(block, self.scratch.as_mut_slice()),
            None => lz4_flex::block::compress_into(block, &mut self.scratch)
                .map_err(std::io::Error::other),
        };
        len.map(Some).map_err(|e| Error::io("compress a block", e))
    }
}

/// Verifies and decompresses `stored`, a whole stored block at `offset` of the file `identity`.
///
/// A block that is not compressed shares the memory of `stored`.
pub fn unseal(stored: Bytes, identity: FileIdentity, offset: u64) -> Result<Bytes> {
    let bad = || Error::corruption("block does not match its checksum");
    let (covered, check) = stored.split_last_chunk::<4>().ok_or_else(bad)?;
    if u32::from_le_bytes(*check) != check32(covered, identity.seed(offset)) {
        return Err(bad());
    }
    let (&compression, payload) = covered.split_last().ok_or_else(bad)?;
    if compression == Compression::None as u8 {
        return Ok(stored.slice(..payload.len()));
    }
    let (len, packed) = payload.split_first_chunk::<4>().ok_or_else(bad)?;
    let len = u32::from_le_bytes(*len) as usize;
    let unpacked = if len > BLOCK_LEN_MAX { None } else { decompress(compression, packed, len) };
    unpacked.map(Bytes::from).ok_or_else(|| {
        Error::corruption("block cannot be decompressed").with("compression", compression)
    })
}

thread_local! {
    /// A Zstandard context is 160 KiB: too expensive to set up for every 4 KiB block.
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

fn decompress(compression: u8, packed: &[u8], len: usize) -> Option<Vec<u8>> {
    let block = if compression == Compression::Lz4 as u8 {
        lz4_flex::block::decompress(packed, len).ok()?
    } else if compression == Compression::Zstd as u8 {
        ZSTD.with_borrow_mut(|slot| {
            if slot.is_none() {
                *slot = zstd::bulk::Decompressor::new().ok();
            }
            slot.as_mut()?.decompress(packed, len).ok()
        })?
    } else {
        return None;
    };
    (block.len() == len).then_some(block)
}

/// Metadata of a table, known without opening it. The manifest records it; the properties block
/// repeats it, without number and size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// Number of the file.
    pub number: FileNumber,
    /// Length of the file, in bytes.
    pub size: u64,
    /// Smallest tree key.
    pub smallest: Box<[u8]>,
    /// Largest tree key.
    pub largest: Box<[u8]>,
    /// Entries.
    pub entries: u64,
    /// Entries that are tombstones.
    pub deletes: u64,
    /// Entries that are not the newest of their key in this table: kept for snapshots.
    pub shadowed: u64,
    /// Smallest sequence number.
    pub min_seq: SeqNo,
    /// Greatest sequence number.
    pub max_seq: SeqNo,
    /// Bytes of keys and values of all entries, before compression.
    pub raw_bytes: u64,
    /// Bytes of the records that this table's pointers own; repeats own none.
    pub pointer_bytes: u64,
    /// The table holds no version that a range tombstone up to this sequence number covers: when it
    /// was written all of these were applied, and no snapshot was older than one of them. 0 if that
    /// is not known.
    pub uncovered_upto: SeqNo,
    /// When the first of its values expires, repeats left out: [`Expiry::NEVER`] if none does.
    pub first_expiry: Expiry,
    /// By when half of its entries have expired, estimated from a sample: [`Expiry::NEVER`] if
    /// fewer than half expire.
    pub half_expired: Expiry,
}

impl TableMeta {
    /// The table `number` before its first entry.
    pub(crate) fn empty(number: FileNumber) -> Self {
        Self {
            number,
            size: 0,
            smallest: Box::default(),
            largest: Box::default(),
            entries: 0,
            deletes: 0,
            shadowed: 0,
            min_seq: SEQ_MAX,
            max_seq: 0,
            raw_bytes: 0,
            pointer_bytes: 0,
            uncovered_upto: 0,
            first_expiry: Expiry::NEVER,
            half_expired: Expiry::NEVER,
        }
    }

    /// Counts an entry; `new_key` says that the one before has another key. Size, largest key and
    /// what `expiries` tells are set when the table is finished.
    #[inline]
    pub(crate) fn count(
        &mut self,
        entry: &Entry<'_>,
        new_key: bool,
        expiries: &mut ExpirySample,
    ) -> Result<()> {
        if self.entries == 0 {
            self.smallest = entry.key.into();
        }
        self.entries += 1;
        self.shadowed += u64::from(!new_key);
        self.min_seq = self.min_seq.min(entry.seq);
        self.max_seq = self.max_seq.max(entry.seq);
        self.raw_bytes += (entry.key.len() + entry.value.len()) as u64;
        match entry.kind {
            EntryKind::Delete => self.deletes += 1,
            kind if kind.is_pointer() && !entry.repeat => {
                let pointer = ValuePointer::of_entry(kind, entry.value)?;
                self.pointer_bytes += u64::from(pointer.value.len);
                if kind.expires() {
                    expiries.add(pointer.until);
                }
            }
            kind if kind.expires() && !entry.repeat => expiries.add(kind.split(entry.value)?.until),
            _ => {}
        }
        Ok(())
    }

    /// Sets what the expiries of its entries tell, when all were counted.
    pub(crate) fn set_expiries(&mut self, expiries: ExpirySample) {
        (self.first_expiry, self.half_expired) = expiries.first_and_half(self.entries);
    }

    /// Whether any of its values expires, repeats left out.
    pub fn expires(&self) -> bool {
        !self.first_expiry.is_never()
    }

    /// Values that have expired by `now`, estimated: as if those of the first half of its entries
    /// did so evenly. One, if one has and fewer than half expire.
    pub fn expired(&self, now: u64) -> u64 {
        let first = self.first_expiry.millis();
        if now < first || self.half_expired.is_never() {
            return u64::from(first <= now);
        }
        let within = self.half_expired.millis().saturating_sub(first) + 1;
        let since = (now - first + 1).min(within);
        let half = u128::from(self.entries.div_ceil(2));
        (half * u128::from(since) / u128::from(within)) as u64
    }

    /// Whether it is time to drop its expired values, so that their space comes back: half of its
    /// entries have expired by `now`, or the first value had by `long_ago`.
    pub fn is_due(&self, now: u64, long_ago: u64) -> bool {
        self.half_expired.is_over(now) || self.first_expiry.is_over(long_ago)
    }

    /// Whether the table may hold a key from `smallest` through `largest`.
    #[inline]
    pub fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        &*self.smallest <= largest && smallest <= &*self.largest
    }

    /// Whether the table may hold `key`.
    #[inline]
    pub fn spans(&self, key: &[u8]) -> bool {
        self.overlaps(key, key)
    }

    /// Appends everything but number and size.
    pub fn encode_properties(&self, out: &mut Vec<u8>) {
        for field in [
            self.entries,
            self.deletes,
            self.shadowed,
            self.min_seq,
            self.max_seq,
            self.raw_bytes,
            self.pointer_bytes,
            self.uncovered_upto,
            // One more, so that never is 0, which is short.
            self.first_expiry.millis().wrapping_add(1),
            self.half_expired.millis().wrapping_add(1),
        ] {
            put_varint(out, field);
        }
        put_bytes(out, &self.smallest);
        put_bytes(out, &self.largest);
    }

    /// Reads what [`TableMeta::encode_properties`] wrote.
    pub fn decode_properties(
        number: FileNumber,
        size: u64,
        cursor: &mut Cursor<'_>,
    ) -> Result<Self> {
        let meta = Self {
            number,
            size,
            entries: cursor.varint()?,
            deletes: cursor.varint()?,
            shadowed: cursor.varint()?,
            min_seq: cursor.varint()?,
            max_seq: cursor.varint()?,
            raw_bytes: cursor.varint()?,
            pointer_bytes: cursor.varint()?,
            uncovered_upto: cursor.varint()?,
            first_expiry: Expiry::at(cursor.varint()?.wrapping_sub(1)),
            half_expired: Expiry::at(cursor.varint()?.wrapping_sub(1)),
            smallest: cursor.bytes()?.into(),
            largest: cursor.bytes()?.into(),
        };
        let possible = meta.smallest <= meta.largest
            && meta.min_seq <= meta.max_seq
            && meta.max_seq <= SEQ_MAX
            && meta.uncovered_upto <= SEQ_MAX
            && meta.first_expiry <= meta.half_expired
            && meta.deletes <= meta.entries
            && meta.shadowed < meta.entries;
        if !possible {
            let message = "properties of a table contradict each other";
            return Err(Error::corruption(message).with("table", number));
        }
        Ok(meta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> FileIdentity {
        FileIdentity::new(1, FileNumber(2))
    }

    #[test]
    fn blocks_survive_every_compression_and_damage_is_noticed() {
        let block: Vec<u8> = (0..5000u32).map(|i| (i / 50) as u8).collect();
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let mut out = AlignedBuf::zeroed(3);
            let mut sealer = Sealer::new(compression).unwrap();
            let handle = sealer.seal(&block, identity(), 70, &mut out).unwrap();
            let stored = Bytes::copy_from_slice(&out[3..]);
            assert_eq!(stored.len(), handle.stored_len());
            assert_eq!(stored.len() < 2500, compression != Compression::None);
            assert_eq!(unseal(stored.clone(), identity(), 70).unwrap(), block);
            assert!(unseal(stored.clone(), identity(), 71).is_err(), "another offset");
            for i in 0..stored.len() {
                let mut damaged = stored.to_vec();
                damaged[i] ^= 1;
                assert!(unseal(damaged.into(), identity(), 70).is_err(), "byte {i}");
            }
        }
    }

    #[test]
    fn a_newer_footer_is_told_from_a_damaged_one() {
        let handle = BlockHandle { offset: 1, len: 2 };
        let footer = Footer { filter: handle, index: handle, properties: handle };
        let mut bytes = footer.encode(identity(), 100);
        assert_eq!(Footer::decode(&bytes, identity(), 100).unwrap(), footer);
        bytes[8] = 2;
        let damaged = Footer::decode(&bytes, identity(), 100).unwrap_err();
        assert_eq!(damaged.kind(), ErrorKind::Corruption);
        let check = check32(&bytes[..60], identity().seed(100));
        bytes[60..].copy_from_slice(&check.to_le_bytes());
        let newer = Footer::decode(&bytes, identity(), 100).unwrap_err();
        assert_eq!(newer.kind(), ErrorKind::NewerFormat);
    }
}
