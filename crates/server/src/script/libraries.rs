//! Libraries of functions, which `FUNCTION LOAD` names and the store keeps.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;

use super::cache::Script;
use super::digest::sha1_hex;
use super::engine::{self, Registered, ScriptLimits};
use super::register::{FLAGS, NO_NAME, is_name};
use super::running::RunningScripts;
use super::values::MEMORY_MAX;
use crate::resp::inline;

/// Most bytes of all libraries.
const BYTES_MAX: usize = 32 << 20;

/// A library.
pub struct Library {
    /// The name of the library.
    pub name: String,
    /// The whole text.
    pub text: Bytes,
    /// What it says of its functions, in the order of their names.
    pub functions: Vec<Registered>,
    scripts: Vec<Arc<Script>>,
}

impl Library {
    /// The library of a text, which is loaded until a time, or what is wrong with that.
    pub fn of(text: &[u8], until: Option<Instant>) -> Result<Self, Vec<u8>> {
        let (name, code) = named(text)?;
        let functions = engine::registered(code, ScriptLimits { until, memory: MEMORY_MAX })?;
        if functions.is_empty() {
            return Err(b"No functions registered".into());
        }
        let (sha, code) = (sha1_hex(text), Bytes::copy_from_slice(code));
        let script = |function: &Registered| {
            let writes_nothing = function.flags.iter().any(|flag| flag == FLAGS[0]);
            let name = Some(function.name.clone());
            Arc::new(Script::new(sha.clone(), code.clone(), name, Some(writes_nothing)))
        };
        let scripts = functions.iter().map(script).collect();
        Ok(Self { name, text: Bytes::copy_from_slice(text), functions, scripts })
    }
}

/// The name of a library, and its code without the line that has it, whose line break stays.
fn named(text: &[u8]) -> Result<(String, &[u8]), Vec<u8>> {
    let line = text.strip_prefix(b"#!").ok_or("Missing library metadata")?;
    let end = line.iter().position(|byte| *byte == b'\n').ok_or("Invalid library metadata")?;
    let (line, code) = line.split_at(end);
    let words = inline::words(&[b"#!", line].concat()).ok_or("Invalid library metadata")?;
    let mut name = None;
    for word in &words[1..] {
        let given = word.split_at_checked(5).filter(|(key, _)| key.eq_ignore_ascii_case(b"name="));
        match given {
            None => return Err([b"Invalid metadata value given: ", &word[..]].concat()),
            Some(_) if name.is_some() => {
                let why = "Invalid metadata value, name argument was given multiple times";
                return Err(why.into());
            }
            Some((_, value)) => name = Some(value),
        }
    }
    let name = name.ok_or("Library name was not given")?;
    let known = str::from_utf8(name).ok().filter(|name| is_name(name.as_bytes())).ok_or(NO_NAME)?;
    let engine = &words[0][2..];
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err([b"Engine '", engine, b"' not found"].concat());
    }
    Ok((known.to_owned(), code))
}

/// Libraries by their names, and their functions by theirs, in small letters.
#[derive(Clone, Default)]
pub struct LibrarySet {
    by_name: BTreeMap<String, Arc<Library>>,
    functions: HashMap<String, Arc<Script>>,
    /// Bytes of all texts.
    bytes: usize,
}

impl LibrarySet {
    /// All libraries, in the order of their names.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// Number of libraries, and of their functions.
    pub fn counts(&self) -> (usize, usize) {
        (self.by_name.len(), self.all().map(|library| library.functions.len()).sum())
    }

    /// The function of a name, whose letters may be capitals.
    pub fn function(&self, name: &[u8]) -> Option<Arc<Script>> {
        let name = str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.functions.get(&name).cloned()
    }

    /// Whether there is a library of a name.
    pub fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Removes a library. Returns whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(library) = self.by_name.remove(name) else { return false };
        self.bytes -= library.text.len();
        for name in library.scripts.iter().filter_map(|script| script.function.as_ref()) {
            self.functions.remove(&name.to_ascii_lowercase());
        }
        true
    }

    /// Adds a library in place of one with its name; an error if another one has its functions.
    pub fn add(&mut self, library: Arc<Library>) -> Result<(), String> {
        self.remove(&library.name);
        for script in &library.scripts {
            let Some(name) = &script.function else { continue };
            // A library may have two functions whose names differ in capitals alone.
            let known = self.functions.entry(name.to_ascii_lowercase()).or_insert(script.clone());
            if !library.scripts.iter().any(|it| Arc::ptr_eq(it, known)) {
                return Err(format!("Function {name} already exists"));
            }
        }
        self.bytes += library.text.len();
        self.by_name.insert(library.name.clone(), library);
        if self.bytes > BYTES_MAX {
            return Err("the libraries would have more than 32 MiB".to_owned());
        }
        Ok(())
    }
}

/// The libraries of a server.
#[derive(Default)]
pub struct Libraries {
    set: ArcSwap<LibrarySet>,
    /// Held by those that change the set.
    changes: Mutex<()>,
    /// Functions that run.
    pub running: RunningScripts,
}

impl Libraries {
    /// The libraries as they are now.
    pub fn now(&self) -> Arc<LibrarySet> {
        self.set.load_full()
    }

    /// Changes the libraries and has them kept; after an error nothing has changed.
    pub fn change<E>(
        &self,
        change: impl FnOnce(&mut LibrarySet) -> Result<(), E>,
        keep: impl FnOnce(&LibrarySet) -> Result<(), E>,
    ) -> Result<(), E> {
        let _one_at_a_time = self.changes.lock();
        let mut set = LibrarySet::clone(&self.now());
        change(&mut set)?;
        keep(&set)?;
        self.set.store(Arc::new(set));
        Ok(())
    }
}
