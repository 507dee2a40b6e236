//! Where the lines of a shell come from: an editor on a terminal, else a pipe or a file.

use std::io::{self, BufRead, BufReader, stdin};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use clap::CommandFactory;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::Completer;
use rustyline::config::{Behavior, CompletionType};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};

use crate::failure::{Failure, Result};
use crate::formats::Text;
use crate::interrupt;
use crate::shell_line::ShellLine;

const LISTEN_EVERY: Duration = Duration::from_millis(50);

/// The lines of a shell.
pub enum ShellInput {
    /// Typed at a terminal.
    Terminal(Terminal),
    /// Of standard input, which is none.
    Pipe(BufReader<Text>),
}

impl ShellInput {
    /// The lines of standard input; `prompt` is shown at a terminal.
    pub fn open(on_terminal: bool, prompt: &'static str) -> Result<Self> {
        let path = Path::new("-");
        Ok(match on_terminal {
            true => Self::Terminal(Terminal::new(prompt).map_err(Failure::file("read", path))?),
            false => Self::Pipe(BufReader::new(Text::open(path)?)),
        })
    }

    /// Puts the next line into `line`; false at the end.
    pub fn next(&mut self, line: &mut Vec<u8>) -> Result<bool> {
        line.clear();
        let read = match self {
            Self::Terminal(terminal) => terminal.next(line),
            Self::Pipe(pipe) => pipe.read_until(b'\n', line).map(|read| {
                // As other systems end lines: a value with it is quoted.
                if line.ends_with(b"\r\n") {
                    line.truncate(line.len() - 2);
                }
                read > 0
            }),
        };
        read.map_err(Failure::file("read", Path::new("-"))).map_err(interrupt::explain)
    }
}

/// An editor of lines with history, in a thread of its own so that signals are handled while it
/// waits. The history ends with the shell: its lines have keys and values.
pub struct Terminal {
    asked: SyncSender<()>,
    lines: Receiver<std::result::Result<String, ReadlineError>>,
    /// The modes of the terminal, which the editor changes while it waits.
    modes: Termios,
}

impl Terminal {
    fn new(prompt: &'static str) -> io::Result<Self> {
        let modes = tcgetattr(stdin())?;
        let (asked, asks) = sync_channel(0);
        let (sender, lines) = sync_channel(0);
        // Not joined: it may wait for a key without end, and ends with the process.
        thread::spawn(move || {
            let config = Config::builder()
                .auto_add_history(true)
                .behavior(Behavior::PreferTerm)
                // Lines that are pasted are commands, each.
                .bracketed_paste(false)
                .completion_type(CompletionType::List)
                .build();
            let history = MemHistory::with_config(&config);
            let editor = Editor::with_history(config, history);
            let mut editor = match editor {
                Ok(editor) => editor,
                Err(error) => return drop(sender.send(Err(error))),
            };
            editor.set_helper(Some(Words));
            for () in asks {
                if sender.send(editor.readline(prompt)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { asked, lines, modes })
    }

    fn next(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        // A thread that has ended says why below.
        let _ = self.asked.send(());
        loop {
            match self.lines.recv_timeout(LISTEN_EVERY) {
                Ok(Ok(text)) => {
                    line.extend(text.as_bytes());
                    return Ok(true);
                }
                // A line that was given up.
                Ok(Err(ReadlineError::Interrupted)) => return Ok(true),
                Ok(Err(ReadlineError::Eof)) | Err(RecvTimeoutError::Disconnected) => {
                    return Ok(false);
                }
                Ok(Err(ReadlineError::Io(error))) => return Err(error),
                Ok(Err(error)) => return Err(io::Error::other(error)),
                Err(RecvTimeoutError::Timeout) if interrupt::interrupted() => {
                    let _ = tcsetattr(stdin(), OptionalActions::Now, &self.modes);
                    return Err(io::Error::other("interrupted"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// Completes commands, and the options of a command.
struct Words;

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(completions(&line[..position]))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}
impl Validator for Words {}
impl Helper for Words {}

/// Where the last word of `line` begins, and what it may become: the line stands in front of the
/// cursor.
fn completions(line: &str) -> (usize, Vec<String>) {
    let begin = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let word = &line[begin..];
    let shell = ShellLine::command();
    let known: Vec<String> = match line[..begin].split_whitespace().next() {
        None => shell.get_subcommands().map(|command| format!("{} ", command.get_name())).collect(),
        Some(first) => {
            let command = shell.get_subcommands().find(|command| command.get_name() == first);
            let options = command.into_iter().flat_map(|command| command.get_arguments());
            let longs = options.filter_map(|option| option.get_long());
            longs.map(|long| format!("--{long} ")).collect()
        }
    };
    (begin, known.into_iter().filter(|known| known.starts_with(word)).collect())
}

#[cfg(test)]
mod tests {
    use super::completions;

    #[test]
    fn commands_and_their_options_are_completed() {
        assert_eq!(completions("sc"), (0, vec!["scan ".to_owned()]));
        let (begin, options) = completions("scan --re");
        assert_eq!((begin, &options[..]), (5, &["--reverse ".to_owned()][..]));
        assert!(completions("").1.len() > 8);
        assert_eq!(completions("frob --").1, Vec::<String>::new());
    }
}
