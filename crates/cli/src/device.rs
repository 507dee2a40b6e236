//! The device under a benchmark: the real one, or one whose time is modelled.

use std::path::Path;
use std::sync::Arc;

use cleavedb::{Clock, Db, Modelled, Options, Profile};
use cleavedb_bench::units;

/// Page cache of a modelled device if none is given, in bytes: the memory limit of the suites.
const PAGE_CACHE: u64 = 1 << 30;

/// What a benchmark's database lies on.
#[derive(Clone, Debug)]
pub struct Device {
    modelled: Option<(Profile, f64)>,
    page_cache: u64,
}

impl Default for Device {
    fn default() -> Self {
        Self { modelled: None, page_cache: PAGE_CACHE }
    }
}

/// A database on a device, and the model that counts its requests, if there is one.
pub struct OnDevice {
    /// The database.
    pub db: Db,
    /// The model.
    pub model: Option<Arc<Modelled>>,
}

/// Reads `NAME` or `NAME:SPEED`.
pub fn parse(text: &str) -> Result<(Profile, f64), String> {
    let names = || Profile::ALL.map(|profile| profile.name).join(", ");
    let (name, speed) = text.split_once(':').unwrap_or((text, "1"));
    let profile = Profile::from_name(name)
        .ok_or_else(|| format!("there is no device {name}; there are {}", names()))?;
    match speed.parse() {
        Ok(speed) if f64::is_finite(speed) && speed > 0.0 => Ok((profile, speed)),
        _ => Err(format!("{speed} is not a speed such as 1, 10 or 0.5")),
    }
}

impl Device {
    /// Takes the time of the device that `text` names.
    pub fn model(&mut self, text: &str) -> Result<(), String> {
        self.modelled = Some(parse(text)?);
        Ok(())
    }

    /// Sets the page cache of the model, in bytes.
    pub fn set_page_cache(&mut self, bytes: u64) {
        self.page_cache = bytes;
    }

    /// Opens the database in `directory` on this device.
    pub fn open(&self, directory: &Path, options: Options) -> cleavedb::Result<OnDevice> {
        let Some((profile, speed)) = &self.modelled else {
            return Ok(OnDevice { db: Db::open(directory, options)?, model: None });
        };
        let mut kept = None;
        let db = Db::open_through(directory, options, |disk| {
            let clock = Clock::real_time(*speed);
            let model = Arc::new(Modelled::new(disk, profile.clone(), clock, self.page_cache));
            kept = Some(model.clone());
            model
        })?;
        Ok(OnDevice { db, model: kept })
    }

    /// In words, for a result.
    pub fn describe(&self) -> String {
        match &self.modelled {
            None => "real".to_owned(),
            Some((profile, speed)) => {
                let cache = units::bytes(self.page_cache);
                format!("modelled {}, {speed} times as fast, page cache {cache}", profile.name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_device_has_a_name_and_perhaps_a_speed() {
        for (text, name, speed) in [("hdd", "hdd", 1.0), ("sata:10", "sata", 10.0)] {
            let (profile, parsed) = parse(text).unwrap();
            assert_eq!((profile.name, parsed), (name, speed));
        }
        assert!(parse("floppy").unwrap_err().contains("hdd, sata, nvme"));
        for text in ["hdd:", "hdd:0", "hdd:-1", "hdd:inf", "hdd:fast"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
