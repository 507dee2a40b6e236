//! Drawn texts of options: none makes a panic, and what is read means one thing.

use std::slice::from_ref;
use std::time::Duration;

use cleavedb::{KeyspaceOptions, Options, Preset, ValueCompression};
use cleavedb_named::{keyspace, list, options, parse, set, words};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Names of all options, and of those that are elsewhere.
fn names() -> Vec<String> {
    let listed = list();
    let names = listed.lines().filter(|line| !line.starts_with(' '));
    let names = names.filter_map(|line| line.split_once(':').map(|(name, _)| name.to_owned()));
    names.chain(["preset", "ttl", "min_separated", "compression"].map(String::from)).collect()
}

/// Values that are names.
const KNOWN: [&str; 8] =
    ["hashkv", "os", "true", "none", "lz4", "hash", "value-store", "partitions:7"];

/// Values that look like those of options, and some that do not.
fn values() -> impl Strategy<Value = String> {
    prop_oneof![
        "[-+0-9._]{1,22} ?(|k|M|GiB|ms|h|days)",
        "[0-9]{1,3}(|KiB|MiB|h|days)",
        select(&KNOWN[..]).prop_map(str::to_owned),
        any::<String>(),
    ]
}

/// What a time to live in milliseconds stays below: 557 years.
const MILLIS_MAX: u64 = 1 << 44;

fn texts() -> impl Strategy<Value = String> {
    (select(names()), values()).prop_map(|(name, value)| format!("{name}={value}"))
}

proptest! {
    #[test]
    fn no_text_makes_a_panic(drawn in any::<String>(), value in values()) {
        let texts = names().into_iter().map(|name| format!("{name}={value}"));
        for text in texts.chain([drawn]) {
            let _ = parse(&text);
            let _ = options(words(&text));
            let _ = keyspace::options(words(&text));
        }
    }

    #[test]
    fn an_option_that_is_read_is_set_alike_each_time(value in values()) {
        for option in names().iter().filter_map(|name| parse(&format!("{name}={value}")).ok()) {
            let mut once = Options::preset(Preset::HashKv);
            set(&mut once, from_ref(&option)).unwrap();
            let mut twice = once.clone();
            set(&mut twice, from_ref(&option)).unwrap();
            assert_eq!(format!("{once:?}"), format!("{twice:?}"));
        }
    }

    #[test]
    fn words_are_the_same_options_whatever_is_between_them(
        all in vec((texts(), select(&[" ", ",", "\n", " ,\t "][..])), 0..5),
    ) {
        let one: String = all.iter().flat_map(|(text, between)| [text, *between]).collect();
        let each = all.iter().flat_map(|(text, _)| words(text));
        assert_eq!(format!("{:?}", options(words(&one))), format!("{:?}", options(each)));
    }

    #[test]
    fn options_of_a_keyspace_are_read_as_they_are_written(
        min_separated in option::of(any::<usize>()),
        millis in option::of(0..MILLIS_MAX),
        compression in option::of(select(&ValueCompression::ALL[..])),
    ) {
        let written = [
            min_separated.map(|least| format!("min_separated={least}")),
            millis.map(|millis| format!("ttl={millis}ms")),
            compression.map(|(name, _)| format!("compression={name}")),
        ];
        let ttl = millis.map(Duration::from_millis);
        let compression = compression.map(|(_, compression)| compression);
        let read = keyspace::options(written.iter().flatten().map(String::as_str));
        assert_eq!(read, Ok(KeyspaceOptions { min_separated, ttl, compression }));
    }
}
