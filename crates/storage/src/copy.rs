//! Copies of files from one directory into another: by a link where the file system can make one,
//! else byte by byte.

use std::io;

use cleavedb_base::planted::{Bug, planted};
use rustix::fs::AtFlags;
use rustix::io::Errno;

use crate::api::{Access, File, Mode, Storage, read_exact_at, write_all_at};
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

/// Removes the empty subdirectory `name` of `directory`, where that is one of the file system.
pub fn remove_dir(directory: &dyn Storage, name: &str) -> io::Result<()> {
    let Some(directory) = directory.descriptor() else { return Ok(()) };
    Ok(rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?)
}

/// Whether two files have the same bytes in these ranges, each an offset and a length.
pub fn is_same(
    one: &dyn File,
    other: &dyn File,
    ranges: impl IntoIterator<Item = (u64, u64)>,
) -> io::Result<bool> {
    let mut pieces = [Vec::new(), Vec::new()];
    for (offset, len) in ranges {
        for at in (0..len).step_by(PIECE) {
            let piece = (len - at).min(PIECE as u64) as usize;
            for (bytes, file) in pieces.iter_mut().zip([one, other]) {
                bytes.resize(piece, 0);
                read_exact_at(file, bytes, offset + at)?;
            }
            if pieces[0] != pieces[1] {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Copies the first `present` bytes of file `name` of `from` to a new file of that name in `to`,
/// makes this `len` bytes long, and its bytes durable. Pieces of zeros, and what lies behind the
/// copied bytes, become holes.
pub fn copy(
    from: &dyn Storage,
    name: &Name,
    to: &dyn Storage,
    present: u64,
    len: u64,
) -> io::Result<()> {
    let source = from.open(name, Mode::Read, Access::Sequential)?;
    let target = to.open(name, Mode::CreateNew, Access::Random)?;
    let mut bytes = vec![0; PIECE.min(present as usize)];
    let mut offset = 0;
    while offset < present {
        let piece = &mut bytes[..(present - offset).min(PIECE as u64) as usize];
        read_exact_at(&*source, piece, offset)?;
        if piece.iter().any(|byte| *byte != 0) {
            write_all_at(&*target, piece, offset)?;
        }
        offset += piece.len() as u64;
    }
    target.truncate(len)?;
    if planted(Bug::CopyUnsynced) {
        return Ok(());
    }
    target.sync()
}
