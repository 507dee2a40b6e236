//! Every engine is measured on every feature that it has, at a tiny scale; what the benchmarks
//! check of their results is right.

use bench_peers::engines::ENGINES;
use bench_peers::settings::PeerArgs;
use clap::Parser;
use cleavedb_bench::engine::NOT_THERE;
use cleavedb_bench::features::{FEATURES, run};
use cleavedb_bench::scratch::Scratch;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    peer: PeerArgs,
}

/// The features of an engine, by its name; those that are not listed have none.
const HAVE: &[(&str, &[&str])] = &[
    (
        "rocksdb",
        &[
            "batches",
            "transactions",
            "conditional-writes",
            "merges",
            "cursors",
            "range-deletes",
            "expiry",
            "keyspaces",
            "bulk-loads",
            "compression",
        ],
    ),
    ("leveldb", &["batches", "cursors"]),
    (
        "fjall",
        &[
            "batches",
            "transactions",
            "conditional-writes",
            "keyspaces",
            "bulk-loads",
            "compression",
        ],
    ),
    ("redb", &["batches", "transactions", "conditional-writes", "keyspaces"]),
];

#[test]
fn every_engine_has_its_features_and_no_others() {
    let arguments = Arguments::parse_from(["test"]);
    for entry in ENGINES {
        let alike = entry.name.replace("blobdb", "rocksdb").replace("-separated", "");
        let have = HAVE.iter().find(|(name, _)| *name == alike).map_or(&[][..], |(_, have)| have);
        for feature in FEATURES {
            let home = tempfile::tempdir().unwrap();
            let scratch = Scratch::claim(&home.path().join("data")).unwrap();
            let opener = entry.opener(&arguments.peer).unwrap();
            let asked = format!("{}/1000", feature.name).parse().unwrap();
            let what = format!("{} of {}", feature.name, entry.name);
            match run(asked, opener.as_ref(), &scratch, 1) {
                Ok(_) => assert!(have.contains(&feature.name), "{what} is there"),
                Err(error) => {
                    assert!(!have.contains(&feature.name), "{what}: {error}");
                    assert!(error.to_string().ends_with(NOT_THERE), "{what}: {error}");
                }
            }
        }
    }
}
