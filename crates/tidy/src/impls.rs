//! The `impl` blocks of a file: of which type, and whether of a trait.

use std::ops::Range;

use crate::source::{is_word, matching_brace};

/// An `impl` block that stands in no other item.
pub struct Block<'a> {
    /// Byte offset of the word `impl`.
    pub at: usize,
    /// Name of the type, without its path.
    pub of: &'a str,
    /// Whether the block is of the type alone, and not of a trait for it.
    pub inherent: bool,
    /// The body of the block, in bytes of the code.
    pub body: Range<usize>,
}

/// The `impl` blocks of a file.
pub fn blocks(code: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("impl") {
        let begins = at == 0 || code[..at].ends_with('\n');
        let Some(open) = code[at..].find('{').map(|open| at + open).filter(|_| begins) else {
            continue;
        };
        let Some(end) = matching_brace(code, open) else { continue };
        let head = &code[at + "impl".len()..open];
        let of_trait = head.rsplit_once(" for ");
        let of = of_trait.map_or(without_generics(head), |(_, of)| of.trim());
        found.push(Block { at, of: name(of), inherent: of_trait.is_none(), body: open..end });
    }
    found
}

/// The head of a block behind its own generics.
fn without_generics(head: &str) -> &str {
    let mut depth = 0;
    for (at, c) in head.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            c if depth == 0 && is_word(c) => return &head[at..],
            _ => {}
        }
    }
    head
}

/// The last segment of the path at the beginning of `of`; empty for a type without a name.
fn name(of: &str) -> &str {
    let path = of.trim_start_matches("dyn ").split(|c| !is_word(c) && c != ':').next();
    path.and_then(|path| path.rsplit(':').next()).unwrap_or("")
}
