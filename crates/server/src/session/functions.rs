//! Commands about libraries of functions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::command::args::{is, showing, wrong_subcommand};
use crate::command::help::{self, help};
use crate::command::{dump, glob};
use crate::exec::{Answer, Halt};
use crate::resp::reply::Reply;
use crate::script::{Library, LibrarySet};
use crate::shared::ServerShared;

/// How long a library may take to register its functions.
const LOAD_TIME: Duration = Duration::from_millis(500);

fn bulk(text: impl AsRef<[u8]>) -> Reply {
    Reply::Bulk(text.as_ref().to_vec().into())
}

fn error(why: impl AsRef<[u8]>) -> Halt {
    Halt::error([b"ERR ", why.as_ref()].concat())
}

/// The commands about libraries, by their names.
pub(super) fn about(shared: &ServerShared, name: &str, args: &[&[u8]]) -> Answer {
    match name {
        "function|load" => load(shared, args),
        "function|delete" => {
            let is_there = |set: &mut LibrarySet| {
                let name = str::from_utf8(args[2]).unwrap_or_default();
                if set.remove(name) { Ok(()) } else { Err(error("Library not found")) }
            };
            change(shared, is_there)
        }
        "function|flush" => match &args[2..] {
            [] => Ok(()),
            [word] if is(word, "SYNC") || is(word, "ASYNC") => Ok(()),
            [_] => Err(error("FUNCTION FLUSH only supports SYNC|ASYNC option")),
            _ => Err(wrong_subcommand(args)),
        }
        .and_then(|()| {
            change(shared, |set| {
                *set = LibrarySet::default();
                Ok(())
            })
        }),
        "function|dump" => Ok(bulk(dumped(&shared.libraries.now()))),
        "function|restore" => restore(shared, args),
        "function|list" => list(&shared.libraries.now(), &args[2..]),
        "function|stats" => Ok(stats(shared)),
        "function|kill" if shared.libraries.running.kill() => Ok(Reply::OK),
        "function|kill" => Err(Halt::error("NOTBUSY No scripts in execution right now.")),
        _ => Ok(help(help::FUNCTION)),
    }
}

fn dumped(set: &LibrarySet) -> Vec<u8> {
    dump::of_libraries(set.all().map(|library| &*library.text))
}

/// Changes the libraries, and has the store keep them.
fn change(shared: &ServerShared, change: impl FnOnce(&mut LibrarySet) -> Answer<()>) -> Answer {
    let keep = |set: &LibrarySet| shared.store.keep_libraries(&dumped(set));
    shared.libraries.change(change, keep).map(|()| Reply::OK)
}

/// `FUNCTION LOAD [REPLACE] text`
fn load(shared: &ServerShared, args: &[&[u8]]) -> Answer {
    let (text, options) = args[2..].split_last().ok_or_else(|| wrong_subcommand(args))?;
    if let Some(other) = options.iter().find(|word| !is(word, "REPLACE")) {
        return Err(showing("ERR Unknown option given: ", other, ""));
    }
    let library = Library::of(text, Some(Instant::now() + LOAD_TIME)).map_err(error)?;
    let (name, replaces) = (library.name.clone(), !options.is_empty());
    change(shared, |set| match set.has(&library.name) && !replaces {
        true => Err(error(format!("Library '{}' already exists", library.name))),
        false => set.add(Arc::new(library)).map_err(error),
    })?;
    Ok(bulk(name))
}

/// The libraries of a dump, or what is wrong with it; each is loaded for at most some time, if that
/// is given.
fn of_dump(dump: &[u8], time: Option<Duration>) -> Result<LibrarySet, Vec<u8>> {
    let mut set = LibrarySet::default();
    for text in dump::libraries(dump)? {
        let library = Library::of(&text, time.map(|time| Instant::now() + time))?;
        if set.has(&library.name) {
            return Err(format!("Library '{}' already exists", library.name).into());
        }
        set.add(Arc::new(library))?;
    }
    Ok(set)
}

/// Loads the libraries that the store keeps, however long that takes.
pub fn load_libraries(shared: &ServerShared) -> Result<(), String> {
    let Some(kept) = shared.store.libraries().map_err(|error| error.to_string())? else {
        return Ok(());
    };
    let loaded = of_dump(&kept, None).map_err(|why| {
        let why = String::from_utf8_lossy(&why);
        format!("the libraries of functions that the store keeps: {why}")
    })?;
    shared.libraries.change(
        |set| {
            *set = loaded;
            Ok(())
        },
        |_| Ok(()),
    )
}

/// `FUNCTION RESTORE dump [FLUSH | APPEND | REPLACE]`
fn restore(shared: &ServerShared, args: &[&[u8]]) -> Answer {
    let (flushes, replaces) = match &args[3..] {
        [] => (false, false),
        [word] if is(word, "APPEND") => (false, false),
        [word] if is(word, "REPLACE") => (false, true),
        [word] if is(word, "FLUSH") => (true, true),
        [_] => {
            return Err(error(
                "Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
        _ => return Err(wrong_subcommand(args)),
    };
    let restored = of_dump(args[2], Some(LOAD_TIME)).map_err(error)?;
    change(shared, |set| {
        if flushes {
            *set = LibrarySet::default();
        }
        let known = restored.all().find(|it| !replaces && set.has(&it.name));
        if let Some(known) = known {
            return Err(error(format!("Library {} already exists", known.name)));
        }
        // What is replaced goes first, since functions may have changed places.
        restored.all().for_each(|library| _ = set.remove(&library.name));
        restored.all().try_for_each(|it| set.add(it.clone())).map_err(error)
    })
}

/// `FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]`
fn list(set: &LibrarySet, words: &[&[u8]]) -> Answer {
    let (mut pattern, mut with_code, mut words) = (None, false, words);
    while let [word, rest @ ..] = words {
        words = match rest {
            _ if is(word, "WITHCODE") && !with_code => {
                with_code = true;
                rest
            }
            [given, rest @ ..] if is(word, "LIBRARYNAME") && pattern.is_none() => {
                pattern = Some(given.to_ascii_lowercase());
                rest
            }
            [] if is(word, "LIBRARYNAME") && pattern.is_none() => {
                return Err(error("library name argument was not given"));
            }
            _ => return Err(showing("ERR Unknown argument ", word, "")),
        };
    }
    let is_wanted = |library: &&Arc<Library>| {
        let name = library.name.to_ascii_lowercase();
        pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, name.as_bytes()))
    };
    let told = set.all().filter(is_wanted).map(|library| {
        let functions = library.functions.iter().map(|function| {
            let flags = function.flags.iter().map(|flag| Reply::Line(flag.clone().into()));
            Reply::Map(vec![
                (bulk("name"), bulk(&function.name)),
                (bulk("description"), function.description.as_ref().map_or(Reply::Nil, bulk)),
                (bulk("flags"), Reply::Set(flags.collect())),
            ])
        });
        let mut told = vec![
            (bulk("library_name"), bulk(&library.name)),
            (bulk("engine"), bulk("LUA")),
            (bulk("functions"), Reply::Array(functions.collect())),
        ];
        if with_code {
            told.push((bulk("library_code"), Reply::Bulk(library.text.clone())));
        }
        Reply::Map(told)
    });
    Ok(Reply::Array(told.collect()))
}

/// `FUNCTION STATS`: the function that has run for longest, and how many there are.
fn stats(shared: &ServerShared) -> Reply {
    let running = shared.libraries.running.first().map_or(Reply::Nil, |call| {
        let millis = call.begun.elapsed().as_millis() as i64;
        let words = call.words.iter().map(bulk).collect();
        Reply::Map(vec![
            (bulk("name"), call.words.get(1).map_or(Reply::Nil, bulk)),
            (bulk("command"), Reply::Array(words)),
            (bulk("duration_ms"), Reply::Integer(millis)),
        ])
    });
    let (libraries, functions) = shared.libraries.now().counts();
    let counts = Reply::Map(vec![
        (bulk("libraries_count"), Reply::Integer(libraries as i64)),
        (bulk("functions_count"), Reply::Integer(functions as i64)),
    ]);
    let engines = Reply::Map(vec![(bulk("LUA"), counts)]);
    Reply::Map(vec![(bulk("running_script"), running), (bulk("engines"), engines)])
}
