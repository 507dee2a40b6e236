//! One Rust file in three views: the text, the code alone, and the comments alone.
//!
//! The views have the same lines. In the code view comments and the contents of strings and
//! character literals are blank; in the comment view everything but comments is blank. So a rule
//! that searches code for a word does not find it in a sentence or a test's string.

/// A Rust file and its views.
pub struct Source {
    /// Path from the root of the repository, with forward slashes.
    pub path: String,
    /// The file as it is.
    pub text: String,
    /// The code: comments and contents of literals are blanks.
    pub code: String,
    /// The comments with their markers; everything else is blanks.
    pub comments: String,
}

/// State of the lexer.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Code,
    Line,
    Block(u32),
    Text,
    Raw(usize),
}

impl Source {
    /// Splits `text` into its views.
    pub fn new(path: &str, text: &str) -> Self {
        let (code, comments) = split(&text.chars().collect::<Vec<_>>());
        Self { path: path.to_owned(), text: text.to_owned(), code, comments }
    }

    /// Whether the whole file is test code, see [`is_test_path`].
    pub fn is_test_file(&self) -> bool {
        is_test_path(&self.path)
    }

    /// Number of lines in front of the `#[cfg(test)] mod tests { .. }` block that ends the file;
    /// all lines if there is none.
    pub fn product_lines(&self) -> usize {
        let all = self.code.lines().count();
        let Some(at) = self.code.rfind("#[cfg(test)]") else { return all };
        let rest = self.code[at + "#[cfg(test)]".len()..].trim_start();
        if !rest.starts_with("mod tests {") {
            return all;
        }
        let open = self.code.len() - rest.len() + "mod tests ".len();
        match matching_brace(&self.code, open) {
            Some(end) if self.code[end + 1..].trim().is_empty() => line_of(&self.code, at) - 1,
            _ => all,
        }
    }

    /// The code view without its tests: empty for a test file.
    pub fn product_code(&self) -> &str {
        if self.is_test_file() {
            return "";
        }
        let lines = self.product_lines();
        let end = self.code.split_inclusive('\n').take(lines).map(str::len).sum();
        &self.code[..end]
    }
}

/// Whether everything in a file of this path is test code: `tests.rs`, `.._tests.rs`, or under a
/// folder `tests`.
pub fn is_test_path(path: &str) -> bool {
    path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
        || path.split('/').any(|part| part == "tests")
}

/// Number, from 1, of the line that holds byte `at` of `text`.
pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Whether `c` may be part of an identifier.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Byte offsets at which `word` stands in `code`, not as part of a longer identifier.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Byte offset of the brace that closes the one at `open`.
pub fn matching_brace(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0u32;
    for (i, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(open + i),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn split(chars: &[char]) -> (String, String) {
    let mut code = String::with_capacity(chars.len());
    let mut comments = String::with_capacity(chars.len());
    let mut state = State::Code;
    let mut i = 0;
    while i < chars.len() {
        let (next, len, view) = step(chars, i, state);
        for &c in &chars[i..i + len] {
            let blank = if c == '\n' { '\n' } else { ' ' };
            code.push(if view == View::Code { c } else { blank });
            comments.push(if view == View::Comment { c } else { blank });
        }
        state = next;
        i += len;
    }
    (code, comments)
}

/// The view that a character belongs to.
#[derive(Clone, Copy, PartialEq)]
enum View {
    Code,
    Comment,
    Literal,
}

/// The state after the next token, its length in characters, and the view it belongs to.
fn step(chars: &[char], i: usize, state: State) -> (State, usize, View) {
    let at = |k: usize| chars.get(i + k).copied().unwrap_or('\0');
    match state {
        State::Code => step_code(chars, i),
        State::Line if at(0) == '\n' => (State::Code, 1, View::Code),
        State::Line => (State::Line, 1, View::Comment),
        State::Block(depth) => match (at(0), at(1)) {
            ('/', '*') => (State::Block(depth + 1), 2, View::Comment),
            ('*', '/') if depth == 1 => (State::Code, 2, View::Comment),
            ('*', '/') => (State::Block(depth - 1), 2, View::Comment),
            _ => (State::Block(depth), 1, View::Comment),
        },
        State::Text if at(0) == '\\' => (State::Text, 2.min(chars.len() - i), View::Literal),
        State::Text if at(0) == '"' => (State::Code, 1, View::Code),
        State::Text => (State::Text, 1, View::Literal),
        State::Raw(hashes) => {
            let closes = at(0) == '"' && (1..=hashes).all(|k| at(k) == '#');
            if closes { (State::Code, 1 + hashes, View::Code) } else { (state, 1, View::Literal) }
        }
    }
}

fn step_code(chars: &[char], i: usize) -> (State, usize, View) {
    let at = |k: usize| chars.get(i + k).copied().unwrap_or('\0');
    let starts_word = i == 0 || !is_word(chars[i - 1]);
    match (at(0), at(1)) {
        ('/', '/') => (State::Line, 2, View::Comment),
        ('/', '*') => (State::Block(1), 2, View::Comment),
        ('"', _) => (State::Text, 1, View::Code),
        ('r', _) if starts_word => raw_string(chars, i, 1),
        ('b' | 'c', 'r') if starts_word => raw_string(chars, i, 2),
        ('\'', '\\') => {
            let close = (i + 3..chars.len()).find(|&k| chars[k] == '\'').unwrap_or(chars.len() - 1);
            (State::Code, close + 1 - i, View::Literal)
        }
        ('\'', _) if at(2) == '\'' => (State::Code, 3, View::Literal),
        _ => (State::Code, 1, View::Code),
    }
}

/// A raw string whose `r` and any prefix are `prefix` characters, if there is one at `i`.
fn raw_string(chars: &[char], i: usize, prefix: usize) -> (State, usize, View) {
    let hashes = chars[i + prefix..].iter().take_while(|&&c| c == '#').count();
    if chars.get(i + prefix + hashes) == Some(&'"') {
        (State::Raw(hashes), prefix + hashes + 1, View::Code)
    } else {
        (State::Code, 1, View::Code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_comments_are_told_apart() {
        let text = "let a = \"// no { \\\" \"; // yes {\n/* b /* c */ d */ let e = 'x';\n";
        let source = Source::new("x.rs", text);
        assert!(source.code.starts_with("let a = \""));
        assert!(!source.code.contains('{') && source.code.contains("let e ="));
        assert!(source.comments.contains("// yes {") && source.comments.contains("d */"));
        assert!(!source.comments.contains("no"));
        assert_eq!(source.code.lines().count(), text.lines().count());
    }

    #[test]
    fn raw_strings_lifetimes_and_quotes_do_not_confuse_it() {
        let text = "fn f<'a>(r: &'a str) { g(r#\"}\" // {\"#, b'\\'', '\"', '{'); }";
        let source = Source::new("x.rs", text);
        assert_eq!(source.comments.trim(), "");
        let open = source.code.find('{').unwrap();
        assert_eq!(matching_brace(&source.code, open), Some(source.code.len() - 1));
    }

    #[test]
    fn the_test_block_at_the_end_is_not_product_code() {
        let text = "//! x\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
        let source = Source::new("crates/a/src/x.rs", text);
        assert_eq!(source.product_lines(), 3);
        assert!(!source.product_code().contains("fn g"));
        let open_end = format!("{text}fn h() {{}}\n");
        assert_eq!(Source::new("crates/a/src/x.rs", &open_end).product_lines(), 8);
        assert_eq!(Source::new("crates/a/src/x/tests.rs", text).product_code(), "");
    }

    #[test]
    fn words_are_whole_words() {
        let found: Vec<_> = words("unsafe_code unsafe {} my_unsafe", "unsafe").collect();
        assert_eq!(found, [12]);
    }
}
