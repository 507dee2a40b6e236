//! Links the system's LevelDB, and tells the source which versions of the others are locked.
//!
//! LevelDB is linked as an archive: its shared library hides the switch for mapped reads.

use std::env;
use std::fs;

/// Crates whose version is a setting, and the variables that the source reads it from.
const VERSIONS: [(&str, &str); 3] =
    [("librocksdb-sys", "ROCKSDB_VERSION"), ("fjall", "FJALL_VERSION"), ("redb", "REDB_VERSION")];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../Cargo.lock");
    if env::var_os("CARGO_FEATURE_LEVELDB").is_some() {
        for library in ["-l:libleveldb.a", "-lsnappy", "-lstdc++"] {
            println!("cargo::rustc-link-arg={library}");
        }
    }
    let lock = fs::read_to_string("../Cargo.lock").unwrap_or_default();
    for (name, variable) in VERSIONS {
        let version = version(&lock, name).unwrap_or("unknown");
        // A crate that wraps a library of another version has that one behind the plus sign.
        let version = version.rsplit_once('+').map_or(version, |(_, wrapped)| wrapped);
        println!("cargo::rustc-env={variable}={version}");
    }
}

/// The version of the package `name`: the line behind the one that names it.
fn version<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
    rest.split('"').next()
}
