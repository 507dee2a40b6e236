//! Files of others: cut off, with columns and fields of their own, and replaced as a whole.

use std::fs;

use cleavedb_testkit::budget::of;

use crate::common::Home;

#[test]
fn a_file_that_is_cut_off_is_an_error_and_never_a_wrong_value() {
    let home = Home::new();
    let csv = "key,value\nfirst,1\nsecond,\"two, and\n\"\"more\"\"\"\nthird,3333\n";
    let rows = [("first", "1"), ("second", "two, and\n\"more\""), ("third", "3333")];
    let cut_in_quotes = |cut| cut > 0 && csv[..cut].matches('"').count() % 2 == 1;
    let json = "{\"key\":\"first\",\"value\":\"1\"}\n{\"key\":\"second\",\"value\":\"two\"}\n";
    for (format, text) in [("--csv", csv), ("--jsonl", json)] {
        for cut in (0..=text.len()).step_by(of(5, 1, 1)) {
            home.file("input", &text.as_bytes()[..cut]);
            let ran = home.run(&["--db", "new", "import", format, "input"]);
            let at_line_end = cut == 0 || cut == text.len() || text.as_bytes()[cut - 1] == b'\n';
            // An object that is closed is whole, whatever follows.
            let whole = format == "--jsonl" && (at_line_end || text.as_bytes()[cut - 1] == b'}');
            let whole =
                whole || (format == "--csv" && at_line_end && cut >= 10 && !cut_in_quotes(cut));
            let line = &text[..cut];
            assert_eq!(ran.code, Some(if whole { 0 } else { 4 }), "{line:?}: {}", ran.err);
            let json = home.run(&["--db", "new", "scan", "--json"]);
            for row in if json.code == Some(0) { json.json() } else { Vec::new() } {
                let (key, value) = (row["key"].as_str().unwrap(), row["value"].as_str().unwrap());
                let right = rows.contains(&(key, value)) || (key, value) == ("second", "two");
                assert!(right, "{line:?}: {key} is {value:?}");
            }
            let _ = fs::remove_dir_all(home.path("new"));
        }
    }
}

#[test]
fn a_table_has_columns_and_delimiter_of_ones_choice() {
    let home = Home::new();
    home.file("t.tsv", b"name\tage\tcity\nann\t41\tBern\nbob\t7\tUlm\n");
    let tabs = ["--csv", "t.tsv", "--delimiter", "tab", "--key-column", "city"];
    home.run(&[&["import"], &tabs[..], &["--value-column", "age"]].concat()).ok();
    assert_eq!(home.run(&["scan"]).text(), "Bern\t41\nUlm\t7\n");
    home.run(&[&["import"], &tabs[..]].concat()).fails(4, "no column value in name,age,city");
    let out = ["export", "--csv", "-", "--delimiter", ";"];
    assert_eq!(home.run(&out).text(), "key;value\nBern;41\nUlm;7\n");
    let named = ["--key-column", "city", "--value-column", "age"];
    let text = home.run(&[&out[..], &named].concat()).text();
    assert_eq!(text, "city;age\nBern;41\nUlm;7\n");
    let bare = home.run(&[&out[..], &["--no-header"]].concat()).ok();
    assert_eq!(bare, b"Bern;41\nUlm;7\n");
    let numbered = ["--db", "b", "import", "--csv", "-", "--delimiter", ";", "--no-header"];
    let swapped = ["--key-column", "2", "--value-column", "1"];
    home.run_with(&[&numbered[..], &swapped].concat(), &bare).ok();
    assert_eq!(home.run(&["--db", "b", "scan"]).text(), "41\tBern\n7\tUlm\n");
    let wide = ["--key-column", "3"];
    home.run_with(&[&numbered[..], &wide].concat(), &bare)
        .fails(4, "line 1: there are not as many");
    home.run(&[&numbered[..], &["--key-column", "0"]].concat()).fails(2, "numbers from 1, not 0");
    home.run(&["import", "--jsonl", "x", "--delimiter", ";"]).fails(2, "--csv");
    home.run(&["import", "--csv", "x", "--delimiter", "ab"]).fails(2, "one byte");
}

#[test]
fn whole_objects_are_values_under_a_field_of_theirs() {
    let home = Home::new();
    let lines = "{\"id\": \"a\", \"n\": 1.50}\n{\"n\":[],\"id\":12345678901234567890123}\n";
    let field = ["--jsonl", "-", "--key-field", "id"];
    let import = [&["import"], &field[..]].concat();
    home.run_with(&import, lines.as_bytes()).ok();
    assert_eq!(home.run(&["get", "a"]).ok(), b"{\"id\": \"a\", \"n\": 1.50}");
    home.run(&["get", "12345678901234567890123"]).ok();
    let mut sorted: Vec<_> = lines.lines().collect();
    sorted.reverse();
    let export = [&["export"], &field[..]].concat();
    assert_eq!(home.run(&export).text(), format!("{}\n", sorted.join("\n")));
    for (line, words) in [
        ("{\"n\":1}", "line 1: missing field `id`"),
        ("{\"id\":null}", "line 1: the field `id` is neither text nor a number"),
        ("{\"id\":\"c\"", "line 1: EOF"),
        ("[\"id\"]", "line 1: invalid type"),
    ] {
        home.run_with(&import, line.as_bytes()).fails(4, words);
    }
    home.run(&["put", "plain", "text"]).ok();
    home.run(&["put", "other", "{\"id\":\"another\"}"]).ok();
    let out = home.run(&export);
    assert!(out.err.contains("refused key plain") && out.err.contains("is another key"));
    assert_eq!((out.code, out.out.len()), (Some(4), lines.len()));
}

#[test]
fn an_export_takes_its_name_when_it_is_whole() {
    let home = Home::new();
    let value = "precious".repeat(200);
    home.fill(&[("damaged", &value), ("whole", "2")]);
    home.run(&["export", "--csv", "out.csv"]).ok();
    home.run(&["export", "--dir", "out"]).ok();
    assert_eq!(fs::read_dir(home.path("out")).unwrap().count(), 2);
    let before = fs::read(home.path("out.csv")).unwrap();
    for entry in fs::read_dir(home.path("cleave.db")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(16).position(|window| window == b"preciousprecious") {
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
    }
    home.run(&["export", "--csv", "out.csv"]).fails(3, "corruption");
    assert_eq!(fs::read(home.path("out.csv")).unwrap(), before, "the old one is still whole");
    home.run(&["export", "--jsonl", "new.jsonl"]).fails(3, "corruption");
    home.run(&["export", "--dir", "new"]).fails(3, "corruption");
    assert_eq!(fs::read_dir(home.path("new")).unwrap().count(), 0);
    let names = fs::read_dir(home.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["cleave.db", "new", "out", "out.csv"], "nothing is left beside");
    home.run(&["export", "--csv", "/dev/null"]).fails(3, "corruption");
}

#[test]
fn an_import_that_stops_says_what_is_in() {
    let home = Home::new();
    let line = |key| format!("{{\"key\":\"key{key}\",\"value\":\"1\"}}\n");
    let lines: String = (0..2500).map(line).collect();
    let cut = format!("{lines}{{\"key\":");
    let import = ["import", "--jsonl", "-"];
    home.run_with(&import, cut.as_bytes()).fails(4, "; 2,500 items stored before it, and kept");
    assert_eq!(home.run(&["scan", "--keys-only"]).text().lines().count(), 2500);
}

/// Editors and spreadsheets begin text with a byte order mark, which is none of it.
#[test]
fn a_byte_order_mark_is_not_part_of_the_text() {
    let home = Home::new();
    let marked = |text: &str| [b"\xef\xbb\xbf", text.as_bytes()].concat();
    let import = |form: &[&str], text: &str| {
        let db = ["--db", "new", "import"];
        home.run_with(&[&db[..], form].concat(), &marked(text)).ok();
        let scanned = home.run(&["--db", "new", "scan"]).text();
        fs::remove_dir_all(home.path("new")).unwrap();
        scanned
    };
    assert_eq!(import(&["--jsonl", "-"], "{\"key\":\"a\",\"value\":\"1\"}\n"), "a\t1\n");
    let field = ["--jsonl", "-", "--key-field", "id"];
    assert_eq!(import(&field, "{\"id\":\"a\"}\n"), "a\t{\"id\":\"a\"}\n");
    assert_eq!(import(&["--csv", "-"], "key,value\na,1\n"), "a\t1\n");
    assert_eq!(import(&["--csv", "-"], "\"key\",\"value\"\na,1\n"), "a\t1\n");
    assert_eq!(import(&["--csv", "-", "--no-header"], "\"a\",1\n"), "a\t1\n");
    assert_eq!(home.run_with(&["shell"], &marked("put a 1\nget a\n")).text(), "1\n");
    // What is only the begin of one is text.
    home.run_with(&["import", "--csv", "-", "--no-header"], b"\xef\xbb,1\n").ok();
    assert_eq!(home.run(&["scan", "--keys-only"]).text(), "a\n\\xef\\xbb\n");
    // A value is kept byte for byte.
    home.run_with(&["put", "value", "-"], &marked("x")).ok();
    assert_eq!(home.run(&["get", "value"]).ok(), marked("x"));
}

#[test]
fn a_moment_may_have_an_offset_from_utc() {
    let home = Home::new();
    let line = |at| format!("{{\"key\":\"a\",\"value\":\"1\",\"expires\":\"{at}\"}}\n");
    let import = ["import", "--jsonl", "-"];
    for at in ["2099-01-01T00:00:00+02:00", "2098-12-31t19:30:00-02:30", "2098-12-31T22:00:00Z"] {
        home.run_with(&import, line(at).as_bytes()).ok();
        let row = home.run(&["--json", "get", "a"]).json().remove(0);
        assert_eq!(row["expires"], "2098-12-31T22:00:00.000Z", "{at}");
    }
    home.run_with(&import, line("2099-01-01T00:00:00+2").as_bytes()).fails(4, "line 1: ");
}

/// `"x"y` would be read as `xy`, which the file does not have.
#[test]
fn text_behind_a_closing_quote_is_refused_with_its_line() {
    let home = Home::new();
    let import = |text: &str| home.run_with(&["import", "--csv", "-"], text.as_bytes());
    import("key,value\na,1\n\"b\nc\",2\n\"x\"y,1\nz,1\n").fails(4, "line 5: text behind a closing");
    assert_eq!(home.run(&["scan"]).text(), "a\t1\nb\\nc\t2\n", "and earlier lines are in");
    for text in ["\"k\"ey,value\n", "key,value\na,\"1\" \n", "key,value\n\"a\"\"b\" \"c\",1\n"] {
        import(text).fails(4, "text behind a closing quote");
    }
    import("key,value\n\"q\"\"\",\"\"\nplain\"quote,1\n").ok();
    assert_eq!(home.run(&["count"]).text(), "4\n");
}

/// Tables such as `zone1970.tab` have comments, and no column for what is empty.
#[test]
fn a_table_may_have_comments_and_rows_of_unequal_length() {
    let home = Home::new();
    let zones = "# \"zone\" table, \"cut\n#codes\tcoordinates\tTZ\tcomments\n\
                 AD\t+4230+00131\tEurope/Andorra\n\
                 AQ\t-6617+11031\tAntarctica/Casey\tCasey\n# the end";
    home.file("zone1970.tab", format!("{zones}\n").as_bytes());
    let table = ["import", "--csv", "zone1970.tab", "--no-header", "--delimiter", "tab"];
    let columns = ["--key-column", "3", "--value-column", "4"];
    let plain = [&table[..], &columns].concat();
    home.run(&plain).fails(4, "line");
    let ragged = [&plain[..], &["--comment", "#", "--ragged"]].concat();
    home.run(&ragged).ok();
    assert_eq!(home.run(&["scan"]).text(), "Antarctica/Casey\tCasey\nEurope/Andorra\t\n");
    home.file("zone1970.tab", zones.as_bytes());
    home.run(&ragged).fails(4, "the file may be cut off");
    home.run(&["import", "--jsonl", "x", "--ragged"]).fails(2, "--csv");
}
