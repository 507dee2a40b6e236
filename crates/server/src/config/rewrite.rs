//! `CONFIG REWRITE`: the file of options gets those that have changed since the start.

use std::path::Path;

use toml_edit::{DocumentMut, Item, Value};

use super::Config;
use crate::files;

/// Writes the options that have changed into the file that they came from, where everything else
/// stays as it is. The new file takes the place of the old one as a whole. Fails without a file.
pub fn rewrite(config: &Config) -> Result<(), String> {
    let path = config.file.as_deref().ok_or("The server is running without a config file")?;
    written(path, config).map_err(|why| format!("Rewriting config file: {why}"))
}

fn written(path: &Path, config: &Config) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut document: DocumentMut = text.parse().map_err(|_| "the file is no TOML any more")?;
    for (name, value) in &config.changed {
        let hyphens = name.replace('_', "-");
        if hyphens != *name {
            document.remove(&hyphens);
        }
        match document.get_mut(name).and_then(Item::as_value_mut) {
            Some(there) => {
                let decor = there.decor().clone();
                *there = toml(value);
                *there.decor_mut() = decor;
            }
            None => _ = document.insert(name, Item::Value(toml(value))),
        }
    }
    files::replace(path, document.to_string().as_bytes()).map_err(|error| error.to_string())
}

/// A number, or a text, as what begins with a zero or a sign is: it may be a password.
fn toml(value: &str) -> Value {
    let number = value.parse::<i64>().ok().filter(|number| number.to_string() == value);
    number.map_or_else(|| value.into(), Value::from)
}
