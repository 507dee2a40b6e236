//! The settings of a database in words, for the results of a benchmark.

use cleavedb::layout::{GroupLayout, Partition, SurvivorRoute};
use cleavedb::{Options, Volume};
use cleavedb_bench::units;

/// The settings in force, as (option, value with unit); `device` is the modelled one, if there is.
pub(super) fn settings(options: &Options, device: &str) -> Vec<(String, String)> {
    let options = &options.clone().in_effect();
    let size = |size: usize| units::bytes(size as u64);
    let set = |bytes: Option<usize>| size(bytes.unwrap_or_default());
    let level = |bytes: Option<u64>| bytes.map_or("by its entries".to_owned(), units::bytes);
    let min_separated = options.min_separated;
    let min_separated =
        min_separated.map_or("never".to_owned(), |least| format!("values of at least {least} B"));
    let tuning = &options.tuning;
    let memtables = tuning.memtables_max.unwrap_or_default();
    let open_tables = tuning.open_tables_max;
    let open_tables = open_tables.map_or("by their memory".to_owned(), |most| most.to_string());
    let settings = [
        ("preset", options.chosen_preset().to_string()),
        ("device", device.to_owned()),
        ("volumes", volumes(&options.volumes)),
        ("durability", format!("{:?}", options.durability).to_lowercase()),
        ("separation", min_separated),
        ("memory", size(options.memory_bytes)),
        ("memtables", format!("{} and {memtables} full", set(tuning.memtable_bytes))),
        ("log window", set(tuning.window_bytes)),
        ("log file", units::bytes(tuning.log_file_bytes)),
        ("cache", set(tuning.cache_bytes)),
        ("record cache", size(options.record_cache_bytes)),
        ("read-ahead", size(tuning.read_ahead_bytes)),
        ("table block", size(tuning.block_bytes)),
        ("table", units::bytes(tuning.table_bytes)),
        ("open tables", open_tables),
        ("compression", format!("{:?}", options.compression).to_lowercase()),
        ("filter", format!("{} bits a key", tuning.filter_bits)),
        (
            "level 0",
            format!("{:?}, {}", tuning.level0.unwrap_or_default(), level(tuning.level0_bytes)),
        ),
        ("level 1", level(tuning.level1_bytes)),
        ("space goal", format!("{} x live", options.space_amplification)),
        ("layout", options.layout().to_string()),
        ("tagging", tagging(options).to_owned()),
        ("background", format!("{:?}", options.background)),
        ("settled", "memtables flushed, no job due".to_owned()),
    ];
    let groups = groups(options).map(|groups| ("groups", groups));
    let named = |(name, value): (&str, String)| (name.to_owned(), value);
    settings.into_iter().chain(groups).map(named).collect()
}

/// The placement in words, without the paths of this machine.
fn volumes(volumes: &[Volume]) -> String {
    let classes = |volume: &Volume| {
        let names: Vec<_> = volume.classes.iter().map(|class| class.name()).collect();
        names.join(" and ")
    };
    let each: Vec<_> = volumes.iter().map(classes).collect();
    if each.is_empty() { "none".to_owned() } else { each.join("; ") }
}

/// The handling of cold values, in words.
fn tagging(options: &Options) -> &'static str {
    let tags = |groups: GroupLayout| groups.survivors == SurvivorRoute::Tagged;
    match (
        options.layout().groups.is_some_and(tags),
        options.tuning.groups.experiments.cold_log_counts,
    ) {
        (false, _) => "off",
        (true, true) => "on",
        (true, false) => "on, cold log without a limit",
    }
}

/// The grouping of values, if there is one, in words.
fn groups(options: &Options) -> Option<String> {
    let groups = &options.tuning.groups;
    let size = |bytes| units::bytes(bytes);
    let (capacity, main) = (size(groups.capacity_bytes), size(groups.main_segment_bytes));
    match options.layout().groups?.partition {
        Partition::Hash => Some(format!(
            "for {capacity}, segments of {main} and {}, {}% reserved, {:?}",
            size(groups.log_segment_bytes),
            groups.reserved_space * 100.0,
            groups.experiments.victim,
        )),
        _ if groups.experiments.one_at_first => Some(format!("one at first, of {main}")),
        Partition::Range | Partition::Prefix(_) => Some(format!("for {capacity}, of {main}")),
    }
}
