//! Where options come from: a redis.conf, a file, the environment, and above all the command line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};
use toml_edit::{DocumentMut, TableLike, Value};

use super::setting::Setting;
use super::{Config, redis_conf};

/// Options that no file tells.
const NOT_IN_FILES: [&str; 6] =
    ["config", "redis-config", "check-config", "health", "help", "version"];

/// The option of the store's options, and their table in a file.
const STORE_OPTION: &str = "with";
pub(super) const STORE_TABLE: &str = "store";

/// What is not shown.
const SECRET: &str = "requirepass";

impl Config {
    /// Reads the options of a program's arguments, of which the first is its name, of the
    /// environment, and of the files that both name. The error of clap ends a program as is usual,
    /// and may be a request for help.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let command = Self::command();
        let refuse = |why: String| command.clone().error(ErrorKind::ValueValidation, why);
        let mut arguments: Vec<OsString> = arguments.into_iter().collect();
        let of_line = command.clone().try_get_matches_from(&arguments)?;
        let environment = environment(&command);
        let path = |name: &str, id: &str| {
            let told = environment.iter().find(|setting| setting.name == name);
            let of_line = of_line.get_one::<std::path::PathBuf>(id).cloned();
            of_line.or_else(|| told.map(|setting| setting.value.clone().into()))
        };
        let (mut notes, mut layers) = (Vec::new(), Vec::new());
        if let Some(path) = path("redis-config", "redis_config") {
            let text = text(&path).map_err(refuse)?;
            layers.push(redis_conf::settings(&path, &text, &mut notes).map_err(refuse)?);
        }
        if let Some(path) = path("config", "file") {
            layers.push(text(&path).and_then(|text| of_file(&path, &text)).map_err(refuse)?);
        }
        layers.push(environment);
        let mut told = Vec::new();
        for (at, layer) in layers.iter().enumerate() {
            for setting in layer {
                setting.check(&command).map_err(refuse)?;
                let above = layers[at + 1..].iter().flatten();
                let mut above = above.map(|other| &other.name);
                let is_last = !above.any(|name| *name == setting.name)
                    && !is_of_line(&command, &of_line, &setting.name);
                if is_last || setting.name == STORE_OPTION {
                    told.push(setting.argument());
                }
            }
        }
        arguments.splice(1..1, told);
        let matches = command.clone().try_get_matches_from(arguments)?;
        let mut config = Self::from_arg_matches(&matches)?;
        config.store_options().map_err(refuse)?;
        // As in Redis, a password without a letter is none.
        config.requirepass.take_if(|password| password.is_empty());
        (config.notes, config.holds) = (notes, holds(&command, &matches));
        Ok(config)
    }
}

/// Whether the command line has an option.
fn is_of_line(command: &Command, matches: &ArgMatches, name: &str) -> bool {
    let argument = command.get_arguments().find(|argument| argument.get_long() == Some(name));
    argument.is_some_and(|argument| {
        matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine)
    })
}

/// The content of a file.
fn text(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// What the environment tells; a value without bytes is none.
fn environment(command: &Command) -> Vec<Setting> {
    let names = command.get_arguments().filter_map(|argument| argument.get_long());
    let told = names.filter_map(|name| {
        let place = format!("CLEAVE_{}", name.to_ascii_uppercase().replace('-', "_"));
        let value = std::env::var_os(&place).filter(|value| !value.is_empty())?;
        Some(Setting { place, name: name.to_owned(), value })
    });
    told.collect()
}

/// What a file of TOML tells.
fn of_file(path: &Path, text: &str) -> Result<Vec<Setting>, String> {
    let parsed = text.parse::<DocumentMut>();
    let document = parsed.map_err(|error| format!("{}: {error}", path.display()))?;
    let mut settings = Vec::new();
    for (key, item) in document.iter() {
        match item.as_table_like() {
            Some(table) if key == STORE_TABLE => of_store(path, "", table, &mut settings)?,
            Some(table) => {
                for (within, item) in table.iter() {
                    of_item(path, &format!("{key}-{within}"), item.as_value(), &mut settings)?;
                }
            }
            None => of_item(path, key, item.as_value(), &mut settings)?,
        }
    }
    Ok(settings)
}

/// Adds an option of a file: one value, or an array of them.
fn of_item(
    path: &Path,
    name: &str,
    value: Option<&Value>,
    settings: &mut Vec<Setting>,
) -> Result<(), String> {
    let (place, name) = (format!("{}: {name}", path.display()), name.replace('_', "-"));
    if NOT_IN_FILES.contains(&&*name) {
        return Err(format!("{place} is for the command line"));
    }
    let value = value.ok_or_else(|| format!("{place} has options in options"))?;
    let one = std::slice::from_ref(value);
    let values: Vec<&Value> =
        value.as_array().map_or(one.iter().collect(), |array| array.iter().collect());
    settings.extend(values.into_iter().map(|value| Setting {
        place: place.clone(),
        name: name.clone(),
        value: plain(value).into(),
    }));
    Ok(())
}

/// Adds the options of the store, whose names may have points.
fn of_store(
    path: &Path,
    before: &str,
    table: &dyn TableLike,
    settings: &mut Vec<Setting>,
) -> Result<(), String> {
    for (key, item) in table.iter() {
        let name = format!("{before}{key}");
        if let Some(table) = item.as_table_like() {
            of_store(path, &format!("{name}."), table, settings)?;
            continue;
        }
        let place = format!("{}: [{STORE_TABLE}] {name}", path.display());
        let value = item.as_value().map(plain).unwrap_or_default();
        let text = format!("{name}={value}");
        cleavedb_named::options([&*text]).map_err(|why| format!("{place}: {why}"))?;
        settings.push(Setting { place, name: STORE_OPTION.to_owned(), value: text.into() });
    }
    Ok(())
}

/// A value as the command line has it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.value().clone(),
        Value::Integer(number) => number.value().to_string(),
        other => other.clone().decorated("", "").to_string(),
    }
}

/// The options that hold, as lines of a file.
fn holds(command: &Command, matches: &ArgMatches) -> String {
    let (mut lines, mut of_store) = (String::new(), BTreeMap::new());
    for argument in command.get_arguments() {
        let (Some(name), id) = (argument.get_long(), argument.get_id().as_str()) else { continue };
        let Some(raw) = matches.get_raw(id).filter(|_| !NOT_IN_FILES.contains(&name)) else {
            continue;
        };
        let raw: Vec<_> = raw.map(|value| value.to_string_lossy()).collect();
        if raw.iter().all(|value| value.is_empty()) {
            continue;
        }
        if name == STORE_OPTION {
            let pairs = raw.iter().filter_map(|text| text.split_once('='));
            of_store.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
            continue;
        }
        let value = match &raw[..] {
            _ if name == SECRET => Value::from("..."),
            [one] => Value::from(&**one),
            several => several.iter().map(|one| Value::from(&**one)).collect(),
        };
        let _ = writeln!(lines, "{} = {value}", name.replace('-', "_"));
    }
    if !of_store.is_empty() {
        let _ = writeln!(lines, "[{STORE_TABLE}]");
    }
    for (name, value) in of_store {
        let _ = writeln!(lines, "{name} = {}", Value::from(value));
    }
    lines
}
