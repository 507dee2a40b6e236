//! Size: lines of a file, lines of a function, columns of a line.
//!
//! The bounds are on the maximum, because averages hide the outliers: a few huge files and
//! functions make a codebase hard to read.

use crate::repo::{Finding, Repo};
use crate::source::{Source, line_of, matching_brace, words};

/// Most lines of a source file, its test block at the end not counted.
pub const FILE_LINES_MAX: usize = 500;
/// Most lines of a file that holds only tests.
pub const TEST_FILE_LINES_MAX: usize = 800;
/// Most lines of a function, from `fn` to its closing brace.
pub const FUNCTION_LINES_MAX: usize = 70;
/// Most columns of a line: two files fit side by side.
pub const COLUMNS_MAX: usize = 100;

/// Files with too many lines.
pub fn files(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &repo.sources {
        let (lines, max) = if source.is_test_file() {
            (source.text.lines().count(), TEST_FILE_LINES_MAX)
        } else {
            (source.product_lines(), FILE_LINES_MAX)
        };
        if lines > max {
            found.push(Finding::new(&source.path, 0, format!("{lines} lines, at most {max}")));
        }
    }
    found
}

/// Lines with too many columns.
pub fn columns(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &repo.sources {
        for (i, line) in source.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                let what = format!("{columns} columns, at most {COLUMNS_MAX}");
                found.push(Finding::new(&source.path, i + 1, what));
            }
        }
    }
    found
}

/// Functions with too many lines that are not in `accepted`, and entries of `accepted` that are out
/// of date. `accepted` holds lines of path, function and number of lines; `#` begins a comment.
pub fn functions(repo: &Repo, accepted: &str, entries_max: usize) -> Vec<Finding> {
    let list = "crates/tidy/long_functions.txt";
    let mut entries: Vec<(&str, &str, usize)> = Vec::new();
    let mut found = Vec::new();
    for (i, line) in accepted.lines().enumerate() {
        let fields: Vec<_> = line.split_whitespace().collect();
        match fields[..] {
            [path, name, lines] if !path.starts_with('#') && lines.parse::<usize>().is_ok() => {
                entries.push((path, name, lines.parse().unwrap_or(0)));
            }
            [first, ..] if !first.starts_with('#') => {
                found.push(Finding::new(list, i + 1, "not of the form: path function lines"));
            }
            _ => {}
        }
    }
    if entries.len() > entries_max {
        let what = format!("{} entries, at most {entries_max}: it may only shrink", entries.len());
        found.push(Finding::new(list, 0, what));
    }
    for function in repo.sources.iter().flat_map(long_functions) {
        let known =
            entries.iter().position(|(p, n, _)| (*p, *n) == (&function.path, &function.name));
        let allowed = known.map_or(FUNCTION_LINES_MAX, |k| entries.swap_remove(k).2);
        let (name, lines) = (&function.name, function.lines);
        if lines > allowed {
            let what = format!("function {name} has {lines} lines, at most {allowed}");
            found.push(Finding::new(&function.path, function.line, what));
        } else if lines < allowed {
            let what = format!("{}: {name} has {lines} lines now, lower it", function.path);
            found.push(Finding::new(list, 0, what));
        }
    }
    for (path, name, _) in entries {
        found.push(Finding::new(list, 0, format!("{path}: {name} is not long any more, drop it")));
    }
    found
}

/// A function above the bound.
struct Long {
    path: String,
    name: String,
    line: usize,
    lines: usize,
}

fn long_functions(source: &Source) -> Vec<Long> {
    let mut found = Vec::new();
    for at in words(&source.code, "fn") {
        let rest = &source.code[at + 2..];
        let name: String =
            rest.trim_start().chars().take_while(|&c| crate::source::is_word(c)).collect();
        let Some(open) = body(rest).map(|i| at + 2 + i) else { continue };
        let Some(close) = matching_brace(&source.code, open) else { continue };
        let (line, end) = (line_of(&source.code, at), line_of(&source.code, close));
        let lines = end - line + 1;
        if !name.is_empty() && lines > FUNCTION_LINES_MAX {
            found.push(Long { path: source.path.clone(), name, line, lines });
        }
    }
    found
}

/// Offset of the brace that opens the body of the function whose signature `rest` begins with;
/// `None` if the signature ends in a semicolon.
fn body(rest: &str) -> Option<usize> {
    let mut depth = 0i32;
    for (i, c) in rest.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return Some(i),
            ';' if depth == 0 => return None,
            _ if depth < 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long_function(lines: usize) -> String {
        format!("//! x\nfn long(a: [u8; 4]) {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    #[test]
    fn a_long_file_is_found() {
        let product = "fn f() {}\n".repeat(FILE_LINES_MAX);
        let tests = "\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
        let path = "crates/a/src/x.rs";
        assert_eq!(files(&Repo::of(&[(path, &product)])), []);
        let with_tests = format!("{}{tests}", product.trim_end());
        assert_eq!(files(&Repo::of(&[(path, &with_tests)])), [], "tests are not counted");
        let longer = format!("{product}fn g() {{}}\n");
        assert_eq!(files(&Repo::of(&[(path, &longer)])).len(), 1);
        assert_eq!(files(&Repo::of(&[("crates/a/src/x/tests.rs", &longer)])), []);
        let test_file = "fn f() {}\n".repeat(TEST_FILE_LINES_MAX + 1);
        assert_eq!(files(&Repo::of(&[("crates/a/tests/x.rs", &test_file)])).len(), 1);
    }

    #[test]
    fn a_wide_line_is_found() {
        let wide = format!("// {}\n// {}\n", "ü".repeat(97), "ü".repeat(98));
        let found = columns(&Repo::of(&[("x.rs", &wide)]));
        assert_eq!(found, [Finding::new("x.rs", 2, "101 columns, at most 100")]);
    }

    #[test]
    fn a_long_function_is_found() {
        let (fits, long) = (long_function(70), long_function(71));
        assert_eq!(functions(&Repo::of(&[("x.rs", &fits)]), "", 0), []);
        let found = functions(&Repo::of(&[("x.rs", &long)]), "", 0);
        assert_eq!(found, [Finding::new("x.rs", 2, "function long has 71 lines, at most 70")]);
    }

    #[test]
    fn the_list_of_long_functions_may_only_shrink() {
        let repo = Repo::of(&[("x.rs", &long_function(75))]);
        assert_eq!(functions(&repo, "# why\nx.rs long 75\n", 1), []);
        assert_eq!(functions(&repo, "x.rs long 74", 1).len(), 1, "it grew");
        assert_eq!(functions(&repo, "x.rs long 76", 1).len(), 1, "it shrank, the entry must too");
        assert_eq!(functions(&repo, "x.rs long 75\nx.rs gone 80", 2).len(), 1, "stale");
        assert_eq!(functions(&repo, "x.rs long 75", 0).len(), 1, "the list grew");
        assert_eq!(functions(&repo, "x.rs long 75\nwhat is this line", 1).len(), 1, "not an entry");
    }
}
