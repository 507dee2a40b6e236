//! Paths in code: the targets of `use` and expressions through `crate::`, `super::` or `self::`.

use crate::source::{is_word, line_of, words};

/// A path in code, expanded: `crate::a::{b, c::d}` gives two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodePath {
    /// Line of its first segment, from 1.
    pub line: usize,
    /// Segments as written; the first is `crate`, `super` or `self` unless it is a re-export.
    pub segments: Vec<String>,
    /// The name given by `as`.
    pub alias: Option<String>,
    /// Whether it names a macro that is called.
    pub called_macro: bool,
}

/// Every path of `code` that begins with `crate::`, `super::` or `self::`.
pub fn local_paths(code: &str) -> Vec<CodePath> {
    let mut found = Vec::new();
    for first in ["crate", "super", "self"] {
        for at in words(code, first) {
            let before = code[..at].trim_end();
            let continues = before.ends_with("::") || before.ends_with('$');
            if !continues && code[at + first.len()..].starts_with("::") {
                expand(code, at, line_of(code, at), &mut found);
            }
        }
    }
    found
}

/// What the `pub use` declarations of `code` re-export, also with a restricted visibility.
pub fn reexports(code: &str) -> Vec<CodePath> {
    let mut found = Vec::new();
    for at in words(code, "use") {
        let line_start = code[..at].rfind('\n').map_or(0, |i| i + 1);
        if code[line_start..at].trim_start().starts_with("pub") {
            let path = at + 3 + (code[at + 3..].len() - code[at + 3..].trim_start().len());
            expand(code, path, line_of(code, at), &mut found);
        }
    }
    found
}

fn expand(code: &str, at: usize, line: usize, found: &mut Vec<CodePath>) {
    let mut reader = Reader { code, at };
    reader.tree(&[], line, found);
}

/// Reads a use tree from left to right.
struct Reader<'a> {
    code: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.code[self.at..]
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn eat(&mut self, token: &str) -> bool {
        let hit = self.rest().starts_with(token);
        if hit {
            self.at += token.len();
        }
        hit
    }

    fn word(&mut self) -> Option<String> {
        let word: String = self.rest().chars().take_while(|&c| is_word(c)).collect();
        self.at += word.len();
        (!word.is_empty()).then_some(word)
    }

    fn tree(&mut self, prefix: &[String], line: usize, found: &mut Vec<CodePath>) {
        let mut segments = prefix.to_vec();
        loop {
            self.skip_blanks();
            if self.eat("{") {
                self.group(&segments, line, found);
                return;
            }
            if self.eat("*") {
                break;
            }
            let Some(word) = self.word() else { break };
            if word != "self" || segments.is_empty() {
                segments.push(word);
            }
            if !self.eat("::") {
                break;
            }
        }
        let called_macro = self.rest().starts_with('!');
        self.skip_blanks();
        let alias = if self.eat("as ") { self.word() } else { None };
        found.push(CodePath { line, segments, alias, called_macro });
    }

    fn group(&mut self, prefix: &[String], line: usize, found: &mut Vec<CodePath>) {
        loop {
            self.skip_blanks();
            if self.eat("}") || self.rest().is_empty() {
                return;
            }
            let before = self.at;
            self.tree(prefix, line, found);
            self.skip_blanks();
            if !self.eat(",") && self.at == before {
                return; // Not a use tree after all.
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(paths: &[CodePath]) -> Vec<String> {
        let mut spelled: Vec<_> = paths.iter().map(|path| path.segments.join("::")).collect();
        spelled.sort();
        spelled
    }

    #[test]
    fn use_trees_are_expanded() {
        let code = "use crate::{a, b::{self, C as D, e::*}};\nuse super::super::f::g;\n\
                    fn h() { crate::i::j(); self::k!(); $crate::l(); x::crate_y(); }";
        let found = local_paths(code);
        assert_eq!(
            spelled(&found),
            [
                "crate::a",
                "crate::b",
                "crate::b::C",
                "crate::b::e",
                "crate::i::j",
                "self::k",
                "super::super::f::g"
            ]
        );
        let alias = found.iter().find(|path| path.segments.ends_with(&["C".to_owned()])).unwrap();
        assert_eq!((alias.alias.as_deref(), alias.line), (Some("D"), 1));
        assert!(found.iter().any(|path| path.called_macro && path.segments[1] == "k"));
    }

    #[test]
    fn reexports_are_found() {
        let code = "pub use error::{Error, Result};\nuse key::A;\npub(crate) use key::B as C;\n";
        assert_eq!(spelled(&reexports(code)), ["error::Error", "error::Result", "key::B"]);
    }
}
