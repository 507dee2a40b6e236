//! Scripts that are known by their digests.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bytes::Bytes;
use lru::LruCache;
use parking_lot::Mutex;

use super::digest::sha1_hex;
use super::engine;
use super::register::FLAGS;
use super::running::RunningScripts;

/// Most scripts that are known, and most bytes of them: the one that was not used for longest goes.
const SCRIPTS_MAX: NonZeroUsize = NonZeroUsize::new(1000).unwrap();
const BYTES_MAX: usize = 32 << 20;

/// Runs of a script that are not tried where it may not wait, once it was too long or has failed.
const UNTRIED: u32 = 100;

/// A script that can be run, or a function of a library.
pub struct Script {
    /// The digest of the text.
    pub sha: String,
    /// The text without the line of flags, or that with the name of the library; its line break
    /// stays.
    pub code: Bytes,
    /// The name of the function.
    pub function: Option<String>,
    /// Whether it has said that it writes nothing; without a line of flags it has said nothing.
    pub writes_nothing: Option<bool>,
    /// Whether it was seen to use keys that it was not called with.
    pub uses_others: AtomicBool,
    /// Runs to come that are not tried where they may not wait.
    untried: AtomicU32,
}

impl Script {
    /// The script of a text, or what is wrong with that.
    fn of(text: &[u8]) -> Result<Self, Vec<u8>> {
        let mut writes_nothing = None;
        let mut code = text;
        if text.starts_with(b"#!") {
            let end = text.iter().position(|byte| *byte == b'\n');
            let end = end.ok_or(&b"Invalid script shebang"[..])?;
            writes_nothing = Some(flags(&text[..end])?);
            code = &text[end..];
        }
        engine::check(code)?;
        Ok(Self::new(sha1_hex(text), Bytes::copy_from_slice(code), None, writes_nothing))
    }

    /// The script, or the function, of a text with this digest.
    pub(super) fn new(
        sha: String,
        code: Bytes,
        function: Option<String>,
        writes_nothing: Option<bool>,
    ) -> Self {
        let (uses_others, untried) = (AtomicBool::new(false), AtomicU32::new(0));
        Self { sha, code, function, writes_nothing, uses_others, untried }
    }

    /// Notes that it was too long or has failed where it may not wait: it is not soon tried again.
    pub fn note_try(&self) {
        self.untried.store(UNTRIED, Ordering::Relaxed);
    }

    /// Whether its next run is to be tried where it may not wait.
    pub fn is_to_be_tried(&self) -> bool {
        let left = self.untried.load(Ordering::Relaxed);
        self.untried.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }
}

/// Whether a line of flags says that the script writes nothing.
fn flags(line: &[u8]) -> Result<bool, Vec<u8>> {
    let mut parts = line.split(u8::is_ascii_whitespace).filter(|part| !part.is_empty());
    let engine = parts.next().unwrap_or_default();
    if engine != b"#!lua" {
        return Err([b"Unexpected engine in script shebang: ", engine].concat());
    }
    let mut writes_nothing = false;
    for part in parts {
        let Some(flags) = part.strip_prefix(b"flags=") else {
            return Err([b"Unknown lua shebang option: ", part].concat());
        };
        for flag in flags.split(|byte| *byte == b',').filter(|_| !flags.is_empty()) {
            if !FLAGS.iter().any(|known| known.as_bytes() == flag) {
                return Err([b"Unexpected flag in script shebang: ", flag].concat());
            }
            writes_nothing |= flag == FLAGS[0].as_bytes();
        }
    }
    Ok(writes_nothing)
}

struct KnownScripts {
    by_sha: LruCache<String, Arc<Script>>,
    bytes: usize,
}

/// The scripts of a server.
pub struct Scripts {
    known: Mutex<KnownScripts>,
    /// Scripts that run.
    pub running: RunningScripts,
}

impl Default for Scripts {
    fn default() -> Self {
        let known = KnownScripts { by_sha: LruCache::new(SCRIPTS_MAX), bytes: 0 };
        Self { known: Mutex::new(known), running: RunningScripts::default() }
    }
}

impl Scripts {
    /// The script with a digest.
    pub fn named(&self, sha: &[u8]) -> Option<Arc<Script>> {
        let sha = str::from_utf8(sha).ok()?.to_ascii_lowercase();
        self.known.lock().by_sha.get(&sha).cloned()
    }

    /// The script of a text, if it is known.
    pub fn of_text(&self, text: &[u8]) -> Option<Arc<Script>> {
        self.known.lock().by_sha.get(&sha1_hex(text)).cloned()
    }

    /// The script of a text, which is known from now on, or what is wrong with that.
    pub fn load(&self, text: &[u8]) -> Result<Arc<Script>, Vec<u8>> {
        if let Some(known) = self.of_text(text) {
            return Ok(known);
        }
        let script = Arc::new(Script::of(text)?);
        let KnownScripts { by_sha, bytes } = &mut *self.known.lock();
        *bytes += script.code.len();
        let replaced = by_sha.push(script.sha.clone(), script.clone());
        *bytes -= replaced.map_or(0, |(_, other)| other.code.len());
        while *bytes > BYTES_MAX && by_sha.len() > 1 {
            *bytes -= by_sha.pop_lru().map_or(0, |(_, other)| other.code.len());
        }
        Ok(script)
    }

    /// Forgets all.
    pub fn flush(&self) {
        let mut known = self.known.lock();
        known.by_sha.clear();
        known.bytes = 0;
    }

    /// Number of scripts that are known.
    pub fn len(&self) -> usize {
        self.known.lock().by_sha.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_that_was_not_used_for_longest_goes() {
        let scripts = Scripts::default();
        let text = |number: usize| format!("return {number}").into_bytes();
        for number in 0..SCRIPTS_MAX.get() {
            scripts.load(&text(number)).unwrap();
        }
        let first = sha1_hex(&text(0));
        assert!(scripts.named(first.to_ascii_uppercase().as_bytes()).is_some());
        scripts.load(&text(SCRIPTS_MAX.get())).unwrap();
        assert_eq!(scripts.len(), SCRIPTS_MAX.get());
        assert!(scripts.named(first.as_bytes()).is_some());
        assert!(scripts.named(sha1_hex(&text(1)).as_bytes()).is_none());
        let long = |number| [&text(number)[..], b"--", &[b'x'; BYTES_MAX / 2]].concat();
        scripts.load(&long(1)).unwrap();
        scripts.load(&long(2)).unwrap();
        assert_eq!(scripts.len(), 1);
        scripts.flush();
        assert_eq!((scripts.len(), scripts.known.lock().bytes), (0, 0));
    }
}
