//! Small text files that people can read: lines of fields with a checksum at the end, replaced only
//! by rename.

use cleavedb_base::checksum::check32;
use cleavedb_base::{Error, Result};
use cleavedb_storage::api::{read_exact_at, write_all_at};
use cleavedb_storage::{Access, Mode, Name, RemoveMode, Storage};

/// Longest file that names other files, in bytes.
pub(crate) const NAMES_LEN_MAX: u64 = 64 << 10;

/// The text with its checksum line.
pub(crate) fn sealed(mut text: String) -> String {
    let check = check32(text.as_bytes(), 0);
    text.push_str(&format!("check {check:08x}\n"));
    text
}

/// The content of the file `name`, of which at most `len_max` bytes are read; `None` if it does not
/// exist.
pub(crate) fn read(storage: &dyn Storage, name: Name, len_max: u64) -> Result<Option<Vec<u8>>> {
    let failed = |e| Error::io("read the file", e).with("file", name);
    let file = match storage.open(&name, Mode::Read, Access::Random) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let len = file.len().map_err(failed)?.min(len_max);
    let mut bytes = vec![0; len as usize];
    read_exact_at(&*file, &mut bytes, 0).map_err(failed)?;
    Ok(Some(bytes))
}

/// Writes `text` to the file `new`, which is to replace another: durable except for its name.
pub(crate) fn prepare(storage: &dyn Storage, new: Name, text: &str) -> Result<()> {
    let failed = |e| Error::io("write the file", e).with("file", new);
    match storage.remove(&new, RemoveMode::Immediate) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    let file = storage.open(&new, Mode::CreateNew, Access::Random).map_err(failed)?;
    write_all_at(&*file, text.as_bytes(), 0).map_err(failed)?;
    file.sync().map_err(|e| Error::sync_failed("the file", e).with("file", new))
}

/// Renames the prepared file `new` to `name`, durably.
pub(crate) fn replace(storage: &dyn Storage, name: Name, new: Name) -> Result<()> {
    let renamed = storage.rename(&new, &name);
    renamed.map_err(|e| Error::io("replace the file", e).with("file", name))?;
    storage.sync_dir().map_err(|e| Error::sync_failed("the directory", e))
}

/// Checks that `decode` refuses every text but `whole`.
#[cfg(test)]
pub(crate) fn assert_damage_is_noticed(whole: &[u8], decode: impl Fn(&[u8]) -> bool) {
    assert!(decode(whole));
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.to_vec();
            damaged[at] ^= 1 << bit;
            assert!(!decode(&damaged), "byte {at} bit {bit}");
        }
        assert!(!decode(&whole[..at]), "cut at {at}");
    }
}
