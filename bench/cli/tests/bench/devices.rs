//! `bench` on modelled devices, and on several disks.

use std::fs;

use crate::common::Home;

#[test]
fn bench_runs_on_a_modelled_device() {
    let home = Home::new();
    let load = ["bench", "--records", "500", "-w", "load,readrandom", "--results", "r"];
    let with = |device| [&load[..], &["--device", device]].concat();
    home.run(&[&with("nvme:50")[..], &["--option", "page-cache=0"]].concat()).ok();
    let results = std::fs::read_to_string(home.path("r")).unwrap();
    assert!(results.contains("modelled nvme, 50 times as fast, page cache 0 B"), "{results}");
    assert!(results.contains("modelled_bytes_written"), "{results}");
    home.run(&with("floppy")).fails(2, "hdd, sata, nvme");
}

#[test]
fn bench_runs_on_two_disks_real_ones_and_modelled() {
    let home = Home::new();
    let load = ["bench", "--records", "500", "-w", "load,readrandom", "--results", "r"];
    let real = ["--preset", "ohdb", "--place", "levels=ssd"];
    home.run(&[&real[..], &load].concat()).ok();
    let left: Vec<_> = fs::read_dir(home.path(".")).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "nothing but the results is left: {left:?}");
    home.run(&[&real[..], &load, &["--keep"]].concat()).ok();
    assert!(home.path("ssd/cleave-ohdb/volume").is_file());
    let modelled = ["--option", "place=levels", "--device", "hdd:50", "--device", "levels=nvme:50"];
    home.run(&[&load[..], &modelled].concat()).ok();
    home.run(&[&load[..], &["--option", "variant=c-high:50"]].concat()).ok();
    let results = fs::read_to_string(home.path("r")).unwrap();
    assert!(results.contains("modelled hdd, nvme for levels, 50 times as fast"), "{results}");
    assert!(results.contains("modelled hdd, sata for levels, 50 times as fast"), "{results}");
    assert!(results.contains("modelled_1_bytes_written"), "{results}");
    home.run(&[&load[..], &["--option", "place=tables"]].concat()).fails(2, "segments");
    home.run(&[&load[..], &["--option", "variant=a"]].concat()).fails(2, "c-high");
}
