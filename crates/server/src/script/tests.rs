//! Drawn tests of what scripts find: patterns beside those of Lua's own library, and bytes that any
//! client may have sent.

use std::time::{Duration, Instant};

use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Value};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::thrown::{NAME, Thrown};
use super::watch::ScriptWatch;
use super::{bits, json, message_pack, strings, structs};

fn runner() -> TestRunner {
    TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })
}

/// A Lua that has Lua's own library of strings, and the functions that scripts have instead.
fn lua() -> (Lua, std::rc::Rc<ScriptWatch>) {
    let libraries = StdLib::STRING | StdLib::TABLE;
    let lua = Lua::new_with(libraries, LuaOptions::default()).unwrap();
    let watch = ScriptWatch::new(&lua).unwrap();
    let globals = lua.globals();
    globals.set("ours", strings::library(&lua, &watch).unwrap()).unwrap();
    globals.set("bit", bits::library(&lua).unwrap()).unwrap();
    globals.set("cjson", json::library(&lua, &watch).unwrap()).unwrap();
    globals.set("cmsgpack", message_pack::library(&lua, &watch).unwrap()).unwrap();
    globals.set("struct", structs::library(&lua).unwrap()).unwrap();
    globals.set("seen", lua.create_function(Thrown::seen).unwrap()).unwrap();
    (lua, watch)
}

/// What a library of strings makes of a text, a pattern and a replacement.
const SEARCHED: &str = r#"
    local library, text, pattern, new, from = ...
    local results = {}
    local function add(is_well, ...)
        local first = ...
        if not is_well then results[#results + 1] = tostring(seen(first)) return end
        for at = 1, select('#', ...) do
            results[#results + 1] = type((select(at, ...))) .. tostring((select(at, ...)))
        end
        results[#results + 1] = '|'
    end
    add(pcall(library.find, text, pattern, from))
    add(pcall(library.find, text, pattern, from, true))
    add(pcall(library.match, text, pattern, from))
    add(pcall(library.gsub, text, pattern, new))
    add(pcall(library.gsub, text, pattern, new, 1))
    add(pcall(library.gsub, text, pattern, {a = 'A', ab = false, b = 7}))
    add(pcall(library.gsub, text, pattern, function(...) add(true, ...) return (...) end))
    add(pcall(function()
        for one, two in library.gmatch(text, pattern) do add(true, one, two) end
    end))
    return table.concat(results, ' ')"#;

/// Pieces of patterns, and bytes that make none.
fn pattern() -> impl Strategy<Value = Vec<u8>> {
    let pieces: &[&[u8]] = &[
        b"a", b"b", b".", b"%a", b"%A", b"%d", b"%s", b"%w", b"%p", b"%x", b"%z", b"%c", b"%l",
        b"%u", b"[ab]", b"[^a]", b"[a-c]", b"[%a_]", b"[^%s]", b"[]]", b"[]-]", b"[a-]", b"[%]",
        b"(", b")", b"()", b"(a*)", b"(.-)", b"%1", b"%2", b"%b()", b"%bab", b"%f[%w]", b"%f[^a]",
        b"*", b"+", b"-", b"?", b"^", b"$", b"%%", b"%.", b"%", b"[", b"]", b"\xff", b"\0", b" ",
    ];
    let piece = prop::sample::select(pieces);
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop::sample::select(b"aaabbc()A_ 1.\xff\0".to_vec());
    prop::collection::vec(byte, 0..14)
}

#[test]
fn patterns_are_those_of_lua() {
    let (lua, _) = lua();
    let searched: Function = lua.load(SEARCHED).set_name(NAME).into_function().unwrap();
    let of = |library: &str, words: &[&[u8]; 3], from: Option<i64>| -> mlua::Result<Vec<u8>> {
        let library: Value = lua.globals().get(library)?;
        let [text, pattern, new] = words.map(|word| lua.create_string(word));
        let results: mlua::LuaString = searched.call((library, text?, pattern?, new?, from))?;
        Ok(results.as_bytes().to_vec())
    };
    let new = prop::sample::select(vec![&b"x"[..], b"%0", b"<%1>", b"%2%1", b"%%", b"%", b""]);
    let from = prop::option::of(-16..16i64);
    let cases = (text(), pattern(), new, from);
    let alike = runner().run(&cases, |(text, pattern, new, from)| {
        let words = [&text[..], &pattern, new];
        let (ours, own) = (of("ours", &words, from), of("string", &words, from));
        let shown = |results: Vec<u8>| results.escape_ascii().to_string();
        prop_assert_eq!(shown(ours.unwrap()), shown(own.unwrap()));
        Ok(())
    });
    alike.unwrap();
}

#[test]
fn a_search_ends_in_time() {
    let piece = prop::sample::select(vec!["a-", "a*", "a?", ".-", "(a-)", "[ab]-", "%b()", "%1"]);
    let hostile = prop::collection::vec(piece, 1..12).prop_map(|pieces| pieces.concat() + "x");
    let ends = runner().run(&hostile, |pattern| {
        let ((lua, watch), text) = (lua(), "a(b".repeat(500));
        let find: Function = lua.load("return pcall(ours.find, ...)").into_function().unwrap();
        let begun = Instant::now();
        watch.begin(Some(begun + Duration::from_millis(2)), Box::new(|| false));
        let _: MultiValue = find.call((text, pattern)).unwrap_or_default();
        prop_assert!(begun.elapsed() < Duration::from_secs(1));
        Ok(())
    });
    ends.unwrap();
}

/// Packs and unpacks a value, and says what has become of it.
const UNPACKED: &str = r#"
    local function shown(value)
        if type(value) ~= 'table' then return type(value) .. tostring(value) end
        local keys, parts = {}, {}
        for key in pairs(value) do keys[#keys + 1] = key end
        table.sort(keys, function(one, other) return tostring(one) < tostring(other) end)
        for at, key in ipairs(keys) do parts[at] = tostring(key) .. '=' .. shown(value[key]) end
        return '{' .. table.concat(parts, ',') .. '}'
    end
    local value = cjson.decode(...)
    return shown(value), shown(cjson.decode(cjson.encode(value))),
        shown(cmsgpack.unpack(cmsgpack.pack(value)))"#;

/// A text in JSON whose arrays and objects are not empty: in Lua an empty one is both.
fn json_text() -> impl Strategy<Value = String> {
    let word = "[ a-z/\\\\\"\u{e9}\u{20ac}\u{1f34e}\\n\u{1}]{0,6}";
    let word = word.prop_map(|word| serde_json::Value::from(word).to_string());
    let number = prop_oneof![
        any::<i32>().prop_map(|number| number.to_string()),
        (any::<i16>(), 1..8u32)
            .prop_map(|(number, parts)| (f64::from(number) / f64::from(1 << parts)).to_string()),
    ];
    let leaf = prop_oneof![Just("true".to_owned()), Just("false".to_owned()), number, word.clone()];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let array = prop::collection::vec(inner.clone(), 1..4);
        let object = prop::collection::vec((word.clone(), inner), 1..4);
        prop_oneof![
            array.prop_map(|items| format!("[{}]", items.join(","))),
            object.prop_map(|pairs| {
                let pairs: Vec<_> = pairs.iter().map(|(key, it)| format!("{key}:{it}")).collect();
                format!("{{{}}}", pairs.join(", "))
            }),
        ]
    })
}

#[test]
fn what_is_packed_is_unpacked() {
    let (lua, _) = lua();
    let unpacked: Function = lua.load(UNPACKED).into_function().unwrap();
    let alike = runner().run(&json_text(), |text| {
        let (value, of_json, of_pack): (String, String, String) = unpacked.call(text).unwrap();
        prop_assert_eq!(&value, &of_json);
        prop_assert_eq!(&value, &of_pack);
        Ok(())
    });
    alike.unwrap();
}

#[test]
fn bytes_that_are_nothing_are_refused() {
    let (lua, _) = lua();
    let tries = "
        local text, format = ...
        pcall(cjson.decode, text)
        pcall(cmsgpack.unpack, text)
        pcall(cmsgpack.unpack_limit, text, 2, 1)
        pcall(struct.unpack, format, text)
        pcall(struct.pack, format, 1, 'ab', 3, text, 2 ^ 53, -1)
        pcall(struct.size, format)
        return pcall(bit.tohex, #text, #format)";
    let tries: Function = lua.load(tries).into_function().unwrap();
    let json = "[\\[\\]{}:,\"0-9eEtrufalsn. \\\\+-]{0,24}".prop_map(String::into_bytes);
    let bytes = prop_oneof![prop::collection::vec(any::<u8>(), 0..40), json];
    let format = "[<>!=bBhHiIlLTfdsxc0-9 ]{0,12}";
    let runs = runner().run(&(bytes, format), |(bytes, format)| {
        let text = lua.create_string(&bytes).unwrap();
        prop_assert!(tries.call::<(bool, Value)>((text, format)).unwrap().0);
        prop_assert!(lua.used_memory() < super::MEMORY_MAX);
        Ok(())
    });
    runs.unwrap();
}
