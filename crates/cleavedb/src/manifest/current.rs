//! The file `current`: names the manifest, in text that a person can read.
//!
//! It is the first file that an open reads and the last that a creation writes, replaced by rename
//! only. Format version and preset stand here, so that a newer format or another preset is noticed
//! before anything is touched. See `docs/format.md`, "Current".

use cleavedb_base::checksum::check32;
use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_storage::api::{read_exact_at, write_all_at};
use cleavedb_storage::log::{FORMAT_VERSION, newer_format};
use cleavedb_storage::{Access, FileKind, Mode, Name, Storage};

use crate::options::Preset;

/// Longest file that is taken for a `current`.
const LEN_MAX: u64 = 1024;

/// The content of `current`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    pub(crate) manifest: FileNumber,
    pub(crate) database_id: u64,
    pub(crate) preset: Preset,
}

impl Current {
    fn encode(&self) -> String {
        let mut text = format!(
            "cleavedb format {FORMAT_VERSION}\nmanifest {}\ndatabase {:016x}\npreset {}\n",
            self.manifest.0, self.database_id, self.preset
        );
        let check = check32(text.as_bytes(), 0);
        text.push_str(&format!("check {check:08x}\n"));
        text
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = || {
            Error::corruption("the file does not name a manifest; restore it from a backup")
                .with("file", Name::fixed(FileKind::Current))
        };
        let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
        let mut lines = text.lines();
        let mut field = |name: &str| {
            lines.next().and_then(|line| line.strip_prefix(name)).map(str::trim).ok_or_else(damaged)
        };
        // The version comes first: another version may spell the rest in another way.
        let version: u32 = field("cleavedb format ")?.parse().map_err(|_| damaged())?;
        if version != FORMAT_VERSION {
            return Err(newer_format(version));
        }
        let manifest = field("manifest ")?.parse().map_err(|_| damaged())?;
        let database_id = u64::from_str_radix(field("database ")?, 16).map_err(|_| damaged())?;
        let preset = field("preset ")?.to_owned();
        let manifest = FileNumber(manifest);
        let preset = Preset::from_name(&preset).ok_or_else(|| {
            let message = format!("the data has preset {preset}, which this release does not know");
            Error::new(ErrorKind::NewerFormat, message)
        })?;
        let current = Self { manifest, database_id, preset };
        if current.encode() == text { Ok(current) } else { Err(damaged()) }
    }

    /// Reads `current`; `None` if there is none.
    pub(crate) fn read(storage: &dyn Storage) -> Result<Option<Self>> {
        let name = Name::fixed(FileKind::Current);
        let failed = |e| Error::io("read the file", e).with("file", name);
        let file = match storage.open(&name, Mode::Read, Access::Random) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(e)),
        };
        let len = file.len().map_err(failed)?.min(LEN_MAX);
        let mut bytes = vec![0; len as usize];
        read_exact_at(&*file, &mut bytes, 0).map_err(failed)?;
        Self::decode(&bytes).map(Some)
    }

    /// Replaces `current`, durably. The manifest that it names is durable already.
    pub(crate) fn write(&self, storage: &dyn Storage) -> Result<()> {
        let (name, new) = (Name::fixed(FileKind::Current), Name::fixed(FileKind::CurrentNew));
        let failed = |e| Error::io("replace the file", e).with("file", name);
        match storage.remove(&new) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let file = storage.open(&new, Mode::CreateNew, Access::Random).map_err(failed)?;
        write_all_at(&*file, self.encode().as_bytes(), 0).map_err(failed)?;
        file.sync().map_err(|e| Error::sync_failed("the file", e).with("file", new))?;
        storage.rename(&new, &name).map_err(failed)?;
        storage.sync_dir().map_err(|e| Error::sync_failed("the directory", e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damaged_byte_is_noticed() {
        let current =
            Current { manifest: FileNumber(12), database_id: 0xabc, preset: Preset::WiscKey };
        let bytes = current.encode().into_bytes();
        assert_eq!(Current::decode(&bytes).unwrap(), current);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(Current::decode(&damaged).is_err(), "byte {at} bit {bit}");
            }
            assert!(Current::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let error = Current::decode(b"cleavedb format 2\nsomething else\n").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NewerFormat);
        assert!(error.message().contains("version 2") && error.message().contains("version 1"));
    }
}
