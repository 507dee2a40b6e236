//! Pages stay short: what a person is to read from top to bottom has a bound.

use crate::repo::{Finding, Repo};

/// Most rows of the glossary: a longer one means that words are not the field's.
pub const GLOSSARY_ROWS_MAX: usize = 60;
/// Most words of the first page.
pub const README_WORDS_MAX: usize = 900;
/// Most lines of a decision.
pub const DECISION_LINES_MAX: usize = 60;
/// Most lines of a paper's page.
pub const PAPER_LINES_MAX: usize = 150;
/// Most characters of a cell of a table in the pages of the papers.
pub const CELL_LEN_MAX: usize = 200;

/// A glossary with too many rows.
pub fn glossary(repo: &Repo) -> Vec<Finding> {
    let path = "docs/glossary.md";
    let rows = repo.texts.get(path).map_or(0, |text| {
        let lines = text.lines().filter(|line| line.starts_with("| "));
        lines.filter(|line| !line.starts_with("| Word |") && !line.starts_with("| ---")).count()
    });
    let what = format!("{rows} rows, at most {GLOSSARY_ROWS_MAX}");
    Vec::from_iter((rows > GLOSSARY_ROWS_MAX).then(|| Finding::new(path, 0, what)))
}

/// A first page that is longer than a page.
pub fn readme(repo: &Repo) -> Vec<Finding> {
    let path = "README.md";
    // What separates the cells of a table is no word.
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    let count = |text: &String| text.split_whitespace().filter(is_word).count();
    let words = repo.texts.get(path).map_or(0, count);
    let what = format!("{words} words, at most {README_WORDS_MAX}");
    Vec::from_iter((words > README_WORDS_MAX).then(|| Finding::new(path, 0, what)))
}

/// Decisions and pages of papers with too many lines.
pub fn lines(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (begins, most) in
        [("docs/decisions/0", DECISION_LINES_MAX), ("docs/papers/", PAPER_LINES_MAX)]
    {
        for (path, text) in repo.texts.iter().filter(|(path, _)| path.starts_with(begins)) {
            let lines = text.lines().count();
            let what = format!("{lines} lines, at most {most}");
            found.extend((lines > most).then(|| Finding::new(path, 0, what)));
        }
    }
    found
}

/// Cells of the tables of the papers that are too long to be read in a table.
pub fn cells(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in repo.texts.iter().filter(|(path, _)| path.starts_with("docs/papers/")) {
        for (at, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with('|')) {
            let longest = line.split(" | ").map(|cell| cell.trim().chars().count()).max();
            let len = longest.unwrap_or(0);
            if len > CELL_LEN_MAX {
                let what = format!("a cell of {len} characters, at most {CELL_LEN_MAX}");
                found.push(Finding::new(path, at + 1, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_glossary_is_found() {
        let head = "# Glossary\n\n| Word | Meaning |\n| --- | --- |\n".to_owned();
        let of = |rows| head.clone() + &"| Word of ours | a thing |\n".repeat(rows);
        let glossary = |rows: usize| glossary(&Repo::of(&[("docs/glossary.md", &of(rows))]));
        assert_eq!(glossary(GLOSSARY_ROWS_MAX), []);
        assert_eq!(glossary(GLOSSARY_ROWS_MAX + 1).len(), 1);
        assert_eq!(super::glossary(&Repo::of(&[])), []);
    }

    #[test]
    fn a_long_first_page_is_found() {
        let found = |words| readme(&Repo::of(&[("README.md", &"| word ".repeat(words))])).len();
        assert_eq!((found(README_WORDS_MAX), found(README_WORDS_MAX + 1)), (0, 1));
    }

    #[test]
    fn a_long_decision_or_page_of_a_paper_is_found() {
        for (path, most) in [
            ("docs/decisions/0001-a.md", DECISION_LINES_MAX),
            ("docs/papers/a.md", PAPER_LINES_MAX),
        ] {
            let found = |count: usize| {
                let text = "x\n".repeat(count);
                lines(&Repo::of(&[(path, &text), ("docs/b.md", &text)])).len()
            };
            assert_eq!((found(most), found(most + 1)), (0, 1), "{path}");
        }
    }

    #[test]
    fn a_long_cell_is_found() {
        let table = format!("| a | b |\n| {} | b |\n", "x".repeat(CELL_LEN_MAX + 1));
        let repo = Repo::of(&[("docs/papers/a.md", &table), ("docs/b.md", &table)]);
        let found: Vec<_> = cells(&repo).iter().map(|finding| finding.line).collect();
        assert_eq!(found, [2]);
    }
}
