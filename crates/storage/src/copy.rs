//! Copies of files from one directory into another: by a link where the file system can make one,
//! else byte by byte.

use std::io;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use crate::api::{Access, Mode, Storage, read_exact_at, write_all_at};
use crate::name::Name;

/// Bytes that are copied at once.
const PIECE: usize = 1 << 20;

/// Gives file `name` of `from` the same name in `to`, without copying it: both then share its
/// bytes, so that neither may be changed ([`crate::File::is_copied`]). Returns false where that is
/// not possible: in another file system, or in one without links.
pub fn link(from: &dyn Storage, name: &Name, to: &dyn Storage) -> io::Result<bool> {
    let (Some(old), Some(new)) = (from.descriptor(), to.descriptor()) else { return Ok(false) };
    let name = name.to_string();
    match rustix::fs::linkat(old, &name, new, &name, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::XDEV | Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
            Ok(false)
        }
        Err(e) => Err(e.into()),
    }
}

/// Copies the first `len` bytes of file `name` of `from` to a new file of that name in `to`, and
/// makes them durable; `None` is the whole file. Pieces of zeros become holes. Returns the number
/// of bytes of the new file.
pub fn copy(
    from: &dyn Storage,
    name: &Name,
    to: &dyn Storage,
    len: Option<u64>,
) -> io::Result<u64> {
    let source = from.open(name, Mode::Read, Access::Sequential)?;
    let len = match len {
        Some(len) => len,
        None => source.len()?,
    };
    let target = to.open(name, Mode::CreateNew, Access::Random)?;
    let mut bytes = vec![0; PIECE.min(len as usize)];
    let mut offset = 0;
    while offset < len {
        let piece = &mut bytes[..(len - offset).min(PIECE as u64) as usize];
        read_exact_at(&*source, piece, offset)?;
        if piece.iter().any(|byte| *byte != 0) {
            write_all_at(&*target, piece, offset)?;
        }
        offset += piece.len() as u64;
    }
    target.truncate(len)?;
    target.sync()?;
    Ok(len)
}
