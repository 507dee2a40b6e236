//! Options of every command.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use cleavedb::Preset;
use cleavedb_named::{self as named, NamedOption, space_limit};

use crate::durability::DurabilityName;
use crate::expiry;
use crate::placement::{self, Placement};

/// Title of the options that every command has.
pub const EVERY_COMMAND: &str = "Options of every command";

/// Arguments of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = EVERY_COMMAND)]
pub struct Global {
    /// Directory of the database
    #[arg(
        long,
        global = true,
        env = "CLEAVE_DB",
        default_value = "cleave.db",
        value_name = "PATH"
    )]
    pub db: PathBuf,
    /// Design of a new database, of the papers; not needed: cleave fits whatever it stores
    ///
    /// Of an existing database it is the tuning; the layout is that of its creation, until
    /// `migrate` changes it
    #[arg(
        long,
        global = true,
        value_parser = preset_parser(),
        ignore_case = true,
        value_name = "NAME"
    )]
    pub preset: Option<Preset>,
    /// Put files of a class (log, level0, levels, segments, groups, survivors, hot, blobs) on
    /// another disk
    ///
    /// DIR must be new or empty the first time. New files of CLASS are created there from then on,
    /// beyond CAPACITY in the database's own directory; existing files stay where they are. The
    /// database remembers it: other commands find DIR by themselves, unless its disk was mounted
    /// elsewhere. May be given several times. With bench, it applies to the database of the
    /// benchmark
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_parser = placement::parse,
        value_name = "CLASS[,CLASS]=DIR[:CAPACITY]"
    )]
    pub place: Vec<Placement>,
    /// Most bytes that the database may take on disk, in all its directories
    ///
    /// Writes are slowed before it, then dead data is collected, and if there is none left they
    /// fail; deletes and reads still work. Under a small limit MemTables, log files, segments and
    /// tables are made smaller. It is stored with the database from the next write on; `none` lifts
    /// it
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_parser = space_limit::parse,
        value_name = "BYTES"
    )]
    pub space_limit: Option<u64>,
    /// Set an option of the engine by its name in the library, as memory_bytes=256MiB
    ///
    /// Options of the layout (`layout.*`) are chosen when a database is created, and must be the
    /// same afterwards; all others apply to this command. `--with help` lists all of them. May be
    /// given several times; an argument of a command, such as --durability, goes before it. `bench`
    /// takes names of its own as well, by --option
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_parser = named_option,
        value_name = "NAME=VALUE"
    )]
    pub with: Vec<NamedOption>,
    /// Open the database although the end of its log is lost: the file `window` is missing, damaged
    /// or foreign
    ///
    /// The process that had the database open has died, and left the last writes in that file.
    /// Those that were not synced are lost, and their number is unknown; earlier writes, and those
    /// with `--durability sync`, are intact. If possible restore the file instead, from where the
    /// directory was copied. Needed until a command that writes was given it; nothing is lost if
    /// the window is intact
    #[arg(long, global = true, hide_short_help = true)]
    pub accept_lost_window: bool,
    /// How long to wait for a database that another process has open, as 500ms, 30s or 2m, before
    /// that is an error
    ///
    /// Of commands that need it for themselves, which are those that write. Others follow that
    /// process
    #[arg(
        long,
        global = true,
        value_parser = expiry::ttl,
        default_value = "0s",
        hide_default_value = true,
        value_name = "DURATION"
    )]
    pub wait: Duration,
    /// Print JSON: one object, or one a line; errors and notes too, on standard error
    #[arg(long = "json", id = "json_output", global = true)]
    pub json: bool,
    /// Keys and values are read and printed in hex
    #[arg(long, global = true)]
    pub hex: bool,
    /// No progress bars and no notes
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// Reads an option of the engine.
fn named_option(text: &str) -> Result<NamedOption, String> {
    named::parse(text).map_err(|why| format!("{why}; `--with help` lists all"))
}

impl Global {
    /// The global arguments with what writes survive by a command's own argument, if it is given.
    pub fn with_durability(&self, own: Option<DurabilityName>) -> Self {
        let mut global = self.clone();
        global.with.extend(own.map(|own| NamedOption::durability(own.into())));
        global
    }
}

/// The names of the presets.
fn preset_parser() -> impl TypedValueParser<Value = Preset> {
    PossibleValuesParser::new(Preset::ALL.map(Preset::name)).map(|name| {
        Preset::from_name(&name).expect("only the names of presets are possible values")
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use cleavedb::{Durability, Options};

    use super::*;
    use crate::store;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        global: Global,
    }

    /// A regression: `--with durability=os` was taken, and every write synced.
    #[test]
    fn writes_survive_what_the_command_says_or_else_what_its_options_say() {
        let os = ["cleave", "--with", "durability=os"];
        for (arguments, own, wanted) in [
            (&os[..1], None, Durability::Sync),
            (&os, None, Durability::Os),
            (&os, Some(DurabilityName::Buffered), Durability::Buffered),
            (&os[..1], Some(DurabilityName::Os), Durability::Os),
        ] {
            let global = Arguments::parse_from(arguments).global.with_durability(own);
            let options = store::options(&global, Options::default()).unwrap();
            assert_eq!(options.durability, wanted, "{arguments:?} {own:?}");
        }
    }
}
