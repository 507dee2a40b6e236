//! One value of an option, wherever it was told.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A value of an option, as some place tells it.
pub struct Setting {
    /// The place, which errors name.
    pub place: String,
    /// The name of the option, with hyphens.
    pub name: String,
    /// The value.
    pub value: OsString,
}

impl Setting {
    /// The option as an argument of the command line.
    pub fn argument(&self) -> OsString {
        let mut argument = OsString::from(format!("--{}=", self.name));
        argument.push(&self.value);
        argument
    }

    /// Refuses what is no option, or no value of it.
    pub fn check(&self, command: &Command) -> Result<(), String> {
        let Self { place, name, .. } = self;
        let program = OsString::from(command.get_name());
        let Err(error) = command.clone().try_get_matches_from([program, self.argument()]) else {
            return Ok(());
        };
        if error.kind() == ErrorKind::UnknownArgument {
            let nearest = match error.get(ContextKind::SuggestedArg) {
                Some(ContextValue::String(nearest)) => {
                    format!("; {} is nearest", nearest.trim_start_matches('-').replace('-', "_"))
                }
                _ => String::new(),
            };
            return Err(format!("{place}: there is no option {}{nearest}", name.replace('-', "_")));
        }
        let text = error.to_string();
        let told = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
        let told: Vec<_> = told.lines().map(str::trim).collect();
        Err(format!("{place}: {}", told.join(" ")))
    }
}
