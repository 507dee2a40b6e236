//! Records of a bulk load in memory, before they are written.

use cleavedb_base::SeqNo;
use cleavedb_base::record::Header;
use cleavedb_index::Entry;

use crate::operations::encoded_op::EncodedOp;

/// Records in the order of their keys.
#[derive(Default)]
pub(super) struct SortedChunk {
    /// Tree keys and stored values, one after another.
    bytes: Vec<u8>,
    records: Vec<Buffered>,
}

struct Buffered {
    header: Header,
    /// Where its key ends, and then its value.
    key_end: usize,
    end: usize,
}

impl SortedChunk {
    pub(super) fn add(&mut self, op: &EncodedOp<'_>, seq: SeqNo) {
        self.bytes.extend_from_slice(op.encoded_key.as_bytes());
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(&op.value);
        let (header, end) = (Header { seq, ..op.header }, self.bytes.len());
        self.records.push(Buffered { header, key_end, end });
    }

    /// Bytes of memory that it uses.
    pub(super) fn memory(&self) -> usize {
        self.bytes.len() + self.records.len() * size_of::<Buffered>()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
    }

    /// The records, each as the entry that has its stored value, with its header.
    pub(super) fn records(&self) -> impl Iterator<Item = (Entry<'_>, Header)> {
        let mut begin = 0;
        self.records.iter().map(move |Buffered { header, key_end, end }| {
            let (key, value) = (&self.bytes[begin..*key_end], &self.bytes[*key_end..*end]);
            begin = *end;
            let kind = header.kind.as_inline().as_entry();
            (Entry { key, seq: header.seq, kind, repeat: false, value }, *header)
        })
    }
}
