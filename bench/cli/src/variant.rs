//! The stores of OHDB's evaluation (section IV.A) as options of the benchmark.

/// Levels 0 and 1 of HyperLevelDB, on which the paper builds: four tables of a MemTable, and 128
/// MiB, scaled to an eighth like all sizes of these experiments and of those without a variant
/// (`bench/harness/src/experiments/ohdb.rs`). In the paper memory held all data (32 and 64 GB for
/// 11.6), so each disk here has a page cache that does.
const COMMON: [(&str, &str); 3] =
    [("level0-size", "16MiB"), ("level1-size", "16MiB"), ("page-cache", "4GiB")];

/// How level 0 is kept, and whether the other levels are on a second disk.
const STORES: [(&str, &[(&str, &str)]); 4] = [
    ("hdb", &[("level0", "hyperleveldb")]),
    ("l0p", &[("partitions", "10")]),
    ("2dc", &[("level0", "hyperleveldb"), ("place", "levels")]),
    ("c", &[("partitions", "10"), ("place", "levels")]),
];

/// The device of a store with one disk, and the two of one with a second disk.
const MACHINES: [(&str, &str, [&str; 2]); 2] =
    [("low", "hdd", ["hdd", "levels=hdd"]), ("high", "sata", ["hdd", "levels=sata"])];

/// The options, as (name, value), of `STORE-MACHINE[:SPEED]`: a store of the paper on its low-end
/// machine (two hard disks) or its high-end one (an SSD; with a second disk, a hard disk and the
/// SSD), whose devices are modelled.
pub fn options(text: &str) -> Result<Vec<(&'static str, String)>, String> {
    let unknown =
        || "there are hdb, l0p, 2dc and c, each -low or -high, such as c-high:10".to_owned();
    let (name, speed) = text.split_once(':').unwrap_or((text, "1"));
    let (store, machine) = name.split_once('-').ok_or_else(unknown)?;
    let (_, settings) = STORES.iter().find(|(name, _)| *name == store).ok_or_else(unknown)?;
    let (_, alone, both) =
        MACHINES.iter().find(|(name, ..)| *name == machine).ok_or_else(unknown)?;
    let placed = settings.iter().any(|(name, _)| *name == "place");
    let devices = if placed { &both[..] } else { std::slice::from_ref(alone) };
    let settings = COMMON.iter().chain(*settings);
    let mut options: Vec<_> = settings.map(|(name, value)| (*name, (*value).to_owned())).collect();
    options.extend(devices.iter().map(|device| ("device", format!("{device}:{speed}"))));
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::options;

    fn line(text: &str) -> String {
        let each = options(text).unwrap();
        assert_eq!([each[0].0, each[1].0, each[2].0], ["level0-size", "level1-size", "page-cache"]);
        each[3..]
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn a_store_of_the_paper_is_a_list_of_options() {
        assert_eq!(line("hdb-low"), "level0=hyperleveldb device=hdd:1");
        assert_eq!(line("l0p-high:10"), "partitions=10 device=sata:10");
        assert_eq!(
            line("2dc-high"),
            "level0=hyperleveldb place=levels device=hdd:1 device=levels=sata:1"
        );
        assert_eq!(line("c-low:2"), "partitions=10 place=levels device=hdd:2 device=levels=hdd:2");
        for text in ["", "c", "c-middle", "level-low", "-low"] {
            assert!(options(text).unwrap_err().contains("c-high"), "{text}");
        }
    }
}
