//! The devices under a benchmark: real ones, or models of others.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleavedb::{Db, FileClass, Options, Volume};
use cleavedb_cli::placement::parse_classes;
use cleavedb_storage_sim::modelled::{Clock, Profile, SimulatedDevice};
use cleavedb_units as units;

/// Default page cache of all modelled devices together, in bytes: the memory limit of the suites.
const PAGE_CACHE: u64 = 1 << 30;

/// The devices of a benchmark's database.
#[derive(Clone, Debug)]
pub struct Device {
    /// The profile of the database's own directory, and of volumes without their own.
    own: Option<Profile>,
    /// Profiles of the volumes that hold a class.
    volumes: Vec<(FileClass, Profile)>,
    speed: Option<f64>,
    page_cache: u64,
}

impl Default for Device {
    fn default() -> Self {
        Self { own: None, volumes: Vec::new(), speed: None, page_cache: PAGE_CACHE }
    }
}

/// A database on its devices, and the models that count their requests, if there are some: that of
/// the database's own directory first.
pub struct OnDevice {
    /// The database.
    pub db: Db,
    /// The models, each with the path of its directory.
    pub models: Vec<(PathBuf, Arc<SimulatedDevice>)>,
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
    /// Simulates the device that `text` names: `NAME[:SPEED]`, or `CLASS=NAME[:SPEED]` for the
    /// volume that holds a class of files. All devices must have the same speed factor.
    pub fn model(&mut self, text: &str) -> Result<(), String> {
        let (classes, name) = match text.split_once('=') {
            Some((classes, name)) => (parse_classes(classes)?, name),
            None => (Vec::new(), text),
        };
        let (profile, speed) = parse(name)?;
        if self.speed.is_some_and(|other| other != speed) {
            return Err("all devices must have the same speed".to_owned());
        }
        self.speed = Some(speed);
        if classes.is_empty() {
            self.own = Some(profile.clone());
        }
        self.volumes.extend(classes.into_iter().map(|class| (class, profile.clone())));
        Ok(())
    }

    /// Sets the common page cache of the models, in bytes.
    pub fn set_page_cache(&mut self, bytes: u64) {
        self.page_cache = bytes;
    }

    /// Divides the page cache.
    pub fn divide(&mut self, parts: u64) {
        self.page_cache /= parts;
    }

    /// The profile for the directory `path` of a database with `volumes`.
    fn under(&self, path: &Path, volumes: &[Volume]) -> Option<&Profile> {
        let volume = volumes.iter().find(|volume| volume.directory == path);
        let named = volume.and_then(|volume| {
            self.volumes.iter().find(|(class, _)| volume.classes.contains(class))
        });
        named.map(|(_, profile)| profile).or(self.own.as_ref())
    }

    /// Refuses a profile for a class of files that no volume holds, which would have no effect.
    pub fn check(&self, volumes: &[Volume]) -> Result<(), String> {
        let placed = |class: &FileClass| volumes.iter().any(|v| v.classes.contains(class));
        let lost = self.volumes.iter().map(|(class, _)| class).find(|class| !placed(class));
        lost.map_or(Ok(()), |class| {
            let class = class.name();
            Err(format!("--device {class}=...: no directory holds {class}; --place names one"))
        })
    }

    /// Opens the database in `directory` on these devices. The paths of its volumes are absolute.
    pub fn open(&self, directory: &Path, options: Options) -> cleavedb::Result<OnDevice> {
        let volumes = options.volumes.clone();
        let directories = volumes.iter().map(|volume| &*volume.directory).chain([directory]);
        let modelled = directories.filter(|path| self.under(path, &volumes).is_some()).count();
        let share = self.page_cache / modelled.max(1) as u64;
        let clock = self.speed.map(Clock::real_time);
        let mut models = Vec::new();
        let db = Db::open_through(directory, options, |path, disk| {
            let (Some(clock), Some(profile)) = (&clock, self.under(path, &volumes)) else {
                return disk;
            };
            let model = Arc::new(SimulatedDevice::new(disk, profile.clone(), clock.clone(), share));
            models.push((path.to_owned(), model.clone()));
            model
        })?;
        Ok(OnDevice { db, models })
    }

    /// Description for a result.
    pub fn describe(&self, volumes: &[Volume]) -> String {
        let Some(speed) = self.speed else { return "real".to_owned() };
        let name = |profile: Option<&Profile>| profile.map_or("real", |profile| profile.name);
        let mut names = vec![name(self.own.as_ref()).to_owned()];
        for volume in volumes {
            let classes: Vec<_> = volume.classes.iter().map(|class| class.name()).collect();
            let under = name(self.under(&volume.directory, volumes));
            names.push(format!("{under} for {}", classes.join(" and ")));
        }
        let cache = units::bytes(self.page_cache);
        format!("modelled {}, {speed} times as fast, page cache {cache}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use cleavedb::{FileClass, Volume};

    use super::{Device, parse};

    #[test]
    fn a_volume_has_the_device_of_its_class_or_that_of_the_database() {
        let mut device = Device::default();
        for text in ["hdd:10", "levels=sata:10"] {
            device.model(text).unwrap();
        }
        let volumes = [Volume::new("/a", [FileClass::Levels]), Volume::new("/b", [FileClass::Log])];
        let under = |path: &str| device.under(path.as_ref(), &volumes).map(|profile| profile.name);
        let found = [under("/own"), under("/a"), under("/b")];
        assert_eq!(found, [Some("hdd"), Some("sata"), Some("hdd")]);
        assert!(device.describe(&volumes).contains("hdd, sata for levels, hdd for log"));
        assert!(device.model("log=nvme:2").unwrap_err().contains("same speed"));
        assert!(device.check(&volumes).is_ok());
        assert!(device.check(&volumes[1..]).unwrap_err().contains("no directory holds levels"));
    }

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
