//! Every bound that the formats rest on, with its unit and its reason.

/// Longest user key, in bytes; an empty key is valid. A record stores the key length in 16 bits.
pub const KEY_LEN_MAX: usize = u16::MAX as usize - KEYSPACE_PREFIX_LEN;

/// Longest value, in bytes. A value is written and verified as one piece, in memory.
pub const VALUE_LEN_MAX: usize = 1 << 30;

/// Longest operand of a merge with the name of its operator, in bytes. Operands stay in the index,
/// so that they can be combined there.
pub const OPERAND_LEN_MAX: usize = 64 << 10;

/// Longest name of a merge operator, in bytes.
pub const OPERATOR_NAME_MAX: usize = 64;

/// Bytes that a keyspace id takes in front of a user key in the index.
pub const KEYSPACE_PREFIX_LEN: usize = 2;

/// Greatest sequence number: a table entry and a record pack it into 56 bits beside the kind.
pub const SEQ_MAX: u64 = (1 << 56) - 1;

/// Most bytes of records (keys, values and a header each) in one batch: a batch lies whole in one
/// log file, and recovery buffers it until it knows that the batch is complete.
pub const BATCH_BYTES_MAX: usize = 2 << 30;

/// Unit in which files are laid out and padded: the page of the kernel and of most devices, and
/// the alignment that direct I/O asks for.
pub const BLOCK: usize = 4096;

const _: () =
    assert!(VALUE_LEN_MAX < u32::MAX as usize, "a record stores the value length in 32 bits");
const _: () = assert!(VALUE_LEN_MAX < BATCH_BYTES_MAX, "the largest value fits a batch");
const _: () = assert!(BLOCK.is_power_of_two());
