//! Options of the engine by their names in the library, as text: `memory_bytes=64MiB`; and what
//! the engine decides where none is set, in words.
//!
//! A crate of its own, because the command line and the libraries for other languages, none of
//! which depends on another, take the same names and values.

#![forbid(unsafe_code)]

pub mod decisions;
pub mod level0;
pub mod space_limit;
mod values;
pub mod keyspace;
mod table;

use std::ffi::OsString;

use cleavedb::{Durability, Options, Preset};

use self::table::OPTIONS;
#[cfg(feature = "experiments")]
pub use self::values::victim_policy;
pub use self::values::{size, ttl, value_compression};

/// A valid option and its value.
#[derive(Clone, Debug)]
pub struct NamedOption {
    name: &'static str,
    value: String,
}

impl NamedOption {
    /// What writes survive.
    pub fn durability(durability: Durability) -> Self {
        let value = match durability {
            Durability::Buffered => "buffered",
            Durability::Os => "os",
            Durability::Sync => "sync",
        };
        Self { name: "durability", value: value.to_owned() }
    }
}

/// Reads `NAME=VALUE`; a hyphen in the name stands for an underscore.
pub fn parse(text: &str) -> Result<NamedOption, String> {
    let (name, value) = text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
    let spelled = name.replace('-', "_");
    let known = OPTIONS.iter().find(|(known, ..)| *known == spelled);
    let (name, takes, _, _, set) = known.ok_or_else(|| unknown(&spelled))?;
    let value = value.ok_or_else(|| format!("{name} has no value; it takes {takes}"))?;
    // On a layout for which all options are valid. The process looks at its memory once, and a
    // benchmark limits that only after its arguments are read.
    let mut tried = Options { preset: Some(Preset::HashKv), ..Options::of_memory(0) };
    set(&mut tried, value).map_err(|why| format!("{why}; {name} takes {takes}"))?;
    Ok(NamedOption { name, value: value.to_owned() })
}

/// From which likeness on, of 1, a name is taken for a slip of another one.
const LIKE: f64 = 0.8;

/// Says that there is no such option, and which one may be meant.
fn unknown(name: &str) -> String {
    let likeness = |known: &str| {
        let own = known.rsplit('.').next().unwrap_or(known);
        strsim::jaro_winkler(name, known).max(strsim::jaro_winkler(name, own))
    };
    let names = OPTIONS.iter().map(|(known, ..)| *known);
    let nearest = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let nearest = nearest.filter(|known| likeness(known) >= LIKE);
    let nearest = nearest.map_or(String::new(), |known| format!("; {known} is nearest"));
    format!("there is no option {name}{nearest}")
}

/// Whether these arguments of the program ask for the list of options.
pub fn asks_for_list(arguments: impl Iterator<Item = OsString>) -> bool {
    let own = arguments.take_while(|argument| argument != "--").collect::<Vec<_>>();
    own.iter().any(|argument| argument == "--with=help")
        || own.windows(2).any(|pair| pair[0] == "--with" && pair[1] == "help")
}

/// All options, with their values, defaults, and what they are.
pub fn list() -> String {
    let lines = OPTIONS.iter().map(|(name, takes, default, what, _)| {
        format!("{name}: {takes} [default: {default}]\n    {what}\n")
    });
    lines.collect()
}

/// Sets options, those of the layout first.
pub fn set(options: &mut Options, named: &[NamedOption]) -> Result<(), String> {
    for (name, takes, _, _, set) in OPTIONS {
        for option in named.iter().filter(|option| option.name == *name) {
            set(options, &option.value)
                .map_err(|why| format!("{name}={}: {why}; it takes {takes}", option.value))?;
        }
    }
    Ok(())
}

/// Whether there is an option of this name, `preset` among them.
pub fn is_known(name: &str) -> bool {
    name == PRESET || OPTIONS.iter().any(|(known, ..)| *known == name)
}

const PRESET: &str = "preset";

/// The options of one text, with white space or commas between them.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty())
}

/// The options that all these texts set, `preset=hashkv` among them, over the defaults.
pub fn options<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Options, String> {
    let (mut options, mut others) = (Options::default(), Vec::new());
    for text in texts {
        match text.split_once('=') {
            Some((PRESET, name)) => {
                let names = || Preset::ALL.map(Preset::name).join(", ");
                let unknown = || format!("there is no preset {name}; there are {}", names());
                options.preset = Some(Preset::from_name(name).ok_or_else(unknown)?);
            }
            _ => others.push(parse(text)?),
        }
    }
    set(&mut options, &others)?;
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::{OPTIONS, list, parse, set};
    use cleavedb::{Durability, Options, Preset};

    /// Valid values of each option.
    const VALUES: [&str; 14] = [
        "sync",
        "true",
        "64MiB",
        "2",
        "1.5",
        "lz4",
        "whole",
        "none",
        "greedy",
        "hash",
        "value-store",
        "tagged",
        "12h",
        "9",
    ];

    #[test]
    fn every_option_takes_some_value_and_refuses_others() {
        for (name, takes, ..) in OPTIONS {
            let takes_it = |value: &&str| {
                let named = parse(&format!("{name}={value}"));
                named.is_ok_and(|named| {
                    set(&mut Options::preset(Preset::HashKv), &[named]).unwrap();
                    true
                })
            };
            let taken = VALUES.iter().filter(|value| takes_it(value)).count();
            assert!((1..VALUES.len()).contains(&taken), "{name} takes {takes}");
            assert!(parse(name).unwrap_err().contains(takes));
        }
        for (wrong, nearest) in [
            ("cache=1", "cache_bytes"),
            ("memroy_bytes=1", "memory_bytes"),
            ("hot_byte=1", "hot_bytes"),
            ("compresion=lz4", "compression"),
        ] {
            let told = parse(wrong).unwrap_err();
            assert!(told.contains(&format!("; {nearest} is nearest")), "{told}");
        }
        let told = parse("foo=1").unwrap_err();
        assert_eq!(told, "there is no option foo", "nothing is near");
        let hyphens = parse("record-cache-bytes=1MiB").unwrap();
        let mut options = Options::default();
        set(&mut options, &[hyphens]).unwrap();
        assert_eq!(options.record_cache_bytes, 1 << 20);
    }

    #[test]
    fn a_preset_is_an_option_of_a_text() {
        let options = |texts: &[&str]| super::options(texts.iter().copied());
        let both = options(&["durability=os", "preset=hashkv"]).unwrap();
        assert_eq!((both.preset, both.durability), (Some(Preset::HashKv), Durability::Os));
        assert!(options(&["preset=best"]).unwrap_err().contains("there are"));
        assert!(options(&["colour=red"]).is_err() && !super::is_known("colour"));
    }

    /// A default that is a value is the default of the library, and each option has a line of its
    /// own.
    #[test]
    fn defaults_are_those_of_the_library() {
        let usual = format!("{:?}", Options::default());
        for (name, _, default, what, _) in OPTIONS {
            if let Ok(named) = parse(&format!("{name}={default}")) {
                let mut options = Options::default();
                set(&mut options, &[named]).unwrap();
                assert_eq!(format!("{options:?}"), usual, "{name}");
            } else {
                let words = [
                    "of the preset",
                    "from memory_bytes",
                    "as stored",
                    "by room",
                    "at most 768MiB",
                ];
                assert!(words.contains(default) || *default == "no limit", "{name}: {default}");
            }
            assert!(list().contains(&format!("[default: {default}]\n    {what}\n")), "{name}");
        }
        assert!(list().lines().all(|line| line.len() <= 80), "{}", list());
    }

    /// Every field of the options has a name, and no other names exist.
    #[test]
    fn every_field_has_a_name() {
        let options = format!("{:#?}", Options::preset(Preset::HashKv).in_effect());
        let fields = options.lines().filter_map(|line| line.trim().split_once(": "));
        let elsewhere = [
            "preset",
            "layout",
            "groups",
            "partition",
            "volumes",
            "time",
            "filter",
            "merge_operators",
            "listeners",
            "resources",
            "tuning",
            "more",
        ];
        for (field, _) in fields.filter(|(field, _)| !elsewhere.contains(field)) {
            let named = |name: &str| name.rsplit('.').next() == Some(field);
            assert!(OPTIONS.iter().any(|(name, ..)| named(name)), "{field}");
        }
    }
}
