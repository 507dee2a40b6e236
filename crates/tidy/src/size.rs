//! Size: lines of a file, columns of a line. Clippy counts the lines of functions, and `cargo fmt`
//! leaves comments and strings as wide as they are.
//!
//! The bounds are on the maximum, because averages hide the outliers: a few huge files make a
//! codebase hard to read.

use crate::repo::{Finding, Repo};

/// Most lines of a source file, its test block at the end not counted.
pub const FILE_LINES_MAX: usize = 500;
/// Most lines of a file that holds only tests.
pub const TEST_FILE_LINES_MAX: usize = 800;
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
