//! Errors that scripts see, and where in a script they come up.

use std::fmt;

use mlua::{BString, Function, Lua, MultiValue, Value};

/// The names of scripts and of libraries, in errors.
pub(super) const NAME: &str = "@user_script";
pub(super) const LIBRARY_NAME: &str = "@user_function";

/// An error of a function of the server.
#[derive(Debug)]
pub(super) enum Thrown {
    /// Scripts see it as a table with these words in the field `err`.
    Words(Vec<u8>),
    /// What a function of the script has thrown, which the server had called.
    Again(Value),
}

impl Thrown {
    /// The error with these words.
    pub(super) fn error(words: &[u8]) -> mlua::Error {
        mlua::Error::external(Self::Words(words.to_vec()))
    }

    /// The error with these words, behind the place of the call, if that is not one by C.
    pub(super) fn placed(lua: &Lua, words: impl AsRef<[u8]>) -> mlua::Error {
        let place = lua.inspect_stack(1, |caller| {
            let (source, line) = (caller.source().short_src?, caller.current_line()?);
            Some(format!("{source}:{line}: "))
        });
        let place = place.flatten().unwrap_or_default();
        match lua.create_string([place.as_bytes(), words.as_ref()].concat()) {
            Ok(words) => Self::again(Value::String(words)),
            Err(error) => error,
        }
    }

    /// The error that a function of the script has thrown.
    pub(super) fn again(thrown: Value) -> mlua::Error {
        match thrown {
            Value::Error(error) => *error,
            value => mlua::Error::external(Self::Again(value)),
        }
    }

    /// Whether an error that a script has caught says that there is no memory left.
    pub(super) fn is_of_memory(caught: &Value) -> bool {
        match caught {
            Value::String(words) => *words == "not enough memory",
            Value::Error(error) => has_no_memory(error),
            _ => false,
        }
    }

    /// What a script sees of an error that it has caught.
    pub(super) fn seen(lua: &Lua, caught: Value) -> mlua::Result<Value> {
        let Value::Error(error) = caught else { return Ok(caught) };
        let words = match error.downcast_ref::<Self>() {
            Some(Self::Again(value)) => return Ok(value.clone()),
            Some(Self::Words(words)) => words.clone(),
            None => format!("ERR {}", text_of(&error)).into_bytes(),
        };
        lua.create_table_from([("err", BString::from(words))]).map(Value::Table)
    }

    /// A function that calls another, which returns `true` and values, or `false` and an error; if
    /// `true` is behind that, it is told where the script has called.
    pub(super) fn door(lua: &Lua, body: Function) -> mlua::Result<Function> {
        lua.create_function(move |lua, given: MultiValue| {
            let mut results: MultiValue = body.call(given)?;
            match results.pop_front() {
                Some(Value::Boolean(true)) => Ok(results),
                _ => {
                    let (words, has_place): (BString, bool) = lua.unpack_multi(results)?;
                    match has_place {
                        true => Err(Self::placed(lua, &words)),
                        false => Err(Self::error(&[b"ERR ", &words[..]].concat())),
                    }
                }
            }
        })
    }
}

impl fmt::Display for Thrown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => write!(f, "{}", words.escape_ascii()),
            Self::Again(value) => write!(f, "{value:?}"),
        }
    }
}

impl std::error::Error for Thrown {}

fn has_no_memory(error: &mlua::Error) -> bool {
    match error {
        mlua::Error::MemoryError(_) => true,
        mlua::Error::CallbackError { cause, .. } => has_no_memory(cause),
        _ => false,
    }
}

/// What an error says, without where in our own code it came up.
pub(super) fn text_of(error: &mlua::Error) -> String {
    match error {
        mlua::Error::SyntaxError { message, .. }
        | mlua::Error::RuntimeError(message)
        | mlua::Error::MemoryError(message) => {
            message.split("\nstack traceback:").next().unwrap_or_default().to_owned()
        }
        mlua::Error::CallbackError { cause, .. } => text_of(cause),
        other => other.to_string(),
    }
}

/// The name and the line of the script or library that runs, or whose call does.
pub(super) fn place(lua: &Lua) -> (Option<&'static str>, Option<usize>) {
    let at = |level: usize| {
        lua.inspect_stack(level, |frame| {
            let source = frame.source().source?;
            let name = [NAME, LIBRARY_NAME].into_iter().find(|name| source == *name)?;
            Some((name, frame.current_line()?))
        })
    };
    (0..).map_while(at).flatten().next().unzip()
}
