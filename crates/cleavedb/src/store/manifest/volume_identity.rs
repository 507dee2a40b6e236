//! The file `volume`: names the database that a directory is a volume of, and its age.
//!
//! Each new manifest is written into the stamps of all volumes before `current` names it. So a
//! stamp names the current manifest, or one of an unfinished open, which then lies in the
//! database's own directory; any other number shows that the directory was replaced by an older
//! copy. See `docs/format.md`, "Volume".

use cleavedb_base::{Error, FileNumber, Result};
use cleavedb_storage::log::{FORMAT_VERSION, newer_format};
use cleavedb_storage::{FileKind, Name, Storage};

use super::text;

/// The content of `volume`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VolumeIdentity {
    pub(crate) database_id: u64,
    /// Number of the volume, from 1 on.
    pub(crate) number: usize,
    /// The youngest manifest that the volume has seen.
    pub(crate) manifest: FileNumber,
}

impl VolumeIdentity {
    fn encode(&self) -> String {
        text::sealed(format!(
            "cleavedb volume format {FORMAT_VERSION}\ndatabase {:016x}\nnumber {}\nmanifest {}\n",
            self.database_id, self.number, self.manifest.0
        ))
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = || {
            let what = "the file does not say of which database the volume is; restore it";
            Error::corruption(what).with("file", Name::fixed(FileKind::Volume))
        };
        let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
        let mut lines = text.lines();
        let mut field =
            |name: &str| lines.next().and_then(|line| line.strip_prefix(name)).ok_or_else(damaged);
        let version: u32 = field("cleavedb volume format ")?.parse().map_err(|_| damaged())?;
        if version != FORMAT_VERSION {
            return Err(newer_format(version));
        }
        let database_id = u64::from_str_radix(field("database ")?, 16).map_err(|_| damaged())?;
        let number = field("number ")?.parse().map_err(|_| damaged())?;
        let manifest = FileNumber(field("manifest ")?.parse().map_err(|_| damaged())?);
        let stamp = Self { database_id, number, manifest };
        if stamp.encode() == text { Ok(stamp) } else { Err(damaged()) }
    }

    /// Reads the stamp of a directory; `None` if it has none.
    pub(crate) fn read(storage: &dyn Storage) -> Result<Option<Self>> {
        let bytes = text::read(storage, Name::fixed(FileKind::Volume), text::NAMES_LEN_MAX)?;
        bytes.map(|bytes| Self::decode(&bytes)).transpose()
    }

    /// Writes the next stamp of a directory, which is not valid yet.
    pub(super) fn prepare(&self, storage: &dyn Storage) -> Result<()> {
        text::prepare(storage, Name::fixed(FileKind::VolumeNew), &self.encode())
    }

    /// Renames it into place, durably.
    pub(super) fn replace(storage: &dyn Storage) -> Result<()> {
        let [name, new] = [FileKind::Volume, FileKind::VolumeNew].map(Name::fixed);
        text::replace(storage, name, new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damaged_byte_is_noticed() {
        let stamp = VolumeIdentity { database_id: 0xabc, number: 1, manifest: FileNumber(12) };
        let bytes = stamp.encode().into_bytes();
        assert_eq!(VolumeIdentity::decode(&bytes).unwrap(), stamp);
        text::assert_damage_is_noticed(&bytes, |bytes| VolumeIdentity::decode(bytes).is_ok());
    }
}
