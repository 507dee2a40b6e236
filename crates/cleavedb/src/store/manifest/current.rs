//! The file `current`: names the manifest, in text that people can read.
//!
//! It is the first file that an open reads and the last that a creation writes. It has the format
//! version and the preset, so that a newer format or another preset is detected before anything is
//! changed, and the volumes, so that an open finds them. See `docs/format.md`, "Current".

use cleavedb_base::{Error, ErrorKind, FileNumber, Result};
use cleavedb_storage::log::{FORMAT_VERSION, newer_format};
use cleavedb_storage::{FileKind, Name, Storage};

use super::text;
use crate::settings::options::Preset;
use crate::settings::volume::Volume;

/// The content of `current`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Current {
    pub(crate) manifest: FileNumber,
    pub(crate) database_id: u64,
    pub(crate) preset: Preset,
    /// In the order of their numbers, which begin at 1.
    pub(crate) volumes: Vec<Volume>,
}

impl Current {
    fn encode(&self) -> String {
        let mut text = format!(
            "cleavedb format {FORMAT_VERSION}\nmanifest {}\ndatabase {:016x}\npreset {}\n",
            self.manifest.0, self.database_id, self.preset
        );
        for volume in &self.volumes {
            text.push_str(&format!("volume {}\n", volume.encode()));
        }
        text::sealed(text)
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
        // The version comes first: the rest may be spelled differently in another version.
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
        let volumes = lines.map_while(|line| line.strip_prefix("volume "));
        let volumes = volumes.map(|line| Volume::decode(line).ok_or_else(damaged));
        let volumes = volumes.collect::<Result<_>>()?;
        let current = Self { manifest, database_id, preset, volumes };
        if current.encode() == text { Ok(current) } else { Err(damaged()) }
    }

    /// Reads `current`; `None` if it does not exist.
    pub(crate) fn read(storage: &dyn Storage) -> Result<Option<Self>> {
        let bytes = text::read(storage, Name::fixed(FileKind::Current), text::NAMES_LEN_MAX)?;
        bytes.map(|bytes| Self::decode(&bytes)).transpose()
    }

    /// Replaces `current` by this, durably.
    pub(crate) fn store(&self, storage: &dyn Storage) -> Result<()> {
        self.prepare(storage)?;
        Self::replace(storage)
    }

    /// Writes the next `current`, which is not valid yet.
    pub(super) fn prepare(&self, storage: &dyn Storage) -> Result<()> {
        text::prepare(storage, Name::fixed(FileKind::CurrentNew), &self.encode())
    }

    /// Renames it into place, durably. The manifest that it names is durable already.
    pub(super) fn replace(storage: &dyn Storage) -> Result<()> {
        let [name, new] = [FileKind::Current, FileKind::CurrentNew].map(Name::fixed);
        text::replace(storage, name, new)
    }
}

#[cfg(test)]
mod tests {
    use cleavedb_storage::FileClass;

    use super::*;

    #[test]
    fn every_damaged_byte_is_noticed() {
        let with = |volumes| {
            let (manifest, preset) = (FileNumber(12), Preset::WiscKey);
            Current { manifest, database_id: 0xabc, preset, volumes }
        };
        let large = Volume::new("/a disk", [FileClass::Levels, FileClass::Log]);
        let small = Volume { capacity: Some(1 << 30), ..Volume::new("/ssd", []) };
        for current in [with(Vec::new()), with(vec![large, small])] {
            let bytes = current.encode().into_bytes();
            assert_eq!(Current::decode(&bytes).unwrap(), current);
            text::assert_damage_is_noticed(&bytes, |bytes| Current::decode(bytes).is_ok());
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let error = Current::decode(b"cleavedb format 2\nsomething else\n").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NewerFormat);
        assert!(error.message().contains("version 2") && error.message().contains("version 1"));
    }
}
