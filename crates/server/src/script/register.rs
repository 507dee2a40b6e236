//! `redis.register_function`: what a library says of its functions.

use mlua::{Function, Lua, LuaString, MultiValue, Table, Value};

/// The flags that scripts and functions may have; those but the first change nothing here.
pub(super) const FLAGS: [&str; 5] =
    ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

/// What is told of a name that is none.
pub(super) const NO_NAME: &str = "Library names can only contain letters, numbers, or \
                                  underscores(_) and must be at least one character long";

/// Whether a library or a function may have a name.
pub(super) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// What a library says of a function.
struct GivenFunction {
    name: LuaString,
    description: Option<LuaString>,
    callback: Function,
    flags: Vec<&'static str>,
}

impl GivenFunction {
    /// What arguments say, or what is wrong with them.
    fn of(lua: &Lua, given: &MultiValue) -> Result<Self, String> {
        match given.iter().collect::<Vec<_>>()[..] {
            [Value::Table(named)] => Self::named(lua, named),
            [_] => {
                Err("calling redis.register_function with a single argument is only applicable \
                        to Lua table (representing named arguments)."
                    .to_owned())
            }
            [name, callback] => {
                let name = text(lua, name).ok_or_else(|| no("first argument", "string"))?;
                let callback =
                    function(callback).ok_or_else(|| no("second argument", "function"))?;
                Ok(Self { name, description: None, callback, flags: Vec::new() })
            }
            _ => Err("wrong number of arguments to redis.register_function".to_owned()),
        }
    }

    fn named(lua: &Lua, named: &Table) -> Result<Self, String> {
        let (mut name, mut description, mut callback, mut flags) = (None, None, None, Vec::new());
        for pair in named.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(|error| error.to_string())?;
            let key = text(lua, &key).map(|key| key.to_string_lossy().to_ascii_lowercase());
            let key =
                key.ok_or("named argument key given to redis.register_function is not a string")?;
            let of = || format!("{key} argument given");
            let words = || text(lua, &value).ok_or_else(|| no(&of(), "string"));
            match &*key {
                "function_name" => name = Some(words()?),
                "description" => description = Some(words()?),
                "callback" => {
                    callback = Some(function(&value).ok_or_else(|| no(&of(), "function"))?);
                }
                "flags" => {
                    let list = value.as_table().ok_or(
                        "flags argument to redis.register_function must be a table representing \
                         function flags",
                    )?;
                    flags = of_flags(lua, list).ok_or("unknown flag given")?;
                }
                _ => return Err("unknown argument given to redis.register_function".to_owned()),
            }
        }
        let missing = |what| format!("redis.register_function must get a {what} argument");
        let name = name.ok_or_else(|| missing("function name"))?;
        let callback = callback.ok_or_else(|| missing("callback"))?;
        Ok(Self { name, description, callback, flags })
    }
}

fn no(what: &str, kind: &str) -> String {
    format!("{what} to redis.register_function must be a {kind}")
}

fn text(lua: &Lua, value: &Value) -> Option<LuaString> {
    lua.coerce_string(value.clone()).ok().flatten()
}

fn function(value: &Value) -> Option<Function> {
    value.as_function().cloned()
}

/// The flags of a list; none if one is not known.
fn of_flags(lua: &Lua, list: &Table) -> Option<Vec<&'static str>> {
    let given = list.sequence_values::<Value>().map(|flag| text(lua, &flag.ok()?));
    let given = given.collect::<Option<Vec<_>>>()?;
    let is = |it: &LuaString, flag: &str| it.as_bytes().eq_ignore_ascii_case(flag.as_bytes());
    let are_known = given.iter().all(|it| FLAGS.iter().any(|flag| is(it, flag)));
    let told = || FLAGS.into_iter().filter(|flag| given.iter().any(|it| is(it, flag))).collect();
    are_known.then(told)
}

/// Adds a function to those of a library; whether it was, and if not, why.
pub(super) fn register(
    lua: &Lua,
    functions: &Table,
    given: &MultiValue,
) -> mlua::Result<(bool, Option<String>)> {
    let GivenFunction { name, description, callback, flags } = match GivenFunction::of(lua, given) {
        Ok(function) => function,
        Err(why) => return Ok((false, Some(why))),
    };
    if !is_name(&name.as_bytes()) {
        return Ok((false, Some(NO_NAME.to_owned())));
    }
    if functions.contains_key(&name)? {
        return Ok((false, Some("Function already exists in the library".to_owned())));
    }
    let told = lua.create_table()?;
    told.raw_set("description", description)?;
    told.raw_set("callback", callback)?;
    told.raw_set("flags", flags)?;
    functions.raw_set(name, told)?;
    Ok((true, None))
}
