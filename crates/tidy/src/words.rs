//! Words that make a sentence a riddle, in comments, string literals and Markdown.
//!
//! Each of them stands where a sentence avoids its subject or its number: "who reads so many" for
//! "a reader of more than 16 files". A sentence that names both needs none of them. A comment that
//! begins with a pronoun has its subject elsewhere: in the code around, or in no line at all.

use crate::repo::{Finding, Repo};
use crate::source::{Source, is_word};

/// Words that name no subject.
const ALONE: [&str; 5] = ["somebody", "nobody", "anybody", "everybody", "whoever"];

/// Phrases, in lower case.
const PHRASES: [&str; 9] = [
    "so many",
    "so much",
    "so manyth",
    "in vain",
    "rid of",
    "on its way",
    "of late",
    "hears of",
    "as well as others",
];

/// What stands before a "who" that is a subject of its own: "for who".
const BEFORE_WHO: [&str; 8] = ["for", "of", "to", "by", "from", "with", "than", "those"];

/// What stands behind a "who" that is a subject of its own: "who waits".
const AFTER_WHO: [&str; 22] = [
    "is", "has", "was", "may", "can", "must", "does", "waits", "reads", "asks", "writes", "needs",
    "uses", "takes", "holds", "drains", "keeps", "sees", "wants", "comes", "dies", "died",
];

/// Beginnings of a comment that name no subject, in lower case.
const OPENINGS: [&str; 15] = [
    "it", "its", "he", "his", "she", "her", "they", "them", "their", "theirs", "this", "that",
    "these", "those", "the same",
];

/// The file that lists the words, which may hold them.
const LIST: &str = "crates/tidy/src/words.rs";

/// Every such word, with the phrase that was found.
pub fn riddles(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in repo.sources.iter().filter(|source| source.path != LIST) {
        search(&source.path, &prose(source), &mut found);
    }
    for (path, text) in repo.texts.iter().filter(|(path, _)| path.ends_with(".md")) {
        search(path, text, &mut found);
    }
    found
}

/// Every comment that begins without its subject. Lines of one comment have the same marker in the
/// same column.
pub fn openings(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &repo.sources {
        let mut above = None;
        for (at, line) in source.comments.lines().enumerate() {
            let comment = line.trim();
            let text = comment.trim_start_matches(['/', '!']);
            let here = (line.find(comment), comment.len() - text.len());
            if above != Some(here)
                && let Some(opening) = OPENINGS.into_iter().find(|opening| begins(text, opening))
            {
                let what = format!("begins with \"{opening}\"");
                found.push(Finding::new(&source.path, at + 1, what));
            }
            above = (!comment.is_empty()).then_some(here);
        }
    }
    found
}

/// Whether the first words of `text` are those of `phrase`.
fn begins(text: &str, phrase: &str) -> bool {
    let mut words = text.split(|c| !is_word(c)).filter(|word| !word.is_empty());
    phrase.split(' ').all(|part| words.next().is_some_and(|word| word.to_lowercase() == part))
}

/// The text of `source` without its code: comments and the contents of literals.
fn prose(source: &Source) -> String {
    let mut text = String::with_capacity(source.text.len());
    for (c, code) in source.text.chars().zip(source.code.chars()) {
        text.push(if code.is_whitespace() { c } else { ' ' });
    }
    text
}

fn search(path: &str, text: &str, found: &mut Vec<Finding>) {
    let words: Vec<(usize, String)> = (text.lines().enumerate())
        .flat_map(|(at, line)| {
            let words = line.split(|c: char| !is_word(c)).filter(|word| !word.is_empty());
            words.map(move |word| (at + 1, word.to_lowercase()))
        })
        .collect();
    let word = |at: usize| words.get(at).map_or("", |(_, word)| word);
    for (at, (line, first)) in words.iter().enumerate() {
        let begins =
            |phrase: &str| phrase.split(' ').enumerate().all(|(i, part)| word(at + i) == part);
        let what = if ALONE.contains(&first.as_str()) {
            first.clone()
        } else if let Some(phrase) = PHRASES.into_iter().find(|phrase| begins(phrase)) {
            phrase.to_owned()
        } else if word(at + 1) == "who" && BEFORE_WHO.contains(&first.as_str()) {
            format!("{first} who")
        } else if first == "who"
            && AFTER_WHO.contains(&word(at + 1))
            && !at.checked_sub(1).is_some_and(|before| BEFORE_WHO.contains(&word(before)))
        {
            format!("who {}", word(at + 1))
        } else {
            continue;
        };
        found.push(Finding::new(path, *line, format!("\"{what}\"")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_riddle_is_found_in_comments_strings_and_documents() {
        let code = "//! Waits for who\n//! reads so\n//! many.\nfn nobody() { f(\"in vain\", b) }\n\
                    const A: u8 = 1; // Who waits, and whoever asks.\n\
                    // a reader, and whose file\n";
        let repo = Repo::of(&[("crates/a/src/x.rs", code), ("README.md", "Every so manyth.\n")]);
        let found: Vec<_> = riddles(&repo).iter().map(Finding::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/a/src/x.rs:1: \"for who\"",
                "crates/a/src/x.rs:2: \"so many\"",
                "crates/a/src/x.rs:4: \"in vain\"",
                "crates/a/src/x.rs:5: \"who waits\"",
                "crates/a/src/x.rs:5: \"whoever\"",
                "README.md:1: \"so manyth\"",
            ]
        );
        let found = riddles(&repo);
        let code = found.iter().filter(|finding| finding.path.starts_with("crates/a")).count();
        assert_eq!((found.len(), code), (6, 5));
    }

    #[test]
    fn a_comment_that_begins_without_its_subject_is_found() {
        let code = "//! It opens.\n\n/// The index.\n/// It is sorted.\nfn f() {} // Their age.\n \
                    // THE SAME, again.\n// The samest.\n/// Item.\n///\n/// This is more.\n\
                    // That's not of the item.\nfn g() { h(\"// Its\") }\n";
        let repo = Repo::of(&[("crates/a/src/x.rs", code)]);
        let found: Vec<_> = openings(&repo).iter().map(Finding::to_string).collect();
        let at = |line, opening| format!("crates/a/src/x.rs:{line}: begins with \"{opening}\"");
        assert_eq!(found, [at(1, "it"), at(5, "their"), at(6, "the same"), at(11, "that")]);
    }

    #[test]
    fn the_list_itself_may_hold_them() {
        assert_eq!(riddles(&Repo::of(&[(LIST, "// nobody\n")])), []);
    }
}
